/*
 * QTest testcase for the SMMUv3 command queue that takes time
 *
 * Each test says at which nanosecond what is visible.  All costs differ, so
 * that a time tells what it is made of.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bitops.h"
#include "iommulab-migrate-qtest.h"
#include "qobject/qlist.h"

#define SMMU            0x09050000ULL   /* hw/arm/virt.c */
#define SMMU_SPI        74              /* eventq, priq, sync, gerror */
#define QUEUE           0x40100000ULL
#define MSI             0x40200000ULL

#define LARGEST_LOG2    19
#define LARGEST_QUEUE   0x40800000ULL   /* the upper half of memory */
#define LARGEST_PIECE   0x20000         /* words that qtest takes at once */

#define IDR0            0x000
#define IDR1            0x004
#define IDR3            0x00c
#define CR0             0x020
#define CR0ACK          0x024
#define IRQ_CTRL        0x050
#define GERROR          0x060
#define GERRORN         0x064
#define CMDQ_BASE       0x090
#define CMDQ_PROD       0x098
#define CMDQ_CONS       0x09c

#define CMDQEN          (1 << 3)
#define CMDQ_ERR        1
#define MSI_CMDQ_ABT    (1 << 4)

/* CMDQ_CONS.ERR */
#define ERR(code)       ((code) << 24)
#define CERROR_ILL      1
#define CERROR_ABT      2
#define CERROR_ATC_INV_SYNC 3

#define CMD_CFGI_STE    0x03
#define CMD_CFGI_STE_RANGE 0x04
#define CMD_CFGI_CD     0x05
#define CMD_PREFETCH    0x01
#define CMD_TLBI_NH_ALL 0x10
#define CMD_TLBI_ASID   0x11
#define CMD_TLBI_VA     0x12
#define CMD_TLBI_EL2    0x20
#define CMD_TLBI_NSNH   0x30
#define CMD_ATC_INV     0x40
#define CMD_PRI_RESP    0x41
#define CMD_RESUME      0x44
#define CMD_SYNC        0x46
#define SYNC_IRQ        (1ULL << 12)
#define SYNC_SEV        (2ULL << 12)
#define SYNC_BAD        (3ULL << 12)
#define SSEC            (1ULL << 10)
#define LEAF            1ULL
#define TG_4K           (1ULL << 10)

/* ns, as the clock has 1 GHz */
#define DOORBELL        1000
#define FETCH           300
#define INV_ALL         5000
#define INV_CONTEXT     4000
#define INV_PAGE        200
#define INV_RANGE       17
#define INV_WALK        60
#define CONFIG          700
#define OTHER           90
#define SYNC            400
#define WRITE           30
#define IRQ             50
#define ATS             20000
#define ATS_TIMEOUT     100000

#define COSTS                                                       \
    "-global arm-smmuv3.queue-timing=on "                           \
    "-global arm-smmuv3.queue-doorbell=" stringify(DOORBELL) " "    \
    "-global arm-smmuv3.queue-fetch=" stringify(FETCH) " "          \
    "-global arm-smmuv3.queue-inv-all=" stringify(INV_ALL) " "      \
    "-global arm-smmuv3.queue-inv-context=" stringify(INV_CONTEXT) " " \
    "-global arm-smmuv3.queue-inv-page=" stringify(INV_PAGE) " "    \
    "-global arm-smmuv3.queue-inv-range=" stringify(INV_RANGE) " "  \
    "-global arm-smmuv3.queue-inv-walk=" stringify(INV_WALK) " "    \
    "-global arm-smmuv3.queue-config=" stringify(CONFIG) " "        \
    "-global arm-smmuv3.queue-other=" stringify(OTHER) " "          \
    "-global arm-smmuv3.queue-sync=" stringify(SYNC) " "            \
    "-global arm-smmuv3.queue-write=" stringify(WRITE) " "          \
    "-global arm-smmuv3.queue-irq=" stringify(IRQ) " "              \
    "-global arm-smmuv3.queue-ats=" stringify(ATS) " "              \
    "-global arm-smmuv3.queue-ats-timeout=" stringify(ATS_TIMEOUT) " "

#define START           (DOORBELL + FETCH)

static uint32_t rd(QTestState *s, unsigned reg)
{
    return qtest_readl(s, SMMU + reg);
}

static void wr(QTestState *s, unsigned reg, uint32_t val)
{
    qtest_writel(s, SMMU + reg, val);
}

