# SPDX-License-Identifier: GPL-2.0-or-later
"""Experiments: what to run and what was published, read from a TOML file.

docs/guide/sweeps.md describes the format. A *point* is one combination of
options of `iommulab run`, which gives one cell.
"""

import argparse
import itertools
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from . import machine, metric, modes, paths, run
from .errors import UsageError

FOLDER = paths.ROOT / "experiments"
FILE = "experiment.toml"
WORKS = ("S0", "S1", "S2", "S3", "S4", "calibration", "scenario")
NEEDED = ("machine", "cpus", "mode")
# Options of `run` that belong to whoever starts the sweep.
NOT_HERE = ("json", "jobs", "resume", "snapshot", "output", "keep",
            "dry-run", "timeout", "jitter", "qemu", "kernel", "initramfs",
            "help")
# Options that are given several times: a list is all of them, no axis.
REPEATED = ("append", "qemu-opt")
PUBLISHED = {"cell", "metric", "relative-to", "along", "value", "values",
             "source", "name", "fitted"}


@dataclass(frozen=True)
class Point:
    """One combination of options; those without effect are left out."""
    options: dict
    args: argparse.Namespace = field(compare=False, repr=False)

    def fits(self, selector):
        return all(key in self.options
                   and str(self.options[key]) == str(value)
                   for key, value in selector.items())


@dataclass(frozen=True)
class Figure:
    """A published number, and the cell or cells that give ours."""
    name: str
    metric: str
    cell: dict              # selector
    relative: dict          # selector of the cell it is divided by, or None
    value: float
    source: str
    fitted: bool            # it was used to choose a parameter
    group: str              # name of its row in a table, and the column's
    at: str                 # value, where it was given 'along' an option
    along: str


@dataclass(frozen=True)
class Experiment:
    name: str
    path: Path
    title: str
    work: str
    points: tuple
    figures: tuple
    short: bool = False

    def find(self, selector):
        """The one point that fits, or None in a short form."""
        return next((p for p in self.points if p.fits(selector)), None)


def names():
    """The experiments there are."""
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{FILE}"))


def locate(text):
    """The file of NAME, FOLDER or FILE."""
    path = Path(text)
    if text in names():
        return FOLDER / text / FILE
    if path.is_dir():
        path = path / FILE
    if not path.is_file():
        raise UsageError(f"there is no experiment or file {text} "
                         f"(valid: {', '.join(names())}, or a path)")
    return path.absolute()


def load(text, short=False):
    """The Experiment named by the user; a UsageError tells what is wrong."""
    path = locate(text)
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, ValueError) as err:
        raise UsageError(f"{path}: {err}") from None
    name = path.parent.name if path.name == FILE else path.stem
    try:
        return _experiment(name, path, data, short)
    except UsageError as err:
        raise UsageError(f"{path}: {err}") from None


def _experiment(name, path, data, short):
    _keys(data, "the file", {"title", "work", "run"},
          {"matrix", "short", "published"})
    for key in ("title", "work"):
        if not isinstance(data[key], str) or not data[key]:
            raise UsageError(f"{key}: not a string")
    if data["work"] not in WORKS:
        raise UsageError(f"work: '{data['work']}' is not one of "
                         + ", ".join(WORKS))
    everything = _points(path, data, {})
    points = _points(path, data, data.get("short", {})) if short \
        else everything
    figures = []
    published = data.get("published", [])
    if not isinstance(published, list):
        raise UsageError("published: write each as [[published]]")
    for number, item in enumerate(published, 1):
        try:
            figures += _figures(item, everything)
        except UsageError as err:
            raise UsageError(f"[[published]] {number}: {err}") from None
    if short:
        if "short" not in data:
            raise UsageError("there is no [short] form")
        figures = [f for f in figures
                   if all(any(p.fits(s) for p in points)
                          for s in (f.cell, f.relative) if s is not None)]
    return Experiment(name, path, data["title"], data["work"], tuple(points),
                      tuple(figures), short)


# --- The points ------------------------------------------------------------

class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise UsageError(message)


