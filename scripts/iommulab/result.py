# SPDX-License-Identifier: GPL-2.0-or-later
"""The result file: how it is made from a guest's lines, and its validator.

docs/result-schema.md describes the schema; `errors()` below is its normative
form.
"""

import json
import os
import tempfile
from pathlib import Path

from . import machine

SCHEMA = "iommulab/result/1"
WORKLOADS = ("mapunmap",)
CLOCKS = ("functional", "vtime")


def timed_queue(argv):
    """Whether this QEMU command gives the IOMMU's queue its time."""
    return any(word.endswith("queue-timing=on") for word in argv)


def statement(clock, timed=False):
    """What a result under this machine.Clock is made of."""
    modelled = ("the IOMMU's queues and tables as QEMU implements them: "
                + ("commands take the time that QEMU's options give them"
                   if timed else "commands complete at once and cost no "
                                 "time"))
    if clock.name == "functional":
        return {"modelled": modelled,
                "measured": "the guest kernel's own instructions, in guest "
                            "time",
                "calibrated": "not calibrated: one instruction is 1 ns"}
    lines = {"off": "cache lines cost nothing",
             "auto": "contended cache lines by the profile, on pages that "
                     "several CPUs use",
             "all": "cache lines by the profile"}[clock.watch]
    return {"modelled": modelled + "; time of instructions, PAUSE, device "
                        "accesses and interrupts by the profile; " + lines,
            "measured": "the guest kernel's own instructions and waiting, in "
                        "guest time",
            "calibrated": f"not calibrated against hardware: the costs of "
                          f"{clock.profile.name}"}


# --- From the guest's lines ------------------------------------------------

def bucket_width(lower):
    """Width of the guest's histogram bucket that begins at `lower`: powers
    of two, each split into 8 equal parts; below 8 every value has its own."""
    return 1 if lower < 16 else 1 << (lower.bit_length() - 4)


