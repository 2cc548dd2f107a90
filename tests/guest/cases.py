# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases for a real guest, the same for each machine.

test_MACHINE.py makes test cases of them, so that the machines are tested
side by side. Every command that boots a guest scans its log, and a finding is
exit code 5: so a 0 is also a clean log.
"""

import json
import os
import re
import shlex
import signal
import unittest

from lab import LabTest

from iommulab import logscan, machine, modes, result

DOMAINS = {"strict": "DMA", "lazy": "DMA-FQ", "passthrough": "identity"}


class GuestTest(LabTest):
    name = None         # the machine
    timeout = 2000 if "IOMMULAB_TEST_KERNEL" in os.environ else 800

    def guest(self, code, verb, *args):
        # tests/debug-kernels has another kernel, a slow one.
        kernel = os.environ.get("IOMMULAB_TEST_KERNEL")
        if kernel:
            args = ("--kernel", kernel, "--clock", "functional",
                    "--timeout", "30m", *args)
        return self.expect(code, verb, "--machine", self.name, "--output",
                           str(self.output), *args)

    def measure(self, *args):
        done = self.guest(0, "run", "--json", "-", *args)
        data = json.loads(done.stdout)
        self.assertEqual(result.errors(data), [])
        return data["cells"]


class Boot:
    def boot(self, cpus):
        done = self.guest(0, "boot", "--cpus", str(cpus))
        self.assertRegex(done.stdout, rf"^{self.name} with {cpus} CPUs?: "
                                      r"Linux 6\.12\.\S+ ready after \d+\.\d s")

    def test_1_cpu(self):
        self.boot(1)

    def test_64_cpus(self):
        self.boot(64)


class Run:
    def test_order_of_the_modes(self):
        """strict is slower than lazy, lazy not faster than passthrough."""
        cells = {c["mode"]: c for c in self.measure("--cpus", "2")}
        rate = {m: c["ops_per_cpu_per_s"] for m, c in cells.items()}
        self.assertGreater(rate["strict"], 0)
        self.assertLess(rate["strict"], rate["lazy"])
        self.assertLessEqual(rate["lazy"], rate["passthrough"])
        for mode, cell in cells.items():
            [sample] = cell["samples"]
            self.assertEqual(sample["domain"], DOMAINS[mode])
            self.assertEqual([t["cpu"] for t in sample["threads"]], [0, 1])
            self.assertIn("linux", cell["provenance"]["sources"])
            self.assertIn("qemu", cell["provenance"]["sources"])

    def test_duration_is_guest_time(self):
        [cell] = self.measure("--cpus", "1", "--mode", "lazy", "--duration",
                              "20ms")
        [thread] = cell["samples"][0]["threads"]
        self.assertGreaterEqual(thread["ns"], 20_000_000)
        self.assertLess(thread["ns"], 40_000_000)

    def test_knobs_reach_the_benchmark(self):
        self.measure("--cpus", "1", "--mode", "strict", "--duration", "20ms",
                     "--knob", "depth=1", "--knob", "size=65536")
        [folder] = self.output.iterdir()
        lines = [json.loads(text) for text in
                 (folder / "result.jsonl").read_text().splitlines()]
        [bench] = [l for l in lines if l["iommulab"] == "bench"]
        self.assertEqual((bench["depth"], bench["size"]), (1, 65536))

    def test_serial_console_without_the_port(self):
        line = self.guest(0, "boot", "--dry-run").stdout
        qemu = next(word for word in shlex.split(line)
                    if word.endswith(machine.MACHINES[self.name].qemu))
        stock = self.folder / "stock-qemu"
        stock.write_text(f"#!/bin/sh\nexec {shlex.quote(qemu)} \"$@\"\n")
        stock.chmod(0o755)
        [cell] = self.measure("--cpus", "2", "--mode", "lazy", "--duration",
                              "10ms", "--qemu", str(stock))
        self.assertNotIn(machine.PORT,
                         " ".join(cell["provenance"]["qemu_argv"]))

    def test_table(self):
        done = self.guest(0, "run", "--cpus", "1", "--duration", "10ms")
        self.assertRegex(" ".join(done.stdout.split()),
                         rf"Verdict: {self.name}, 1 CPU: strict runs at \d+ "
                         r"% of lazy, lazy runs at \d+ % of passthrough\.")


class Clocks:
    """What the CPUs' clocks look like from inside, 64 of them."""

    def test_fair_and_monotonic(self):
        self.guest(0, "boot", "--cpus", "64", "--append",
                   "iommulab.job=clocks")
        [folder] = self.output.iterdir()
        lines = [json.loads(text) for text in
                 (folder / "result.jsonl").read_text().splitlines()]
        [clocks] = [l for l in lines if l["iommulab"] == "clocks"]
        self.assertEqual(clocks["cpus"], 64)
        self.assertEqual(clocks["backwards"], 0)
        self.assertEqual(clocks["reads"], 64 * 200)
        for busy in ("busy_min", "busy_max"):
            self.assertLess(abs(clocks[busy] / clocks["alone"] - 1), 0.01)


