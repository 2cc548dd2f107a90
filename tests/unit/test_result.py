# SPDX-License-Identifier: GPL-2.0-or-later
"""The result file: percentiles, validator, and that it is documented."""

import copy
import json
import random
import tempfile
import unittest
from pathlib import Path

from lab import ROOT

from iommulab import machine, result

HIST = {"count": 4, "sum_ns": 400, "max_ns": 130,
        "hist": [[80, 1], [96, 2], [128, 1]]}
THREADS = [{"cpu": 0, "ops": 1000, "ns": 1000000},
           {"cpu": 1, "ops": 3000, "ns": 1000000}]
LINE = {"iommulab": "bench", "device": "0000:00:02.0", "domain": "DMA",
        "size": 4096, "threads": THREADS, "map": HIST, "unmap": HIST}
PROVENANCE = {"cell": "00", "sources": {}, "artefacts": {}, "config": {},
              "binaries": {}, "qemu_argv": ["qemu", "-append", ""],
              "kernel_cmdline": "quiet", "host": {}, "findings": [],
              **result.statement(machine.Clock("functional"))}
VCPU = {"iommulab": "vtime", "region": 1, "cpu": 0, "insns": 10, "slices": 1,
        "parks": 1, "total_ps": 4900, "exec_ps": 4000, "pause_ps": 300,
        "mmio_ps": 200, "line_wait_ps": 0,
        "line_transfer_ps": 0, "atomic_ps": 0, "wfe_ps": 0, "poll_ps": 100, "idle_ps": 250,
        "jitter_ps": 50}


def document():
    cell = result.cell("vtd", 2, "strict", "mapunmap", {"ms": 100},
                       "functional", [result.sample(LINE)], PROVENANCE)
    return copy.deepcopy(result.document([cell]))


def bucket(value):
    """The guest's histogram bucket of a value, as bench.c defines it."""
    if value < 8:
        return value
    shift = value.bit_length() - 4
    return value >> shift << shift


class VCPUs(unittest.TestCase):
    def document(self, **change):
        data = document()
        data["cells"][0]["samples"][0] = result.sample(
            LINE, [LINE, {**VCPU, **change}])
        return data

    def test_where_the_time_went(self):
        data = self.document()
        self.assertEqual(result.errors(data), [])
        [vcpu] = data["cells"][0]["samples"][0]["vcpus"]
        self.assertEqual(vcpu["insns"], 10)

    def test_times_must_add_up(self):
        [error] = result.errors(self.document(idle_ps=251))
        self.assertIn("add up to 4901 ps, not 4900", error)


class Numbers(unittest.TestCase):
    def test_rate_is_the_mean_over_cpus(self):
        self.assertEqual(result.rate(THREADS), 2000000)

    def test_percentiles_of_one_bucket(self):
        self.assertEqual(result.percentile([[5, 9]], 0.5, 5), 5)
        self.assertEqual(result.percentile([[64, 9]], 0.99, 65), 65)

    def test_percentiles_near_the_truth(self):
        rng = random.Random(1)
        values = sorted(int(rng.lognormvariate(7, 1.5)) for _ in range(5000))
        hist = {}
        for value in values:
            hist[bucket(value)] = hist.get(bucket(value), 0) + 1
        for fraction in (0.01, 0.5, 0.9, 0.99, 1.0):
            truth = values[max(0, int(len(values) * fraction) - 1)]
            got = result.percentile(sorted(hist.items()), fraction,
                                    values[-1])
            self.assertLessEqual(abs(got - truth), truth / 16 + 1, fraction)

    def test_buckets_cover_every_value_once(self):
        lower = 0
        for value in range(5000):
            width = result.bucket_width(bucket(value))
            self.assertLessEqual(bucket(value), value)
            self.assertLess(value, bucket(value) + width)
            if bucket(value) != lower:
                self.assertEqual(bucket(value),
                                 lower + result.bucket_width(lower))
                lower = bucket(value)

    def test_latency(self):
        self.assertEqual(result.latency(HIST), {
            "mean": 100.0, "p50": 99.5, "p99": 130, "max": 130})


