/*
 * VT-d: an invalidation queue that takes time
 *
 * Section numbers are those of the Intel VT-d architecture specification,
 * revision 4.1.  See docs/specs/intel-iommu-queue.rst.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "exec/address-spaces.h"
#include "hw/i386/intel_iommu.h"
#include "hw/i386/pc.h"
#include "system/dma.h"
#include "intel_iommu_internal.h"

/* Fault Status Register, 11.4.7.1 */
#define FSTS_ICE                0x20u
#define FSTS_W1C                0x71u   /* ITE, ICE, IQE, PFO */
/* Invalidation Queue Error Record Register, 11.4.9.9 */
#define DMAR_IQERCD_REG         0xb0
#define IQERCD_IQEI(iqei)       ((uint64_t)(iqei))
#define IQERCD_IQEI_MASK        0xfULL
#define IQERCD_ITESID(sid)      ((uint64_t)(sid) << 32)
#define IQERCD_ITESID_MASK      (0xffffULL << 32)
#define IQERCD_ICESID(sid)      ((uint64_t)(sid) << 48)
#define IQERCD_ICESID_MASK      (0xffffULL << 48)

/*
 * IQEI, 11.4.9.9.  The engine takes 0 for "no error", so that its error codes
 * are these plus ERROR_BASE.
 */
enum {
    IQEI_UNKNOWN = 0,
    IQEI_BAD_TAIL = 1,
    IQEI_FETCH = 2,
    IQEI_BAD_TYPE = 3,
    IQEI_RESERVED = 4,
    IQEI_BAD_WIDTH = 5,
};
#define ERROR_BASE 0x100

/* IOTLB invalidate, 6.5.2.3 */
#define IOTLB_DRAIN_WRITES      (1ULL << 6)
#define IOTLB_DRAIN_READS       (1ULL << 7)
#define IOTLB_IH                (1ULL << 6)     /* of the upper half */

enum {
    CLASS_CONTEXT,
    CLASS_IOTLB_GLOBAL,
    CLASS_IOTLB_DOMAIN,
    CLASS_IOTLB_PAGE,
    CLASS_DEVTLB,
    CLASS_INTR,
    CLASS_PASID,
    CLASS_WAIT,
    CLASS_INVALID,
};

static const char *const class_names[] = {
    [CLASS_CONTEXT] = "context-cache",
    [CLASS_IOTLB_GLOBAL] = "iotlb-global",
    [CLASS_IOTLB_DOMAIN] = "iotlb-domain",
    [CLASS_IOTLB_PAGE] = "iotlb-page",
    [CLASS_DEVTLB] = "device-tlb",
    [CLASS_INTR] = "interrupt-entry",
    [CLASS_PASID] = "pasid-cache",
    [CLASS_WAIT] = "wait",
    [CLASS_INVALID] = "invalid",
};

static IntelIOMMUState *vtd_of(void *queue)
{
    return container_of(queue, IntelIOMMUState, queue.q);
}

static uint32_t reg_get(IntelIOMMUState *s, hwaddr reg)
{
    return ldl_le_p(&s->csr[reg]);
}

static void reg_set(IntelIOMMUState *s, hwaddr reg, uint32_t val)
{
    stl_le_p(&s->csr[reg], val);
}

static void set_head(IntelIOMMUState *s, uint32_t pos)
{
    s->iq_head = pos;
    stq_le_p(&s->csr[DMAR_IQH_REG],
             (uint64_t)pos << (s->iq_dw ? VTD_IQH_QH_SHIFT_5
                                        : VTD_IQH_QH_SHIFT_4));
}

static void set_iqercd(IntelIOMMUState *s, uint64_t mask, uint64_t val)
{
    uint64_t old = ldq_le_p(&s->csr[DMAR_IQERCD_REG]);

    stq_le_p(&s->csr[DMAR_IQERCD_REG], (old & ~mask) | val);
}

static void raise_fault(IntelIOMMUState *s, uint32_t bit)
{
    uint32_t fsts = reg_get(s, DMAR_FSTS_REG);

    reg_set(s, DMAR_FSTS_REG, fsts | bit);
    vtd_generate_fault_event(s, fsts);
}

