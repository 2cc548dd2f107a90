# SPDX-License-Identifier: GPL-2.0-or-later
"""iommulab sweep: run all cells of an experiment, resumably, and put its
results beside the published ones."""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from . import errors, experiment, fidelity, machine, metric, options, paths
from . import result, run
from .errors import INTERRUPTED, OK, UsageError
from .progress import Progress, duration

SCHEMA = "iommulab/sweep/1"
SECONDS = "seconds.json"    # beside the cells: how long each one took

# What `iommulab run` runs the short forms of, where it is there.
COMPARISON = tuple(name for name in ("garry-2020", "morrison-2016")
                   if name in experiment.names())

# A failure that the same cell would show again.
LASTING = (errors.GuestError.code, errors.GuestTimeout.code)


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "sweep", help="run all cells of an experiment and compare with what "
                      "was published",
        description="Run every cell of an experiment that is not finished "
                    "yet, and print its results beside the published ones. "
                    "A sweep that was interrupted or killed goes on where "
                    "it was.")
    parser.add_argument(
        "experiment", metavar="EXPERIMENT",
        help="the name of a folder in experiments/, or the file or folder "
             "of another")
    parser.add_argument(
        "--short", action="store_true",
        help="only the cells of its short form")
    parser.add_argument(
        "--force", action="store_true",
        help="run finished cells again, too")
    parser.add_argument(
        "--rerun-failed", action="store_true",
        help="run cells again that failed before; else they stay failed")
    parser.add_argument(
        "--jobs", metavar="N", type=options.positive,
        help="guests to run at the same time (default: the host's CPUs)")
    parser.add_argument(
        "--snapshot", action=argparse.BooleanOptionalAction, default=True,
        help="boot each machine once and restore it for each cell "
             "(default: yes)")
    parser.add_argument(
        "--json", metavar="FILE",
        help="write what the sweep gave here; - prints it instead of the "
             "table")
    guest = parser.add_argument_group("the guests")
    options.add_files(guest)
    options.add_jitter(guest)
    options.add_timeout(guest)
    options.add_output(parser)
    parser.set_defaults(func=main)


@dataclass(frozen=True)
class Planned:
    """An experiment.Point and its run.Cell."""
    point: experiment.Point
    cell: run.Cell


def main(args):
    run.check_json(args.json)
    found = experiment.load(args.experiment, args.short)
    progress = Progress()
    output = options.output(args)
    planned = plan(args, found, progress)
    batch = Sweep(args, output, found, planned, progress)
    batch.announce()
    return batch.show() if args.dry_run else batch.run()


def comparison(args):
    """What `iommulab run` does without options: published experiments, in
    short, and the report."""
    progress = Progress()
    output = options.output(args)
    args.force, args.rerun_failed = not args.resume, True
    args.snapshot = args.snapshot is not False
    batches = []
    for name in COMPARISON:
        found = experiment.load(name, short=True)
        batches.append(Sweep(args, output, found,
                             plan(args, found, progress), progress))
    if args.dry_run:
        for batch in batches:
            batch.show()
        return OK
    code = OK
    for number, batch in enumerate(batches):
        batch.announce()
        if number:
            print()
        code = batch.run() or code
        if code == INTERRUPTED:
            return code
    from . import report        # which builds on this
    page = (output if args.output else paths.BUILD) / "report.html"
    page.write_text(report.html(report.load(
        [str(batch.file) for batch in batches], output)))
    print(f"Report: {page}")
    return code


def plan(args, found, progress):
    """[Planned], in the order of the file."""
    machines = {p.args.machine[0]: machine.MACHINES[p.args.machine[0]]
                for p in found.points}
    files = options.files(args, list(machines.values()), progress)
    planned = []
    for point in found.points:
        own = argparse.Namespace(**vars(point.args))
        for name in ("qemu", "kernel", "initramfs", "jitter", "timeout",
                     "output", "keep", "dry_run"):
            setattr(own, name, getattr(args, name))
        own.append = [*point.args.append, *args.append]
        own.qemu_opt = [*point.args.qemu_opt, *args.qemu_opt]
        [cell] = run.plan(own, progress, files)
        planned.append(Planned(point, cell))
    return planned


