/*
 * iommulab DMA device: timed reads and writes through an IOMMU
 *
 * A burst is a number of transfers, one after the other in virtual time, each
 * from a timer of its own.  Together with the pattern that is written, or that
 * a read is compared with, it shows when a translation begins and ceases to be
 * used.  See docs/specs/iommulab-dma.rst for the registers.
 *
 * All of this runs under the BQL.  A transfer touches at most 4 KiB, and there
 * is at most one for each run of a timer, so that no burst can hold the host
 * up, however long it is.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/module.h"
#include "qemu/timer.h"
#include "qapi/error.h"
#include "exec/address-spaces.h"
#include "hw/iommu/iotlb-model.h"
#include "hw/misc/iommulab-dma.h"
#include "hw/pci/msix.h"
#include "hw/pci/pci_device.h"
#include "hw/pci/pcie.h"
#include "hw/qdev-properties.h"
#include "migration/vmstate.h"
#include "trace.h"

OBJECT_DECLARE_SIMPLE_TYPE(IOMMULabDMAState, IOMMULAB_DMA)

/* Entries of the device's own TLB, replaced in turn */
#define ATC_SIZE 64

/*
 * Bytes that go into one packet, and no packet crosses a multiple of this. An
 * address in no memory fails in pieces of down to 4 bytes, each translated:
 * that a transfer ends with its first packet that fails limits these.
 */
#define PAYLOAD 256

/* Beyond the 256 bytes of conventional configuration space */
#define ATS_CAP_OFFSET PCI_CONFIG_SPACE_SIZE

typedef struct DMAQueue {
    IOMMULabDMAState *dev;
    QEMUTimer timer;

    /* What software sets; fixed while busy */
    uint64_t addr;
    uint64_t stride;
    uint32_t size;
    uint32_t count;
    uint64_t interval;
    uint64_t pattern;

    /* The burst and its result; times are ns of QEMU_CLOCK_VIRTUAL */
    uint32_t cmd;
    uint32_t status;
    uint32_t done;
    uint32_t faults;
    uint32_t diffs;
    uint32_t atc_hits;
    uint64_t fault_time;
    uint64_t diff_time;
    uint64_t data;
    uint64_t xlat_time;
    int64_t start;
    int64_t end;
    bool ending;            /* the last transfer is made, its time not over */
} DMAQueue;

typedef struct ATCNotifier {
    IOMMUNotifier n;
    IOMMULabDMAState *dev;
    MemoryRegion *mr;
    QLIST_ENTRY(ATCNotifier) next;
} ATCNotifier;

struct IOMMULabDMAState {
    PCIDevice parent_obj;
    MemoryRegion regs;
    uint32_t n_queues;
    bool ats;
    uint8_t ats_answers;    /* the IOMMU reads this property */
    DMAQueue queue[IOMMULAB_DMA_QUEUES_MAX];

    /* Not migrated: a TLB may lose entries at any time */
    IOMMUTLBEntry atc[ATC_SIZE];
    unsigned int atc_next;
    uint32_t atc_invals;
    MemoryListener listener;
    QLIST_HEAD(, ATCNotifier) notifiers;
};

/* --- the device's own TLB ------------------------------------------------- */

static bool ats_enabled(IOMMULabDMAState *s)
{
    PCIDevice *pci = PCI_DEVICE(s);

    return s->ats && (pci_get_word(pci->config + ATS_CAP_OFFSET + PCI_ATS_CTRL)
                      & PCI_ATS_CTRL_ENABLE);
}

static void atc_clear(IOMMULabDMAState *s)
{
    memset(s->atc, 0, sizeof(s->atc));
    s->atc_next = 0;
}

static void atc_unmap(IOMMUNotifier *n, IOMMUTLBEntry *entry)
{
    IOMMULabDMAState *s = container_of(n, ATCNotifier, n)->dev;
    hwaddr last = entry->iova + entry->addr_mask;

    for (int i = 0; i < ATC_SIZE; i++) {
        IOMMUTLBEntry *e = &s->atc[i];

        if (e->target_as && e->iova <= last &&
            entry->iova <= e->iova + e->addr_mask) {
            e->target_as = NULL;
            s->atc_invals++;
        }
    }
    trace_iommulab_dma_atc_unmap(entry->iova, entry->addr_mask, s->atc_invals);
}

