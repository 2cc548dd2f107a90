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

    def test_stale_translations_of_the_device(self):
        """By ATS: the device's own TLB has to be invalidated, too."""
        for seen in self.stale(
                "--qemu-opt=-global iommulab-dma.ats=on "
                "-global intel-iommu.device-iotlb=on"):
            # Every second nine rounds of 90 on each of 4 queues.
            if seen["rounds"] == 90:
                self.assertEqual(seen["ats"], 4 * 45)
                self.assertGreater(seen["atc_hits"], 4 * 45)


class EachMode(cases.EachMode, cases.GuestTest):
    name = "vtd"

    def test_vtd_map(self):
        self.knob("vtd_map")

    def test_vtd_flush(self):
        self.knob("vtd_flush")
