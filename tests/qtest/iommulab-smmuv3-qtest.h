/*
 * Set the SMMUv3 of the virt machine up from a qtest
 *
 * One stream, that of the iommulab DMA device, with stage 1 tables of 4K
 * granules. Section numbers are those of IHI 0070 G.b.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TESTS_IOMMULAB_SMMUV3_QTEST_H
#define TESTS_IOMMULAB_SMMUV3_QTEST_H

#include "libqtest.h"

#define SMMU_BASE       0x09050000ull   /* hw/arm/virt.c */
#define SMMU_IRQ        74              /* SPI of the first of four */

/* 6.3, registers */
#define SMMU_IDR0       0x000
#define SMMU_IDR1       0x004
#define SMMU_CR0        0x020
#define SMMU_CR0ACK     0x024
#define SMMU_CR0_SMMUEN     (1u << 0)
#define SMMU_CR0_EVENTQEN   (1u << 2)
#define SMMU_CR0_CMDQEN     (1u << 3)
#define SMMU_IRQ_CTRL   0x050
#define SMMU_GERROR     0x060
#define SMMU_GERRORN    0x064
#define SMMU_GERROR_CMDQ    (1u << 0)
#define SMMU_GERROR_EVENTQ  (1u << 2)
#define SMMU_STRTAB     0x080
#define SMMU_STRTAB_CFG 0x088
#define SMMU_CMDQ_BASE  0x090
#define SMMU_CMDQ_PROD  0x098
#define SMMU_CMDQ_CONS  0x09c
#define SMMU_EVTQ_BASE  0x0a0
#define SMMU_EVTQ_PROD  0x100a8
#define SMMU_EVTQ_CONS  0x100ac
#define SMMU_EVTQ_OVF       (1u << 31)

/* 7.1, CMDQ_CONS.ERR */
#define CERROR_NONE     0
#define CERROR_ILL      1
#define CERROR_ABT      2

/* Where things are in the guest's memory, which begins at 1 GiB */
#define CMDQ_ADDR       0x40100000ull
#define EVTQ_ADDR       0x40110000ull
#define STRTAB_ADDR     0x40200000ull
#define CD_ADDR         0x40300000ull
#define TABLE_ADDR      0x40400000ull   /* three pages */
#define PAGE_ADDR       0x40500000ull   /* what IOVA_BASE is mapped to */
#define IOVA_BASE       0x10000000ull   /* 512 pages from here can be mapped */

#define CMDQ_LOG2       4
#define EVTQ_LOG2       4
#define STRTAB_LOG2     8

static inline uint32_t smmu_readl(QTestState *s, uint64_t reg)
{
    return qtest_readl(s, SMMU_BASE + reg);
}

static inline void smmu_writel(QTestState *s, uint64_t reg, uint32_t val)
{
    qtest_writel(s, SMMU_BASE + reg, val);
}

static inline void smmu_writeq(QTestState *s, uint64_t reg, uint64_t val)
{
    qtest_writeq(s, SMMU_BASE + reg, val);
}

/* 5.2: the stream table entry of stream @sid, first 32 bytes */
static inline void smmu_set_ste(QTestState *s, uint32_t sid, uint64_t d0,
                                uint64_t d1, uint64_t d2, uint64_t d3)
{
    uint64_t addr = STRTAB_ADDR + sid * 64;

    qtest_writeq(s, addr, d0);
    qtest_writeq(s, addr + 8, d1);
    qtest_writeq(s, addr + 16, d2);
    qtest_writeq(s, addr + 24, d3);
}

/* 5.4: 39-bit input, 4K granule, no TTB1, AArch64, faults are recorded */
#define CD_LO   (25 | 1u << 30 | 1u << 31)
#define CD_HI   (1u << 9 | 1u << 13 | 1u << 14)
#define CD_IPS_44       4u

static inline void smmu_set_cd(QTestState *s, uint32_t ips)
{
    qtest_writel(s, CD_ADDR, CD_LO);
    qtest_writel(s, CD_ADDR + 4, CD_HI | ips);
    qtest_writeq(s, CD_ADDR + 8, TABLE_ADDR);
}

