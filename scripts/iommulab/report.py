# SPDX-License-Identifier: GPL-2.0-or-later
"""iommulab report: what was measured, as one HTML file, as the table of
published figures, or as a trace for ui.perfetto.dev."""

import argparse
import bisect
import functools
import json
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

from . import experiment, fidelity, locks, metric, options, page, paths
from . import result, svg, sweep, table, trace
from .errors import OK, UsageError

TRACED = 3              # cells whose lanes are drawn, in all
CONTENDED = 12          # cells whose locks are shown
TOP = 8                 # lines of those tables
SPANS = 6000            # spans and marks drawn for each of these cells

# Parts of a CPU's time, as shown, and what they are in `vcpus`.
KINDS = {"executing": ("exec",), "waits for a line": ("line_wait",),
         "line transfer": ("line_transfer",), "atomic": ("atomic",),
         "device access": ("mmio",), "parked, event": ("wfe",),
         "parked, polling": ("poll", "pause"), "idle": ("idle", "jitter")}


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "report", help="write results as an HTML page, a table of published "
                       "figures, or a trace for ui.perfetto.dev",
        description="Write what was measured: one HTML file that needs "
                    "nothing else, no network and no scripts; with "
                    "--fidelity, published figures beside simulated ones; "
                    "with --perfetto, the trace of a cell that was run with "
                    "--trace.")
    parser.add_argument(
        "result", metavar="RESULT", nargs="*",
        help="an experiment that was swept, a file of 'sweep' or 'run "
             "--json', or the folder of a cell (default: all experiments)")
    parser.add_argument(
        "--html", metavar="FILE", type=Path,
        help="where to write the page (default: build/report.html)")
    parser.add_argument(
        "--fidelity", action="store_true",
        help="print every published figure with its simulated one and their "
             "ratio")
    parser.add_argument(
        "--json", metavar="FILE",
        help="with --fidelity: the same for a program; - prints it instead")
    parser.add_argument(
        "--perfetto", metavar="FILE", type=Path,
        help="write the trace of the one cell that has one")
    parser.add_argument(
        "--window", metavar="START:LENGTH", type=_window,
        help="what the lanes of a traced cell show, in us since the "
             "measurement began (default: around the longest wait)")
    parser.add_argument(
        "--output", metavar="DIR", type=Path,
        help="where the results are (default: build/results)")
    parser.set_defaults(func=main)


def _window(text):
    start, colon, length = text.partition(":")
    try:
        found = int(float(start) * 1e6), int(float(length) * 1e6)
    except ValueError:
        found = (-1, 0)
    if not colon or found[0] < 0 or found[1] <= 0:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not START:LENGTH (valid: 250:40)")
    return found


@dataclass(frozen=True)
class Study:
    """Cells that are shown together, and what was published of them."""
    name: str
    title: str
    work: str           # "": no experiment
    cells: list         # of the result file
    points: list        # {"options", "cell"}
    compared: object    # fidelity.Table or None
    folder: Path        # of the folders of cells
    failed: tuple = ()

    def cell(self, point):
        return next((c for c in self.cells
                     if c["provenance"]["cell"] == point["cell"]), None)

    def folder_of(self, cell):
        """Where the guest's own lines are, or None."""
        name = "{machine}-{cpus}-{mode}-{workload}-".format(**cell) \
            + cell["provenance"]["cell"][:12]
        for path in (self.folder / name, self.folder,
                     paths.BUILD / "results" / name):
            if path.name == name and path.is_dir():
                return path
        return None

    @property
    def verdict(self):
        if self.compared and self.compared.rows:
            return fidelity.verdict(self.compared)
        if not self.cells:
            return "No cell has a result."
        text = table.sentence(self.cells).removeprefix("Verdict: ")
        if text.startswith("none"):
            return (f"{len(self.cells)} cell"
                    f"{'s were' if len(self.cells) > 1 else ' was'} "
                    "measured.")
        return text[0].upper() + text[1:]


