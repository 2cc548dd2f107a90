# SPDX-License-Identifier: GPL-2.0-or-later
"""run --trace on real guests, and what report makes of it."""

import html
import json

from cases import GuestTest

from iommulab import trace


class Trace:
    def test_trace(self):
        """It changes no result, and has each command and each wait."""
        options = ("--cpus", "2", "--mode", "strict", "--duration", "1ms",
                   "--knob", "warmup=1", "--watch", "auto", "--iommu-cost",
                   "profile")
        [plain] = self.measure(*options)
        [traced] = self.measure(*options, "--trace")
        self.assertEqual(traced["samples"], plain["samples"])
        [folder] = [path.parent for path in self.output.glob("*/trace.log")]

        found = trace.read(folder)
        lines = [json.loads(line) for line in
                 (folder / "result.jsonl").read_text().splitlines() if line]
        [queue] = [l for l in lines if l["iommulab"] == "queue"]
        self.assertGreater(len(found.commands), 100)
        self.assertEqual(len(found.commands),
                         sum(c["commands"] for c in queue["classes"]))
        self.assertEqual({trace.kind(self.name, c.kind)
                          for c in found.commands},
                         {c["name"] for c in queue["classes"]
                          if c["commands"]})
        self.assertEqual(len(found.doorbells), queue["batch"]["count"])
        # Parked is parked, whoever counts.
        vcpus = [l for l in lines if l["iommulab"] == "vtime"]
        for cpu in vcpus:
            waited = sum(w.end - w.start for w in found.waits
                         if w.cpu == cpu["cpu"])
            self.assertAlmostEqual(
                waited / 1e6, (cpu["wfe_ps"] + cpu["poll_ps"]) / 1e6,
                delta=0.05 * found.length / 1e6)

        page, path = self.folder / "page.html", self.folder / "trace.json"
        self.expect(0, "report", str(folder), "--html", str(page),
                    "--perfetto", str(path))
        for part in ("Queue and CPUs over time", "The IOMMU's queue",
                     "Who waited for which line"):
            self.assertIn(html.escape(part), page.read_text())
        names = {e["name"] for e in self.load(path)["traceEvents"]}
        self.assertLessEqual({c["name"] for c in queue["classes"]
                              if c["commands"]}, names)


class Smmuv3(Trace, GuestTest):
    name = "smmuv3"


class Vtd(Trace, GuestTest):
    name = "vtd"
