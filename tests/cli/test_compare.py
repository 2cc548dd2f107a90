# SPDX-License-Identifier: GPL-2.0-or-later
"""iommulab compare: two result files, two kernels, and the gate."""

import json
import re
import subprocess
import unittest

from lab import FAKE, LabTest


class Compare(LabTest):
    def setUp(self):
        super().setUp()
        self.qemu = self.folder / "vtime-qemu"
        self.qemu.write_text("#!/bin/sh\n# iommulab-port vtime-quantum\n"
                             f"exec {FAKE} \"$@\"\n")
        self.qemu.chmod(0o755)
        for name in ("old", "same", "slow"):
            (self.folder / name).write_text(name)
        (self.folder / "initramfs").write_text("x")

    def kernels(self, code, a, b, *args, behaviour="ok", modes="strict"):
        return self.expect(
            code, "compare", str(self.folder / a), str(self.folder / b),
            "--machine", "vtd", "--cpus", "1", "--mode", modes, "--qemu",
            str(self.qemu), "--initramfs", str(self.folder / "initramfs"),
            "--no-snapshot", "--output", str(self.output), "--append",
            f"fake={behaviour}", "--repeats", "4", *args)

    def result(self, name, kernel="old", *args):
        path = self.folder / name
        self.expect(0, "run", "--machine", "vtd", "--cpus", "1", "--mode",
                    "strict,lazy", *self.fake(), "--kernel",
                    str(self.folder / kernel), "--json", str(path), *args)
        return str(path)

    def test_the_gate_fails(self):
        done = self.kernels(1, "old", "slow", "--fail-on", "regression:5%")
        self.assertIn("Regression: vtd 1 strict -50.0 %", done.stdout)
        self.assertIn("Verdict: B is slower in 1 of 1 cell, by 50.0 %",
                      done.stdout)
        # Nor does it fail where it should not.
        self.kernels(0, "old", "slow", "--resume", "--fail-on",
                     "regression:60%")
        self.kernels(0, "old", "same", "--fail-on", "regression:0.1%")
        done = self.kernels(0, "slow", "old", "--resume", "--fail-on",
                            "regression:5%")
        self.assertIn("B is faster in 1 of 1 cell, by 99.9 %", done.stdout)

    def test_interval(self):
        done = self.kernels(0, "old", "slow", "--json",
                            str(self.folder / "c.json"), modes="passthrough")
        self.assertRegex(done.stdout, r"-49\.\d % \[-5\d\.\d, -4\d\.\d\]")
        self.assertIn("A against itself might show ", " ".join(
            done.stdout.split()))
        data = self.load(self.folder / "c.json")
        self.assertEqual(data["schema"], "iommulab/compare/1")
        [cell] = data["cells"]
        self.assertEqual(len(cell["a_ops_per_cpu_per_s"]), 4)
        self.assertLess(cell["interval"][0], cell["ratio"])
        self.assertLess(cell["p"], 0.03)
        done = self.kernels(0, "old", "same", "--resume",
                            modes="passthrough")
        self.assertIn("A and B do not differ in any of 1 cell", done.stdout)

    def test_a_threshold_below_the_floor_is_told(self):
        done = self.kernels(0, "old", "same", "--fail-on", "regression:1%",
                            modes="passthrough")
        self.assertIn("more than --fail-on looks for", " ".join(
            done.stdout.split()))

    def test_one_run_has_no_interval(self):
        done = self.kernels(0, "old", "slow", "--repeats", "1")
        self.assertIn("One run of each cell: no interval.", done.stdout)
        self.assertIn("-50.0 %\n", done.stdout)

    def test_few_runs_do_not_tell(self):
        done = self.kernels(0, "old", "slow", "--repeats", "3", "--fail-on",
                            "regression:5%")
        self.assertIn("Under 4 runs: no interval.", done.stdout)
        self.assertIn("too few runs to tell", done.stdout)

    def test_interleaved(self):
        done = self.kernels(0, "old", "slow", "--dry-run", "--repeats", "2")
        names = [line.split("-kernel ")[1].split()[0].rpartition("/")[2]
                 for line in done.stdout.splitlines()]
        self.assertEqual(names, ["old", "slow"] * 2)
        self.assertFalse(self.output.exists())

    def test_result_files(self):
        a, b = self.result("a.json"), self.result("b.json", "slow")
        done = self.expect(1, "compare", a, b, "--fail-on", "regression:5%")
        self.assertIn("vtd 1 lazy", done.stdout)
        self.assertIn("slower in 2 of 2 cells, by up to 50.0 %. Geometric "
                      "mean -50.0 %", " ".join(done.stdout.split()))
        done = self.expect(0, "compare", a, a, "--fail-on", "regression:1%",
                           "--json", "-")
        self.assertEqual([c["ratio"] for c in
                          json.loads(done.stdout)["cells"]], [1, 1])

    def test_cells_that_only_one_has(self):
        a = self.result("a.json")
        b = self.result("b.json", "old", "--mode", "strict")
        self.assertIn("1 cell is in A only.",
                      self.expect(0, "compare", a, b).stdout)
        c = self.result("c.json", "old", "--mode", "passthrough")
        self.assertIn("no cell in common",
                      self.expect(2, "compare", b, c).stderr)

    def test_a_cell_with_another_knob_is_another_cell(self):
        a = self.result("a.json")
        b = self.result("b.json", "old", "--knob", "depth=8")
        self.assertIn("no cell in common",
                      self.expect(2, "compare", a, b).stderr)

    def test_a_guest_that_fails(self):
        done = self.kernels(5, "old", "slow", behaviour="panic")
        self.assertIn("the guest panicked", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_commits(self):
        """Both ends are built for the machines asked for, if they can be
        measured at all."""
        def git(*args):
            subprocess.run(
                ["git", "-C", self.folder, "-c", "user.name=t", "-c",
                 "user.email=t@localhost.invalid", *args], check=True,
                stdout=subprocess.DEVNULL)
        git("init", "-q")
        git("commit", "-q", "--allow-empty", "-m", "no driver")
        git("tag", "plain")
        driver = self.folder / "drivers/misc/iommulab/port.c"
        driver.parent.mkdir(parents=True)
        for name in ("base", "topic"):
            driver.write_text(name)
            git("add", "drivers")
            git("commit", "-q", "-m", name)
            git("tag", name)
        args = ("--tree", str(self.folder), "--machine", "vtd", "--dry-run")
        done = self.expect(2, "compare", "plain..topic", *args)
        self.assertIn("'plain' has no drivers/misc/iommulab", done.stderr)
        out = self.expect(0, "compare", "base..", *args).stdout
        self.assertEqual(re.findall(r"^build kernel-x86_64 of [0-9a-f]{12}$",
                                    out, re.M), out.splitlines())
        self.assertEqual(len(set(out.splitlines())), 2)

    def test_bad_input(self):
        (self.folder / "bad.json").write_text('{"schema": 1}')
        (self.folder / "tree").mkdir()
        good = self.result("a.json")
        old = str(self.folder / "old")
        for args, says in (
                ((old,), "give two result files, two kernels, or"),
                (("v6.1..topic", "--tree", str(self.folder)),
                 "has no commit 'v6.1'"),
                (("v6.1..topic", "--tree", "/no/such"), "there is no /no/such"),
                ((old, "/no/such"), "there is no file /no/such"),
                ((good, old), "not of one kind"),
                ((good, str(self.folder / "bad.json")), "is no result file"),
                ((old, str(self.folder / "tree")), "it has no arch/"),
                ((old, old, "--jitter", "3"), "'compare' sets it"),
                ((old, old, "--kernel", old), "'compare' sets it"),
                ((good, good, "--fail-on", "regression"), "not to fail on"),
                ((good, good, "--fail-on", "regression:0%"),
                 "not to fail on"),
                ((old, old), "is one file, but 2 machines")):
            done = self.expect(2, "compare", *args)
            self.assertIn(says, done.stderr)
            self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main()
