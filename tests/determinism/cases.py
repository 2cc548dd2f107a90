# SPDX-License-Identifier: GPL-2.0-or-later
"""Virtual time: same inputs, same bytes, whatever the host does."""

import hashlib
import os
import re
import subprocess
import sys

from lab import LabTest

# All that leaves the guest and the scheduler. The trace has QEMU's own view:
# who was parked, woken and interrupted when, in virtual time.
FILES = ("console.log", "result.jsonl", "trace.log")
TRACE = ("-d trace:vtime_region,trace:vtime_park,trace:vtime_unpark,"
         "trace:vtime_interrupt -D trace.log")


REGION = b"vtime_region begin "


def by_time(line):
    """Order within an instant: timers that expire together run in the order
    in which they were set, and restoring a machine sets them anew."""
    match = re.search(rb"(\d+) ps", line)
    return match and int(match[1]) or 0, line


class Deterministic:
    name = None
    timeout = 600

    def run_once(self, where, *extra, key=None, **kw):
        """{file: sha256} of one short run with 16 CPUs."""
        output = self.folder / where
        self.expect(0, "run", "--machine", self.name, "--cpus", "16",
                    "--mode", "strict", "--duration", "2ms", "--knob",
                    "warmup=1", "--qemu-opt=" + TRACE, "--output",
                    str(output), *extra, **kw)
        [cell] = output.iterdir()
        found = {name: (cell / name).read_bytes() for name in FILES}
        # A restored machine's trace lacks the boot.
        found["trace.log"] = found["trace.log"].partition(REGION)[2]
        if key:
            lines = found["trace.log"].splitlines()
            found["trace.log"] = b"\n".join(sorted(lines, key=key))
        for name, data in found.items():
            self.assertTrue(data, f"{name} is empty")
        return {name: hashlib.sha256(data).hexdigest()
                for name, data in found.items()}

    def test_same_bytes_under_load(self):
        first = self.run_once("quiet")
        # Both cores busy, and QEMU's two threads on one of them.
        spin = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                for _ in os.sched_getaffinity(0)]
        try:
            one = min(os.sched_getaffinity(0))
            second = self.run_once(
                "busy", preexec_fn=lambda: os.sched_setaffinity(0, {one}))
        finally:
            for process in spin:
                process.kill()
                process.wait()
        self.assertEqual(first, second)

    def test_a_restored_machine_gives_the_same(self):
        booted = self.run_once("booted", "--no-snapshot", key=by_time)
        restored = self.run_once("restored", "--snapshot", key=by_time)
        self.assertEqual(booted, restored)

    def test_jitter_changes_them(self):
        first = self.run_once("none")
        second = self.run_once("seven", "--jitter", "7")
        self.assertNotEqual(first["result.jsonl"], second["result.jsonl"])


__all__ = ["Deterministic", "LabTest"]
