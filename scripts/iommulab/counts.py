# SPDX-License-Identifier: GPL-2.0-or-later
"""What the guest kernel counted for one map with its unmap, beside what the
published algorithm does."""

import json
from dataclasses import dataclass
from pathlib import Path

from . import modes, result
from .errors import UsageError

# A region begins and ends in the middle of batches.
TOLERANCE = 0.05

# Attempts to compare and swap for each success on so many CPUs: J. Garry,
# "iommu/arm-smmu-v3: Improve cmdq lock efficiency", 2020.
ATTEMPTS = {1: 1, 2: 1.1, 4: 1.1, 8: 1.3, 16: 3.6, 32: 8.1, 64: 12.6,
            96: 14.7}


@dataclass(frozen=True)
class Row:
    """A count for one operation; `low` to `high` is what was published."""
    cell: str
    knob: str
    mode: str
    what: str
    counted: float
    low: float
    high: float

    @property
    def equal(self):
        slack = TOLERANCE * self.high
        return self.low - slack <= self.counted <= self.high + slack


def load(path):
    """The cells of a result file, of a sweep's, or of a cell's folder."""
    path = Path(path)
    path = path / "result.json" if path.is_dir() else path
    try:
        cells = json.loads(path.read_text())["cells"]
    except (OSError, ValueError, KeyError, TypeError) as err:
        raise UsageError(f"{path} is not a result file: {err}") from None
    wrong = result.errors(result.document(cells))
    if wrong:
        raise UsageError(f"{path}: {wrong[0]}")
    counting = [c for c in cells
                if all("counters" in s for s in c["samples"])]
    if not counting:
        raise UsageError(f"{path} has no cell that was run with --counters")
    return counting


