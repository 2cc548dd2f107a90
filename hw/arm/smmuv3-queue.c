/*
 * SMMUv3: a command queue that takes time, and CMD_SYNC's signals
 *
 * Section numbers are those of the Arm SMMU architecture specification,
 * IHI 0070 G.b.  See docs/specs/smmuv3-queue.rst.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "exec/address-spaces.h"
#include "hw/arm/smmuv3.h"
#include "hw/irq.h"
#include "system/dma.h"
#include "system/vtime.h"
#include "smmuv3-internal.h"
#include "smmu-internal.h"

/* CMD_SYNC, 4.7.3 */
#define CMD_SYNC_SIG_RESERVED   3
#define CMD_SYNC_MSI_ADDRESS(cmd) \
    ((uint64_t)extract32((cmd)->word[3], 0, 24) << 32 | ((cmd)->word[2] & ~3u))
/* Interrupt configuration registers: 6.3.19 and its like */
#define IRQ_CFG_ADDRESS(cfg0)   ((cfg0) & 0x000ffffffffffffcULL)
#define STALL_MODEL_NO_STALL    1

enum {
    CLASS_PREFETCH,
    CLASS_CFGI,
    CLASS_TLBI_ALL,
    CLASS_TLBI_CONTEXT,
    CLASS_TLBI_PAGE,
    CLASS_TLBI_RANGE,
    CLASS_ATC_INV,
    CLASS_OTHER,
    CLASS_SYNC,
    CLASS_INVALID,
};

static const char *const class_names[] = {
    [CLASS_PREFETCH] = "prefetch",
    [CLASS_CFGI] = "cfgi",
    [CLASS_TLBI_ALL] = "tlbi-all",
    [CLASS_TLBI_CONTEXT] = "tlbi-context",
    [CLASS_TLBI_PAGE] = "tlbi-page",
    [CLASS_TLBI_RANGE] = "tlbi-range",
    [CLASS_ATC_INV] = "atc-inv",
    [CLASS_OTHER] = "other",
    [CLASS_SYNC] = "sync",
    [CLASS_INVALID] = "invalid",
};

static SMMUv3State *smmu_of(void *queue)
{
    return container_of(queue, SMMUv3State, queue.q);
}

static Cmd smmu_cmd(const QueueCmd *cmd)
{
    return (Cmd) {
        .word = {
            cmd->desc[0], cmd->desc[0] >> 32,
            cmd->desc[1], cmd->desc[1] >> 32,
        },
    };
}

/* --------------------------------------------------------------- decoder */

/* TLBI by address: 4.4.1.1 for ranges */
static uint32_t decode_tlbi_va(SMMUv3State *s, Cmd *c, QueueCmd *cmd,
                               uint64_t *cycles)
{
    const IOMMUQueueCosts *cost = &s->queue.q.costs;

    if (!s->queue.ril) {
        /* NUM, SCALE, TTL and TG do not exist */
        c->word[0] &= ~0x01f1f000u;
        c->word[2] &= ~0x00000f00u;
        cmd->desc[0] = c->word[0] | (uint64_t)c->word[1] << 32;
        cmd->desc[1] = c->word[2] | (uint64_t)c->word[3] << 32;
    }
    cmd->class = CLASS_TLBI_PAGE;
    *cycles = cost->inv_page;
    if (CMD_TG(c)) {
        uint64_t pages = (CMD_NUM(c) + 1ULL) << CMD_SCALE(c);

        if (pages == 1 && !CMD_TTL(c)) {
            return SMMU_CERROR_ILL;
        }
        if (pages > 1) {
            cmd->class = CLASS_TLBI_RANGE;
            *cycles += (uint64_t)cost->inv_range * (64 - clz64(pages - 1));
        }
    }
    if (!CMD_LEAF(c)) {
        *cycles += cost->inv_walk;
    }
    return SMMU_CERROR_NONE;
}

