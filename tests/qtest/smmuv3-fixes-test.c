/*
 * QTest testcase for repaired defects of the SMMUv3
 *
 * A case each for the patches to hw/arm/smmuv3.c in patches/qemu/fixes.
 * Section numbers are those of IHI 0070 G.b.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bitops.h"
#include "iommulab-dma-qtest.h"
#include "iommulab-smmuv3-qtest.h"

#define VIRT            "-M virt,iommu=smmuv3,gic-version=2"
/* Later ones have both stages, whatever the property says */
#define VIRT_STAGE(x)   "-M virt-9.1,iommu=smmuv3,gic-version=2 " \
                        "-global arm-smmuv3.stage=" x

/* 7.3, event types */
#define EVT_C_BAD_STREAMID  0x02
#define EVT_C_BAD_STE       0x04
#define EVT_F_TRANSLATION   0x10

/*
 * Events of a read of 8 bytes that fails: what the access ends up at, nothing,
 * takes 4 bytes at a time, and each half is translated
 */
#define EVENTS              2

/* 4.1.1, opcodes */
#define CMD_PREFETCH_CONFIG 0x01
#define CMD_PREFETCH_ADDR   0x02
#define CMD_CFGI_STE        0x03
#define CMD_CFGI_ALL        0x04
#define CMD_CFGI_CD         0x05
#define CMD_CFGI_CD_ALL     0x06
#define CMD_TLBI_NH_VA      0x12
#define CMD_TLBI_NH_VAA     0x13
#define CMD_TLBI_EL3_ALL    0x18
#define CMD_TLBI_EL3_VA     0x1a
#define CMD_TLBI_EL2_ALL    0x20
#define CMD_TLBI_EL2_VAA    0x23
#define CMD_TLBI_S2_IPA     0x2a
#define CMD_TLBI_NSNH_ALL   0x30
#define CMD_ATC_INV         0x40
#define CMD_PRI_RESP        0x41
#define CMD_RESUME          0x44
#define CMD_STALL_TERM      0x45
#define CMD_SYNC            0x46

/* 4.7.3, completion signal of CMD_SYNC */
#define SYNC_CS(x)      ((uint64_t)(x) << 12)

/* 4.4.1.1, fields of a TLBI by range */
#define TLBI_NUM(x)     ((uint64_t)(x) << 12)
#define TLBI_SCALE(x)   ((uint64_t)(x) << 20)
#define TLBI_TTL(x)     ((uint64_t)(x) << 8)
#define TLBI_TG(x)      ((uint64_t)(x) << 10)

/* GICv2 distributor: pending bits and edge configuration of an SPI */
#define GICD            0x08000000ull
#define GICD_ISPENDR    0x200
#define GICD_ICPENDR    0x280
#define GICD_ICFGR      0xc00

/* SPI of CMD_SYNC: eventq, priq, cmd-sync, gerror */
#define SYNC_INTID      (32 + SMMU_IRQ + 2)

static void watch_sync_irq(QTestState *s)
{
    uint64_t reg = GICD + GICD_ICFGR + SYNC_INTID / 16 * 4;

    qtest_writel(s, reg, qtest_readl(s, reg) | 2u << SYNC_INTID % 16 * 2);
}

/* Whether the interrupt has come since the last call */
static bool sync_irq(QTestState *s)
{
    uint32_t bit = 1u << SYNC_INTID % 32;
    uint64_t offset = SYNC_INTID / 32 * 4;
    bool pending = qtest_readl(s, GICD + GICD_ISPENDR + offset) & bit;

    qtest_writel(s, GICD + GICD_ICPENDR + offset, bit);
    return pending;
}

static uint8_t event_type(QTestState *s, int index)
{
    return qtest_readb(s, EVTQ_ADDR + index * 32);
}

/* 5.4: the effective size is the smaller of IPS and OAS, whatever IPS is */
static void test_ips(void)
{
    DMATest t;
    uint64_t data;

    dma_start(&t, VIRT, "");
    smmu_start(t.qts, DMA_DEVFN, SMMU_ALL);
    qtest_writeq(t.qts, PAGE_ADDR, 0x1122334455667788);

    for (uint32_t ips = CD_IPS_44; ips < 8; ips++) {
        smmu_set_cd(t.qts, ips);
        g_assert_cmpuint(smmu_try(t.qts, CMD_CFGI_ALL, 31), ==, CERROR_NONE);
        g_assert_true(dma_read_word(&t, IOVA_BASE, &data));
        g_assert_cmphex(data, ==, 0x1122334455667788);
    }
    /* 32 bits: the table at 1 GiB and the page are within */
    smmu_set_cd(t.qts, 0);
    g_assert_cmpuint(smmu_try(t.qts, CMD_CFGI_ALL, 31), ==, CERROR_NONE);
    g_assert_true(dma_read_word(&t, IOVA_BASE, &data));
    g_assert_cmphex(smmu_readl(t.qts, SMMU_EVTQ_PROD), ==, 0);

    dma_end(&t);
}