class Costs:
    """What a profile says is what the guest measures."""

    def costs(self, factor):
        """(ticks of a loop, ticks of one MMIO read, its vtime line) with the
        instructions' cost of the machine's profile times `factor`."""
        m = machine.MACHINES[self.name]
        profile = self.folder / f"times-{factor}.ini"
        profile.write_text(re.sub(
            r"(?m)^ps-per-insn=(\d+)$",
            lambda line: f"ps-per-insn={int(line[1]) * factor}",
            machine.profile(m).read_text()))
        output = self.folder / f"results-{factor}"
        self.expect(0, "boot", "--machine", self.name, "--output",
                    str(output), "--profile", str(profile), "--append",
                    "iommulab.job=costs")
        [folder] = output.iterdir()
        lines = [json.loads(text) for text in
                 (folder / "result.jsonl").read_text().splitlines()]
        [costs] = [l for l in lines if l["iommulab"] == "costs"]
        [vcpu] = [l for l in lines if l["iommulab"] == "vtime"]
        return costs["loop"], costs["mmio"] / costs["reads"], vcpu

    def test_instructions_cost_twice_as_much(self):
        loop, mmio, vcpu = self.costs(1)
        loop2, mmio2, vcpu2 = self.costs(2)
        self.assertAlmostEqual(loop2 / loop, 2, delta=0.001)
        # Each read is also a few instructions, which did become dearer.
        self.assertLess(mmio2 / mmio, 1.02)
        self.assertGreaterEqual(mmio2, mmio)
        self.assertAlmostEqual(vcpu2["exec_ps"] / vcpu["exec_ps"], 2,
                               delta=0.01)
        self.assertEqual(vcpu2["mmio_ps"], vcpu["mmio_ps"])


class Failure:
    """What goes wrong on purpose."""

    def bad(self, code, *args):
        done = self.guest(code, "boot", *args)
        log = done.stderr.split("log: ")[1].splitlines()[0]
        self.assertTrue(log.startswith(str(self.output)), log)
        return done

    def test_panic(self):
        done = self.bad(5, "--append", "rdinit=/nonexistent")
        self.assertIn("Kernel panic - not syncing", done.stderr)

    def test_timeout(self):
        self.bad(6, "--qemu-opt=-S", "--timeout", "2s")

    def test_the_guest_refuses(self):
        done = self.bad(5, "--append", "iommulab.job=dance")
        self.assertIn("none of ready, bench, clocks", done.stderr)

    def test_ctrl_c(self):
        run = self.start("run", "--machine", self.name, "--output",
                         str(self.output), "--cpus", "1", "--json", "-",
                         "--jobs", "1")
        self.addCleanup(run.kill)
        while "operations per CPU" not in run.stderr.readline():
            self.assertIsNone(run.poll())
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 130)
        data = json.loads(out)
        self.assertEqual(result.errors(data), [])
        self.assertIn(len(data["cells"]), (1, 2))