def run_parser():
    """A parser of `run` that raises UsageError."""
    top = _Parser(add_help=False)
    run.add_parser(top.add_subparsers(dest="verb"))
    return top


def run_options(top):
    """{name: whether it takes a value} of the options an experiment may set.
    """
    [verbs] = [a for a in top._actions
               if isinstance(a, argparse._SubParsersAction)]
    return {option[2:]: action.nargs != 0
            for action in verbs.choices["run"]._actions
            for option in action.option_strings[-1:]
            if option[2:] not in NOT_HERE and not option.startswith("--no-")}


def _points(path, data, short):
    top = run_parser()
    known = run_options(top)
    base = _table(data["run"], "[run]", known)
    blocks = data.get("matrix", [{}])
    if not isinstance(blocks, list) or not blocks:
        raise UsageError("matrix: write each as [[matrix]]")
    short = dict(_table(short, "[short]", known, {"matrix"}))
    wanted = short.pop("matrix", None)
    points = {}
    for number, block in enumerate(blocks, 1):
        where = f"[[matrix]] {number}" if "matrix" in data else "[run]"
        table = _table(block, where, known, {"name"})
        name = table.pop("name", None)
        if wanted is not None and name not in wanted:
            continue
        merged = {**base, **table, **short}
        for key in NEEDED:
            if key not in merged:
                raise UsageError(f"{where}: '{key}' is missing")
        for options in _product(merged, where):
            point = _point(path, top, options, where)
            if name is not None:
                point.options["matrix"] = name
            key = tuple(sorted((k, str(v)) for k, v in point.options.items()))
            points.setdefault(key, point)
    if not points:
        raise UsageError("[short]: no [[matrix]] has one of these names")
    return list(points.values())


def _table(table, where, known, others=()):
    """A table of options, made flat: knob.depth stands for {depth} of
    knob."""
    if not isinstance(table, dict):
        raise UsageError(f"{where}: not a table")
    flat = {}
    for key, value in table.items():
        if key == "knob" and isinstance(value, dict):
            flat |= {f"knob.{k}": v for k, v in value.items()}
        elif key in known and key != "knob" or key in others:
            flat[key] = value
        elif key == "knob":
            raise UsageError(f"{where}: knob: not a table, as "
                             "knob = {depth = 1}")
        else:
            raise UsageError(f"{where}: unknown key '{key}' (valid: "
                             + ", ".join([*others, *known]) + ")")
    return flat


def _product(table, where):
    axes = []
    for key, value in table.items():
        if key in REPEATED:
            words = value if isinstance(value, list) else [value]
            if not all(isinstance(word, str) for word in words):
                raise UsageError(f"{where}: {key}: not a string or a list of "
                                 "strings")
            axes.append([(key, tuple(words))])
            continue
        values = value if isinstance(value, list) else [value]
        if not values or not all(isinstance(v, (str, int, bool))
                                 for v in values):
            raise UsageError(f"{where}: {key}: not a string, a number, true, "
                             "or a list of these")
        axes.append([(key, v) for v in values])
    return [dict(choice) for choice in itertools.product(*axes)]


def _point(path, top, options, where):
    argv = ["run"]
    for key, value in options.items():
        if key.startswith("knob."):
            argv.append(f"--knob={key[5:]}={value}")
        elif key in REPEATED:
            argv += [f"--{key}={word}" for word in value]
        elif value is True:
            argv.append(f"--{key}")
        elif key == "profile" and "/" in str(value):
            argv.append(f"--{key}={path.parent / value}")
        elif value is not False:
            argv.append(f"--{key}={value}")
    try:
        args = top.parse_args(argv)
        for key in NEEDED:
            if isinstance(options[key], str) and "," in options[key]:
                raise UsageError(f"{key}: write a list as [\"a\", \"b\"]")
        run.knobs(args)
        [algorithms] = modes.choices(args, machine.MACHINES[args.machine[0]],
                                     args.mode[0])
    except UsageError as err:
        raise UsageError(f"{where}: {err}") from None
    # An algorithm that makes no difference in this mode makes no cell.
    effective = dict(algorithms)
    kept = {key: value for key, value in options.items()
            if value is not False
            and (key.replace("-", "_") not in modes.KNOBS
                 or key.replace("-", "_") in effective)}
    return Point(kept, args)


