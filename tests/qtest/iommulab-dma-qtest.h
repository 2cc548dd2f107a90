/*
 * Drive the iommulab DMA device from a qtest
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TESTS_IOMMULAB_DMA_QTEST_H
#define TESTS_IOMMULAB_DMA_QTEST_H

#include "libqtest.h"
#include "libqos/generic-pcihost.h"
#include "libqos/pci-pc.h"
#include "hw/misc/iommulab-dma.h"

/* Slot of the device on bus 0, and with it its requester and stream ID */
#define DMA_SLOT        4
#define DMA_DEVFN       QPCI_DEVFN(DMA_SLOT, 0)

typedef struct DMATest {
    QTestState *qts;
    QPCIBus *bus;
    QGenericPCIBus generic;
    QPCIDevice *dev;
    QPCIBar bar;
} DMATest;

/* Find the device; again after the guest or the test has reset the machine */
static inline void dma_find(DMATest *t)
{
    uint64_t size;

    g_free(t->dev);
    t->dev = qpci_device_find(t->bus, DMA_DEVFN);
    g_assert_nonnull(t->dev);
    qpci_device_enable(t->dev);
    t->bar = qpci_iomap(t->dev, 0, &size);
    g_assert_cmphex(size, ==, IOMMULAB_DMA_BAR_SIZE);
}

/* @machine: arguments from "-M" on; @device: properties with their commas */
static inline void dma_start(DMATest *t, const char *machine,
                             const char *device)
{
    memset(t, 0, sizeof(*t));
    t->qts = qtest_initf("%s -nodefaults -device iommulab-dma,addr=%x.0%s",
                         machine, DMA_SLOT, device);
    if (g_str_equal(qtest_get_arch(), "aarch64")) {
        qpci_init_generic(&t->generic, t->qts, NULL, false);
        t->bus = &t->generic.bus;
    } else {
        t->bus = qpci_new_pc(t->qts, NULL);
    }
    dma_find(t);
}

static inline void dma_end(DMATest *t)
{
    qtest_quit(t->qts);
    g_free(t->dev);
    if (t->bus != &t->generic.bus) {
        qpci_free_pc(t->bus);
    }
}

static inline uint32_t dma_readl(DMATest *t, int queue, uint64_t reg)
{
    return qpci_io_readl(t->dev, t->bar, IOMMULAB_DMA_QUEUE(queue) + reg);
}

static inline uint64_t dma_readq(DMATest *t, int queue, uint64_t reg)
{
    return qpci_io_readq(t->dev, t->bar, IOMMULAB_DMA_QUEUE(queue) + reg);
}

static inline void dma_writel(DMATest *t, int queue, uint64_t reg,
                              uint32_t val)
{
    qpci_io_writel(t->dev, t->bar, IOMMULAB_DMA_QUEUE(queue) + reg, val);
}

static inline void dma_writeq(DMATest *t, int queue, uint64_t reg,
                              uint64_t val)
{
    qpci_io_writeq(t->dev, t->bar, IOMMULAB_DMA_QUEUE(queue) + reg, val);
}

static inline uint32_t dma_status(DMATest *t, int queue)
{
    return dma_readl(t, queue, IOMMULAB_DMA_STATUS);
}

/* Start a burst of @count transfers of @size bytes, all at @addr */
static inline void dma_burst(DMATest *t, int queue, uint32_t cmd,
                             uint64_t addr, uint32_t size, uint32_t count,
                             uint64_t interval, uint64_t pattern)
{
    dma_writeq(t, queue, IOMMULAB_DMA_ADDR, addr);
    dma_writeq(t, queue, IOMMULAB_DMA_STRIDE, 0);
    dma_writel(t, queue, IOMMULAB_DMA_SIZE, size);
    dma_writel(t, queue, IOMMULAB_DMA_COUNT, count);
    dma_writeq(t, queue, IOMMULAB_DMA_INTERVAL, interval);
    dma_writeq(t, queue, IOMMULAB_DMA_PATTERN, pattern);
    dma_writel(t, queue, IOMMULAB_DMA_CMD, cmd);
}

/* One read of 8 bytes; true, and the word in @data, if it succeeds */
static inline bool dma_read_word(DMATest *t, uint64_t addr, uint64_t *data)
{
    dma_burst(t, 0, IOMMULAB_DMA_CMD_READ, addr, 8, 1, 1, 0);
    for (int i = 0; dma_status(t, 0) == IOMMULAB_DMA_BUSY; i++) {
        g_assert_cmpint(i, <, 1000);
        qtest_clock_step_next(t->qts);
    }
    g_assert_cmpuint(dma_status(t, 0), ==, IOMMULAB_DMA_DONE);
    *data = dma_readq(t, 0, IOMMULAB_DMA_DATA);
    return !dma_readl(t, 0, IOMMULAB_DMA_FAULTS);
}

#endif