/* A translation for @addr and @write, NULL if the IOMMU refuses */
static IOMMUTLBEntry *atc_get(IOMMULabDMAState *s, DMAQueue *q, hwaddr addr,
                              bool write)
{
    IOMMUAccessFlags need = write ? IOMMU_WO : IOMMU_RO;
    IOMMUTLBEntry *e, new;

    for (int i = 0; i < ATC_SIZE; i++) {
        e = &s->atc[i];
        if (e->target_as && (addr & ~e->addr_mask) == e->iova &&
            (e->perm & need)) {
            q->atc_hits++;
            return e;
        }
    }
    new = address_space_get_iotlb_entry(pci_get_address_space(PCI_DEVICE(s)),
                                        addr, write, MEMTXATTRS_UNSPECIFIED);
    if (!new.target_as) {
        return NULL;
    }
    /* It says RW, but only this access has been checked */
    new.perm = need;
    e = &s->atc[s->atc_next];
    s->atc_next = (s->atc_next + 1) % ATC_SIZE;
    *e = new;
    return e;
}

static void iommulab_dma_region_add(MemoryListener *listener,
                                    MemoryRegionSection *section)
{
    IOMMULabDMAState *s = container_of(listener, IOMMULabDMAState, listener);
    IOMMUMemoryRegion *iommu = memory_region_get_iommu(section->mr);
    ATCNotifier *atc;
    Int128 end;

    /* What was cached belonged to what was there before */
    atc_clear(s);
    if (!iommu) {
        return;
    }
    end = int128_sub(int128_add(int128_make64(section->offset_within_region),
                                section->size), int128_one());
    atc = g_new0(ATCNotifier, 1);
    atc->dev = s;
    atc->mr = section->mr;
    iommu_notifier_init(&atc->n, atc_unmap, IOMMU_NOTIFIER_DEVIOTLB_UNMAP,
                        section->offset_within_region, int128_get64(end),
                        memory_region_iommu_attrs_to_index(
                            iommu, MEMTXATTRS_UNSPECIFIED));
    if (memory_region_register_iommu_notifier(section->mr, &atc->n, NULL)) {
        /* An IOMMU without device TLBs: it will not enable ATS either */
        g_free(atc);
        return;
    }
    QLIST_INSERT_HEAD(&s->notifiers, atc, next);
}

static void iommulab_dma_region_del(MemoryListener *listener,
                                    MemoryRegionSection *section)
{
    IOMMULabDMAState *s = container_of(listener, IOMMULabDMAState, listener);
    ATCNotifier *atc, *tmp;

    atc_clear(s);
    QLIST_FOREACH_SAFE(atc, &s->notifiers, next, tmp) {
        if (atc->mr == section->mr &&
            atc->n.start == section->offset_within_region) {
            memory_region_unregister_iommu_notifier(atc->mr, &atc->n);
            QLIST_REMOVE(atc, next);
            g_free(atc);
        }
    }
}

/* --- bursts --------------------------------------------------------------- */

/* One access of at most PAYLOAD bytes, which does not cross a page */
static MemTxResult access_once(IOMMULabDMAState *s, DMAQueue *q, hwaddr addr,
                               uint8_t *buf, uint32_t len, bool write)
{
    IOMMUTLBEntry *e;

    if (!(q->cmd & IOMMULAB_DMA_CMD_ATS)) {
        return pci_dma_rw(PCI_DEVICE(s), addr, buf, len,
                          write ? DMA_DIRECTION_FROM_DEVICE :
                                  DMA_DIRECTION_TO_DEVICE,
                          MEMTXATTRS_UNSPECIFIED);
    }
    e = atc_get(s, q, addr, write);
    if (!e) {
        return MEMTX_ACCESS_ERROR;
    }
    return address_space_rw(e->target_as,
                            e->translated_addr + (addr & e->addr_mask),
                            MEMTXATTRS_UNSPECIFIED, buf, len, write);
}

/* All accesses of a transfer, up to the first that fails */
static MemTxResult access_all(IOMMULabDMAState *s, DMAQueue *q, hwaddr addr,
                              uint8_t *buf, bool write)
{
    MemTxResult r = MEMTX_OK;

    for (uint32_t pos = 0; pos < q->size && r == MEMTX_OK; ) {
        hwaddr at = addr + pos;
        uint32_t len = MIN(q->size - pos, PAYLOAD - at % PAYLOAD);

        r = access_once(s, q, at, buf + pos, len, write);
        pos += len;
    }
    return r;
}

