# SPDX-License-Identifier: GPL-2.0-or-later
"""Published figures beside simulated ones."""

import itertools
import statistics
import textwrap
from dataclasses import dataclass

from . import metric, table

SCHEMA = "iommulab/fidelity/1"
CLEAR = 1.10            # figures that differ by less have no order


@dataclass(frozen=True)
class Row:
    figure: object          # experiment.Figure
    simulated: float        # None: not measured
    why: str = ""           # why not

    @property
    def ratio(self):
        if self.simulated is None:
            return None
        return self.simulated / self.figure.value


@dataclass(frozen=True)
class Table:
    """The figures of one experiment."""
    name: str
    work: str
    title: str
    rows: tuple

    @property
    def errors(self):
        """Relative errors of the figures that were not used to fit."""
        return [abs(r.ratio - 1) for r in self.rows
                if r.ratio is not None and not r.figure.fitted]

    @property
    def median_error(self):
        return statistics.median(self.errors) if self.errors else None

    @property
    def order(self):
        """(right, all) pairs of figures that differ clearly: of two
        algorithms in otherwise equal cells, and of each ratio with 1."""
        right = total = 0
        for row in self.rows:
            if row.figure.relative is None or row.ratio is None:
                continue
            if max(row.figure.value, 1 / row.figure.value) > CLEAR:
                total += 1
                right += (row.figure.value - 1) * (row.simulated - 1) > 0
        known = [r for r in self.rows if r.ratio is not None
                 and r.figure.relative is None]
        for a, b in itertools.combinations(known, 2):
            if not _comparable(a.figure, b.figure):
                continue
            low, high = sorted((a.figure.value, b.figure.value))
            if high / low > CLEAR:
                total += 1
                right += ((a.figure.value - b.figure.value)
                          * (a.simulated - b.simulated) > 0)
        return right, total


def _comparable(a, b):
    """Whether two figures differ in nothing but algorithms or mode."""
    if a.metric != b.metric or set(a.cell) != set(b.cell):
        return False
    return all(str(a.cell[k]) == str(b.cell[k]) for k in a.cell
               if k in ("cpus", "machine", "matrix", "workload")
               or k.startswith("knob."))


def compare(experiment, document):
    """The Table of an experiment, with a sweep's document; None if it was
    not run."""
    cells = {c["provenance"]["cell"]: c for c in document["cells"]} \
        if document else {}
    points = document["points"] if document else ()

    def find(selector):
        for point in points:
            if all(str(point["options"].get(k)) == str(v)
                   for k, v in selector.items()):
                return cells.get(point["cell"])
        return None

    rows = []
    for figure in experiment.figures:
        used = [find(s) for s in (figure.cell, figure.relative)
                if s is not None]
        if None in used:
            rows.append(Row(figure, None, "not measured"))
            continue
        try:
            values = [metric.value(cell, figure.metric) for cell in used]
            rows.append(Row(figure, values[0] if len(values) == 1
                            else values[0] / values[1]))
        except (metric.Missing, ZeroDivisionError) as err:
            rows.append(Row(figure, None, str(err)))
    return Table(experiment.name, experiment.work, experiment.title,
                 tuple(rows))


def document(tables):
    """What --json prints."""
    return {"schema": SCHEMA, "cells": [
        {"work": t.work, "cell": r.figure.name, "published": r.figure.value,
         "simulated": r.simulated, "ratio": r.ratio}
        for t in tables for r in t.rows]}


# --- As text ---------------------------------------------------------------

def number(value):
    """Three digits: 453K, 9.5K, 0.22, 1.1"""
    if value is None:
        return "-"
    for limit, unit in ((999.5e3, "M"), (999.5, "K")):
        if value >= limit:
            value /= {"M": 1e6, "K": 1e3}[unit]
            break
    else:
        unit = ""
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f}".rstrip("0").rstrip(".") + unit \
        if digits else f"{value:.0f}{unit}"


def ratio(value):
    return "-" if value is None else f"{value:.2f}"


