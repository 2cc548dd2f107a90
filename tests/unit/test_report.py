# SPDX-License-Identifier: GPL-2.0-or-later
"""The report's page and its charts."""

import dataclasses
import re
import unittest
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

from iommulab import page, report, svg, trace

VOID = {"meta", "br"}


class Balanced(HTMLParser):
    """Whether all tags are closed, in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.wrong, self.seen = [], [], set()
        self.feed(text)
        self.wrong += self.open

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.add(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def vcpu(cpu):
    parts = {"exec_ps": 600, "pause_ps": 0, "mmio_ps": 0,
             "line_wait_ps": 300, "line_transfer_ps": 100, "atomic_ps": 0,
             "wfe_ps": 0, "poll_ps": 0, "idle_ps": 0, "jitter_ps": 0}
    return {"cpu": cpu, "insns": 1, "slices": 1, "parks": 0,
            "total_ps": 1000, **parts}


def cell(cpus, cmdq="cas", rate=1000.0):
    hist = {"count": 1, "sum_ns": 1, "max_ns": 1, "hist": [[1, 1]]}
    lat = {"mean": 1.0, "p50": 1, "p99": 1, "max": 1}
    return {"machine": "smmuv3", "cpus": cpus, "mode": "strict",
            "workload": "mapunmap", "algorithms": {"cmdq": cmdq},
            "knobs": {"depth": 50, "threads": cpus}, "clock": "vtime",
            "ops_per_cpu_per_s": rate,
            "latency_ns": {"map": lat, "unmap": lat},
            "samples": [{"device": "d", "domain": "DMA",
                         "threads": [{"cpu": 0, "ops": 1, "ns": 1}],
                         "map": hist, "unmap": hist,
                         "vcpus": [vcpu(n) for n in range(cpus)]}],
            "provenance": {
                "cell": f"{cmdq}{cpus:060}", "sources": {}, "artefacts": {},
                "config": {}, "binaries": {}, "qemu_argv": ["<qemu>"],
                "kernel_cmdline": "a=<b> & c", "host": {},
                "findings": ["WARNING: <x>"] if cpus == 8 else [],
                "modelled": "m", "measured": "n", "calibrated": "o"}}


def study(cells):
    points = [{"options": report._options(c),
               "cell": c["provenance"]["cell"]} for c in cells]
    return report.Study("n", "t <&>", "", cells, points, None,
                        Path("/nonexistent"))


class Html(unittest.TestCase):
    def setUp(self):
        self.text = report.html([study(
            [cell(n, a, 1000.0 / n) for a in ("cas", "add")
             for n in (2, 8, 64)])])

    def test_sound(self):
        found = Balanced(self.text)
        self.assertEqual(found.wrong, [])
        for tag in ("svg", "table", "details"):
            self.assertIn(tag, found.seen)

    def test_nothing_is_fetched_and_nothing_runs(self):
        self.assertNotIn("script", Balanced(self.text).seen)
        self.assertNotRegex(self.text, r"(?i)https?:|//|@import|url\(|<link|"
                                       r"\b(src|href)\s*=|\bon[a-z]+\s*=")
        self.assertIn("default-src 'none'", self.text)

    def test_text_is_escaped(self):
        self.assertIn("a=&lt;b&gt; &amp; c", self.text)
        self.assertIn("WARNING: &lt;x&gt;", self.text)
        self.assertNotIn("<x>", self.text)

    def test_the_same_input_the_same_bytes(self):
        again = report.html([study(
            [cell(n, a, 1000.0 / n) for a in ("cas", "add")
             for n in (2, 8, 64)])])
        self.assertEqual(again, self.text)

    def test_parts(self):
        for words in ("Where the CPU", "waits for a line", "Provenance",
                      "modelled", "64 CPUs cmdq=add: waits for a line "
                                  "30.0 %"):
            self.assertIn(words, self.text)

    def test_bars_for_one_number_of_cpus(self):
        text = report.html([study([cell(4), cell(4, "add", 2000.0)])])
        self.assertNotIn("<polyline", text)
        self.assertIn("cmdq=add: 2K", text)

    def test_one_cell(self):
        self.assertEqual(Balanced(report.html([study([cell(1)])])).wrong, [])

    def test_nothing_but_failures(self):
        empty = dataclasses.replace(study([]), failed=(
            {"label": "a <cell>", "message": "it broke\nlog"},))
        text = report.html([empty])
        self.assertEqual(Balanced(text).wrong, [])
        self.assertIn("Failed: a &lt;cell&gt;: it broke<", text)

    def test_many_cells_stay_small(self):
        cells = [cell(n, a) for n in range(1, 97, 4) for a in
                 ("cas", "add", "cas20", "casspin", "spin53")]
        self.assertLess(len(report.html([study(cells)])), 500_000)


class Svg(unittest.TestCase):
    def sound(self, text):
        ElementTree.fromstring(text)
        self.assertNotRegex(text, "nan|inf|e-|e\\+")
        for x in re.findall(r'\bx="([-0-9.]+)"', text):
            self.assertTrue(0 <= float(x) <= 720)

    def test_lines(self):
        for points in ([(2, 10.0), (4, 5.0)], [(1, 1e6), (96, 3.0)],
                       [(2, 10.0)], [(1, 5.0), (2, 5.0)]):
            self.sound(svg.lines("<t>", [("<a>", points, {2: 7.0})], "u"))
        self.assertEqual(svg.lines("t", [("a", [], {})], "u"), "")

    def test_ticks(self):
        self.assertEqual(svg.ticks(0, 100, False), [0, 20, 40, 60, 80, 100])
        self.assertEqual(svg.ticks(3, 300, True), [5, 10, 20, 50, 100, 200])
        for low, high in ((0, 1), (0, 453e3), (0, 0.3), (0, 7)):
            self.assertIn(len(svg.ticks(low, high, False)), range(3, 8))

    def test_bars_and_stacks(self):
        self.sound(svg.bars("t", [("a", 5, "5", 10), ("b", 0, "0", None)]))
        self.sound(svg.stack("t", [("a", {"x": 0.5, "y": 0.5})], "xy"))

    def test_lanes(self):
        self.sound(svg.lanes("t", 100, 200, [(100, 2), (150, 0)], [
            (0, [(90, 120, "c1", "tip"), (190, 250, "c1", "")], [130]),
            (1, [], [])]))


class Lanes(unittest.TestCase):
    def test_merge(self):
        self.assertEqual(
            report._merge([(0, 5, "a", "x"), (5, 9, "a", "y"),
                           (9, 12, "b", ""), (20, 30, "b", "")], 2),
            [(0, 9, "a", "x"), (9, 12, "b", ""), (20, 30, "b", "")])


    def test_however_much_happened_it_stays_small(self):
        waits = [trace.Wait(cpu, t, t + 900, t % 2, "0x40")
                 for cpu in range(96) for t in range(0, 10**7, 10**4)]
        found = trace.Trace(10**7, waits, doorbells=[
            (t, cpu, 0, 1) for cpu in range(96)
            for t in range(0, 10**7, 10**4)])
        rows = report._rows(found, 0, 10**7, "vtd", str)
        self.assertEqual(len(rows), 96)
        self.assertTrue(all(spans and marks for _, spans, marks in rows))
        self.assertLess(len(svg.lanes("t", 0, 10**7, [], rows)), 700_000)

    def test_the_window(self):
        command = trace.Command(0, 0, 5 * 10**7, 6 * 10**7, 9 * 10**7, 8)
        found = trace.Trace(10**9, commands=[command])
        start, end = report._interval(found, None)
        self.assertTrue(start < command.submit < command.end < end)
        self.assertEqual(report._interval(found, (7, 10)), (7, 17))
        self.assertEqual(report._interval(found, (10**9 - 5, 50)),
                         (10**9 - 5, 10**9))
        self.assertEqual(report._interval(trace.Trace(5), None), (0, 5))

    def test_occupancy_begins_at_the_window(self):
        found = trace.Trace(100)
        found.occupancy[0] += [(10, 3), (20, 1), (60, 0)]
        self.assertEqual(report._occupancy(found, 15, 50),
                         [(15, 3), (20, 1)])
        self.assertEqual(report._occupancy(found, 5, 15), [(5, 0), (10, 3)])


class Document(unittest.TestCase):
    def test_policy(self):
        self.assertEqual(Balanced(page.document("<t>", "")).wrong, [])


if __name__ == "__main__":
    unittest.main()
