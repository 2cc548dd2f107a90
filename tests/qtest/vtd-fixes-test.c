/*
 * QTest testcase for repaired defects of the VT-d invalidation queue
 *
 * A case each for the patches to hw/i386/intel_iommu.c in patches/qemu/fixes.
 * Section numbers are those of the VT-d specification, revision 4.1.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "libqtest.h"
#include "hw/i386/intel_iommu_internal.h"

#define IQ_BASE         0x100000
#define STATUS_ADDR     0x200000

/* 6.5.2.8, flags of a wait descriptor */
#define WAIT_FN         (1ull << 6)

static uint32_t vtd_readl(QTestState *s, uint64_t offset)
{
    return qtest_readl(s, Q35_HOST_BRIDGE_IOMMU_ADDR + offset);
}

static uint64_t vtd_readq(QTestState *s, uint64_t offset)
{
    return qtest_readq(s, Q35_HOST_BRIDGE_IOMMU_ADDR + offset);
}

static void vtd_writel(QTestState *s, uint64_t offset, uint32_t val)
{
    qtest_writel(s, Q35_HOST_BRIDGE_IOMMU_ADDR + offset, val);
}

static void vtd_writeq(QTestState *s, uint64_t offset, uint64_t val)
{
    qtest_writeq(s, Q35_HOST_BRIDGE_IOMMU_ADDR + offset, val);
}

static void put_desc(QTestState *s, int index, uint64_t lo, uint64_t hi)
{
    qtest_writeq(s, IQ_BASE + index * 16, lo);
    qtest_writeq(s, IQ_BASE + index * 16 + 8, hi);
}

static void put_status_wait(QTestState *s, int index, uint32_t data)
{
    put_desc(s, index, VTD_INV_DESC_WAIT | VTD_INV_DESC_WAIT_SW |
             (uint64_t)data << VTD_INV_DESC_WAIT_DATA_SHIFT, STATUS_ADDR);
}

static void set_tail(QTestState *s, int index)
{
    vtd_writeq(s, DMAR_IQT_REG, index * 16);
}

static bool iqe(QTestState *s)
{
    return vtd_readl(s, DMAR_FSTS_REG) & VTD_FSTS_IQE;
}

static void clear_iqe(QTestState *s)
{
    vtd_writel(s, DMAR_FSTS_REG, VTD_FSTS_IQE);
}

static bool qies(QTestState *s)
{
    return vtd_readl(s, DMAR_GSTS_REG) & VTD_GSTS_QIES;
}

/* An enabled queue of 256 descriptors of 128 bits */
static QTestState *queue_start(const char *args)
{
    QTestState *s = qtest_initf("-M q35 -device intel-iommu%s", args);

    vtd_writeq(s, DMAR_IQT_REG, 0);
    vtd_writeq(s, DMAR_IQA_REG, IQ_BASE);
    vtd_writel(s, DMAR_GCMD_REG, VTD_GCMD_QIE);
    g_assert_true(qies(s));
    return s;
}

/* 6.5.2.8: neither SW nor IF is required, with or without FN */
static void test_bare_wait(void)
{
    QTestState *s = queue_start("");

    put_desc(s, 0, VTD_INV_DESC_WAIT | WAIT_FN, 0);
    put_desc(s, 1, VTD_INV_DESC_WAIT, 0);
    put_status_wait(s, 2, 0x1234);
    set_tail(s, 3);
    g_assert_false(iqe(s));
    g_assert_cmphex(vtd_readq(s, DMAR_IQH_REG), ==, 3 * 16);
    g_assert_cmphex(qtest_readl(s, STATUS_ADDR), ==, 0x1234);
    g_assert_cmphex(vtd_readl(s, DMAR_ICS_REG), ==, 0);

    /* Reserved bits are still looked at */
    put_desc(s, 3, VTD_INV_DESC_WAIT | WAIT_FN | 1 << 12, 0);
    set_tail(s, 4);
    g_assert_true(iqe(s));
    g_assert_cmphex(vtd_readq(s, DMAR_IQH_REG), ==, 3 * 16);

    qtest_quit(s);
}

