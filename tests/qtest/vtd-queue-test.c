/*
 * QTest testcase for the VT-d invalidation queue that takes time
 *
 * Each test says at which nanosecond what is visible.  All costs differ, so
 * that a time tells what it is made of.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "iommulab-migrate-qtest.h"
#include "hw/i386/intel_iommu_internal.h"

#define QUEUE           0x100000
#define STATUS          0x200000
#define DMAR_IQERCD     0xb0
#define ITE             (1u << 6)

/* IQERCD.IQEI */
#define BAD_TAIL        1
#define BAD_FETCH       2
#define BAD_TYPE        3
#define RESERVED        4
#define BAD_WIDTH       5

#define DOORBELL        1000
#define FETCH           300
#define INV_ALL         5000
#define INV_CONTEXT     4000
#define INV_PAGE        200
#define INV_RANGE       17
#define INV_WALK        60
#define CONFIG          700
#define INTR            800
#define OTHER           90
#define DRAIN           123
#define SYNC            400
#define WRITE           30
#define IRQ             50
#define ATS             20000
#define ATS_TIMEOUT     100000

#define COSTS                                           \
    "queue-timing=on,"                                  \
    "queue-doorbell=" stringify(DOORBELL) ","           \
    "queue-fetch=" stringify(FETCH) ","                 \
    "queue-inv-all=" stringify(INV_ALL) ","             \
    "queue-inv-context=" stringify(INV_CONTEXT) ","     \
    "queue-inv-page=" stringify(INV_PAGE) ","           \
    "queue-inv-range=" stringify(INV_RANGE) ","         \
    "queue-inv-walk=" stringify(INV_WALK) ","           \
    "queue-config=" stringify(CONFIG) ","               \
    "queue-intr=" stringify(INTR) ","                   \
    "queue-other=" stringify(OTHER) ","                 \
    "queue-drain=" stringify(DRAIN) ","                 \
    "queue-sync=" stringify(SYNC) ","                   \
    "queue-write=" stringify(WRITE) ","                 \
    "queue-irq=" stringify(IRQ) ","                     \
    "queue-ats=" stringify(ATS) ","                     \
    "queue-ats-timeout=" stringify(ATS_TIMEOUT)

#define START           (DOORBELL + FETCH)

#define IH              (1ull << 6)
#define IOTLB_PAGE      (VTD_INV_DESC_IOTLB | VTD_INV_DESC_IOTLB_PAGE)
#define WAIT_SW         (VTD_INV_DESC_WAIT | VTD_INV_DESC_WAIT_SW)
#define DATA(x)         ((uint64_t)(x) << 32)

static uint32_t rd(QTestState *s, uint64_t reg)
{
    return qtest_readl(s, Q35_HOST_BRIDGE_IOMMU_ADDR + reg);
}

static void wr(QTestState *s, uint64_t reg, uint32_t val)
{
    qtest_writel(s, Q35_HOST_BRIDGE_IOMMU_ADDR + reg, val);
}

static void put(QTestState *s, unsigned slot, uint64_t lo, uint64_t hi)
{
    qtest_writeq(s, QUEUE + slot * 16, lo);
    qtest_writeq(s, QUEUE + slot * 16 + 8, hi);
}

static void enable(QTestState *s)
{
    qtest_writeq(s, Q35_HOST_BRIDGE_IOMMU_ADDR + DMAR_IQT_REG, 0);
    qtest_writeq(s, Q35_HOST_BRIDGE_IOMMU_ADDR + DMAR_IQA_REG, QUEUE);
    wr(s, DMAR_GCMD_REG, VTD_GCMD_QIE);
    g_assert_cmphex(rd(s, DMAR_GSTS_REG) & VTD_GSTS_QIES, !=, 0);
}

static void tail(QTestState *s, unsigned slot)
{
    qtest_writeq(s, Q35_HOST_BRIDGE_IOMMU_ADDR + DMAR_IQT_REG, slot << 4);
}

static unsigned head(QTestState *s)
{
    return rd(s, DMAR_IQH_REG) >> 4;
}

static QTestState *start(const char *options)
{
    QTestState *s = qtest_initf("-M q35 -m 16 -nodefaults "
                                "-device intel-iommu,%s", options);

    enable(s);
    qtest_writel(s, STATUS, 0);
    return s;
}