static void put(QTestState *s, unsigned slot, uint64_t lo, uint64_t hi)
{
    qtest_writeq(s, QUEUE + slot * 16, lo);
    qtest_writeq(s, QUEUE + slot * 16 + 8, hi);
}

static void enable(QTestState *s, unsigned log2size)
{
    qtest_writeq(s, SMMU + CMDQ_BASE, QUEUE | log2size);
    wr(s, CMDQ_PROD, 0);
    wr(s, CMDQ_CONS, 0);
    wr(s, CR0, CMDQEN);
    g_assert_cmphex(rd(s, CR0ACK), ==, CMDQEN);
}

static QTestState *start(const char *options)
{
    g_autofree char *args = g_strdup_printf(
        "-M virt,iommu=smmuv3 -m 16 -nodefaults %s", options);
    QTestState *s = qtest_init(args);

    enable(s, 8);
    return s;
}

/* CONS becomes @cons at @ns after now, and not before. */
static void cons_at(QTestState *s, int64_t ns, uint32_t before, uint32_t cons)
{
    qtest_clock_step(s, ns - 1);
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, before);
    qtest_clock_step(s, 1);
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, cons);
}

/* Each command takes its time: the SYNC behind it tells. */
static void test_costs(void)
{
    static const struct {
        uint64_t lo, hi;
        unsigned ns;
    } cmds[] = {
        { CMD_PREFETCH, 0, OTHER },
        { CMD_CFGI_STE, 0, CONFIG },
        { CMD_CFGI_CD, 0, CONFIG },
        { CMD_TLBI_NH_ALL, 0, INV_ALL + INV_WALK },
        { CMD_TLBI_NSNH, 0, INV_ALL + INV_WALK },
        { CMD_TLBI_ASID, 0, INV_CONTEXT + INV_WALK },
        { CMD_TLBI_VA, 0x1000 | LEAF, INV_PAGE },
        { CMD_TLBI_VA, 0x1000, INV_PAGE + INV_WALK },
        /* NUM 0, SCALE 0 and a TTL: one page */
        { CMD_TLBI_VA, 0x1000 | TG_4K | 3 << 8 | LEAF, INV_PAGE },
        /* 2, 3 and (31 + 1) << 5 pages */
        { CMD_TLBI_VA | 1 << 12, 0x1000 | TG_4K | LEAF,
          INV_PAGE + INV_RANGE },
        { CMD_TLBI_VA | 2 << 12, 0x1000 | TG_4K | LEAF,
          INV_PAGE + 2 * INV_RANGE },
        { CMD_TLBI_VA | 31 << 12 | 5 << 20, 0x1000 | TG_4K | LEAF,
          INV_PAGE + 10 * INV_RANGE },
    };

    for (int i = 0; i < ARRAY_SIZE(cmds); i++) {
        QTestState *s = start(COSTS);

        put(s, 0, cmds[i].lo, cmds[i].hi);
        put(s, 1, CMD_SYNC, 0);
        wr(s, CMDQ_PROD, 2);
        cons_at(s, START, 0, 1);
        cons_at(s, cmds[i].ns + SYNC, 1, 2);
        g_assert_cmphex(rd(s, GERROR), ==, 0);
        qtest_quit(s);
    }
}

/* CONS runs ahead of TLBI's completion, not of SYNC's; nothing passes it. */
static void test_order(void)
{
    QTestState *s = start(COSTS "-global arm-smmuv3.queue-depth=4 "
                          "-global arm-smmuv3.queue-interval=10 "
                          "-global arm-smmuv3.queue-fetch=0");

    put(s, 0, CMD_TLBI_VA, LEAF);
    put(s, 1, CMD_TLBI_VA, LEAF);
    put(s, 2, CMD_SYNC, 0);
    put(s, 3, CMD_TLBI_VA, LEAF);
    wr(s, CMDQ_PROD, 4);
    cons_at(s, DOORBELL, 0, 1);
    cons_at(s, 10, 1, 2);
    /* The second ends at 210; the command after the SYNC starts at once. */
    cons_at(s, INV_PAGE + SYNC, 2, 4);
    qtest_quit(s);
}

