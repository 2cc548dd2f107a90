# SPDX-License-Identifier: GPL-2.0-or-later
"""iommulab run: measure every machine, number of CPUs and mode asked for."""

import argparse
import functools
import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile
import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

from . import guest, machine, modes, options, result, snapshot, table, trace
from .errors import INTERRUPTED, OK, GuestError, LabError, UsageError
from .progress import Progress, duration

# Garry's unit, the benchmark's own default too: map 50 buffers of 4 KiB and
# write each, then unmap the 50. `warmup` is ms of guest time; every
# `sample`th batch has its latencies taken.
KNOBS = {"depth": 50, "size": 4096, "sg": 0, "dir": "to", "touch": 1,
         "compute": 0, "spread": 0, "xcpu": 0, "warmup": 5, "sample": 16,
         "small": 0}


ERROR = "error.json"


@dataclass(frozen=True)
class Cell:
    """One guest to run, with everything that decides its result."""
    machine: machine.Machine
    cpus: int
    mode: str
    workload: str
    knobs: dict
    files: machine.Files
    port: bool
    clock: machine.Clock
    append: tuple
    qemu_opts: tuple
    algorithms: tuple = ()      # of (knob, mode), see modes.py
    traced: bool = False        # see trace.py

    @property
    def label(self):
        return (f"{self.machine.name} "
                f"{self.cpus} CPU{'s' if self.cpus > 1 else ''} {self.mode} "
                + modes.label(self.algorithms)).rstrip()

    @functools.cached_property
    def job(self):
        """What the guest is to do, as guest/init.c reads it."""
        bench = ",".join(f"{k}:{v}" for k, v in self.knobs.items())
        return (f"iommulab.job=bench iommulab.mode={self.mode} "
                f"iommulab.bench={bench}"
                + modes.options(self.algorithms, boot=False))

    @functools.cached_property
    def cmdline(self):
        boot = modes.options(self.algorithms, boot=True).split()
        if self.port:
            return machine.kernel_cmdline(self.machine,
                                          extra=(*boot, *self.append))
        return machine.kernel_cmdline(self.machine, self.mode,
                                      (self.job, *boot, *self.append))

    @property
    def argv(self):
        """The command that boots the guest for its job."""
        return machine.argv(self.machine, self.cpus, self.files,
                            self.cmdline, self.port, self.clock,
                            self.job, self.qemu_opts
                            + (trace.OPTIONS if self.traced else ()))

    @property
    def binaries(self):
        found = {name: options.digest(getattr(self.files, name))
                 for name in ("qemu", "kernel", "initramfs")}
        if self.clock.profile:
            found["profile"] = options.digest(self.clock.profile)
        return found

    @functools.cached_property
    def key(self):
        """A hash of all that decides the result; not of where files lie."""
        bare = replace(self, files=machine.Files("qemu", "kernel",
                                                 "initramfs"),
                       clock=replace(self.clock, profile=None))
        text = json.dumps([bare.argv, self.workload, self.binaries])
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def folder(self):
        return (f"{self.machine.name}-{self.cpus}-{self.mode}-"
                f"{self.workload}-{self.key[:12]}")


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "run", help="measure map and unmap on the machines; the default "
                    "comparison needs no options",
        description="Boot one guest for each machine, number of CPUs and "
                    "mode, let it map and unmap DMA buffers, and print a "
                    "table. What is missing is installed and built first. "
                    "Where no option says what to measure, the short forms "
                    "of published experiments are run instead, and put "
                    "beside the published figures.")
    add_options(parser)
    parser.set_defaults(func=functools.partial(_main, parser))


# Options that do not say what to measure.
PLAIN = ("jobs", "resume", "output", "keep", "dry_run", "timeout")


def _main(parser, args):
    default = vars(parser.parse_args([]))
    # "is": what was given says something also where it equals the default.
    if all(getattr(args, key) is value for key, value in default.items()
           if key not in PLAIN and key != "func"):
        from . import sweep     # which builds on this
        return sweep.comparison(args)
    return main(args)


