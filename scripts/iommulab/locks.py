# SPDX-License-Identifier: GPL-2.0-or-later
"""iommulab locks: who waits for which cache line in a finished run."""

import bisect
import json
import re
import shlex
from collections import defaultdict
from pathlib import Path

from . import machine
from .errors import OK, UsageError

# A line of System.map. Types of symbols that are code or data.
SYMBOL = re.compile(r"([0-9a-f]{8,16}) [tTwWdDbBrRVv] (\S+)$")
UNKNOWN = "[unknown]"
PAGE = 4096


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "locks", help="show which cache lines and locks a run waited for",
        description="Show where the guest of a finished cell waited for cache "
                    "lines: a table by function with the columns of "
                    "perf-lock-contention(1), and one by line. The cell must "
                    "have been run with --watch auto or all.")
    parser.add_argument(
        "result", metavar="RESULT", type=Path,
        help="folder of a cell, or its " + machine.RESULTS)
    parser.add_argument(
        "--region", metavar="N", type=int,
        help="the region to show (default: the last one)")
    parser.add_argument(
        "--map", metavar="FILE", type=Path,
        help="System.map of the guest's kernel (default: the one beside the "
             "kernel that the cell's command names)")
    parser.add_argument(
        "--top", metavar="N", type=int, default=15,
        help="lines of each table (default: 15)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true",
                      help="print all of it as JSON")
    form.add_argument(
        "--folded", action="store_true",
        help="print folded stacks, line;function weight in ns of waiting, "
             "for flamegraph.pl and its like")
    parser.set_defaults(func=main)


class Symbols:
    """Names of addresses in the kernel's image. What is below it (x86 numbers
    per-CPU variables from zero) is an offset, no address."""

    def __init__(self, text):
        pairs = sorted({(int(m[1], 16), m[2])
                        for m in map(SYMBOL.match, text.splitlines()) if m})
        first = next((start for start, name in pairs if name == "_text"), 0)
        pairs = [pair for pair in pairs if pair[0] >= first]
        self.starts = [start for start, _ in pairs]
        self.names = [name for _, name in pairs]

    def name(self, addr):
        i = bisect.bisect_right(self.starts, addr) - 1
        if i < 0 or i + 1 >= len(self.starts):
            return None         # before the first or beyond the last
        return self.names[i]


class Names:
    """Names the guest gave to ranges; the shortest one that fits counts.
    `base` is the guest address where memory begins, if that is known."""

    def __init__(self, lines, base=None):
        self.virtual = [(int(l["addr"], 16), l["len"], l["name"])
                        for l in lines if l["virtual"]]
        self.physical = [(int(l["addr"], 16) - base, l["len"], l["name"])
                         for l in lines
                         if not l["virtual"] and base is not None]

    def name(self, addr, ram=None, size=64):
        """The name of what lies on the line at `addr`, or at `ram` in
        memory."""
        found = [(length, name)
                 for where, ranges in ((addr, self.virtual),
                                       (ram, self.physical))
                 if where is not None
                 for start, length, name in ranges
                 if start < where + size and where < start + length]
        return min(found)[1] if found else None

    def covers(self, addr, ram, size):
        """The name of what all of these bytes lie in."""
        found = [(length, name)
                 for where, ranges in ((addr, self.virtual),
                                       (ram, self.physical))
                 if where is not None
                 for start, length, name in ranges
                 if start <= where and where + size <= start + length]
        return min(found)[1] if found else None