/* The status becomes @val at @ns after now, and not before. */
static void status_at(QTestState *s, int64_t ns, uint32_t before,
                      uint32_t val)
{
    qtest_clock_step(s, ns - 1);
    g_assert_cmphex(qtest_readl(s, STATUS), ==, before);
    qtest_clock_step(s, 1);
    g_assert_cmphex(qtest_readl(s, STATUS), ==, val);
}

static void test_costs(void)
{
    static const struct {
        uint64_t lo, hi;
        unsigned ns;
    } descs[] = {
        { VTD_INV_DESC_CC | VTD_INV_DESC_CC_GLOBAL, 0, CONFIG },
        { VTD_INV_DESC_CC | VTD_INV_DESC_CC_DEVICE, 0, CONFIG },
        { VTD_INV_DESC_IOTLB | VTD_INV_DESC_IOTLB_GLOBAL, 0,
          INV_ALL + INV_WALK },
        { VTD_INV_DESC_IOTLB | VTD_INV_DESC_IOTLB_DOMAIN, 0,
          INV_CONTEXT + INV_WALK },
        { IOTLB_PAGE, IH, INV_PAGE },
        { IOTLB_PAGE, 0, INV_PAGE + INV_WALK },
        { IOTLB_PAGE, IH | 5, INV_PAGE + 5 * INV_RANGE },
        { IOTLB_PAGE, IH | 18, INV_PAGE + 18 * INV_RANGE },
        /* Drain writes, reads, both */
        { IOTLB_PAGE | 1 << 6, IH, INV_PAGE + DRAIN },
        { IOTLB_PAGE | 1 << 7, IH, INV_PAGE + DRAIN },
        { IOTLB_PAGE | 3 << 6, IH, INV_PAGE + 2 * DRAIN },
        { VTD_INV_DESC_IEC, 0, INTR },
    };

    for (int i = 0; i < ARRAY_SIZE(descs); i++) {
        QTestState *s = start(COSTS);

        put(s, 0, descs[i].lo, descs[i].hi);
        put(s, 1, WAIT_SW | DATA(1), STATUS);
        tail(s, 2);
        status_at(s, START + descs[i].ns + SYNC + WRITE, 0, 1);
        g_assert_cmpint(head(s), ==, 2);
        g_assert_cmphex(rd(s, DMAR_FSTS_REG), ==, 0);
        qtest_quit(s);
    }
}

static void test_wait(void)
{
    QTestState *s = start(COSTS);

    /* The status write comes first, then one interrupt. */
    put(s, 0, WAIT_SW | VTD_INV_DESC_WAIT_IF | DATA(7), STATUS);
    tail(s, 1);
    qtest_clock_step(s, START + SYNC + WRITE + IRQ - 1);
    g_assert_cmphex(rd(s, DMAR_ICS_REG), ==, 0);
    qtest_clock_step(s, 1);
    g_assert_cmphex(qtest_readl(s, STATUS), ==, 7);
    g_assert_cmphex(rd(s, DMAR_ICS_REG), ==, VTD_ICS_IWC);
    g_assert_cmphex(rd(s, DMAR_IECTL_REG), ==, VTD_IECTL_IM | VTD_IECTL_IP);

    /* A fence alone is legal and signals nothing. */
    put(s, 1, VTD_INV_DESC_WAIT | VTD_INV_DESC_WAIT_FN, 0);
    tail(s, 2);
    qtest_clock_step(s, 10000);
    g_assert_cmpint(head(s), ==, 2);
    g_assert_cmphex(rd(s, DMAR_FSTS_REG), ==, 0);
    qtest_quit(s);
}

/* The head passes a wait, but not what FN holds back. */
static void test_order(void)
{
    QTestState *s = start(COSTS ",queue-fetch=0,queue-depth=4");

    put(s, 0, IOTLB_PAGE, IH);
    put(s, 1, WAIT_SW | DATA(1), STATUS);
    put(s, 2, IOTLB_PAGE, IH);
    put(s, 3, WAIT_SW | VTD_INV_DESC_WAIT_FN | DATA(2), STATUS);
    tail(s, 4);
    qtest_clock_step(s, DOORBELL);
    g_assert_cmpint(head(s), ==, 4);
    status_at(s, INV_PAGE + SYNC + WRITE, 0, 1);
    status_at(s, SYNC + WRITE, 1, 2);

    put(s, 4, IOTLB_PAGE, IH);
    put(s, 5, WAIT_SW | VTD_INV_DESC_WAIT_FN | DATA(3), STATUS);
    put(s, 6, IOTLB_PAGE, IH);
    put(s, 7, WAIT_SW | DATA(4), STATUS);
    tail(s, 8);
    qtest_clock_step(s, DOORBELL);
    g_assert_cmpint(head(s), ==, 6);
    status_at(s, INV_PAGE + SYNC + WRITE, 2, 3);
    g_assert_cmpint(head(s), ==, 8);
    status_at(s, INV_PAGE + SYNC + WRITE, 3, 4);
    qtest_quit(s);
}

