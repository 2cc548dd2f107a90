# SPDX-License-Identifier: GPL-2.0-or-later
"""The modes of the IOMMUs' queues and of swiotlb, on real guests.

What the kernel counts is compared with what the device saw, and with what
the published algorithm does for one map and unmap of 4 KiB. The counts are
printed (run the file with tests/tap.py -v to see them).
"""

import json
import re
from collections import Counter

from cases import GuestTest

CMDQ = ("cas", "spin53", "cas20", "casspin", "add")


class QueueTest(GuestTest):
    def lines(self):
        """The result lines of the one guest that ran."""
        [folder] = self.output.iterdir()
        return {line["iommulab"]: line for line in map(json.loads, (
            folder / "result.jsonl").read_text().splitlines())}

    def run_guest(self, code, *args, append=()):
        for folder in self.output.glob("*") if self.output.exists() else ():
            self.remove(folder)
        # Traces and totals are from the start, so it boots.
        return self.guest(code, "run", "--json", "-", "--no-snapshot", *args,
                          "--append", " ".join(append))

    def refused(self, option, message, *args):
        """The guest does not run with this, and the kernel says why."""
        done = self.run_guest(5, "--cpus", "1", "--mode", "strict",
                              "--duration", "1ms", *args, append=(option,))
        self.assertIn(message, done.stderr)

    def remove(self, folder):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()

    def per_op(self, mode, *args, append=()):
        """{set: {counter: count for one operation}} on one CPU."""
        self.run_guest(0, "--cpus", "1", "--mode", mode, "--duration", "5ms",
                       *args, append=("iommulab.counters=1", *append))
        lines = self.lines()
        ops = sum(t["ops"] for t in lines["bench"]["threads"])
        return {name: {key: value / ops for key, value in counts.items()}
                for name, counts in lines["counters"]["sets"].items()}

    def check(self, what, counts, published):
        """Counts per operation within 2 % of the published ones: a region
        begins and ends in the middle of a batch."""
        for key, expected in published.items():
            print(f"# {what}: {key} {counts[key]:.2f}, published {expected}")
            self.assertAlmostEqual(counts[key], expected,
                                   delta=0.02 * max(expected, 1),
                                   msg=f"{what}: {key}")


class Commands(QueueTest):
    """64 CPUs on a command queue with two entries for each."""
    name = "smmuv3"

    def load(self, code, mode, *append, threads=64, ms=1,
             shift=7):
        trace = self.folder / "trace"
        trace.unlink(missing_ok=True)
        done = self.run_guest(
            code, "--cpus", "64", "--mode", "strict", "--duration",
            f"{ms}ms", "--knob", "warmup=0", "--knob", "depth=4",
            f"--qemu-opt=-trace smmuv3_cmdq_opcode -D {trace}",
            append=(f"iommulab.cmdq={mode}",
                    f"iommulab.cmdq_shift={shift}",
                    "iommulab.counters=1", f"iommulab.bench=threads:{threads}",
                    *append))
        seen = re.findall(r"smmuv3_cmdq_opcode <--- (\S+)", trace.read_text())
        lines = self.lines()
        return (done, [word.removeprefix("SMMU_CMD_") for word in seen],
                lines["totals"]["sets"]["cmdq"], lines)

    def compare(self, seen, totals, illegal=0):
        """The device has consumed what was inserted, each once."""
        kinds = Counter(seen)
        self.assertEqual(kinds["SYNC"], totals["sync"] + illegal)
        self.assertEqual(sum(n for kind, n in kinds.items()
                             if kind.startswith("TLBI")), totals["tlbi"])
        # An illegal command is seen again as the CMD_SYNC in its place.
        self.assertEqual(len(seen),
                         totals["command"] + totals["sync"] + illegal)
        # The queue has wrapped.
        self.assertGreater(len(seen), 3 * 128)

    def order(self, seen, strict):
        """A CMD_SYNC is behind its invalidation."""
        ahead = 0
        for before, word in zip([None, *seen], seen):
            ahead += -1 if word == "SYNC" else 1
            self.assertGreaterEqual(ahead, 0)
            if strict:
                self.assertFalse(word == before == "SYNC")

    def each(self, mode):
        _, seen, totals, _ = self.load(0, mode)
        self.compare(seen, totals)
        self.order(seen, strict=mode != "spin53")
        print(f"# {mode}: " + ", ".join(
            f"{key} {value}" for key, value in totals.items()))

    def test_cas(self):
        self.each("cas")

    def test_spin53(self):
        self.each("spin53")

    def test_cas20(self):
        self.each("cas20")

    def test_casspin(self):
        self.each("casspin")

    def test_add(self):
        self.each("add")

    def illegal(self, mode):
        done, seen, totals, lines = self.load(
            5, mode, "iommulab.side=illegal", threads=62)
        inserted = lines["side"]["done"]
        self.assertGreater(inserted, 0)
        self.compare(seen, totals, inserted)
        [cell] = json.loads(done.stdout)["cells"]
        for text in cell["provenance"]["findings"]:
            self.assertRegex(text, "CMDQ error .*Illegal command")

    def test_illegal_cas(self):
        self.illegal("cas")

    def test_illegal_spin53(self):
        self.illegal("spin53")

    def test_illegal_cas20(self):
        self.illegal("cas20")

    def test_illegal_casspin(self):
        self.illegal("casspin")

    def test_illegal_add(self):
        self.illegal("add")

    def test_switch_under_load(self):
        # A larger queue: a CPU that waits for space in "add" does not stop.
        _, seen, totals, lines = self.load(0, "cas", "iommulab.side=switch",
                                           threads=62, ms=10, shift=9)
        self.assertGreaterEqual(lines["side"]["done"], len(CMDQ))
        self.compare(seen, totals)
        self.order(seen, strict=False)

    def test_no_such_mode(self):
        self.refused("iommulab.cmdq=dance",
                     'cmdq: "dance": no such mode (valid: cas, spin53, '
                     "cas20, casspin, add)")

    def test_queue_too_small_for_add(self):
        self.refused("iommulab.cmdq=add iommulab.cmdq_shift=7",
                     "cmdq: add needs two entries for each CPU, the queue "
                     "has 128 for 65 CPUs", "--cpus", "65")