/* 5.2: S2AA64 = 0 is ILLEGAL as IDR0.TTF says AArch64 only */
static void test_s2aa64(void)
{
    DMATest t;
    uint64_t data;

    dma_start(&t, VIRT_STAGE("2"), "");
    smmu_start(t.qts, DMA_DEVFN, SMMU_ALL);
    /* Config 0b110: stage 2; S2T0SZ 25, SL0 1, all the rest zero */
    smmu_set_ste(t.qts, DMA_DEVFN, 6 << 1 | 1, 0, (25ull | 1 << 6) << 32,
                 TABLE_ADDR);
    g_assert_false(dma_read_word(&t, IOVA_BASE, &data));
    g_assert_cmphex(smmu_readl(t.qts, SMMU_EVTQ_PROD), ==, EVENTS);
    g_assert_cmphex(event_type(t.qts, 0), ==, EVT_C_BAD_STE);

    dma_end(&t);
}

/* 4.7.3: CS 0b11 is ILLEGAL; only 0b01 raises the interrupt */
static void test_sync_signal(void)
{
    QTestState *s = qtest_init(VIRT);

    smmu_start(s, DMA_DEVFN, SMMU_ALL);
    watch_sync_irq(s);

    g_assert_cmpuint(smmu_try(s, CMD_SYNC | SYNC_CS(0), 0), ==, CERROR_NONE);
    g_assert_false(sync_irq(s));
    g_assert_cmpuint(smmu_try(s, CMD_SYNC | SYNC_CS(1), 0), ==, CERROR_NONE);
    g_assert_true(sync_irq(s));
    g_assert_cmpuint(smmu_try(s, CMD_SYNC | SYNC_CS(2), 0), ==, CERROR_NONE);
    g_assert_false(sync_irq(s));
    g_assert_cmpuint(smmu_try(s, CMD_SYNC | SYNC_CS(3), 0), ==, CERROR_ILL);
    g_assert_false(sync_irq(s));

    qtest_quit(s);
}

/* 6.3.26, 6.3.28: read-only while the queue is enabled */
static void test_guarded(void)
{
    QTestState *s = qtest_init(VIRT);

    smmu_start(s, DMA_DEVFN, SMMU_ALL);
    g_assert_cmpuint(smmu_try(s, CMD_SYNC, 0), ==, CERROR_NONE);

    smmu_writel(s, SMMU_CMDQ_CONS, 0);
    g_assert_cmphex(smmu_readl(s, SMMU_CMDQ_CONS), ==, 1);
    smmu_writeq(s, SMMU_CMDQ_BASE, 0);
    g_assert_cmphex(smmu_readl(s, SMMU_CMDQ_BASE), ==, CMDQ_ADDR | CMDQ_LOG2);
    smmu_writel(s, SMMU_CMDQ_BASE, 0);
    smmu_writel(s, SMMU_CMDQ_BASE + 4, 1);
    g_assert_cmphex(smmu_readl(s, SMMU_CMDQ_BASE), ==, CMDQ_ADDR | CMDQ_LOG2);
    g_assert_cmphex(smmu_readl(s, SMMU_CMDQ_BASE + 4), ==, 0);

    smmu_writel(s, SMMU_EVTQ_PROD, 3);
    g_assert_cmphex(smmu_readl(s, SMMU_EVTQ_PROD), ==, 0);
    smmu_writeq(s, SMMU_EVTQ_BASE, 0);
    smmu_writel(s, SMMU_EVTQ_BASE, 0);
    smmu_writel(s, SMMU_EVTQ_BASE + 4, 1);
    g_assert_cmphex(smmu_readl(s, SMMU_EVTQ_BASE), ==, EVTQ_ADDR | EVTQ_LOG2);
    g_assert_cmphex(smmu_readl(s, SMMU_EVTQ_BASE + 4), ==, 0);

    /* One queue's enable says nothing about the other */
    smmu_writel(s, SMMU_CR0, SMMU_CR0_EVENTQEN);
    smmu_writel(s, SMMU_CMDQ_CONS, 0);
    g_assert_cmphex(smmu_readl(s, SMMU_CMDQ_CONS), ==, 0);
    smmu_writel(s, SMMU_EVTQ_PROD, 3);
    g_assert_cmphex(smmu_readl(s, SMMU_EVTQ_PROD), ==, 0);
    smmu_writel(s, SMMU_CR0, SMMU_CR0_CMDQEN);
    smmu_writel(s, SMMU_EVTQ_PROD, 3);
    g_assert_cmphex(smmu_readl(s, SMMU_EVTQ_PROD), ==, 3);

    qtest_quit(s);
}