def main(args):
    for path in (args.html, args.perfetto):
        if path and not path.absolute().parent.is_dir():
            raise UsageError(f"there is no folder {path.absolute().parent}")
    if args.json and not args.fidelity:
        raise UsageError("--json needs --fidelity")
    results = options.output(args)
    if args.fidelity:
        return _fidelity(args, results)
    studies = load(args.result, results)
    if args.perfetto:
        _perfetto(args.perfetto, studies)
        print(f"{args.perfetto}: open it in ui.perfetto.dev, which keeps it "
              "on this machine")
        if not args.html:
            return OK
    path = args.html or paths.BUILD / "report.html"
    text = html(studies, args.window)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    for study in studies:
        print(f"{study.name}: {study.verdict}")
    print(f"\nReport: {path} ({len(text.encode()) / 1e6:.1f} MB)")
    return OK


# --- What there is ---------------------------------------------------------

def load(names, results):
    """[Study] of what the user named, or of all experiments that ran."""
    if not names:
        names = [str(path) for name in experiment.names()
                 if (path := sweep.latest(results, name))]
        if not names:
            raise UsageError(f"there are no results of an experiment in "
                             f"{results}: 'iommulab sweep' makes some")
    return [_study(name, results) for name in names]


def _study(text, results):
    path = Path(text)
    if text in experiment.names():
        path = sweep.latest(results, text)
        if not path:
            raise UsageError(f"{text} was not run: 'iommulab sweep {text}' "
                             "does that")
    elif path.is_dir():
        path = path / "result.json"
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as err:
        raise UsageError(f"{text}: {getattr(err, 'strerror', '') or err}") \
            from None
    path = path.absolute()
    if isinstance(data, dict) and data.get("schema") == sweep.SCHEMA:
        data = sweep.load(path)
        found = _experiment(data)
        return Study(data["experiment"], data["title"], data["work"],
                     data["cells"], data["points"],
                     fidelity.compare(found, data), path.parent,
                     tuple(data["failed"]))
    wrong = result.errors(data)
    if wrong:
        raise UsageError(f"{path} is neither a result file nor a sweep's: "
                         f"{wrong[0]}")
    if not data["cells"]:
        raise UsageError(f"{path} has no cells")
    points = [{"options": _options(cell),
               "cell": cell["provenance"]["cell"]} for cell in data["cells"]]
    name = path.parent.name if path.name == "result.json" else path.stem
    return Study(name, "Maps and unmaps", "", data["cells"], points, None,
                 path.parent.parent if path.name == "result.json"
                 else path.parent)


def _experiment(data):
    """The experiment as it is now; else as it was when it was run."""
    if data["experiment"] in experiment.names():
        return experiment.load(data["experiment"], data["short"])
    return sweep.figures(data)


def _options(cell):
    """A cell of a result file as a sweep's point has it."""
    return {"machine": cell["machine"], "cpus": cell["cpus"],
            "mode": cell["mode"], "workload": cell["workload"],
            **{k.replace("_", "-"): v for k, v in cell["algorithms"].items()},
            **{f"knob.{k}": v for k, v in cell["knobs"].items()
               if k != "threads"}}


# --- Published figures -----------------------------------------------------

def _fidelity(args, results):
    if args.result:
        tables = [s.compared for s in load(args.result, results)
                  if s.compared]
        if not tables:
            raise UsageError("none of these is the result of an experiment")
    else:
        tables = []
        for name in experiment.names():
            path = sweep.latest(results, name)
            tables.append(fidelity.compare(
                experiment.load(name), sweep.load(path) if path else None))
    if args.json == "-":
        json.dump(fidelity.document(tables), sys.stdout, indent=1)
        print()
        return OK
    if args.json:
        result.write(args.json, fidelity.document(tables))
    print(fidelity.summary(tables))
    return OK


# --- Traces ----------------------------------------------------------------

def _traced(study):
    """[(cell, folder)] of the cells that have a trace."""
    found = []
    for cell in study.cells:
        folder = study.folder_of(cell)
        if folder and (folder / trace.LOG).is_file():
            found.append((cell, folder))
    return found


