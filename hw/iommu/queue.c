/*
 * IOMMU queue: a queue engine as part of an emulated IOMMU
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/error-report.h"
#include "hw/boards.h"
#include "hw/core/cpu.h"
#include "hw/iommu/queue.h"
#include "hw/pci/pci_device.h"
#include "hw/pci/pcie.h"
#include "hw/qdev-clock.h"
#include "system/vtime.h"
#include "queue-internal.h"
#include "trace.h"

/* A second at 1 GHz; keeps sums of costs far from overflowing. */
#define MAX_COST 1000000000
#define MIN_HZ 1000000

IOMMUQueueList iommu_queues = QLIST_HEAD_INITIALIZER(iommu_queues);

static const struct {
    const char *key;
    size_t offset;
    uint32_t min, max, def;
} costs[] = {
#define COST(_key, _field, _min, _max, _def) \
    { _key, offsetof(IOMMUQueueCosts, _field), _min, _max, _def }
    COST("clock-hz", clock_hz, MIN_HZ, UINT32_MAX - 1, 1000000000),
    COST("doorbell", doorbell, 0, MAX_COST, 0),
    COST("fetch", fetch, 0, MAX_COST, 0),
    COST("interval", interval, 0, MAX_COST, 0),
    COST("depth", depth, 1, QUEUE_ENGINE_MAX_DEPTH, 1),
    COST("inv-all", inv_all, 0, MAX_COST, 0),
    COST("inv-context", inv_context, 0, MAX_COST, 0),
    COST("inv-page", inv_page, 0, MAX_COST, 0),
    COST("inv-range", inv_range, 0, MAX_COST / 64, 0),
    COST("inv-walk", inv_walk, 0, MAX_COST, 0),
    COST("inv-entry", inv_entry, 0, MAX_COST, 0),
    COST("config", config, 0, MAX_COST, 0),
    COST("intr", intr, 0, MAX_COST, 0),
    COST("other", other, 0, MAX_COST, 0),
    COST("drain", drain, 0, MAX_COST, 0),
    COST("sync", sync, 0, MAX_COST, 0),
    COST("write", write, 0, MAX_COST, 0),
    COST("irq", irq, 0, MAX_COST, 0),
    COST("ats", ats, 0, MAX_COST, 0),
    COST("ats-depth", ats_depth, 1, QUEUE_ENGINE_MAX_DEPTH, 32),
    COST("ats-timeout", ats_timeout, 0, MAX_COST, 0),
#undef COST
};

static uint32_t *cost_field(IOMMUQueue *q, int i)
{
    return (uint32_t *)((char *)&q->costs + costs[i].offset);
}

/* Group [iommu] of the profile: each cost has to be there, and nothing else */
static bool load_profile(IOMMUQueue *q, Error **errp)
{
    g_autoptr(GKeyFile) kf = g_key_file_new();
    g_autoptr(GError) gerr = NULL;
    g_auto(GStrv) keys = NULL;

    if (!g_key_file_load_from_file(kf, q->profile, G_KEY_FILE_NONE, &gerr) ||
        !(keys = g_key_file_get_keys(kf, "iommu", NULL, &gerr))) {
        error_setg(errp, "queue-profile: cannot use '%s': %s", q->profile,
                   gerr->message);
        return false;
    }
    for (int k = 0; keys[k]; k++) {
        bool known = false;

        for (int i = 0; i < ARRAY_SIZE(costs); i++) {
            known |= g_str_equal(keys[k], costs[i].key);
        }
        if (!known) {
            error_setg(errp, "queue-profile: '%s': no cost '%s' in [iommu]",
                       q->profile, keys[k]);
            return false;
        }
    }
    for (int i = 0; i < ARRAY_SIZE(costs); i++) {
        uint64_t v = g_key_file_get_uint64(kf, "iommu", costs[i].key, &gerr);

        if (gerr) {
            error_setg(errp, "queue-profile: '%s': %s", q->profile,
                       gerr->message);
            return false;
        }
        if (v < costs[i].min || v > costs[i].max) {
            error_setg(errp, "queue-profile: '%s': %s of [iommu] must be "
                       "within %" PRIu32 "..%" PRIu32, q->profile,
                       costs[i].key, costs[i].min, costs[i].max);
            return false;
        }
        if (*cost_field(q, i) == UINT32_MAX) {
            *cost_field(q, i) = v;
        }
    }
    return true;
}

static bool settle_costs(IOMMUQueue *q, Error **errp)
{
    if (q->profile && !load_profile(q, errp)) {
        return false;
    }
    for (int i = 0; i < ARRAY_SIZE(costs); i++) {
        uint32_t *v = cost_field(q, i);

        if (*v == UINT32_MAX) {
            *v = costs[i].def;
        }
        if (*v < costs[i].min || *v > costs[i].max) {
            error_setg(errp, "queue-%s must be within %" PRIu32 "..%" PRIu32,
                       costs[i].key, costs[i].min, costs[i].max);
            return false;
        }
    }
    return true;
}