def percentile(hist, fraction, largest):
    """The value below which `fraction` of the samples lie: the middle of its
    bucket, so within 1/16 of the truth."""
    total = sum(count for _, count in hist)
    rank = max(1, -(-total * fraction // 1))
    seen = 0
    for lower, count in hist:
        seen += count
        if seen >= rank:
            return min(lower + (bucket_width(lower) - 1) / 2, largest)
    return largest


def latency(stat):
    """mean, p50, p99 and max of one of the guest's histograms, in ns."""
    return {"mean": round(stat["sum_ns"] / stat["count"], 1),
            "p50": percentile(stat["hist"], 0.50, stat["max_ns"]),
            "p99": percentile(stat["hist"], 0.99, stat["max_ns"]),
            "max": stat["max_ns"]}


def rate(threads):
    """Operations (one map and its unmap) per CPU per second."""
    return round(sum(t["ops"] * 1e9 / t["ns"] for t in threads)
                 / len(threads), 1)


def sample(line, others=()):
    """One guest's bench line as it goes into the result file, with where
    each vCPU's time went, if the clock was vtime, and the kernel's counters,
    if they counted."""
    data = {key: line[key] for key in sorted(SAMPLE_KEYS)}
    vcpus = [{key: value for key, value in other.items()
              if key not in ("iommulab", "region")}
             for other in others if other["iommulab"] == "vtime"]
    if vcpus:
        data["vcpus"] = vcpus
    for other in others:
        if other["iommulab"] == "counters":
            data["counters"] = other["sets"]
    return data


def cell(name, cpus, mode, workload, knobs, clock, samples, provenance,
         algorithms=None):
    """A cell of the result file; `samples` is not empty."""
    threads = [t for s in samples for t in s["threads"]]
    return {
        "machine": name, "cpus": cpus, "mode": mode, "workload": workload,
        "algorithms": algorithms or {}, "knobs": knobs, "clock": clock,
        "ops_per_cpu_per_s": rate(threads),
        "latency_ns": {way: latency(_merge([s[way] for s in samples]))
                       for way in ("map", "unmap")},
        "samples": samples, "provenance": provenance,
    }


def document(cells):
    return {"schema": SCHEMA, "cells": cells}


def write(path, data):
    """Replace `path` in one step: a reader sees the old or the new file."""
    path = Path(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as out:
            json.dump(data, out, indent=1)
            out.write("\n")
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _merge(stats):
    hist = {}
    for stat in stats:
        for lower, count in stat["hist"]:
            hist[lower] = hist.get(lower, 0) + count
    return {"count": sum(s["count"] for s in stats),
            "sum_ns": sum(s["sum_ns"] for s in stats),
            "max_ns": max(s["max_ns"] for s in stats),
            "hist": sorted(hist.items())}


# --- The validator ---------------------------------------------------------

def errors(data):
    """Everything wrong with a result document, as "path: what" lines."""
    found = []
    if _object(data, "", {"schema", "cells"}, found):
        if data["schema"] != SCHEMA:
            found.append(f"schema: {data['schema']!r} is not {SCHEMA!r}")
        if _list(data["cells"], "cells", found):
            for number, item in enumerate(data["cells"]):
                _cell(item, f"cells[{number}]", found)
    return found


def bench_errors(line):
    """Everything wrong with a guest's bench line."""
    found = []
    if isinstance(line, dict):
        _sample({k: v for k, v in line.items() if k in SAMPLE_KEYS},
                "bench", found)
    else:
        found.append("bench: not an object")
    return found


CELL_KEYS = {"machine", "cpus", "mode", "workload", "algorithms", "knobs",
             "clock",
             "ops_per_cpu_per_s", "latency_ns", "samples", "provenance"}
SAMPLE_KEYS = {"device", "domain", "threads", "map", "unmap"}
TIME_KEYS = {"exec_ps", "pause_ps", "mmio_ps", "line_wait_ps",
             "line_transfer_ps", "atomic_ps", "wfe_ps", "poll_ps", "idle_ps",
             "jitter_ps"}       # they add up to total_ps
VCPU_KEYS = {"cpu", "insns", "slices", "parks", "total_ps"} | TIME_KEYS
PROVENANCE_KEYS = {"cell", "sources", "artefacts", "config", "binaries",
                   "qemu_argv", "kernel_cmdline", "host", "findings",
                   "modelled", "measured", "calibrated"}


def _cell(item, path, found):
    if not _object(item, path, CELL_KEYS, found):
        return
    _one_of(item["machine"], f"{path}.machine", machine.MACHINES, found)
    _one_of(item["mode"], f"{path}.mode", machine.MODES, found)
    _one_of(item["workload"], f"{path}.workload", WORKLOADS, found)
    _one_of(item["clock"], f"{path}.clock", CLOCKS, found)
    if _number(item["cpus"], f"{path}.cpus", found, int, 1):
        if item["cpus"] > machine.MAX_CPUS:
            found.append(f"{path}.cpus: more than {machine.MAX_CPUS}")
    if not isinstance(item["algorithms"], dict):
        found.append(f"{path}.algorithms: not an object")
    else:
        for knob, mode in item["algorithms"].items():
            _text(mode, f"{path}.algorithms.{knob}", found)
    if not isinstance(item["knobs"], dict):
        found.append(f"{path}.knobs: not an object")
    _number(item["ops_per_cpu_per_s"], f"{path}.ops_per_cpu_per_s", found)
    if _object(item["latency_ns"], f"{path}.latency_ns",
               {"map", "unmap"}, found):
        for way, values in item["latency_ns"].items():
            _latency(values, f"{path}.latency_ns.{way}", found)
    if _list(item["samples"], f"{path}.samples", found, 1):
        for number, one in enumerate(item["samples"]):
            _sample(one, f"{path}.samples[{number}]", found)
    _provenance(item["provenance"], f"{path}.provenance", found)


def _latency(values, path, found):
    if not _object(values, path, {"mean", "p50", "p99", "max"}, found):
        return
    if all([_number(v, f"{path}.{k}", found) for k, v in values.items()]):
        if not values["p50"] <= values["p99"] <= values["max"]:
            found.append(f"{path}: p50, p99 and max are out of order")


def _vcpu(item, path, found):
    if not _object(item, path, VCPU_KEYS, found):
        return
    if all([_number(v, f"{path}.{k}", found, int) for k, v in item.items()]):
        total = sum(item[k] for k in TIME_KEYS)
        if total != item["total_ps"]:
            found.append(f"{path}: the times add up to {total} ps, "
                         f"not {item['total_ps']}")


def _counters(sets, path, found):
    if not isinstance(sets, dict):
        found.append(f"{path}: not an object")
        return
    for name, counts in sets.items():
        if not isinstance(counts, dict):
            found.append(f"{path}.{name}: not an object")
            continue
        for key, value in counts.items():
            _number(value, f"{path}.{name}.{key}", found, int)


def _sample(item, path, found):
    if isinstance(item, dict) and "vcpus" in item:
        item = dict(item)
        vcpus = item.pop("vcpus")
        if _list(vcpus, f"{path}.vcpus", found, 1):
            for number, one in enumerate(vcpus):
                _vcpu(one, f"{path}.vcpus[{number}]", found)
    if isinstance(item, dict) and "counters" in item:
        item = dict(item)
        _counters(item.pop("counters"), f"{path}.counters", found)
    if not _object(item, path, SAMPLE_KEYS, found):
        return
    for key in ("device", "domain"):
        _text(item[key], f"{path}.{key}", found)
    if _list(item["threads"], f"{path}.threads", found, 1):
        for number, thread in enumerate(item["threads"]):
            where = f"{path}.threads[{number}]"
            if _object(thread, where, {"cpu", "ops", "ns"}, found):
                _number(thread["cpu"], f"{where}.cpu", found, int)
                _number(thread["ops"], f"{where}.ops", found, int, 1)
                _number(thread["ns"], f"{where}.ns", found, int, 1)
    for way in ("map", "unmap"):
        _histogram(item[way], f"{path}.{way}", found)


def _histogram(item, path, found):
    if not _object(item, path, {"count", "sum_ns", "max_ns", "hist"}, found):
        return
    sound = all([_number(item["count"], f"{path}.count", found, int, 1),
                 _number(item["sum_ns"], f"{path}.sum_ns", found, int),
                 _number(item["max_ns"], f"{path}.max_ns", found, int),
                 _list(item["hist"], f"{path}.hist", found, 1)])
    if not sound:
        return
    total, last = 0, -1
    for number, pair in enumerate(item["hist"]):
        where = f"{path}.hist[{number}]"
        if not (isinstance(pair, (list, tuple)) and len(pair) == 2
                and all(type(v) is int and v >= 0 for v in pair)):
            found.append(f"{where}: not [lower_ns, count]")
            return
        if pair[0] <= last:
            found.append(f"{where}: buckets are out of order")
        last = pair[0]
        total += pair[1]
    if total != item["count"]:
        found.append(f"{path}.hist: counts add up to {total}, "
                     f"not {item['count']}")
    if last > item["max_ns"]:
        found.append(f"{path}.hist: a bucket lies above max_ns")


def _provenance(item, path, found):
    if not _object(item, path, PROVENANCE_KEYS, found):
        return
    for key in ("cell", "kernel_cmdline", "modelled", "measured",
                "calibrated"):
        _text(item[key], f"{path}.{key}", found)
    for key in ("sources", "artefacts", "config", "binaries", "host"):
        if not isinstance(item[key], dict):
            found.append(f"{path}.{key}: not an object")
    for key in ("qemu_argv", "findings"):
        if _list(item[key], f"{path}.{key}", found):
            for number, word in enumerate(item[key]):
                _text(word, f"{path}.{key}[{number}]", found, True)


def _object(item, path, keys, found):
    if not isinstance(item, dict):
        found.append(f"{path or 'document'}: not an object")
        return False
    for key in sorted(keys - set(item)):
        found.append(f"{path}.{key}: missing".lstrip("."))
    for key in sorted(set(item) - keys):
        found.append(f"{path}.{key}: unknown".lstrip("."))
    return keys <= set(item)


def _list(item, path, found, least=0):
    if not isinstance(item, list):
        found.append(f"{path}: not a list")
        return False
    if len(item) < least:
        found.append(f"{path}: empty")
        return False
    return True


def _number(item, path, found, kind=(int, float), least=0):
    if isinstance(item, bool) or not isinstance(item, kind):
        found.append(f"{path}: not a number")
        return False
    if not least <= item < float("inf"):
        found.append(f"{path}: {item} is out of range")
        return False
    return True


def _text(item, path, found, empty=False):
    if not isinstance(item, str) or not (item or empty):
        found.append(f"{path}: not a string")


def _one_of(item, path, valid, found):
    if not isinstance(item, str) or item not in valid:
        found.append(f"{path}: {item!r} is not one of {', '.join(valid)}")