static void raise_iqe(IntelIOMMUState *s, unsigned iqei)
{
    set_iqercd(s, IQERCD_IQEI_MASK, IQERCD_IQEI(iqei));
    raise_fault(s, VTD_FSTS_IQE);
}

/* --------------------------------------------------------------- decoder */

/* Fields that are reserved must be 0; so must the upper half, if unused. */
static bool reserved(IntelIOMMUState *s, const VTDInvDesc *d, uint64_t lo,
                     uint64_t hi)
{
    return d->val[0] & lo || d->val[1] & hi ||
           (s->iq_dw && (d->val[2] || d->val[3]));
}

static int decode_iotlb(IntelIOMMUState *s, const VTDInvDesc *d,
                        QueueCmd *cmd, uint64_t *cycles)
{
    const IOMMUQueueCosts *cost = &s->queue.q.costs;
    unsigned am = VTD_INV_DESC_IOTLB_AM(d->hi);

    if (reserved(s, d, VTD_INV_DESC_IOTLB_RSVD_LO,
                 VTD_INV_DESC_IOTLB_RSVD_HI)) {
        return IQEI_RESERVED;
    }
    switch (d->lo & VTD_INV_DESC_IOTLB_G) {
    case VTD_INV_DESC_IOTLB_GLOBAL:
        cmd->class = CLASS_IOTLB_GLOBAL;
        *cycles = cost->inv_all + cost->inv_walk;
        break;
    case VTD_INV_DESC_IOTLB_DOMAIN:
        cmd->class = CLASS_IOTLB_DOMAIN;
        *cycles = cost->inv_context + cost->inv_walk;
        break;
    case VTD_INV_DESC_IOTLB_PAGE:
        if (am > VTD_MAMV) {
            return IQEI_RESERVED;
        }
        cmd->class = CLASS_IOTLB_PAGE;
        *cycles = cost->inv_page + (uint64_t)cost->inv_range * am;
        if (!(d->hi & IOTLB_IH)) {
            *cycles += cost->inv_walk;
        }
        break;
    default:
        return IQEI_RESERVED;
    }
    /* CAP.DRD and DWD: drains are only done where they are offered */
    if (d->lo & IOTLB_DRAIN_WRITES && s->cap & VTD_CAP_DRAIN_WRITE) {
        *cycles += cost->drain;
    }
    if (d->lo & IOTLB_DRAIN_READS && s->cap & VTD_CAP_DRAIN_READ) {
        *cycles += cost->drain;
    }
    return -1;
}

static int decode_piotlb(IntelIOMMUState *s, const VTDInvDesc *d,
                         QueueCmd *cmd, uint64_t *cycles)
{
    const IOMMUQueueCosts *cost = &s->queue.q.costs;
    unsigned am = VTD_INV_DESC_PIOTLB_AM(d->val[1]);

    if (!s->iq_dw) {
        return IQEI_BAD_WIDTH;
    }
    if (reserved(s, d, VTD_INV_DESC_PIOTLB_RSVD_VAL0,
                 VTD_INV_DESC_PIOTLB_RSVD_VAL1)) {
        return IQEI_RESERVED;
    }
    switch (d->val[0] & VTD_INV_DESC_PIOTLB_G) {
    case VTD_INV_DESC_PIOTLB_ALL_IN_PASID:
        cmd->class = CLASS_IOTLB_DOMAIN;
        *cycles = cost->inv_context + cost->inv_walk;
        return -1;
    case VTD_INV_DESC_PIOTLB_PSI_IN_PASID:
        if (am > VTD_MAMV) {
            return IQEI_RESERVED;
        }
        cmd->class = CLASS_IOTLB_PAGE;
        *cycles = cost->inv_page + (uint64_t)cost->inv_range * am;
        if (!VTD_INV_DESC_PIOTLB_IH(d->val[1])) {
            *cycles += cost->inv_walk;
        }
        return -1;
    default:
        return IQEI_RESERVED;
    }
}