/* 7.4: a lost event toggles OVFLG, once until it is acknowledged */
static void test_event_overflow(void)
{
    DMATest t;
    uint64_t data;
    uint32_t flag = 0;

    dma_start(&t, VIRT, "");
    smmu_start(t.qts, DMA_DEVFN, SMMU_ALL);

    for (int round = 0; round < 3; round++) {
        uint32_t full = ((round + 1) << EVTQ_LOG2) & 0x1f;

        for (int i = 0; i < 1 << EVTQ_LOG2; i += EVENTS) {
            g_assert_cmphex(smmu_readl(t.qts, SMMU_EVTQ_PROD), ==,
                            (((round << EVTQ_LOG2) + i) & 0x1f) | flag);
            g_assert_false(dma_read_word(&t, 0xdead000, &data));
            g_assert_cmphex(event_type(t.qts, i), ==, EVT_F_TRANSLATION);
        }
        /* Full, nothing lost yet */
        g_assert_cmphex(smmu_readl(t.qts, SMMU_EVTQ_PROD), ==, full | flag);

        flag ^= SMMU_EVTQ_OVF;
        for (int i = 0; i < 3; i++) {
            g_assert_false(dma_read_word(&t, 0xdead000, &data));
            g_assert_cmphex(smmu_readl(t.qts, SMMU_EVTQ_PROD), ==,
                            full | flag);
        }
        g_assert_cmphex(smmu_readl(t.qts, SMMU_GERROR), ==, 0);

        /* Consume all and acknowledge */
        smmu_writel(t.qts, SMMU_EVTQ_CONS, full | flag);
    }

    dma_end(&t);
}

/* 7.2: EVENTQ_ABT_ERR is for a write that is aborted */
static void test_event_abort(void)
{
    DMATest t;
    uint64_t data;

    dma_start(&t, VIRT, "");
    smmu_start(t.qts, DMA_DEVFN, SMMU_ALL);
    smmu_writel(t.qts, SMMU_CR0, 0);
    smmu_writeq(t.qts, SMMU_EVTQ_BASE, 0xf0000000000ull | EVTQ_LOG2);
    smmu_writel(t.qts, SMMU_CR0, SMMU_ALL);
    g_assert_false(dma_read_word(&t, 0xdead000, &data));
    g_assert_cmphex(smmu_readl(t.qts, SMMU_EVTQ_PROD), ==, 0);
    g_assert_cmphex(smmu_readl(t.qts, SMMU_GERROR), ==, SMMU_GERROR_EVENTQ);

    dma_end(&t);
}

/* 4.4.1.1: a range of one granule has to have a valid TTL */
static void test_range_ttl(void)
{
    static const struct {
        int num, scale, ttl, tg;
        uint32_t err;
    } cases[] = {
        { 0, 0, 0, 0, CERROR_NONE },    /* not by range */
        { 0, 0, 0, 1, CERROR_ILL },
        { 0, 0, 0, 2, CERROR_ILL },
        { 0, 0, 0, 3, CERROR_ILL },
        { 0, 0, 1, 1, CERROR_NONE },
        { 0, 0, 1, 2, CERROR_ILL },     /* reserved, as no TTL */
        { 0, 0, 2, 2, CERROR_NONE },
        { 0, 0, 1, 3, CERROR_NONE },
        { 1, 0, 0, 1, CERROR_NONE },
        { 0, 1, 0, 1, CERROR_NONE },
        { 1, 0, 1, 2, CERROR_NONE },
    };
    QTestState *s = qtest_init(VIRT_STAGE("nested"));

    smmu_start(s, DMA_DEVFN, SMMU_ALL);
    for (int i = 0; i < ARRAY_SIZE(cases); i++) {
        static const uint8_t opcodes[] = {
            CMD_TLBI_NH_VA, CMD_TLBI_NH_VAA, CMD_TLBI_S2_IPA
        };

        for (int j = 0; j < ARRAY_SIZE(opcodes); j++) {
            uint64_t lo = opcodes[j] | TLBI_NUM(cases[i].num) |
                          TLBI_SCALE(cases[i].scale);
            uint64_t hi = IOVA_BASE | TLBI_TTL(cases[i].ttl) |
                          TLBI_TG(cases[i].tg);

            g_assert_cmpuint(smmu_try(s, lo, hi), ==, cases[i].err);
        }
    }
    qtest_quit(s);
}

