# SPDX-License-Identifier: GPL-2.0-or-later
"""iommulab test: build what the tests need, run them, count them.

Every test is a program that speaks TAP (https://testanything.org) on stdout.
A Python file of unittest cases becomes one through tests/tap.py.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from . import build, options, paths, testlog
from .errors import FAILED, OK, UsageError
from .progress import Progress, duration

SKIP_STATUS = 77        # "skipped", as in automake, meson and liburing
TESTS = paths.ROOT / "tests"


@dataclass(frozen=True)
class Program:
    """One test program; it may hold many cases."""
    name: str
    argv: tuple
    timeout: int
    env: dict = field(default_factory=dict, compare=False)


@dataclass
class Tally:
    passed: int = 0
    failed: list = field(default_factory=list)      # "name: what"
    skipped: list = field(default_factory=list)     # "name: why"
    programs: list = field(default_factory=list)    # of testlog.Ran

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.programs += other.programs

    def __str__(self):
        text = f"{self.passed} passed, {len(self.failed)} failed"
        if self.skipped:
            text += f", {len(self.skipped)} skipped"
        return text


def _python(suite, timeout):
    return [Program(f"{suite}/{path.stem}",
                    (sys.executable, str(TESTS / "tap.py"), str(path)),
                    timeout)
            for path in sorted((TESTS / suite).glob("test_*.py"))]


def _qtests():
    """The binaries tests/qtest/suite.list names, each with its QEMU."""
    return [Program(f"qtest/{arch}/{test}",
                    (str(build.artefact("qtests") / test), "--tap", "-k"),
                    300, {"QTEST_QEMU_BINARY": str(
                        build.artefact(f"qemu-system-{arch}"))})
            for arch, test in build.qtest_list()]


GUEST = ("qemu", "kernel-x86_64", "kernel-arm64", "initramfs-x86_64",
         "initramfs-arm64")

# name -> (artefacts it needs, its programs)
SUITES = {
    "unit": ((), lambda: _python("unit", 300)),
    "cli": ((), lambda: _python("cli", 600)),
    "qtest": (("qemu", "qtests"), _qtests),
    "laws": (GUEST, lambda: _python("laws", 900)),
    "guest": (GUEST, lambda: _python("guest", 900)),
    "determinism": (GUEST, lambda: _python("determinism", 900)),
}


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "test", help="build and pass the tests",
        description="Build what the tests need and run them. The last line "
                    "counts the test cases.")
    parser.add_argument(
        "--suite", metavar="LIST", default=list(SUITES),
        type=options.list_of(options.one_of(SUITES, "suite")),
        help="any of: " + ", ".join(SUITES) + " (default: all)")
    parser.add_argument(
        "--jobs", metavar="N", type=options.positive,
        help="test programs to run at the same time (default: the host's "
             "CPUs)")
    parser.add_argument(
        "--ktap", metavar="FILE",
        help="write the results as KTAP, as the kernel's tests do; - prints "
             "them instead of the summary")
    parser.add_argument(
        "--junit", metavar="FILE",
        help="write the results as JUnit's XML, which CI services read")
    parser.set_defaults(func=main)


def main(args):
    for name in (args.ktap, args.junit):
        if name and name != "-" and \
                not Path(name).absolute().parent.is_dir():
            raise UsageError(
                f"there is no folder {Path(name).absolute().parent}")
    progress = Progress()
    needed = sorted({item for s in args.suite for item in SUITES[s][0]})
    if needed:
        build.ensure(needed, progress)
    programs = [p for s in args.suite for p in SUITES[s][1]()]
    total = run(programs, args.jobs or len(os.sched_getaffinity(0)), progress)
    total.programs.sort(key=lambda ran: ran.name)
    if args.junit:
        Path(args.junit).write_text(testlog.junit(total.programs))
    if args.ktap == "-":
        print(testlog.ktap(total.programs), end="")
        return FAILED if total.failed else OK
    if args.ktap:
        Path(args.ktap).write_text(testlog.ktap(total.programs))
    for text in total.skipped:
        print(f"skipped: {text}")
    for text in total.failed:
        print(f"FAILED: {text}")
    print(total)
    return FAILED if total.failed else OK


def run(programs, jobs, progress):
    """The Tally of all programs."""
    total = Tally()
    progress.count(len(programs))
    pool = ThreadPoolExecutor(jobs)
    todo = {pool.submit(execute, p): p for p in programs}
    try:
        for future in as_completed(todo):
            program = todo[future]
            tally, output, seconds = future.result()
            tally.programs = [testlog.Ran(
                program.name, seconds, testlog.cases(
                    program.name, output, tally.failed, tally.skipped))]
            total.add(tally)
            line = f"{program.name}: {tally}, {duration(seconds)}"
            if tally.failed:
                progress.failed(line)
                progress.note(output.rstrip())
            else:
                progress.done(line)
    finally:
        pool.shutdown(cancel_futures=True)
        progress.end()
    return total


def execute(program):
    """(Tally, output, seconds) of one test program."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="iommulab-test-") as folder:
        process = subprocess.Popen(
            program.argv, cwd=folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", process_group=0,
            env={**os.environ, **program.env})
        try:
            output, _ = process.communicate(timeout=program.timeout)
            tally = parse(program.name, output, process.returncode)
        except subprocess.TimeoutExpired:
            output = _end(process)
            tally = parse(program.name, output, None)
            tally.failed.append(
                f"{program.name}: not done within {program.timeout} s")
        finally:
            _end(process)
    return tally, output, time.monotonic() - start


def _end(process):
    """End the program and what it started; return what it had printed."""
    output = ""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            output = process.communicate(timeout=10)[0]
            break
        except (subprocess.TimeoutExpired, ValueError):
            continue
    return output or ""


def parse(name, output, status):
    """Count the cases in a program's TAP output. `status` is its exit status;
    None if it was not let to its end."""
    tally = Tally()
    plan = None
    for line in output.splitlines():
        match = testlog.RESULT.match(line)
        if match:
            bad, case, directive, why = match.groups()
            case = f"{name}: {case}"
            if directive and directive.upper() == "SKIP":
                tally.skipped.append(f"{case}: {why or 'no reason given'}")
            elif bad:
                tally.failed.append(case)
            else:
                tally.passed += 1
        elif re.match(r"1\.\.\d+", line):
            plan = int(line.split()[0][3:])
            if plan == 0:
                tally.skipped.append(
                    f"{name}: {line.partition('#')[2].strip() or 'no cases'}")
        elif line.startswith("Bail out!"):
            tally.failed.append(f"{name}: {line}")
    seen = tally.passed + len(tally.failed) + len(tally.skipped)
    if status is None:
        pass
    elif status == SKIP_STATUS and not seen:
        tally.skipped.append(f"{name}: skipped itself")
    elif status and not tally.failed:
        tally.failed.append(f"{name}: ended with status {status}")
    elif plan is None and not tally.failed:
        tally.failed.append(f"{name}: ran no test")
    elif plan and seen < plan and not tally.failed:
        tally.failed.append(f"{name}: ran {seen} of {plan} cases")
    return tally