def add_options(parser):
    """All that says what to run, and how."""
    what = parser.add_argument_group("what to measure")
    what.add_argument(
        "--machine", metavar="LIST", default=list(machine.MACHINES),
        type=options.list_of(options.one_of(machine.MACHINES, "machine")),
        help="any of: " + ", ".join(machine.MACHINES) + " (default: all)")
    what.add_argument(
        "--cpus", metavar="LIST", default=[1, 2, 4],
        type=options.list_of(options.cpus),
        help="numbers of CPUs, each 1 to 128 (default: 1,2,4)")
    what.add_argument(
        "--mode", metavar="LIST", default=list(machine.MODES),
        type=options.list_of(options.one_of(machine.MODES, "mode")),
        help="any of: " + ", ".join(machine.MODES) + " (default: all)")
    what.add_argument(
        "--workload", metavar="NAME", default="mapunmap",
        type=options.one_of(result.WORKLOADS, "workload"),
        help="one of: " + ", ".join(result.WORKLOADS)
             + " (default: mapunmap)")
    what.add_argument(
        "--duration", metavar="TIME", type=options.seconds, default=0.02,
        help="guest time each CPU is measured for, as 100ms or 2s "
             "(default: 20ms)")
    what.add_argument(
        "--knob", metavar="KEY=VALUE", action="append", default=[],
        help="set one of the benchmark's knobs: " + ", ".join(
            f"{k}={v}" for k, v in KNOBS.items()))
    modes.add_options(parser.add_argument_group(
        "algorithms of the guest kernel; see 'iommulab modes'"))
    parser.add_argument(
        "--counters", action="store_true",
        help="have the kernel count what its algorithms do, which costs it a "
             "few instructions, and keep that with the results")
    parser.add_argument(
        "--trace", action="store_true",
        help="log when CPUs wait and what the IOMMU's queue does, for "
             "'iommulab report'; changes no result")
    options.add_common(parser)
    parser.add_argument(
        "--json", metavar="FILE",
        help="write the result file here, anew after each cell; - prints it "
             "instead of the table")
    parser.add_argument(
        "--jobs", metavar="N", type=options.positive,
        help="guests to run at the same time (default: the host's CPUs)")
    parser.add_argument(
        "--resume", action="store_true",
        help="take the results of earlier runs of the very same cells")
    parser.add_argument(
        "--snapshot", action=argparse.BooleanOptionalAction,
        help="boot each machine once, keep it, and restore it for each cell; "
             "no result depends on it (default: where nothing is added to "
             "QEMU's command line)")


def main(args):
    progress = Progress()
    check_json(args.json)
    batch = Batch(args, options.output(args), plan(args, progress), progress)
    return batch.show() if args.dry_run else batch.run()


def check_json(name):
    """Tell now what would keep the file of --json from being written."""
    if name not in (None, "-"):
        path = Path(name).absolute()
        if not path.parent.is_dir():
            raise UsageError(f"--json: there is no folder {path.parent}")
        if path.is_dir():
            raise UsageError(f"--json: {path} is a folder")


def plan(args, progress, files=None):
    """The cells, in the order of the table."""
    chosen = knobs(args)
    machines = [machine.MACHINES[name] for name in args.machine]
    files = files or options.files(args, machines, progress)
    append = (("iommulab.counters=1",) if args.counters else ()) \
        + tuple(args.append)
    return [Cell(m, cpus, mode, args.workload, {"threads": cpus, **chosen},
                 files[m.name], machine.has_port(files[m.name].qemu),
                 options.clock(args, m, files[m.name].qemu),
                 append, tuple(options.extra(args, m)), algorithms,
                 args.trace)
            for m in machines for cpus in args.cpus for mode in args.mode
            for algorithms in modes.choices(args, m, mode)]


