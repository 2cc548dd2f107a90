/*
 * vtime: cost profiles
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "system/vtime.h"

static const struct {
    const char *group, *key;
    size_t offset;
    int64_t min;
} keys[] = {
    { "cpu", "ps-per-insn", offsetof(VTimeProfile, ps_per_insn), 1 },
    { "cpu", "pause-ps", offsetof(VTimeProfile, pause), 0 },
    { "mmio", "read-ps", offsetof(VTimeProfile, mmio_read), 0 },
    { "mmio", "write-ps", offsetof(VTimeProfile, mmio_write), 0 },
    { "interrupt", "ipi-ps", offsetof(VTimeProfile, ipi), 0 },
    { "interrupt", "irq-ps", offsetof(VTimeProfile, irq), 0 },
};

bool vtime_profile_load(VTimeProfile *p, const char *path, Error **errp)
{
    g_autoptr(GKeyFile) kf = g_key_file_new();
    g_autoptr(GError) gerr = NULL;
    g_autofree char *name = NULL;

    if (!g_key_file_load_from_file(kf, path, G_KEY_FILE_NONE, &gerr)) {
        error_setg(errp, "vtime-profile: cannot load '%s': %s", path,
                   gerr->message);
        return false;
    }
    name = g_key_file_get_string(kf, "profile", "name", NULL);
    if (!name) {
        error_setg(errp, "vtime-profile: '%s' lacks name in [profile]", path);
        return false;
    }

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        int64_t *field = (int64_t *)((char *)p + keys[i].offset);
        int64_t v = g_key_file_get_int64(kf, keys[i].group, keys[i].key,
                                         &gerr);

        if (gerr) {
            error_setg(errp, "vtime-profile: '%s': %s", path, gerr->message);
            return false;
        }
        if (v < keys[i].min || v > VTIME_MAX_COST_PS) {
            error_setg(errp, "vtime-profile: '%s': %s of [%s] must be within "
                       "%" PRId64 "..%lld ps", path, keys[i].key,
                       keys[i].group, keys[i].min, VTIME_MAX_COST_PS);
            return false;
        }
        *field = v;
    }
    g_free(p->name);
    p->name = g_steal_pointer(&name);
    return true;
}
