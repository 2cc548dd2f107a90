# SPDX-License-Identifier: GPL-2.0-or-later
"""iommulab report: the page, the table of figures, the trace."""

import json
import unittest

import browser
from lab import FAKE, LabTest
from test_sweep import EXPERIMENT

LOG = """\
vtime_region begin 1 at 1000000 ps
iommu_queue_doorbell queue 0 at 2000000 cpu 0 tail 0x2 commands 2 occupancy 2 full 0
vtime_park cpu 1 at 2000000 ps cause 1 line 0x8e5300
vtime_unpark cpu 1 at 2700000 ps after 700000 ps
iommu_queue_done queue 0 at 2500000 cpu 0 pos 0x0 class 4 submitted 2000000 started 2200000
iommu_queue_done queue 0 at 2600000 cpu 0 pos 0x1 class 8 submitted 2000000 started 2300000
vtime_region begin 0 at 90000000 ps
"""


class ReportTest(LabTest):
    """Cells of a stand-in that knows vtime, and one with a trace."""

    def setUp(self):
        super().setUp()
        self.qemu = self.folder / "vtime-qemu"
        self.qemu.write_text("#!/bin/sh\n# iommulab-port vtime-quantum\n"
                             f"exec {FAKE} \"$@\"\n")
        self.qemu.chmod(0o755)
        self.file = self.folder / "test.toml"
        self.file.write_text(EXPERIMENT)
        self.page = self.folder / "page.html"

    def sweep(self, *args):
        fake = self.fake()
        self.expect(0, "sweep", str(self.file), *fake, "--qemu",
                    str(self.qemu), "--no-snapshot", *args)

    def short(self):
        """The short form, under the name of the whole."""
        self.sweep("--short")
        (self.output / "test-short.json").rename(self.output / "test.json")

    def report(self, code, *args):
        return self.expect(code, "report", "--output", str(self.output),
                           *map(str, args))

    def trace(self, mode="strict", cpus=4):
        [folder] = self.output.glob(f"vtd-{cpus}-{mode}-*")
        (folder / "trace.log").write_text(LOG)
        return folder