/*
 * One transfer. The result is counted, *ns is how long translating took, true
 * if the burst ends here.
 */
static bool transfer(IOMMULabDMAState *s, DMAQueue *q, int64_t now,
                     uint64_t *ns)
{
    MemReentrancyGuard *guard = &DEVICE(s)->mem_reentrancy_guard;
    bool write = (q->cmd & IOMMULAB_DMA_CMD_OP) == IOMMULAB_DMA_CMD_WRITE;
    hwaddr addr = q->addr + q->done * q->stride;
    bool diff = false, stop = false;
    uint64_t buf[IOMMULAB_DMA_SIZE_MAX / sizeof(uint64_t)];
    uint32_t words = q->size / sizeof(uint64_t);
    MemTxResult r;

    if (write) {
        for (uint32_t i = 0; i < words; i++) {
            buf[i] = cpu_to_le64(q->pattern + i);
        }
    }

    /* No timer has this guard: DMA to our own registers has to fail */
    guard->engaged_in_io = true;
    iotlb_model_take_ps();
    r = access_all(s, q, addr, (uint8_t *)buf, write);
    *ns = DIV_ROUND_UP(iotlb_model_take_ps(), 1000);
    guard->engaged_in_io = false;
    q->xlat_time += *ns;

    q->done++;
    if (r != MEMTX_OK) {
        if (!q->faults++) {
            q->fault_time = now - q->start;
        }
        stop = q->cmd & IOMMULAB_DMA_CMD_FAULT_STOP;
    } else if (!write) {
        q->data = le64_to_cpu(buf[0]);
        for (uint32_t i = 0; i < words && !diff; i++) {
            diff = buf[i] != cpu_to_le64(q->pattern + i);
        }
        if (diff) {
            if (!q->diffs++) {
                q->diff_time = now - q->start;
            }
            stop = q->cmd & IOMMULAB_DMA_CMD_DIFF_STOP;
        }
    }
    trace_iommulab_dma_transfer(q - s->queue, now, write, addr, q->size, r,
                                diff);
    return stop || q->done == q->count;
}

static void finish(IOMMULabDMAState *s, DMAQueue *q, uint32_t status,
                   int64_t now)
{
    uint32_t index = q - s->queue;

    timer_del(&q->timer);
    q->ending = false;
    q->status = status;
    q->end = now;
    trace_iommulab_dma_end(index, now, status, q->done, q->faults, q->diffs);
    if (q->cmd & IOMMULAB_DMA_CMD_IRQ) {
        msix_notify(PCI_DEVICE(s), index);
    }
}

static void iommulab_dma_timer(void *opaque)
{
    DMAQueue *q = opaque;
    IOMMULabDMAState *s = q->dev;
    int64_t now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    uint64_t ns;

    if (!q->ending) {
        q->ending = transfer(s, q, now, &ns);
        if (!q->ending) {
            timer_mod(&q->timer, now + ns + MAX(q->interval, 1));
            return;
        }
        if (ns) {
            timer_mod(&q->timer, now + ns);
            return;
        }
    }
    finish(s, q, q->done == q->count ? IOMMULAB_DMA_DONE :
           IOMMULAB_DMA_STOPPED, now);
}

static void command(IOMMULabDMAState *s, DMAQueue *q, uint32_t cmd)
{
    int64_t now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
    uint32_t op = cmd & IOMMULAB_DMA_CMD_OP;

    if (op == IOMMULAB_DMA_CMD_STOP) {
        if (q->status == IOMMULAB_DMA_BUSY) {
            finish(s, q, IOMMULAB_DMA_STOPPED, now);
        }
        return;
    }
    if (q->status == IOMMULAB_DMA_BUSY) {
        /* Refused, but the burst that is on its way keeps its status */
        return;
    }
    if (!op || !q->count || !q->size || q->size % sizeof(uint64_t) ||
        q->size > IOMMULAB_DMA_SIZE_MAX ||
        (q->addr | q->stride) % sizeof(uint64_t) ||
        q->interval > IOMMULAB_DMA_INTERVAL_MAX ||
        ((cmd & IOMMULAB_DMA_CMD_ATS) && !ats_enabled(s))) {
        q->status = IOMMULAB_DMA_BAD_COMMAND;
        return;
    }
    q->cmd = cmd;
    q->status = IOMMULAB_DMA_BUSY;
    q->done = q->faults = q->diffs = q->atc_hits = 0;
    q->fault_time = q->diff_time = UINT64_MAX;
    q->data = q->xlat_time = 0;
    q->start = q->end = now;
    trace_iommulab_dma_start(q - s->queue, now, cmd, q->addr, q->size,
                             q->count);
    timer_mod(&q->timer, now + MAX(q->interval, 1));
}

