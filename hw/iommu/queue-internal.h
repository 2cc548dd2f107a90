/*
 * IOMMU queue: what its parts share
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_IOMMU_QUEUE_INTERNAL_H
#define HW_IOMMU_QUEUE_INTERNAL_H

#include "hw/iommu/queue.h"

typedef QLIST_HEAD(, IOMMUQueue) IOMMUQueueList;

/* Those with queue-timing; IOMMUs stay for QEMU's whole life. */
extern IOMMUQueueList iommu_queues;

#endif /* HW_IOMMU_QUEUE_INTERNAL_H */