static void test_wrap_full(void)
{
    QTestState *s = start(COSTS);
    uint32_t prod = 0;

    qtest_quit(s);
    s = qtest_init("-M virt,iommu=smmuv3 -m 16 -nodefaults "
                   COSTS "-global arm-smmuv3.cmdqs=2");
    g_assert_cmphex(extract32(rd(s, IDR1), 21, 5), ==, 2);
    enable(s, 2);
    for (int i = 0; i < 4; i++) {
        put(s, i, CMD_TLBI_VA, LEAF);
    }
    for (int round = 0; round < 5; round++) {
        uint32_t cons = prod;

        /* All four, so that PROD equals CONS but for the wrap bit */
        prod = (prod + 4) & 7;
        wr(s, CMDQ_PROD, prod);
        g_assert_cmphex(rd(s, CMDQ_CONS), ==, cons);
        cons_at(s, START, cons, (cons + 1) & 7);
        cons_at(s, 3 * INV_PAGE, (cons + 3) & 7, prod);
        qtest_clock_step(s, 10000);
    }
    qtest_quit(s);
}

static void check_error(const char *options, uint64_t lo, uint64_t hi,
                        unsigned code)
{
    QTestState *s = start(options);

    put(s, 0, CMD_TLBI_VA, LEAF);
    put(s, 1, lo, hi);
    put(s, 2, CMD_SYNC, 0);
    wr(s, CMDQ_PROD, 3);
    qtest_clock_step(s, START + INV_PAGE - 1);
    g_assert_cmphex(rd(s, GERROR), ==, 0);
    qtest_clock_step(s, 1);
    g_assert_cmphex(rd(s, GERROR), ==, CMDQ_ERR);
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, ERR(code) | 1);

    /* Nothing moves until the error is acknowledged, */
    qtest_clock_step(s, 1000000);
    wr(s, CMDQ_PROD, 3);
    qtest_clock_step(s, 1000000);
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, ERR(code) | 1);
    /* and then the repaired command is fetched. */
    put(s, 1, CMD_CFGI_STE, 0);
    wr(s, GERRORN, CMDQ_ERR);
    qtest_clock_step(s, START);
    g_assert_cmphex(rd(s, CMDQ_CONS) & 0xffffff, ==, 2);
    qtest_clock_step(s, CONFIG + SYNC);
    g_assert_cmphex(rd(s, CMDQ_CONS) & 0xffffff, ==, 3);
    qtest_quit(s);
}

static void test_illegal(void)
{
    static const struct {
        uint64_t lo, hi;
    } cmds[] = {
        { 0, 0 }, { 0xff, 0 },
        { CMD_SYNC | SYNC_BAD, 0 },
        { CMD_CFGI_STE | SSEC, 0 },
        /* NUM, SCALE and TTL 0 with a granule */
        { CMD_TLBI_VA, TG_4K },
        /* No EL2, ATS, PRI or stalls */
        { CMD_TLBI_EL2, 0 }, { CMD_ATC_INV, 0 },
        { CMD_PRI_RESP, 0 }, { CMD_RESUME, 0 },
    };

    for (int i = 0; i < ARRAY_SIZE(cmds); i++) {
        check_error(COSTS, cmds[i].lo, cmds[i].hi, CERROR_ILL);
    }
}

static void test_abort(void)
{
    QTestState *s = start(COSTS);

    wr(s, CR0, 0);
    qtest_writeq(s, SMMU + CMDQ_BASE, 0x7f000000ULL << 8 | 8);
    wr(s, CR0, CMDQEN);
    wr(s, CMDQ_PROD, 1);
    qtest_clock_step(s, START - 1);
    g_assert_cmphex(rd(s, GERROR), ==, 0);
    qtest_clock_step(s, 1);
    g_assert_cmphex(rd(s, GERROR), ==, CMDQ_ERR);
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, ERR(CERROR_ABT));
    qtest_quit(s);
}