static void queue_reset(DMAQueue *q)
{
    timer_del(&q->timer);
    q->addr = q->stride = q->interval = q->pattern = 0;
    q->size = q->count = 0;
    q->cmd = 0;
    q->status = IOMMULAB_DMA_IDLE;
    q->done = q->faults = q->diffs = q->atc_hits = 0;
    q->fault_time = q->diff_time = UINT64_MAX;
    q->data = q->xlat_time = 0;
    q->start = q->end = 0;
    q->ending = false;
}

static void reset_all(IOMMULabDMAState *s)
{
    for (uint32_t i = 0; i < s->n_queues; i++) {
        queue_reset(&s->queue[i]);
    }
    atc_clear(s);
    s->atc_invals = 0;
}

/* --- registers ------------------------------------------------------------ */

static uint64_t queue_read(DMAQueue *q, hwaddr reg)
{
    switch (reg) {
    case IOMMULAB_DMA_ADDR:
        return q->addr;
    case IOMMULAB_DMA_STRIDE:
        return q->stride;
    case IOMMULAB_DMA_SIZE:
        return q->size | (uint64_t)q->count << 32;
    case IOMMULAB_DMA_INTERVAL:
        return q->interval;
    case IOMMULAB_DMA_PATTERN:
        return q->pattern;
    case IOMMULAB_DMA_CMD:
        return (uint64_t)q->status << 32;
    case IOMMULAB_DMA_DONE_COUNT:
        return q->done | (uint64_t)q->faults << 32;
    case IOMMULAB_DMA_DIFFS:
        return q->diffs | (uint64_t)q->atc_hits << 32;
    case IOMMULAB_DMA_FAULT_TIME:
        return q->fault_time;
    case IOMMULAB_DMA_DIFF_TIME:
        return q->diff_time;
    case IOMMULAB_DMA_DATA:
        return q->data;
    case IOMMULAB_DMA_TIME:
        if (q->status == IOMMULAB_DMA_BUSY) {
            return qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL) - q->start;
        }
        return q->end - q->start;
    case IOMMULAB_DMA_XLAT_TIME:
        return q->xlat_time;
    default:
        return 0;
    }
}

/* @val has @size bytes for the register or pair of registers at @reg */
static void queue_write(IOMMULabDMAState *s, DMAQueue *q, hwaddr reg,
                        uint64_t val, unsigned size)
{
    hwaddr base = reg & ~7ull;
    int shift = (reg & 4) * 8;
    int bits = size * 8;

    if (base == IOMMULAB_DMA_CMD) {
        if (!shift) {
            command(s, q, val);
        }
        return;
    }
    if (q->status == IOMMULAB_DMA_BUSY) {
        return;
    }
    switch (base) {
    case IOMMULAB_DMA_ADDR:
        q->addr = deposit64(q->addr, shift, bits, val);
        break;
    case IOMMULAB_DMA_STRIDE:
        q->stride = deposit64(q->stride, shift, bits, val);
        break;
    case IOMMULAB_DMA_SIZE:
        if (shift) {
            q->count = val;
        } else {
            q->size = val;
            if (size == 8) {
                q->count = val >> 32;
            }
        }
        break;
    case IOMMULAB_DMA_INTERVAL:
        q->interval = deposit64(q->interval, shift, bits, val);
        break;
    case IOMMULAB_DMA_PATTERN:
        q->pattern = deposit64(q->pattern, shift, bits, val);
        break;
    }
}

/* The aligned 64 bits at @addr */
static uint64_t read_pair(IOMMULabDMAState *s, hwaddr addr)
{
    hwaddr offset = addr - IOMMULAB_DMA_QUEUE(0);

    switch (addr) {
    case IOMMULAB_DMA_ID:
        return IOMMULAB_DMA_ID_VALUE |
               (uint64_t)IOMMULAB_DMA_VERSION_VALUE << 32;
    case IOMMULAB_DMA_QUEUES:
        return s->n_queues |
               (s->ats ? (uint64_t)IOMMULAB_DMA_FEATURE_ATS << 32 : 0);
    case IOMMULAB_DMA_CTRL:
        return (uint64_t)s->atc_invals << 32;
    }
    if (addr >= IOMMULAB_DMA_QUEUE(0) &&
        addr < IOMMULAB_DMA_QUEUE(s->n_queues)) {
        return queue_read(&s->queue[offset / 0x80], offset % 0x80);
    }
    return 0;
}

