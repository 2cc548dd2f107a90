/*
 * VT-d: an invalidation queue that takes time
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_I386_INTEL_IOMMU_QUEUE_H
#define HW_I386_INTEL_IOMMU_QUEUE_H

#include "hw/iommu/queue.h"

typedef struct VTDQueue {
    IOMMUQueue q;
    const QueueCmd *current;    /* the descriptor that takes effect now */
} VTDQueue;

typedef struct IntelIOMMUState IntelIOMMUState;
union VTDInvDesc;

bool vtd_queue_realize(IntelIOMMUState *s, Error **errp);
void vtd_queue_reset(IntelIOMMUState *s);
/*
 * The queue was enabled, its tail moved or an error was cleared.  False if
 * queue-timing is off: the caller then processes all descriptors at once.
 */
bool vtd_queue_kick(IntelIOMMUState *s);
/* GCMD.QIE was cleared; false as above. */
bool vtd_queue_disable(IntelIOMMUState *s);
/* A register is read or about to be written. */
void vtd_queue_access(IntelIOMMUState *s, hwaddr addr, bool is_write);
/* The descriptor to process, if it is not to be read from memory. */
bool vtd_queue_current(IntelIOMMUState *s, union VTDInvDesc *desc);

extern const VMStateDescription vmstate_vtd_queue;

/* Of intel_iommu.c */
bool vtd_process_inv_desc(IntelIOMMUState *s);
void vtd_generate_fault_event(IntelIOMMUState *s, uint32_t pre_fsts);

#endif /* HW_I386_INTEL_IOMMU_QUEUE_H */