/* Each way CMD_SYNC signals, and that it does so on time */
static void test_sync_msi(void)
{
    QTestState *s = start(COSTS "-global arm-smmuv3.msi=on");

    g_assert_cmphex(rd(s, IDR0) & (1 << 13), !=, 0);
    qtest_writeq(s, MSI, -1);
    put(s, 0, CMD_SYNC | SYNC_IRQ | 0xcafef00dULL << 32, MSI);
    wr(s, CMDQ_PROD, 1);
    qtest_clock_step(s, START + SYNC + WRITE - 1);
    g_assert_cmphex(qtest_readl(s, MSI), ==, 0xffffffff);
    qtest_clock_step(s, 1);
    g_assert_cmphex(qtest_readq(s, MSI), ==, 0xffffffffcafef00dULL);
    /* Who saw it sees the command consumed. */
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, 1);

    /* An MSI that cannot be written does not stop the queue. */
    put(s, 1, CMD_SYNC | SYNC_IRQ, 0x7f0000000000ULL);
    put(s, 2, CMD_SYNC, 0);
    wr(s, CMDQ_PROD, 3);
    qtest_clock_step(s, START + SYNC + WRITE);
    g_assert_cmphex(rd(s, GERROR), ==, MSI_CMDQ_ABT);
    qtest_clock_step(s, SYNC);
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, 3);

    /* The MSI's target is the SMMU itself: refused, and no recursion */
    put(s, 3, CMD_SYNC | SYNC_IRQ | 9ULL << 32, SMMU + CMDQ_PROD);
    put(s, 4, CMD_SYNC, 0);
    wr(s, GERRORN, MSI_CMDQ_ABT);
    wr(s, CMDQ_PROD, 5);
    qtest_clock_step(s, 1000000);
    g_assert_cmphex(rd(s, CMDQ_PROD), ==, 5);
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, 5);
    g_assert_cmphex(rd(s, GERROR), ==, 0);
    qtest_quit(s);
}

/* The interrupt of CMD_SYNC at the GICv2 distributor, taken as an edge */
#define GICD            0x08000000ULL
#define GICD_ISPENDR    0x200
#define GICD_ICPENDR    0x280
#define GICD_ICFGR      0xc00
#define SYNC_INTID      (32 + SMMU_SPI + 2)

/* Pulses since the last call, as far as one can tell: 0 or 1 */
static bool sync_irq(QTestState *s)
{
    uint64_t offset = SYNC_INTID / 32 * 4;
    uint32_t bit = 1u << SYNC_INTID % 32;
    bool pending = qtest_readl(s, GICD + GICD_ISPENDR + offset) & bit;

    qtest_writel(s, GICD + GICD_ICPENDR + offset, bit);
    return pending;
}

static void test_sync_irq(const void *msi)
{
    QTestState *s = start(msi ? COSTS "-global arm-smmuv3.msi=on" : COSTS);
    uint64_t icfgr = GICD + GICD_ICFGR + SYNC_INTID / 16 * 4;

    qtest_writel(s, icfgr,
                 qtest_readl(s, icfgr) | 2u << SYNC_INTID % 16 * 2);
    g_assert_false(sync_irq(s));

    /* Without an address it is the wire, even with MSIs. */
    put(s, 0, CMD_SYNC | SYNC_IRQ | 1ULL << 32, msi ? 0 : MSI);
    qtest_writel(s, MSI, 0);
    wr(s, CMDQ_PROD, 1);
    qtest_clock_step(s, START + SYNC + IRQ - 1);
    g_assert_false(sync_irq(s));
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, 0);
    qtest_clock_step(s, 1);
    g_assert_true(sync_irq(s));
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, 1);
    g_assert_cmphex(qtest_readl(s, MSI), ==, 0);
    qtest_clock_step(s, 1000000);
    g_assert_false(sync_irq(s));

    /* Others do not use it. */
    put(s, 1, CMD_SYNC, MSI);
    put(s, 2, CMD_SYNC | SYNC_SEV, MSI);
    wr(s, CMDQ_PROD, 3);
    qtest_clock_step(s, 1000000);
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, 3);
    g_assert_false(sync_irq(s));
    qtest_quit(s);
}

static void test_sync_sev(const void *sev)
{
    QTestState *s = start(sev ? COSTS "-global arm-smmuv3.sev=on" : COSTS);

    g_assert_cmphex(extract32(rd(s, IDR0), 14, 1), ==, sev ? 1 : 0);
    put(s, 0, CMD_SYNC | SYNC_SEV, 0);
    wr(s, CMDQ_PROD, 1);
    cons_at(s, START + SYNC + (sev ? IRQ : 0), 0, 1);
    qtest_quit(s);
}

/* No function answers: reported once, at the SYNC */
static void test_atc(void)
{
    QTestState *s = start(COSTS "-global arm-smmuv3.x-ats=on");

    g_assert_cmphex(rd(s, IDR0) & (1 << 10), !=, 0);
    put(s, 0, CMD_ATC_INV | 0x1234ULL << 32, 0);
    put(s, 1, CMD_SYNC, 0);
    wr(s, CMDQ_PROD, 2);
    cons_at(s, START, 0, 1);
    qtest_clock_step(s, OTHER + ATS_TIMEOUT + SYNC - 1);
    g_assert_cmphex(rd(s, GERROR), ==, 0);
    qtest_clock_step(s, 1);
    g_assert_cmphex(rd(s, GERROR), ==, CMDQ_ERR);
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, ERR(CERROR_ATC_INV_SYNC) | 1);
    wr(s, GERRORN, CMDQ_ERR);
    qtest_clock_step(s, START + SYNC);
    g_assert_cmphex(rd(s, CMDQ_CONS) & 0xffffff, ==, 2);
    g_assert_cmphex(rd(s, GERROR) ^ rd(s, GERRORN), ==, 0);
    qtest_quit(s);
}