def knobs(args):
    """What the benchmark is asked for, by knob."""
    chosen = {"ms": max(1, round(args.duration * 1000)), **KNOBS}
    for text in args.knob:
        key, _, value = text.partition("=")
        if key not in KNOBS or not value:
            raise UsageError(f"unknown knob '{text}' "
                             f"(valid: {', '.join(KNOBS)}, each as KEY=VALUE)")
        if isinstance(KNOBS[key], int):
            if not value.isdecimal():
                raise UsageError(f"knob {key}: '{value}' is not a number")
            value = int(value)
        chosen[key] = value
    return chosen


class Batch:
    """The cells of one run and what has become of them."""

    def __init__(self, args, output, cells, progress):
        self.args = args
        self.output = output
        self.cells = cells
        self.progress = progress
        self.known = options.provenance(args)
        self.stop = threading.Event()
        self.finished = {}          # Cell.key -> cell of the result file
        self.failed = {}            # Cell.key -> LabError
        self.running = {}           # Cell.key -> Cell, in order of start

    def show(self):
        """Print the commands of what is to run; return the exit code."""
        for cell in self.todo():
            print(machine.shell(cell.argv, self.output / cell.folder))
        return OK

    def run(self):
        """Measure, print what came out; return the exit code."""
        try:
            self.measure()
        except KeyboardInterrupt:
            self.report()
            return INTERRUPTED
        return self.report()

    def measure(self):
        """Run all cells, some at a time. Ctrl-C ends the running guests."""
        self.output.mkdir(parents=True, exist_ok=True)
        self.save()
        cells = self.todo()
        self.progress.count(len(cells), sum(map(self.weight, cells)))
        jobs = self.args.jobs or len(os.sched_getaffinity(0))
        pool = ThreadPoolExecutor(jobs)
        todo = {}
        try:
            # In here: Ctrl-C may come while the first guest starts.
            for cell in cells:
                todo[pool.submit(self._one, cell)] = cell
            while todo:
                ended, _ = wait(todo, 0.5, FIRST_COMPLETED)
                for future in ended:
                    self._account(todo.pop(future), future)
                self.progress.step(", ".join(
                    c.label for c in list(self.running.values())))
        finally:
            self.stop.set()
            pool.shutdown(cancel_futures=True)
            self.progress.end()

    def todo(self):
        """The cells to run, in the order of their start."""
        return self.cells

    def weight(self, cell):
        """How long a cell takes, in whatever unit."""
        return 1

    def report(self):
        """Print what there is; return the exit code."""
        cells = self._cells()
        left = len(self.cells) - len(self.finished) - len(self.failed)
        if self.args.json == "-":
            json.dump(result.document(cells), sys.stdout, indent=1)
            print()
        else:
            failures = [(c.machine.name, c.cpus, c.mode,
                         _word(self.failed[c.key]),
                         modes.label(c.algorithms))
                        for c in self.cells if c.key in self.failed]
            print(table.render(cells, failures, left))
            print(f"\nResults: {self.output}")
        return self.code()

    def code(self):
        """The exit code for what there is."""
        if self.failed:
            return next(iter(self.failed.values())).code
        if any(c["provenance"]["findings"] for c in self.finished.values()):
            return GuestError.code
        return OK

    def _account(self, cell, future):
        """Book a finished cell; called in the main thread only."""
        try:
            data, spent = future.result()
        except LabError as err:
            self.failed[cell.key] = err
            self.save()
            self.progress.failed(f"{cell.label}: {err}", self.weight(cell))
            return
        self.finished[cell.key] = data
        self.save()
        self.progress.done("{}: {:.0f} operations per CPU per s, {}".format(
            cell.label, data["ops_per_cpu_per_s"], spent), self.weight(cell))
        for text in data["provenance"]["findings"]:
            self.progress.note(f"{cell.label}: doubtful, the log has: {text}")

    def save(self):
        """Write the file given with --json, with what is finished."""
        if self.args.json not in (None, "-"):
            result.write(self.args.json, result.document(self._cells()))

    def _cells(self):
        return [self.finished[c.key] for c in self.cells
                if c.key in self.finished]

    def _one(self, cell):
        """(cell of the result file, how it was got), in a worker thread."""
        final = self.output / cell.folder
        if self.args.resume:
            data = earlier(final)
            if data:
                return data, "from an earlier run"
        self.running[cell.key] = cell
        # Work in a folder of its own, and let it take the name of the cell
        # only when all in it is true.
        work = Path(tempfile.mkdtemp(dir=self.output,
                                     prefix=f"{cell.folder}.part-"))
        work.chmod(0o755)
        try:
            return self._guest(cell, work, final)
        except LabError as err:
            failed = failed_folder(final)
            text = str(err).replace(str(work), str(failed))
            result.write(work / ERROR, {"code": err.code, "message": text})
            _rename(work, failed)
            raise type(err)(text) from None
        finally:
            self.running.pop(cell.key)
            if work.exists() and not self.args.keep:
                shutil.rmtree(work, ignore_errors=True)

    def _guest(self, cell, work, final):
        timeout = self.args.timeout or guest.default_timeout(cell.cpus)
        argv = cell.argv
        if self._snapshots(cell):
            saved = snapshot.provide(cell, work, timeout, self.stop)
            argv = snapshot.restore(saved, work, argv)
        # A restored guest leaves the same bytes as this one.
        (work / "cmd").write_text(machine.shell(cell.argv, final) + "\n")
        outcome = guest.run(argv, work, timeout, "bench", self.stop)
        line = outcome.line("bench")
        wrong = result.bench_errors(line)
        if wrong:
            raise GuestError(f"the guest's result makes no sense: {wrong[0]}"
                             f"\n  log: {work / machine.RESULTS}")
        data = result.cell(
            cell.machine.name, cell.cpus, cell.mode, cell.workload,
            cell.knobs, cell.clock.name,
            [result.sample(line, outcome.lines)],
            self._provenance(cell, outcome), dict(cell.algorithms))
        result.write(work / "result.json", result.document([data]))
        if not self.args.keep and cell.port:
            (work / machine.SERIAL).unlink(missing_ok=True)
        _rename(work, final)
        return data, duration(outcome.seconds)

    def _snapshots(self, cell):
        """Whether to boot once and restore for each cell."""
        if self.args.snapshot is None:
            return (cell.port and cell.clock.name == "vtime"
                    and not self.args.qemu_opt)
        return self.args.snapshot and cell.port

    def _provenance(self, cell, outcome):
        return {"cell": cell.key, **self.known,
                "binaries": cell.binaries, "qemu_argv": cell.argv,
                "kernel_cmdline": cell.cmdline, "host": _host(),
                "findings": [f"{f.kind}: {f.text}"
                             for f in outcome.findings],
                **result.statement(cell.clock,
                                   result.timed_queue(cell.argv))}


def failed_folder(final):
    """Where a cell is kept that failed; the folder has an ERROR file."""
    return final.with_name(final.name + ".failed")


def earlier(folder):
    """The finished cell in this folder, if there is a valid one."""
    try:
        data = json.loads((folder / "result.json").read_text())
    except (OSError, ValueError):
        return None
    if result.errors(data) or len(data["cells"]) != 1:
        return None
    return data["cells"][0]


def _rename(source, target):
    """Put a folder in the place of another."""
    if target.exists():
        old = tempfile.mkdtemp(dir=target.parent, prefix=f"{target.name}.old-")
        os.rename(target, old)
        os.rename(source, target)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.rename(source, target)


def _word(err):
    """A failure as the table shows it."""
    return {5: "GUEST FAILED", 6: "TIMEOUT"}.get(err.code, "FAILED")


def _host():
    return {"system": platform.system(), "release": platform.release(),
            "machine": platform.machine(), "cpus": os.cpu_count(),
            "python": platform.python_version()}
