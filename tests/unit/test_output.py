# SPDX-License-Identifier: GPL-2.0-or-later
"""What the user sees: table, verdict, progress."""

import io
import os
import unittest
from unittest import mock

import test_result

from iommulab import progress, result, table


def cell(name, cpus, mode, ops):
    line = dict(test_result.LINE, threads=[
        {"cpu": c, "ops": ops, "ns": 10**9} for c in range(cpus)])
    return result.cell(name, cpus, mode, "mapunmap",
                       {"size": 4096, "depth": 50}, "functional",
                       [result.sample(line)], test_result.PROVENANCE)


RATES = {"strict": 100_000, "lazy": 400_000, "passthrough": 123_456_700}


class Table(unittest.TestCase):
    def cells(self, machines=("vtd", "smmuv3"), cpus=(1, 128)):
        return [cell(m, n, mode, ops // n) for m in machines for n in cpus
                for mode, ops in RATES.items()]

    def test_fits_a_cover_letter(self):
        text = table.render(self.cells(), [("vtd", 2, "lazy",
                                            "GUEST FAILED")])
        self.assertTrue(text.isascii())
        self.assertNotIn("\t", text)
        for line in text.splitlines():
            self.assertLessEqual(len(line), 72, line)
            self.assertEqual(line, line.rstrip())

    def test_columns_line_up(self):
        lines = table.render(self.cells()).splitlines()
        rows = [l for l in lines if l.startswith(("vtd ", "smmuv3 "))]
        self.assertEqual({len(l) for l in rows}, {72})

    def test_verdict(self):
        text = " ".join(table.render(self.cells()).split())
        self.assertIn("vtd, 128 CPUs: strict runs at 25 % of lazy, lazy "
                      "runs at 0 % of passthrough; smmuv3, 128", text)

    def test_verdict_of_one_mode(self):
        text = table.render([cell("vtd", 1, "lazy", 5)])
        self.assertIn("Verdict: none", text)

    def test_failures_are_in_the_table_and_the_verdict(self):
        text = table.render([], [("vtd", 1, "lazy", "TIMEOUT")])
        self.assertIn("TIMEOUT", text)
        self.assertIn("Verdict: 1 of the cells failed", text)

    def test_says_what_the_clock_is(self):
        text = " ".join(table.render(self.cells()).split())
        self.assertIn("falls as 1/N by construction", text)
        self.assertIn("Not modelled:", text)

    def test_says_whether_the_queue_takes_time(self):
        cells = self.cells()
        text = " ".join(table.render(cells).split())
        self.assertIn("Not modelled: the time a command spends", text)
        cells[0]["provenance"]["qemu_argv"] = [
            "-global", "arm-smmuv3.queue-timing=on"]
        text = " ".join(table.render(cells).split())
        self.assertIn("Not modelled: cache line transfers", text)
        self.assertIn("waiting for the IOMMU's queue", text)

    def test_nothing_at_all(self):
        self.assertIn("interrupted; 18 cells", table.render([], [], 18))


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def fileno(self):
        raise OSError


class Progress(unittest.TestCase):
    def play(self, stream, **env):
        env = {"TERM": "xterm", **env}
        now = iter(range(1000))
        with mock.patch.dict(os.environ, env, clear=True):
            shown = progress.Progress(stream, lambda: next(now))
            shown.step("building")
            shown.done("built")
            shown.count(4)
            shown.step("vtd 1 CPU strict")
            shown.done("vtd 1 CPU strict: fine")
            shown.failed("vtd 2 CPUs strict: broken")
            shown.end()
        return stream.getvalue()

    def test_plain_lines_elsewhere(self):
        self.assertEqual(self.play(io.StringIO()).splitlines(), [
            "building", "built", "[1/4] vtd 1 CPU strict: fine",
            "[2/4] vtd 2 CPUs strict: broken"])

    def test_bar_and_time_left_on_a_terminal(self):
        text = self.play(Terminal())
        self.assertIn("[#####...............] 1/4", text)
        self.assertRegex(text, r"1/4  \d+ s left  vtd")
        self.assertIn("\x1b[31m", text)
        self.assertTrue(text.endswith("\r\x1b[K"))

    def test_time_left_is_weighed(self):
        """Steps that take longer count for more."""
        now = [0.0]
        shown = progress.Progress(io.StringIO(), lambda: now[0])
        shown.count(3, 20 + 10 + 10)
        self.assertIsNone(shown.left())
        now[0] = 10.0
        shown.done("the long one", 20)
        self.assertEqual(shown.left(), 10)
        now[0] = 20.0
        shown.failed("one of the others", 10)
        self.assertAlmostEqual(shown.left(), 20 / 3)

    def test_no_color(self):
        text = self.play(Terminal(), NO_COLOR="1")
        self.assertNotIn("\x1b[31m", text)
        self.assertIn("1/4", text)

    def test_dumb_terminal(self):
        self.assertNotIn("\x1b", self.play(Terminal(), TERM="dumb"))

    def test_never_wider_than_the_terminal(self):
        stream = Terminal()
        with mock.patch.dict(os.environ, {"TERM": "xterm"}):
            shown = progress.Progress(stream)
            shown.step("x" * 500)
        self.assertEqual(stream.getvalue().count("x"), 79)

    def test_duration(self):
        self.assertEqual([progress.duration(s) for s in (0, 59, 60, 3723)],
                         ["0 s", "59 s", "1:00", "1:02:03"])


if __name__ == "__main__":
    unittest.main()