/* CR0ACK follows when what is in progress is done. */
static void test_disable(void)
{
    QTestState *s = start(COSTS);

    put(s, 0, CMD_TLBI_NH_ALL, 0);
    put(s, 1, CMD_TLBI_VA, LEAF);
    wr(s, CMDQ_PROD, 2);
    qtest_clock_step(s, START);
    wr(s, CR0, 0);
    g_assert_cmphex(rd(s, CR0ACK), ==, CMDQEN);
    qtest_clock_step(s, INV_ALL + INV_WALK - 1);
    g_assert_cmphex(rd(s, CR0ACK), ==, CMDQEN);
    qtest_clock_step(s, 1);
    g_assert_cmphex(rd(s, CR0ACK), ==, 0);
    qtest_clock_step(s, 1000000);
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, 1);

    /* Enabled again, it goes on where it stopped. */
    wr(s, CR0, CMDQEN);
    cons_at(s, START, 1, 2);

    /* On again before it is off: nothing is lost. */
    put(s, 2, CMD_TLBI_NH_ALL, 0);
    put(s, 3, CMD_TLBI_VA, LEAF);
    wr(s, CMDQ_PROD, 4);
    qtest_clock_step(s, START + 1);
    wr(s, CR0, 0);
    wr(s, CR0, CMDQEN);
    qtest_clock_step(s, 1000000);
    g_assert_cmphex(rd(s, CR0ACK), ==, CMDQEN);
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, 4);
    qtest_quit(s);
}

static void test_reset(void)
{
    QTestState *s = start(COSTS);

    put(s, 0, CMD_SYNC, 0);
    wr(s, CMDQ_PROD, 1);
    qtest_system_reset(s);
    qtest_clock_step(s, 1000000);
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, 0);
    g_assert_cmphex(rd(s, CR0ACK), ==, 0);
    g_assert_cmphex(rd(s, GERROR), ==, 0);
    qtest_quit(s);
}

static void test_off(void)
{
    QTestState *s = start("");

    g_assert_cmphex(rd(s, IDR0) & (1 << 13 | 1 << 14 | 1 << 10), ==, 0);
    g_assert_cmphex(extract32(rd(s, IDR1), 21, 5), ==, 19);
    g_assert_cmphex(rd(s, IDR3) & (1 << 10), !=, 0);
    put(s, 0, CMD_TLBI_VA, LEAF);
    put(s, 1, CMD_SYNC, 0);
    wr(s, CMDQ_PROD, 2);
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, 2);
    qtest_quit(s);
}

static void test_ril_off(void)
{
    QTestState *s = start(COSTS "-global arm-smmuv3.ril=off");

    g_assert_cmphex(rd(s, IDR3) & (1 << 10), ==, 0);
    /* The range's fields are ignored: one page */
    put(s, 0, CMD_TLBI_VA | 31 << 12 | 5 << 20, TG_4K | LEAF);
    put(s, 1, CMD_SYNC, 0);
    wr(s, CMDQ_PROD, 2);
    qtest_clock_step(s, START);
    cons_at(s, INV_PAGE + SYNC, 1, 2);
    qtest_quit(s);
}

static QDict *queue_info(QTestState *s, bool reset)
{
    QDict *r = qtest_qmp(s, "{ 'execute': 'query-iommu-queues',"
                         "  'arguments': { 'reset': %i } }", reset);
    QDict *info = qobject_to(QDict, qlist_peek(qdict_get_qlist(r, "return")));

    qobject_ref(info);
    qobject_unref(r);
    return info;
}

