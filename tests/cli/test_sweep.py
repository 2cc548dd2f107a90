# SPDX-License-Identifier: GPL-2.0-or-later
"""iommulab sweep, with a stand-in for QEMU."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import unittest

from lab import FAKE, ROOT, LabTest

from iommulab import experiment, sweep

EXPERIMENT = """
title = "A test"
work = "S0"
[run]
machine = "vtd"
cpus = [1, 2, 4]
mode = ["strict", "lazy"]
counters = true
[short]
cpus = 1
[[published]]
cell = {mode = "lazy"}
along = "cpus"
values = {1 = 976562.5, 2 = 976562.5, 4 = 488281.25}
source = "nobody"
[[published]]
name = "strict"
cell = {mode = "strict", cpus = 4}
relative-to = {mode = "lazy", cpus = 4}
value = 0.5
source = "nobody"
[[published]]
name = "attempts"
cell = {mode = "strict", cpus = 4}
metric = "counters.cmdq.cas / counters.cmdq.insertion"
value = 2
fitted = true
source = "nobody"
"""


class Sweep(LabTest):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "test.toml"
        self.file.write_text(EXPERIMENT)

    def sweep(self, code, behaviour, *args):
        return self.expect(code, "sweep", str(self.file),
                           *self.fake(behaviour), *args)

    def test_tables(self):
        done = self.sweep(0, "ok")
        self.assertIn("test: 6 cells, 6 to run, about ", done.stderr)
        self.assertEqual(done.stderr.count("operations per CPU"), 6)
        text = " ".join(done.stdout.split())
        self.assertIn("S0 test: A test", text)
        self.assertIn("CPUs 1 2 4 published 977K 977K 488K "
                      "simulated 977K 977K 977K ratio 1.00 1.00 2.00", text)
        self.assertIn("strict 0.5 0.25 0.50", text)
        self.assertIn("attempts * 2 4 2.00", text)
        self.assertIn("Median error 25 % of 4 figures", text)
        self.assertIn("1 figure chose a parameter", text)
        # No rate was published of these.
        self.assertIn("4 CPUs strict 244.1", text)
        for line in done.stdout.splitlines()[:-1]:
            self.assertLessEqual(len(line), 72, line)

    def test_json(self):
        done = self.sweep(0, "ok", "--json", "-")
        data = json.loads(done.stdout)
        self.assertIsNone(sweep.check(data))
        self.assertEqual(len(data["cells"]), 6)
        self.assertEqual(self.load(self.output / "test.json"), data)
        path = self.folder / "out.json"
        self.sweep(0, "ok", "--json", str(path))
        self.assertEqual(self.load(path), data)

    def test_the_same_sweep_twice_gives_the_same_file(self):
        self.sweep(0, "ok")
        first = (self.output / "test.json").read_bytes()
        done = self.sweep(0, "ok", "--force", "--jobs", "1")
        self.assertEqual(done.stderr.count("operations per CPU"), 6)
        self.assertEqual((self.output / "test.json").read_bytes(), first)

    def test_finished_cells_are_not_run_again(self):
        self.sweep(0, "ok", "--short")
        done = self.sweep(0, "ok")
        self.assertIn("6 cells, 4 to run", done.stderr)
        done = self.sweep(0, "ok")
        self.assertIn("6 cells, 0 to run\n", done.stderr)
        self.assertNotIn("operations per CPU", done.stderr)
        self.assertIn("Median error", done.stdout)

    def guests(self):
        """The process ids of running guests."""
        shown = subprocess.run(["ps", "-eo", "pid,args"], text=True,
                               capture_output=True).stdout
        return [int(line.split()[0]) for line in shown.splitlines()
                if str(self.folder / "kernel") in line
                and str(FAKE) in line and "sweep" not in line]

    def test_killed_and_resumed_without_repeating_a_cell(self):
        # Guests with 4 CPUs hang until the sweep is killed outright.
        run = self.start("sweep", str(self.file), "--jobs", "3",
                         *self.fake("slow-on-4"))
        self.addCleanup(run.kill)
        finished = []
        while len(finished) < 4:
            line = run.stderr.readline()
            self.assertTrue(line)
            if "operations per CPU" in line:
                finished.append(line.split("]")[1].split(":")[0])
        run.send_signal(signal.SIGKILL)
        run.communicate(timeout=30)
        for pid in self.guests():
            os.kill(pid, signal.SIGKILL)
        data = self.load(self.output / "test.json")
        self.assertEqual(len(data["cells"]), 4)
        stamps = {path: path.stat().st_mtime_ns
                  for path in self.output.glob("*/result.json")}
        self.assertEqual(len(stamps), 4)
        # The very same cells: resume, and interrupt it again.
        run = self.start("sweep", str(self.file), *self.fake("slow-on-4"))
        self.addCleanup(run.kill)
        self.assertIn("6 cells, 2 to run", run.stderr.readline())
        while not self.guests():
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=30)
        self.assertEqual(run.returncode, 130, err)
        self.assertNotIn("operations per CPU", err)
        self.assertIn("Interrupted; 2 cells were not measured", out)
        self.assertEqual(self.guests(), [])
        self.assertEqual({path: path.stat().st_mtime_ns for path in stamps},
                         stamps)

    def test_failed_cells(self):
        done = self.sweep(5, "panic-lazy")
        self.assertEqual(done.stderr.count("the guest panicked"), 3)
        self.assertIn("Failed: vtd 4 CPUs lazy: the guest panicked",
                      done.stdout)
        self.assertIn("4 figures are without a value: not measured.",
                      " ".join(done.stdout.split()))
        done = self.sweep(5, "panic-lazy")
        self.assertIn("0 to run, 3 failed before (--rerun-failed)\n",
                      done.stderr)
        self.assertIn("Failed: vtd 4 CPUs lazy", done.stdout)
        done = self.sweep(5, "panic-lazy", "--rerun-failed")
        self.assertIn("6 cells, 3 to run", done.stderr)
        self.assertEqual(done.stderr.count("the guest panicked"), 3)

    def test_timeout(self):
        done = self.sweep(6, "slow-on-4", "--timeout", "1")
        self.assertIn("did not finish within 1 s", done.stdout)

    def test_warning(self):
        self.assertIn("Doubtful: vtd 1 CPU strict",
                      self.sweep(5, "warn").stdout)

    def test_estimate_learns(self):
        self.sweep(0, "ok")
        done = self.sweep(0, "ok", "--force")
        self.assertRegex(done.stderr, r"6 to run, about [1-5] s\n")

    def test_dry_run(self):
        done = self.sweep(0, "panic", "--dry-run")
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 6)
        words = shlex.split(lines[0])
        self.assertIn("iommulab.counters=1 fake=panic",
                      words[words.index("-append") + 1])
        self.assertFalse(self.output.exists())

    def test_bad_input(self):
        for args, says in (
                (("no-such",), "there is no experiment or file no-such"),
                ((str(self.folder / "bad.toml"),), "unknown key 'color'"),
                ((str(self.file), "--json", "/no/such/file"),
                 "--json: there is no folder /no/such"),
                ((str(self.file), "--jobs", "0"), "not a number above 0")):
            (self.folder / "bad.toml").write_text(EXPERIMENT.replace(
                "[short]", "color = 1\n[short]"))
            done = self.expect(2, "sweep", *args, *self.fake())
            self.assertIn(says, done.stderr)
            self.assertEqual(done.stdout, "")
        self.assertFalse(self.output.exists())


class Comparison(LabTest):
    """`iommulab run` without options that say what to measure."""

    def cells(self):
        return sum(len(experiment.load(name, True).points)
                   for name in sweep.COMPARISON)

    def test_dry_run(self):
        done = self.expect(0, "run", "--dry-run", "--output",
                           str(self.output))
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), self.cells())
        for line in lines:
            self.assertIn("vtime-watch=auto", line)
            self.assertIn("queue-timing=on", line)
        self.assertFalse(self.output.exists())

    def test_any_option_makes_it_the_table(self):
        """Also one that says what is the default."""
        for cpus, cells in ("1", 6), ("1,2,4", 18):
            done = self.expect(0, "run", "--dry-run", "--cpus", cpus)
            self.assertNotIn("queue-timing=on", done.stdout)
            self.assertEqual(len(done.stdout.splitlines()), cells)

    def comparison(self, *args):
        """With a stand-in, which the command line cannot choose."""
        qemu = self.folder / "vtime-qemu"
        qemu.write_text("#!/bin/sh\n# iommulab-port vtime-quantum\n"
                        f"exec {FAKE} \"$@\"\n")
        qemu.chmod(0o755)
        return subprocess.run(
            [sys.executable, "-Bc",
             "import sys; from iommulab import cli, sweep\n"
             "args = cli.parser().parse_args(sys.argv[1:])\n"
             "sys.exit(sweep.comparison(args))", "run", *self.fake(),
             "--no-snapshot", "--qemu", str(qemu), *args], text=True,
            capture_output=True, timeout=self.timeout,
            env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")})

    def test_what_comes_out(self):
        done = self.comparison()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("operations per CPU"),
                         self.cells())
        self.assertEqual(done.stdout.count("Median error"),
                         len(sweep.COMPARISON))
        for line in done.stdout.splitlines():
            if str(self.folder) not in line:
                self.assertLessEqual(len(line), 72, line)
        for name in sweep.COMPARISON:
            self.assertTrue((self.output / f"{name}-short.json").exists())
            self.assertIn(name, (self.output / "report.html").read_text())
        # It measures anew, unless it is told not to.
        done = self.comparison()
        self.assertEqual(done.stderr.count("operations per CPU"),
                         self.cells())
        done = self.comparison("--resume")
        self.assertNotIn("operations per CPU", done.stderr)


if __name__ == "__main__":
    unittest.main()
