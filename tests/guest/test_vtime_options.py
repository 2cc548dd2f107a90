# SPDX-License-Identifier: GPL-2.0-or-later
"""vtime's options: what cannot be had is refused with one sentence."""

import shlex
import subprocess

from lab import LabTest

PROFILE = """[profile]
name=test
[cpu]
ps-per-insn=%s
pause-ps=0
[mmio]
read-ps=0
write-ps=0
[interrupt]
ipi-ps=0
irq-ps=0
"""


class Options(LabTest):
    def setUp(self):
        super().setUp()
        line = self.expect(0, "boot", "--dry-run").stdout
        self.qemu = next(word for word in shlex.split(line)
                         if word.endswith("qemu-system-x86_64"))

    def refused(self, *options):
        done = subprocess.run(
            [self.qemu, "-M", "none", "-display", "none", "-monitor", "none",
             *options], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def profile(self, ps):
        path = self.folder / "profile.ini"
        path.write_text(PROFILE % ps)
        return f"tcg,thread=single,vtime=on,vtime-profile={path}"

    def test_icount(self):
        self.assertIn("exclude each other", self.refused(
            "-accel", "tcg,thread=single,vtime=on", "-icount", "shift=0"))

    def test_threads(self):
        self.assertIn("needs thread=single", self.refused(
            "-accel", "tcg,thread=multi,vtime=on"))

    def test_off(self):
        self.assertIn("vtime-jitter needs vtime=on", self.refused(
            "-accel", "tcg,thread=single,vtime-jitter=1"))

    def test_quantum(self):
        self.assertIn("must be within 1..100000000 ns", self.refused(
            "-accel", "tcg,thread=single,vtime=on,vtime-quantum=0"))

    def test_profile(self):
        self.assertIn("cannot load", self.refused(
            "-accel", "tcg,thread=single,vtime=on,vtime-profile=/nowhere"))
        self.assertIn("must be within 1..", self.refused(
            "-accel", self.profile(0)))
        self.assertIn("ps-per-insn", self.refused(
            "-accel", self.profile("fast")))

    def test_watch_needs_costs(self):
        """vtime-watch without a profile, or one without its groups."""
        self.assertIn("vtime-watch needs vtime-profile", self.refused(
            "-accel", "tcg,thread=single,vtime=on,vtime-watch=auto"))
        self.assertIn("group “topology”", self.refused(
            "-accel", self.profile(400) + ",vtime-watch=auto"))

    def test_watch_word(self):
        self.assertIn("must be off, auto or all, not 'some'", self.refused(
            "-accel", "tcg,thread=single,vtime=on,vtime-watch=some"))

    def test_watch_off(self):
        self.assertIn("vtime-watch needs vtime=on", self.refused(
            "-accel", "tcg,thread=single,vtime-watch=auto"))