def _perfetto(path, studies):
    traced = [item for study in studies for item in _traced(study)]
    if not traced:
        raise UsageError("no cell was traced: 'iommulab run --trace' does "
                         "that")
    if len(traced) > 1:
        raise UsageError(f"{len(traced)} cells were traced; give the folder "
                         f"of one, as {traced[0][1]}")
    [(cell, folder)] = traced
    document = trace.perfetto(trace.read(folder), cell["machine"],
                              folder.name, line_names(folder))
    with open(path, "w") as out:
        json.dump(document, out, separators=(",", ":"))
        out.write("\n")


def _symbols(folder):
    """The kernel's symbols; none where its System.map is gone."""
    try:
        return locks.system_map(folder)
    except UsageError:
        return locks.Symbols("")


def line_names(folder):
    """A function that gives the name of an address in RAM, or the address."""
    try:
        lines = locks.load(folder)
    except UsageError:
        return str
    symbols = _symbols(folder)
    names = locks.Names([l for l in lines if l["iommulab"] == "name"],
                        locks.ram_base(folder))
    known = {line["ram"]: int(line["addr"], 16) for line in lines
             if line["iommulab"] == "line"}

    @functools.cache
    def name(ram):
        addr = known.get(ram)
        return (names.name(addr, int(ram, 16))
                or addr is not None and symbols.name(addr) or ram)

    return name


# --- The page --------------------------------------------------------------

def html(studies, window=None):
    """The whole page."""
    heading = studies[0].name if len(studies) == 1 else \
        f"{len(studies)} results"
    body = [page.header(f"iommulab: {heading}", _overall(studies))]
    left = TRACED
    for study in studies:
        traced = _traced(study)[:left]
        left -= len(traced)
        body.append(_section(study, traced, window, len(studies) == 1))
    body.append(_meaning(studies))
    return page.document(f"iommulab: {heading}", "".join(body))


def _overall(studies):
    """The sentence the page begins with."""
    compared = [s.compared for s in studies
                if s.compared and s.compared.errors]
    if len(studies) == 1:
        return studies[0].verdict
    if not compared:
        return f"{sum(len(s.cells) for s in studies)} cells were measured."
    return "Median error " + ", ".join(
        f"{t.work} {t.name} {100 * t.median_error:.0f} %"
        for t in compared) + "."


def _section(study, traced, window, alone):
    chosen = sweep.varied(study.points)
    labels = {p["cell"]: sweep.label(p, chosen) or study.name
              for p in study.points}
    title = f"{study.work} {study.name}".strip()
    parts = [page.heading(2, title, study.title)]
    if not alone:
        parts.append(page.paragraph(study.verdict, "verdict"))
    for failure in study.failed:
        parts.append(page.paragraph(
            f"Failed: {failure.get('label')}: "
            + str(failure.get("message")).splitlines()[0], "bad"))
    for cell in study.cells:
        for finding in cell["provenance"]["findings"]:
            parts.append(page.paragraph(
                f"Doubtful: {labels.get(cell['provenance']['cell'])}: "
                f"{finding}", "bad"))
    if study.compared and study.compared.rows:
        parts.append(page.heading(3, "Published and simulated"))
        parts.append(_published(study.compared))
    if study.cells:
        parts.append(page.heading(3, "Operations per CPU per second"))
        parts.append(_curves(study))
        parts.append(page.details("All cells", _cells(study, labels)))
    parts.append(_cycles(study, labels))
    parts.append(_queues(study, labels))
    parts.append(_lanes(traced, labels, window))
    parts.append(_contention(study, labels))
    parts.append(page.details("Provenance", _provenance(study, labels)))
    return f'<section id="{escape(study.name)}">{"".join(parts)}</section>'


def _published(found):
    out = []
    singles = []
    for name, rows in fidelity.groups(found.rows):
        if not rows[0].figure.along:
            singles += rows
            continue
        along = rows[0].figure.along
        out.append(page.table(
            [name, *(r.figure.at for r in rows)],
            [["published"] + [fidelity.number(r.figure.value) for r in rows],
             ["simulated"] + [fidelity.number(r.simulated) for r in rows],
             ["ratio"] + [fidelity.ratio(r.ratio) for r in rows]],
            "CPUs" if along == "cpus" else along))
    if singles:
        out.append(page.table(
            ["", "published", "simulated", "ratio"],
            [[r.figure.name + (" *" if r.figure.fitted else ""),
              fidelity.number(r.figure.value), fidelity.number(r.simulated),
              fidelity.ratio(r.ratio)] for r in singles]))
    sources = list(dict.fromkeys(
        f"{r.figure.group}: {r.figure.source}" for r in found.rows))
    out.append(page.details("Sources of the published figures",
                            page.items(sources)))
    return "".join(out)