static void test_wrap(void)
{
    QTestState *s = start(COSTS);
    unsigned pos = 0;

    for (int i = 0; i < 256; i++) {
        put(s, i, IOTLB_PAGE, IH);
    }
    for (int round = 1; round < 5; round++) {
        pos = (pos + 255) % 256;
        put(s, (pos + 255) % 256, WAIT_SW | DATA(round), STATUS);
        tail(s, pos);
        qtest_clock_step(s, 1000000);
        g_assert_cmpint(head(s), ==, pos);
        g_assert_cmphex(qtest_readl(s, STATUS), ==, round);
        put(s, (pos + 255) % 256, IOTLB_PAGE, IH);
    }
    qtest_quit(s);
}

static void check_error(uint64_t lo, uint64_t hi, unsigned iqei)
{
    QTestState *s = start(COSTS);

    put(s, 0, IOTLB_PAGE, IH);
    put(s, 1, lo, hi);
    put(s, 2, WAIT_SW | DATA(1), STATUS);
    tail(s, 3);
    qtest_clock_step(s, START + INV_PAGE - 1);
    g_assert_cmphex(rd(s, DMAR_FSTS_REG), ==, 0);
    qtest_clock_step(s, 1);
    g_assert_cmphex(rd(s, DMAR_FSTS_REG), ==, VTD_FSTS_IQE);
    g_assert_cmphex(rd(s, DMAR_IQERCD) & 0xf, ==, iqei);
    g_assert_cmphex(rd(s, DMAR_FECTL_REG), ==, VTD_FECTL_IM | VTD_FECTL_IP);
    g_assert_cmpint(head(s), ==, 1);
    tail(s, 3);
    qtest_clock_step(s, 1000000);
    g_assert_cmpint(head(s), ==, 1);

    /* As Linux does: a fence instead, IQE cleared; the tail stays */
    put(s, 1, VTD_INV_DESC_WAIT | VTD_INV_DESC_WAIT_FN, 0);
    wr(s, DMAR_FSTS_REG, VTD_FSTS_IQE);
    g_assert_cmphex(rd(s, DMAR_FSTS_REG), ==, 0);
    status_at(s, START + SYNC + SYNC + WRITE, 0, 1);
    g_assert_cmpint(head(s), ==, 3);
    qtest_quit(s);
}

static void test_iqe(void)
{
    check_error(0, 0, BAD_TYPE);
    check_error(0xf, 0, BAD_TYPE);
    check_error(VTD_INV_DESC_PC, 0, BAD_TYPE);
    check_error(VTD_INV_DESC_PIOTLB, 0, BAD_WIDTH);
    /* ECAP.DT is 0 */
    check_error(VTD_INV_DESC_DEVICE, 0, BAD_TYPE);
    check_error(VTD_INV_DESC_IOTLB, 0, RESERVED);
    check_error(IOTLB_PAGE, 19, RESERVED);
    check_error(IOTLB_PAGE | 1 << 8, 0, RESERVED);
    check_error(VTD_INV_DESC_CC, 0, RESERVED);
    check_error(WAIT_SW | 1 << 8, STATUS, RESERVED);
}

