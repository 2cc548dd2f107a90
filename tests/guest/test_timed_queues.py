# SPDX-License-Identifier: GPL-2.0-or-later
"""IOMMU queues that take time, under Linux' own drivers.

The algorithms are upstream's, the mode is strict.
"""

import json
import re
from collections import Counter

from cases import GuestTest

from iommulab import machine

US = 1000           # cycles of the profiles' clocks, which have 1 GHz


class QueueTest(GuestTest):
    def run_guest(self, *args, cpus=1, duration="2ms"):
        """{kind: result line} of one guest; with the cell of the result file
        as "cell" and its folder as "folder"."""
        self.output = self.folder / f"run-{len(list(self.folder.iterdir()))}"
        [cell] = self.measure("--cpus", str(cpus), "--mode", "strict",
                              "--duration", duration, "--no-snapshot", *args)
        [folder] = self.output.iterdir()
        lines = {line["iommulab"]: line for line in map(json.loads, (
            folder / "result.jsonl").read_text().splitlines())}
        return lines | {"cell": cell, "folder": folder}

    def classes(self, lines):
        return {c["name"]: c["commands"] for c in lines["queue"]["classes"]}


class Slope:
    """What the queue takes longer is what an unmap takes longer, on one CPU.

    A driver that polls a register sees an end at its next look, which is
    0.4 us later with the profiles' device accesses.
    """
    forms = ()          # of waiting, as options

    def unmap(self, costs, *args):
        """Mean time of an unmap in ns."""
        lines = self.run_guest("--iommu-cost", f"profile,{costs}", "--knob",
                               "warmup=1", "--knob", "sample=4", *args)
        unmap = lines["bench"]["unmap"]
        return unmap["sum_ns"] / unmap["count"]

    def cost(self, key):
        """What the profile has for it."""
        text = machine.profile(machine.MACHINES[self.name]).read_text()
        return int(re.search(rf"(?m)^{key}=(\d+)$", text)[1])

    def slope(self, key, ns, *args):
        """Costs of the profile and `ns` more; the difference within 5 %."""
        base = self.cost(key)
        mean = self.unmap(f"{key}={base}", *args)
        more = self.unmap(f"{key}={base + ns}", *args)
        print(f"# {self.name}: {key} {base} and {base + ns} cycles: unmap "
              f"{mean:.1f} and {more:.1f} ns, a ratio of "
              f"{(more - mean) / ns:.4f}")
        self.assertAlmostEqual((more - mean) / ns, 1, delta=0.05)


class VtdSlope(Slope, QueueTest):
    name = "vtd"

    def fine(self):
        """A profile whose looks at FSTS are 25 ns apart: 10 for the read, one
        instruction's time for PAUSE, the rest instructions."""
        path = self.folder / "fine.ini"
        text = machine.profile(machine.MACHINES[self.name]).read_text()
        for key, value in ("read-ps", 10000), ("pause-ps", 400):
            text, n = re.subn(rf"(?m)^{key}=\d+$", f"{key}={value}", text)
            self.assertEqual(n, 1)
        path.write_text(text)
        return "--profile", str(path)

    def test_wait(self):
        self.slope("sync", US, *self.fine())

    def test_page(self):
        self.slope("inv-page", US, *self.fine())

    def test_wait_between_coarse_polls(self):
        """The profile as it is: 20 us, as one look more or less is 2 %."""
        self.slope("sync", 20 * US)


class SmmuSlope(Slope, QueueTest):
    name = "smmuv3"

    def options(self, form):
        return (f"--qemu-opt=-global arm-smmuv3.{form}=on",)

    def test_sync_by_msi(self):
        """The driver waits for the word that the MSI writes."""
        self.slope("sync", US, *self.options("msi"))

    def test_page_by_msi(self):
        self.slope("inv-page", US, *self.options("msi"))

    def test_sync_by_event(self):
        """The driver waits in WFE, and the event at the end of CMD_SYNC ends
        that; without it the next look would be up to 0.4 us later."""
        self.slope("sync", US, *self.options("sev"))


