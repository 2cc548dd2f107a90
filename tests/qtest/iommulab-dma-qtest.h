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
#include "qobject/qdict.h"
#include "qobject/qlist.h"

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

/* Where the machine's SMMU is in the QOM tree */
static inline char *smmu_path(DMATest *t)
{
    QDict *rsp = qtest_qmp(t->qts, "{'execute': 'qom-list', 'arguments': "
                           "{'path': '/machine/unattached'}}");
    QListEntry *entry;
    char *path = NULL;

    QLIST_FOREACH_ENTRY(qdict_get_qlist(rsp, "return"), entry) {
        QDict *item = qobject_to(QDict, qlist_entry_obj(entry));

        if (g_str_equal(qdict_get_str(item, "type"), "child<arm-smmuv3>")) {
            path = g_strdup_printf("/machine/unattached/%s",
                                   qdict_get_str(item, "name"));
        }
    }
    qobject_unref(rsp);
    g_assert_nonnull(path);
    return path;
}

/* A counter of the IOMMU at @path, by the name of its property */
static inline uint64_t iotlb_counter(DMATest *t, const char *path,
                                     const char *name)
{
    QDict *rsp = qtest_qmp(t->qts, "{'execute': 'qom-get', 'arguments': "
                           "{'path': %s, 'property': %s}}", path, name);
    uint64_t value;

    g_assert_true(qdict_haskey(rsp, "return"));
    value = qdict_get_int(rsp, "return");
    qobject_unref(rsp);
    return value;
}

/*
 * The costs of these options, at three levels of tables: an IOTLB of 4 sets
 * with 2 ways
 */
#define IOTLB_OPTIONS(sep)                                                  \
    sep "iotlb-entries=8" sep "iotlb-ways=2" sep "iotlb-lookup-ps=1000"     \
    sep "iotlb-miss-ps=5000" sep "iotlb-walk-ps=20000"
#define IOTLB_HIT_NS    1
#define IOTLB_MISS_NS   (1 + 5 + 3 * 20)

/*
 * Read the word at page @n of @iova: it has to be @word and to take as long as
 * a hit or a miss does
 */
static inline void iotlb_read(DMATest *t, uint64_t iova, int n, uint64_t word,
                              bool hit)
{
    uint64_t ns = hit ? IOTLB_HIT_NS : IOTLB_MISS_NS;

    dma_burst(t, 0, IOMMULAB_DMA_CMD_READ, iova + n * 4096, 8, 1, 10, word);
    qtest_clock_step(t->qts, 10 + ns - 1);
    g_assert_cmpuint(dma_status(t, 0), ==, IOMMULAB_DMA_BUSY);
    qtest_clock_step(t->qts, 1);
    g_assert_cmpuint(dma_status(t, 0), ==, IOMMULAB_DMA_DONE);
    g_assert_cmpuint(dma_readq(t, 0, IOMMULAB_DMA_TIME), ==, 10 + ns);
    g_assert_cmpuint(dma_readq(t, 0, IOMMULAB_DMA_XLAT_TIME), ==, ns);
    g_assert_cmphex(dma_readq(t, 0, IOMMULAB_DMA_DATA), ==, word);
}

/*
 * Replacement in a set of the cache that IOTLB_OPTIONS give. @map maps page
 * n of @iova, @old and @new_ are pages whose first word is 1 and 2, @inv
 * invalidates a page and nothing else.
 */
static inline void iotlb_check(DMATest *t, const char *path, uint64_t iova,
                               uint64_t old, uint64_t new_,
                               void (*map)(QTestState *, int, uint64_t),
                               void (*inv)(QTestState *, int))
{
    qtest_writeq(t->qts, old, 1);
    qtest_writeq(t->qts, new_, 2);
    for (int n = 0; n < 16; n++) {
        map(t->qts, n, old);
    }

    iotlb_read(t, iova, 0, 1, false);
    iotlb_read(t, iova, 0, 1, true);
    iotlb_read(t, iova, 4, 1, false);
    iotlb_read(t, iova, 1, 1, false);   /* another set */
    iotlb_read(t, iova, 0, 1, true);
    g_assert_cmpuint(iotlb_counter(t, path, "iotlb-evicted"), ==, 0);

    /* The third of this set replaces 4, as 0 was used later */
    iotlb_read(t, iova, 8, 1, false);
    g_assert_cmpuint(iotlb_counter(t, path, "iotlb-evicted"), ==, 1);
    for (int n = 0; n < 16; n++) {
        map(t->qts, n, new_);
    }
    iotlb_read(t, iova, 0, 1, true);
    iotlb_read(t, iova, 1, 1, true);
    iotlb_read(t, iova, 4, 2, false);   /* replaces 8 */
    iotlb_read(t, iova, 8, 2, false);   /* replaces 0 */
    g_assert_cmpuint(iotlb_counter(t, path, "iotlb-evicted"), ==, 3);
    g_assert_cmpuint(iotlb_counter(t, path, "iotlb-invalidated"), ==, 0);

    /* What an invalidation removes leaves a free place */
    inv(t->qts, 4);
    g_assert_cmpuint(iotlb_counter(t, path, "iotlb-invalidated"), ==, 1);
    iotlb_read(t, iova, 0, 2, false);
    iotlb_read(t, iova, 8, 2, true);
    g_assert_cmpuint(iotlb_counter(t, path, "iotlb-evicted"), ==, 3);

    g_assert_cmpuint(iotlb_counter(t, path, "iotlb-hits"), ==, 5);
    g_assert_cmpuint(iotlb_counter(t, path, "iotlb-misses"), ==, 7);
    g_assert_cmpuint(iotlb_counter(t, path, "iotlb-walk-reads"), ==, 7 * 3);
}

#endif