def _curves(study):
    """Scaling curves, or bars where there is one number of CPUs."""
    keys = [k for k in sweep.varied(study.points) if k != "cpus"]
    series = {}
    for point in study.points:
        cell = study.cell(point)
        if cell:
            own = series.setdefault(
                (point["options"].get("machine"),
                 sweep.label(point, keys) or study.name), ({}, {}))
            own[0][cell["cpus"]] = cell["ops_per_cpu_per_s"]
            for row in study.compared.rows if study.compared else ():
                figure = row.figure
                if figure.metric == metric.RATE and not figure.relative \
                        and sweep.fits(point, figure.cell):
                    own[1][cell["cpus"]] = figure.value
    if all(len(points) == 1 for points, _ in series.values()):
        rows = []
        for (_, label), (points, published) in series.items():
            [(cpus, value)] = points.items()
            rows.append((label, value, svg.number(value),
                         published.get(cpus)))
        return page.figure(svg.bars("Operations per CPU per second", rows),
                           "A line across a bar is the published figure."
                           if any(r[3] for r in rows) else "")
    out = []
    for name in dict.fromkeys(key[0] for key in series):
        mine = [(label, sorted(points.items()), published)
                for (m, label), (points, published) in series.items()
                if m == name]
        for start in range(0, len(mine), svg.SERIES):
            part = mine[start:start + svg.SERIES]
            out.append(page.figure(
                svg.lines(f"{name}: operations per CPU per second", part,
                          "operations per CPU per second"),
                ("Dashed: published." if any(p[2] for p in part) else ""),
                [label for label, *_ in part]))
    # Other numbers that were published along the CPUs.
    rows = study.compared.rows if study.compared else ()
    for name, members in fidelity.groups(rows):
        figure = members[0].figure
        if figure.along == "cpus" and (figure.metric != metric.RATE
                                       or figure.relative):
            out.append(page.figure(svg.lines(name, [(
                name, [(int(r.figure.at), r.simulated) for r in members
                       if r.simulated],
                {int(r.figure.at): r.figure.value for r in members})],
                name), "Dashed: published.", [name]))
    return f'<div class="charts">{"".join(out)}</div>'


def _cells(study, labels):
    rows = []
    for cell in study.cells:
        ways = cell["latency_ns"]
        rows.append([labels.get(cell["provenance"]["cell"], "?"),
                     f"{cell['ops_per_cpu_per_s'] / 1000:.1f}",
                     *(f"{ways[w][s] / 1000:.2f}" for w in ("map", "unmap")
                       for s in ("mean", "p99"))])
    return page.table(["cell", "K per CPU per s", "map mean, us", "p99",
                       "unmap mean, us", "p99"], rows)


def _cycles(study, labels):
    rows = []
    for cell in study.cells:
        try:
            rows.append((labels.get(cell["provenance"]["cell"], "?"),
                         {kind: sum(metric.share(cell, part)
                                    for part in parts)
                          for kind, parts in KINDS.items()}))
        except metric.Missing:
            continue
    if not rows:
        return ""
    shown = [k for k in KINDS if any(r[1][k] >= 0.0005 for r in rows)]
    return (page.heading(3, "Where the CPUs' time went")
            + page.figure(svg.stack("Shares of the CPUs' time", rows,
                                    list(KINDS)), "", shown,
                          [list(KINDS).index(k) for k in shown])
            + page.details("The same in numbers, %", page.table(
                ["cell", *shown],
                [[label, *(f"{100 * shares[k]:.1f}" for k in shown)]
                 for label, shares in rows])))