/* An ATS invalidation request: 6.5.2.5 and 6.5.2.6 */
static void decode_devtlb(IntelIOMMUState *s, uint16_t sid, QueueCmd *cmd,
                          uint64_t *cycles, uint64_t *remote)
{
    const IOMMUQueueCosts *cost = &s->queue.q.costs;
    PCIBus *root = PC_MACHINE(qdev_get_machine())->pcibus;

    cmd->class = CLASS_DEVTLB;
    cmd->flags = QUEUE_CMD_REMOTE;
    cmd->timeout = !iommu_queue_ats_answers(root, sid);
    *cycles = cost->other;
    *remote = cmd->timeout ? cost->ats_timeout : cost->ats;
}

/* What the descriptor costs: -1, or why it is bad: an IQEI. */
static int decode(IntelIOMMUState *s, const VTDInvDesc *d, QueueCmd *cmd,
                  uint64_t *cycles, uint64_t *remote)
{
    const IOMMUQueueCosts *cost = &s->queue.q.costs;
    X86IOMMUState *x86 = &s->x86_iommu;

    switch (VTD_INV_DESC_TYPE(d->lo)) {
    case VTD_INV_DESC_CC:
        cmd->class = CLASS_CONTEXT;
        *cycles = cost->config;
        return reserved(s, d, VTD_INV_DESC_CC_RSVD, UINT64_MAX) ||
               !(d->lo & VTD_INV_DESC_CC_G) ? IQEI_RESERVED : -1;

    case VTD_INV_DESC_IOTLB:
        return decode_iotlb(s, d, cmd, cycles);

    case VTD_INV_DESC_PIOTLB:
        return decode_piotlb(s, d, cmd, cycles);

    case VTD_INV_DESC_IEC:
        cmd->class = CLASS_INTR;
        *cycles = cost->intr;
        return reserved(s, d, VTD_INV_DESC_IEC_RSVD, UINT64_MAX)
               ? IQEI_RESERVED : -1;

    case VTD_INV_DESC_PC:
        if (!s->scalable_mode) {
            return IQEI_BAD_TYPE;
        }
        cmd->class = CLASS_PASID;
        *cycles = cost->config;
        return -1;

    case VTD_INV_DESC_DEVICE:
        if (!x86->dt_supported) {
            return IQEI_BAD_TYPE;
        }
        if (reserved(s, d, VTD_INV_DESC_DEVICE_IOTLB_RSVD_LO,
                     VTD_INV_DESC_DEVICE_IOTLB_RSVD_HI)) {
            return IQEI_RESERVED;
        }
        decode_devtlb(s, VTD_INV_DESC_DEVICE_IOTLB_SID(d->lo), cmd, cycles,
                      remote);
        return -1;

    case VTD_INV_DESC_DEV_PIOTLB:
        if (!x86->dt_supported) {
            return IQEI_BAD_TYPE;
        }
        if (!s->iq_dw) {
            return IQEI_BAD_WIDTH;
        }
        if (reserved(s, d, VTD_INV_DESC_PASID_DEVICE_IOTLB_RSVD_VAL0,
                     VTD_INV_DESC_PASID_DEVICE_IOTLB_RSVD_VAL1)) {
            return IQEI_RESERVED;
        }
        decode_devtlb(s, VTD_INV_DESC_PASID_DEVICE_IOTLB_SID(d->lo), cmd,
                      cycles, remote);
        return -1;

    case VTD_INV_DESC_WAIT:
        /* 6.5.2.8 */
        if (reserved(s, d, VTD_INV_DESC_WAIT_RSVD_LO,
                     VTD_INV_DESC_WAIT_RSVD_HI)) {
            return IQEI_RESERVED;
        }
        cmd->class = CLASS_WAIT;
        cmd->flags = QUEUE_CMD_WAIT;
        *cycles = cost->sync;
        if (d->lo & VTD_INV_DESC_WAIT_FN) {
            cmd->flags |= QUEUE_CMD_FENCE;
        }
        if (d->lo & VTD_INV_DESC_WAIT_SW) {
            *cycles += cost->write;
        }
        if (d->lo & VTD_INV_DESC_WAIT_IF) {
            *cycles += cost->irq;
        }
        return -1;

    default:
        return IQEI_BAD_TYPE;
    }
}

