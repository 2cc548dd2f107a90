/*
 * SMMUv3: a command queue that takes time, and CMD_SYNC's signals
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_ARM_SMMUV3_QUEUE_H
#define HW_ARM_SMMUV3_QUEUE_H

#include "hw/iommu/queue.h"

typedef struct SMMUv3Queue {
    IOMMUQueue q;
    /* Features to advertise */
    bool msi;
    bool sev;
    bool ril;
    bool ats;
    uint8_t cmdqs;
    /* An ATC_INV timed out since the last CMD_SYNC */
    bool atc_failed;
} SMMUv3Queue;

#define DEFINE_SMMUV3_QUEUE_PROPERTIES(_s, _f)          \
    DEFINE_IOMMU_QUEUE_PROPERTIES(_s, _f.q),            \
    DEFINE_PROP_BOOL("msi", _s, _f.msi, false),         \
    DEFINE_PROP_BOOL("sev", _s, _f.sev, false),         \
    DEFINE_PROP_BOOL("ril", _s, _f.ril, true),          \
    DEFINE_PROP_BOOL("x-ats", _s, _f.ats, false),       \
    DEFINE_PROP_UINT8("cmdqs", _s, _f.cmdqs, 19)

typedef struct SMMUv3State SMMUv3State;
struct Cmd;

bool smmuv3_queue_realize(SMMUv3State *s, Error **errp);
/* Reset: the ID registers' fields that properties decide; nothing in flight */
void smmuv3_queue_reset(SMMUv3State *s);
/*
 * CR0, GERRORN or CMDQ_PROD was written.  False if queue-timing is off: the
 * caller then consumes all commands at once.
 */
bool smmuv3_queue_kick(SMMUv3State *s);
/* A register is read or about to be written. */
void smmuv3_queue_access(SMMUv3State *s, hwaddr offset, bool is_write);
/* CMD_SYNC completes: signal it as it asks.  Returns an SMMUCmdError. */
int smmuv3_queue_sync(SMMUv3State *s, const struct Cmd *cmd);
/* Send the MSI that is configured for this SMMUIrq, if one is. */
bool smmuv3_queue_msi(SMMUv3State *s, int irq);

extern const VMStateDescription vmstate_smmuv3_command_queue;

/* Of smmuv3.c: process the command, or if NULL, all of the queue. */
int smmuv3_cmdq_process(SMMUv3State *s, const struct Cmd *timed);
void smmuv3_trigger_irq(SMMUv3State *s, int irq, uint32_t gerror_mask);

#endif /* HW_ARM_SMMUV3_QUEUE_H */
