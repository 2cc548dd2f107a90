/*
 * Fuzzer for SMMUv3: registers, queues, tables, DMA
 *
 * See iommulab-fuzz.h for its environment.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bitops.h"
#include "qemu/units.h"
#include "iommulab-fuzz.h"
#include "iommulab-smmuv3-qtest.h"

#define POOL_ADDR       TABLE_ADDR
#define POOL_PAGES      16

static uint64_t pool_page(Fuzz *f)
{
    return POOL_ADDR + fuzz_below(f, POOL_PAGES) * 4096;
}

/*
 * Without translation an address of the DMA device is one of the machine. The
 * flash below 128 MiB turns any write into a change of the memory map, which
 * takes QEMU milliseconds, whoever does it: it is not what is tested here.
 */
static uint64_t no_flash(uint64_t addr)
{
    return addr < 128 * MiB ? addr + GiB : addr;
}

static uint64_t any_address(Fuzz *f)
{
    switch (fuzz_below(f, 8)) {
    case 0:
        return no_flash(fuzz_value(f));
    case 1:
        return SMMU_BASE + fuzz_below(f, 0x20000);
    case 2:
        return f->t.bar.addr + fuzz_below(f, IOMMULAB_DMA_BAR_SIZE);
    case 3:
        return pool_page(f) + fuzz_below(f, 4096);
    default:
        /* Of these 512 pages the first is mapped to begin with */
        return IOVA_BASE + (fuzz_u64(f) & (fuzz_once_in(f, 4) ? 0x1fffff :
                                                                0xfff));
    }
}

/* Chapter 4: a command that is close to a valid one */
static void put_commands(Fuzz *f)
{
    static const uint8_t opcodes[] = {
        0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x10, 0x11, 0x12, 0x13, 0x28,
        0x2a, 0x30, 0x40, 0x41, 0x44, 0x46,
    };
    uint32_t prod, log2;

    if (!f->shadow) {
        unsigned base = fuzz_send(f, "readl 0x%llx\n",
                                  SMMU_BASE + SMMU_CMDQ_BASE);

        f->tail = fuzz_readl(f, SMMU_BASE + SMMU_CMDQ_PROD);
        f->base = f->answers[base];
        f->shadow = true;
    }
    prod = f->tail;
    log2 = MIN(f->base & 0x1f, CMDQ_LOG2);
    for (int n = fuzz_below(f, 6); n >= 0; n--) {
        uint64_t addr = CMDQ_ADDR + (prod & ((1 << log2) - 1)) * 16;
        uint64_t lo = opcodes[fuzz_below(f, ARRAY_SIZE(opcodes))];
        uint64_t hi = 0;

        switch (lo) {
        case 0x03 ... 0x06:
            lo |= (uint64_t)DMA_DEVFN << 32;
            hi = fuzz_below(f, 32);
            break;
        case 0x12:
        case 0x13:
        case 0x2a:
            /* 4.4.1.1: NUM, SCALE, TG, TTL, Leaf */
            lo |= fuzz_below(f, 32) << 12;
            lo |= (fuzz_once_in(f, 4) ? fuzz_below(f, 32) :
                                        fuzz_below(f, 4)) << 20;
            hi = (any_address(f) & ~0xfffull) | fuzz_below(f, 16) << 8 |
                 fuzz_below(f, 2);
            break;
        case 0x40:
            /* An endpoint that is there, or not */
            lo |= (uint64_t)fuzz_below(f, 256) << 32;
            break;
        case 0x46:
            lo |= fuzz_below(f, 4) << 12 | fuzz_u64(f) << 32;
            hi = any_address(f) & ~3ull;
            break;
        }
        fuzz_writeq(f, addr, fuzz_flip(f, lo));
        fuzz_writeq(f, addr + 8, fuzz_flip(f, hi));
        prod = (prod + 1) & ((2 << log2) - 1);
    }
    f->tail = prod;
    if (fuzz_once_in(f, 16)) {
        prod = fuzz_value(f);
        f->shadow = false;
    }
    fuzz_writel(f, SMMU_BASE + SMMU_CMDQ_PROD, prod);
    if (!fuzz_once_in(f, 4)) {
        if (fuzz_once_in(f, 2)) {
            /* As drivers do: a CMD_SYNC in the place of what may be bad */
            uint32_t cons = fuzz_readl(f, SMMU_BASE + SMMU_CMDQ_CONS);
            uint64_t addr = CMDQ_ADDR + (cons & ((1 << log2) - 1)) * 16;

            fuzz_writeq(f, addr, 0x46);
            fuzz_writeq(f, addr + 8, 0);
        }
        fuzz_writel(f, SMMU_BASE + SMMU_GERRORN,
                    fuzz_readl(f, SMMU_BASE + SMMU_GERROR));
    }
}