def rows(cell):
    """[Row] of one cell, by the algorithms it ran."""
    ops = sum(t["ops"] for s in cell["samples"] for t in s["threads"])
    where = f"{cell['machine']} {cell['cpus']} {cell['mode']}"
    knobs = cell["knobs"]
    entries = knobs.get("sg") or 1
    pages = entries * -(-knobs.get("size", 4096) // 4096)
    found = []

    def count(name):
        group, name = name.split(".")
        return sum(s["counters"].get(group, {}).get(name, 0)
                   for s in cell["samples"])

    def row(knob, what, names, low, high=None):
        found.append(Row(where, knob, chosen[knob], what,
                         sum(map(count, names.split(" + "))) / ops, low,
                         low if high is None else high))

    chosen = {}
    for name, knob in modes.KNOBS.items():
        if cell["machine"] in knob.machines and cell["mode"] in knob.needs \
                and (name in cell["algorithms"] or not knob.boot):
            chosen[name] = cell["algorithms"].get(name,
                                                  next(iter(knob.modes)))
    for knob, mode in chosen.items():
        _ROWS[knob](row, mode.partition(":")[0], cell, entries, pages)
    return found


def _iova(row, mode, cell, entries, pages):
    cached = mode.startswith("rcache")
    if cached and pages > 32:
        # Ranges above 128 KiB go to the tree: 3 locks in 2016, 2 today.
        locks = 3 if mode == "rcache47" else 2
        row("iova", "locks of the tree", "iova.lock_tree", locks)
    elif cached:
        row("iova", "locks of the own CPU's cache", "iova.lock_cpu", 2)
        row("iova", "locks of a depot", "iova.lock_depot", 0, 2 / 127 * 3)
        row("iova", "locks of the tree", "iova.lock_tree", 0, 0.02)
    elif mode.startswith("pools"):
        row("iova", "locks of a pool", "iova.lock_pool", 2)
        row("iova", "searches of a bitmap", "iova.pool_scans", 1)
    else:
        row("iova", "locks of the tree", "iova.lock_tree",
            3 if mode == "rbtree46" else 2)


def _flush(row, mode, cell, entries, pages):
    cpus, flushes = cell["cpus"], "flush.full + flush.timeout"
    if mode == "strict":
        row("flush", "flushes waited for", "flush.sync", 1)
        return
    if mode == "fq":
        # A flush helps all CPUs, at best with queues of 255 as full.
        row("flush", "locks of the queue", "flush.lock", 1)
        row("flush", "flushes", flushes, 1 / 255 / cpus, 1 / 255)
    elif mode == "global250":
        row("flush", "locks of the global list", "flush.lock", 1)
        row("flush", "flushes", flushes, 1 / 250, 1 / 250)
    elif mode == "percpu250":
        # Who has a full list flushes all that are not empty.
        row("flush", "locks of a CPU's list", "flush.lock", 1,
            1 + 2 * cpus / 250)
        row("flush", "flushes", flushes, 1 / 250, cpus / 250)
    elif mode == "single":
        row("flush", "flushes", flushes, 0, 1 / 32768 * 2)


def _cmdq(row, mode, cell, entries, pages):
    cpus = cell["cpus"]
    if cell["mode"] != "strict":
        return
    if pages == 1:
        row("cmdq", "TLBI", "cmdq.tlbi", 1)
    row("cmdq", "CMD_SYNC", "cmdq.sync", 1)
    if mode == "spin53":
        row("cmdq", "locks", "cmdq.lock", 2)
        row("cmdq", "doorbells", "cmdq.doorbell", 2)
        row("cmdq", "stores to shared words", "cmdq.store",
            6)
        return
    if mode == "add":
        row("cmdq", "atomic additions to claim", "cmdq.add", 1)
        row("cmdq", "compare-and-swaps", "cmdq.cas", 0)
    elif cpus in ATTEMPTS:
        row("cmdq", "compare-and-swaps", "cmdq.cas", ATTEMPTS[cpus])
    # The owner of a gathering rings for all who came meanwhile.
    row("cmdq", "doorbells", "cmdq.doorbell", 1 if cpus == 1 else 0, 1)
    if cpus == 1:
        row("cmdq", "stores to shared words", "cmdq.store",
            7)


def _vtd_map(row, mode, cell, entries, pages):
    by_page = mode != "pages"
    row("vtd_map", "calls of the driver's map", "vtd.map_call",
        pages if by_page else entries)
    row("vtd_map", "syncs of the map", "vtd.sync_map",
        pages if mode == "perpage511" else 1)


def _vtd_flush(row, mode, cell, entries, pages):
    if cell["mode"] != "strict":
        return
    row("vtd_flush", "invalidations", "vtd.psi + vtd.dsi + vtd.global", 1)
    row("vtd_flush", "waits", "vtd.wait", 1)
    row("vtd_flush", "locks held until it is done", "vtd.taglock",
        1 if mode == "tags" else 0)


def _swiotlb(row, mode, cell, entries, pages):
    row("swiotlb", "locks of an area", "swiotlb.lock", 2 * entries)
    row("swiotlb", "atomics on the shared count", "swiotlb.used",
        2 * entries if mode == "area" else 0)


_ROWS = {"iova": _iova, "flush": _flush, "cmdq": _cmdq, "vtd_map": _vtd_map,
         "vtd_flush": _vtd_flush, "swiotlb": _swiotlb}


def render(cells):
    """A table, and one sentence on what differs."""
    found = list(dict.fromkeys(r for cell in cells for r in rows(cell)))
    out = ["Counts for one map with its unmap", ""]
    last = None
    for r in found:
        if r.cell != last:
            out.append(f"{r.cell + ':':<51}counted  published")
            last = r.cell
        published = f"{r.low:.3g}" if r.low == r.high else \
            f"{r.low:.2g} to {r.high:.2g}"
        out.append(f"  {r.knob + '=' + r.mode:<19}{r.what:<29}"
                   f"{r.counted:>8.3g}  {published}"
                   + ("" if r.equal else " *"))
    differ = sum(not r.equal for r in found)
    out += ["", f"{len(found) - differ} of {len(found)} counts are the "
                "published ones."
            + (" * differs; see docs/guide/algorithms.md."
               if differ else "")]
    return "\n".join(out)
