# SPDX-License-Identifier: GPL-2.0-or-later
"""Real guests on both machines, through the command."""

import json
import shlex
import signal
import unittest

from lab import LabTest

from iommulab import machine, result

DOMAINS = {"strict": "DMA", "lazy": "DMA-FQ", "passthrough": "identity"}


class GuestTest(LabTest):
    timeout = 800

    def out(self, *args):
        return [*args, "--output", str(self.output)]


class Boot(GuestTest):
    def boot(self, name, cpus):
        # expect() is also the log scan: a finding is exit code 5.
        done = self.expect(0, *self.out("boot", "--machine", name, "--cpus",
                                        str(cpus)))
        self.assertRegex(done.stdout, r"ready after \d+\.\d s")

    def test_vtd_1(self):
        self.boot("vtd", 1)

    def test_smmuv3_1(self):
        self.boot("smmuv3", 1)

    def test_vtd_64(self):
        self.boot("vtd", 64)

    def test_smmuv3_64(self):
        self.boot("smmuv3", 64)


class Run(GuestTest):
    def measure(self, *args):
        done = self.expect(0, *self.out("run", "--json", "-", *args))
        data = json.loads(done.stdout)
        self.assertEqual(result.errors(data), [])
        return data["cells"]

    def order(self, name):
        """strict is slower than lazy, lazy not faster than passthrough."""
        cells = {c["mode"]: c for c in self.measure("--machine", name,
                                                    "--cpus", "2")}
        rate = {m: c["ops_per_cpu_per_s"] for m, c in cells.items()}
        self.assertGreater(rate["strict"], 0)
        self.assertLess(rate["strict"], rate["lazy"])
        self.assertLessEqual(rate["lazy"], rate["passthrough"])
        for mode, cell in cells.items():
            [sample] = cell["samples"]
            self.assertEqual(sample["domain"], DOMAINS[mode])
            self.assertEqual([t["cpu"] for t in sample["threads"]], [0, 1])
            self.assertEqual(cell["provenance"]["findings"], [])
            self.assertIn("linux", cell["provenance"]["sources"])

    def test_order_of_the_modes_vtd(self):
        self.order("vtd")

    def test_order_of_the_modes_smmuv3(self):
        self.order("smmuv3")

    def test_duration_is_guest_time(self):
        [cell] = self.measure("--machine", "smmuv3", "--cpus", "1", "--mode",
                              "lazy", "--duration", "20ms")
        [thread] = cell["samples"][0]["threads"]
        self.assertGreaterEqual(thread["ns"], 20_000_000)
        self.assertLess(thread["ns"], 40_000_000)

    def test_knobs_reach_the_benchmark(self):
        [cell] = self.measure("--machine", "vtd", "--cpus", "1", "--mode",
                              "strict", "--duration", "20ms", "--knob",
                              "depth=1", "--knob", "size=65536")
        folder = next(self.output.iterdir())
        lines = [json.loads(text) for text in
                 (folder / "result.jsonl").read_text().splitlines()]
        [bench] = [l for l in lines if l["iommulab"] == "bench"]
        self.assertEqual((bench["depth"], bench["size"]), (1, 65536))

    def test_serial_console_without_the_port(self):
        for name in machine.MACHINES:
            qemu = self.qemu(name)
            stock = self.folder / f"stock-{name}"
            stock.write_text(f"#!/bin/sh\nexec {shlex.quote(qemu)} \"$@\"\n")
            stock.chmod(0o755)
            [cell] = self.measure("--machine", name, "--cpus", "1", "--mode",
                                  "lazy", "--duration", "10ms", "--qemu",
                                  str(stock))
            self.assertNotIn(machine.PORT,
                             " ".join(cell["provenance"]["qemu_argv"]))

    def qemu(self, name):
        line = self.expect(0, *self.out(
            "boot", "--machine", name, "--dry-run")).stdout
        return next(word for word in shlex.split(line)
                    if word.endswith(machine.MACHINES[name].qemu))


class Failure(GuestTest):
    """What goes wrong on purpose, in a real guest."""

    def bad(self, code, name, *args):
        done = self.expect(code, *self.out("boot", "--machine", name, *args))
        log = done.stderr.split("log: ")[1].splitlines()[0]
        self.assertTrue(log.startswith(str(self.output)), log)
        return done

    def test_panic(self):
        for name in machine.MACHINES:
            done = self.bad(5, name, "--append", "rdinit=/nonexistent")
            self.assertIn("Kernel panic - not syncing", done.stderr)

    def test_timeout(self):
        for name in machine.MACHINES:
            self.bad(6, name, "--qemu-opt=-S", "--timeout", "2s")

    def test_ctrl_c(self):
        run = self.start(*self.out("run", "--machine", "smmuv3", "--cpus",
                                   "1", "--json", "-", "--jobs", "1"))
        self.addCleanup(run.kill)
        while "operations per CPU" not in run.stderr.readline():
            self.assertIsNone(run.poll())
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 130)
        data = json.loads(out)
        self.assertEqual(result.errors(data), [])
        self.assertIn(len(data["cells"]), (1, 2))


class Table(GuestTest):
    def test_table_of_one_machine(self):
        done = self.expect(0, *self.out("run", "--machine", "vtd", "--cpus",
                                        "1", "--duration", "10ms"))
        self.assertRegex(" ".join(done.stdout.split()),
                         r"Verdict: vtd, 1 CPU: strict runs at \d+ % of "
                         r"lazy, lazy runs at \d+ % of passthrough\.")


if __name__ == "__main__":
    unittest.main()