# --- The published figures -------------------------------------------------

def _figures(item, points):
    _keys(item, "the entry", {"cell", "source"}, PUBLISHED)
    if not isinstance(item["source"], str) or not item["source"]:
        raise UsageError("source: not a string")
    cell = _selector(item["cell"], "cell")
    relative = None
    if "relative-to" in item:
        relative = _selector(item["relative-to"], "relative-to")
    if not isinstance(item.get("fitted", False), bool):
        raise UsageError("fitted: not true or false")
    if not isinstance(item.get("name", ""), str):
        raise UsageError("name: not a string")
    expression = item.get("metric", metric.RATE)
    metric.check(expression)
    along = item.get("along")
    if along is None:
        if "values" in item or "value" not in item:
            raise UsageError("give a 'value', or 'along' and 'values'")
        pairs = [({}, item["value"])]
    else:
        if not isinstance(along, str):
            raise UsageError("along: not the name of an option")
        values = item.get("values")
        if "value" in item or not isinstance(values, dict) or not values:
            raise UsageError("'along' needs 'values', as "
                             "values = {2 = 453e3, 4 = 409e3}")
        pairs = [({along: key}, value) for key, value in values.items()]
    figures = []
    for more, value in pairs:
        if isinstance(value, bool) or not isinstance(value, (int, float)) \
                or not 0 < value < float("inf"):
            raise UsageError(f"value: {value!r} is not a number above 0")
        chosen = {**cell, **more}
        against = None if relative is None else {**relative, **more}
        for what, selector in (("cell", chosen), ("relative-to", against)):
            if selector is not None:
                _one(selector, points, what)
        figures.append(Figure(
            _name(item.get("name"), chosen, more, expression, against),
            expression, chosen, against, value, item["source"],
            item.get("fitted", False),
            _name(item.get("name"), cell, {}, expression, relative),
            next(iter(more.values()), ""), along or ""))
    return figures


def _selector(table, where):
    if not isinstance(table, dict) or not table:
        raise UsageError(f"{where}: not a table of options, as {{cpus = 2}}")
    flat = {}
    for key, value in table.items():
        if key == "knob" and isinstance(value, dict):
            flat |= {f"knob.{k}": v for k, v in value.items()}
        else:
            flat[key] = value
    return flat


def _one(selector, points, what):
    found = [p for p in points if p.fits(selector)]
    text = ", ".join(f"{k} = {v}" for k, v in selector.items())
    if not found:
        raise UsageError(f"{what}: no cell has {text}")
    if len(found) > 1:
        first, second = found[0].options, found[1].options
        differ = [k for k in {**first, **second}
                  if first.get(k) != second.get(k)]
        raise UsageError(f"{what}: {len(found)} cells have {text}; they "
                         f"differ in {', '.join(differ)}")


def _name(name, selector, more, expression, relative):
    """ "cmdq=add 16 CPUs" """
    words = [name] if name else []
    for key, value in (more if name else selector).items():
        words.append(f"{value} CPUs" if key == "cpus" else
                     f"{value}" if key in ("machine", "mode", "matrix") else
                     f"{key.removeprefix('knob.')}={value}")
    text = " ".join(words)
    if not name and expression != metric.RATE:
        text += f", {expression}"
    if not name and relative:
        differ = [f"{v}" for k, v in relative.items()
                  if str(selector.get(k)) != str(v)]
        text += f" / {' '.join(differ) or 'reference'}"
    return text


def _keys(table, where, needed, others):
    if not isinstance(table, dict):
        raise UsageError(f"{where} is not a table")
    for key in sorted(needed - set(table)):
        raise UsageError(f"'{key}' is missing in {where}")
    for key in table:
        if key not in needed | set(others):
            raise UsageError(f"unknown key '{key}' in {where} (valid: "
                             + ", ".join(sorted(needed | set(others))) + ")")