/* What Linux does: repair the descriptor, clear IQE, wait */
static void test_refetch(void)
{
    QTestState *s = queue_start("");

    qtest_writel(s, STATUS_ADDR, 0);
    put_desc(s, 0, VTD_INV_DESC_IOTLB | VTD_INV_DESC_IOTLB_GLOBAL, 0);
    put_desc(s, 1, 0xf, 0);
    put_status_wait(s, 2, 0x55aa);
    set_tail(s, 3);
    g_assert_true(iqe(s));
    g_assert_cmphex(vtd_readq(s, DMAR_IQH_REG), ==, 16);
    g_assert_cmphex(qtest_readl(s, STATUS_ADDR), ==, 0);

    /* Not repaired: the same error again */
    clear_iqe(s);
    g_assert_true(iqe(s));
    g_assert_cmphex(vtd_readq(s, DMAR_IQH_REG), ==, 16);

    put_desc(s, 1, VTD_INV_DESC_WAIT | WAIT_FN, 0);
    g_assert_cmphex(qtest_readl(s, STATUS_ADDR), ==, 0);
    clear_iqe(s);
    g_assert_false(iqe(s));
    g_assert_cmphex(vtd_readq(s, DMAR_IQH_REG), ==, 3 * 16);
    g_assert_cmphex(qtest_readl(s, STATUS_ADDR), ==, 0x55aa);

    /* Other writes to FSTS do not fetch: nothing is there */
    vtd_writel(s, DMAR_FSTS_REG, 0);
    g_assert_cmphex(vtd_readq(s, DMAR_IQH_REG), ==, 3 * 16);

    qtest_quit(s);
}

/* A tail beyond the queue is an error each time it is looked at */
static void test_refetch_tail(void)
{
    QTestState *s = queue_start("");

    set_tail(s, 256);
    g_assert_true(iqe(s));
    clear_iqe(s);
    g_assert_true(iqe(s));
    put_status_wait(s, 0, 0x77);
    set_tail(s, 1);
    g_assert_cmphex(vtd_readq(s, DMAR_IQH_REG), ==, 0);
    clear_iqe(s);
    g_assert_false(iqe(s));
    g_assert_cmphex(vtd_readq(s, DMAR_IQH_REG), ==, 16);
    g_assert_cmphex(qtest_readl(s, STATUS_ADDR), ==, 0x77);

    qtest_quit(s);
}

/* 11.4.4.1: QIES follows QIE, whatever has been in the queue */
static void test_disable(void)
{
    QTestState *s = queue_start("");

    /* Last was no wait */
    put_desc(s, 0, VTD_INV_DESC_IOTLB | VTD_INV_DESC_IOTLB_GLOBAL, 0);
    set_tail(s, 1);
    vtd_writel(s, DMAR_GCMD_REG, 0);
    g_assert_false(qies(s));
    g_assert_cmphex(vtd_readq(s, DMAR_IQH_REG), ==, 0);

    /* An error is pending */
    vtd_writeq(s, DMAR_IQT_REG, 0);
    vtd_writel(s, DMAR_GCMD_REG, VTD_GCMD_QIE);
    g_assert_true(qies(s));
    put_desc(s, 0, 0xf, 0);
    set_tail(s, 1);
    g_assert_true(iqe(s));
    vtd_writel(s, DMAR_GCMD_REG, 0);
    g_assert_false(qies(s));

    /* Nothing at all, and then it works again */
    clear_iqe(s);
    g_assert_false(iqe(s));
    vtd_writeq(s, DMAR_IQT_REG, 0);
    vtd_writel(s, DMAR_GCMD_REG, VTD_GCMD_QIE);
    vtd_writel(s, DMAR_GCMD_REG, 0);
    g_assert_false(qies(s));
    vtd_writel(s, DMAR_GCMD_REG, VTD_GCMD_QIE);
    put_status_wait(s, 0, 0x99);
    set_tail(s, 1);
    g_assert_cmphex(qtest_readl(s, STATUS_ADDR), ==, 0x99);

    qtest_quit(s);
}