static void test_statistics(void)
{
    QTestState *s = qtest_init("-M virt,iommu=smmuv3 -m 16 -nodefaults "
                               COSTS);
    g_autofree char *hmp = NULL;
    QDict *info, *wait, *cpu, *class;

    enable(s, 2);
    info = queue_info(s, true);
    g_assert_cmpint(qdict_get_int(info, "busy-ns"), ==, 0);
    qobject_unref(info);

    for (int i = 0; i < 3; i++) {
        put(s, i, CMD_TLBI_VA, LEAF);
    }
    put(s, 3, CMD_SYNC, 0);
    wr(s, CMDQ_PROD, 4);
    qtest_clock_step(s, 10000);
    rd(s, CMDQ_CONS);

    info = queue_info(s, false);
    g_assert_cmpint(qdict_get_int(info, "elapsed-ns"), ==, 10000);
    g_assert_cmpint(qdict_get_int(info, "busy-ns"), ==,
                    START + 3 * INV_PAGE + SYNC);
    g_assert_cmpint(qdict_get_int(info, "full-ns"), ==, START);
    g_assert_cmpint(qdict_get_int(info, "full-times"), ==, 1);
    g_assert_cmpint(qdict_get_int(info, "occupancy-max"), ==, 4);
    g_assert_cmpint(qdict_get_int(info, "occupancy-ns"), ==,
                    4 * START + (3 + 2 + 1) * INV_PAGE + SYNC);
    g_assert_cmpint(qdict_get_int(info, "lines"), ==, 1);
    g_assert_cmpint(qlist_size(qdict_get_qlist(info, "classes")), ==, 2);
    class = qobject_to(QDict, qlist_peek(qdict_get_qlist(info, "classes")));
    g_assert_cmpstr(qdict_get_str(class, "name"), ==, "tlbi-page");
    g_assert_cmpint(qdict_get_int(class, "commands"), ==, 3);
    g_assert_cmpint(qdict_get_int(class, "ns"), ==, 3 * INV_PAGE);
    wait = qdict_get_qdict(info, "wait");
    g_assert_cmpint(qdict_get_int(wait, "count"), ==, 1);
    g_assert_cmpint(qdict_get_int(wait, "sum"), ==,
                    START + 3 * INV_PAGE + SYNC);
    cpu = qobject_to(QDict, qlist_peek(qdict_get_qlist(info, "cpus")));
    g_assert_cmpint(qdict_get_int(cpu, "cpu"), ==, -1);
    g_assert_cmpint(qdict_get_int(cpu, "doorbells"), ==, 1);
    g_assert_cmpint(qdict_get_int(cpu, "waits"), ==, 1);
    g_assert_cmpint(qdict_get_int(cpu, "polls"), ==, 1);
    qobject_unref(info);

    hmp = qtest_hmp(s, "info iommu-queues");
    g_assert_nonnull(strstr(hmp, "running, 0 of 4 entries"));
    g_assert_nonnull(strstr(hmp, "tlbi-page"));

    qobject_unref(queue_info(s, true));
    info = queue_info(s, false);
    g_assert_cmpint(qdict_get_int(info, "busy-ns"), ==, 0);
    g_assert_true(qlist_empty(qdict_get_qlist(info, "classes")));
    qobject_unref(info);
    qtest_quit(s);
}

/* ---------------------------------------------------------------- inputs */

/* Lines of a trace that have @word in them */
static int traced(const char *path, const char *word)
{
    g_autofree char *log = NULL;
    int n = 0;

    g_assert_true(g_file_get_contents(path, &log, NULL, NULL));
    for (const char *p = log; (p = strstr(p, word)); p++) {
        n++;
    }
    return n;
}

