# SPDX-License-Identifier: GPL-2.0-or-later
"""Reading the log of a traced cell, and writing it for Perfetto."""

import re
import unittest

from lab import ROOT

from iommulab import trace

LOG = """\
vtime_park cpu 0 at 50 ps cause 0 line 0x40
vtime_region begin 1 at 1000000 ps
vtime_park cpu 1 at 2000000 ps cause 1 line 0x8e5300
iommu_queue_doorbell queue 0 at 2100000 cpu 0 tail 0x2 commands 2 occupancy 2 full 0
iommu_queue_done queue 0 at 2500000 cpu 0 pos 0x0 class 4 submitted 2100000 started 2200000
iommu_queue_poll queue 0 at 2600000 cpu 0 register 0x9c
vtime_unpark cpu 1 at 2700000 ps after 700000 ps
iommu_queue_done queue 0 at 3000000 cpu 0 pos 0x1 class 8 submitted 2100000 started 2300000
some other line
iommu_queue_fault queue 0 at 3100000 pos 0x2 error 1
vtime_region begin 0 at 5000000 ps
vtime_park cpu 0 at 6000000 ps cause 0 line 0x40
"""


class Parse(unittest.TestCase):
    def setUp(self):
        self.trace = trace.parse(LOG.splitlines())

    def test_times_are_since_the_begin(self):
        found = self.trace
        self.assertEqual(found.length, 4000000)
        self.assertEqual(found.waits, [
            trace.Wait(1, 1000000, 1700000, 1, "0x8e5300")])
        self.assertEqual(found.commands[0],
                         trace.Command(0, 0, 1100000, 1200000, 1500000, 4))
        self.assertEqual(found.occupancy[0], [(1100000, 2), (1500000, 1),
                                              (2000000, 0)])
        self.assertEqual(found.doorbells, [(1100000, 0, 0, 2)])
        self.assertEqual(found.polls, [(1600000, 0, 0)])
        self.assertEqual(found.troubles, [(2100000, "fault", 0)])
        self.assertEqual(found.cpus, [0, 1])
        self.assertEqual(found.worst.kind, 8)

    def test_the_last_region_counts(self):
        again = trace.parse((LOG + "vtime_region begin 1 at 7000000 ps\n"
                             "vtime_region begin 0 at 7000500 ps\n")
                            .splitlines())
        self.assertEqual((again.length, again.waits), (500, []))

    def test_bad_logs(self):
        for text, says in (("", "no region"), ("vtime_region begin 1 at 5 ps",
                                               "ends within a region")):
            with self.assertRaisesRegex(ValueError, says):
                trace.parse(text.splitlines())

    def test_names_of_classes(self):
        """The tables here are QEMU's."""
        for machine, path in (("smmuv3", "hw/arm/smmuv3-queue.c"),
                              ("vtd", "hw/i386/intel_iommu-queue.c")):
            text = (ROOT / path).read_text()
            enum = re.findall(r"^    (CLASS_\w+)", text.split(
                "class_names[]")[0], re.M)
            names = dict(re.findall(r'\[(CLASS_\w+)\] = "(.*)"', text))
            self.assertEqual([names[e] for e in dict.fromkeys(enum)],
                             list(trace.CLASSES[machine]))
        self.assertEqual(trace.kind("vtd", 99), "class 99")


class Perfetto(unittest.TestCase):
    def setUp(self):
        self.events = trace.perfetto(
            trace.parse(LOG.splitlines()), "smmuv3", "cell",
            {"0x8e5300": "cmdq.llq"}.get)["traceEvents"]

    def test_events(self):
        waits = [e for e in self.events if e["name"].startswith("waits")]
        self.assertEqual([(e["ts"], e["dur"], e["args"]["line"])
                          for e in waits], [(1.0, 0.7, "cmdq.llq")])
        self.assertEqual([e["args"]["commands"] for e in self.events
                          if e["ph"] == "C"], [2, 1, 0])
        self.assertEqual({e["name"] for e in self.events
                          if e["ph"] == "X" and e["pid"] == trace.QUEUES},
                         {"tlbi-page", "sync"})
        self.assertEqual({e["ph"] for e in self.events},
                         {"M", "X", "i", "C"})

    def test_slices_of_a_track_do_not_overlap(self):
        commands = [trace.Command(0, 0, 0, start, end, 4)
                    for start, end in ((0, 50), (10, 20), (15, 60), (20, 30),
                                       (50, 55))]
        events = trace.perfetto(trace.Trace(100, commands=commands),
                                "smmuv3", "x")["traceEvents"]
        tracks = {}
        for e in events:
            if e["ph"] == "X":
                tracks.setdefault(e["tid"], []).append(
                    (e["ts"], e["ts"] + e["dur"]))
        self.assertEqual(len(tracks), 3)
        for spans in tracks.values():
            spans.sort()
            for (_, end), (start, _) in zip(spans, spans[1:]):
                self.assertLessEqual(end, start + 1e-9)

    def test_in_order(self):
        times = [e["ts"] for e in self.events if e["ph"] != "M"]
        self.assertEqual(times, sorted(times))


if __name__ == "__main__":
    unittest.main()
