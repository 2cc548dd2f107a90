# SPDX-License-Identifier: GPL-2.0-or-later
"""Virtual time on the machine smmuv3."""

from cases import Deterministic, LabTest


class Determinism(Deterministic, LabTest):
    name = "smmuv3"
