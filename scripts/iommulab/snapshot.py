# SPDX-License-Identifier: GPL-2.0-or-later
"""Machines saved when the guest is up, restored for each job.

Boot once for all jobs that differ in nothing a booting guest can see. The
guest marks the point by its write to the lab port's READY register, before
it reads the job (docs/specs/iommulab-port.rst), and with vtime a restored
machine goes on as one that was booted for the job, to the byte.
"""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from dataclasses import replace

from . import guest, machine, paths
from .errors import GuestError

FOLDER = paths.CACHE / "snapshots"
STATE = "state"
LOGS = (machine.CONSOLE, machine.RESULTS, machine.SERIAL)
LIMIT = 8 << 30         # bytes of snapshots to keep
RECENT = 600            # seconds in which one may still be about to be used


class Saver:
    """Talks QMP to a QEMU that stops when its guest is ready: saves the
    machine in the file STATE of QEMU's folder, then ends it."""

    def __init__(self):
        self.error = None

    def __call__(self, stdin, stdout):
        def send(command, **arguments):
            json.dump({"execute": command, "arguments": arguments}, stdin)
            stdin.flush()

        for line in stdout:
            message = json.loads(line)
            status = message.get("data", {}).get("status")
            if "QMP" in message:
                send("qmp_capabilities")
                send("migrate-set-capabilities", capabilities=[
                    {"capability": "events", "state": True}])
                send("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
            elif message.get("event") == "STOP":
                send("migrate", uri=f"file:{STATE}")
            elif "error" in message:
                self.error = message["error"]["desc"]
                send("quit")
            elif message.get("event") == "MIGRATION" and status == "failed":
                send("query-migrate")
            elif message.get("return", {}).get("status") == "failed":
                self.error = message["return"].get("error-desc", "failed")
                send("quit")
            elif message.get("event") == "MIGRATION" and \
                    status == "completed":
                send("quit")


def provide(cell, work, timeout, stop):
    """The folder of the snapshot that fits a run.Cell; boots the machine in
    the folder `work` if there is none yet."""
    argv = _argv(cell)
    FOLDER.mkdir(parents=True, exist_ok=True)
    final = FOLDER / _key(cell, argv)
    with open(f"{final}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not final.is_dir():
            saver = Saver()
            guest.run(argv, work, timeout, "ready", stop, saver)
            if saver.error or not (work / STATE).is_file():
                raise GuestError(
                    "the machine cannot be saved: "
                    f"{saver.error or 'QEMU left no state'}; "
                    "--no-snapshot does without")
            _keep(work, final)
        os.utime(final)
    return final


def restore(folder, work, argv):
    """Prepare `work` for the machine saved in `folder`; its command line."""
    for name in LOGS:
        shutil.copyfile(folder / name, work / name)
    # The logs go on where those of the saved machine end.
    return [*(f"{word},append=on" if word.startswith("file,id=") else word
              for word in argv), "-incoming", f"file:{folder / STATE}"]


def _argv(cell):
    """The command line that boots and stops; the same for each job."""
    clock = replace(cell.clock, quantum=None, jitter=0, watch="off")
    return machine.argv(
        cell.machine, cell.cpus, cell.files, cell.cmdline, cell.port, clock,
        extra=(*cell.qemu_opts, "-qmp", "stdio",
               "-global", f"{machine.PORT}.stop-when-ready=on",
               # The restored machine runs, though this one was stopped.
               "-global", "migration.store-global-state=off"))


def _key(cell, argv):
    known = [str(path) for path in (cell.files.qemu, cell.files.kernel,
                                    cell.files.initramfs, cell.clock.profile)]
    bare = [word for word in argv if not any(path in word for path in known)]
    text = json.dumps([bare, cell.binaries])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _keep(work, final):
    _prune()
    part = tempfile.mkdtemp(dir=FOLDER, prefix=f"{final.name}.part-")
    for name in (STATE, *LOGS):
        shutil.move(work / name, os.path.join(part, name))
    os.rename(part, final)


def _prune():
    """Delete what was not used for longest, beyond the limit."""
    total = 0
    found = sorted((entry for entry in os.scandir(FOLDER) if entry.is_dir()),
                   key=lambda entry: -entry.stat().st_mtime)
    for entry in found:
        total += sum(file.stat().st_size for file in os.scandir(entry))
        if total > LIMIT and entry.stat().st_mtime < time.time() - RECENT:
            shutil.rmtree(entry, ignore_errors=True)
            try:
                os.unlink(f"{entry.path}.lock")
            except FileNotFoundError:
                pass
