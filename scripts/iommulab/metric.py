# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers taken from a cell of a result file, by a small expression.

A sum of paths, or one sum divided by another: "time.poll + time.line_wait",
"counters.cmdq.cas / counters.cmdq.insertion". A path is

  ops_per_cpu_per_s           or another number of the cell
  latency_ns.WAY.STATISTIC    as in the result file
  counters.SET.NAME           what the kernel counted, in all samples
  time.KIND                   share of all CPUs' time: KIND_ps of `vcpus`
"""

import re

from . import result
from .errors import UsageError

RATE = "ops_per_cpu_per_s"
PATH = re.compile(r"[a-z][a-z0-9_]*(\.[A-Za-z0-9_]+)*$")


class Missing(Exception):
    """The cell has no such number."""


def parse(expression):
    """[[path of the dividend], [path of the divisor]]; the second may be
    missing."""
    if not isinstance(expression, str):
        raise UsageError("metric: not a string")
    sums = [[path.strip() for path in part.split("+")]
            for part in expression.split("/")]
    for path in (path for part in sums for path in part):
        if not PATH.match(path):
            raise UsageError(f"metric: '{path}' is not a path")
        kind, *rest = path.split(".")
        if kind == "time" and (len(rest) != 1
                               or f"{rest[0]}_ps" not in result.TIME_KEYS):
            raise UsageError(
                f"metric: '{path}' is unknown (valid: " + ", ".join(
                    f"time.{k[:-3]}" for k in sorted(result.TIME_KEYS)) + ")")
        if kind == "counters" and len(rest) != 2:
            raise UsageError(f"metric: '{path}' is not counters.SET.NAME")
    if len(sums) > 2:
        raise UsageError("metric: more than one '/'")
    return sums


def check(expression):
    """Raise UsageError if it is none."""
    parse(expression)


def value(cell, expression):
    """The number, or Missing."""
    dividend, *divisor = (sum(_path(cell, path) for path in part)
                          for part in parse(expression))
    if not divisor:
        return dividend
    if not divisor[0]:
        raise Missing(f"{expression}: divided by 0")
    return dividend / divisor[0]


def _path(cell, path):
    kind, *rest = path.split(".")
    if kind == "time":
        return share(cell, rest[0])
    if kind == "counters":
        found = [_walk(s.get("counters"), path, *rest)
                 for s in cell["samples"]]
        return sum(found)
    return _walk(cell, path, kind, *rest)


def _walk(item, path, *keys):
    for key in keys:
        if not isinstance(item, dict) or key not in item:
            raise Missing(f"the cell has no {path}")
        item = item[key]
    if isinstance(item, bool) or not isinstance(item, (int, float)):
        raise Missing(f"{path} of the cell is no number")
    return item


def share(cell, kind):
    """Share of all CPUs' time in the measured region."""
    vcpus = [v for s in cell["samples"] for v in s.get("vcpus", ())]
    total = sum(v["total_ps"] for v in vcpus)
    if not total:
        raise Missing(f"the cell has no time.{kind}: its clock is not vtime")
    return sum(v[f"{kind}_ps"] for v in vcpus) / total
