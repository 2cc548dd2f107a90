# SPDX-License-Identifier: GPL-2.0-or-later
"""The test runner itself: it must see every way a test can fail."""

import io
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from lab import ROOT

from iommulab import progress, suites


def count(output, status=0):
    tally = suites.parse("t", textwrap.dedent(output), status)
    return tally.passed, len(tally.failed), len(tally.skipped)


class Parse(unittest.TestCase):
    def test_passed_failed_skipped(self):
        self.assertEqual(count("""\
            TAP version 13
            1..3
            ok 1 - one
            not ok 2 - two
            # why
            ok 3 /a/b # SKIP no such machine
            """, 1), (1, 1, 1))

    def test_glib_style(self):
        self.assertEqual(count("""\
            # random seed: R02S
            1..2
            # Start of x86_64 tests
            ok 1 /x86_64/iommu/a
            ok 2 /x86_64/iommu/b
            # End of x86_64 tests
            """), (2, 0, 0))

    def test_status_without_a_failed_case(self):
        self.assertEqual(count("1..1\nok 1 - a\n", 134), (1, 1, 0))
        self.assertEqual(count("1..1\nok 1 - a\n", -11), (1, 1, 0))

    def test_missing_cases(self):
        self.assertEqual(count("1..3\nok 1 - a\n"), (1, 1, 0))

    def test_no_output(self):
        self.assertEqual(count(""), (0, 1, 0))
        self.assertEqual(count("hello\n", 1), (0, 1, 0))

    def test_bail_out(self):
        self.assertEqual(count("1..1\nBail out! no disk\n", 1), (0, 1, 0))

    def test_skipped_as_a_whole(self):
        self.assertEqual(count("", 77), (0, 0, 1))
        self.assertEqual(count("1..0 # SKIP not here\n"), (0, 0, 1))

    def test_todo_is_not_a_pass_when_it_fails(self):
        self.assertEqual(count("1..1\nnot ok 1 - a # TODO later\n", 1),
                         (0, 1, 0))

    def test_last_line(self):
        self.assertEqual(str(suites.Tally(3)), "3 passed, 0 failed")
        self.assertEqual(str(suites.Tally(3, ["a"], ["b", "c"])),
                         "3 passed, 1 failed, 2 skipped")


class Execute(unittest.TestCase):
    def shell(self, script, timeout=20):
        program = suites.Program("t", ("sh", "-c", script), timeout)
        return suites.run([program], 1, progress.Progress(io.StringIO()))

    def test_passes(self):
        self.assertEqual(str(self.shell("echo 1..1; echo ok 1 - a")),
                         "1 passed, 0 failed")

    def test_fails(self):
        self.assertEqual(str(self.shell("echo 1..1; echo not ok 1 - a")),
                         "0 passed, 1 failed")

    def test_timeout_ends_the_children_too(self):
        with tempfile.TemporaryDirectory() as folder:
            mark = Path(folder) / "mark"
            tally = self.shell("echo 1..2; echo ok 1 - a; "
                               f"(sleep 3; touch {mark}) & wait", 1)
            self.assertEqual(str(tally), "1 passed, 1 failed")
            subprocess.run(["sleep", "3"], check=True)
            self.assertFalse(mark.exists())


class Tap(unittest.TestCase):
    def run_file(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "test_x.py"
            path.write_text("import unittest\nclass A(unittest.TestCase):\n"
                            + textwrap.indent(textwrap.dedent(text), "  "))
            done = subprocess.run(
                [sys.executable, ROOT / "tests/tap.py", path], text=True,
                capture_output=True)
        tally = suites.parse("t", done.stdout, done.returncode)
        return str(tally)

    def test_each_outcome(self):
        self.assertEqual(self.run_file("""\
            def test_a(self): pass
            def test_b(self): self.fail()
            def test_c(self): 1 / 0
            @unittest.skip("why")
            def test_d(self): pass
            """), "1 passed, 2 failed, 1 skipped")

    def test_failed_subtest(self):
        self.assertEqual(self.run_file("""\
            def test_a(self):
                with self.subTest(): self.fail()
            """), "0 passed, 1 failed")

    def test_failed_class_setup(self):
        self.assertEqual(self.run_file("""\
            @classmethod
            def setUpClass(cls): 1 / 0
            def test_a(self): pass
            """), "0 passed, 1 failed")

    def test_file_that_does_not_load(self):
        self.assertEqual(self.run_file("1 / 0\n"), "0 passed, 1 failed")


if __name__ == "__main__":
    unittest.main()