/* An entry of whatever table it is taken for */
static void put_entry(Fuzz *f)
{
    uint64_t at = pool_page(f) + fuzz_below(f, 512) * 8;
    uint64_t entry = pool_page(f) | 1 << 10 | (fuzz_u64(f) & 0xc3);

    switch (fuzz_below(f, 4)) {
    case 0:
        at = STRTAB_ADDR + DMA_DEVFN * 64 + fuzz_below(f, 8) * 8;
        break;
    case 1:
        at = CD_ADDR + fuzz_below(f, 8) * 8;
        break;
    case 2:
        at = TABLE_ADDR + fuzz_below(f, 3) * 4096 + fuzz_below(f, 2) * 8;
        break;
    }
    if (fuzz_once_in(f, 3)) {
        entry = fuzz_value(f);
    } else if (fuzz_once_in(f, 2)) {
        entry = fuzz_readq(f, at) ^ 1ull << fuzz_below(f, 64);
    }
    fuzz_writeq(f, at, fuzz_flip(f, entry));
}

static void put_register(Fuzz *f)
{
    uint64_t reg = fuzz_below(f, 0x100) +
                   (fuzz_once_in(f, 8) ? 0x10000 : 0);
    uint64_t val = fuzz_once_in(f, 3) ? pool_page(f) | fuzz_below(f, 0x1000) :
                   fuzz_value(f);

    if ((reg & 0xfff8) == SMMU_CMDQ_BASE || (reg & 0xfff8) == SMMU_CMDQ_PROD) {
        f->shadow = false;
    }
    if (fuzz_once_in(f, 2)) {
        fuzz_writeq(f, SMMU_BASE + (reg & ~7ull), val);
    } else {
        fuzz_writel(f, SMMU_BASE + (reg & ~3ull), val);
    }
    if (fuzz_once_in(f, 4)) {
        reg = fuzz_below(f, 0x20000);
        if (fuzz_once_in(f, 2)) {
            fuzz_touch(f, 'q', SMMU_BASE + (reg & ~7ull));
        } else {
            fuzz_touch(f, 'l', SMMU_BASE + (reg & ~3ull));
        }
    }
}

/* STE.Config's stages that the machine has: 1, 2, or 3 for both */
static int machine_stages;

/*
 * Back to a state in which most things work, with any of the stages, but
 * mostly those of the machine: another stream is only a fault.
 */
static void put_right(Fuzz *f)
{
    static const struct {
        uint8_t granule, t0sz, sl0;     /* as S2TG, S2T0SZ and S2SL0 */
    } s2[] = { { 0, 25, 1 }, { 2, 30, 1 }, { 1, 30, 1 }, { 0, 20, 2 } };
    static const struct {
        uint64_t reg, val;
    } regs[] = {
        { SMMU_STRTAB, STRTAB_ADDR },
        { SMMU_CMDQ_BASE, CMDQ_ADDR | CMDQ_LOG2 },
        { SMMU_EVTQ_BASE, EVTQ_ADDR | EVTQ_LOG2 },
    };
    uint64_t ste = STRTAB_ADDR + DMA_DEVFN * 64;
    int stages = 4 | (fuzz_once_in(f, 2) ? fuzz_below(f, 4) : machine_stages);
    /* The tables are those of the first, which the others walk elsewhere */
    int i = fuzz_once_in(f, 2) ? fuzz_below(f, ARRAY_SIZE(s2)) : 0;

    fuzz_writel(f, SMMU_BASE + SMMU_CR0, 0);
    /* A queue that takes time is off when all that had started is done. */
    for (int n = 0; fuzz_readl(f, SMMU_BASE + SMMU_CR0ACK) & SMMU_CR0_CMDQEN;
         n++) {
        g_assert_cmpint(n, <, 1000);
        fuzz_clock_step(f, 1000);
    }
    /* As smmu_start() does */
    fuzz_writeq(f, TABLE_ADDR, (TABLE_ADDR + 0x1000) | 3);
    fuzz_writeq(f, TABLE_ADDR + 0x1000 + (IOVA_BASE >> 21) * 8,
                (TABLE_ADDR + 0x2000) | 3);
    /* AP or S2AP: what stage 1 needs is not what stage 2 does */
    fuzz_writeq(f, TABLE_ADDR + 0x2000, PAGE_ADDR | 1 << 10 |
                fuzz_below(f, 4) << 6 | 3);
    fuzz_writel(f, CD_ADDR, CD_LO);
    fuzz_writel(f, CD_ADDR + 4, CD_HI | CD_IPS_44);
    fuzz_writeq(f, CD_ADDR + 8, TABLE_ADDR);
    fuzz_writeq(f, ste, CD_ADDR | stages << 1 | 1);
    fuzz_writeq(f, ste + 8, 0);
    fuzz_writeq(f, ste + 16, (s2[i].t0sz | s2[i].sl0 << 6 |
                              s2[i].granule << 14 | 4ull << 16 | 1ull << 19 |
                              1ull << 26) << 32);
    fuzz_writeq(f, ste + 24, TABLE_ADDR);
    for (int n = 0; n < ARRAY_SIZE(regs); n++) {
        fuzz_writeq(f, SMMU_BASE + regs[n].reg, regs[n].val);
    }
    fuzz_writel(f, SMMU_BASE + SMMU_STRTAB_CFG, STRTAB_LOG2);
    fuzz_writel(f, SMMU_BASE + SMMU_CMDQ_CONS, 0);
    fuzz_writel(f, SMMU_BASE + SMMU_CMDQ_PROD, 0);
    fuzz_writel(f, SMMU_BASE + SMMU_EVTQ_PROD, 0);
    fuzz_writel(f, SMMU_BASE + SMMU_EVTQ_CONS, 0);
    fuzz_writel(f, SMMU_BASE + SMMU_GERRORN,
                fuzz_readl(f, SMMU_BASE + SMMU_GERROR));
    fuzz_writel(f, SMMU_BASE + SMMU_CR0,
                fuzz_once_in(f, 8) ? fuzz_u64(f) : SMMU_ALL);
    f->shadow = false;
}

