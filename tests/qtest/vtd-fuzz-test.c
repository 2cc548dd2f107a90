/*
 * Fuzzer for VT-d: registers, invalidation queue, tables, DMA
 *
 * See iommulab-fuzz.h for its environment.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "iommulab-fuzz.h"
#include "iommulab-vtd-qtest.h"
#include "hw/pci/pci_regs.h"

/* Pages that hold the queue and every table, each of them anything */
#define POOL_ADDR       IQ_ADDR
#define POOL_PAGES      32

#define REG(offset)     (Q35_HOST_BRIDGE_IOMMU_ADDR + (offset))

#define ATS_CTRL        (ECAM_BASE + (DMA_DEVFN << 12) + 0x100 + PCI_ATS_CTRL)

/* A queue that takes time */
#define TIMED                                                               \
    ",queue-timing=on,queue-doorbell=50,queue-fetch=30,queue-interval=5,"   \
    "queue-inv-all=200,queue-inv-context=150,queue-inv-page=40,"            \
    "queue-inv-range=4,queue-inv-walk=10,queue-config=60,queue-intr=50,"    \
    "queue-other=20,queue-drain=15,queue-sync=60,queue-write=40,"           \
    "queue-irq=70,queue-ats=500,queue-ats-depth=2,queue-ats-timeout=3000"

static uint64_t pool_page(Fuzz *f)
{
    return POOL_ADDR + fuzz_below(f, POOL_PAGES) * 4096;
}

static uint64_t any_address(Fuzz *f)
{
    switch (fuzz_below(f, 8)) {
    case 0:
        return fuzz_value(f);
    case 1:
        /* The IOMMU's own registers */
        return Q35_HOST_BRIDGE_IOMMU_ADDR + fuzz_below(f, 0x1000);
    case 2:
        /* Interrupts */
        return 0xfee00000 + fuzz_below(f, 0x100000);
    case 3:
        return f->t.bar.addr + fuzz_below(f, IOMMULAB_DMA_BAR_SIZE);
    case 4:
        return pool_page(f) + fuzz_below(f, 4096);
    default:
        /* Of these 512 pages the first is mapped to begin with */
        return IOVA_BASE + (fuzz_u64(f) & (fuzz_once_in(f, 4) ? 0x1fffff :
                                                                0xfff));
    }
}

/* 6.5.2: a descriptor that is close to a valid one */
static void put_descriptor(Fuzz *f, uint64_t addr, bool wide)
{
    uint64_t lo, hi = 0;

    switch (fuzz_below(f, 10)) {
    case 0:
        lo = VTD_INV_DESC_CC | (fuzz_u64(f) & ~VTD_INV_DESC_CC_RSVD & ~0xfull);
        break;
    case 1:
    case 2:
        lo = VTD_INV_DESC_IOTLB | fuzz_below(f, 4) << 4 |
             fuzz_below(f, 3) << 16;
        hi = any_address(f) & ~0xf80ull;
        break;
    case 3:
        lo = VTD_INV_DESC_DEVICE | (uint64_t)DMA_DEVFN << 32;
        hi = any_address(f) & ~0xffeull;
        break;
    case 4:
        lo = VTD_INV_DESC_IEC | (fuzz_u64(f) & ~VTD_INV_DESC_IEC_RSVD &
                                 ~0xfull);
        break;
    case 5:
    case 6:
        lo = VTD_INV_DESC_WAIT | fuzz_below(f, 8) << 4 | fuzz_u64(f) << 32;
        hi = any_address(f) & ~3ull;
        break;
    case 7:
        lo = VTD_INV_DESC_PIOTLB | fuzz_below(f, 4) << 4 |
             fuzz_below(f, 3) << 16;
        hi = any_address(f);
        break;
    case 8:
        lo = VTD_INV_DESC_DEV_PIOTLB | (uint64_t)DMA_DEVFN << 16;
        hi = any_address(f);
        break;
    default:
        lo = fuzz_value(f);
        hi = fuzz_value(f);
    }
    fuzz_writeq(f, addr, fuzz_flip(f, lo));
    fuzz_writeq(f, addr + 8, fuzz_flip(f, hi));
    if (wide) {
        fuzz_writeq(f, addr + 16, fuzz_flip(f, 0));
        fuzz_writeq(f, addr + 24, fuzz_flip(f, 0));
    }
}