static bool costs_given(IOMMUQueue *q)
{
    for (int i = 0; i < ARRAY_SIZE(costs); i++) {
        if (*cost_field(q, i) != UINT32_MAX) {
            return true;
        }
    }
    return q->profile;
}

int64_t iommu_queue_now(void)
{
    return vtime_enabled() ? vtime_get_ps()
                           : qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) * 1000;
}

void iommu_queue_arm(void *queue, int64_t when)
{
    IOMMUQueue *q = queue;

    if (when == QUEUE_ENGINE_NEVER) {
        timer_del(q->timer);
    } else {
        timer_mod_ns(q->timer, DIV_ROUND_UP(MAX(when, 0), 1000));
    }
}

/*
 * Commands may write to any address, that of the IOMMU's own registers among
 * them.  Within a register access the memory core refuses that already.
 */
#define WITH_GUARD(_q, _what) do {                                          \
        bool *engaged = &(_q)->dev->mem_reentrancy_guard.engaged_in_io;     \
        bool was = *engaged;                                                \
                                                                            \
        *engaged = true;                                                    \
        _what;                                                              \
        *engaged = was;                                                     \
    } while (0)

void iommu_queue_run(IOMMUQueue *q)
{
    WITH_GUARD(q, queue_engine_run(&q->engine, iommu_queue_now()));
}

static void queue_timer(void *opaque)
{
    IOMMUQueue *q = opaque;

    q->engine.wake = QUEUE_ENGINE_NEVER;
    iommu_queue_run(q);
}

static int this_cpu(void)
{
    return current_cpu ? current_cpu->cpu_index : -1;
}

void iommu_queue_enable(IOMMUQueue *q, uint32_t mask, uint32_t capacity,
                        uint32_t entry_size, uint32_t pos)
{
    queue_engine_enable(&q->engine, mask, capacity, entry_size, pos,
                        iommu_queue_now());
}

bool iommu_queue_stop(IOMMUQueue *q)
{
    bool stopped;

    WITH_GUARD(q, stopped = queue_engine_stop(&q->engine, iommu_queue_now()));
    return stopped;
}

void iommu_queue_doorbell(IOMMUQueue *q, uint32_t tail)
{
    WITH_GUARD(q, queue_engine_doorbell(&q->engine, tail, iommu_queue_now(),
                                        this_cpu()));
}

void iommu_queue_restart(IOMMUQueue *q)
{
    WITH_GUARD(q, queue_engine_restart(&q->engine, iommu_queue_now()));
}

void iommu_queue_poll(IOMMUQueue *q, uint32_t reg)
{
    trace_iommu_queue_poll(q->engine.id, iommu_queue_now(), this_cpu(), reg);
    queue_engine_poll(&q->engine, this_cpu());
}

void iommu_queue_reset(IOMMUQueue *q)
{
    if (q->timing) {
        queue_engine_reset(&q->engine);
    }
}

unsigned iommu_queue_ats_answers(PCIBus *root, uint16_t sid)
{
    PCIDevice *d = root ? pci_find_device(root, PCI_BUS_NUM(sid), sid & 0xff)
                        : NULL;

    if (!d || !d->exp.ats_cap ||
        !(pci_get_word(d->config + d->exp.ats_cap + PCI_ATS_CTRL) &
          PCI_ATS_CTRL_ENABLE)) {
        return 0;
    }
    /* Of a device that can be told to misbehave */
    return object_property_find(OBJECT(d), "ats-answers") ?
           object_property_get_uint(OBJECT(d), "ats-answers", &error_abort) :
           1;
}

bool iommu_queue_realize(IOMMUQueue *q, DeviceState *dev,
                         const QueueEngineOps *ops,
                         const char *const *classes, unsigned n_classes,
                         Error **errp)
{
    static uint32_t id;

    if (!q->timing) {
        if (costs_given(q)) {
            error_setg(errp, "the queue-... properties need queue-timing=on");
            return false;
        }
        return true;
    }
    if (!settle_costs(q, errp)) {
        return false;
    }
    g_assert(n_classes <= QUEUE_ENGINE_MAX_CLASSES);
    q->dev = dev;
    q->classes = classes;
    q->n_classes = n_classes;
    queue_engine_init(&q->engine, ops, q, current_machine->smp.max_cpus);
    q->engine.id = id++;
    q->clock = clock_new(OBJECT(dev), "queue-clock");
    clock_set_hz(q->clock, q->costs.clock_hz);
    q->engine.period = clock_get(q->clock);
    q->engine.costs = (QueueCosts) {
        .doorbell = q->costs.doorbell,
        .fetch = q->costs.fetch,
        .interval = q->costs.interval,
        .depth = q->costs.depth,
        .entry = q->costs.inv_entry,
        .remote_depth = q->costs.ats_depth,
    };
    q->timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, queue_timer, q);
    QLIST_INSERT_HEAD(&iommu_queues, q, entry);
    return true;
}

