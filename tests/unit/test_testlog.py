# SPDX-License-Identifier: GPL-2.0-or-later
"""Results of tests as KTAP and as JUnit's XML."""

import re
import unittest
from xml.etree import ElementTree

from iommulab import suites, testlog

OUTPUT = """\
1..4
ok 1 - A.one
not ok 2 - A.two
#   Traceback: x < 1 & "\x1b[0m"
ok 3 - A.three # SKIP no such machine: none
ok 4 /a/b#c
"""


def ran(output=OUTPUT, status=1, name="unit/x"):
    tally = suites.parse(name, output, status)
    return testlog.Ran(name, 1.5, testlog.cases(
        name, output, tally.failed, tally.skipped))


class Cases(unittest.TestCase):
    def test_each_case_once(self):
        found = ran()
        self.assertEqual([(c.name, c.status) for c in found.cases], [
            ("A.one", "ok"), ("A.two", "failed"), ("A.three", "skipped"),
            ("/a/b#c", "ok")])
        self.assertEqual(found.cases[2].why, "no such machine: none")
        self.assertEqual(len(found.cases[1].lines), 1)

    def test_what_is_wrong_with_a_program(self):
        for output, status, words in (("", 1, "ended with status 1"),
                                      ("1..2\nok 1 - a\n", 0, "ran 1 of 2"),
                                      ("", 0, "ran no test")):
            found = ran(output, status)
            self.assertTrue(found.bad)
            self.assertIn(words, found.cases[-1].lines[0])

    def test_a_program_that_is_skipped(self):
        found = ran("1..0 # SKIP not here\n", 0)
        self.assertEqual([(c.status, c.why) for c in found.cases],
                         [("skipped", "SKIP not here")])
        self.assertIn("ok 1 unit/x # SKIP", testlog.ktap([found]))


class Ktap(unittest.TestCase):
    def test_text(self):
        self.assertEqual(testlog.ktap([ran(), ran("1..1\nok 1 - a\n", 0,
                                                  "cli/y")]), """\
KTAP version 1
1..2
  KTAP version 1
  1..4
  ok 1 A.one
  # Traceback: x < 1 & "\x1b[0m"
  not ok 2 A.two
  ok 3 A.three # SKIP no such machine: none
  ok 4 /a/bc
not ok 1 unit/x
  KTAP version 1
  1..1
  ok 1 a
ok 2 cli/y
""")


class Junit(unittest.TestCase):
    def test_xml(self):
        root = ElementTree.fromstring(testlog.junit([ran()]))
        [suite] = root
        self.assertEqual(suite.attrib, {
            "name": "unit/x", "tests": "4", "failures": "1", "skipped": "1",
            "errors": "0", "time": "1.500"})
        self.assertEqual([c.get("name") for c in suite],
                         ["A.one", "A.two", "A.three", "/a/b#c"])
        self.assertIn('x < 1 & "?[0m"', suite[1].find("failure").text)
        self.assertEqual(suite[2].find("skipped").get("message"),
                         "no such machine: none")
        self.assertFalse(re.search("\x1b", testlog.junit([ran()])))


if __name__ == "__main__":
    unittest.main()