/* 11.4.5.1, 11.4.8.1: a request that is ignored ends, with granularity 0 */
static void test_register_based(void)
{
    QTestState *s = queue_start("");
    uint64_t val;

    vtd_writeq(s, DMAR_CCMD_REG, VTD_CCMD_ICC | VTD_CCMD_GLOBAL_INVL);
    val = vtd_readq(s, DMAR_CCMD_REG);
    g_assert_cmphex(val & VTD_CCMD_ICC, ==, 0);
    g_assert_cmphex(val & VTD_CCMD_CAIG_MASK, ==, 0);

    vtd_writeq(s, DMAR_IOTLB_REG, VTD_TLB_IVT | VTD_TLB_GLOBAL_FLUSH);
    val = vtd_readq(s, DMAR_IOTLB_REG);
    g_assert_cmphex(val & VTD_TLB_IVT, ==, 0);
    g_assert_cmphex(val & VTD_TLB_FLUSH_GRANU_MASK_A, ==, 0);

    /* Without the queue it is done, and says so */
    vtd_writel(s, DMAR_GCMD_REG, 0);
    g_assert_false(qies(s));
    vtd_writeq(s, DMAR_CCMD_REG, VTD_CCMD_ICC | VTD_CCMD_GLOBAL_INVL);
    val = vtd_readq(s, DMAR_CCMD_REG);
    g_assert_cmphex(val & VTD_CCMD_ICC, ==, 0);
    g_assert_cmphex(val & VTD_CCMD_CAIG_MASK, ==, VTD_CCMD_GLOBAL_INVL_A);
    vtd_writeq(s, DMAR_IOTLB_REG, VTD_TLB_IVT | VTD_TLB_GLOBAL_FLUSH);
    val = vtd_readq(s, DMAR_IOTLB_REG);
    g_assert_cmphex(val & VTD_TLB_IVT, ==, 0);
    g_assert_cmphex(val & VTD_TLB_FLUSH_GRANU_MASK_A, ==,
                    VTD_TLB_GLOBAL_FLUSH_A);

    qtest_quit(s);
}

/* 6.5.2.5: device-TLB descriptors need ECAP.DT */
static void test_device_tlb(const void *data)
{
    bool dt = data;
    QTestState *s = queue_start(dt ? ",device-iotlb=on" : "");

    g_assert_cmpint(!!(vtd_readq(s, DMAR_ECAP_REG) & VTD_ECAP_DT), ==, dt);
    put_desc(s, 0, VTD_INV_DESC_DEVICE, 0x7ffffffffffff001);
    set_tail(s, 1);
    g_assert_cmpint(iqe(s), ==, !dt);
    g_assert_cmphex(vtd_readq(s, DMAR_IQH_REG), ==, dt ? 16 : 0);

    qtest_quit(s);
}

/* 11.4.9.3: DW is reserved without ECAP.SMTS */
static void test_width(const void *data)
{
    bool scalable = data;
    QTestState *s = qtest_initf("-M q35 -device intel-iommu%s",
                                scalable ? ",x-scalable-mode=on" : "");

    vtd_writeq(s, DMAR_IQA_REG, IQ_BASE | VTD_IQA_DW_MASK | 3);
    g_assert_cmphex(vtd_readq(s, DMAR_IQA_REG) & 0xfff, ==,
                    scalable ? VTD_IQA_DW_MASK | 3 : 3);

    qtest_quit(s);
}

/* A thousand bad descriptors are one line on stderr */
static void test_log(void)
{
    g_autofree char *dir = g_dir_make_tmp("vtd-fixes-test-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(dir, "stderr", NULL);
    g_autofree char *log = NULL;
    int saved = dup(STDERR_FILENO), file;
    QTestState *s;
    int lines = 0;

    file = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600);
    g_assert_cmpint(file, >=, 0);
    dup2(file, STDERR_FILENO);
    s = queue_start("");
    dup2(saved, STDERR_FILENO);
    close(file);
    close(saved);

    put_desc(s, 0, VTD_INV_DESC_IOTLB | VTD_INV_DESC_IOTLB_GLOBAL | 1 << 12,
             0);
    set_tail(s, 1);
    for (int i = 0; i < 1000; i++) {
        g_assert_true(iqe(s));
        clear_iqe(s);
    }
    qtest_quit(s);

    g_assert_true(g_file_get_contents(path, &log, NULL, NULL));
    for (const char *p = log; (p = strstr(p, "reserved nonzero")); p++) {
        lines++;
    }
    g_assert_cmpint(lines, ==, 1);
    unlink(path);
    rmdir(dir);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);

    qtest_add_func("/q35/vtd-fixes/bare-wait", test_bare_wait);
    qtest_add_func("/q35/vtd-fixes/refetch", test_refetch);
    qtest_add_func("/q35/vtd-fixes/refetch-tail", test_refetch_tail);
    qtest_add_func("/q35/vtd-fixes/disable", test_disable);
    qtest_add_func("/q35/vtd-fixes/register-based", test_register_based);
    qtest_add_data_func("/q35/vtd-fixes/device-tlb/off", NULL,
                        test_device_tlb);
    qtest_add_data_func("/q35/vtd-fixes/device-tlb/on", (void *)1,
                        test_device_tlb);
    qtest_add_data_func("/q35/vtd-fixes/width/legacy", NULL, test_width);
    qtest_add_data_func("/q35/vtd-fixes/width/scalable", (void *)1,
                        test_width);
    qtest_add_func("/q35/vtd-fixes/log", test_log);

    return g_test_run();
}
