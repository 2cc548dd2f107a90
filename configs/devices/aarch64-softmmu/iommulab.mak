# SPDX-License-Identifier: GPL-2.0-or-later
#
# The machine smmuv3 and what can be put behind its IOMMU; used with
# --without-default-devices, so that QEMU builds in half the time.

# Board
CONFIG_ARM_VIRT=y

# Bridges, for IOMMU groups of different shapes
CONFIG_PCI_BRIDGE=y
CONFIG_PCIE_PORT=y
CONFIG_PCIE_PCI_BRIDGE=y
CONFIG_IOH3420=y
CONFIG_XIO3130=y

# Devices that do DMA
CONFIG_NVME_PCI=y
CONFIG_IGB_PCI_EXPRESS=y
CONFIG_E1000E_PCI_EXPRESS=y
CONFIG_VMXNET3_PCI=y
CONFIG_VIRTIO_PCI=y
CONFIG_VIRTIO_NET=y
CONFIG_VIRTIO_BLK=y
CONFIG_EDU=y

# Tests
CONFIG_IOMMULAB_PORT=y
CONFIG_PCI_TESTDEV=y