def analyse(lines, region, symbols, base=None):
    """Everything there is to show, as `--json` prints it."""
    def of(kind):
        return [l for l in lines if l["iommulab"] == kind
                and l.get("region") == region]

    total = next(iter(of("coherence")), None)
    if total is None:
        raise UsageError("the run did not watch cache lines (--watch auto)"
                         if not any(l["iommulab"] == "coherence"
                                    for l in lines) else
                         f"there is no region {region}")
    names = Names(of("name"), base)

    def name_of(addr, ram):
        return names.name(addr, ram) or symbols.name(addr) or UNKNOWN

    shown = {line["ram"]: name_of(int(line["addr"], 16), int(line["ram"], 16))
             for line in of("line")}
    # Where the lines that are not shown themselves are.
    pages = {int(page["ram"], 16): int(page["addr"], 16)
             for page in of("page")}
    for site in of("site"):
        ram = int(site["ram"], 16)
        page = ram & -PAGE
        if site["ram"] not in shown and page in pages:
            shown[site["ram"]] = name_of(pages[page] + ram - page, ram)
    functions, writers = {}, defaultdict(dict)
    for site in of("site"):
        where = symbols.name(int(site["pc"], 16)) or UNKNOWN
        line = shown.get(site["ram"], UNKNOWN)
        key = line if line != UNKNOWN else site["ram"]
        entry = functions.setdefault((where, key, site["op"]), {
            "ram": site["ram"],
            "caller": where, "line": line, "type": site["op"],
            "contended": 0, "total_wait_ps": 0, "max_wait_ps": 0,
            "transfer_ps": 0, "cas": 0, "cas_ok": 0})
        entry["contended"] += site["transfers"]
        entry["total_wait_ps"] += site["wait_ps"]
        entry["transfer_ps"] += site["transfer_ps"]
        entry["max_wait_ps"] = max(entry["max_wait_ps"], site["max_wait_ps"])
        entry["cas"] += site["cas"]
        entry["cas_ok"] += site["cas_ok"]
        if site["op"] != "load":
            by = writers[site["ram"]]
            by[where] = by.get(where, 0) + site["transfers"]
    for ram, name in shown.items():
        if name == UNKNOWN and writers[ram]:
            # Better than nothing: who mostly writes it.
            by = writers[ram]
            shown[ram] = "~" + min(by, key=lambda w: (-by[w], w))
    for entry in functions.values():
        if entry["line"] == UNKNOWN:
            entry["line"] = shown.get(entry.pop("ram"), UNKNOWN)
        else:
            entry.pop("ram")
    table = sorted(functions.values(), key=lambda e: (
        -e["total_wait_ps"] - e["transfer_ps"], e["caller"], e["line"],
        e["type"]))
    for entry in table:
        entry["avg_wait_ps"] = entry["total_wait_ps"] // \
            max(1, entry["contended"])
    by_line = [{
        "name": shown[line["ram"]], "addr": line["addr"],
        **{k: line[k] for k in ("transfers", "wait_ps", "transfer_ps",
                                "max_wait_ps", "cas", "cas_ok", "loads",
                                "stores", "atomics")},
        "writers": sorted(writers[line["ram"]].items(),
                          key=lambda kv: (-kv[1], kv[0]))}
        for line in of("line")] + _rest(of("page"), names)
    by_line.sort(key=lambda l: (-l["wait_ps"] - l["transfer_ps"], l["addr"]))
    spent = total["wait_ps"] + total["transfer_ps"]
    named = sum(line["wait_ps"] + line["transfer_ps"] for line in by_line
                if line["name"] != UNKNOWN and line["name"][0] != "~")
    return {"region": region, "total": total, "cpus": of("vtime"),
            "functions": table, "lines": by_line,
            "named": named / spent if spent else 1.0}


def _rest(pages, names):
    """What lines of pages add up to, for each name."""
    found = {}
    for page in pages:
        name = names.covers(int(page["addr"], 16), int(page["ram"], 16),
                            PAGE) or UNKNOWN
        entry = found.setdefault(name, {
            "name": name, "addr": page["addr"], "others": 0, "transfers": 0,
            "wait_ps": 0, "transfer_ps": 0, "max_wait_ps": 0, "cas": 0,
            "cas_ok": 0, "loads": None, "stores": None, "atomics": None,
            "writers": []})
        entry["others"] += page["lines"]
        for key in ("transfers", "wait_ps", "transfer_ps", "cas", "cas_ok"):
            entry[key] += page[key]
        entry["max_wait_ps"] = max(entry["max_wait_ps"], page["max_wait_ps"])
    return list(found.values())


