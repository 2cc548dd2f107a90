/*
 * QTest testcase for the iommulab DMA device
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bitops.h"
#include "iommulab-dma-qtest.h"
#include "hw/pci/pci_regs.h"
#include "qobject/qdict.h"

/* Memory that both machines have */
static uint64_t ram(void)
{
    return g_str_equal(qtest_get_arch(), "aarch64") ? 0x40800000 : 0x800000;
}

/* Physical addresses that are nothing on both machines */
#define NOWHERE     0xfff0000000000ull

static const char *plain(void)
{
    return g_str_equal(qtest_get_arch(), "aarch64") ? "-M virt" : "-M q35";
}

static void test_registers(void)
{
    DMATest t;

    dma_start(&t, plain(), "");
    g_assert_cmphex(qpci_config_readw(t.dev, PCI_VENDOR_ID), ==,
                    0x1234); /* PCI_VENDOR_ID_QEMU */
    g_assert_cmphex(qpci_config_readw(t.dev, PCI_DEVICE_ID), ==,
                    IOMMULAB_DMA_DEVICE_ID);
    g_assert_cmphex(qpci_io_readl(t.dev, t.bar, IOMMULAB_DMA_ID), ==,
                    IOMMULAB_DMA_ID_VALUE);
    g_assert_cmphex(qpci_io_readl(t.dev, t.bar, IOMMULAB_DMA_VERSION), ==,
                    IOMMULAB_DMA_VERSION_VALUE);
    g_assert_cmphex(qpci_io_readl(t.dev, t.bar, IOMMULAB_DMA_QUEUES), ==, 4);
    g_assert_cmphex(qpci_io_readl(t.dev, t.bar, IOMMULAB_DMA_FEATURES), ==,
                    0);

    /* Halves and wholes */
    dma_writel(&t, 3, IOMMULAB_DMA_ADDR, 0x11223344);
    dma_writel(&t, 3, IOMMULAB_DMA_ADDR + 4, 0x55667788);
    g_assert_cmphex(dma_readq(&t, 3, IOMMULAB_DMA_ADDR), ==,
                    0x5566778811223344);
    dma_writeq(&t, 3, IOMMULAB_DMA_SIZE, 5ull << 32 | 64);
    g_assert_cmphex(dma_readl(&t, 3, IOMMULAB_DMA_SIZE), ==, 64);
    g_assert_cmphex(dma_readl(&t, 3, IOMMULAB_DMA_COUNT), ==, 5);
    g_assert_cmphex(dma_readq(&t, 2, IOMMULAB_DMA_ADDR), ==, 0);
    g_assert_cmphex(dma_readq(&t, 3, IOMMULAB_DMA_FAULT_TIME), ==,
                    UINT64_MAX);

    /* Queues that are not there */
    dma_writeq(&t, 4, IOMMULAB_DMA_ADDR, 1);
    g_assert_cmphex(dma_readq(&t, 4, IOMMULAB_DMA_ADDR), ==, 0);

    /* The whole page can be read */
    for (uint64_t reg = 0; reg < IOMMULAB_DMA_BAR_SIZE; reg += 8) {
        qpci_io_readq(t.dev, t.bar, reg);
    }
    dma_end(&t);
}

static void test_refused(void)
{
    static const struct {
        uint32_t cmd, size, count;
        uint64_t interval;
    } cases[] = {
        { 0, 8, 1, 1 },
        { IOMMULAB_DMA_CMD_READ, 0, 1, 1 },
        { IOMMULAB_DMA_CMD_READ, 4, 1, 1 },
        { IOMMULAB_DMA_CMD_WRITE, 4104, 1, 1 },
        { IOMMULAB_DMA_CMD_WRITE, 0xfffffff8, 1, 1 },
        { IOMMULAB_DMA_CMD_READ, 8, 0, 1 },
        { IOMMULAB_DMA_CMD_READ, 8, 1, IOMMULAB_DMA_INTERVAL_MAX + 1 },
        { IOMMULAB_DMA_CMD_READ | IOMMULAB_DMA_CMD_ATS, 8, 1, 1 },
    };
    DMATest t;

    dma_start(&t, plain(), "");
    for (int i = 0; i < ARRAY_SIZE(cases); i++) {
        dma_burst(&t, 0, cases[i].cmd, ram(), cases[i].size, cases[i].count,
                  cases[i].interval, 0);
        g_assert_cmpuint(dma_status(&t, 0), ==, IOMMULAB_DMA_BAD_COMMAND);
    }
    dma_burst(&t, 0, IOMMULAB_DMA_CMD_READ, ram() + 4, 8, 1, 1, 0);
    g_assert_cmpuint(dma_status(&t, 0), ==, IOMMULAB_DMA_BAD_COMMAND);
    dma_end(&t);
}

