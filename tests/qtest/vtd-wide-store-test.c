/*
 * QTest testcase for 8-byte stores to 32-bit VT-d registers
 *
 * A guest may store a quadword where two 32-bit registers are neighbours.
 * Each has to take its half, as those at FEADDR always did.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "libqtest.h"
#include "hw/i386/intel_iommu_internal.h"

#define IQ_BASE         0x100000
#define MSI_ADDR        0xfee00000

/* A reserved descriptor type: raises an invalidation queue error */
#define BAD_DESC_TYPE   0xf

static uint32_t vtd_readl(QTestState *s, uint64_t offset)
{
    return qtest_readl(s, Q35_HOST_BRIDGE_IOMMU_ADDR + offset);
}

static void vtd_writel(QTestState *s, uint64_t offset, uint32_t val)
{
    qtest_writel(s, Q35_HOST_BRIDGE_IOMMU_ADDR + offset, val);
}

static void vtd_writeq(QTestState *s, uint64_t offset, uint64_t val)
{
    qtest_writeq(s, Q35_HOST_BRIDGE_IOMMU_ADDR + offset, val);
}

static QTestState *vtd_init(void)
{
    return qtest_init("-M q35 -device intel-iommu");
}

/* Give the queue one descriptor that is either a wait or an error */
static void vtd_queue_one(QTestState *s, uint64_t desc)
{
    qtest_writeq(s, IQ_BASE, desc);
    qtest_writeq(s, IQ_BASE + 8, 0);
    vtd_writeq(s, DMAR_IQT_REG, 0);
    vtd_writeq(s, DMAR_IQA_REG, IQ_BASE);
    vtd_writel(s, DMAR_GCMD_REG, VTD_GCMD_QIE);
    g_assert_cmphex(vtd_readl(s, DMAR_GSTS_REG) & VTD_GSTS_QIES, !=, 0);
    vtd_writeq(s, DMAR_IQT_REG, 1 << 4);
}

static void test_fectl(void)
{
    QTestState *s = vtd_init();

    /* Masked out of reset, so the fault event stays pending */
    g_assert_cmphex(vtd_readl(s, DMAR_FECTL_REG), ==, VTD_FECTL_IM);
    vtd_queue_one(s, BAD_DESC_TYPE);
    g_assert_cmphex(vtd_readl(s, DMAR_FSTS_REG) & VTD_FSTS_IQE, !=, 0);
    g_assert_cmphex(vtd_readl(s, DMAR_FECTL_REG), ==,
                    VTD_FECTL_IM | VTD_FECTL_IP);

    /* Masked still; the other half is FEDATA, 16 bits wide */
    vtd_writeq(s, DMAR_FECTL_REG, 0x12345678ull << 32 | VTD_FECTL_IM);
    g_assert_cmphex(vtd_readl(s, DMAR_FECTL_REG), ==,
                    VTD_FECTL_IM | VTD_FECTL_IP);
    g_assert_cmphex(vtd_readl(s, DMAR_FEDATA_REG), ==, 0x5678);

    /* Unmasked: the event goes out */
    vtd_writeq(s, DMAR_FECTL_REG, 0x41ull << 32);
    g_assert_cmphex(vtd_readl(s, DMAR_FECTL_REG), ==, 0);
    g_assert_cmphex(vtd_readl(s, DMAR_FEDATA_REG), ==, 0x41);

    qtest_quit(s);
}

static void test_iectl(void)
{
    QTestState *s = vtd_init();

    g_assert_cmphex(vtd_readl(s, DMAR_IECTL_REG), ==, VTD_IECTL_IM);
    vtd_queue_one(s, VTD_INV_DESC_WAIT | VTD_INV_DESC_WAIT_IF);
    g_assert_cmphex(vtd_readl(s, DMAR_ICS_REG), ==, VTD_ICS_IWC);
    g_assert_cmphex(vtd_readl(s, DMAR_IECTL_REG), ==,
                    VTD_IECTL_IM | VTD_IECTL_IP);

    /* The other half is IEDATA, of which this IOMMU keeps all bits */
    vtd_writeq(s, DMAR_IECTL_REG, 0x12345678ull << 32 | VTD_IECTL_IM);
    g_assert_cmphex(vtd_readl(s, DMAR_IECTL_REG), ==,
                    VTD_IECTL_IM | VTD_IECTL_IP);
    g_assert_cmphex(vtd_readl(s, DMAR_IEDATA_REG), ==, 0x12345678);

    vtd_writeq(s, DMAR_IECTL_REG, 0x42ull << 32);
    g_assert_cmphex(vtd_readl(s, DMAR_IECTL_REG), ==, 0);
    g_assert_cmphex(vtd_readl(s, DMAR_IEDATA_REG), ==, 0x42);

    qtest_quit(s);
}

/*
 * FEADDR took quadwords before; it is here as the model for IEADDR.  The other
 * half is the upper address, which this IOMMU keeps at zero.
 */
static void test_addr(const void *data)
{
    uint64_t reg = GPOINTER_TO_UINT(data);
    QTestState *s = vtd_init();

    vtd_writeq(s, reg, 0x87654321ull << 32 | MSI_ADDR | 3);
    g_assert_cmphex(vtd_readl(s, reg), ==, MSI_ADDR);
    g_assert_cmphex(vtd_readl(s, reg + 4), ==, 0);

    vtd_writel(s, reg, MSI_ADDR | 0x1000);
    g_assert_cmphex(vtd_readl(s, reg), ==, MSI_ADDR | 0x1000);

    qtest_quit(s);
}

/* Whatever a guest stores where, QEMU has to survive it */
static void test_all(void)
{
    QTestState *s = vtd_init();
    uint32_t version = vtd_readl(s, DMAR_VER_REG);

    for (uint64_t reg = 0; reg < DMAR_REG_SIZE; reg += 8) {
        vtd_writeq(s, reg, 0);
        vtd_writeq(s, reg, UINT64_MAX);
        qtest_readq(s, Q35_HOST_BRIDGE_IOMMU_ADDR + reg);
    }
    g_assert_cmphex(vtd_readl(s, DMAR_VER_REG), ==, version);

    qtest_quit(s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);

    qtest_add_func("/q35/vtd-wide-store/fectl", test_fectl);
    qtest_add_func("/q35/vtd-wide-store/iectl", test_iectl);
    qtest_add_data_func("/q35/vtd-wide-store/feaddr",
                        GUINT_TO_POINTER(DMAR_FEADDR_REG), test_addr);
    qtest_add_data_func("/q35/vtd-wide-store/ieaddr",
                        GUINT_TO_POINTER(DMAR_IEADDR_REG), test_addr);
    qtest_add_func("/q35/vtd-wide-store/all", test_all);

    return g_test_run();
}