static void put_descriptors(Fuzz *f)
{
    uint32_t size;
    uint64_t tail;
    bool wide;

    if (!f->shadow) {
        unsigned base = fuzz_send(f, "readq 0x%llx\n",
                                  REG(DMAR_IQA_REG));

        f->tail = fuzz_readq(f, REG(DMAR_IQT_REG));
        f->base = f->answers[base];
        f->shadow = true;
    }
    wide = f->base & VTD_IQA_DW_MASK;
    size = wide ? 32 : 16;
    tail = f->tail & 0x7ffe0;

    for (int n = fuzz_below(f, 6); n >= 0; n--) {
        put_descriptor(f, IQ_ADDR + tail, wide);
        tail = (tail + size) % (IQ_ENTRIES * 16);
    }
    if (fuzz_once_in(f, 16)) {
        tail = fuzz_value(f);
    }
    /* An odd tail is not taken as it is */
    f->shadow = !(tail & ~0x7ffe0ull);
    f->tail = tail;
    fuzz_writeq(f, REG(DMAR_IQT_REG), tail);
    if (!fuzz_once_in(f, 4)) {
        if (fuzz_once_in(f, 2)) {
            /* As drivers do: a wait in the place of what may be bad */
            uint64_t head = fuzz_readq(f, REG(DMAR_IQH_REG));

            fuzz_writeq(f, IQ_ADDR + head, VTD_INV_DESC_WAIT |
                        VTD_INV_DESC_WAIT_SW | VTD_INV_DESC_WAIT_FN);
            fuzz_writeq(f, IQ_ADDR + head + 8, STATUS_ADDR);
            if (wide) {
                fuzz_writeq(f, IQ_ADDR + head + 16, 0);
                fuzz_writeq(f, IQ_ADDR + head + 24, 0);
            }
        }
        fuzz_writel(f, REG(DMAR_FSTS_REG), UINT32_MAX);
    }
}

/* An entry of whatever table it is taken for */
static void put_entry(Fuzz *f)
{
    uint64_t at = pool_page(f) + (fuzz_below(f, 512) & ~3u) * 8;
    uint64_t entry = pool_page(f) | (fuzz_u64(f) & 0x9f);

    if (fuzz_once_in(f, 2)) {
        /* Near the entries that are in use */
        static const uint64_t used[] = {
            ROOT_ADDR, CONTEXT_ADDR + DMA_DEVFN * 16,
            CONTEXT_ADDR + DMA_DEVFN * 32, TABLE_ADDR,
            TABLE_ADDR + 0x1000 + (IOVA_BASE >> 21) * 8, TABLE_ADDR + 0x2000,
        };

        at = used[fuzz_below(f, ARRAY_SIZE(used))] + fuzz_below(f, 4) * 8;
    }
    if (fuzz_once_in(f, 4)) {
        entry = fuzz_value(f);
    }
    fuzz_writeq(f, at, fuzz_flip(f, entry));
}

static void put_register(Fuzz *f)
{
    uint64_t reg = fuzz_once_in(f, 4) ? fuzz_below(f, 0x400) :
                   fuzz_below(f, 0x100);
    uint64_t val = fuzz_once_in(f, 3) ? pool_page(f) | fuzz_below(f, 0x1000) :
                   fuzz_value(f);

    if ((reg & ~7ull) == DMAR_IQT_REG || (reg & ~7ull) == DMAR_IQA_REG) {
        f->shadow = false;
    }
    if (fuzz_once_in(f, 2)) {
        fuzz_writeq(f, REG(reg & ~7ull), val);
    } else {
        fuzz_writel(f, REG(reg & ~3ull), val);
    }
    if (fuzz_once_in(f, 4)) {
        reg = fuzz_below(f, 0x1000);
        if (fuzz_once_in(f, 2)) {
            fuzz_touch(f, 'q', REG(reg & ~7ull));
        } else {
            fuzz_touch(f, 'l', REG(reg & ~3ull));
        }
    }
}