def _queues(study, labels):
    """What the IOMMUs' queues counted."""
    rows = []
    for cell in study.cells:
        folder = study.folder_of(cell)
        try:
            lines = locks.load(folder) if folder else ()
        except UsageError:
            continue
        for q in lines:
            if q["iommulab"] != "queue" or not q.get("elapsed-ns"):
                continue
            batch, wait, time = q["batch"], q["wait"], q["elapsed-ns"]
            rows.append([
                labels.get(cell["provenance"]["cell"], "?"),
                ", ".join(f"{c['name']} {c['commands']}"
                          for c in q["classes"]),
                f"{batch['sum'] / batch['count']:.1f}" if batch["count"]
                else "-", f"{100 * q['busy-ns'] / time:.0f}",
                f"{q['occupancy-ns'] / time:.2f}", q["occupancy-max"],
                f"{100 * q['full-ns'] / time:.0f}",
                f"{wait['sum'] / wait['count']:.0f}" if wait["count"]
                else "-", wait["max"]])
    if not rows:
        return ""
    return (page.heading(3, "The IOMMU's queue")
            + page.details("Commands, occupancy, waits", page.table(
                ["cell", "commands", "for each doorbell", "busy, %",
                 "occupancy", "max", "full, %", "wait, ns", "max"],
                rows, text=2)))


def _lanes(traced, labels, window):
    out = []
    for cell, folder in traced:
        try:
            found = trace.read(folder)
        except UsageError as err:
            out.append(page.paragraph(str(err), "bad"))
            continue
        start, end = _interval(found, window)
        label = labels.get(cell["provenance"]["cell"], folder.name)
        worst = found.worst
        text = (f"{label}: {(end - start) / 1e6:.1f} of "
                f"{found.length / 1e6:.0f} us.")
        if worst:
            text += (f" The longest wait for a command was "
                     f"{(worst.end - worst.submit) / 1e6:.2f} us, of CPU "
                     f"{worst.cpu}.")
        out.append(page.figure(
            svg.lanes(f"Queue and CPUs, {label}", start, end,
                      _occupancy(found, start, end),
                      _rows(found, start, end, cell["machine"],
                            line_names(folder))),
            text, ["its commands are in the queue", "parked, event",
                   "parked, polling", "doorbell"], [1, 5, 6, "door"],
            wide=True))
    return (page.heading(3, "Queue and CPUs over time") + "".join(out)
            if out else "")


def _interval(found, window):
    if window:
        start = min(window[0], found.length)
        return start, min(found.length, start + window[1]) or 1
    worst = found.worst
    if not worst:
        return 0, found.length or 1
    middle = (worst.submit + worst.end) // 2
    half = max(2 * (worst.end - worst.submit), 10 * 10**6)
    start = max(0, min(middle - half, found.length - 2 * half))
    return start, min(found.length, start + 2 * half) or 1


def _occupancy(found, start, end):
    """Commands in the busiest queue: steps, the first at `start`."""
    steps = max(found.occupancy.values(), key=len, default=[])
    first = bisect.bisect_left(steps, (start, -1))
    level = steps[first - 1][1] if first else 0
    return [(start, level)] + [s for s in steps[first:] if s[0] <= end]


def _rows(found, start, end, name, name_of):
    """What each CPU did. Spans and marks that are close to another become
    one: as much as it takes to draw few of them."""
    tiny = (end - start) // 1500
    while True:
        rows = _rows_of(found, start, end, name, name_of, tiny)
        if sum(len(spans) + len(marks) for _, spans, marks in rows) <= SPANS:
            return rows
        tiny = 2 * tiny + 1


def _rows_of(found, start, end, name, name_of, tiny):
    rows = []
    for cpu in found.cpus:
        spans = [(c.submit, c.end, "c1 bar", trace.kind(name, c.kind))
                 for c in found.commands if c.cpu == cpu]
        spans = _merge(sorted(s for s in spans
                              if s[0] < end and s[1] > start), tiny)
        parks = [(w.start, w.end, "c6 bar" if w.cause else "c5 bar",
                  f"parked, {trace.PARK.get(w.cause)}: "
                  + name_of(w.line))
                 for w in found.waits if w.cpu == cpu]
        parks = _merge(sorted(s for s in parks
                              if s[0] < end and s[1] > start), tiny)
        marks = []
        for now, who, *_ in found.doorbells:
            if who == cpu and start <= now <= end and (
                    not marks or now > marks[-1] + tiny):
                marks.append(now)
        rows.append((cpu, spans + parks, marks))
    return rows


