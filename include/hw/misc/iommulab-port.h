/*
 * iommulab port: markers, names and output of a measured guest
 *
 * Registers of docs/specs/iommulab-port.rst.  All are little endian.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_IOMMULAB_PORT_H
#define HW_MISC_IOMMULAB_PORT_H

#define TYPE_IOMMULAB_PORT "iommulab-port"

/* The vendor is PCI_VENDOR_ID_QEMU (0x1234) */
#define IOMMULAB_PORT_DEVICE_ID     0x4c41

/* Size of BAR 0, in bytes */
#define IOMMULAB_PORT_BAR_SIZE      4096

/* RO, 32 bits: "LABP" */
#define IOMMULAB_PORT_ID            0x000
#define IOMMULAB_PORT_ID_VALUE      0x5042414c

/* RO, 32 bits: version of this register page */
#define IOMMULAB_PORT_VERSION       0x004
#define IOMMULAB_PORT_VERSION_VALUE 1

/* RO, 32 bits: what is behind the registers */
#define IOMMULAB_PORT_FEATURES      0x008
#define IOMMULAB_PORT_FEATURE_CONSOLE   (1u << 0)
#define IOMMULAB_PORT_FEATURE_RESULT    (1u << 1)
#define IOMMULAB_PORT_FEATURE_VTIME     (1u << 2)

/* RO, 32 bits: outcome of the last command or output */
#define IOMMULAB_PORT_STATUS        0x00c
#define IOMMULAB_PORT_OK                0
#define IOMMULAB_PORT_BAD_COMMAND       1
#define IOMMULAB_PORT_BAD_STATE         2
#define IOMMULAB_PORT_NO_SPACE          3
#define IOMMULAB_PORT_BAD_NAME          4
#define IOMMULAB_PORT_OUTPUT_FULL       5

/* WO, 8 to 64 bits: bytes for a channel, lowest first */
#define IOMMULAB_PORT_CONSOLE       0x010
#define IOMMULAB_PORT_RESULT        0x018

/* WO, 32 bits: region identifier, 0 to IOMMULAB_PORT_REGION_MAX */
#define IOMMULAB_PORT_REGION_BEGIN  0x020
#define IOMMULAB_PORT_REGION_END    0x024
#define IOMMULAB_PORT_REGION_MAX        0xffff

/* RO, 64 bits: QEMU_CLOCK_VIRTUAL, in nanoseconds */
#define IOMMULAB_PORT_TIME          0x028

/* RW, 64 bits: first byte that is named */
#define IOMMULAB_PORT_NAME_ADDR     0x030

/* RW, 32 bits: how many bytes are named, from 1 */
#define IOMMULAB_PORT_NAME_LEN      0x038

/* RW, 32 bits: what NAME_ADDR is; physical unless it says otherwise */
#define IOMMULAB_PORT_NAME_FLAGS    0x03c
#define IOMMULAB_PORT_NAME_VIRTUAL      (1u << 0)

/* RW, bytes: the name, [A-Za-z0-9_.:-], up to the first NUL */
#define IOMMULAB_PORT_NAME          0x040
#define IOMMULAB_PORT_NAME_SIZE         64

/* WO, 32 bits: what to do with the name in the registers above */
#define IOMMULAB_PORT_NAME_CMD      0x080
#define IOMMULAB_PORT_NAME_ADD          1
#define IOMMULAB_PORT_NAME_REMOVE       2
#define IOMMULAB_PORT_NAME_CLEAR        3
#define IOMMULAB_PORT_NAMES_MAX         4096

/* WO, 32 bits: exit status for QEMU, 0 to IOMMULAB_PORT_EXIT_MAX */
#define IOMMULAB_PORT_EXIT          0x088
#define IOMMULAB_PORT_EXIT_MAX          255

/* WO, 32 bits: the guest is up, and reads its job next; must be 0 */
#define IOMMULAB_PORT_READY         0x08c

/* RO, bytes: what the host wants done, filled up with NULs */
#define IOMMULAB_PORT_JOB           0x800
#define IOMMULAB_PORT_JOB_SIZE          0x800

#endif /* HW_MISC_IOMMULAB_PORT_H */