static VTDInvDesc vtd_desc(const QueueCmd *cmd)
{
    VTDInvDesc d;

    memcpy(d.val, cmd->desc, sizeof(d.val));
    return d;
}

static void op_fetch(void *queue, QueueCmd *cmd, uint64_t *cycles,
                     uint64_t *remote)
{
    IntelIOMMUState *s = vtd_of(queue);
    unsigned size = s->iq_dw ? 32 : 16;
    VTDInvDesc d;
    int iqei;

    cmd->class = CLASS_INVALID;
    if (dma_memory_read(&address_space_memory,
                        s->iq + (uint64_t)cmd->pos * size, cmd->desc, size,
                        MEMTXATTRS_UNSPECIFIED) != MEMTX_OK) {
        cmd->error = ERROR_BASE + IQEI_FETCH;
        return;
    }
    for (int i = 0; i < ARRAY_SIZE(cmd->desc); i++) {
        le64_to_cpus(&cmd->desc[i]);
    }
    d = vtd_desc(cmd);
    iqei = decode(s, &d, cmd, cycles, remote);
    if (iqei >= 0) {
        cmd->error = ERROR_BASE + iqei;
        cmd->class = CLASS_INVALID;
        cmd->flags = 0;
    }
}

/* ------------------------------------------------------------ completion */

bool vtd_queue_current(IntelIOMMUState *s, VTDInvDesc *desc)
{
    if (!s->queue.current) {
        return false;
    }
    *desc = vtd_desc(s->queue.current);
    return true;
}

/* The function that a device-TLB descriptor is for */
static uint16_t devtlb_sid(const QueueCmd *cmd)
{
    return VTD_INV_DESC_TYPE(cmd->desc[0]) == VTD_INV_DESC_DEVICE ?
           VTD_INV_DESC_DEVICE_IOTLB_SID(cmd->desc[0]) :
           VTD_INV_DESC_PASID_DEVICE_IOTLB_SID(cmd->desc[0]);
}

static QueueResult op_execute(void *queue, QueueCmd *cmd, uint32_t *removed)
{
    IntelIOMMUState *s = vtd_of(queue);
    uint32_t before = g_hash_table_size(s->iotlb);
    uint16_t head = s->iq_head;
    bool ok;

    if (cmd->timeout) {
        /* 6.5.2.11 */
        set_iqercd(s, IQERCD_ITESID_MASK, IQERCD_ITESID(devtlb_sid(cmd)));
        raise_fault(s, VTD_FSTS_ITE);
        return QUEUE_TIMEOUT;
    }
    if (cmd->class == CLASS_WAIT &&
        !(cmd->desc[0] & (VTD_INV_DESC_WAIT_SW | VTD_INV_DESC_WAIT_IF))) {
        /* A fence and no more */
        return QUEUE_OK;
    }

    /* This moves the head, which is ours to move. */
    s->queue.current = cmd;
    ok = vtd_process_inv_desc(s);
    s->queue.current = NULL;
    s->iq_head = head;

    *removed = before - MIN(before, g_hash_table_size(s->iotlb));
    if (!ok) {
        cmd->error = ERROR_BASE + IQEI_UNKNOWN;
        return QUEUE_FAULT;
    }
    if (cmd->class == CLASS_DEVTLB &&
        iommu_queue_ats_answers(PC_MACHINE(qdev_get_machine())->pcibus,
                                devtlb_sid(cmd)) > 1) {
        /*
         * 11.4.7.1, ICE: a completion that nobody waits for any more.  It is
         * only reported; the queue goes on.
         */
        set_iqercd(s, IQERCD_ICESID_MASK, IQERCD_ICESID(devtlb_sid(cmd)));
        raise_fault(s, FSTS_ICE);
    }
    return QUEUE_OK;
}