static void smmu_step(Fuzz *f)
{
    switch (f->first && fuzz_once_in(f, 2) ? 0 : fuzz_below(f, 16)) {
    case 0:
        put_right(f);
        break;
    case 1 ... 4:
        put_register(f);
        break;
    case 5 ... 8:
        put_commands(f);
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

/* A queue that takes time, and all that it may have */
#define TIMED                                                               \
    " -global arm-smmuv3.queue-timing=on"                                   \
    " -global arm-smmuv3.msi=on -global arm-smmuv3.sev=on"                  \
    " -global arm-smmuv3.x-ats=on"
#define COST(key, cycles) " -global arm-smmuv3.queue-" key "=" #cycles
#define COSTS                                                               \
    COST("doorbell", 50) COST("fetch", 30) COST("interval", 5)              \
    COST("inv-all", 200) COST("inv-context", 150) COST("inv-page", 40)      \
    COST("inv-range", 4) COST("inv-walk", 10) COST("config", 60)            \
    COST("other", 20) COST("sync", 60) COST("write", 40) COST("irq", 70)    \
    COST("ats", 500) COST("ats-depth", 2) COST("ats-timeout", 3000)

static void test_smmu(const void *options)
{
    g_autofree char *machine = g_strdup_printf(
        "-M virt-9.1,iommu=smmuv3 -global arm-smmuv3.iotlb-entries=8 "
        "-global arm-smmuv3.iotlb-walk-ps=3000 -global arm-smmuv3.stage=%s",
        (const char *)options);
    uint32_t expected = 1u << FUZZ_HITS | 1u << FUZZ_MISSES |
                        1u << FUZZ_WALKS | 1u << FUZZ_INVALIDATED;

    if (strstr(options, "queue-timing=on")) {
        expected |= 1u << FUZZ_COMMANDS | 1u << FUZZ_WAITS | 1u << FUZZ_FAULTS;
    }
    if (strstr(options, "queue-sync")) {
        expected |= 1u << FUZZ_FULL;
    }
    machine_stages = g_str_has_prefix(options, "nested") ? 3 : atoi(options);
    fuzz_run(machine, "", smmu_step, SMMU_BASE + SMMU_IDR0, NULL,
             expected);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);

    qtest_add_data_func("/smmuv3-fuzz/stage1", "1", test_smmu);
    qtest_add_data_func("/smmuv3-fuzz/stage2", "2", test_smmu);
    qtest_add_data_func("/smmuv3-fuzz/nested", "nested", test_smmu);
    /* A step of time is a few commands, an endpoint takes longer. */
    qtest_add_data_func("/smmuv3-fuzz/timed", "nested" TIMED COSTS
                        COST("depth", 4), test_smmu);
    qtest_add_data_func("/smmuv3-fuzz/timed-entries", "1" TIMED COSTS
                        COST("inv-entry", 9)
                        " -global arm-smmuv3.ril=off"
                        " -global arm-smmuv3.cmdqs=4", test_smmu);
    /* All at once, but with the engine's code */
    qtest_add_data_func("/smmuv3-fuzz/timed-free", "nested" TIMED, test_smmu);

    return g_test_run();
}
