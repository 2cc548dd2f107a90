/*
 * IOMMU queue: statistics for QMP, HMP and the lab port
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/qapi-commands-iommu.h"
#include "qapi/qapi-visit-iommu.h"
#include "qobject/qjson.h"
#include "qobject/qobject.h"
#include "qapi/qobject-output-visitor.h"
#include "qapi/type-helpers.h"
#include "queue-internal.h"

static IommuQueueHistogram *histogram(const QueueHist *h)
{
    IommuQueueHistogram *r = g_new0(IommuQueueHistogram, 1);
    int n = QUEUE_ENGINE_HIST;

    r->count = h->count;
    r->sum = h->sum;
    r->max = h->max;
    while (n && !h->bucket[n - 1]) {
        n--;
    }
    while (n--) {
        QAPI_LIST_PREPEND(r->buckets, h->bucket[n]);
    }
    return r;
}

static IommuQueueInfo *queue_info(IOMMUQueue *q)
{
    IommuQueueInfo *r = g_new0(IommuQueueInfo, 1);
    QueueEngine *e = &q->engine;
    QueueStats *s = &e->stats;
    IommuQueueClassList **class_tail = &r->classes;
    IommuQueueCpuList **cpu_tail = &r->cpus;

    iommu_queue_run(q);
    queue_engine_stats_update(e, iommu_queue_now());

    r->qom_path = object_get_canonical_path(OBJECT(q->dev));
    r->clock_hz = q->costs.clock_hz;
    r->running = e->running;
    r->halted = e->halted;
    r->entries = e->running ? e->capacity : 0;
    r->occupied = e->running ? (e->tail - e->head) & e->mask : 0;
    r->elapsed_ns = (e->accounted_until - s->since) / 1000;
    r->busy_ns = s->busy_ps / 1000;
    r->full_ns = s->full_ps / 1000;
    r->full_times = s->full_times;
    r->occupancy_max = s->occupancy_max;
    r->occupancy_ns = s->occupancy_ns;
    r->lines = s->lines;
    r->removed = s->removed;
    r->faults = s->faults;
    r->timeouts = s->timeouts;
    r->aborted = s->aborted;
    r->batch = histogram(&s->batch);
    r->wait = histogram(&s->wait_ns);
    for (unsigned i = 0; i < q->n_classes; i++) {
        if (s->commands[i]) {
            IommuQueueClass *c = g_new0(IommuQueueClass, 1);

            c->name = g_strdup(q->classes[i]);
            c->commands = s->commands[i];
            c->ns = s->command_ps[i] / 1000;
            QAPI_LIST_APPEND(class_tail, c);
        }
    }
    for (unsigned i = 0; i <= e->n_cpus; i++) {
        QueueCPUStats *from = &e->cpus[i];

        if (from->doorbells || from->commands || from->polls) {
            IommuQueueCpu *c = g_new0(IommuQueueCpu, 1);

            c->cpu = i < e->n_cpus ? (int)i : -1;
            c->doorbells = from->doorbells;
            c->commands = from->commands;
            c->waits = from->waits;
            c->wait_ns = from->wait_ps / 1000;
            c->polls = from->polls;
            QAPI_LIST_APPEND(cpu_tail, c);
        }
    }
    return r;
}

IommuQueueInfoList *qmp_query_iommu_queues(bool has_reset, bool reset,
                                           Error **errp)
{
    IommuQueueInfoList *list = NULL;
    IOMMUQueue *q;

    QLIST_FOREACH(q, &iommu_queues, entry) {
        QAPI_LIST_PREPEND(list, queue_info(q));
        if (has_reset && reset) {
            queue_engine_stats_reset(&q->engine, iommu_queue_now());
        }
    }
    return list;
}

void iommu_queues_region_begin(void)
{
    IOMMUQueue *q;

    QLIST_FOREACH(q, &iommu_queues, entry) {
        iommu_queue_run(q);
        queue_engine_stats_reset(&q->engine, iommu_queue_now());
    }
}

void iommu_queues_region_report(uint32_t region,
                                void (*emit)(void *opaque, const char *line),
                                void *opaque)
{
    g_autoptr(IommuQueueInfoList) list = qmp_query_iommu_queues(false, false,
                                                                NULL);

    for (IommuQueueInfoList *i = list; i; i = i->next) {
        g_autoptr(GString) json = NULL;
        QObject *obj;
        Visitor *v = qobject_output_visitor_new(&obj);

        visit_type_IommuQueueInfo(v, NULL, &i->value, &error_abort);
        visit_complete(v, &obj);
        visit_free(v);
        json = qobject_to_json(obj);
        qobject_unref(obj);

        /* The object's own members follow after ours. */
        g_string_erase(json, 0, 1);
        g_string_prepend(json, ", ");
        {
            g_autofree char *line = g_strdup_printf(
                "{\"iommulab\": \"queue\", \"region\": %" PRIu32 "%s\n",
                region, json->str);

            emit(opaque, line);
        }
    }
}

