# SPDX-License-Identifier: GPL-2.0-or-later
"""Real guests on the machine smmuv3."""

import cases


class Boot(cases.Boot, cases.GuestTest):
    name = "smmuv3"


class Run(cases.Run, cases.GuestTest):
    name = "smmuv3"


class Clocks(cases.Clocks, cases.GuestTest):
    name = "smmuv3"


class Costs(cases.Costs, cases.GuestTest):
    name = "smmuv3"


class Failure(cases.Failure, cases.GuestTest):
    name = "smmuv3"


class Algorithms(cases.Algorithms, cases.GuestTest):
    name = "smmuv3"


class EachMode(cases.EachMode, cases.GuestTest):
    name = "smmuv3"

    def test_cmdq(self):
        self.knob("cmdq")