/* An address inside a granule: no piece of the range is less than one */
static void test_range_align(void)
{
    g_autofree char *dir = g_dir_make_tmp("smmuv3-fixes-test-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(dir, "log", NULL);
    g_autofree char *log = NULL;
    QTestState *s = qtest_initf(VIRT " -trace smmuv3_range_inval -D %s", path);
    int pieces = 0;

    smmu_start(s, DMA_DEVFN, SMMU_ALL);
    for (int tg = 2; tg <= 3; tg++) {
        g_assert_cmpuint(smmu_try(s, CMD_TLBI_NH_VA | TLBI_NUM(2),
                                  0x10001000 | TLBI_TG(tg)), ==, CERROR_NONE);
    }
    qtest_quit(s);

    g_assert_true(g_file_get_contents(path, &log, NULL, NULL));
    for (const char *p = log; (p = strstr(p, "num_pages=")); p++) {
        g_assert_cmpuint(g_ascii_strtoull(p + strlen("num_pages="), NULL,
                                          0), >, 0);
        pieces++;
    }
    /* Three granules from an even one on: two and one */
    g_assert_cmpint(pieces, ==, 4);
    unlink(path);
    rmdir(dir);
}

/* 4.2 to 4.6: ILLEGAL where the feature is absent */
static void test_absent(const void *data)
{
    bool stage2 = data;
    QTestState *s = qtest_init(stage2 ? VIRT_STAGE("2") : VIRT_STAGE("1"));
    static const uint8_t illegal[] = {
        CMD_TLBI_EL3_ALL, CMD_TLBI_EL3_VA, CMD_TLBI_EL2_ALL,
        CMD_TLBI_EL2_VAA, CMD_ATC_INV, CMD_PRI_RESP, CMD_RESUME,
        CMD_STALL_TERM, 0x00, 0x07, 0x14, 0x47, 0xff
    };

    smmu_start(s, DMA_DEVFN, SMMU_ALL);
    for (int i = 0; i < ARRAY_SIZE(illegal); i++) {
        g_assert_cmpuint(smmu_try(s, illegal[i], 0), ==, CERROR_ILL);
    }
    g_assert_cmpuint(smmu_try(s, CMD_TLBI_NSNH_ALL, 0), ==, CERROR_NONE);
    for (int op = CMD_PREFETCH_CONFIG; op <= CMD_CFGI_CD_ALL; op++) {
        bool absent = stage2 && op >= CMD_CFGI_CD;

        g_assert_cmpuint(smmu_try(s, op, 0), ==,
                         absent ? CERROR_ILL : CERROR_NONE);
        /* 4.1.6: SSec = 1 in a non-secure queue */
        g_assert_cmpuint(smmu_try(s, op | 1 << 10, 0), ==, CERROR_ILL);
    }
    qtest_quit(s);
}

/* 6.3.25: sizes beyond what there is are taken for the largest */
static void test_stream_table_size(void)
{
    DMATest t;
    uint64_t data;

    dma_start(&t, VIRT, "");
    smmu_start(t.qts, DMA_DEVFN, SMMU_ALL & ~SMMU_CR0_SMMUEN);
    for (uint32_t fmt = 0; fmt < 2; fmt++) {
        for (uint32_t split = 0; split < 32; split++) {
            smmu_writel(t.qts, SMMU_CR0, 0);
            smmu_writel(t.qts, SMMU_STRTAB_CFG, fmt << 16 | split << 6 | 63);
            smmu_writel(t.qts, SMMU_CR0, SMMU_ALL);
            /* The base is aligned down to nothing: no entry there */
            g_assert_false(dma_read_word(&t, IOVA_BASE, &data));
        }
    }
    smmu_writel(t.qts, SMMU_CR0, 0);
    smmu_writel(t.qts, SMMU_STRTAB_CFG, STRTAB_LOG2);
    g_assert_cmphex(smmu_readl(t.qts, SMMU_STRTAB_CFG), ==, STRTAB_LOG2);
    dma_end(&t);
}

/* 6.3.25: FMT 0 is a linear table, also after FMT 1 */
static void test_linear_again(void)
{
    DMATest t;
    uint64_t data;

    dma_start(&t, VIRT, "");
    smmu_start(t.qts, DMA_DEVFN, SMMU_ALL);
    g_assert_true(dma_read_word(&t, IOVA_BASE, &data));

    smmu_writel(t.qts, SMMU_CR0, 0);
    smmu_writel(t.qts, SMMU_STRTAB_CFG, 1 << 16 | 8 << 6 | STRTAB_LOG2);
    smmu_writel(t.qts, SMMU_CR0, SMMU_ALL);
    g_assert_cmpuint(smmu_try(t.qts, CMD_CFGI_ALL, 31), ==, CERROR_NONE);
    g_assert_false(dma_read_word(&t, IOVA_BASE, &data));

    smmu_writel(t.qts, SMMU_CR0, 0);
    smmu_writel(t.qts, SMMU_STRTAB_CFG, STRTAB_LOG2);
    smmu_writel(t.qts, SMMU_CR0, SMMU_ALL);
    g_assert_cmpuint(smmu_try(t.qts, CMD_CFGI_ALL, 31), ==, CERROR_NONE);
    g_assert_true(dma_read_word(&t, IOVA_BASE, &data));
    dma_end(&t);
}

/* 5.2: S2SL0 and S2T0SZ fit if the first table resolves a bit, or more */
static void test_s2_first_level(void)
{
    static const struct {
        uint64_t tg, sl0;
        unsigned shift;     /* bits of the address below the first table's */
    } walks[] = {
        { 0, 1, 30 }, { 0, 2, 39 }, { 2, 1, 25 }, { 2, 2, 36 },
        { 1, 1, 29 }, { 1, 2, 42 },
    };
    DMATest t;
    uint64_t data;

    dma_start(&t, VIRT_STAGE("2"), "");
    smmu_start(t.qts, DMA_DEVFN, SMMU_ALL);
    for (int i = 0; i < ARRAY_SIZE(walks) * 2; i++) {
        unsigned bits = walks[i / 2].shift + i % 2;
        uint32_t old = smmu_readl(t.qts, SMMU_EVTQ_PROD);
        bool bad;

        /* S2T0SZ, SL0, TG, PS 44 bits, AA64, R */
        smmu_set_ste(t.qts, DMA_DEVFN, 6 << 1 | 1, 0,
                     ((64 - bits) | walks[i / 2].sl0 << 6 |
                      walks[i / 2].tg << 14 | 4 << 16 | 1 << 19 |
                      1 << 26) << 32, TABLE_ADDR);
        g_assert_cmpuint(smmu_try(t.qts, CMD_CFGI_ALL, 31), ==, CERROR_NONE);
        dma_read_word(&t, IOVA_BASE, &data);
        bad = smmu_readl(t.qts, SMMU_EVTQ_PROD) != old &&
              event_type(t.qts, old & ((1 << EVTQ_LOG2) - 1)) ==
              EVT_C_BAD_STE;
        g_assert_cmpint(bad, ==, i % 2 == 0);
        smmu_writel(t.qts, SMMU_EVTQ_CONS,
                    smmu_readl(t.qts, SMMU_EVTQ_PROD));
    }
    dma_end(&t);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);

    qtest_add_func("/smmuv3-fixes/ips", test_ips);
    qtest_add_func("/smmuv3-fixes/s2aa64", test_s2aa64);
    qtest_add_func("/smmuv3-fixes/sync-signal", test_sync_signal);
    qtest_add_func("/smmuv3-fixes/guarded", test_guarded);
    qtest_add_func("/smmuv3-fixes/event-overflow", test_event_overflow);
    qtest_add_func("/smmuv3-fixes/event-abort", test_event_abort);
    qtest_add_func("/smmuv3-fixes/range-ttl", test_range_ttl);
    qtest_add_func("/smmuv3-fixes/range-align", test_range_align);
    qtest_add_data_func("/smmuv3-fixes/absent/stage1", NULL, test_absent);
    qtest_add_data_func("/smmuv3-fixes/absent/stage2", (void *)1,
                        test_absent);
    qtest_add_func("/smmuv3-fixes/stream-table-size", test_stream_table_size);
    qtest_add_func("/smmuv3-fixes/linear-again", test_linear_again);
    qtest_add_func("/smmuv3-fixes/s2-first-level", test_s2_first_level);

    return g_test_run();
}
