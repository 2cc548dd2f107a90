/*
 * QTest testcase for DMA through VT-d: when a translation comes and goes
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bitops.h"
#include "iommulab-dma-qtest.h"
#include "iommulab-vtd-qtest.h"
#include "hw/pci/pci_regs.h"

/* 11.4.7.1, 11.4.9.9 */
#define FSTS_ICE            (1u << 5)
#define FSTS_ITE            (1u << 6)
#define DMAR_IQERCD_REG     0xb0

#define OLD     0x1111111111111111ull
#define NEW     0x2222222222222222ull

#define NEW_PAGE (PAGE_ADDR + 0x1000)

static void vtd_dma_start(DMATest *t, const char *iommu, const char *device)
{
    g_autofree char *machine = g_strdup_printf("-M q35 -device intel-iommu%s",
                                               iommu);

    dma_start(t, machine, device);
    vtd_start(t->qts, DMA_DEVFN);
    qtest_writeq(t->qts, PAGE_ADDR, OLD);
    qtest_writeq(t->qts, NEW_PAGE, NEW);
}

/* The old translation is used until the page is invalidated, no longer */
static void test_stale(void)
{
    DMATest t;
    uint64_t data;

    vtd_dma_start(&t, "", "");
    dma_burst(&t, 1, IOMMULAB_DMA_CMD_READ | IOMMULAB_DMA_CMD_DIFF_STOP,
              IOVA_BASE, 8, 1000, 10, OLD);
    qtest_clock_step(t.qts, 50);
    vtd_map(t.qts, 0, NEW_PAGE);
    qtest_clock_step(t.qts, 50);
    g_assert_cmpuint(dma_status(&t, 1), ==, IOMMULAB_DMA_BUSY);
    g_assert_cmpuint(dma_readl(&t, 1, IOMMULAB_DMA_DONE_COUNT), ==, 10);
    /* Another page is not this one */
    vtd_inv_page(t.qts, 1);
    qtest_clock_step(t.qts, 50);
    g_assert_cmpuint(dma_status(&t, 1), ==, IOMMULAB_DMA_BUSY);
    vtd_inv_page(t.qts, 0);
    qtest_clock_step(t.qts, 50);
    g_assert_cmpuint(dma_status(&t, 1), ==, IOMMULAB_DMA_STOPPED);
    g_assert_cmpuint(dma_readq(&t, 1, IOMMULAB_DMA_DIFF_TIME), ==, 160);
    g_assert_cmphex(dma_readq(&t, 1, IOMMULAB_DMA_DATA), ==, NEW);

    /* Unmapped: still used, then a fault */
    vtd_map(t.qts, 0, 0);
    g_assert_true(dma_read_word(&t, IOVA_BASE, &data));
    g_assert_cmphex(data, ==, NEW);
    vtd_inv_page(t.qts, 0);
    g_assert_false(dma_read_word(&t, IOVA_BASE, &data));
    g_assert_cmphex(vtd_readl(t.qts, DMAR_FSTS_REG) & VTD_FSTS_PPF, !=, 0);

    dma_end(&t);
}

/*
 * With a queue that takes time the old translation is used until the
 * invalidation is complete, though its descriptor is consumed before.
 */
static void test_stale_timed(void)
{
    DMATest t;

    vtd_dma_start(&t, ",queue-timing=on,queue-doorbell=105,queue-fetch=50,"
                  "queue-inv-page=400", "");
    dma_burst(&t, 1, IOMMULAB_DMA_CMD_READ | IOMMULAB_DMA_CMD_DIFF_STOP,
              IOVA_BASE, 8, 1000, 10, OLD);
    qtest_clock_step(t.qts, 50);
    vtd_map(t.qts, 0, NEW_PAGE);
    vtd_inv_page(t.qts, 0);
    qtest_clock_step(t.qts, 105 + 50);
    g_assert_cmphex(vtd_readq(t.qts, DMAR_IQH_REG), ==, 16);
    qtest_clock_step(t.qts, 400 - 1);
    g_assert_cmpuint(dma_status(&t, 1), ==, IOMMULAB_DMA_BUSY);
    g_assert_cmpuint(dma_readl(&t, 1, IOMMULAB_DMA_DIFFS), ==, 0);
    qtest_clock_step(t.qts, 100);
    /* Complete at 605, read at 610 */
    g_assert_cmpuint(dma_status(&t, 1), ==, IOMMULAB_DMA_STOPPED);
    g_assert_cmpuint(dma_readq(&t, 1, IOMMULAB_DMA_DIFF_TIME), ==, 610);
    g_assert_cmphex(dma_readq(&t, 1, IOMMULAB_DMA_DATA), ==, NEW);
    dma_end(&t);
}

