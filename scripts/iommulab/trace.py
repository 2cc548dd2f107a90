# SPDX-License-Identifier: GPL-2.0-or-later
"""What a traced cell did and when: CPUs that wait, and the IOMMU's queues.

`run --trace` lets QEMU log the events of docs/specs/vtime.rst and
iommu-queue.rst; this reads them and writes them for ui.perfetto.dev.
"""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from .errors import UsageError

LOG = "trace.log"       # in the folder of a cell
# What QEMU is asked for. Its binary trace, which repeats the log, is dropped.
OPTIONS = ("-D", LOG, "-trace", "enable=iommu_queue_*",
           "-trace", "enable=vtime_park", "-trace", "enable=vtime_unpark",
           "-trace", "enable=vtime_region,file=/dev/null")

EVENT = re.compile(r"(?P<name>vtime_region|vtime_park|vtime_unpark|"
                   r"iommu_queue_doorbell|iommu_queue_done|iommu_queue_poll|"
                   r"iommu_queue_fault|iommu_queue_abort) (?P<rest>.*)")
WORDS = re.compile(r"([a-z]+) (-?(?:0x)?[0-9a-f]+)\b")
PARK = {0: "event (WFE)", 1: "polling"}
# Commands as hw/arm/smmuv3-queue.c and hw/i386/intel_iommu-queue.c class them.
CLASSES = {
    "smmuv3": ("prefetch", "cfgi", "tlbi-all", "tlbi-context", "tlbi-page",
               "tlbi-range", "atc-inv", "other", "sync", "invalid"),
    "vtd": ("context-cache", "iotlb-global", "iotlb-domain", "iotlb-page",
            "device-tlb", "interrupt-entry", "pasid-cache", "wait",
            "invalid"),
}


@dataclass
class Wait:
    """A CPU that is parked."""
    cpu: int
    start: int          # ps since the region began
    end: int
    cause: int
    line: str           # address of what it waits for, in RAM


@dataclass
class Command:
    queue: int
    cpu: int            # that rang the doorbell, or -1
    submit: int
    start: int
    end: int
    kind: int


@dataclass
class Trace:
    """One region. All times are ps since it began."""
    length: int = 0
    waits: list = field(default_factory=list)
    commands: list = field(default_factory=list)
    occupancy: dict = field(default_factory=lambda: defaultdict(list))
    doorbells: list = field(default_factory=list)   # (ps, cpu, queue, n)
    polls: list = field(default_factory=list)       # (ps, cpu, queue)
    troubles: list = field(default_factory=list)    # (ps, what, queue)

    @property
    def cpus(self):
        return sorted({w.cpu for w in self.waits}
                      | {c.cpu for c in self.commands if c.cpu >= 0}
                      | {d[1] for d in self.doorbells if d[1] >= 0})

    @property
    def worst(self):
        """The command that took longest from its doorbell, or None."""
        return max(self.commands, key=lambda c: (c.end - c.submit, -c.end),
                   default=None)


def read(path):
    """The Trace of the log's last region; UsageError if there is none."""
    path = Path(path)
    if path.is_dir():
        path = path / LOG
    try:
        with open(path, errors="replace") as lines:
            return parse(lines)
    except FileNotFoundError:
        raise UsageError(f"{path.parent} was not traced: there is no {LOG} "
                         "('run --trace' makes one)") from None
    except ValueError as err:
        raise UsageError(f"{path}: {err}") from None