static void test_bad_queue(void)
{
    QTestState *s = start(COSTS);

    tail(s, 256);
    g_assert_cmphex(rd(s, DMAR_FSTS_REG), ==, VTD_FSTS_IQE);
    g_assert_cmphex(rd(s, DMAR_IQERCD) & 0xf, ==, BAD_TAIL);
    /* A good tail and IQE cleared: all is well again. */
    put(s, 0, WAIT_SW | DATA(1), STATUS);
    tail(s, 1);
    wr(s, DMAR_FSTS_REG, VTD_FSTS_IQE);
    status_at(s, START + SYNC + WRITE, 0, 1);
    qtest_quit(s);

    s = start(COSTS);
    wr(s, DMAR_GCMD_REG, 0);
    qtest_writeq(s, Q35_HOST_BRIDGE_IOMMU_ADDR + DMAR_IQA_REG,
                 0x7f00000000ull);
    wr(s, DMAR_GCMD_REG, VTD_GCMD_QIE);
    tail(s, 1);
    qtest_clock_step(s, START - 1);
    g_assert_cmphex(rd(s, DMAR_FSTS_REG), ==, 0);
    qtest_clock_step(s, 1);
    g_assert_cmphex(rd(s, DMAR_FSTS_REG), ==, VTD_FSTS_IQE);
    g_assert_cmphex(rd(s, DMAR_IQERCD) & 0xf, ==, BAD_FETCH);
    qtest_quit(s);
}

/* A status write that is refused, to the IOMMU's own registers at that */
static void test_bad_status(void)
{
    static const uint64_t addr[] = {
        0x7f00000000ull, Q35_HOST_BRIDGE_IOMMU_ADDR + DMAR_IQT_REG,
    };

    for (int i = 0; i < ARRAY_SIZE(addr); i++) {
        QTestState *s = start(COSTS);

        put(s, 0, WAIT_SW | DATA(0x50), addr[i]);
        tail(s, 1);
        qtest_clock_step(s, 1000000);
        g_assert_cmphex(rd(s, DMAR_FSTS_REG), ==, VTD_FSTS_IQE);
        g_assert_cmpint(head(s), ==, 0);
        g_assert_cmphex(rd(s, DMAR_IQT_REG), ==, 0x10);
        qtest_quit(s);
    }
}

/* No function answers: waits behind it are aborted, and none is executed */
static void test_ite(void)
{
    QTestState *s = start(COSTS ",device-iotlb=on,queue-depth=4");

    put(s, 0, VTD_INV_DESC_DEVICE | 0x1234ull << 32, 0);
    put(s, 1, WAIT_SW | DATA(1), STATUS);
    put(s, 2, WAIT_SW | VTD_INV_DESC_WAIT_FN | DATA(2), STATUS);
    put(s, 3, WAIT_SW | DATA(3), STATUS);
    tail(s, 4);
    qtest_clock_step(s, START + OTHER + ATS_TIMEOUT - 1);
    g_assert_cmphex(rd(s, DMAR_FSTS_REG), ==, 0);
    qtest_clock_step(s, 1);
    g_assert_cmphex(rd(s, DMAR_FSTS_REG), ==, ITE);
    g_assert_cmphex(rd(s, DMAR_IQERCD + 4), ==, 0x1234);
    g_assert_cmpint(head(s), ==, 3);
    qtest_clock_step(s, 1000000);
    g_assert_cmphex(qtest_readl(s, STATUS), ==, 0);
    /* Cleared: what had not started is executed. */
    wr(s, DMAR_FSTS_REG, ITE);
    g_assert_cmphex(rd(s, DMAR_FSTS_REG), ==, 0);
    status_at(s, START + SYNC + WRITE, 0, 3);
    g_assert_cmpint(head(s), ==, 4);
    qtest_quit(s);
}

/* GSTS.QIES follows when nothing is in flight. */
static void test_disable(void)
{
    QTestState *s = start(COSTS);

    put(s, 0, VTD_INV_DESC_IOTLB | VTD_INV_DESC_IOTLB_GLOBAL, 0);
    put(s, 1, IOTLB_PAGE, IH);
    tail(s, 2);
    qtest_clock_step(s, START);
    wr(s, DMAR_GCMD_REG, 0);
    qtest_clock_step(s, INV_ALL + INV_WALK - 1);
    g_assert_cmphex(rd(s, DMAR_GSTS_REG) & VTD_GSTS_QIES, !=, 0);
    qtest_clock_step(s, 1);
    g_assert_cmphex(rd(s, DMAR_GSTS_REG) & VTD_GSTS_QIES, ==, 0);
    g_assert_cmpint(head(s), ==, 0);

    /* Idle: at once, whatever the last descriptor was */
    enable(s);
    wr(s, DMAR_GCMD_REG, 0);
    g_assert_cmphex(rd(s, DMAR_GSTS_REG) & VTD_GSTS_QIES, ==, 0);

    /* A tail from before QIE is set counts. */
    put(s, 0, WAIT_SW | DATA(1), STATUS);
    tail(s, 1);
    wr(s, DMAR_GCMD_REG, VTD_GCMD_QIE);
    status_at(s, START + SYNC + WRITE, 0, 1);
    qtest_quit(s);
}