class Validator(unittest.TestCase):
    def test_sound(self):
        self.assertEqual(result.errors(document()), [])
        self.assertEqual(result.errors(result.document([])), [])
        self.assertEqual(result.errors(json.loads(json.dumps(document()))),
                         [])
        self.assertEqual(result.bench_errors(LINE), [])

    def test_every_key_is_required_and_no_other_allowed(self):
        def objects(item, path=()):
            if isinstance(item, dict):
                yield path, item
                for key, value in item.items():
                    yield from objects(value, (*path, key))
            elif isinstance(item, list):
                for number, value in enumerate(item):
                    yield from objects(value, (*path, number))

        free = {"knobs", "sources", "artefacts", "config", "binaries", "host"}
        for path, item in objects(document()):
            if path and path[-1] in free:
                continue
            for key in item:
                broken = document()
                place = broken
                for part in path:
                    place = place[part]
                del place[key]
                self.assertTrue(result.errors(broken), (path, key))
            broken = document()
            place = broken
            for part in path:
                place = place[part]
            place["surplus"] = 1
            self.assertTrue(result.errors(broken), path)

    def test_bad_values(self):
        for path, value in (
                (("schema",), "iommulab/result/2"),
                (("cells",), {}),
                (("cells", 0), None),
                (("cells", 0, "machine"), "sparc"),
                (("cells", 0, "machine"), ["vtd"]),
                (("cells", 0, "mode"), "eager"),
                (("cells", 0, "clock"), "host"),
                (("cells", 0, "cpus"), 0),
                (("cells", 0, "cpus"), 129),
                (("cells", 0, "cpus"), True),
                (("cells", 0, "ops_per_cpu_per_s"), float("nan")),
                (("cells", 0, "ops_per_cpu_per_s"), "12"),
                (("cells", 0, "latency_ns", "map", "p50"), 1000),
                (("cells", 0, "latency_ns", "map", "mean"), -1),
                (("cells", 0, "samples"), []),
                (("cells", 0, "samples", 0, "threads"), []),
                (("cells", 0, "samples", 0, "threads", 0, "ns"), 0),
                (("cells", 0, "samples", 0, "map", "count"), 5),
                (("cells", 0, "samples", 0, "map", "max_ns"), 100),
                (("cells", 0, "samples", 0, "map", "hist"), [[80]]),
                (("cells", 0, "samples", 0, "map", "hist"),
                 [[96, 2], [80, 2]]),
                (("cells", 0, "provenance", "qemu_argv"), "qemu"),
                (("cells", 0, "provenance", "kernel_cmdline"), None)):
            broken = document()
            place = broken
            for part in path[:-1]:
                place = place[part]
            place[path[-1]] = value
            found = result.errors(broken)
            self.assertTrue(found, (path, value))

    def test_garbage(self):
        for garbage in (None, 1, "x", [], {}, {"schema": 1, "cells": None}):
            self.assertTrue(result.errors(garbage), garbage)
        for garbage in (None, [], {}, {"iommulab": "bench", "threads": 1}):
            self.assertTrue(result.bench_errors(garbage), garbage)


class File(unittest.TestCase):
    def test_replaced_in_one_step(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.json"
            result.write(path, {"a": 1})
            with self.assertRaises(TypeError):
                result.write(path, {"a": object()})
            self.assertEqual(json.loads(path.read_text()), {"a": 1})
            self.assertEqual(list(Path(folder).iterdir()), [path])


class Documentation(unittest.TestCase):
    def test_every_key_is_documented(self):
        text = (ROOT / "docs/result-schema.md").read_text()
        self.assertIn(result.SCHEMA, text)
        keys = (result.CELL_KEYS | result.SAMPLE_KEYS
                | result.PROVENANCE_KEYS
                | {"cpu", "ops", "ns", "count", "sum_ns", "max_ns", "hist",
                   "mean", "p50", "p99", "max"})
        for key in sorted(keys):
            self.assertIn(f"`{key}`", text)

    def test_the_example_is_valid(self):
        text = (ROOT / "docs/result-schema.md").read_text()
        example = text.split("```json\n")[1].split("```")[0]
        self.assertEqual(result.errors(json.loads(example)), [])


if __name__ == "__main__":
    unittest.main()