/* What the command costs, or why it is illegal: 4.1.3, 4.3 to 4.7 */
static uint32_t decode(SMMUv3State *s, Cmd *c, QueueCmd *cmd,
                       uint64_t *cycles, uint64_t *remote)
{
    const IOMMUQueueCosts *cost = &s->queue.q.costs;

    switch (CMD_TYPE(c)) {
    case SMMU_CMD_PREFETCH_CONFIG:
    case SMMU_CMD_PREFETCH_ADDR:
        cmd->class = CLASS_PREFETCH;
        *cycles = cost->other;
        break;
    case SMMU_CMD_CFGI_CD:
    case SMMU_CMD_CFGI_CD_ALL:
        if (!STAGE1_SUPPORTED(s)) {
            return SMMU_CERROR_ILL;
        }
        /* fall through */
    case SMMU_CMD_CFGI_STE:
    case SMMU_CMD_CFGI_STE_RANGE:
        cmd->class = CLASS_CFGI;
        *cycles = cost->config;
        return CMD_SSEC(c) ? SMMU_CERROR_ILL : SMMU_CERROR_NONE;

    case SMMU_CMD_TLBI_NH_ASID:
        cmd->class = CLASS_TLBI_CONTEXT;
        *cycles = cost->inv_context + cost->inv_walk;
        return STAGE1_SUPPORTED(s) ? SMMU_CERROR_NONE : SMMU_CERROR_ILL;
    case SMMU_CMD_TLBI_S12_VMALL:
        cmd->class = CLASS_TLBI_CONTEXT;
        *cycles = cost->inv_context + cost->inv_walk;
        return STAGE2_SUPPORTED(s) ? SMMU_CERROR_NONE : SMMU_CERROR_ILL;
    case SMMU_CMD_TLBI_NH_ALL:
        cmd->class = CLASS_TLBI_ALL;
        *cycles = cost->inv_all + cost->inv_walk;
        return STAGE1_SUPPORTED(s) ? SMMU_CERROR_NONE : SMMU_CERROR_ILL;
    case SMMU_CMD_TLBI_NSNH_ALL:
        cmd->class = CLASS_TLBI_ALL;
        *cycles = cost->inv_all + cost->inv_walk;
        break;
    case SMMU_CMD_TLBI_NH_VA:
    case SMMU_CMD_TLBI_NH_VAA:
        return STAGE1_SUPPORTED(s) ? decode_tlbi_va(s, c, cmd, cycles)
                                   : SMMU_CERROR_ILL;
    case SMMU_CMD_TLBI_S2_IPA:
        return STAGE2_SUPPORTED(s) ? decode_tlbi_va(s, c, cmd, cycles)
                                   : SMMU_CERROR_ILL;

    case SMMU_CMD_ATC_INV:
        if (!s->queue.ats) {
            return SMMU_CERROR_ILL;
        }
        cmd->class = CLASS_ATC_INV;
        cmd->flags = QUEUE_CMD_REMOTE;
        cmd->timeout = !iommu_queue_ats_answers(s->smmu_state.primary_bus,
                                                CMD_SID(c));
        *cycles = cost->other;
        *remote = cmd->timeout ? cost->ats_timeout : cost->ats;
        break;

    case SMMU_CMD_SYNC:
        cmd->class = CLASS_SYNC;
        cmd->flags = QUEUE_CMD_WAIT | QUEUE_CMD_FENCE | QUEUE_CMD_HOLD;
        *cycles = cost->sync;
        switch (CMD_SYNC_CS(c)) {
        case CMD_SYNC_SIG_IRQ:
            *cycles += s->queue.msi && CMD_SYNC_MSI_ADDRESS(c) ? cost->write
                                                               : cost->irq;
            break;
        case CMD_SYNC_SIG_SEV:
            *cycles += s->queue.sev ? cost->irq : 0;
            break;
        case CMD_SYNC_SIG_RESERVED:
            return SMMU_CERROR_ILL;
        }
        break;

    case SMMU_CMD_RESUME:
    case SMMU_CMD_STALL_TERM:
        cmd->class = CLASS_OTHER;
        *cycles = cost->other;
        if (FIELD_EX32(s->idr[0], IDR0, STALL_MODEL) ==
            STALL_MODEL_NO_STALL) {
            return SMMU_CERROR_ILL;
        }
        break;

    default:
        /* EL2 and EL3 commands, PRI_RESP: IDR0.HYP and PRI are 0 */
        return SMMU_CERROR_ILL;
    }
    return SMMU_CERROR_NONE;
}

static void op_fetch(void *queue, QueueCmd *cmd, uint64_t *cycles,
                     uint64_t *remote)
{
    SMMUv3State *s = smmu_of(queue);
    SMMUQueue *q = &s->cmdq;
    uint32_t index = cmd->pos & INDEX_MASK(q);
    Cmd c;

    cmd->class = CLASS_INVALID;
    if (dma_memory_read(&address_space_memory,
                        Q_BASE(q) + q->entry_size * (uint64_t)index,
                        cmd->desc, sizeof(c),
                        MEMTXATTRS_UNSPECIFIED) != MEMTX_OK) {
        cmd->error = SMMU_CERROR_ABT;
        return;
    }
    le64_to_cpus(&cmd->desc[0]);
    le64_to_cpus(&cmd->desc[1]);
    c = smmu_cmd(cmd);
    cmd->error = decode(s, &c, cmd, cycles, remote);
    if (cmd->error) {
        cmd->class = CLASS_INVALID;
        cmd->flags = 0;
    }
}