static void test_reset(void)
{
    QTestState *s = start(COSTS);

    put(s, 0, WAIT_SW | DATA(1), STATUS);
    tail(s, 1);
    qtest_system_reset(s);
    qtest_clock_step(s, 1000000);
    g_assert_cmphex(qtest_readl(s, STATUS), ==, 0);
    g_assert_cmphex(rd(s, DMAR_GSTS_REG) & VTD_GSTS_QIES, ==, 0);
    qtest_quit(s);
}

static void test_256(void)
{
    QTestState *s = qtest_init("-M q35 -m 16 -nodefaults -device "
                               "intel-iommu,x-scalable-mode=on," COSTS);

    qtest_writeq(s, Q35_HOST_BRIDGE_IOMMU_ADDR + DMAR_IQA_REG,
                 QUEUE | VTD_IQA_DW_MASK);
    wr(s, DMAR_GCMD_REG, VTD_GCMD_QIE);
    /* Two in a line; PASID-selective */
    put(s, 0, VTD_INV_DESC_PIOTLB | VTD_INV_DESC_PIOTLB_ALL_IN_PASID, 0);
    put(s, 2, VTD_INV_DESC_PIOTLB | VTD_INV_DESC_PIOTLB_PSI_IN_PASID, IH | 3);
    put(s, 4, WAIT_SW | DATA(1), STATUS);
    tail(s, 6);
    status_at(s, START + INV_CONTEXT + INV_WALK + INV_PAGE + 3 * INV_RANGE +
              SYNC + WRITE, 0, 1);
    g_assert_cmphex(rd(s, DMAR_IQH_REG), ==, 3 << 5);
    qtest_quit(s);
}

static void test_off(void)
{
    QTestState *s = start("");

    put(s, 0, WAIT_SW | DATA(1), STATUS);
    tail(s, 1);
    g_assert_cmphex(qtest_readl(s, STATUS), ==, 1);
    g_assert_cmpint(head(s), ==, 1);
    /* ITE does not exist. */
    wr(s, DMAR_FSTS_REG, ITE);
    g_assert_cmphex(rd(s, DMAR_FSTS_REG), ==, 0);
    qtest_quit(s);
}

static void test_profile(void)
{
    g_autofree char *file = NULL;
    g_autofree char *options = NULL;
    int fd = g_file_open_tmp("iommu-XXXXXX", &file, NULL);
    const char *text =
        "[iommu]\nclock-hz=2000000000\ndoorbell=100\nfetch=20\ninterval=0\n"
        "depth=1\ninv-all=0\ninv-context=0\ninv-page=10\ninv-range=0\n"
        "inv-walk=0\ninv-entry=0\nconfig=0\nintr=0\nother=0\ndrain=0\n"
        "sync=40\nwrite=6\nirq=0\nats=0\nats-depth=32\nats-timeout=0\n";
    QTestState *s;

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(write(fd, text, strlen(text)), ==, strlen(text));
    close(fd);
    /* What is given as a property goes before the profile. */
    options = g_strdup_printf("queue-timing=on,queue-profile=%s,"
                              "queue-write=24", file);
    s = start(options);
    put(s, 0, IOTLB_PAGE, 0);
    put(s, 1, WAIT_SW | DATA(1), STATUS);
    tail(s, 2);
    status_at(s, (100 + 20 + 10 + 40 + 24) / 2, 0, 1);
    qtest_quit(s);
    unlink(file);
}

/* ---------------------------------------------------------------- inputs */

static void settle(QTestState *s)
{
    qtest_clock_step(s, 10000000);
}

