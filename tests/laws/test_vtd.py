# SPDX-License-Identifier: GPL-2.0-or-later
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from guestlaws import Laws
from lab import LabTest


class X86(Laws, LabTest):
    name = "vtd"
    kinds = ("pingpong", "faa", "cas", "ticket", "mcs", "qspinlock",
             "rwlock")