class Counts:
    """What the guest's kernel counts is what the device counts."""
    event = None        # of ftrace
    costs = "--iommu-cost", "profile"

    def counted(self, cpus):
        """(device's queue line, its classes, kernel's counters)"""
        lines = self.run_guest(*self.costs, "--counters", cpus=cpus)
        queue = lines["queue"]
        counts = lines["counters"]["sets"]["cmdq" if self.name == "smmuv3"
                                           else "vtd"]
        total = {key: sum(cpu[key] for cpu in queue["cpus"])
                 for key in ("doorbells", "commands", "waits", "polls")}
        print(f"# {self.name}, {cpus} CPUs: {self.classes(lines)}, {total}")
        self.assertEqual({cpu["cpu"] for cpu in queue["cpus"]},
                         set(range(cpus)))
        return total, self.classes(lines), counts

    def traced(self):
        """({what the tracepoint named: times}, {class: times}) from boot on.
        The kernel prints its events, the device traces its own."""
        trace = self.folder / "trace"
        lines = self.run_guest(
            *self.costs, "--knob", "warmup=0", "--knob", "depth=4",
            f"--qemu-opt=-trace iommu_queue_done -D {trace}", "--append",
            f"trace_event={self.event} tp_printk ignore_loglevel", cpus=2,
            duration="1ms")
        log = (lines["folder"] / "console.log").read_text()
        name = self.event.partition(":")[2]
        return (Counter(re.findall(rf"\] {name}: (\w+)", log)),
                Counter(map(int, re.findall(r"^iommu_queue_done .* class (\d+)",
                                            trace.read_text(), re.M))))


class VtdCounts(Counts, QueueTest):
    name = "vtd"
    event = "intel_iommu:qi_submit"

    def test_counters(self):
        for cpus in (1, 8):
            total, classes, counts = self.counted(cpus)
            self.assertEqual(classes, {"iotlb-page": counts["psi"],
                                       "wait": counts["wait"]})
            self.assertEqual(total["waits"], counts["wait"])
            self.assertEqual(total["commands"],
                             counts["psi"] + counts["wait"])
            # Submissions; FSTS is read once for each look at the status.
            self.assertEqual(total["doorbells"], counts["wait"])
            self.assertEqual(total["polls"], counts["poll"])

    def test_tracepoint(self):
        seen, classes = self.traced()
        # enum of hw/i386/intel_iommu-queue.c; waits have no tracepoint, but
        # each submission is one descriptor and one wait.
        self.assertEqual(seen, Counter({
            "cc_inv": classes[0],
            "iotlb_inv": classes[1] + classes[2] + classes[3],
            "iec_inv": classes[5]}))
        self.assertEqual(seen.total(), classes[7])
        self.assertGreater(seen["iotlb_inv"], 16)


class SmmuCounts(Counts, QueueTest):
    name = "smmuv3"
    event = "iommu:unmap"

    def test_counters(self):
        for cpus in (1, 8):
            total, classes, counts = self.counted(cpus)
            self.assertEqual(classes, {"tlbi-page": counts["tlbi"],
                                       "sync": counts["sync"]})
            self.assertEqual(total["waits"], counts["sync"])
            self.assertEqual(total["commands"],
                             counts["command"] + counts["sync"])
            self.assertEqual(total["doorbells"], counts["doorbell"])
            self.assertEqual(total["polls"], counts["cons_read"])

    def test_tracepoint(self):
        """The driver has no tracepoint of its own; strict is an invalidation
        for each unmap that the IOMMU core traces."""
        seen, classes = self.traced()
        # enum of hw/arm/smmuv3-queue.c: TLBI of a page and of a range
        self.assertEqual(seen["IOMMU"], classes[4] + classes[5])
        self.assertGreater(seen["IOMMU"], 16)