class Report(ReportTest):
    def test_page_of_a_sweep(self):
        self.sweep()
        self.trace()
        done = self.report(0, self.output / "test.json", "--html", self.page)
        self.assertIn("test: Median error 25 % of 4 figures", done.stdout)
        self.assertIn(f"Report: {self.page} (0.0 MB)", done.stdout)
        text = self.page.read_text()
        for words in ("A test", "Median error", "published", "<polyline",
                      "parked, polling", "Queue and CPUs over time",
                      "longest wait for a command was 0.60 us, of CPU 0",
                      "device-tlb", "Provenance", "not calibrated"):
            self.assertIn(words, text)

    def test_a_window(self):
        self.short()
        self.trace(cpus=1)
        self.report(0, self.output / "test.json", "--html", self.page,
                    "--window", "0.5:4")
        self.assertIn("4.0 of 89 us", self.page.read_text())
        done = self.report(2, self.output / "test.json", "--window", "5")
        self.assertIn("'5' is not START:LENGTH", done.stderr)

    def test_page_of_a_result_file(self):
        path = self.folder / "out.json"
        self.expect(0, "run", "--machine", "vtd", "--cpus", "1",
                    *self.fake(), "--json", str(path))
        self.report(0, path, "--html", self.page)
        self.assertIn("strict runs at 25 % of lazy", self.page.read_text())

    def test_folder_of_a_cell(self):
        self.short()
        [folder] = self.output.glob("vtd-1-lazy-*")
        self.report(0, folder, "--html", self.page)
        self.assertIn(folder.name, self.page.read_text())

    def test_failed_cells_are_told(self):
        self.expect(5, "sweep", str(self.file), "--short",
                    *self.fake("panic-lazy"))
        self.report(0, self.output / "test-short.json", "--html", self.page)
        self.assertIn("Failed: vtd 1 CPU lazy: the guest panicked",
                      self.page.read_text())

    def test_perfetto(self):
        self.short()
        path = self.folder / "trace.json"
        done = self.report(2, self.output / "test.json", "--perfetto", path)
        self.assertIn("no cell was traced", done.stderr)
        folder = self.trace(cpus=1)
        done = self.report(0, self.output / "test.json", "--perfetto", path)
        self.assertIn("ui.perfetto.dev", done.stdout)
        events = self.load(path)["traceEvents"]
        names = {e["name"] for e in events}
        # Classes 4 and 8 of vtd.
        self.assertLessEqual({"device-tlb", "invalid", "waits, polling"},
                             names)
        self.assertFalse(self.page.exists())
        self.trace("lazy", 1)
        done = self.report(2, self.output / "test.json", "--perfetto", path)
        self.assertIn("2 cells were traced; give the folder of one",
                      done.stderr)
        self.report(0, folder, "--perfetto", path)

    def test_a_broken_trace(self):
        self.short()
        folder = self.trace(cpus=1)
        (folder / "trace.log").write_text("vtime_region begin 1 at 5 ps\n")
        self.report(0, self.output / "test.json", "--html", self.page)
        self.assertIn("ends within a region", self.page.read_text())
        done = self.report(2, folder, "--perfetto", self.folder / "x")
        self.assertIn("ends within a region", done.stderr)

    def test_bad_input(self):
        self.output.mkdir()
        (self.folder / "x.json").write_text("{}")
        (self.folder / "y.json").write_text("{")
        (self.folder / "z.json").write_text(
            '{"schema": "iommulab/sweep/1", "points": 5}')
        for args, says in (
                ((), "there are no results of an experiment in"),
                (("garry-2020",), "'iommulab sweep garry-2020' does that"),
                (("no-such",), "no-such: No such file"),
                ((self.folder / "x.json",), "neither a result file nor"),
                ((self.folder / "y.json",), "y.json: "),
                ((self.folder / "z.json",), "points: not a list"),
                (("--json", "-"), "--json needs --fidelity"),
                (("--html", "/no/such/page"), "there is no folder /no/such"),
                ((self.folder / "x.json", "--fidelity"), "neither")):
            done = self.report(2, *args)
            self.assertIn(says, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


class Fidelity(ReportTest):
    def test_of_a_sweep(self):
        self.sweep()
        done = self.report(0, self.output / "test.json", "--fidelity")
        self.assertIn("S0 test", done.stdout)
        self.assertRegex(done.stdout, r"S0 test +4 +25 % +1 of 1\n$")
        done = self.report(0, self.output / "test.json", "--fidelity",
                           "--json", "-")
        data = json.loads(done.stdout)
        self.assertEqual(data["schema"], "iommulab/fidelity/1")
        self.assertEqual(data["cells"][3], {
            "work": "S0", "cell": "strict", "published": 0.5,
            "simulated": 0.25, "ratio": 0.5})

    def test_everything_that_was_published(self):
        """Also of experiments that were not run."""
        data = json.loads(self.report(0, "--fidelity", "--json",
                                      "-").stdout)
        works = [c["work"] for c in data["cells"]]
        self.assertGreaterEqual(works.count("S4"), 28)
        self.assertEqual({c["simulated"] for c in data["cells"]}, {None})
        for cell in data["cells"]:
            self.assertEqual(set(cell), {"work", "cell", "published",
                                         "simulated", "ratio"})

    def test_to_a_file(self):
        self.short()
        path = self.folder / "f.json"
        done = self.report(0, self.output / "test.json", "--fidelity",
                           "--json", path)
        self.assertIn("median error", done.stdout)
        self.assertEqual(len(self.load(path)["cells"]), 1)


@unittest.skipUnless(browser.CHROMIUM, "Chromium is not installed")
class InABrowser(ReportTest):
    def test_page(self):
        """It opens from disk, asks for nothing, and fits."""
        self.sweep()
        self.trace()
        self.report(0, self.output / "test.json", "--html", self.page)
        chromium = browser.Browser(self.folder / "profile")
        self.addCleanup(chromium.close)
        for width, dark in ((1280, False), (400, False), (400, True)):
            with self.subTest(width=width, dark=dark):
                page = chromium.open(self.page, width, dark)
                self.assertEqual(page.requests, [])
                self.assertEqual(page.errors, [])
                self.assertLessEqual(page.width, width)
                self.assertGreater(page.painted, 0.01)

    def test_the_checks_can_fail(self):
        self.page.write_text(
            '<!DOCTYPE html><body style="width:900px"><img src="x.png">'
            "<script>throw 5</script>")
        chromium = browser.Browser(self.folder / "profile")
        self.addCleanup(chromium.close)
        page = chromium.open(self.page, 400)
        self.assertTrue(page.requests)
        self.assertTrue(page.errors)
        self.assertGreater(page.width, 400)
        self.assertLess(page.painted, 0.01)


if __name__ == "__main__":
    unittest.main()
