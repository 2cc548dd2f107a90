# SPDX-License-Identifier: GPL-2.0-or-later
"""Wrong usage: exit 2, and the valid words are listed."""

import unittest

from lab import LabTest

VERBS = ("run", "build", "boot", "doctor", "test", "patches")


class Usage(LabTest):
    def wrong(self, *args, lists):
        done = self.expect(2, *args)
        self.assertEqual(done.stdout, "")
        for word in lists:
            self.assertIn(word, done.stderr)

    def test_unknown_verb(self):
        self.wrong("measure", lists=VERBS)

    def test_no_verb(self):
        self.wrong(lists=VERBS)

    def test_unknown_machine(self):
        for verb in ("run", "boot"):
            self.wrong(verb, "--machine", "sparc",
                       lists=("sparc", "vtd", "smmuv3"))

    def test_unknown_algorithm(self):
        self.wrong("run", "--iova", "nonsense",
                   lists=("nonsense", "rcache, rbtree46, ", "pools:1|2|4"))
        self.wrong("run", "--cmdq", "casual", lists=("cas, spin53, ", "add"))

    def test_other_machines_algorithm(self):
        for name, option, valid in (("vtd", "cmdq=cas", "smmuv3"),
                                    ("smmuv3", "vtd-map=pages", "vtd"),
                                    ("smmuv3", "vtd-flush=tags", "vtd")):
            self.wrong("run", "--dry-run", "--machine", name, f"--{option}",
                       lists=(f"(valid: --machine {valid})",))

    def test_one_unknown_machine_of_two(self):
        self.wrong("run", "--machine", "vtd,sparc", lists=("vtd, smmuv3",))

    def test_unknown_mode(self):
        for verb in ("run", "boot"):
            self.wrong(verb, "--mode", "eager",
                       lists=("eager", "strict", "lazy", "passthrough"))

    def test_unknown_workload(self):
        self.wrong("run", "--workload", "x", lists=("mapunmap",))

    def test_unknown_suite(self):
        self.wrong("test", "--suite", "all",
                   lists=("unit", "qtest", "guest", "cli"))

    def test_unknown_knob(self):
        self.wrong("run", "--knob", "deep=1", "--dry-run",
                   lists=("depth", "size"))

    def test_costs(self):
        for text in ("sync", "sync=", "=4", "sync=-1", "sync=4ns", "Sync=4",
                     "timing=1", "sync=4,,write=3", "profile=x", "", "sync=²"):
            for verb in ("run", "boot"):
                self.wrong(verb, f"--iommu-cost={text}", "--dry-run",
                           lists=("profile, clock-hz=CYCLES", "sync=CYCLES"))

    def test_unknown_option(self):
        self.wrong("run", "--speed", "9", lists=("--speed",))

    def test_cpus_out_of_range(self):
        for cpus in ("0", "129", "-1", "two", "1,,2"):
            self.wrong("run", f"--cpus={cpus}", lists=("1 to 128",))

    def test_durations(self):
        for text in ("0", "fast", "1h", "-1s"):
            self.wrong("run", f"--duration={text}", lists=("100ms",))

    def test_missing_files(self):
        for option in ("--kernel", "--qemu", "--initramfs"):
            self.wrong("run", "--machine", "vtd", "--dry-run", option,
                       "/nonexistent", lists=(option, "/nonexistent"))

    def test_one_kernel_for_two_machines(self):
        fake = self.fake()
        self.wrong("run", "--dry-run", *fake, lists=("--machine",))

    def test_json_into_no_folder(self):
        self.wrong("run", "--dry-run", "--json", "/nonexistent/x.json",
                   lists=("/nonexistent",))
        self.wrong("run", "--dry-run", "--json", str(self.folder),
                   lists=("is a folder",))

    def test_output_that_is_a_file(self):
        self.wrong("boot", "--dry-run", "--output", __file__,
                   lists=("is not a folder",))

    def test_help_of_every_verb(self):
        for verb in VERBS:
            done = self.expect(0, verb, "--help")
            self.assertIn(f"iommulab {verb}", done.stdout)


if __name__ == "__main__":
    unittest.main()