static uint64_t iommulab_dma_read(void *opaque, hwaddr addr, unsigned size)
{
    uint64_t val = read_pair(opaque, addr & ~7ull);

    return size == 8 ? val : extract64(val, (addr & 4) * 8, 32);
}

static void iommulab_dma_write(void *opaque, hwaddr addr, uint64_t val,
                               unsigned size)
{
    IOMMULabDMAState *s = opaque;
    hwaddr offset = addr - IOMMULAB_DMA_QUEUE(0);

    if (addr == IOMMULAB_DMA_CTRL) {
        if (val & IOMMULAB_DMA_CTRL_RESET) {
            reset_all(s);
        }
    } else if (addr >= IOMMULAB_DMA_QUEUE(0) &&
               addr < IOMMULAB_DMA_QUEUE(s->n_queues)) {
        queue_write(s, &s->queue[offset / 0x80], offset % 0x80, val, size);
    }
}

static const MemoryRegionOps iommulab_dma_ops = {
    .read = iommulab_dma_read,
    .write = iommulab_dma_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = {
        .min_access_size = 4,
        .max_access_size = 8,
    },
    .impl = {
        .min_access_size = 4,
        .max_access_size = 8,
    },
};

/* --- life ----------------------------------------------------------------- */

static void iommulab_dma_reset_hold(Object *obj, ResetType type)
{
    IOMMULabDMAState *s = IOMMULAB_DMA(obj);

    reset_all(s);
    msix_reset(PCI_DEVICE(s));
}

static void iommulab_dma_realize(PCIDevice *pci, Error **errp)
{
    IOMMULabDMAState *s = IOMMULAB_DMA(pci);

    if (s->n_queues < 1 || s->n_queues > IOMMULAB_DMA_QUEUES_MAX) {
        error_setg(errp, "queues has to be from 1 to %d",
                   IOMMULAB_DMA_QUEUES_MAX);
        return;
    }
    if (!pci_bus_is_express(pci_get_bus(pci))) {
        error_setg(errp, "this device needs a PCI Express bus");
        return;
    }
    if (pcie_endpoint_cap_init(pci, 0) < 0) {
        error_setg(errp, "no space for the PCI Express capability");
        return;
    }
    if (s->ats) {
        pcie_ats_init(pci, ATS_CAP_OFFSET, true);
    }
    if (msix_init_exclusive_bar(pci, s->n_queues, 1, errp)) {
        return;
    }
    for (uint32_t i = 0; i < s->n_queues; i++) {
        msix_vector_use(pci, i);
        s->queue[i].dev = s;
        timer_init_ns(&s->queue[i].timer, QEMU_CLOCK_VIRTUAL,
                      iommulab_dma_timer, &s->queue[i]);
    }
    memory_region_init_io(&s->regs, OBJECT(s), &iommulab_dma_ops, s,
                          TYPE_IOMMULAB_DMA, IOMMULAB_DMA_BAR_SIZE);
    pci_register_bar(pci, 0, PCI_BASE_ADDRESS_SPACE_MEMORY, &s->regs);

    QLIST_INIT(&s->notifiers);
    if (s->ats) {
        s->listener.name = TYPE_IOMMULAB_DMA;
        s->listener.region_add = iommulab_dma_region_add;
        s->listener.region_del = iommulab_dma_region_del;
        memory_listener_register(&s->listener, pci_get_address_space(pci));
    }
}

static void iommulab_dma_exit(PCIDevice *pci)
{
    IOMMULabDMAState *s = IOMMULAB_DMA(pci);

    for (uint32_t i = 0; i < s->n_queues; i++) {
        timer_del(&s->queue[i].timer);
    }
    if (s->ats) {
        /* Deletes every region, and with it the notifiers */
        memory_listener_unregister(&s->listener);
    }
    msix_uninit_exclusive_bar(pci);
    pcie_cap_exit(pci);
}