def load(path):
    """The lines of a cell's result channel."""
    path = path / machine.RESULTS if path.is_dir() else path
    try:
        text = path.read_text()
    except OSError as err:
        raise UsageError(f"{path}: {err.strerror}")
    try:
        return [json.loads(line) for line in text.splitlines() if line]
    except ValueError:
        raise UsageError(f"{path} is not a result channel's output") from None


def ram_base(folder):
    """Where the memory of the machine begins that ran in this folder; None
    if that is not known."""
    try:
        words = shlex.split((folder / "cmd").read_text())
        board = words[words.index("-M") + 1].split(",")[0]
    except (OSError, ValueError, IndexError):
        return None
    return next((m.ram for m in machine.MACHINES.values()
                 if m.board[1].split(",")[0] == board), None)


def system_map(folder, path=None):
    """The Symbols of the kernel that the cell in this folder ran."""
    if not path:
        try:
            words = shlex.split((folder / "cmd").read_text())
            kernel = Path(words[words.index("-kernel") + 1])
        except (OSError, ValueError, IndexError):
            raise UsageError(f"{folder} has no cmd that names the kernel; "
                             "give --map") from None
        path = kernel.resolve().with_name("System.map")
    try:
        return Symbols(path.read_text())
    except OSError as err:
        raise UsageError(f"{path}: {err.strerror}; give --map")


def main(args):
    lines = load(args.result)
    regions = [l["region"] for l in lines if l["iommulab"] == "coherence"]
    region = args.region
    if region is None:
        region = regions[-1] if regions else 0
    folder = args.result if args.result.is_dir() else args.result.parent
    data = analyse(lines, region, system_map(folder, args.map),
                   ram_base(folder))
    if args.json:
        print(json.dumps(data, indent=1))
    elif args.folded:
        stacks = defaultdict(int)
        for entry in data["functions"]:
            stacks[f"{entry['line']};{entry['caller']}"] += \
                entry["total_wait_ps"] + entry["transfer_ps"]
        for stack, spent in sorted(stacks.items()):
            print(stack, spent // 1000)
    else:
        print(render(data, args.top))
    return OK


def duration(ps):
    """As perf prints it."""
    for unit, size in (("s", 10**12), ("ms", 10**9), ("us", 10**6)):
        if ps >= size:
            return f"{ps / size:.2f} {unit}"
    return f"{ps / 1000:.0f} ns"


def render(data, top):
    out = [f"{'contended':>10} {'total wait':>11} {'max wait':>10} "
           f"{'avg wait':>10}  {'type':<6} caller"]
    for e in data["functions"][:top]:
        out.append(f"{e['contended']:>10} {duration(e['total_wait_ps']):>11} "
                   f"{duration(e['max_wait_ps']):>10} "
                   f"{duration(e['avg_wait_ps']):>10}  {e['type']:<6} "
                   f"{e['caller']} ({e['line']})")
    out += ["", f"{'transfers':>10} {'wait':>11} {'transfer':>11} "
                f"{'CAS/ok':>7}  line, top writers"]
    for line in data["lines"][:top]:
        cas = f"{line['cas'] / line['cas_ok']:.1f}" if line["cas_ok"] else "-"
        by = ", ".join(name for name, _ in line["writers"][:3])
        if "others" in line:
            by = f"{line['others']} other lines"
        out.append(f"{line['transfers']:>10} {duration(line['wait_ps']):>11} "
                   f"{duration(line['transfer_ps']):>11} {cas:>7}  "
                   f"{line['name']}{': ' + by if by else ''}")
    out += ["", "Cycles, % of each CPU's time in the region"]
    kinds = ("exec", "line_wait", "line_transfer", "atomic", "mmio", "pause",
             "wfe", "poll", "idle")
    busy = [c for c in data["cpus"] if c["total_ps"]]
    for kind in kinds:
        part = [100 * c[f"{kind}_ps"] / c["total_ps"] for c in busy]
        if part and max(part) >= 0.05:
            out.append(f"  {kind.replace('_', ' '):<14} mean "
                       f"{sum(part) / len(part):5.1f}  max {max(part):5.1f}")
    out.append(f"\n{data['named']:.1%} of the time that lines were waited for "
               "has a name; ~NAME is a line without one that NAME writes.")
    return "\n".join(out)