/* ------------------------------------------------------------ completion */

static void send_event(SMMUv3State *s)
{
    if (s->queue.sev && vtime_enabled()) {
        vtime_sev(NULL);
    }
}

/* A 32-bit write to the PA, in its low bits: 3.18.1 */
static bool send_msi(uint64_t address, uint32_t data)
{
    uint32_t le = cpu_to_le32(data);

    return dma_memory_write(&address_space_memory, address, &le, sizeof(le),
                            MEMTXATTRS_UNSPECIFIED) == MEMTX_OK;
}

bool smmuv3_queue_msi(SMMUv3State *s, int irq)
{
    uint64_t address = 0;
    uint32_t data = 0, error = 0;

    if (!s->queue.msi) {
        return false;
    }
    switch (irq) {
    case SMMU_IRQ_EVTQ:
        address = IRQ_CFG_ADDRESS(s->eventq_irq_cfg0);
        data = s->eventq_irq_cfg1;
        error = R_GERROR_MSI_EVENTQ_ABT_ERR_MASK;
        break;
    case SMMU_IRQ_GERROR:
        address = IRQ_CFG_ADDRESS(s->gerror_irq_cfg0);
        data = s->gerror_irq_cfg1;
        error = R_GERROR_MSI_GERROR_ABT_ERR_MASK;
        break;
    }
    if (!address) {
        return false;
    }
    if (!send_msi(address, data)) {
        /* 6.3.17; the GERROR interrupt itself is what cannot be sent */
        if (irq == SMMU_IRQ_GERROR) {
            s->gerror ^= ~(s->gerror ^ s->gerrorn) & error;
        } else {
            smmuv3_trigger_irq(s, SMMU_IRQ_GERROR, error);
        }
    }
    return true;
}

int smmuv3_queue_sync(SMMUv3State *s, const Cmd *c)
{
    uint64_t address = CMD_SYNC_MSI_ADDRESS(c);

    switch (CMD_SYNC_CS(c)) {
    case CMD_SYNC_SIG_IRQ:
        if (!s->queue.msi || !address) {
            smmuv3_trigger_irq(s, SMMU_IRQ_CMD_SYNC, 0);
        } else if (!send_msi(address, c->word[1])) {
            smmuv3_trigger_irq(s, SMMU_IRQ_GERROR,
                               R_GERROR_MSI_CMDQ_ABT_ERR_MASK);
        }
        break;
    case CMD_SYNC_SIG_SEV:
        send_event(s);
        break;
    case CMD_SYNC_SIG_RESERVED:
        return SMMU_CERROR_ILL;
    }
    return SMMU_CERROR_NONE;
}

static QueueResult op_execute(void *queue, QueueCmd *cmd, uint32_t *removed)
{
    SMMUv3State *s = smmu_of(queue);
    uint32_t before = g_hash_table_size(s->smmu_state.iotlb);
    Cmd c = smmu_cmd(cmd);

    switch (cmd->class) {
    case CLASS_SYNC:
        if (s->queue.atc_failed) {
            /* 4.7.3: reported once, at the CMD_SYNC */
            s->queue.atc_failed = false;
            cmd->error = SMMU_CERROR_ATC_INV_SYNC;
            return QUEUE_FAULT;
        }
        cmd->error = smmuv3_queue_sync(s, &c);
        break;
    case CLASS_ATC_INV:
        s->queue.atc_failed |= cmd->timeout;
        break;
    default:
        cmd->error = smmuv3_cmdq_process(s, &c);
    }
    *removed = before - MIN(before, g_hash_table_size(s->smmu_state.iotlb));
    return cmd->error ? QUEUE_FAULT : QUEUE_OK;
}

static void op_aborted(void *queue, const QueueCmd *cmd)
{
    /* Only QUEUE_TIMEOUT leads here. */
    g_assert_not_reached();
}

static void set_cons(SMMUv3State *s, uint32_t pos)
{
    s->cmdq.cons = deposit32(s->cmdq.cons, 0, s->cmdq.log2size + 1, pos);
}