class CommandCounts(QueueTest):
    """One CPU: no attempt fails, each inserter is the owner."""
    name = "smmuv3"

    def mode(self, mode, **published):
        counts = self.per_op("strict", append=(f"iommulab.cmdq={mode}",))
        self.check(mode, counts["cmdq"], {"tlbi": 1, "sync": 1, **published})

    def test_counts(self):
        alone = {"owner": 1, "owner_wait": 0, "doorbell": 1}
        self.mode("cas", cas=1, lock=0, add=0, store=7, **alone)
        self.mode("cas20", cas=1, lock=0, add=0, store=7, **alone)
        self.mode("casspin", cas=1, lock=0, add=0, store=7, **alone)
        self.mode("add", cas=0, lock=0, add=1, store=7, **alone)
        self.mode("spin53", cas=0, lock=2, add=0, owner=0, doorbell=2)


class VtdCounts(QueueTest):
    name = "vtd"

    def counts(self, vtd_map, vtd_flush, *args):
        return self.per_op("strict", *args, append=(
            f"iommulab.vtd_map={vtd_map}",
            f"iommulab.vtd_flush={vtd_flush}"))["vtd"]

    def test_map(self):
        """A list of 30 single pages, and one buffer of 30 pages."""
        for mode, single, sync, buffer, sync2 in (
                ("pages", 30, 1, 1, 1), ("perpage511", 30, 30, 30, 30),
                ("syncmap512", 30, 1, 30, 1), ("mapsg", 30, 1, 30, 1)):
            published = {"map_call": single, "sync_map": sync,
                         "map_sg": mode == "mapsg", "psi": 1, "wait": 1}
            self.check(f"{mode}, list", self.counts(
                mode, "direct", "--knob", "sg=30"), published)
            published |= {"map_call": buffer, "sync_map": sync2, "map_sg": 0,
                          "unmap_call": buffer}
            self.check(f"{mode}, buffer", self.counts(
                mode, "direct", "--knob", "size=122880"), published)

    def test_flush(self):
        """Strict: one invalidation and one wait; with tags under a lock."""
        for mode, lock in (("tags", 1), ("direct", 0)):
            self.check(mode, self.counts("pages", mode),
                       {"psi": 1, "dsi": 0, "global": 0, "wait": 1,
                        "taglock": lock})

    def test_no_such_mode(self):
        self.refused("iommulab.vtd_map=dance",
                     'vtd_map: "dance": no such mode (valid: pages, '
                     "perpage511, syncmap512, mapsg)")


class Bounce:
    """swiotlb on 4 CPUs, all buffers bounced."""

    def bounce(self, mode, *args):
        self.run_guest(0, "--cpus", "4", "--mode", "passthrough",
                       "--duration", "2ms", "--knob", "depth=8", *args,
                       append=("swiotlb=force", f"iommulab.swiotlb={mode}",
                               "iommulab.counters=1"))
        lines = self.lines()
        self.assertEqual(lines["modes"]["modes"]["swiotlb"], mode)
        ops = sum(t["ops"] for t in lines["bench"]["threads"])
        counts = lines["counters"]["sets"]["swiotlb"]
        print(f"# swiotlb {mode}: " + ", ".join(
            f"{key} {value / ops:.2f}" for key, value in counts.items()))
        return {key: value / ops for key, value in counts.items()}

    def test_modes(self):
        area, glob, lifo, both = map(self.bounce, (
            "area", "global", "lifo", "arealifo"))
        for counts in (area, glob, lifo, both):
            # 4 KiB are two slots; a lock for the map, one for the unmap.
            self.assertAlmostEqual(counts["map"], 1, delta=0.05)
            self.assertAlmostEqual(counts["slot"], 2, delta=0.1)
            self.assertAlmostEqual(counts["lock"], 2, delta=0.1)
        # Debugfs' shared counts: upstream's only.
        self.assertAlmostEqual(area["used"], 2, delta=0.1)
        for counts in (glob, lifo, both):
            self.assertEqual(counts["used"], 0)
        # One area is everybody's own.
        for counts in (glob, lifo):
            self.assertEqual(counts["other_area"] + counts["remote_free"], 0)
        # In turn, the next slot is free and aligned.
        self.assertAlmostEqual(area["visit"], 1, delta=0.1)
        # From the list, a page takes a look at an odd slot now and then.
        self.assertGreaterEqual(lifo["visit"], 1)

    def test_remote_free(self):
        """Unmapped by the next CPU: to the area of the one that mapped."""
        counts = self.bounce("arealifo", "--knob", "xcpu=1")
        self.assertAlmostEqual(counts["remote_free"], 1, delta=0.05)

    def test_no_such_mode(self):
        self.refused("iommulab.swiotlb=dance",
                     'swiotlb: "dance": no such mode (valid: area, global, '
                     "lifo, arealifo)")


class BounceVtd(Bounce, QueueTest):
    name = "vtd"


class BounceSmmu(Bounce, QueueTest):
    name = "smmuv3"
