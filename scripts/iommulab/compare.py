# SPDX-License-Identifier: GPL-2.0-or-later
"""iommulab compare: whether B is faster or slower than A, and by how much."""

import argparse
import json
import math
import re
import statistics
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

from . import commits, fidelity, machine, modes, options, result, run
from . import stats, sweep, table, tree
from .errors import FAILED, INTERRUPTED, OK, UsageError
from .progress import Progress

SCHEMA = "iommulab/compare/1"
REPEATS = 5


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "compare", help="compare two result files, or two kernels",
        description="Compare the cells that two result files have in "
                    "common; or run the same cells on two kernels, in turn, "
                    "and compare these; or build two commits of a kernel's "
                    "git tree first, BASE..TOPIC. With several runs of a cell, which "
                    "differ in the jitter of the CPUs' start, the ratio has "
                    "a confidence interval.")
    parser.add_argument(
        "a", metavar="A", help="the old: a file of 'run --json' or 'sweep', "
                               "a kernel image, or a kernel's build tree; "
                               "or BASE..TOPIC, both")
    parser.add_argument(
        "b", metavar="B", nargs="?", help="the new, of the same kind")
    parser.add_argument(
        "--tree", metavar="DIR", type=Path, default=tree.path("linux"),
        help="git tree that has the commits BASE and TOPIC (default: "
             "build/src/linux, the guest's kernel)")
    parser.add_argument(
        "--fail-on", metavar="WHAT", type=gate, default=None,
        help="regression:5%% exits with 1 if a cell is over 5 %% slower in B "
             "and the interval leaves no doubt; never (default)")
    parser.add_argument(
        "--repeats", metavar="N", type=options.positive, default=REPEATS,
        help="kernels: runs of each cell, with jitter seeds 1 to N; 1 is "
             f"without jitter (default: {REPEATS})")
    run.add_options(parser)
    parser.set_defaults(func=main)


def gate(text):
    """An argparse type: the ratio below which the command fails; 0: never."""
    if text == "never":
        return 0.0
    match = re.fullmatch(r"regression:(\d+(?:\.\d+)?)\s*%", text)
    if not match or not 0 < float(match[1]) < 100:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not to fail on (valid: regression:5%, never)")
    return 1 - float(match[1]) / 100


@dataclass(frozen=True)
class Pair:
    """One cell, as A and as B measured it: operations per CPU per second."""
    label: str
    a: tuple
    b: tuple

    @property
    def ratio(self):
        return stats.ratio(self.a, self.b)

    @property
    def interval(self):
        """(low, high) of the ratio, or None where there is nothing random,
        or too little."""
        if len(set(self.a)) == 1 and len(set(self.b)) == 1:
            return None
        return stats.interval(self.a, self.b)

    @property
    def p(self):
        return stats.p_value(self.a, self.b)

    @property
    def differs(self):
        """Whether B is clearly not as fast as A."""
        if self.interval:
            return not self.interval[0] <= 1 <= self.interval[1]
        if len(set(self.a)) == 1 and len(set(self.b)) == 1:
            return self.ratio != 1
        return False        # too few runs to tell

    @property
    def floor(self):
        """What A compared with itself might show."""
        found = stats.interval(self.a, self.a)
        return found[1] - 1 if found else 0.0


def main(args):
    run.check_json(args.json)
    if args.b is None:
        if ".." not in args.a or Path(args.a).exists():
            raise UsageError("give two result files, two kernels, or "
                             "BASE..TOPIC")
        documents = [None, None]
    else:
        documents = [_document(text) for text in (args.a, args.b)]
    if all(documents):
        pairs, notes = match(*documents)
    elif any(documents):
        raise UsageError(f"{args.a} and {args.b} are not of one kind: one is "
                         "a result file, the other a kernel")
    else:
        ended = _run(args)
        if isinstance(ended, int):
            return ended
        pairs, notes = ended
    if not pairs:
        raise UsageError("A and B have no cell in common")
    slower = [p for p in pairs if args.fail_on and p.differs
              and p.ratio < args.fail_on]
    document = describe(args, pairs, slower)
    if args.json == "-":
        json.dump(document, sys.stdout, indent=1)
        print()
    else:
        if args.json:
            result.write(args.json, document)
        print(render(args, pairs, slower, notes))
    return FAILED if slower else OK


# --- Two result files ------------------------------------------------------

def _document(text):
    """[cell] of a result file or a sweep's; None if it is none of these."""
    path = Path(text)
    if path.is_dir() and (path / "result.json").is_file():
        path = path / "result.json"
    if not path.is_file():
        if not path.exists():
            raise UsageError(f"there is no file {text}")
        return None
    with open(path, "rb") as file:
        if file.read(1) not in (b"{", b"["):
            return None
    try:
        data = json.loads(path.read_text())
    except ValueError as err:
        raise UsageError(f"{path}: {err}") from None
    wrong = sweep.check(data) if isinstance(data, dict) and \
        data.get("schema") == sweep.SCHEMA else \
        next(iter(result.errors(data)), None)
    if wrong:
        raise UsageError(f"{path} is no result file: {wrong}")
    return data["cells"] or [None]