/* What drivers did and do; ends are the same whether it takes time or not. */
static void test_inputs(const void *options)
{
    QTestState *s = start(options);

    put(s, 0, VTD_INV_DESC_IOTLB | VTD_INV_DESC_IOTLB_GLOBAL, 0);
    put(s, 1, WAIT_SW | DATA(1), STATUS);
    tail(s, 2);
    settle(s);
    g_assert_cmpint(head(s), ==, 2);
    g_assert_cmphex(qtest_readl(s, STATUS), ==, 1);

    put(s, 2, WAIT_SW | VTD_INV_DESC_WAIT_IF | DATA(2), STATUS);
    tail(s, 3);
    settle(s);
    g_assert_cmphex(qtest_readl(s, STATUS), ==, 2);
    g_assert_cmphex(rd(s, DMAR_ICS_REG), ==, VTD_ICS_IWC);
    g_assert_cmphex(rd(s, DMAR_IECTL_REG), ==, VTD_IECTL_IM | VTD_IECTL_IP);

    /* Drains of reads and writes, as CAP.DRD and DWD offer them */
    g_assert_cmphex(qtest_readq(s, Q35_HOST_BRIDGE_IOMMU_ADDR + DMAR_CAP_REG) &
                    VTD_CAP_DRAIN, ==, VTD_CAP_DRAIN);
    put(s, 3, IOTLB_PAGE | 3 << 6, 0);
    put(s, 4, VTD_INV_DESC_WAIT | VTD_INV_DESC_WAIT_FN, 0);
    tail(s, 5);
    settle(s);
    g_assert_cmpint(head(s), ==, 5);

    /* To the end of the ring and around */
    for (int i = 5; i < 256; i++) {
        put(s, i, VTD_INV_DESC_WAIT, 0);
    }
    tail(s, 255);
    settle(s);
    g_assert_cmpint(head(s), ==, 255);
    tail(s, 0);
    settle(s);
    g_assert_cmpint(head(s), ==, 0);
    g_assert_cmphex(rd(s, DMAR_FSTS_REG), ==, 0);

    /* Off after something that is no wait; a tail from before it is on */
    put(s, 0, VTD_INV_DESC_IOTLB | VTD_INV_DESC_IOTLB_GLOBAL, 0);
    tail(s, 1);
    settle(s);
    wr(s, DMAR_GCMD_REG, 0);
    settle(s);
    g_assert_cmphex(rd(s, DMAR_GSTS_REG) & VTD_GSTS_QIES, ==, 0);
    put(s, 0, VTD_INV_DESC_WAIT, 0);
    put(s, 1, WAIT_SW | DATA(3), STATUS);
    tail(s, 2);
    settle(s);
    g_assert_cmphex(qtest_readl(s, STATUS), ==, 2);
    wr(s, DMAR_GCMD_REG, VTD_GCMD_QIE);
    settle(s);
    g_assert_cmpint(head(s), ==, 2);
    g_assert_cmphex(qtest_readl(s, STATUS), ==, 3);
    qtest_quit(s);
}

/* 11.4.9.1: the largest queue, 2^15 descriptors, and all of them at once */
static void test_largest(const void *options)
{
    const unsigned n = 1 << 15;
    g_autofree uint64_t *ring = g_new0(uint64_t, n * 2);
    QTestState *s = start(options);

    for (int i = 0; i < n - 2; i++) {
        ring[i * 2] = cpu_to_le64(VTD_INV_DESC_IOTLB |
                                  VTD_INV_DESC_IOTLB_GLOBAL);
    }
    ring[(n - 2) * 2] = cpu_to_le64(WAIT_SW | DATA(1));
    ring[(n - 2) * 2 + 1] = cpu_to_le64(STATUS);
    wr(s, DMAR_GCMD_REG, 0);
    settle(s);
    qtest_bufwrite(s, QUEUE, ring, n * 16);
    qtest_writeq(s, Q35_HOST_BRIDGE_IOMMU_ADDR + DMAR_IQA_REG, QUEUE | 7);
    wr(s, DMAR_GCMD_REG, VTD_GCMD_QIE);
    tail(s, n - 1);
    qtest_clock_step(s, n * (FETCH + INV_ALL + SYNC));
    g_assert_cmpint(head(s), ==, n - 1);
    g_assert_cmphex(qtest_readl(s, STATUS), ==, 1);
    g_assert_cmphex(rd(s, DMAR_FSTS_REG), ==, 0);
    qtest_quit(s);
}

