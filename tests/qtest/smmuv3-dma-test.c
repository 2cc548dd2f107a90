/*
 * QTest testcase for DMA through SMMUv3: when a translation comes and goes
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bitops.h"
#include "iommulab-dma-qtest.h"
#include "iommulab-smmuv3-qtest.h"
#include "qobject/qlist.h"

#define OLD     0x1111111111111111ull
#define NEW     0x2222222222222222ull

#define NEW_PAGE (PAGE_ADDR + 0x1000)

/* 4.4.2: TLBI_NH_VA, any ASID is 0 here */
static void inv_page(QTestState *s, int n)
{
    g_assert_cmpuint(smmu_try(s, 0x12, IOVA_BASE + n * 4096), ==,
                     CERROR_NONE);
}

/* The old translation is used until the page is invalidated, no longer */
static void test_stale(void)
{
    DMATest t;
    uint64_t data;

    dma_start(&t, "-M virt,iommu=smmuv3", "");
    smmu_start(t.qts, DMA_DEVFN, SMMU_ALL);
    qtest_writeq(t.qts, PAGE_ADDR, OLD);
    qtest_writeq(t.qts, NEW_PAGE, NEW);

    dma_burst(&t, 1, IOMMULAB_DMA_CMD_READ | IOMMULAB_DMA_CMD_DIFF_STOP,
              IOVA_BASE, 8, 1000, 10, OLD);
    qtest_clock_step(t.qts, 50);
    smmu_map(t.qts, 0, NEW_PAGE);
    qtest_clock_step(t.qts, 50);
    g_assert_cmpuint(dma_status(&t, 1), ==, IOMMULAB_DMA_BUSY);
    g_assert_cmpuint(dma_readl(&t, 1, IOMMULAB_DMA_DONE_COUNT), ==, 10);
    /* Another page is not this one, nor is one of another ASID */
    inv_page(t.qts, 1);
    g_assert_cmpuint(smmu_try(t.qts, 0x12 | 1ull << 48, IOVA_BASE), ==,
                     CERROR_NONE);
    qtest_clock_step(t.qts, 50);
    g_assert_cmpuint(dma_status(&t, 1), ==, IOMMULAB_DMA_BUSY);
    inv_page(t.qts, 0);
    qtest_clock_step(t.qts, 50);
    g_assert_cmpuint(dma_status(&t, 1), ==, IOMMULAB_DMA_STOPPED);
    g_assert_cmpuint(dma_readq(&t, 1, IOMMULAB_DMA_DIFF_TIME), ==, 160);
    g_assert_cmphex(dma_readq(&t, 1, IOMMULAB_DMA_DATA), ==, NEW);

    /* Unmapped: still used, then a fault and an event */
    smmu_map(t.qts, 0, 0);
    g_assert_true(dma_read_word(&t, IOVA_BASE, &data));
    g_assert_cmphex(data, ==, NEW);
    inv_page(t.qts, 0);
    g_assert_false(dma_read_word(&t, IOVA_BASE, &data));
    g_assert_cmphex(smmu_readl(t.qts, SMMU_EVTQ_PROD), !=, 0);

    dma_end(&t);
}

/*
 * With a queue that takes time the old translation is used until the
 * invalidation is complete, though its command is consumed before.
 */
static void test_stale_timed(void)
{
    DMATest t;

    dma_start(&t, "-M virt,iommu=smmuv3 -global arm-smmuv3.queue-timing=on "
              "-global arm-smmuv3.queue-doorbell=105 "
              "-global arm-smmuv3.queue-fetch=50 "
              "-global arm-smmuv3.queue-inv-page=400", "");
    smmu_start(t.qts, DMA_DEVFN, SMMU_ALL);
    qtest_writeq(t.qts, PAGE_ADDR, OLD);
    qtest_writeq(t.qts, NEW_PAGE, NEW);

    dma_burst(&t, 1, IOMMULAB_DMA_CMD_READ | IOMMULAB_DMA_CMD_DIFF_STOP,
              IOVA_BASE, 8, 1000, 10, OLD);
    qtest_clock_step(t.qts, 50);
    smmu_map(t.qts, 0, NEW_PAGE);
    smmu_issue(t.qts, 0x12, IOVA_BASE);
    qtest_clock_step(t.qts, 105 + 50);
    g_assert_cmphex(smmu_readl(t.qts, SMMU_CMDQ_CONS), ==, 1);
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

/* Size, associativity and cost of the IOTLB */
static void test_iotlb(void)
{
    g_autofree char *path = NULL;
    DMATest t;

    dma_start(&t, "-M virt-9.1,iommu=smmuv3"
              IOTLB_OPTIONS(" -global arm-smmuv3."), "");
    smmu_start(t.qts, DMA_DEVFN, SMMU_ALL);
    path = smmu_path(&t);
    iotlb_check(&t, path, IOVA_BASE, PAGE_ADDR, NEW_PAGE, smmu_map, inv_page);
    dma_end(&t);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);

    qtest_add_func("/smmuv3-dma/stale", test_stale);
    qtest_add_func("/smmuv3-dma/stale-timed", test_stale_timed);
    qtest_add_func("/smmuv3-dma/iotlb", test_iotlb);

    return g_test_run();
}