class SmallQueue(QueueTest):
    """64 CPUs and command queues that they fill."""
    name = "smmuv3"

    def test_16_entries_refused(self):
        """The driver wants more than a batch of 64 (CMDQ_BATCH_ENTRIES), for
        any number of CPUs, and leaves the SMMU alone."""
        self.guest(0, "boot", "--cpus", "2", "--append",
                   "iommulab.job=ready", "--iommu-cost", "profile",
                   "--qemu-opt=-global arm-smmuv3.cmdqs=4")
        [folder] = self.output.iterdir()
        self.assertIn("command queue size <= 64 entries not supported",
                      (folder / "console.log").read_text())

    def loaded(self, entries, *args, commands=3, most=None):
        """That many commands and a CMD_SYNC of each CPU at a time. The device
        begins 5 us after a doorbell, so that it sees a queue that is full."""
        lines = self.run_guest(
            "--iommu-cost", "profile,doorbell=5000", "--counters", "--knob",
            "warmup=0", "--knob", "depth=4", "--knob",
            f"size={4096 * commands}",
            f"--qemu-opt=-global arm-smmuv3.cmdqs={entries.bit_length() - 1} "
            "-global arm-smmuv3.ril=off", *args, cpus=64, duration="1ms")
        queue, counts = lines["queue"], lines["counters"]["sets"]["cmdq"]
        print(f"# {' '.join(args)}: full {queue['full-ns']} of "
              f"{queue['elapsed-ns']} ns, {queue['full-times']} times; "
              f"{counts['full']} looks found no room")
        self.assertEqual(queue["entries"], entries)
        self.assertEqual(queue["occupancy-max"], most or entries)
        if not most:
            self.assertGreater(queue["full-times"], 10)
            self.assertGreater(queue["full-ns"], queue["elapsed-ns"] / 100)
            self.assertLess(queue["full-ns"], queue["elapsed-ns"])
        self.assertGreater(counts["full"], 0)
        # Nothing is lost, nothing is done twice.
        self.assertEqual(self.classes(lines), {"tlbi-page": counts["tlbi"],
                                               "sync": counts["sync"]})
        return lines

    def test_128_entries(self):
        lines = self.loaded(128)
        # Everybody gets on.
        for thread in lines["bench"]["threads"]:
            self.assertGreater(thread["ops"], 0)
        for cpu in lines["queue"]["cpus"]:
            self.assertGreater(cpu["waits"], 0)

    def small(self, mode, *args, **kwargs):
        lines = self.loaded(16, "--append", "iommulab.cmdq_shift=4 "
                            f"iommulab.cmdq={mode}", *args, **kwargs)
        log = (lines["folder"] / "console.log").read_text()
        self.assertNotRegex(log, "CMDQ timeout|CMD_SYNC timeout")
        return lines

    def test_16_entries(self):
        """Not cas20, which had not ended after minutes on a queue so small
        (docs/guide/algorithms-queues.md), nor add, which needs 128."""
        for mode in "cas", "casspin", "spin53":
            with self.subTest(mode):
                self.small(mode)

    def test_16_entries_in_batches(self):
        """An unmap of 20 pages, with batches of 7, the last one of 6 and its
        CMD_SYNC: two of them fit in, and 2 entries stay free."""
        self.small("cas", commands=20, most=14)

    def test_16_entries_by_msi(self):
        """The MSI is written over the CMD_SYNC, whose slot comes round soon"""
        self.small("cas", "--qemu-opt=-global arm-smmuv3.msi=on")

    def test_size_refused(self):
        """What the kernel only logs fails the run, with its words."""
        done = self.guest(5, "run", "--json", "-", "--no-snapshot", "--cpus",
                          "1", "--mode", "strict", "--duration", "1ms",
                          "--append", "iommulab.cmdq_shift=3")
        self.assertRegex(done.stderr,
                         r"iommulab\.cmdq_shift=3 must be 4\.\.\d+")