/* Transfers are an interval apart, and the data is where it should be */
static void test_burst(void)
{
    DMATest t;
    uint64_t buf[8];

    dma_start(&t, plain(), "");
    dma_writeq(&t, 1, IOMMULAB_DMA_ADDR, ram() + 0x1000);
    dma_writeq(&t, 1, IOMMULAB_DMA_STRIDE, -0x100ull);
    dma_writel(&t, 1, IOMMULAB_DMA_SIZE, 64);
    dma_writel(&t, 1, IOMMULAB_DMA_COUNT, 3);
    dma_writeq(&t, 1, IOMMULAB_DMA_INTERVAL, 100);
    dma_writeq(&t, 1, IOMMULAB_DMA_PATTERN, 0xaa00);
    dma_writel(&t, 1, IOMMULAB_DMA_CMD, IOMMULAB_DMA_CMD_WRITE);

    for (int n = 0; n < 3; n++) {
        uint64_t at = ram() + 0x1000 - n * 0x100;

        g_assert_cmpuint(dma_status(&t, 1), ==, IOMMULAB_DMA_BUSY);
        g_assert_cmpuint(dma_readl(&t, 1, IOMMULAB_DMA_DONE_COUNT), ==, n);
        /* Parameters are fixed meanwhile */
        dma_writeq(&t, 1, IOMMULAB_DMA_ADDR, 0);
        dma_writel(&t, 1, IOMMULAB_DMA_CMD, IOMMULAB_DMA_CMD_READ);
        g_assert_cmphex(qtest_readq(t.qts, at), ==, 0);
        qtest_clock_step(t.qts, 99);
        g_assert_cmphex(qtest_readq(t.qts, at), ==, 0);
        qtest_clock_step(t.qts, 1);
        qtest_memread(t.qts, at, buf, sizeof(buf));
        for (int i = 0; i < 8; i++) {
            g_assert_cmphex(le64_to_cpu(buf[i]), ==, 0xaa00 + i);
        }
        g_assert_cmphex(qtest_readq(t.qts, at + 64), ==, 0);
    }
    g_assert_cmpuint(dma_status(&t, 1), ==, IOMMULAB_DMA_DONE);
    g_assert_cmpuint(dma_readq(&t, 1, IOMMULAB_DMA_TIME), ==, 300);
    g_assert_cmpuint(dma_readl(&t, 1, IOMMULAB_DMA_FAULTS), ==, 0);

    /* Read it back: no difference; then one in the last word of the second */
    dma_writel(&t, 1, IOMMULAB_DMA_CMD, IOMMULAB_DMA_CMD_READ);
    qtest_clock_step(t.qts, 300);
    g_assert_cmpuint(dma_status(&t, 1), ==, IOMMULAB_DMA_DONE);
    g_assert_cmpuint(dma_readl(&t, 1, IOMMULAB_DMA_DIFFS), ==, 0);
    g_assert_cmphex(dma_readq(&t, 1, IOMMULAB_DMA_DIFF_TIME), ==, UINT64_MAX);
    g_assert_cmphex(dma_readq(&t, 1, IOMMULAB_DMA_DATA), ==, 0xaa00);

    qtest_writeq(t.qts, ram() + 0xf00 + 56, 0);
    dma_writel(&t, 1, IOMMULAB_DMA_CMD,
               IOMMULAB_DMA_CMD_READ | IOMMULAB_DMA_CMD_DIFF_STOP);
    qtest_clock_step(t.qts, 1000);
    g_assert_cmpuint(dma_status(&t, 1), ==, IOMMULAB_DMA_STOPPED);
    g_assert_cmpuint(dma_readl(&t, 1, IOMMULAB_DMA_DONE_COUNT), ==, 2);
    g_assert_cmpuint(dma_readl(&t, 1, IOMMULAB_DMA_DIFFS), ==, 1);
    g_assert_cmpuint(dma_readq(&t, 1, IOMMULAB_DMA_DIFF_TIME), ==, 200);
    g_assert_cmpuint(dma_readq(&t, 1, IOMMULAB_DMA_TIME), ==, 200);

    dma_end(&t);
}