static const VMStateDescription vmstate_queue = {
    .name = "iommulab-dma/queue",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]) {
        VMSTATE_TIMER(timer, DMAQueue),
        VMSTATE_UINT64(addr, DMAQueue),
        VMSTATE_UINT64(stride, DMAQueue),
        VMSTATE_UINT32(size, DMAQueue),
        VMSTATE_UINT32(count, DMAQueue),
        VMSTATE_UINT64(interval, DMAQueue),
        VMSTATE_UINT64(pattern, DMAQueue),
        VMSTATE_UINT32(cmd, DMAQueue),
        VMSTATE_UINT32(status, DMAQueue),
        VMSTATE_UINT32(done, DMAQueue),
        VMSTATE_UINT32(faults, DMAQueue),
        VMSTATE_UINT32(diffs, DMAQueue),
        VMSTATE_UINT32(atc_hits, DMAQueue),
        VMSTATE_UINT64(fault_time, DMAQueue),
        VMSTATE_UINT64(diff_time, DMAQueue),
        VMSTATE_UINT64(data, DMAQueue),
        VMSTATE_UINT64(xlat_time, DMAQueue),
        VMSTATE_INT64(start, DMAQueue),
        VMSTATE_INT64(end, DMAQueue),
        VMSTATE_BOOL(ending, DMAQueue),
        VMSTATE_END_OF_LIST()
    },
};

static int iommulab_dma_post_load(void *opaque, int version_id)
{
    IOMMULabDMAState *s = opaque;

    atc_clear(s);
    for (uint32_t i = 0; i < s->n_queues; i++) {
        DMAQueue *q = &s->queue[i];

        /* What a busy queue relies on, as command() checks it */
        if (q->status == IOMMULAB_DMA_BUSY &&
            (!q->size || q->size > IOMMULAB_DMA_SIZE_MAX ||
             (q->addr | q->stride | q->size) % sizeof(uint64_t) ||
             q->done > q->count ||
             q->interval > IOMMULAB_DMA_INTERVAL_MAX)) {
            return -EINVAL;
        }
    }
    return 0;
}

static const VMStateDescription vmstate_iommulab_dma = {
    .name = TYPE_IOMMULAB_DMA,
    .version_id = 1,
    .minimum_version_id = 1,
    .post_load = iommulab_dma_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_PCI_DEVICE(parent_obj, IOMMULabDMAState),
        VMSTATE_MSIX(parent_obj, IOMMULabDMAState),
        VMSTATE_UINT32_EQUAL(n_queues, IOMMULabDMAState, NULL),
        VMSTATE_STRUCT_VARRAY_UINT32(queue, IOMMULabDMAState, n_queues, 1,
                                     vmstate_queue, DMAQueue),
        VMSTATE_UINT32(atc_invals, IOMMULabDMAState),
        VMSTATE_END_OF_LIST()
    },
};

static const Property iommulab_dma_properties[] = {
    DEFINE_PROP_UINT32("queues", IOMMULabDMAState, n_queues, 4),
    DEFINE_PROP_BOOL("ats", IOMMULabDMAState, ats, false),
    DEFINE_PROP_UINT8("ats-answers", IOMMULabDMAState, ats_answers, 1),
};

static void iommulab_dma_class_init(ObjectClass *klass, void *data)
{
    DeviceClass *dc = DEVICE_CLASS(klass);
    PCIDeviceClass *k = PCI_DEVICE_CLASS(klass);
    ResettableClass *rc = RESETTABLE_CLASS(klass);

    k->realize = iommulab_dma_realize;
    k->exit = iommulab_dma_exit;
    k->vendor_id = PCI_VENDOR_ID_QEMU;
    k->device_id = IOMMULAB_DMA_DEVICE_ID;
    k->revision = IOMMULAB_DMA_VERSION_VALUE;
    k->class_id = PCI_CLASS_OTHERS;

    rc->phases.hold = iommulab_dma_reset_hold;

    dc->desc = "iommulab DMA device (timed bursts through an IOMMU)";
    dc->vmsd = &vmstate_iommulab_dma;
    device_class_set_props(dc, iommulab_dma_properties);
    set_bit(DEVICE_CATEGORY_MISC, dc->categories);
}

static const TypeInfo iommulab_dma_types[] = {
    {
        .name           = TYPE_IOMMULAB_DMA,
        .parent         = TYPE_PCI_DEVICE,
        .instance_size  = sizeof(IOMMULabDMAState),
        .class_init     = iommulab_dma_class_init,
        .interfaces     = (InterfaceInfo[]) {
            { INTERFACE_PCIE_DEVICE },
            { }
        },
    },
};

DEFINE_TYPES(iommulab_dma_types)
