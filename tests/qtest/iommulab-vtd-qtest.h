/*
 * Set the VT-d of the q35 machine up from a qtest
 *
 * One requester, the iommulab DMA device, in domain 1 of the legacy mode with
 * second-stage tables of three levels. Section numbers are those of the VT-d
 * specification, revision 4.1.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TESTS_IOMMULAB_VTD_QTEST_H
#define TESTS_IOMMULAB_VTD_QTEST_H

#include "libqtest.h"
#include "hw/i386/intel_iommu_internal.h"

/* Where things are in the guest's memory */
#define IQ_ADDR         0x100000ull     /* 256 descriptors of 128 bits */
#define ROOT_ADDR       0x110000ull
#define CONTEXT_ADDR    0x111000ull
#define TABLE_ADDR      0x112000ull     /* three pages */
#define STATUS_ADDR     0x120000ull
#define PAGE_ADDR       0x200000ull     /* what IOVA_BASE is mapped to */
#define IOVA_BASE       0x10000000ull   /* 512 pages from here can be mapped */

#define VTD_DOMAIN      1
#define IQ_ENTRIES      256

static inline uint32_t vtd_readl(QTestState *s, uint64_t reg)
{
    return qtest_readl(s, Q35_HOST_BRIDGE_IOMMU_ADDR + reg);
}

static inline uint64_t vtd_readq(QTestState *s, uint64_t reg)
{
    return qtest_readq(s, Q35_HOST_BRIDGE_IOMMU_ADDR + reg);
}

static inline void vtd_writel(QTestState *s, uint64_t reg, uint32_t val)
{
    qtest_writel(s, Q35_HOST_BRIDGE_IOMMU_ADDR + reg, val);
}

static inline void vtd_writeq(QTestState *s, uint64_t reg, uint64_t val)
{
    qtest_writeq(s, Q35_HOST_BRIDGE_IOMMU_ADDR + reg, val);
}

/* Map page @n from IOVA_BASE on to @pa, or to nothing if that is 0 */
static inline void vtd_map(QTestState *s, int n, uint64_t pa)
{
    qtest_writeq(s, TABLE_ADDR + 0x2000 + n * 8, pa ? pa | 3 : 0);
}

/* Tables and queue, then translation on, for the requester @sid on bus 0 */
static inline void vtd_start(QTestState *s, uint8_t sid)
{
    /* 9.1, 9.3: present; 39 bits, domain, second stage only */
    qtest_writeq(s, ROOT_ADDR, CONTEXT_ADDR | 1);
    qtest_writeq(s, CONTEXT_ADDR + sid * 16, TABLE_ADDR | 1);
    qtest_writeq(s, CONTEXT_ADDR + sid * 16 + 8, VTD_DOMAIN << 8 | 1);
    /* 9.8: readable and writable */
    qtest_writeq(s, TABLE_ADDR, (TABLE_ADDR + 0x1000) | 3);
    qtest_writeq(s, TABLE_ADDR + 0x1000 + (IOVA_BASE >> 21) * 8,
                 (TABLE_ADDR + 0x2000) | 3);
    vtd_map(s, 0, PAGE_ADDR);

    vtd_writeq(s, DMAR_RTADDR_REG, ROOT_ADDR);
    vtd_writel(s, DMAR_GCMD_REG, VTD_GCMD_SRTP);
    vtd_writeq(s, DMAR_IQT_REG, 0);
    vtd_writeq(s, DMAR_IQA_REG, IQ_ADDR);
    vtd_writel(s, DMAR_GCMD_REG, VTD_GCMD_QIE);
    vtd_writel(s, DMAR_GCMD_REG, VTD_GCMD_QIE | VTD_GCMD_TE);
    g_assert_cmphex(vtd_readl(s, DMAR_GSTS_REG), ==,
                    VTD_GSTS_TES | VTD_GSTS_RTPS | VTD_GSTS_QIES);
}

/* Put a descriptor at the tail, and show it to the IOMMU */
static inline void vtd_issue(QTestState *s, uint64_t lo, uint64_t hi)
{
    uint64_t tail = vtd_readq(s, DMAR_IQT_REG);

    qtest_writeq(s, IQ_ADDR + tail, lo);
    qtest_writeq(s, IQ_ADDR + tail + 8, hi);
    vtd_writeq(s, DMAR_IQT_REG, (tail + 16) % (IQ_ENTRIES * 16));
}

/* 6.5.2.3: invalidate page @n from IOVA_BASE on */
static inline void vtd_inv_page(QTestState *s, int n)
{
    vtd_issue(s, VTD_INV_DESC_IOTLB | VTD_INV_DESC_IOTLB_PAGE |
              VTD_DOMAIN << 16, IOVA_BASE + n * 4096);
}

/* 6.5.2.5: invalidate page @n in the TLB of device @sid */
static inline void vtd_inv_device(QTestState *s, uint8_t sid, int n)
{
    vtd_issue(s, VTD_INV_DESC_DEVICE | (uint64_t)sid << 32,
              IOVA_BASE + n * 4096);
}

/*
 * Extended configuration space is not in reach of port I/O: have q35 map it.
 * PCIEXBAR is at 0x60 of the host bridge; bit 0 enables it, 256 buses.
 */
#define ECAM_BASE       0xb0000000u

static inline void vtd_enable_ecam(QTestState *s)
{
    qtest_outl(s, 0xcf8, 0x80000060);
    qtest_outl(s, 0xcfc, ECAM_BASE | 1);
}

#endif
