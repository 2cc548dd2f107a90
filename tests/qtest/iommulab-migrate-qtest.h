/*
 * Move a machine with its virtual clock to another QEMU, from a qtest
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TESTS_IOMMULAB_MIGRATE_QTEST_H
#define TESTS_IOMMULAB_MIGRATE_QTEST_H

#include "libqtest.h"
#include "qobject/qdict.h"

static inline void migrate_wait(QTestState *s)
{
    for (;;) {
        QDict *r = qtest_qmp(s, "{ 'execute': 'query-migrate' }");
        QDict *info = qdict_get_qdict(r, "return");
        const char *status = qdict_get_try_str(info, "status");
        bool done = status && g_str_equal(status, "completed");

        g_assert_false(status && g_str_equal(status, "failed"));
        qobject_unref(r);
        if (done) {
            return;
        }
        g_usleep(1000);
    }
}

/*
 * Save @from to the file @path, end it, and go on in a new QEMU with the same
 * @args at the same time @now in ns.
 */
static inline QTestState *migrate(QTestState *from, const char *args,
                                  int64_t now, const char *path)
{
    g_autofree char *uri = g_strdup_printf("file:%s", path);
    QTestState *to = qtest_initf("%s -incoming defer", args);

    qtest_qmp_assert_success(from, "{ 'execute': 'migrate',"
                             "  'arguments': { 'uri': %s } }", uri);
    migrate_wait(from);
    qtest_quit(from);

    qtest_clock_set(to, now);
    qtest_qmp_assert_success(to, "{ 'execute': 'migrate-incoming',"
                             "  'arguments': { 'uri': %s } }", uri);
    migrate_wait(to);
    qtest_qmp_eventwait(to, "RESUME");
    return to;
}

#endif