static void test_fault(void)
{
    DMATest t;

    dma_start(&t, plain(), "");
    dma_burst(&t, 0, IOMMULAB_DMA_CMD_WRITE, NOWHERE, 8, 3, 10, 0);
    qtest_clock_step(t.qts, 30);
    g_assert_cmpuint(dma_status(&t, 0), ==, IOMMULAB_DMA_DONE);
    g_assert_cmpuint(dma_readl(&t, 0, IOMMULAB_DMA_FAULTS), ==, 3);
    g_assert_cmpuint(dma_readq(&t, 0, IOMMULAB_DMA_FAULT_TIME), ==, 10);

    dma_burst(&t, 0, IOMMULAB_DMA_CMD_READ | IOMMULAB_DMA_CMD_FAULT_STOP,
              NOWHERE, 8, 3, 10, 0);
    qtest_clock_step(t.qts, 30);
    g_assert_cmpuint(dma_status(&t, 0), ==, IOMMULAB_DMA_STOPPED);
    g_assert_cmpuint(dma_readl(&t, 0, IOMMULAB_DMA_DONE_COUNT), ==, 1);

    /* Its own registers, from its own timer */
    dma_burst(&t, 0, IOMMULAB_DMA_CMD_WRITE,
              t.bar.addr + IOMMULAB_DMA_CTRL, 8, 1, 1,
              IOMMULAB_DMA_CTRL_RESET);
    qtest_clock_step(t.qts, 1);
    g_assert_cmpuint(dma_status(&t, 0), ==, IOMMULAB_DMA_DONE);
    g_assert_cmpuint(dma_readl(&t, 0, IOMMULAB_DMA_FAULTS), ==, 1);

    dma_end(&t);
}

static void test_stop_and_reset(void)
{
    DMATest t;

    dma_start(&t, plain(), ",queues=64");
    dma_burst(&t, 63, IOMMULAB_DMA_CMD_WRITE, ram(), 8, UINT32_MAX, 10, 7);
    qtest_clock_step(t.qts, 1000);
    dma_writel(&t, 63, IOMMULAB_DMA_CMD, IOMMULAB_DMA_CMD_STOP);
    g_assert_cmpuint(dma_status(&t, 63), ==, IOMMULAB_DMA_STOPPED);
    g_assert_cmpuint(dma_readl(&t, 63, IOMMULAB_DMA_DONE_COUNT), ==, 100);
    qtest_writeq(t.qts, ram(), 0);
    qtest_clock_step(t.qts, 1000);
    g_assert_cmphex(qtest_readq(t.qts, ram()), ==, 0);

    dma_burst(&t, 63, IOMMULAB_DMA_CMD_WRITE, ram(), 8, 10, 10, 7);
    qpci_io_writel(t.dev, t.bar, IOMMULAB_DMA_CTRL, IOMMULAB_DMA_CTRL_RESET);
    g_assert_cmpuint(dma_status(&t, 63), ==, IOMMULAB_DMA_IDLE);
    qtest_clock_step(t.qts, 1000);
    g_assert_cmphex(qtest_readq(t.qts, ram()), ==, 0);

    dma_burst(&t, 63, IOMMULAB_DMA_CMD_WRITE, ram(), 8, 10, 10, 7);
    qtest_system_reset(t.qts);
    dma_find(&t);
    g_assert_cmpuint(dma_status(&t, 63), ==, IOMMULAB_DMA_IDLE);
    qtest_clock_step(t.qts, 1000);
    g_assert_cmphex(qtest_readq(t.qts, ram()), ==, 0);

    dma_end(&t);
}

