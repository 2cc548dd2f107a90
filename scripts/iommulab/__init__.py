# SPDX-License-Identifier: GPL-2.0-or-later
"""iommulab: DMA-mapping contention, measured in emulated machines."""