static bool ats_read(DMATest *t, uint64_t *data)
{
    dma_burst(t, 0, IOMMULAB_DMA_CMD_READ | IOMMULAB_DMA_CMD_ATS, IOVA_BASE,
              8, 1, 1, 0);
    qtest_clock_step(t->qts, 1);
    g_assert_cmpuint(dma_status(t, 0), ==, IOMMULAB_DMA_DONE);
    *data = dma_readq(t, 0, IOMMULAB_DMA_DATA);
    return !dma_readl(t, 0, IOMMULAB_DMA_FAULTS);
}

/* The device's own TLB needs an invalidation of its own */
static void test_ats(void)
{
    DMATest t;
    uint64_t data;

    vtd_dma_start(&t, ",device-iotlb=on", ",ats=on");
    /* Not before software enables ATS */
    dma_burst(&t, 0, IOMMULAB_DMA_CMD_READ | IOMMULAB_DMA_CMD_ATS, IOVA_BASE,
              8, 1, 1, 0);
    g_assert_cmpuint(dma_status(&t, 0), ==, IOMMULAB_DMA_BAD_COMMAND);
    /* 9.3: TT 0b01, translation requests are allowed */
    qtest_writeq(t.qts, CONTEXT_ADDR + DMA_DEVFN * 16, TABLE_ADDR | 1 << 2 | 1);
    vtd_issue(t.qts, VTD_INV_DESC_CC | VTD_INV_DESC_CC_GLOBAL, 0);
    vtd_enable_ecam(t.qts);
    qtest_writew(t.qts, ECAM_BASE + (DMA_DEVFN << 12) + 0x100 + PCI_ATS_CTRL,
                 PCI_ATS_CTRL_ENABLE);

    g_assert_true(ats_read(&t, &data));
    g_assert_cmphex(data, ==, OLD);
    g_assert_cmpuint(dma_readl(&t, 0, IOMMULAB_DMA_ATC_HITS), ==, 0);
    g_assert_true(ats_read(&t, &data));
    g_assert_cmpuint(dma_readl(&t, 0, IOMMULAB_DMA_ATC_HITS), ==, 1);

    vtd_map(t.qts, 0, NEW_PAGE);
    vtd_inv_page(t.qts, 0);
    g_assert_true(ats_read(&t, &data));
    g_assert_cmphex(data, ==, OLD);
    vtd_inv_device(t.qts, DMA_DEVFN, 1);
    g_assert_true(ats_read(&t, &data));
    g_assert_cmphex(data, ==, OLD);
    vtd_inv_device(t.qts, DMA_DEVFN, 0);
    g_assert_cmpuint(qpci_io_readl(t.dev, t.bar, IOMMULAB_DMA_ATC_INVALS), ==,
                     1);
    g_assert_true(ats_read(&t, &data));
    g_assert_cmphex(data, ==, NEW);

    vtd_map(t.qts, 0, 0);
    vtd_inv_page(t.qts, 0);
    vtd_inv_device(t.qts, DMA_DEVFN, 0);
    g_assert_false(ats_read(&t, &data));

    dma_end(&t);
}

/*
 * A queue that takes time, a device that has a translation, and the page's
 * invalidation with a wait under way
 */
static void ats_timed_start(DMATest *t, const char *device)
{
    uint64_t data;

    vtd_dma_start(t, ",device-iotlb=on,queue-timing=on,queue-other=20,"
                  "queue-ats=1000,queue-ats-timeout=50000,queue-sync=30",
                  device);
    qtest_writeq(t->qts, CONTEXT_ADDR + DMA_DEVFN * 16,
                 TABLE_ADDR | 1 << 2 | 1);
    vtd_issue(t->qts, VTD_INV_DESC_CC | VTD_INV_DESC_CC_GLOBAL, 0);
    qtest_clock_step(t->qts, 10000);
    vtd_enable_ecam(t->qts);
    qtest_writew(t->qts, ECAM_BASE + (DMA_DEVFN << 12) + 0x100 + PCI_ATS_CTRL,
                 PCI_ATS_CTRL_ENABLE);
    g_assert_true(ats_read(t, &data));
    g_assert_cmphex(data, ==, OLD);

    vtd_map(t->qts, 0, NEW_PAGE);
    qtest_writel(t->qts, STATUS_ADDR, 0);
    vtd_inv_page(t->qts, 0);
    vtd_inv_device(t->qts, DMA_DEVFN, 0);
    vtd_issue(t->qts, VTD_INV_DESC_WAIT | VTD_INV_DESC_WAIT_SW | 7ull << 32,
              STATUS_ADDR);
}

/* An endpoint that answers: its TLB is used until the round trip is over. */
static void test_ats_timed(void)
{
    DMATest t;
    uint64_t data;

    ats_timed_start(&t, ",ats=on");
    qtest_clock_step(t.qts, 20 + 1000 - 2);
    g_assert_true(ats_read(&t, &data));
    g_assert_cmphex(data, ==, OLD);
    g_assert_cmpuint(dma_readl(&t, 0, IOMMULAB_DMA_ATC_HITS), ==, 1);
    qtest_clock_step(t.qts, 1);
    g_assert_true(ats_read(&t, &data));
    g_assert_cmphex(data, ==, NEW);
    /* The wait is behind it: 30 more, two of which have passed */
    qtest_clock_step(t.qts, 30 - 2);
    g_assert_cmphex(qtest_readl(t.qts, STATUS_ADDR), ==, 0);
    qtest_clock_step(t.qts, 1);
    g_assert_cmphex(qtest_readl(t.qts, STATUS_ADDR), ==, 7);
    g_assert_cmphex(vtd_readl(t.qts, DMAR_FSTS_REG), ==, 0);
    dma_end(&t);
}