/* Back to a state in which most things work */
static void put_right(Fuzz *f)
{
    bool scalable = strstr(f->machine, "x-scalable-mode=on") &&
                    !fuzz_once_in(f, 4);
    /* Seldom off, as a change of the memory map takes QEMU long */
    uint32_t te = f->fresh || fuzz_once_in(f, 8) ? 0 : VTD_GCMD_TE;

    fuzz_writel(f, REG(DMAR_GCMD_REG), te);
    fuzz_writel(f, REG(DMAR_FSTS_REG), UINT32_MAX);
    fuzz_writeq(f, ROOT_ADDR, CONTEXT_ADDR | 1);
    /* 9.1: reserved in legacy mode */
    fuzz_writeq(f, ROOT_ADDR + 8, scalable ? (CONTEXT_ADDR + 0x1000) | 1 : 0);
    if (scalable) {
        /* 9.4: to a PASID directory, from it to a table, in two more pages */
        uint64_t pasid = POOL_ADDR + (POOL_PAGES - 2) * 4096;

        fuzz_writeq(f, CONTEXT_ADDR + DMA_DEVFN * 32, pasid | 1);
        fuzz_writeq(f, CONTEXT_ADDR + DMA_DEVFN * 32 + 8, 0);
        fuzz_writeq(f, pasid, (pasid + 0x1000) | 1);
        /* 9.6: first or second stage, pass-through, or none of them */
        fuzz_writeq(f, pasid + 0x1000, TABLE_ADDR | 1 << 2 |
                     (uint64_t)fuzz_below(f, 5) << 6 | 1);
        fuzz_writeq(f, pasid + 0x1008, VTD_DOMAIN);
        fuzz_writeq(f, pasid + 0x1010, TABLE_ADDR);
    } else {
        fuzz_writeq(f, CONTEXT_ADDR + DMA_DEVFN * 16,
                     TABLE_ADDR | fuzz_below(f, 3) << 2 | 1);
        fuzz_writeq(f, CONTEXT_ADDR + DMA_DEVFN * 16 + 8,
                     VTD_DOMAIN << 8 | (1 + fuzz_below(f, 2)));
    }
    fuzz_writeq(f, TABLE_ADDR, (TABLE_ADDR + 0x1000) | 3);
    fuzz_writeq(f, TABLE_ADDR + 0x1000 + (IOVA_BASE >> 21) * 8,
                 (TABLE_ADDR + 0x2000) | 3);
    fuzz_writeq(f, TABLE_ADDR + 0x2000, PAGE_ADDR | 3);

    /* A queue that takes time is off when all that had started is done. */
    fuzz_writel(f, REG(DMAR_GCMD_REG), te);
    for (int i = 0; fuzz_readl(f, REG(DMAR_GSTS_REG)) & VTD_GSTS_QIES; i++) {
        g_assert_cmpint(i, <, 1000);
        fuzz_clock_step(f, 1000);
    }
    fuzz_writel(f, REG(DMAR_FSTS_REG), UINT32_MAX);
    /* 11.4.6: translation table mode, 01 is scalable */
    fuzz_writeq(f, REG(DMAR_RTADDR_REG), ROOT_ADDR | (scalable ? 1 << 10 : 0));
    fuzz_writel(f, REG(DMAR_GCMD_REG), te | VTD_GCMD_SRTP);
    fuzz_writeq(f, REG(DMAR_IQT_REG), 0);
    fuzz_writeq(f, REG(DMAR_IQA_REG),
               IQ_ADDR | (fuzz_once_in(f, 2) ? VTD_IQA_DW_MASK : 0));
    fuzz_writel(f, REG(DMAR_GCMD_REG), te | VTD_GCMD_QIE);
    fuzz_writel(f, REG(DMAR_GCMD_REG), VTD_GCMD_QIE | VTD_GCMD_TE);
    if (f->fresh) {
        /* Once, for the same reason */
        fuzz_drain(f);
        vtd_enable_ecam(f->t.qts);
        f->fresh = false;
    }
    fuzz_send(f, "writew 0x%x 0x%x\n", ATS_CTRL, PCI_ATS_CTRL_ENABLE);
    f->shadow = false;
}

static void vtd_step(Fuzz *f)
{
    switch (f->first && fuzz_once_in(f, 2) ? 0 : fuzz_below(f, 16)) {
    case 0:
        put_right(f);
        break;
    case 1 ... 4:
        put_register(f);
        break;
    case 5 ... 8:
        put_descriptors(f);
        break;
    case 9 ... 11:
        put_entry(f);
        break;
    case 12:
        fuzz_clock_step(f, 1 + fuzz_below(f, 1000));
        break;
    default:
        fuzz_dma(f, any_address(f));
    }
}

static void test_vtd(const void *data)
{
    const char *options = data;
    g_autofree char *machine = g_strdup_printf("-M q35,sata=off,smbus=off -device "
                                               "intel-iommu,id=iommu%s",
                                               options);
    uint32_t expected = 0;

    if (strstr(options, "iotlb-entries")) {
        expected |= 1u << FUZZ_HITS | 1u << FUZZ_MISSES | 1u << FUZZ_WALKS |
                    1u << FUZZ_INVALIDATED;
    }
    if (strstr(options, "queue-timing=on")) {
        expected |= 1u << FUZZ_COMMANDS | 1u << FUZZ_WAITS | 1u << FUZZ_FAULTS;
    }
    if (strstr(options, "queue-sync")) {
        expected |= 1u << FUZZ_TIMEOUTS;
    }
    fuzz_run(machine, strstr(options, "device-iotlb=on") ? ",ats=on" : "",
             vtd_step, REG(DMAR_VER_REG), "/machine/peripheral/iommu",
             expected);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);

    qtest_add_data_func("/q35/vtd-fuzz/legacy", "", test_vtd);
    qtest_add_data_func("/q35/vtd-fuzz/all", ",device-iotlb=on,intremap=on,"
                        "caching-mode=on,snoop-control=on,iotlb-entries=4,"
                        "iotlb-ways=2,iotlb-walk-ps=3000", test_vtd);
    qtest_add_data_func("/q35/vtd-fuzz/second-stage", ",x-scalable-mode=on,"
                        "device-iotlb=on", test_vtd);
    qtest_add_data_func("/q35/vtd-fuzz/first-stage", ",x-scalable-mode=on,"
                        "x-flts=on,fs1gp=on", test_vtd);
    /* A step of time is a few descriptors, an endpoint takes longer. */
    qtest_add_data_func("/q35/vtd-fuzz/timed", ",device-iotlb=on,"
                        "intremap=on,caching-mode=on" TIMED ",queue-depth=4",
                        test_vtd);
    qtest_add_data_func("/q35/vtd-fuzz/timed-entries", ",x-scalable-mode=on,"
                        "device-iotlb=on" TIMED ",queue-inv-entry=9",
                        test_vtd);
    /* All at once, but with the engine's code */
    qtest_add_data_func("/q35/vtd-fuzz/timed-free", ",device-iotlb=on,"
                        "queue-timing=on", test_vtd);

    return g_test_run();
}