/* What drivers did and do; ends are the same whether it takes time or not. */
static void test_inputs(const void *data)
{
    g_autofree char *dir = g_dir_make_tmp("smmuv3-queue-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(dir, "trace", NULL);
    g_autofree char *options = g_strdup_printf(
        "%s -trace smmuv3_range_inval -trace smmuv3_cmdq_cfgi_ste_range -D %s",
        (const char *)data, path);
    QTestState *s = start(options);

    /* Reserved bits of CR0 are not acknowledged. */
    wr(s, CR0, CMDQEN | 0xfffffc20);
    g_assert_cmphex(rd(s, CR0ACK), ==, CMDQEN);
    wr(s, CR0, CMDQEN);

    /* CONS cannot be written while the queue is on. */
    put(s, 0, CMD_PREFETCH, 0);
    put(s, 1, CMD_SYNC, 0);
    wr(s, CMDQ_PROD, 2);
    qtest_clock_step(s, 1000000);
    wr(s, CMDQ_CONS, 0);
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, 2);

    /* 4.3.2: the low Range + 1 bits of the stream do not count, 31 is all */
    put(s, 2, CMD_CFGI_STE_RANGE | 0x1237ULL << 32, 3);
    put(s, 3, CMD_CFGI_STE_RANGE | 0x1237ULL << 32, 31);
    /* 32 pages from an odd one: 1, 2, 16, 8, 4, 1 */
    put(s, 4, CMD_TLBI_VA | 31 << 12, 0xffacd000 | TG_4K | LEAF);
    put(s, 5, CMD_SYNC, 0);
    wr(s, CMDQ_PROD, 6);
    qtest_clock_step(s, 1000000);
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, 6);
    g_assert_cmphex(rd(s, GERROR), ==, 0);

    /* A reset with all of it in use */
    wr(s, IRQ_CTRL, 7);
    put(s, 6, 0xff, 0);
    wr(s, CMDQ_PROD, 7);
    qtest_clock_step(s, 1000000);
    g_assert_cmphex(rd(s, GERROR), ==, CMDQ_ERR);
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, ERR(CERROR_ILL) | 6);
    qtest_system_reset(s);
    qtest_clock_step(s, 1000000);
    g_assert_cmphex(rd(s, CR0), ==, 0);
    g_assert_cmphex(rd(s, CR0ACK), ==, 0);
    g_assert_cmphex(rd(s, IRQ_CTRL), ==, 0);
    g_assert_cmphex(rd(s, GERROR), ==, 0);
    g_assert_cmphex(rd(s, CMDQ_PROD), ==, 0);
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, 0);
    enable(s, 8);
    put(s, 0, CMD_SYNC, 0);
    wr(s, CMDQ_PROD, 1);
    qtest_clock_step(s, 1000000);
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, 1);
    qtest_quit(s);

    g_assert_cmpint(traced(path, "start=0x1230 - end=0x123f"), ==, 1);
    g_assert_cmpint(traced(path, "start=0x0 - end=0xffffffff"), ==, 1);
    g_assert_cmpint(traced(path, "smmuv3_range_inval"), ==, 6);
    g_assert_cmpint(traced(path, "num_pages=0x10 "), ==, 1);
    unlink(path);
    rmdir(dir);
}

/* 6.3.2: the largest queue, 2^19 commands, full with one write of PROD */
static void test_largest(const void *options)
{
    const unsigned n = 1 << LARGEST_LOG2;
    g_autofree uint64_t *ring = g_new0(uint64_t, n * 2);
    QTestState *s = start(options);

    g_assert_cmpint(extract32(rd(s, IDR1), 21, 5), ==, LARGEST_LOG2);
    for (int i = 0; i < n - 1; i++) {
        ring[i * 2] = cpu_to_le64(CMD_TLBI_VA);
        ring[i * 2 + 1] = cpu_to_le64((uint64_t)i << 12 | LEAF);
    }
    ring[(n - 1) * 2] = cpu_to_le64(CMD_SYNC);
    for (int i = 0; i < n * 2; i += LARGEST_PIECE) {
        qtest_bufwrite(s, LARGEST_QUEUE + i * 8, ring + i, LARGEST_PIECE * 8);
    }
    wr(s, CR0, 0);
    qtest_clock_step(s, 1000000);
    qtest_writeq(s, SMMU + CMDQ_BASE, LARGEST_QUEUE | LARGEST_LOG2);
    wr(s, CMDQ_CONS, 0);
    wr(s, CMDQ_PROD, n);
    wr(s, CR0, CMDQEN);
    qtest_clock_step(s, DOORBELL + n * (FETCH + INV_PAGE + SYNC));
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, n);
    g_assert_cmphex(rd(s, GERROR), ==, 0);
    qtest_quit(s);
}

/* ------------------------------------------------------------- migration */

#define MIGRATION_STEPS 200

#define MIGRATION_ARGS                                              \
    "-M virt,iommu=smmuv3 -m 16 -nodefaults " COSTS                 \
    "-global arm-smmuv3.msi=on -global arm-smmuv3.queue-depth=3 "

/*
 * Random work in small steps; what is visible after each goes to @seen.  At
 * @points of the steps, what is in flight goes on in another QEMU.
 */
