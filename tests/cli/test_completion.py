# SPDX-License-Identifier: GPL-2.0-or-later
"""iommulab completion bash, as bash sees it."""

import shlex
import shutil
import subprocess
import unittest

from lab import LabTest

from iommulab import cli, completion, experiment, machine


@unittest.skipUnless(shutil.which("bash"), "bash is not installed")
class Bash(LabTest):
    @classmethod
    def setUpClass(cls):
        cls.script = completion.script(cli.parser())

    def words(self, *typed):
        """What bash offers after these words."""
        words = ["iommulab", *typed]
        done = subprocess.run(
            ["bash", "-c", f"{self.script}\n"
             f"COMP_WORDS=({shlex.join(words)})\n"
             f"COMP_CWORD={len(words) - 1}\n_iommulab\n"
             'printf "%s\\n" "${COMPREPLY[@]}"'], text=True,
            capture_output=True, cwd=self.folder, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_verbs(self):
        self.assertEqual(self.words("swe"), ["sweep"])
        self.assertIn("patches", self.words(""))

    def test_options(self):
        self.assertEqual(self.words("run", "--iommu"), ["--iommu-cost"])
        self.assertIn("--rerun-failed", self.words("sweep", "--"))
        self.assertNotIn("--rerun-failed", self.words("run", "--"))

    def test_values(self):
        self.assertEqual(self.words("run", "--machine", ""),
                         list(machine.MACHINES))
        self.assertEqual(self.words("run", "--mode", "strict,la"),
                         ["strict,lazy"])
        self.assertEqual(self.words("run", "--watch", "a"), ["auto", "all"])
        self.assertIn("cas20", self.words("run", "--cmdq", ""))
        self.assertEqual(self.words("run", "--cpus", "1"), [])

    def test_experiments_and_files(self):
        (self.folder / "garry.toml").write_text("")
        self.assertEqual(self.words("sweep", "garry"),
                         ["garry-2020", "garry.toml"])
        self.assertLessEqual(set(experiment.names()),
                             set(self.words("report", "")))
        self.assertEqual(self.words("run", "--json", "g"), ["garry.toml"])

    def test_the_command_prints_it(self):
        done = self.expect(0, "completion", "bash")
        self.assertEqual(done.stdout, self.script)
        self.assertIn("bash", self.expect(2, "completion", "tcsh").stderr)


if __name__ == "__main__":
    unittest.main()
