/*
 * iommulab DMA device: timed reads and writes through an IOMMU
 *
 * Registers of docs/specs/iommulab-dma.rst.  All are little endian.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_IOMMULAB_DMA_H
#define HW_MISC_IOMMULAB_DMA_H

#define TYPE_IOMMULAB_DMA "iommulab-dma"

/* The vendor is PCI_VENDOR_ID_QEMU (0x1234) */
#define IOMMULAB_DMA_DEVICE_ID      0x4c44

/* Size of BAR 0, in bytes; BAR 1 has the MSI-X table, a vector for a queue */
#define IOMMULAB_DMA_BAR_SIZE       0x4000

#define IOMMULAB_DMA_QUEUES_MAX     64

/* RO, 32 bits: "LABD" */
#define IOMMULAB_DMA_ID             0x000
#define IOMMULAB_DMA_ID_VALUE       0x4442414c

/* RO, 32 bits: version of these registers */
#define IOMMULAB_DMA_VERSION        0x004
#define IOMMULAB_DMA_VERSION_VALUE  1

/* RO, 32 bits: number of queues */
#define IOMMULAB_DMA_QUEUES         0x008

/* RO, 32 bits */
#define IOMMULAB_DMA_FEATURES       0x00c
#define IOMMULAB_DMA_FEATURE_ATS        (1u << 0)

/* WO, 32 bits: commands for the whole device */
#define IOMMULAB_DMA_CTRL           0x010
#define IOMMULAB_DMA_CTRL_RESET         (1u << 0)

/* RO, 32 bits: entries the device's own TLB lost to invalidations */
#define IOMMULAB_DMA_ATC_INVALS     0x014

/* Registers of queue @n, offsets below are relative to this */
#define IOMMULAB_DMA_QUEUE(n)       (0x1000 + (n) * 0x80)

/* RW, 64 bits: address of the first transfer, a multiple of 8 */
#define IOMMULAB_DMA_ADDR           0x00

/* RW, 64 bits: bytes from one transfer to the next; a multiple of 8 */
#define IOMMULAB_DMA_STRIDE         0x08

/* RW, 32 bits: bytes of a transfer, 8 to 4096, a multiple of 8 */
#define IOMMULAB_DMA_SIZE           0x10
#define IOMMULAB_DMA_SIZE_MAX           4096

/* RW, 32 bits: transfers of a burst, from 1 */
#define IOMMULAB_DMA_COUNT          0x14

/* RW, 64 bits: ns from the end of a transfer to the next; 0 is taken as 1 */
#define IOMMULAB_DMA_INTERVAL       0x18
#define IOMMULAB_DMA_INTERVAL_MAX       1000000000

/* RW, 64 bits: 64-bit word n of each transfer has or should have PATTERN + n */
#define IOMMULAB_DMA_PATTERN        0x20

/* WO, 32 bits: one operation and its flags */
#define IOMMULAB_DMA_CMD            0x28
#define IOMMULAB_DMA_CMD_OP             0x3u
#define IOMMULAB_DMA_CMD_READ           0x1u
#define IOMMULAB_DMA_CMD_WRITE          0x2u
#define IOMMULAB_DMA_CMD_STOP           0x3u
#define IOMMULAB_DMA_CMD_FAULT_STOP     (1u << 8)   /* end at a fault */
#define IOMMULAB_DMA_CMD_DIFF_STOP      (1u << 9)   /* end at a difference */
#define IOMMULAB_DMA_CMD_IRQ            (1u << 10)  /* MSI-X at the end */
#define IOMMULAB_DMA_CMD_ATS            (1u << 11)  /* translate by ATS */

/* RO, 32 bits */
#define IOMMULAB_DMA_STATUS         0x2c
#define IOMMULAB_DMA_IDLE               0   /* nothing since reset */
#define IOMMULAB_DMA_BUSY               1
#define IOMMULAB_DMA_DONE               2   /* all transfers were tried */
#define IOMMULAB_DMA_STOPPED            3   /* before that */
#define IOMMULAB_DMA_BAD_COMMAND        4   /* refused, nothing was done */

/* RO, 32 bits: of this burst: transfers tried, failed, and reads that differ */
#define IOMMULAB_DMA_DONE_COUNT     0x30
#define IOMMULAB_DMA_FAULTS         0x34
#define IOMMULAB_DMA_DIFFS          0x38

/* RO, 32 bits: translations that the device's own TLB had */
#define IOMMULAB_DMA_ATC_HITS       0x3c

/* RO, 64 bits: ns from the start to the first fault and difference; ~0: none */
#define IOMMULAB_DMA_FAULT_TIME     0x40
#define IOMMULAB_DMA_DIFF_TIME      0x48

/* RO, 64 bits: the first word of the last read that succeeded */
#define IOMMULAB_DMA_DATA           0x50

/* RO, 64 bits: ns from the start to the end; to now while busy */
#define IOMMULAB_DMA_TIME           0x58

/* RO, 64 bits: ns of it that translations took */
#define IOMMULAB_DMA_XLAT_TIME      0x60

#endif