static void op_head(void *queue, uint32_t pos, bool was_full)
{
    SMMUv3State *s = smmu_of(queue);

    set_cons(s, pos);
    if (was_full) {
        /* 3.5.2: an event as the queue becomes non-full */
        send_event(s);
    }
}

static void op_fault(void *queue, const QueueCmd *cmd)
{
    SMMUv3State *s = smmu_of(queue);

    set_cons(s, cmd->pos);
    smmu_write_cmdq_err(s, cmd->error);
    smmuv3_trigger_irq(s, SMMU_IRQ_GERROR, R_GERROR_CMDQ_ERR_MASK);
}

static void op_stopped(void *queue)
{
    SMMUv3State *s = smmu_of(queue);

    s->cr0ack &= ~R_CR0_CMDQEN_MASK;
    if (smmuv3_cmdq_enabled(s)) {
        s->cr0ack |= R_CR0_CMDQEN_MASK;
        smmuv3_queue_kick(s);
    }
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

bool smmuv3_queue_kick(SMMUv3State *s)
{
    IOMMUQueue *q = &s->queue.q;
    bool error = (s->gerror ^ s->gerrorn) & R_GERROR_CMDQ_ERR_MASK;

    if (!q->timing) {
        return false;
    }
    if (!smmuv3_cmdq_enabled(s) && q->engine.running) {
        iommu_queue_stop(q);
    }
    if (q->engine.stopping) {
        /* 6.3.9.6: CR0ACK follows when commands in progress are done */
        s->cr0ack |= R_CR0_CMDQEN_MASK;
        return true;
    }
    if (!smmuv3_cmdq_enabled(s)) {
        return true;
    }
    if (!q->engine.running) {
        s->cmdq.log2size = MIN(s->cmdq.log2size, s->queue.cmdqs);
        iommu_queue_enable(q, WRAP_INDEX_MASK(&s->cmdq),
                           1u << s->cmdq.log2size, sizeof(Cmd), s->cmdq.cons);
        q->engine.halted = error;
    }
    if (!error) {
        iommu_queue_restart(q);
    }
    iommu_queue_doorbell(q, s->cmdq.prod);
    return true;
}

void smmuv3_queue_access(SMMUv3State *s, hwaddr offset, bool is_write)
{
    IOMMUQueue *q = &s->queue.q;

    if (!q->timing) {
        return;
    }
    iommu_queue_run(q);
    if (!is_write && (offset == A_CMDQ_CONS || offset == A_GERROR)) {
        iommu_queue_poll(q, offset);
    }
}

void smmuv3_queue_reset(SMMUv3State *s)
{
    SMMUv3Queue *sq = &s->queue;

    s->idr[0] = FIELD_DP32(s->idr[0], IDR0, MSI, sq->msi);
    s->idr[0] = FIELD_DP32(s->idr[0], IDR0, SEV, sq->sev);
    s->idr[0] = FIELD_DP32(s->idr[0], IDR0, ATS, sq->ats);
    s->idr[1] = FIELD_DP32(s->idr[1], IDR1, CMDQS, sq->cmdqs);
    s->idr[3] = FIELD_DP32(s->idr[3], IDR3, RIL, sq->ril);
    s->cmdq.base = deposit64(s->cmdq.base, 0, 5, sq->cmdqs);
    sq->atc_failed = false;
    iommu_queue_reset(&sq->q);
}

bool smmuv3_queue_realize(SMMUv3State *s, Error **errp)
{
    if (s->queue.cmdqs > SMMU_CMDQS) {
        error_setg(errp, "cmdqs must be within 0..%d", SMMU_CMDQS);
        return false;
    }
    if (s->queue.ats && !s->queue.q.timing) {
        error_setg(errp, "x-ats needs queue-timing=on");
        return false;
    }
    return iommu_queue_realize(&s->queue.q, DEVICE(s), &ops, class_names,
                               ARRAY_SIZE(class_names), errp);
}

static bool queue_needed(void *opaque)
{
    SMMUv3State *s = opaque;

    return s->queue.q.engine.running;
}

const VMStateDescription vmstate_smmuv3_command_queue = {
    .name = "smmuv3/command-queue",
    .version_id = 1,
    .minimum_version_id = 1,
    .needed = queue_needed,
    .fields = (const VMStateField[]) {
        VMSTATE_BOOL(queue.atc_failed, SMMUv3State),
        VMSTATE_STRUCT(queue.q, SMMUv3State, 1, vmstate_iommu_queue,
                       IOMMUQueue),
        VMSTATE_END_OF_LIST()
    }
};
