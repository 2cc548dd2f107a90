/*
 * IOMMU queue: a queue engine as part of an emulated IOMMU
 *
 * Adds to the queue engine what all IOMMUs need alike: the timer, the clock,
 * properties, migration and statistics.  See docs/specs/iommu-queue.rst.
 *
 * All functions are called with the BQL held.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_IOMMU_QUEUE_H
#define HW_IOMMU_QUEUE_H

#include "hw/clock.h"
#include "hw/iommu/queue-engine.h"
#include "hw/pci/pci.h"
#include "hw/qdev-core.h"
#include "hw/qdev-properties.h"
#include "migration/vmstate.h"
#include "qemu/main-loop.h"
#include "qemu/queue.h"
#include "qemu/timer.h"

/* Cycles of the IOMMU's clock, but for clock_hz and the depths. */
typedef struct IOMMUQueueCosts {
    uint32_t clock_hz;
    uint32_t doorbell;
    uint32_t fetch;
    uint32_t interval;
    uint32_t depth;
    uint32_t inv_all;
    uint32_t inv_context;       /* of one domain, ASID or VMID */
    uint32_t inv_page;
    uint32_t inv_range;         /* for each doubling of the pages */
    uint32_t inv_walk;          /* also intermediate levels, not leaves only */
    uint32_t inv_entry;         /* for each entry dropped from the IOTLB */
    uint32_t config;            /* context, STE or CD */
    uint32_t intr;              /* interrupt entry cache */
    uint32_t other;             /* prefetch and the like */
    uint32_t drain;             /* of reads or of writes */
    uint32_t sync;              /* CMD_SYNC or wait, without its signal */
    uint32_t write;             /* signal: 32 bits to memory, MSI or status */
    uint32_t irq;               /* signal: an interrupt, SEV */
    uint32_t ats;               /* round trip to an endpoint */
    uint32_t ats_depth;         /* requests that may be on their way */
    uint32_t ats_timeout;
} IOMMUQueueCosts;

typedef struct IOMMUQueue {
    bool timing;                /* property: is any of this in use? */
    char *profile;
    IOMMUQueueCosts costs;

    DeviceState *dev;
    const char *const *classes;
    unsigned n_classes;
    QueueEngine engine;
    Clock *clock;
    QEMUTimer *timer;
    QLIST_ENTRY(IOMMUQueue) entry;
} IOMMUQueue;

#define IOMMU_QUEUE_COST(_name, _state, _field, _cost) \
    DEFINE_PROP_UINT32("queue-" _name, _state, _field.costs._cost, UINT32_MAX)

#define DEFINE_IOMMU_QUEUE_PROPERTIES(_s, _f)                               \
    DEFINE_PROP_BOOL("queue-timing", _s, _f.timing, false),                 \
    DEFINE_PROP_STRING("queue-profile", _s, _f.profile),                    \
    IOMMU_QUEUE_COST("clock-hz", _s, _f, clock_hz),                         \
    IOMMU_QUEUE_COST("doorbell", _s, _f, doorbell),                         \
    IOMMU_QUEUE_COST("fetch", _s, _f, fetch),                               \
    IOMMU_QUEUE_COST("interval", _s, _f, interval),                         \
    IOMMU_QUEUE_COST("depth", _s, _f, depth),                               \
    IOMMU_QUEUE_COST("inv-all", _s, _f, inv_all),                           \
    IOMMU_QUEUE_COST("inv-context", _s, _f, inv_context),                   \
    IOMMU_QUEUE_COST("inv-page", _s, _f, inv_page),                         \
    IOMMU_QUEUE_COST("inv-range", _s, _f, inv_range),                       \
    IOMMU_QUEUE_COST("inv-walk", _s, _f, inv_walk),                         \
    IOMMU_QUEUE_COST("inv-entry", _s, _f, inv_entry),                       \
    IOMMU_QUEUE_COST("config", _s, _f, config),                             \
    IOMMU_QUEUE_COST("intr", _s, _f, intr),                                 \
    IOMMU_QUEUE_COST("other", _s, _f, other),                               \
    IOMMU_QUEUE_COST("drain", _s, _f, drain),                               \
    IOMMU_QUEUE_COST("sync", _s, _f, sync),                                 \
    IOMMU_QUEUE_COST("write", _s, _f, write),                               \
    IOMMU_QUEUE_COST("irq", _s, _f, irq),                                   \
    IOMMU_QUEUE_COST("ats", _s, _f, ats),                                   \
    IOMMU_QUEUE_COST("ats-depth", _s, _f, ats_depth),                       \
    IOMMU_QUEUE_COST("ats-timeout", _s, _f, ats_timeout)

/*
 * Settle the costs and set the queue up, if queue-timing is on.
 * Errors: an unreadable or incomplete profile, a value out of range.
 */
bool iommu_queue_realize(IOMMUQueue *q, DeviceState *dev,
                         const QueueEngineOps *ops,
                         const char *const *classes, unsigned n_classes,
                         Error **errp);

/* Picoseconds of virtual time. */
int64_t iommu_queue_now(void);

/* These bring the engine up to now, and are the engine's but for that. */
void iommu_queue_enable(IOMMUQueue *q, uint32_t mask, uint32_t capacity,
                        uint32_t entry_size, uint32_t pos);
bool iommu_queue_stop(IOMMUQueue *q);
void iommu_queue_doorbell(IOMMUQueue *q, uint32_t tail);
void iommu_queue_restart(IOMMUQueue *q);
void iommu_queue_run(IOMMUQueue *q);
void iommu_queue_poll(IOMMUQueue *q, uint32_t reg);
void iommu_queue_reset(IOMMUQueue *q);

/* Before a DMA is translated: what is complete by now has taken effect. */
static inline void iommu_queue_catch_up(IOMMUQueue *q)
{
    if (unlikely(q->timing) && bql_locked()) {
        iommu_queue_run(q);
    }
}

/* QueueEngineOps.arm; the "dev" of all operations is the IOMMUQueue */
void iommu_queue_arm(void *queue, int64_t when);

/* Completions that the function sends for an ATS invalidation; should be 1. */
unsigned iommu_queue_ats_answers(PCIBus *root, uint16_t sid);

extern const VMStateDescription vmstate_iommu_queue;

/* A measured region begins: all queues' statistics start anew. */
void iommu_queues_region_begin(void);
/* It ends: one line of JSON for each queue with queue-timing. */
void iommu_queues_region_report(uint32_t region,
                                void (*emit)(void *opaque, const char *line),
                                void *opaque);

#endif /* HW_IOMMU_QUEUE_H */
