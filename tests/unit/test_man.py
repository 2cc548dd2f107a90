# SPDX-License-Identifier: GPL-2.0-or-later
"""The man pages are what the parsers say now, and sound roff."""

import shutil
import subprocess
import sys
import unittest

from lab import ROOT

from iommulab import cli


class Man(unittest.TestCase):
    def test_current(self):
        done = subprocess.run(
            [sys.executable, ROOT / "scripts/mkman", "--check"], text=True,
            capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_page_for_every_verb(self):
        for module in cli.VERBS:
            verb = module.__name__.rpartition(".")[2].replace("suites",
                                                              "test")
            self.assertTrue((ROOT / f"docs/man/iommulab-{verb}.1").exists())

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_no_roff_warnings(self):
        for page in sorted((ROOT / "docs/man").glob("*.1")):
            done = subprocess.run(
                ["groff", "-man", "-Tascii", "-ww", "-z", page], text=True,
                capture_output=True, check=True)
            self.assertEqual(done.stderr, "", page)


if __name__ == "__main__":
    unittest.main()