static void print_histogram(GString *buf, const char *name,
                            const IommuQueueHistogram *h)
{
    uint64_t from = 0, to = 1;

    if (!h->count) {
        return;
    }
    g_string_append_printf(buf, "  %s: %" PRIu64 ", mean %.1f, max %" PRIu64
                           "\n", name, h->count,
                           (double)h->sum / h->count, h->max);
    for (uint64List *b = h->buckets; b; b = b->next) {
        if (b->value) {
            g_string_append_printf(buf, "    %10" PRIu64 " - %-10" PRIu64
                                   " %" PRIu64 "\n", from, to - 1, b->value);
        }
        from = to;
        to *= 2;
    }
}

HumanReadableText *qmp_x_query_iommu_queues(Error **errp)
{
    g_autoptr(GString) buf = g_string_new("");
    g_autoptr(IommuQueueInfoList) list = qmp_query_iommu_queues(false, false,
                                                                NULL);

    if (!list) {
        g_string_append(buf, "No IOMMU has queue-timing on\n");
    }
    for (IommuQueueInfoList *i = list; i; i = i->next) {
        IommuQueueInfo *q = i->value;
        double elapsed = MAX(q->elapsed_ns, 1);

        g_string_append_printf(buf, "%s: %s, %" PRIu64 " of %" PRIu64
                               " entries\n", q->qom_path,
                               q->halted ? "halted" :
                               q->running ? "running" : "disabled",
                               q->occupied, q->entries);
        g_string_append_printf(buf, "  clock %" PRIu64 " Hz, %" PRIu64
                               " ns, busy %.1f %%, full %.1f %% (%" PRIu64
                               " times), occupancy %.2f, max %" PRIu64 "\n",
                               q->clock_hz, q->elapsed_ns,
                               100 * q->busy_ns / elapsed,
                               100 * q->full_ns / elapsed, q->full_times,
                               q->occupancy_ns / elapsed, q->occupancy_max);
        g_string_append_printf(buf, "  lines %" PRIu64 ", IOTLB entries "
                               "dropped %" PRIu64 ", faults %" PRIu64
                               ", timeouts %" PRIu64 ", aborted waits %"
                               PRIu64 "\n", q->lines, q->removed, q->faults,
                               q->timeouts, q->aborted);
        for (IommuQueueClassList *c = q->classes; c; c = c->next) {
            g_string_append_printf(buf, "  %-16s %10" PRIu64 ", mean %" PRIu64
                                   " ns\n", c->value->name,
                                   c->value->commands,
                                   c->value->ns / c->value->commands);
        }
        print_histogram(buf, "commands a doorbell", q->batch);
        print_histogram(buf, "wait, ns", q->wait);
        for (IommuQueueCpuList *c = q->cpus; c; c = c->next) {
            g_string_append_printf(buf, "  cpu %3" PRIi64 ": %" PRIu64
                                   " doorbells, %" PRIu64 " commands, %"
                                   PRIu64 " waits of %.1f ns, %" PRIu64
                                   " polls\n", c->value->cpu,
                                   c->value->doorbells, c->value->commands,
                                   c->value->waits,
                                   (double)c->value->wait_ns /
                                   MAX(c->value->waits, 1), c->value->polls);
        }
    }
    return human_readable_text_from_str(buf);
}