/* Map page @n from IOVA_BASE on to @pa, or to nothing if that is 0 */
static inline void smmu_map(QTestState *s, int n, uint64_t pa)
{
    qtest_writeq(s, TABLE_ADDR + 0x2000 + n * 8,
                 pa ? pa | 1 << 10 | 3 : 0);
}

/* Queues, stream table and tables, then all enabled with @cr0 */
static inline void smmu_start(QTestState *s, uint32_t sid, uint32_t cr0)
{
    qtest_writeq(s, TABLE_ADDR, (TABLE_ADDR + 0x1000) | 3);
    qtest_writeq(s, TABLE_ADDR + 0x1000 + (IOVA_BASE >> 21) * 8,
                 (TABLE_ADDR + 0x2000) | 3);
    smmu_map(s, 0, PAGE_ADDR);
    smmu_set_cd(s, CD_IPS_44);
    /* Config 0b101: stage 1 */
    smmu_set_ste(s, sid, CD_ADDR | 5 << 1 | 1, 0, 0, 0);

    smmu_writel(s, SMMU_CR0, 0);
    smmu_writeq(s, SMMU_STRTAB, STRTAB_ADDR);
    smmu_writel(s, SMMU_STRTAB_CFG, STRTAB_LOG2);
    smmu_writeq(s, SMMU_CMDQ_BASE, CMDQ_ADDR | CMDQ_LOG2);
    smmu_writel(s, SMMU_CMDQ_CONS, 0);
    smmu_writel(s, SMMU_CMDQ_PROD, 0);
    smmu_writeq(s, SMMU_EVTQ_BASE, EVTQ_ADDR | EVTQ_LOG2);
    smmu_writel(s, SMMU_EVTQ_PROD, 0);
    smmu_writel(s, SMMU_EVTQ_CONS, 0);
    smmu_writel(s, SMMU_CR0, cr0);
    g_assert_cmphex(smmu_readl(s, SMMU_CR0ACK), ==, cr0);
}

#define SMMU_ALL (SMMU_CR0_SMMUEN | SMMU_CR0_EVENTQEN | SMMU_CR0_CMDQEN)

/* Put a command at the producer's index, and show it to the SMMU */
static inline void smmu_issue(QTestState *s, uint64_t lo, uint64_t hi)
{
    uint32_t prod = smmu_readl(s, SMMU_CMDQ_PROD);
    uint64_t addr = CMDQ_ADDR + (prod & ((1 << CMDQ_LOG2) - 1)) * 16;

    qtest_writeq(s, addr, lo);
    qtest_writeq(s, addr + 8, hi);
    smmu_writel(s, SMMU_CMDQ_PROD,
                (prod + 1) & ((1 << (CMDQ_LOG2 + 1)) - 1));
}

/* Issue a command and return its CERROR; an error is undone and acknowledged */
static inline uint32_t smmu_try(QTestState *s, uint64_t lo, uint64_t hi)
{
    uint32_t gerror = smmu_readl(s, SMMU_GERROR);
    uint32_t prod = smmu_readl(s, SMMU_CMDQ_PROD), cons, err;

    smmu_issue(s, lo, hi);
    cons = smmu_readl(s, SMMU_CMDQ_CONS);
    err = extract32(cons, 24, 7);
    if (!((gerror ^ smmu_readl(s, SMMU_GERROR)) & SMMU_GERROR_CMDQ)) {
        g_assert_cmphex(cons & 0xfffff, ==, smmu_readl(s, SMMU_CMDQ_PROD));
        return CERROR_NONE;
    }
    /* 7.1: CONS stays at the command */
    g_assert_cmphex(cons & 0xfffff, ==, prod);
    g_assert_cmpuint(err, !=, CERROR_NONE);
    /* A CMD_SYNC in its place, and go on */
    qtest_writeq(s, CMDQ_ADDR + (prod & ((1 << CMDQ_LOG2) - 1)) * 16, 0x46);
    smmu_writel(s, SMMU_GERRORN, smmu_readl(s, SMMU_GERROR));
    g_assert_cmphex(smmu_readl(s, SMMU_CMDQ_CONS) & 0xfffff, ==,
                    smmu_readl(s, SMMU_CMDQ_PROD));
    return err;
}

#endif