def groups(rows):
    """[(name, [Row])]: those of one series together, in order."""
    found = {}
    for row in rows:
        # A figure of its own is a group of its own.
        key = (row.figure.group, row.figure.along,
               "" if row.figure.along else row.figure.name)
        found.setdefault(key, []).append(row)
    return [(key[0], members) for key, members in found.items()]


def render(found):
    """The whole table of one experiment, 72 columns."""
    out = textwrap.wrap(f"{found.work} {found.name}: {found.title}",
                        table.WIDTH, subsequent_indent="  ")
    singles = []
    for name, rows in groups(found.rows):
        if not rows[0].figure.along:
            singles += rows
            continue
        along = rows[0].figure.along
        out += ["", name]
        for start in range(0, len(rows), 7):
            part = rows[start:start + 7]
            for label, show in (
                    ("CPUs" if along == "cpus" else along[:10],
                     lambda r: r.figure.at),
                    ("published", lambda r: number(r.figure.value)),
                    ("simulated", lambda r: number(r.simulated)),
                    ("ratio", lambda r: ratio(r.ratio))):
                out.append((f"  {label:<11}" + "".join(
                    f"{show(r):>8}" for r in part)).rstrip())
    if singles:
        out += ["", f"{'':<43}{'published':>10}{'simulated':>11}"
                    f"{'ratio':>8}"]
        for row in singles:
            name = row.figure.name + (" *" if row.figure.fitted else "")
            *above, last = textwrap.wrap(name, 42,
                                         subsequent_indent="  ")
            out += above
            out.append(f"{last:<43}{number(row.figure.value):>10}"
                       f"{number(row.simulated):>11}{ratio(row.ratio):>8}")
    out += ["", *textwrap.wrap(verdict(found), table.WIDTH,
                               subsequent_indent="  ")]
    return "\n".join(out)


def summary(tables):
    """All tables, and a line for each work at the end."""
    out = [render(t) + "\n" for t in tables]
    out.append(f"{'':<32}{'figures':>9}{'median error':>15}{'in order':>12}")
    for t in tables:
        right, total = t.order
        error = "-" if t.median_error is None \
            else f"{100 * t.median_error:.0f} %"
        out.append(f"{t.work + ' ' + t.name:<32}{len(t.errors):>9}{error:>15}"
                   + (f"{right} of {total}" if total else "-").rjust(12))
    return "\n".join(out)


def verdict(found):
    """One or two sentences."""
    measured = [r for r in found.rows if r.ratio is not None]
    if not found.rows:
        return "Nothing was published to compare with."
    if not measured:
        return f"None of {len(found.rows)} published figures was measured."
    text = ""
    if found.errors:
        text = f"Median error {_error(found.errors)}"
        kinds = {}
        for row in found.rows:
            if row.ratio is not None and not row.figure.fitted:
                kind = "rates" if row.figure.metric == metric.RATE else \
                    row.figure.group
                kinds.setdefault(kind, []).append(abs(row.ratio - 1))
        if len(kinds) > 1:
            text += " (" + "; ".join(f"{kind}: {_error(errors)}" for
                                     kind, errors in kinds.items()) + ")"
        text += "."
    right, total = found.order
    if total:
        text += (f" Of {total} pairs that differ by over 10 %, {right} "
                 f"{'is' if right == 1 else 'are'} in the published order.")
    fitted = sum(r.figure.fitted for r in measured)
    if fitted:
        text += (" * 1 figure chose a parameter and does not count."
                 if fitted == 1 else
                 f" * {fitted} figures chose parameters and do not count.")
    missing = [r for r in found.rows if r.ratio is None]
    if missing:
        text += f" {len(missing)} figures are without a value"
        why = {r.why for r in missing}
        text += f": {why.pop()}." if len(why) == 1 else "."
    return text.strip()


def _error(errors):
    return (f"{100 * statistics.median(errors):.0f} % of {len(errors)} "
            f"figure{'s' if len(errors) > 1 else ''}")