static int random_work(uint32_t (*seen)[3], int points)
{
    g_autofree char *file = NULL;
    int fd = g_file_open_tmp("smmuv3-queue-XXXXXX", &file, NULL);
    GRand *r = g_rand_new_with_seed(4);
    QTestState *s = qtest_init(MIGRATION_ARGS);
    uint32_t prod = 0, syncs = 0, done = 0;
    int64_t now = 0;
    int in_flight = 0;

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    enable(s, 8);

    for (int i = 0; i < MIGRATION_STEPS; i++) {
        int n = g_rand_int_range(r, 0, 6);

        while (n--) {
            if (g_rand_int_range(r, 0, 3) == 0) {
                syncs++;
                put(s, prod % 256, CMD_SYNC | SYNC_IRQ |
                    (uint64_t)syncs << 32, MSI + syncs * 4);
            } else {
                put(s, prod % 256, CMD_TLBI_VA | g_rand_int_range(r, 0, 32)
                    << 12, 0x1000 | TG_4K | 3 << 8);
            }
            prod = (prod + 1) & 511;
        }
        wr(s, CMDQ_PROD, prod);
        n = g_rand_int_range(r, 1, 3000);
        qtest_clock_step(s, n);
        now += n;

        if (i % (MIGRATION_STEPS / 100) == 0 && points-- > 0) {
            in_flight += rd(s, CMDQ_CONS) != prod;
            s = migrate(s, MIGRATION_ARGS, now, file);
        }

        /* Completed syncs, in order; none may be signalled twice. */
        while (done < syncs &&
               qtest_readl(s, MSI + (done + 1) * 4) == done + 1) {
            qtest_writel(s, MSI + ++done * 4, 0);
        }
        seen[i][0] = rd(s, CMDQ_CONS);
        seen[i][1] = done;
        seen[i][2] = rd(s, GERROR);
    }
    qtest_clock_step(s, 10000000);
    while (done < syncs) {
        done++;
        g_assert_cmpint(qtest_readl(s, MSI + done * 4), ==, done);
        qtest_writel(s, MSI + done * 4, 0);
    }
    qtest_clock_step(s, 10000000);
    for (uint32_t i = 1; i <= syncs; i++) {
        g_assert_cmpint(qtest_readl(s, MSI + i * 4), ==, 0);
    }
    g_assert_cmphex(rd(s, CMDQ_CONS), ==, prod);
    qtest_quit(s);
    g_rand_free(r);
    unlink(file);
    return in_flight;
}

static void test_migration(void)
{
    uint32_t straight[MIGRATION_STEPS][3], moved[MIGRATION_STEPS][3];

    int points = g_test_slow() ? 100 : 20;

    random_work(straight, 0);
    /* Most of the points have to be in the middle of something. */
    g_assert_cmpint(random_work(moved, points), >, points / 2);
    for (int i = 0; i < MIGRATION_STEPS; i++) {
        for (int j = 0; j < 3; j++) {
            g_assert_cmphex(straight[i][j], ==, moved[i][j]);
        }
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);

    qtest_add_func("/smmuv3-queue/costs", test_costs);
    qtest_add_func("/smmuv3-queue/order", test_order);
    qtest_add_func("/smmuv3-queue/wrap-full", test_wrap_full);
    qtest_add_func("/smmuv3-queue/illegal", test_illegal);
    qtest_add_func("/smmuv3-queue/abort", test_abort);
    qtest_add_func("/smmuv3-queue/sync/msi", test_sync_msi);
    qtest_add_data_func("/smmuv3-queue/sync/irq", NULL, test_sync_irq);
    qtest_add_data_func("/smmuv3-queue/sync/irq-msi", "", test_sync_irq);
    qtest_add_data_func("/smmuv3-queue/sync/sev", "", test_sync_sev);
    qtest_add_data_func("/smmuv3-queue/sync/no-sev", NULL, test_sync_sev);
    qtest_add_func("/smmuv3-queue/atc", test_atc);
    qtest_add_func("/smmuv3-queue/disable", test_disable);
    qtest_add_func("/smmuv3-queue/reset", test_reset);
    qtest_add_func("/smmuv3-queue/off", test_off);
    qtest_add_func("/smmuv3-queue/ril-off", test_ril_off);
    qtest_add_func("/smmuv3-queue/statistics", test_statistics);
    qtest_add_data_func("/smmuv3-queue/inputs/timed", COSTS, test_inputs);
    qtest_add_data_func("/smmuv3-queue/inputs/off", "", test_inputs);
    qtest_add_data_func("/smmuv3-queue/largest/timed", COSTS, test_largest);
    qtest_add_data_func("/smmuv3-queue/largest/off", "", test_largest);
    qtest_add_func("/smmuv3-queue/migration", test_migration);

    return g_test_run();
}
