# SPDX-License-Identifier: GPL-2.0-or-later
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from guestlaws import HERE, Laws
from lab import LabTest


class Arm(Laws, LabTest):
    name = "smmuv3"
    kinds = ("pingpong", "faa", "cas", "llsc", "ticket", "mcs", "qspinlock",
             "rwlock")

    def test_load_and_store_exclusive(self):
        self.compare("llsc", 0.10)


class ArmAnyOrder(Laws, LabTest):
    """Who waits for a line is served in any order."""
    name = "smmuv3"
    profile = HERE / "any-order.ini"
    kinds = ("pingpong", "faa", "cas", "ticket")

    def test_load_and_store_exclusive(self):
        self.skipTest("a known miss: 11.7 % below the reference at 4 CPUs "
                      "(docs/specs/coherence.rst)")
