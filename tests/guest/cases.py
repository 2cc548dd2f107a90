# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases for a real guest, the same for each machine.

test_MACHINE.py makes test cases of them, so that the machines are tested
side by side. Every command that boots a guest scans its log, and a finding is
exit code 5: so a 0 is also a clean log.
"""

import json
import re
import shlex
import signal

from lab import LabTest

from iommulab import machine, result

DOMAINS = {"strict": "DMA", "lazy": "DMA-FQ", "passthrough": "identity"}


class GuestTest(LabTest):
    name = None         # the machine
    timeout = 800

    def guest(self, code, verb, *args):
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