/* A vector for each queue; the message is written where the table says */
static void test_msix(void)
{
    DMATest t;

    dma_start(&t, plain(), "");
    qpci_msix_enable(t.dev);
    for (int i = 0; i < 4; i++) {
        uint64_t entry = t.dev->msix_table_off + i * PCI_MSIX_ENTRY_SIZE;
        QPCIBar table = t.dev->msix_table_bar;

        qpci_io_writel(t.dev, table, entry + PCI_MSIX_ENTRY_LOWER_ADDR,
                       ram() + i * 4);
        qpci_io_writel(t.dev, table, entry + PCI_MSIX_ENTRY_UPPER_ADDR, 0);
        qpci_io_writel(t.dev, table, entry + PCI_MSIX_ENTRY_DATA, 0x100 + i);
        qpci_io_writel(t.dev, table, entry + PCI_MSIX_ENTRY_VECTOR_CTRL, 0);
    }
    for (int i = 0; i < 4; i++) {
        dma_burst(&t, i, IOMMULAB_DMA_CMD_READ | IOMMULAB_DMA_CMD_IRQ,
                  ram() + 0x100, 8, 2, 10, 0);
        qtest_clock_step(t.qts, 10);
        g_assert_cmphex(qtest_readl(t.qts, ram() + i * 4), ==, 0);
        qtest_clock_step(t.qts, 10);
        g_assert_cmphex(qtest_readl(t.qts, ram() + i * 4), ==, 0x100 + i);
    }
    /* Not asked for, not sent */
    qtest_writel(t.qts, ram(), 0);
    dma_burst(&t, 0, IOMMULAB_DMA_CMD_READ, ram() + 0x100, 8, 2, 10, 0);
    qtest_clock_step(t.qts, 100);
    g_assert_cmphex(qtest_readl(t.qts, ram()), ==, 0);

    qpci_msix_disable(t.dev);
    dma_end(&t);
}

/* A burst that is saved half way ends on the other side */
static void test_migration(void)
{
    g_autofree char *dir = g_dir_make_tmp("iommulab-dma-test-XXXXXX", NULL);
    g_autofree char *uri = g_strdup_printf("file:%s/state", dir);
    g_autofree char *path = g_strdup_printf("%s/state", dir);
    g_autofree char *incoming = g_strdup_printf("%s -incoming defer", plain());
    DMATest src, dst;
    QDict *rsp;

    dma_start(&src, plain(), "");
    dma_start(&dst, incoming, "");
    dma_burst(&src, 2, IOMMULAB_DMA_CMD_WRITE, ram(), 16, 10, 100, 5);
    qtest_clock_step(src.qts, 450);
    g_assert_cmpuint(dma_readl(&src, 2, IOMMULAB_DMA_DONE_COUNT), ==, 4);

    qtest_qmp_assert_success(src.qts, "{'execute': 'migrate', "
                             "'arguments': {'uri': %s}}", uri);
    qtest_qmp_eventwait(src.qts, "STOP");
    for (bool done = false; !done; qobject_unref(rsp)) {
        rsp = qtest_qmp_assert_success_ref(src.qts,
                                           "{'execute': 'query-migrate'}");
        done = g_str_equal(qdict_get_str(rsp, "status"), "completed");
        g_assert_cmpstr(qdict_get_str(rsp, "status"), !=, "failed");
    }
    qtest_qmp_assert_success(dst.qts, "{'execute': 'migrate-incoming', "
                             "'arguments': {'uri': %s}}", uri);
    qtest_qmp_eventwait(dst.qts, "RESUME");

    qtest_clock_set(dst.qts, 450);
    g_assert_cmpuint(dma_status(&dst, 2), ==, IOMMULAB_DMA_BUSY);
    g_assert_cmpuint(dma_readl(&dst, 2, IOMMULAB_DMA_DONE_COUNT), ==, 4);
    qtest_clock_step(dst.qts, 549);
    g_assert_cmpuint(dma_readl(&dst, 2, IOMMULAB_DMA_DONE_COUNT), ==, 9);
    qtest_clock_step(dst.qts, 1);
    g_assert_cmpuint(dma_status(&dst, 2), ==, IOMMULAB_DMA_DONE);
    g_assert_cmpuint(dma_readq(&dst, 2, IOMMULAB_DMA_TIME), ==, 1000);
    g_assert_cmphex(qtest_readq(dst.qts, ram() + 8), ==, 6);

    dma_end(&src);
    dma_end(&dst);
    unlink(path);
    rmdir(dir);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);

    qtest_add_func("/iommulab-dma/registers", test_registers);
    qtest_add_func("/iommulab-dma/refused", test_refused);
    qtest_add_func("/iommulab-dma/burst", test_burst);
    qtest_add_func("/iommulab-dma/fault", test_fault);
    qtest_add_func("/iommulab-dma/stop-and-reset", test_stop_and_reset);
    qtest_add_func("/iommulab-dma/msix", test_msix);
    qtest_add_func("/iommulab-dma/migration", test_migration);

    return g_test_run();
}
