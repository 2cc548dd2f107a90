# SPDX-License-Identifier: GPL-2.0-or-later
"""Virtual time on the machine vtd."""

from cases import Deterministic, LabTest


class Determinism(Deterministic, LabTest):
    name = "vtd"
