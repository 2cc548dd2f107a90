# SPDX-License-Identifier: GPL-2.0-or-later
"""Run one guest to its end and say plainly how it went."""

import json
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import logscan, machine
from .errors import EnvError, GuestError, GuestTimeout

POLL = 0.05             # seconds between two looks at a running guest
TAIL = 20               # lines of a log shown with a failure
PREFIX = '{"iommulab":'
QEMU_LOG = "qemu.log"


class Stopped(Exception):
    """The caller's stop event was set while the guest ran."""


@dataclass
class Outcome:
    seconds: float                  # host time until QEMU was gone
    ready: float = None             # host time until the ready line
    lines: list = field(default_factory=list)
    findings: list = field(default_factory=list)    # none of them fatal

    def line(self, kind):
        """The last result line of this kind, or None."""
        return next((line for line in reversed(self.lines)
                     if line["iommulab"] == kind), None)


def default_timeout(cpus):
    """Host seconds a healthy guest stays well below, on a slow host too."""
    return 180 + 6 * cpus


def run(argv, folder, timeout, want, stop=None, qmp=None):
    """Start QEMU in `folder`, wait, and return the Outcome. `qmp` is called
    in a thread, with QEMU's standard input and output.

    Raises GuestTimeout, GuestError (panic, oops, QEMU died, or no `want`
    line) or Stopped; whatever happens, no process is left behind.
    """
    seconds, ready, status = _execute(argv, folder, timeout, stop, qmp)
    logs = {name: _read(folder / name)
            for name in (machine.CONSOLE, machine.SERIAL, QEMU_LOG)}
    # The console to show: the lab port's, unless the guest did not get so far.
    log = machine.CONSOLE if logs[machine.CONSOLE] or not \
        logs[machine.SERIAL] else machine.SERIAL

    # The same line may be on both consoles.
    findings = {f.text: (name, f) for name, text in reversed(logs.items())
                for f in logscan.scan(text)}.values()
    for name, finding in findings:
        if finding.fatal:
            raise GuestError(_explain(
                f"{_what(finding.kind)}: {finding.text}", folder / name))
    if status is None:
        raise GuestTimeout(_explain(
            f"the guest did not finish within {timeout:g} s", folder / log))

    lines = _result_lines(folder, logs[log], log)
    error = next((l for l in lines if l["iommulab"] == "error"), None)
    if error:
        raise GuestError(_explain(
            f"the guest reports an error: {error.get('message')}",
            folder / log))
    outcome = Outcome(seconds, ready, lines, [f for _, f in findings])
    if not outcome.line(want):
        if status:
            raise GuestError(_explain(_died(status), folder / (
                QEMU_LOG if logs[QEMU_LOG].strip() else log)))
        raise GuestError(_explain(
            f"the guest ended without its {want} line", folder / log))
    end = outcome.line("exit")
    code = end.get("status") if end else status
    if code or status:
        raise GuestError(_explain(
            f"the guest's job failed with status {code or status}",
            folder / log))
    return outcome


def _execute(argv, folder, timeout, stop, qmp):
    """(seconds, seconds until ready, exit status or None on timeout)"""
    start = time.monotonic()
    ready = None
    with open(folder / QEMU_LOG, "wb") as log:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE,
                 "text": True} if qmp else {"stdin": subprocess.DEVNULL,
                                            "stdout": log}
        try:
            # A process group of its own: the terminal's Ctrl-C is ours to
            # handle, and one signal ends everything QEMU started.
            process = subprocess.Popen(
                argv, cwd=folder, stderr=log, process_group=0, **pipes)
        except OSError as err:
            raise EnvError(f"cannot start {argv[0]}: {err.strerror}")
    talk = threading.Thread(target=_talk, args=(qmp, process))
    talk.start()
    try:
        while True:
            try:
                status = process.wait(POLL)
            except subprocess.TimeoutExpired:
                status = None
            seconds = time.monotonic() - start
            if ready is None and _is_ready(folder):
                ready = seconds
            if status is not None:
                return seconds, ready, status
            if seconds > timeout:
                return seconds, ready, None
            if stop and stop.is_set():
                raise Stopped
    finally:
        _kill(process)
        talk.join()


def _talk(qmp, process):
    """Let `qmp` talk to QEMU until one of them ends."""
    if qmp:
        with process.stdin, process.stdout:
            try:
                qmp(process.stdin, process.stdout)
            except BrokenPipeError:
                pass


def _kill(process):
    """End the whole group, politely first so that QEMU flushes its files."""
    for number, patience in ((signal.SIGTERM, 2), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            pass


def _is_ready(folder):
    mark = PREFIX + '"ready"'
    return any(mark in _read(folder / name) for name in (
        machine.RESULTS, machine.CONSOLE, machine.SERIAL))


def _result_lines(folder, console, log):
    """The result channel's lines; without one, those on the console."""
    channel = _read(folder / machine.RESULTS)
    where = folder / (machine.RESULTS if channel.strip() else log)
    lines = []
    for raw in (channel if channel.strip() else console).splitlines():
        raw = raw.strip()
        if not raw.startswith(PREFIX):
            if channel.strip() and raw:
                raise GuestError(_explain(
                    f"not a result line: {raw[:60]!r}", where))
            continue
        try:
            lines.append(json.loads(raw))
        except ValueError:
            raise GuestError(_explain(
                f"unreadable result line: {raw[:60]!r}", where)) from None
    return lines


def _what(kind):
    return {"panic": "the guest panicked", "oops": "the guest oopsed",
            "BUG": "the guest hit a BUG", "lockup": "the guest locked up",
            "refused": "the guest refused an option",
            "QEMU abort": "QEMU aborted"}[kind]


def _died(status):
    if status < 0:
        return f"QEMU was killed by {signal.Signals(-status).name}"
    return f"QEMU ended with status {status} and no result"


def _explain(what, path):
    tail = _read(path).splitlines()[-TAIL:]
    shown = "".join(f"\n  | {line}" for line in tail)
    return f"{what}\n  log: {path}{shown}"


def _read(path):
    try:
        return Path(path).read_text(errors="replace")
    except FileNotFoundError:
        return ""
