# SPDX-License-Identifier: GPL-2.0-or-later
"""Real guests on the machine vtd."""

import cases


class Boot(cases.Boot, cases.GuestTest):
    name = "vtd"


class Run(cases.Run, cases.GuestTest):
    name = "vtd"


class Clocks(cases.Clocks, cases.GuestTest):
    name = "vtd"


class Costs(cases.Costs, cases.GuestTest):
    name = "vtd"


class Failure(cases.Failure, cases.GuestTest):
    name = "vtd"


class Algorithms(cases.Algorithms, cases.GuestTest):
    name = "vtd"


class EachMode(cases.EachMode, cases.GuestTest):
    name = "vtd"

    def test_vtd_map(self):
        self.knob("vtd_map")

    def test_vtd_flush(self):
        self.knob("vtd_flush")