static void op_aborted(void *queue, const QueueCmd *cmd)
{
    /* 6.5.2.11: neither the status write nor the interrupt ever comes */
}

static void op_head(void *queue, uint32_t pos, bool was_full)
{
    set_head(vtd_of(queue), pos);
}

static void op_fault(void *queue, const QueueCmd *cmd)
{
    IntelIOMMUState *s = vtd_of(queue);

    /* 6.5.2.10: the head stays at the bad descriptor */
    set_head(s, cmd->pos);
    raise_iqe(s, cmd->error - ERROR_BASE);
}

static void disabled(IntelIOMMUState *s)
{
    set_head(s, 0);
    s->qi_enabled = false;
    reg_set(s, DMAR_GSTS_REG, reg_get(s, DMAR_GSTS_REG) & ~VTD_GSTS_QIES);
}

static void op_stopped(void *queue)
{
    disabled(vtd_of(queue));
}

static const QueueEngineOps ops = {
    .fetch = op_fetch,
    .execute = op_execute,
    .aborted = op_aborted,
    .fault = op_fault,
    .head = op_head,
    .stopped = op_stopped,
    .arm = iommu_queue_arm,
};

/* ------------------------------------------------------------- registers */

bool vtd_queue_kick(IntelIOMMUState *s)
{
    IOMMUQueue *q = &s->queue.q;
    uint32_t fsts = reg_get(s, DMAR_FSTS_REG);

    if (!q->timing) {
        return false;
    }
    if (!s->qi_enabled || q->engine.stopping ||
        fsts & (VTD_FSTS_IQE | VTD_FSTS_ITE)) {
        return true;
    }
    if (s->iq_tail >= s->iq_size) {
        raise_iqe(s, IQEI_BAD_TAIL);
        return true;
    }
    if (!q->engine.running) {
        /* One entry stays empty: 6.5.2 */
        iommu_queue_enable(q, s->iq_size - 1, s->iq_size - 1,
                           s->iq_dw ? 32 : 16, s->iq_head);
    }
    iommu_queue_restart(q);
    iommu_queue_doorbell(q, s->iq_tail);
    return true;
}

bool vtd_queue_disable(IntelIOMMUState *s)
{
    IOMMUQueue *q = &s->queue.q;

    if (!q->timing) {
        return false;
    }
    /* GSTS.QIES follows when nothing is in flight: 11.4.4.1 */
    if (!q->engine.stopping && iommu_queue_stop(q)) {
        disabled(s);
    }
    return true;
}

void vtd_queue_access(IntelIOMMUState *s, hwaddr addr, bool is_write)
{
    IOMMUQueue *q = &s->queue.q;

    if (!q->timing) {
        return;
    }
    iommu_queue_run(q);
    if (!is_write && (addr == DMAR_IQH_REG || addr == DMAR_FSTS_REG)) {
        iommu_queue_poll(q, addr);
    }
}

void vtd_queue_reset(IntelIOMMUState *s)
{
    if (s->queue.q.timing) {
        reg_set(s, DMAR_FSTS_REG, 0);
        stl_le_p(&s->w1cmask[DMAR_FSTS_REG], FSTS_W1C);
        iommu_queue_reset(&s->queue.q);
    }
}

bool vtd_queue_realize(IntelIOMMUState *s, Error **errp)
{
    return iommu_queue_realize(&s->queue.q, DEVICE(s), &ops, class_names,
                               ARRAY_SIZE(class_names), errp);
}

static bool queue_needed(void *opaque)
{
    IntelIOMMUState *s = opaque;

    return s->queue.q.engine.running;
}

const VMStateDescription vmstate_vtd_queue = {
    .name = "iommu-intel/invalidation-queue",
    .version_id = 1,
    .minimum_version_id = 1,
    .needed = queue_needed,
    .fields = (const VMStateField[]) {
        VMSTATE_STRUCT(queue.q, IntelIOMMUState, 1, vmstate_iommu_queue,
                       IOMMUQueue),
        VMSTATE_END_OF_LIST()
    }
};