/* IQE, the head stays, and later tails are kept but not looked at. */
static void test_bad_inputs(const void *options)
{
    static const struct {
        uint64_t lo, hi;
    } bad[] = {
        { 0, 0 },
        { 0xf, 0 },
        { IOTLB_PAGE, 19 },             /* beyond CAP.MAMV */
        { VTD_INV_DESC_PC, 0 },
        { VTD_INV_DESC_PIOTLB | VTD_INV_DESC_PIOTLB_ALL_IN_PASID, 0 },
        { VTD_INV_DESC_DEVICE, 0x7ffffffffffff001 },    /* ECAP.DT is 0 */
        { WAIT_SW, 0x7f00000000ull },
        { WAIT_SW | DATA(0x50), Q35_HOST_BRIDGE_IOMMU_ADDR + DMAR_IQT_REG },
    };
    QTestState *s;

    for (int i = 0; i < ARRAY_SIZE(bad); i++) {
        s = start(options);
        put(s, 0, bad[i].lo, bad[i].hi);
        put(s, 1, WAIT_SW | DATA(1), STATUS);
        tail(s, 1);
        settle(s);
        g_assert_cmphex(rd(s, DMAR_FSTS_REG), ==, VTD_FSTS_IQE);
        g_assert_cmpint(head(s), ==, 0);
        tail(s, 2);
        settle(s);
        g_assert_cmphex(rd(s, DMAR_IQT_REG), ==, 0x20);
        g_assert_cmpint(head(s), ==, 0);
        g_assert_cmphex(qtest_readl(s, STATUS), ==, 0);
        qtest_quit(s);
    }

    /* The tail is the size of the queue */
    s = start(options);
    tail(s, 256);
    settle(s);
    g_assert_cmphex(rd(s, DMAR_FSTS_REG), ==, VTD_FSTS_IQE);
    g_assert_cmpint(head(s), ==, 0);
    qtest_quit(s);

    /* The queue is nowhere */
    s = start(options);
    wr(s, DMAR_GCMD_REG, 0);
    qtest_writeq(s, Q35_HOST_BRIDGE_IOMMU_ADDR + DMAR_IQA_REG,
                 0x7f00000000ull);
    wr(s, DMAR_GCMD_REG, VTD_GCMD_QIE);
    tail(s, 1);
    settle(s);
    g_assert_cmphex(rd(s, DMAR_FSTS_REG), ==, VTD_FSTS_IQE);
    g_assert_cmpint(head(s), ==, 0);
    qtest_quit(s);

    /* 11.4.9.2: bit 4 of the tail with descriptors of 256 bits */
    s = qtest_initf("-M q35 -m 16 -nodefaults -device intel-iommu,"
                    "x-scalable-mode=on,%s", (const char *)options);
    qtest_writeq(s, Q35_HOST_BRIDGE_IOMMU_ADDR + DMAR_IQA_REG,
                 QUEUE | VTD_IQA_DW_MASK);
    wr(s, DMAR_GCMD_REG, VTD_GCMD_QIE);
    tail(s, 1);
    settle(s);
    g_assert_cmphex(rd(s, DMAR_FSTS_REG), ==, VTD_FSTS_IQE);
    g_assert_cmphex(rd(s, DMAR_IQH_REG), ==, 0);
    g_assert_cmphex(rd(s, DMAR_IQT_REG), ==, 0x10);
    qtest_quit(s);
}

/* ------------------------------------------------------------- migration */

#define MIGRATION_STEPS 200

#define MIGRATION_ARGS  \
    "-M q35 -m 16 -nodefaults -device intel-iommu," COSTS ",queue-depth=3"

typedef struct Seen {
    uint32_t iqh, waits, fsts, ics;
} Seen;

/*
 * Random work in small steps; what is visible after each goes to @seen.  At
 * @points of the steps, what is in flight goes on in another QEMU.
 */
