# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tests of the command share."""

import json
import os
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMAND = os.environ.get("IOMMULAB_COMMAND", str(ROOT / "iommulab"))
FAKE = ROOT / "tests" / "fake-qemu"


def heed_interrupt():
    """Undo what a background job inherits; runs in the child."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class LabTest(unittest.TestCase):
    """A case with a folder of its own for the results."""
    timeout = 120

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="iommulab-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        self.output = self.folder / "results"

    def lab(self, *args, **kw):
        """Run the command to its end."""
        return subprocess.run([COMMAND, *args], text=True,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=self.timeout, **kw)

    def start(self, *args):
        """Start the command and return the process. It takes a SIGINT even
        where the tests run in the background of a shell, which ignores it."""
        return subprocess.Popen([COMMAND, *args], text=True,
                                stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, process_group=0,
                                preexec_fn=heed_interrupt)

    def expect(self, code, *args, **kw):
        """Run the command, check its exit code, return the process."""
        done = self.lab(*args, **kw)
        self.assertEqual(done.returncode, code, f"\n{done.stdout}\n"
                                                f"{done.stderr}")
        return done

    def fake(self, behaviour="ok"):
        """Options that make a guest out of tests/fake-qemu."""
        for name in ("kernel", "initramfs"):
            (self.folder / name).write_text(name)
        return ["--qemu", str(FAKE), "--kernel", str(self.folder / "kernel"),
                "--initramfs", str(self.folder / "initramfs"),
                "--output", str(self.output), "--append", f"fake={behaviour}"]

    def load(self, path):
        return json.loads(Path(path).read_text())