/* ------------------------------------------------------------ migration */

static const VMStateDescription vmstate_queue_cmd = {
    .name = "iommu-queue-command",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64_ARRAY(desc, QueueCmd, 4),
        VMSTATE_UINT32(pos, QueueCmd),
        VMSTATE_UINT32(error, QueueCmd),
        VMSTATE_UINT8(class, QueueCmd),
        VMSTATE_UINT8(flags, QueueCmd),
        VMSTATE_BOOL(executed, QueueCmd),
        VMSTATE_BOOL(timeout, QueueCmd),
        VMSTATE_INT32(cpu, QueueCmd),
        VMSTATE_INT64(submit, QueueCmd),
        VMSTATE_INT64(start, QueueCmd),
        VMSTATE_INT64(done, QueueCmd),
        VMSTATE_END_OF_LIST()
    }
};

static const VMStateDescription vmstate_queue_doorbell = {
    .name = "iommu-queue-doorbell",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]) {
        VMSTATE_INT64(time, QueueDoorbell),
        VMSTATE_INT64(arrival, QueueDoorbell),
        VMSTATE_UINT64(end, QueueDoorbell),
        VMSTATE_INT32(cpu, QueueDoorbell),
        VMSTATE_END_OF_LIST()
    }
};

static int queue_post_load(void *opaque, int version_id)
{
    IOMMUQueue *q = opaque;

    if (!q->timing) {
        error_report("%s: queue-timing has to be on as at the source",
                     vmstate_iommu_queue.name);
        return -EINVAL;
    }
    if (!queue_engine_loaded(&q->engine)) {
        return -EINVAL;
    }
    q->engine.accounted_until = iommu_queue_now();
    q->engine.stats.since = q->engine.accounted_until;
    return 0;
}

/* Statistics stay behind: they are about the host process. */
const VMStateDescription vmstate_iommu_queue = {
    .name = "iommu-queue",
    .version_id = 2,            /* 1 had 64 commands in flight */
    .minimum_version_id = 2,
    .post_load = queue_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT32(engine.mask, IOMMUQueue),
        VMSTATE_UINT32(engine.capacity, IOMMUQueue),
        VMSTATE_UINT32(engine.entry_size, IOMMUQueue),
        VMSTATE_BOOL(engine.running, IOMMUQueue),
        VMSTATE_BOOL(engine.stopping, IOMMUQueue),
        VMSTATE_BOOL(engine.halted, IOMMUQueue),
        VMSTATE_UINT32(engine.head, IOMMUQueue),
        VMSTATE_UINT32(engine.next, IOMMUQueue),
        VMSTATE_UINT32(engine.tail, IOMMUQueue),
        VMSTATE_UINT64(engine.seq_next, IOMMUQueue),
        VMSTATE_UINT64(engine.seq_tail, IOMMUQueue),
        VMSTATE_STRUCT_ARRAY(engine.cmds, IOMMUQueue, QUEUE_ENGINE_INFLIGHT,
                             1, vmstate_queue_cmd, QueueCmd),
        VMSTATE_UINT64(engine.seq_done, IOMMUQueue),
        VMSTATE_UINT64(engine.seq_head, IOMMUQueue),
        VMSTATE_STRUCT_ARRAY(engine.doorbells, IOMMUQueue,
                             QUEUE_ENGINE_DOORBELLS, 1,
                             vmstate_queue_doorbell, QueueDoorbell),
        VMSTATE_UINT32(engine.first_doorbell, IOMMUQueue),
        VMSTATE_UINT32(engine.n_doorbells, IOMMUQueue),
        VMSTATE_INT64(engine.fetch_at, IOMMUQueue),
        VMSTATE_INT64(engine.line_at, IOMMUQueue),
        VMSTATE_UINT32(engine.line_left, IOMMUQueue),
        VMSTATE_BOOL(engine.line_fresh, IOMMUQueue),
        VMSTATE_INT64(engine.start_at, IOMMUQueue),
        VMSTATE_INT64(engine.last_done, IOMMUQueue),
        VMSTATE_INT64(engine.fence_at, IOMMUQueue),
        VMSTATE_INT64_ARRAY(engine.slots, IOMMUQueue, QUEUE_ENGINE_MAX_DEPTH),
        VMSTATE_UINT32(engine.n_slots, IOMMUQueue),
        VMSTATE_INT64_ARRAY(engine.remotes, IOMMUQueue,
                            QUEUE_ENGINE_MAX_DEPTH),
        VMSTATE_UINT32(engine.n_remotes, IOMMUQueue),
        VMSTATE_INT64(engine.deferred, IOMMUQueue),
        VMSTATE_BOOL(engine.faulty, IOMMUQueue),
        VMSTATE_END_OF_LIST()
    }
};