def parse(lines):
    found, begin = None, 0
    parked, level, open_region = {}, {}, False
    for line in lines:
        match = EVENT.search(line)
        if not match:
            continue
        name, rest = match["name"], match["rest"]
        words = {key: int(value, 16 if "x" in value else 10)
                 for key, value in WORDS.findall(rest)}
        if name == "vtime_region":
            if words["begin"]:
                found, begin, open_region = Trace(), words["at"], True
                parked, level = {}, {}
            elif found:
                found.length = words["at"] - begin
                open_region = False
            continue
        if not open_region:
            continue
        now = words["at"] - begin
        if name == "vtime_park":
            parked[words["cpu"]] = (now, words["cause"],
                                    f"{words['line']:#x}")
        elif name == "vtime_unpark":
            start, cause, where = parked.pop(
                words["cpu"], (max(0, now - words["after"]), 0, "0x0"))
            found.waits.append(Wait(words["cpu"], start, now, cause, where))
        elif name == "iommu_queue_doorbell":
            queue = words["queue"]
            found.doorbells.append((now, words["cpu"], queue,
                                    words["commands"]))
            level[queue] = words["occupancy"]
            found.occupancy[queue].append((now, level[queue]))
        elif name == "iommu_queue_done":
            queue = words["queue"]
            found.commands.append(Command(
                queue, words["cpu"], words["submitted"] - begin,
                words["started"] - begin, now, words["class"]))
            level[queue] = max(0, level.get(queue, 1) - 1)
            found.occupancy[queue].append((now, level[queue]))
        elif name == "iommu_queue_poll":
            found.polls.append((now, words["cpu"], words["queue"]))
        else:
            found.troubles.append((now, name.rpartition("_")[2],
                                   words["queue"]))
    if not found:
        raise ValueError("no region was traced")
    if open_region:
        raise ValueError("the trace ends within a region")
    return found


def kind(machine, number):
    """The name of a class of commands."""
    names = CLASSES.get(machine, ())
    return names[number] if number < len(names) else f"class {number}"


# --- For ui.perfetto.dev ---------------------------------------------------

CPUS, QUEUES = 1, 2     # process ids in the file


def perfetto(trace, machine, name, line_name=str):
    """A Trace as a document of the Chrome trace event format. `line_name`
    gives the name of a line by its address in RAM."""
    events = [_meta("process_name", CPUS, 0, f"guest CPUs, {name}"),
              _meta("process_name", QUEUES, 0, "IOMMU queues")]
    events += [_meta("thread_name", CPUS, cpu + 1, f"CPU {cpu}")
               for cpu in trace.cpus]
    timed = []
    for wait in trace.waits:
        timed.append(_slice(CPUS, wait.cpu + 1, wait.start, wait.end,
                            f"waits, {PARK.get(wait.cause, 'parked')}",
                            {"line": line_name(wait.line)}))
    for now, cpu, queue, count in trace.doorbells:
        if cpu >= 0:
            timed.append({"ph": "i", "s": "t", "pid": CPUS, "tid": cpu + 1,
                          "ts": _us(now), "name": f"doorbell {queue}",
                          "args": {"commands": count}})
    for now, cpu, queue in trace.polls:
        if cpu >= 0:
            timed.append({"ph": "i", "s": "t", "pid": CPUS, "tid": cpu + 1,
                          "ts": _us(now), "name": f"poll {queue}"})
    for now, what, queue in trace.troubles:
        timed.append({"ph": "i", "s": "p", "pid": QUEUES, "tid": 1,
                      "ts": _us(now), "name": f"{what} {queue}"})
    for queue, levels in sorted(trace.occupancy.items()):
        timed += [{"ph": "C", "pid": QUEUES, "tid": 0, "ts": _us(now),
                   "name": f"occupancy {queue}", "args": {"commands": n}}
                  for now, n in levels]
    rows = 0
    for command, row in _rows(trace.commands):
        rows = max(rows, row + 1)
        timed.append(_slice(QUEUES, row + 1, command.start, command.end,
                            kind(machine, command.kind),
                            {"cpu": command.cpu, "queue": command.queue,
                             "submitted_us": _us(command.submit)}))
    events += [_meta("thread_name", QUEUES, row + 1, f"commands {row}")
               for row in range(rows)]
    timed.sort(key=lambda e: (e["ts"], -e.get("dur", 0)))
    return {"displayTimeUnit": "ns", "traceEvents": events + timed}


def _rows(commands):
    """Each command with the lowest row in which it overlaps none."""
    ends = []
    for command in sorted(commands, key=lambda c: (c.start, c.end)):
        row = next((i for i, end in enumerate(ends)
                    if end <= command.start), len(ends))
        ends[row:row + 1] = [command.end]
        yield command, row


def _meta(what, pid, tid, name):
    return {"ph": "M", "pid": pid, "tid": tid, "name": what,
            "args": {"name": name}}


def _slice(pid, tid, start, end, name, args):
    return {"ph": "X", "pid": pid, "tid": tid, "ts": _us(start),
            "dur": round((end - start) / 1e6, 6), "name": name, "args": args}


def _us(ps):
    return round(ps / 1e6, 6)