/* 11.4.7.1: one completion too many is reported, and nothing else */
static void test_ice(void)
{
    DMATest t;

    ats_timed_start(&t, ",ats=on,ats-answers=2");
    qtest_clock_step(t.qts, 20 + 1000 - 1);
    g_assert_cmphex(vtd_readl(t.qts, DMAR_FSTS_REG), ==, 0);
    qtest_clock_step(t.qts, 1);
    g_assert_cmphex(vtd_readl(t.qts, DMAR_FSTS_REG), ==, FSTS_ICE);
    g_assert_cmphex(vtd_readq(t.qts, DMAR_IQERCD_REG), ==,
                    (uint64_t)DMA_DEVFN << 48);
    g_assert_cmphex(qtest_readl(t.qts, STATUS_ADDR), ==, 0);
    /* The wait completes although nobody has cleared ICE. */
    qtest_clock_step(t.qts, 30 - 1);
    g_assert_cmphex(qtest_readl(t.qts, STATUS_ADDR), ==, 0);
    qtest_clock_step(t.qts, 1);
    g_assert_cmphex(qtest_readl(t.qts, STATUS_ADDR), ==, 7);
    g_assert_cmphex(vtd_readq(t.qts, DMAR_IQH_REG), ==,
                    vtd_readq(t.qts, DMAR_IQT_REG));
    vtd_writel(t.qts, DMAR_FSTS_REG, FSTS_ICE);
    g_assert_cmphex(vtd_readl(t.qts, DMAR_FSTS_REG), ==, 0);
    dma_end(&t);
}

/* An endpoint that has ATS enabled and yet does not answer */
static void test_no_answer(void)
{
    DMATest t;

    ats_timed_start(&t, ",ats=on,ats-answers=0");
    qtest_clock_step(t.qts, 20 + 50000 - 1);
    g_assert_cmphex(vtd_readl(t.qts, DMAR_FSTS_REG), ==, 0);
    qtest_clock_step(t.qts, 1);
    g_assert_cmphex(vtd_readl(t.qts, DMAR_FSTS_REG), ==, FSTS_ITE);
    g_assert_cmphex(vtd_readq(t.qts, DMAR_IQERCD_REG), ==,
                    (uint64_t)DMA_DEVFN << 32);
    /* 6.5.2.11: the wait is aborted, also once ITE is cleared */
    vtd_writel(t.qts, DMAR_FSTS_REG, FSTS_ITE);
    qtest_clock_step(t.qts, 100000);
    g_assert_cmphex(qtest_readl(t.qts, STATUS_ADDR), ==, 0);
    g_assert_cmphex(vtd_readl(t.qts, DMAR_FSTS_REG), ==, 0);
    dma_end(&t);
}

/* Size, associativity and cost of the IOTLB; by default none of it */
static void test_iotlb(void)
{
    DMATest t;
    uint64_t data;

    vtd_dma_start(&t, ",id=iommu" IOTLB_OPTIONS(","), "");
    iotlb_check(&t, "/machine/peripheral/iommu", IOVA_BASE, PAGE_ADDR,
                NEW_PAGE, vtd_map, vtd_inv_page);
    dma_end(&t);

    vtd_dma_start(&t, ",id=iommu", "");
    for (int n = 0; n < 512; n++) {
        vtd_map(t.qts, n, PAGE_ADDR);
    }
    for (int n = 0; n < 512; n++) {
        g_assert_true(dma_read_word(&t, IOVA_BASE + n * 4096, &data));
        g_assert_cmpuint(dma_readq(&t, 0, IOMMULAB_DMA_XLAT_TIME), ==, 0);
    }
    g_assert_cmpuint(iotlb_counter(&t, "/machine/peripheral/iommu",
                                   "iotlb-evicted"), ==, 0);
    dma_end(&t);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);

    qtest_add_func("/q35/vtd-dma/stale", test_stale);
    qtest_add_func("/q35/vtd-dma/stale-timed", test_stale_timed);
    qtest_add_func("/q35/vtd-dma/ats", test_ats);
    qtest_add_func("/q35/vtd-dma/ats-timed", test_ats_timed);
    qtest_add_func("/q35/vtd-dma/ice", test_ice);
    qtest_add_func("/q35/vtd-dma/no-answer", test_no_answer);
    qtest_add_func("/q35/vtd-dma/iotlb", test_iotlb);

    return g_test_run();
}