def identity(cell):
    """What has to be equal in two cells that are compared."""
    argv = cell["provenance"]["qemu_argv"]
    accel = [re.sub(r"vtime-jitter=\d+,?", "", word).rstrip(",")
             for word in argv if word.startswith("tcg,")]
    asked = [word for flag, word in zip(argv, argv[1:])
             if flag == "-global"]
    bare = [re.sub(r"=/[^,]*/", "=", word) for word in accel + asked]
    return json.dumps([cell["machine"], cell["cpus"], cell["mode"],
                       cell["workload"], cell["algorithms"], cell["knobs"],
                       cell["clock"], bare], sort_keys=True)


def label(cell):
    text = f"{cell['machine']} {cell['cpus']} {cell['mode']} " \
        + modes.label(cell["algorithms"].items())
    return text.strip()


def rates(cell):
    return [result.rate(sample["threads"]) for sample in cell["samples"]]


def match(old, new):
    """([Pair], notes) of two lists of cells. Cells of a list that differ in
    nothing but their jitter are runs of one."""
    def by_identity(cells):
        found = {}
        for cell in filter(None, cells):
            found.setdefault(identity(cell), []).append(cell)
        return found

    old, new = by_identity(old), by_identity(new)
    common = [key for key in old if key in new]
    pairs = _distinct([(old[key][0],
                        [r for c in old[key] for r in rates(c)],
                        [r for c in new[key] for r in rates(c)])
                       for key in common])
    notes = []
    for name, mine, other in (("A", old, new), ("B", new, old)):
        alone = len([key for key in mine if key not in other])
        if alone:
            notes.append(f"{alone} cell{'s are' if alone > 1 else ' is'} in "
                         f"{name} only.")
    doubtful = sum(bool(c["provenance"]["findings"])
                   for found in (old, new) for key in common
                   for c in found[key])
    if doubtful:
        notes.append(f"{doubtful} of the runs are doubtful: their logs have "
                     "warnings.")
    return pairs, notes


def _distinct(found):
    """[Pair] of (cell, a, b), with labels that tell them apart."""
    names = [label(cell) for cell, _, _ in found]
    knobs = [k for k in dict.fromkeys(k for c, _, _ in found
                                      for k in c["knobs"])
             if k != "threads" and len({c["knobs"].get(k)
                                        for c, _, _ in found}) > 1]
    pairs = []
    for name, (cell, a, b) in zip(names, found):
        if names.count(name) > 1:
            name += "".join(f" {k}={cell['knobs'].get(k)}" for k in knobs)
        pairs.append(Pair(name, tuple(a), tuple(b)))
    return pairs


# --- Two kernels -----------------------------------------------------------

def _run(args):
    """The same cells on both kernels; ([Pair], notes), or an exit code."""
    for given, name in ((args.kernel, "--kernel"), (args.jitter, "--jitter")):
        if given:
            raise UsageError(f"{name}: 'compare' sets it")
    progress = Progress()
    if args.b is None:
        ends = commits.ends(args.a, args.tree.absolute())
        lacking = [(commit, arch) for commit in ends
                   for arch in commits.missing(commit, args.machine)]
        if args.dry_run and lacking:
            for commit, arch in lacking:
                print(f"build kernel-{arch} of {commit[:12]}")
            return OK
        commits.kernels(ends, args.tree.absolute(), args.machine, progress)
        paths = [commits.place(commit) for commit in ends]
    else:
        paths = [Path(text).absolute() for text in (args.a, args.b)]
    for path in paths:
        if path.is_dir():
            there = [m for m in args.machine
                     if (path / machine.MACHINES[m].image).is_file()]
            if not there:
                raise UsageError(
                    f"{path} is neither a result nor a kernel's build tree: "
                    "it has no " + " or ".join(
                        machine.MACHINES[m].image for m in args.machine))
            args.machine = there
    seeds = range(1, args.repeats + 1) if args.repeats > 1 else [None]
    sides = []
    for path in paths:
        args.kernel, runs = path, []
        for seed in seeds:
            args.jitter = seed
            runs.append(run.plan(args, progress))
        sides.append(list(zip(*runs)))      # [cell][seed]
    # A and B in turn, so that whatever changes on the host hits both.
    order = [side[number][turn] for number in range(len(sides[0]))
             for turn in range(len(seeds)) for side in sides]
    order = list({cell.key: cell for cell in order}.values())
    output = options.output(args)
    if args.dry_run:
        for cell in order:
            print(machine.shell(cell.argv, output / cell.folder))
        return OK
    wanted, args.json = args.json, None     # it is ours, not the batch's
    batch = run.Batch(args, output, order, progress)
    try:
        batch.measure()
    except KeyboardInterrupt:
        print(f"Interrupted; {len(order) - len(batch.finished)} runs were "
              "not measured. --resume takes those that were.",
              file=sys.stderr)
        return INTERRUPTED
    args.json = wanted
    if batch.failed:
        return batch.code()
    cells = [[batch.finished[c.key] for row in side for c in row]
             for side in sides]
    return match(*cells)