def _merge(spans, tiny):
    """Spans of one kind that touch, or nearly so, as one."""
    out = []
    for span in spans:
        if out and out[-1][2] == span[2] and span[0] <= out[-1][1] + tiny:
            out[-1] = (out[-1][0], max(out[-1][1], span[1]), span[2],
                       out[-1][3])
        else:
            out.append(span)
    return out


def _contention(study, labels):
    found = []
    for cell in study.cells:
        folder = study.folder_of(cell)
        if not folder:
            continue
        try:
            lines = locks.load(folder)
            regions = [l["region"] for l in lines
                       if l["iommulab"] == "coherence"]
            if regions:
                data = locks.analyse(lines, regions[-1], _symbols(folder),
                                     locks.ram_base(folder))
                found.append((data["total"]["wait_ps"]
                              + data["total"]["transfer_ps"],
                              labels.get(cell["provenance"]["cell"], "?"),
                              data))
        except (UsageError, KeyError):
            continue
    found.sort(key=lambda f: (-f[0], f[1]))
    if not found:
        return ""
    out = [page.heading(3, "Who waited for which line")]
    for number, (_, label, data) in enumerate(found[:CONTENDED]):
        body = page.table(
            ["function", "line", "type", "contended", "total wait",
             "max wait", "avg wait"],
            [[e["caller"], e["line"], e["type"], e["contended"],
              locks.duration(e["total_wait_ps"]),
              locks.duration(e["max_wait_ps"]),
              locks.duration(e["avg_wait_ps"])]
             for e in data["functions"][:TOP]], text=2)
        body += page.table(
            ["line", "top writers", "transfers", "wait", "transfer",
             "CAS/ok"],
            [[line["name"], ", ".join(n for n, _ in line["writers"][:3]),
              line["transfers"], locks.duration(line["wait_ps"]),
              locks.duration(line["transfer_ps"]),
              f"{line['cas'] / line['cas_ok']:.1f}" if line["cas_ok"]
              else "-"] for line in data["lines"][:TOP]], text=2)
        out.append(page.details(label, body, opened=not number))
    if len(found) > CONTENDED:
        out.append(page.paragraph(
            f"{len(found) - CONTENDED} cells with shorter waits are left "
            "out; 'iommulab locks FOLDER' shows them."))
    return "".join(out)


def _provenance(study, labels):
    facts = {}
    for cell in study.cells:
        known = cell["provenance"]
        for name, source in known["sources"].items():
            facts.setdefault(f"source of {name}", set()).add(
                str(source.get("version", source))
                if isinstance(source, dict) else str(source))
        for kind in ("artefacts", "config", "binaries"):
            for name, value in known[kind].items():
                facts.setdefault(f"{kind}: {name}", set()).add(str(value))
        facts.setdefault("clock", set()).add(cell["clock"])
        facts.setdefault("host", set()).add(
            " ".join(str(known["host"].get(k, "?")) for k in
                     ("system", "release", "machine", "cpus")) + " CPUs")
    out = page.table(["what", "value"], [
        [name, ", ".join(sorted(values))]
        for name, values in sorted(facts.items())], text=2)
    rows = [[labels.get(c["provenance"]["cell"], "?"),
             c["provenance"]["cell"][:12], c["provenance"]["kernel_cmdline"]]
            for c in study.cells]
    return out + page.table(["cell", "hash", "kernel command line"], rows,
                            text=3)


def _meaning(studies):
    """What is modelled, measured and calibrated, each statement once."""
    rows = []
    for key in ("modelled", "measured", "calibrated"):
        said = dict.fromkeys(c["provenance"][key] for s in studies
                             for c in s.cells)
        rows += [[key, text] for text in said]
    return (page.heading(2, "What the numbers stand for")
            + page.table(["", ""], rows, text=2))
