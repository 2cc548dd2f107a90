# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of a run: 72 columns of plain ASCII, fit for a cover letter."""

import textwrap

from . import modes as algorithms
from . import result

WIDTH = 72
FIRST = 18      # width of the "machine  cpus" columns
MODE_ORDER = ("strict", "lazy", "passthrough")

FUNCTIONAL = (
    "Clock: functional. Every instruction takes 1 ns on one clock that all "
    "CPUs share, so with N CPUs a rate per CPU falls as 1/N by "
    "construction. Compare modes at one number of CPUs, never numbers of "
    "CPUs.")
VTIME = (
    "Clock: vtime. Each CPU has its own clock; instructions, device accesses "
    "and interrupts take the time of {profile}.")
MEASURED = "Measured: the guest kernel's instructions{}."
QUEUE = (" and its waiting for the IOMMU's queue, whose commands take the time "
         "that QEMU's options give them")
LINES = " and for contended cache lines, by the profile"
MISSING = " Not modelled: {}."
UNCALIBRATED = " Not calibrated against hardware."



def render(cells, failures=(), interrupted=0):
    """The whole report. `failures` is a list of (machine, cpus, mode, what)
    or (machine, cpus, mode, what, algorithms); `interrupted` says how many
    cells were not run."""
    found = {(c["machine"], c["cpus"], c["mode"],
              algorithms.label(c["algorithms"].items())): c for c in cells}
    failed = {(*f[:3], f[4] if len(f) > 4 else ""): f[3] for f in failures}
    keys = [*found, *failed]
    modes = [m for m in MODE_ORDER if any(k[2] == m for k in keys)]
    machines = list(dict.fromkeys(k[0] for k in keys))
    chosen = list(dict.fromkeys(k[3] for k in keys))
    rows = [(m, n, a) for a in chosen for m in machines
            for n in sorted({k[1] for k in keys if (k[0], k[3]) == (m, a)})]
    out = []
    if cells:
        knobs = cells[0]["knobs"]
        out += [f"DMA map + unmap of {knobs.get('size', '?')} bytes, "
                f"{knobs.get('depth', '?')} mapped before the first is "
                "unmapped", ""]

    def block(title, show):
        out.append(title)
        out.append("machine     cpus  " + "".join(f"{m:>18}" for m in modes))
        last = ""
        for name, cpus, algorithm in rows:
            if algorithm != last:
                out.append(f"{algorithm}:")
                last = algorithm
            line = f"{name:<12}{cpus:>4}  "
            for mode in modes:
                key = (name, cpus, mode, algorithm)
                text = (show(found[key]) if key in found
                        else failed.get(key, "-"))
                line += f"{text:>18}"
            out.append(line.rstrip())
        out.append("")

    if rows:
        block("Thousand operations per CPU per second",
              lambda c: f"{c['ops_per_cpu_per_s'] / 1000:.1f}")
    if cells:
        block("Mean map/unmap, us", lambda c: _pair(c, "mean"))
        block("99th percentile map/unmap, us", lambda c: _pair(c, "p99"))
    out += _wrap(verdict(found, rows, failed, interrupted))
    if cells:
        out.append("")
        if any(c["clock"] == "functional" for c in cells):
            out += _wrap(FUNCTIONAL)
        if any(c["clock"] == "vtime" for c in cells):
            out += _wrap(VTIME.format(profile=_profiles(cells)))
        out += _wrap(_limits(cells))
        out += _wrap(_versions(cells))
    marked = [c for c in cells if c["provenance"]["findings"]]
    for c in marked:
        label = algorithms.label(c["algorithms"].items())
        out += _wrap(f"Doubtful: {c['machine']} {c['cpus']} {c['mode']}"
                     + (f" {label}" if label else "") + ": "
                     + c["provenance"]["findings"][0])
    return "\n".join(out)


def sentence(cells):
    """The verdict on these cells, none of which failed."""
    found = {(c["machine"], c["cpus"], c["mode"],
              algorithms.label(c["algorithms"].items())): c for c in cells}
    return verdict(found, [(m, n, a) for m, n, _, a in found])


def _limits(cells):
    argvs = [c["provenance"].get("qemu_argv", ()) for c in cells]
    timed = any(result.timed_queue(argv) for argv in argvs)
    lines = any("vtime-watch=" in word for argv in argvs for word in argv)
    missing = [what for there, what in (
        (timed, "the time a command spends in the IOMMU's queue"),
        (lines, "cache line transfers")) if not there]
    return (MEASURED.format((QUEUE if timed else "")
                            + (LINES if lines else ""))
            + (MISSING.format(", ".join(missing)) if missing else "")
            + UNCALIBRATED)


def verdict(found, rows, failed=(), interrupted=0):
    """One sentence for each machine, at its largest number of CPUs."""
    if failed:
        return f"Verdict: {len(failed)} of the cells failed; see above."
    if interrupted:
        return (f"Verdict: interrupted; {interrupted} cells were not "
                "measured.")
    parts = []
    for name, algorithm in dict.fromkeys((r[0], r[2]) for r in rows):
        cpus = max(n for m, n, a in rows if (m, a) == (name, algorithm))
        rates = {mode: found[name, cpus, mode, algorithm]["ops_per_cpu_per_s"]
                 for mode in MODE_ORDER
                 if (name, cpus, mode, algorithm) in found}
        parts += _compare(f"{name} {algorithm}".rstrip(), cpus, rates)
    if not parts:
        return "Verdict: none, as nothing was run to compare with."
    return "Verdict: " + "; ".join(parts) + "."


def _compare(name, cpus, rates):
    """ "smmuv3, 4 CPUs: strict runs at 31 % of lazy, ..." """
    have = [mode for mode in MODE_ORDER if mode in rates]
    steps = [f"{slow} runs at {100 * rates[slow] / rates[fast]:.0f} % of "
             f"{fast}" for slow, fast in zip(have, have[1:]) if rates[fast]]
    if not steps:
        return []
    return [f"{name}, {cpus} CPU{'s' if cpus > 1 else ''}: "
            + ", ".join(steps)]


def _pair(cell, key):
    ways = cell["latency_ns"]
    return f"{ways['map'][key] / 1000:.2f}/{ways['unmap'][key] / 1000:.2f}"


def _profiles(cells):
    """ "generic-x86.ini, generic-arm.ini": the profiles in use."""
    names = [word.rpartition("/")[2].split(",")[0]
             for c in cells for word in c["provenance"]["qemu_argv"]
             if "vtime-profile=" in word]
    return ", ".join(dict.fromkeys(names)) or "no profile"


def _versions(cells):
    sources = cells[0]["provenance"]["sources"]
    names = [f"{name} {source['version']}"
             for name, source in sorted(sources.items())]
    return "Sources: " + (", ".join(names) or "not recorded") + "."


def _wrap(text):
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ")