# --- What comes out --------------------------------------------------------

def geomean(pairs):
    return math.exp(statistics.fmean(math.log(p.ratio) for p in pairs))


def percent(ratio):
    return f"{100 * (ratio - 1):+.1f} %"


def verdict(pairs):
    """ "B is slower in 1 of 3 cells, by 12.0 %; ..." """
    clear = [p for p in pairs if p.differs]
    faster = [p for p in clear if p.ratio > 1]
    slower = [p for p in clear if p.ratio < 1]
    if not clear:
        text = "A and B do not differ"
        if any(len(p.a) > 1 for p in pairs) and any(
                p.interval is None and len({*p.a, *p.b}) > 1 for p in pairs):
            text = "too few runs to tell A from B"
        return f"Verdict: {text} in any of {_cells(pairs)}."
    parts = []
    for word, some, worst in (("faster", faster, max), ("slower", slower,
                                                        min)):
        if some:
            by = percent(worst(p.ratio for p in some)).lstrip("+-")
            parts.append(f"{word} in {len(some)} of {_cells(pairs)}, by "
                         + ("up to " if len(some) > 1 else "") + by)
    text = "Verdict: B is " + "; ".join(parts)
    same = len(pairs) - len(clear)
    if same:
        text += f"; {same} {'do' if same > 1 else 'does'} not differ"
    return text + f". Geometric mean {percent(geomean(pairs))}."


def _cells(pairs):
    return f"{len(pairs)} cell{'s' if len(pairs) > 1 else ''}"


def render(args, pairs, slower, notes):
    out = ["Operations per CPU per second", "",
           f"{'':<30}{'A':>9}{'B':>9}  change"]
    for pair in pairs:
        *above, last = textwrap.wrap(pair.label, 29, subsequent_indent="  ")
        line = (f"{last:<30}{fidelity.number(statistics.median(pair.a)):>9}"
                f"{fidelity.number(statistics.median(pair.b)):>9}  ")
        if not pair.differs:
            line += "~" if pair.ratio == 1 else f"~ {percent(pair.ratio)}"
        else:
            line += percent(pair.ratio)
        if pair.interval:
            low, high = (100 * (v - 1) for v in pair.interval)
            line += f" [{low:+.1f}, {high:+.1f}]"
        out += [*above, line.rstrip()]
    runs = sorted({len(p.a) for p in pairs} | {len(p.b) for p in pairs})
    text = []
    if any(p.interval for p in pairs):
        text.append("In brackets: 95 % confidence of the change in %; ~: no "
                    "clear change.")
        floor = max(p.floor for p in pairs)
        text.append(f"A against itself might show {100 * floor:.1f} %.")
        if args.fail_on and 1 - args.fail_on < floor:
            text.append("That is more than --fail-on looks for: more "
                        "--repeats would tell.")
    if any(p.interval is None for p in pairs):
        same = [p for p in pairs if len({*p.a}) == 1 == len({*p.b})]
        if runs == [1]:
            text.append("One run of each cell: no interval.")
        elif same:
            text.append(f"The runs of {_cells(same)} are identical: interval "
                        "omitted.")
        if any(p.interval is None and p not in same for p in pairs):
            text.append(f"Under {stats.LEAST} runs: no interval.")
    out += ["", *textwrap.wrap(" ".join(text), table.WIDTH)]
    for note in [verdict(pairs), *notes]:
        out += textwrap.wrap(note, table.WIDTH, subsequent_indent="  ")
    for pair in slower:
        out += textwrap.wrap(f"Regression: {pair.label} "
                             f"{percent(pair.ratio)}", table.WIDTH)
    return "\n".join(out)


def describe(args, pairs, slower):
    """What --json writes."""
    a, b = (args.a, args.b) if args.b else args.a.split("..", 1)
    return {"schema": SCHEMA, "a": str(a), "b": b.lstrip(".") or "HEAD",
            "cells": [{"cell": p.label, "a_ops_per_cpu_per_s": list(p.a),
                       "b_ops_per_cpu_per_s": list(p.b), "ratio": p.ratio,
                       "interval": p.interval, "p": p.p,
                       "differs": p.differs, "floor": p.floor}
                      for p in pairs],
            "geomean": geomean(pairs), "verdict": verdict(pairs),
            "regressions": [p.label for p in slower]}