def earlier_failure(folder):
    """The LabError that the cell of this folder ended with, or None."""
    try:
        data = json.loads((run.failed_folder(folder) / run.ERROR)
                          .read_text())
        code, message = data["code"], data["message"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    kinds = {kind.code: kind for kind in (errors.GuestError,
                                          errors.GuestTimeout)}
    return kinds[code](message) if code in LASTING else None


class Sweep(run.Batch):
    """The cells of an experiment. Those that are finished stay so."""

    def __init__(self, args, output, found, planned, progress):
        self.experiment = found
        self.planned = planned
        cells = list({p.cell.key: p.cell for p in planned}.values())
        args.resume = False         # it is done here
        super().__init__(args, output, cells, progress)
        self.seconds = self._seconds()
        for cell in cells:
            folder = output / cell.folder
            data = None if args.force else run.earlier(folder)
            if data:
                self.finished[cell.key] = data
            elif not (args.force or args.rerun_failed):
                failure = earlier_failure(folder)
                if failure:
                    self.failed[cell.key] = failure
        self.known_before = {*self.finished, *self.failed}
        self.file = file(output, found)

    # --- The plan ---

    def todo(self):
        """The cells to run: first one for each machine to boot, so that no
        two wait for the same snapshot, the longest of them first."""
        ranks, cells = {}, []
        for cell in self.cells:
            if cell.key in self.known_before:
                continue
            boot = (cell.machine.name, cell.cpus, cell.qemu_opts,
                    cell.cmdline)
            ranks[boot] = ranks.get(boot, 0) + 1
            cells.append((ranks[boot] > 1, -self.weight(cell), len(cells),
                          cell))
        return [cell for *_, cell in sorted(cells, key=lambda c: c[:3])]

    def weight(self, cell):
        """Expected seconds: as long as it took before, else by a rule of
        thumb, set right by what the others took."""
        if cell.key in self.seconds:
            return self.seconds[cell.key]
        return _guess(cell) * self.scale

    def announce(self):
        """Say what will be done and how long it may take."""
        todo = self.todo()
        left = list(map(self.weight, todo))
        jobs = min(len(todo),
                   self.args.jobs or len(os.sched_getaffinity(0))) or 1
        text = (f"{self.experiment.name}: {len(self.cells)} cells, "
                f"{len(todo)} to run")
        failed = sum(key in self.failed for key in self.known_before)
        if failed:
            text += f", {failed} failed before (--rerun-failed)"
        if todo:
            text += ", about " + duration(max(sum(left) / jobs, *left, 1))
        self.progress.note(text)

    def _seconds(self):
        try:
            data = json.loads((self.output / SECONDS).read_text())
        except (OSError, ValueError):
            data = {}
        if not isinstance(data, dict):
            data = {}
        known = {key: float(value) for key, value in data.items()
                 if isinstance(value, (int, float)) and value > 0}
        mine = [c for c in self.cells if c.key in known]
        guessed = sum(map(_guess, mine))
        self.scale = (sum(known[c.key] for c in mine) / guessed
                      if guessed else 1)
        return known

    # --- Running ---

    def _snapshots(self, cell):
        return (self.args.snapshot and cell.port
                and cell.clock.name == "vtime")

    def _guest(self, cell, work, final):
        start = time.monotonic()
        done = super()._guest(cell, work, final)
        self.seconds[cell.key] = round(time.monotonic() - start, 2)
        return done

    def save(self):
        """Write the sweep's file, with what is finished."""
        data = self.document()
        result.write(self.file, data)
        result.write(self.output / SECONDS, dict(self.seconds))
        if self.args.json not in (None, "-"):
            result.write(self.args.json, data)

    def document(self):
        labels = {c.key: c.label for c in self.cells}
        return {
            "schema": SCHEMA, "experiment": self.experiment.name,
            "work": self.experiment.work, "title": self.experiment.title,
            "short": self.experiment.short,
            "figures": [asdict(f) for f in self.experiment.figures],
            "points": [{"options": p.point.options, "cell": p.cell.key}
                       for p in self.planned],
            "failed": [{"cell": key, "label": labels[key],
                        "message": str(err)}
                       for key, err in self.failed.items()],
            "cells": self._cells()}

    def report(self):
        data = self.document()
        if self.args.json == "-":
            json.dump(data, sys.stdout, indent=1)
            print()
            return self.code()
        # Through text, as `report` reads it.
        print(render(self.experiment, json.loads(json.dumps(data))))
        left = len(self.cells) - len(self.finished) - len(self.failed)
        if left:
            print(f"Interrupted; {left} cells were not measured. The same "
                  "command goes on.")
        for cell in self.cells:
            if cell.key in self.failed:
                first = str(self.failed[cell.key]).splitlines()[0]
                print(f"Failed: {cell.label}: {first}")
            elif self.finished.get(cell.key, {}).get(
                    "provenance", {}).get("findings"):
                print(f"Doubtful: {cell.label}: its log has a warning")
        print(f"\nResults: {self.file}")
        return self.code()


def _guess(cell):
    """A rule of thumb for the seconds a cell takes on some host."""
    ms = cell.knobs["ms"] + cell.knobs["warmup"]
    watched = {"off": 1, "auto": 4, "all": 15}[cell.clock.watch]
    return 4 + 0.1 * cell.cpus + 0.008 * cell.cpus * ms * watched


# --- What a sweep left behind ----------------------------------------------

def file(output, found):
    """Where a sweep's document is. That of a short form does not take the
    place of the whole one."""
    return output / f"{found.name}{'-short' if found.short else ''}.json"


def latest(output, name):
    """The document of this experiment, of the short form where there is no
    other; or None."""
    for path in (output / f"{name}.json", output / f"{name}-short.json"):
        if path.is_file():
            return path
    return None


def load(path):
    """A sweep's document; UsageError if it is none."""
    try:
        data = json.loads(Path(path).read_text())
    except (OSError, ValueError) as err:
        raise UsageError(f"{path}: {err}") from None
    wrong = check(data)
    if wrong:
        raise UsageError(f"{path} is not a sweep's file: {wrong}")
    return data


def check(data):
    """What is wrong with a sweep's document, or None."""
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        return f"its schema is not {SCHEMA}"
    for key in ("points", "failed", "cells", "figures"):
        if not isinstance(data.get(key), list):
            return f"{key}: not a list"
    for key in ("experiment", "work", "title"):
        if not isinstance(data.get(key), str):
            return f"{key}: not a string"
    if not isinstance(data.get("short"), bool):
        return "short: not true or false"
    for point in data["points"]:
        if not isinstance(point, dict) or \
                not isinstance(point.get("options"), dict) or \
                not isinstance(point.get("cell"), str):
            return "points: not objects of options and cell"
    wrong = result.errors(result.document(data["cells"]))
    return wrong[0] if wrong else None


def render(found, data):
    """The tables of a sweep: published figures, then the other cells."""
    compared = fidelity.compare(found, data)
    out = [fidelity.render(compared)]
    others = rates(found, data)
    if others:
        out += ["", "Thousand operations per CPU per second", *others]
    return "\n".join(out)


def rates(found, data):
    """A line for each cell that no rate was published of."""
    cells = {c["provenance"]["cell"]: c for c in data["cells"]}
    shown = [p for p in data["points"]
             if p["cell"] in cells
             and not any(f.relative is None and f.metric == metric.RATE
                         and fits(p, f.cell) for f in found.figures)]
    chosen = varied(data["points"])
    return ["  {:<58}{:>10.1f}".format(
        label(point, chosen) or found.name,
        cells[point["cell"]]["ops_per_cpu_per_s"] / 1000)
        for point in shown]


def varied(points):
    """The options that are not the same in all points. What the name of a
    [[matrix]] says already is left out."""
    def values(key, some=points):
        return {str(p["options"].get(key)) for p in some}

    by_name = {}
    for point in points:
        by_name.setdefault(point["options"].get("matrix"), []).append(point)
    named = None not in by_name
    return [key for key in dict.fromkeys(k for p in points
                                         for k in p["options"])
            if len(values(key)) > 1
            and (not named or key == "matrix"
                 or any(len(values(key, some)) > 1
                        for some in by_name.values()))]


def label(point, keys):
    """A point by these of its options: "4 CPUs cmdq=add" """
    options = point["options"]
    return " ".join(
        f"{options[k]} CPU{'' if options[k] == 1 else 's'}" if k == "cpus"
        else f"{options[k]}" if k in ("machine", "mode", "matrix") else
        f"{k.removeprefix('knob.')}={options[k]}"
        for k in keys if k in options)


def fits(point, selector):
    """Whether a point has all of these options."""
    return all(str(point["options"].get(k)) == str(v)
               for k, v in selector.items())


def figures(data):
    """The experiment of a sweep's document, without its points."""
    try:
        found = tuple(experiment.Figure(**f) for f in data["figures"])
    except TypeError:
        found = ()
    return experiment.Experiment(data["experiment"], None, data["title"],
                                 data["work"], (), found)