static int random_work(Seen *seen, int points)
{
    g_autofree char *file = NULL;
    int fd = g_file_open_tmp("vtd-queue-XXXXXX", &file, NULL);
    GRand *r = g_rand_new_with_seed(5);
    QTestState *s = qtest_init(MIGRATION_ARGS);
    uint32_t pos = 0, waits = 0, done = 0;
    int64_t now = 0;
    int in_flight = 0;

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    enable(s);

    for (int i = 0; i < MIGRATION_STEPS; i++) {
        int n = g_rand_int_range(r, 0, 6);

        while (n--) {
            switch (g_rand_int_range(r, 0, 8)) {
            case 0:
                put(s, pos, VTD_INV_DESC_IEC, 0);
                break;
            case 1:
                put(s, pos, VTD_INV_DESC_WAIT | VTD_INV_DESC_WAIT_FN, 0);
                break;
            case 2:
                waits++;
                put(s, pos, WAIT_SW | VTD_INV_DESC_WAIT_IF | DATA(waits),
                    STATUS + waits * 4);
                break;
            case 3:
                waits++;
                put(s, pos, WAIT_SW | VTD_INV_DESC_WAIT_FN | DATA(waits),
                    STATUS + waits * 4);
                break;
            default:
                put(s, pos, IOTLB_PAGE, g_rand_int_range(r, 0, 19));
            }
            pos = (pos + 1) % 256;
        }
        tail(s, pos);
        n = g_rand_int_range(r, 1, 3000);
        qtest_clock_step(s, n);
        now += n;

        if (i % (MIGRATION_STEPS / 100) == 0 && points-- > 0) {
            in_flight += head(s) != pos ||
                         (done < waits &&
                          qtest_readl(s, STATUS + waits * 4) != waits);
            s = migrate(s, MIGRATION_ARGS, now, file);
        }

        /* Completed waits, in order; none may be signalled twice. */
        while (done < waits &&
               qtest_readl(s, STATUS + (done + 1) * 4) == done + 1) {
            qtest_writel(s, STATUS + ++done * 4, 0);
        }
        seen[i] = (Seen) {
            rd(s, DMAR_IQH_REG), done, rd(s, DMAR_FSTS_REG),
            rd(s, DMAR_ICS_REG),
        };
        /* The next interrupt is to be seen too. */
        wr(s, DMAR_ICS_REG, VTD_ICS_IWC);
    }
    qtest_clock_step(s, 10000000);
    while (done < waits) {
        done++;
        g_assert_cmpint(qtest_readl(s, STATUS + done * 4), ==, done);
        qtest_writel(s, STATUS + done * 4, 0);
    }
    qtest_clock_step(s, 10000000);
    for (uint32_t i = 1; i <= waits; i++) {
        g_assert_cmpint(qtest_readl(s, STATUS + i * 4), ==, 0);
    }
    g_assert_cmpint(head(s), ==, pos);
    qtest_quit(s);
    g_rand_free(r);
    unlink(file);
    return in_flight;
}

static void test_migration(void)
{
    Seen straight[MIGRATION_STEPS], moved[MIGRATION_STEPS];
    int points = g_test_slow() ? 100 : 20;

    random_work(straight, 0);
    /* Most of the points have to be in the middle of something. */
    g_assert_cmpint(random_work(moved, points), >, points / 2);
    for (int i = 0; i < MIGRATION_STEPS; i++) {
        g_assert_cmphex(straight[i].iqh, ==, moved[i].iqh);
        g_assert_cmpuint(straight[i].waits, ==, moved[i].waits);
        g_assert_cmphex(straight[i].fsts, ==, moved[i].fsts);
        g_assert_cmphex(straight[i].ics, ==, moved[i].ics);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);

    qtest_add_func("/vtd-queue/costs", test_costs);
    qtest_add_func("/vtd-queue/wait", test_wait);
    qtest_add_func("/vtd-queue/order", test_order);
    qtest_add_func("/vtd-queue/wrap", test_wrap);
    qtest_add_func("/vtd-queue/iqe", test_iqe);
    qtest_add_func("/vtd-queue/bad-queue", test_bad_queue);
    qtest_add_func("/vtd-queue/bad-status", test_bad_status);
    qtest_add_func("/vtd-queue/ite", test_ite);
    qtest_add_func("/vtd-queue/disable", test_disable);
    qtest_add_func("/vtd-queue/reset", test_reset);
    qtest_add_func("/vtd-queue/256-bit", test_256);
    qtest_add_func("/vtd-queue/off", test_off);
    qtest_add_func("/vtd-queue/profile", test_profile);
    qtest_add_data_func("/vtd-queue/inputs/timed", COSTS, test_inputs);
    qtest_add_data_func("/vtd-queue/inputs/off", "", test_inputs);
    qtest_add_data_func("/vtd-queue/largest/timed", COSTS, test_largest);
    qtest_add_data_func("/vtd-queue/largest/off", "", test_largest);
    qtest_add_data_func("/vtd-queue/bad-inputs/timed", COSTS, test_bad_inputs);
    qtest_add_data_func("/vtd-queue/bad-inputs/off", "", test_bad_inputs);
    qtest_add_func("/vtd-queue/migration", test_migration);

    return g_test_run();
}