class Algorithms:
    """The kernel's algorithms and how they are chosen."""

    # What a round of changes of mode may leave in the kernel's memory.
    leak_kb = 16
    # A result of each IOVA mode: what one run of its test printed.
    tested = ["rcache", "rbtree46", "rbtree612", "rcache47", "pools:1",
              "pools:16", "poolslarge:4"]

    def job(self, cpus, *options, code=0, args=()):
        """The result lines of a job by kind."""
        self.guest(code, "boot", "--cpus", str(cpus), *args, "--append",
                   " ".join(f"iommulab.{option}" for option in options))
        [folder] = self.output.iterdir()
        lines = {}
        for text in (folder / "result.jsonl").read_text().splitlines():
            line = json.loads(text)
            lines.setdefault(line.pop("iommulab"), []).append(line)
        return lines

    def count(self, mode, *args):
        """(operations, counters) of a cell, which has the algorithms asked
        for."""
        [cell] = self.measure("--cpus", "4", "--mode", mode, "--duration",
                              "10ms", "--counters", *args)
        sample = cell["samples"][0]
        return (sum(t["ops"] for t in sample["threads"]),
                sample["counters"]["iova"], sample["counters"]["flush"])

    def test_the_lists_agree(self):
        """What 'iommulab modes' knows is what the kernel has."""
        kernel = [(line["knob"], line["mode"], line["help"])
                  for line in self.job(1, "job=modes")["mode"]]
        ours = [(name, mode, m.help) for name, knob in modes.KNOBS.items()
                if self.name in knob.machines
                for mode, m in knob.modes.items()]
        self.assertEqual(sorted(kernel), sorted(ours))

    def test_random_calls(self):
        """An oracle watches; IOMMULAB_IOVA_OPS=1000000 makes it longer."""
        ops = int(os.environ.get("IOMMULAB_IOVA_OPS", 20000))
        lines = self.job(16, "job=iova", f"ops={ops}")["iova_test"]
        self.assertEqual([line["mode"] for line in lines], self.tested)
        for line in lines:
            self.assertEqual(line["errors"], 0, line)
            # A CPU went and came back meanwhile.
            self.assertGreater(line["hotplug"], 0, line)
            self.assertEqual(line["allocs"] + line["frees"] + line["fails"],
                             ops // 16 * 16, line)
            self.assertEqual(line["exhaust"], line["again"], line)
            # poolslarge has a quarter of 2 GiB for ranges of 256 pages.
            self.assertGreater(line["exhaust"], 500, line)
            # KASAN keeps what was freed back for a while.
            if "-kasan" not in os.environ.get("IOMMULAB_TEST_KERNEL", ""):
                self.assertLess(line["leaked"], 32, line)

    def test_bad_modes_and_failing_allocations(self):
        [line] = self.job(2, "job=switch", "mode=lazy")["switch"]
        # iova, flush; those of VT-d's domains.
        self.assertEqual(line["knobs"], {"vtd": 4, "smmuv3": 2}[self.name])
        # rcache47 alone takes 2 x 2 x 6 magazines for two CPUs.
        self.assertGreater(line["injected"], 30)
        self.assertLess(line["leaked_kb"], self.leak_kb)

    def stale(self, *args):
        """A device goes on with what is unmapped under it. A strict unmap
        ends that; a deferred one lets it, but not for long: 10 ms, or 1 s of
        "single", which Linux's timers round up, two ticks and the flush."""
        tick, flush = 4_000_000, 1_000_000
        # The timer wheel: 10 ms are 3 ticks; of a second it counts 8 at once.
        window = {True: 256 * tick, False: 3 * tick}
        # That the device was refused is an error to VT-d's driver, and to
        # SMMUv3's a message that is not shown. Nothing else may be wrong.
        logged = {"vtd": {"IOMMU fault"}, "smmuv3": set()}[self.name]
        lines = self.job(4, "job=stale", "ops=90",
                         code=5 if logged else 0, args=args)["stale"]
        [log] = self.output.glob("*/console.log")
        self.assertEqual({f.kind for f in logscan.scan(log.read_text())},
                         logged)
        tried = [(line["domain"], line["knob"], line["mode"])
                 for line in lines]
        self.assertEqual(sorted(tried), sorted(
            (domain, name, mode) for domain in ("DMA", "DMA-FQ")
            for name, knob in modes.KNOBS.items()
            if self.name in knob.machines and not knob.boot
            and (domain, name) != ("DMA", "flush") for mode in knob.modes))
        bounded = 0
        for line in lines:
            seen = line["seen"]
            choice = (line["knob"], line["mode"])
            self.assertEqual(seen["errors"], 0, line)
            if line["domain"] == "DMA" or choice == ("flush", "strict"):
                # Each round of each queue was refused, or saw that the
                # address had become another round's.
                self.assertEqual(seen["rounds"], 90, line)
                self.assertEqual(seen["reads"] + seen["writes"], 0, line)
                self.assertLessEqual(seen["open"], seen["reused"], line)
                self.assertGreater(seen["faults"], 90, line)
            else:
                # The same eyes see it where it is allowed.
                self.assertGreater(seen["reads"], 0, line)
                self.assertGreater(seen["writes"], 0, line)
                # Who saw the address mapped anew is refused with that one.
                if not seen["reused"]:
                    bounded += 1
                    self.assertLess(
                        seen["window_ns"], 2 * tick + flush + window[
                            choice == ("flush", "single")], line)
        self.assertGreater(bounded, 0, "every deferred line saw reuse")
        return [line["seen"] for line in lines]

    def test_stale_translations(self):
        for seen in self.stale():
            self.assertEqual(seen["ats"], 0)

    def test_unknown_mode(self):
        done = self.guest(5, "boot", "--append",
                          "iommulab.job=bench iommulab.iova=nonsense")
        self.assertIn('"nonsense": no such mode (valid: rcache, rbtree46, ',
                      done.stderr)

    def test_other_machines_knob(self):
        other = {"vtd": "cmdq", "smmuv3": "vtd_map"}[self.name]
        done = self.guest(5, "boot", "--append",
                          f"iommulab.job=bench iommulab.{other}=upstream")
        self.assertRegex(done.stderr, rf"unknown option iommulab\.{other} "
                                      r"\(this kernel's knobs: .*iova, flush")

    def test_counts_of_rcache(self):
        """Hits take the CPU's own lock, no other."""
        ops, iova, flush = self.count("lazy")
        self.assertAlmostEqual(iova["alloc"] / ops, 1, delta=0.01)
        self.assertEqual(iova["lock_pool"], 0)
        self.assertLess(iova["lock_tree"] / ops, 0.01)
        self.assertAlmostEqual(
            iova["lock_cpu"] / (iova["alloc"] + iova["free"]), 1, delta=0.01)
        # A queue takes 255 unmaps; a flush for one helps all four.
        self.assertGreater(flush["full"], 0)
        self.assertGreater(flush["queued"] / flush["full"], 240)
        self.assertLess(flush["queued"] / flush["full"], 4 * 255 * 1.05)

    def test_counts_of_rbtree46(self):
        """One lock to allocate, two to free: three for an operation."""
        ops, iova, flush = self.count("strict", "--iova", "rbtree46")
        self.assertAlmostEqual(iova["lock_tree"] / ops, 3, delta=0.02)
        self.assertEqual(iova["lock_cpu"], 0)
        self.assertAlmostEqual(flush["sync"] / ops, 1, delta=0.01)

    def test_counts_of_rbtree612(self):
        """One to allocate, one to free."""
        ops, iova, _ = self.count("strict", "--iova", "rbtree612")
        self.assertAlmostEqual(iova["lock_tree"] / ops, 2, delta=0.02)

    def test_counts_of_pools(self):
        """One to allocate, one to free, of the pool."""
        ops, iova, _ = self.count("strict", "--iova", "pools:4")
        self.assertAlmostEqual(iova["lock_pool"] / ops, 2, delta=0.02)
        self.assertAlmostEqual(iova["pool_scans"] / iova["alloc"], 1,
                               delta=0.02)
        self.assertEqual(iova["lock_tree"], 0)

    def test_counts_of_global250(self):
        """250 unmaps, then one flush of the IOMMU; the lock once for each."""
        ops, iova, flush = self.count("lazy", "--iova", "rbtree46",
                                      "--flush", "global250")
        self.assertEqual(flush["queued"] - flush["freed"] >= -250, True)
        flushes = flush["full"] + flush["timeout"]
        self.assertGreater(flush["full"], 0)
        self.assertLessEqual(flush["queued"] / flushes, 250 * 1.05)
        self.assertGreater(flush["queued"] / flushes, 200)
        self.assertAlmostEqual(flush["lock"] / flush["queued"], 1,
                               delta=0.01)
        self.assertEqual(flush["global"] + flush["domain"], flushes)
        self.assertEqual(flush["global"] > 0, self.name == "vtd")
        self.assertAlmostEqual(iova["lock_tree"] / ops, 3, delta=0.1)

    def test_counts_of_percpu250(self):
        """A full list flushes those of all CPUs: 4 locks more, 4 flushes."""
        _, _, flush = self.count("lazy", "--flush", "percpu250")
        flushes = flush["full"] + flush["timeout"]
        self.assertGreater(flush["full"], 0)
        self.assertEqual(flush["global"] + flush["domain"], flushes)
        self.assertLessEqual(flush["queued"] / flushes, 250 * 1.05)

    def test_counts_beside_the_published(self):
        """'modes --counts' finds what the descriptions say in each mode."""
        out = self.folder / "counts.json"
        self.guest(0, "run", "--cpus", "2", "--mode", "lazy", "--duration",
                   "10ms", "--counters", "--json", str(out), "--iova",
                   "rcache,rbtree46,pools:4", "--flush",
                   "fq,global250")
        done = self.expect(0, "modes", "--counts", str(out))
        print(done.stdout.replace("\n", "\n# "))
        for mode in ("rcache", "rbtree46", "pools:4"):
            self.assertIn(f"iova={mode} ", done.stdout)
        self.assertRegex(done.stdout, r"\n(\d+) of \1 counts are the publ")

    def test_each_flush_mode_maps(self):
        cells = self.measure("--cpus", "2", "--mode", "lazy", "--duration",
                             "5ms", "--iova", "rcache47", "--flush",
                             "strict,single")
        strict, single = cells
        self.assertEqual(single["algorithms"],
                         {"iova": "rcache47", "flush": "single"})
        self.assertLess(strict["ops_per_cpu_per_s"],
                        single["ops_per_cpu_per_s"])


@unittest.skipUnless("IOMMULAB_TEST_KERNEL" in os.environ,
                     "for the kernels of tests/debug-kernels")
class EachMode:
    """Each mode maps and unmaps on 4 CPUs. The other cases do so too, but
    their counts are those of a kernel that is fast."""

    def knob(self, name):
        each = [f"{mode}:4" if m.args else mode
                for mode, m in modes.KNOBS[name].modes.items()]
        cells = self.measure("--cpus", "4", "--mode", "lazy", "--duration",
                             "20ms", "--" + name.replace("_", "-"),
                             ",".join(each))
        self.assertEqual([c["algorithms"][name] for c in cells], each)
        for cell in cells:
            self.assertGreater(cell["ops_per_cpu_per_s"], 0)

    def test_iova(self):
        self.knob("iova")

    def test_flush(self):
        self.knob("flush")
