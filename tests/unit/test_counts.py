# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts for one operation beside the published ones."""

import json
import tempfile
import unittest
from pathlib import Path

from iommulab import counts, modes
from iommulab.errors import UsageError


def cell(counters, mode="strict", machine="vtd", cpus=1, knobs=None,
         **algorithms):
    return {"machine": machine, "cpus": cpus, "mode": mode,
            "algorithms": algorithms, "knobs": knobs or {"size": 4096},
            "samples": [{"threads": [{"ops": 60}, {"ops": 40}],
                         "counters": counters}]}


def rows(*args, **kwargs):
    """{(knob, what): Row}"""
    return {(r.knob, r.what): r for r in counts.rows(cell(*args, **kwargs))}


class Counts(unittest.TestCase):
    def test_equal_and_different(self):
        what = ("iova", "locks of the tree")
        for taken, equal in ((300, True), (306, True), (200, False),
                             (400, False)):
            row = rows({"iova": {"lock_tree": taken}}, iova="rbtree46")[what]
            self.assertEqual((row.counted, row.equal), (taken / 100, equal))

    def test_none_is_not_a_few(self):
        what = ("vtd_flush", "locks held until it is done")
        for taken, equal in ((0, True), (1, False)):
            found = rows({"vtd": {"taglock": taken}}, vtd_flush="direct")
            self.assertEqual(found[what].equal, equal)

    def test_a_range(self):
        what = ("flush", "flushes")
        for full, equal in ((0, False), (1, True), (4, True), (9, False)):
            row = rows({"flush": {"full": full, "timeout": 0}}, "lazy",
                       cpus=10, flush="percpu250")[what]
            self.assertEqual(row.equal, equal, row)

    def test_lists_and_large_buffers(self):
        for mode, knobs, calls, syncs in (
                ("pages", {"size": 4096, "sg": 30}, 30, 1),
                ("pages", {"size": 122880, "sg": 0}, 1, 1),
                ("perpage511", {"size": 122880, "sg": 0}, 30, 30),
                ("mapsg", {"size": 4096, "sg": 30}, 30, 1)):
            found = rows({"vtd": {"map_call": 100 * calls,
                                  "sync_map": 100 * syncs}},
                         knobs=knobs, vtd_map=mode)
            self.assertTrue(all(r.equal for key, r in found.items()
                                if key[0] == "vtd_map"))

    def test_every_mode_has_rows(self):
        for name, knob in modes.KNOBS.items():
            for mode, m in knob.modes.items():
                full = f"{mode}:{m.default}" if m.args else mode
                found = counts.rows(cell({}, knob.needs[0],
                                         knob.machines[0],
                                         **{name: full}))
                self.assertIn((name, full), {(r.knob, r.mode)
                                             for r in found})

    def test_upstreams_modes_where_none_was_chosen(self):
        found = rows({}, "strict", "smmuv3")
        self.assertEqual({r.mode for r in found.values()},
                         {"rcache", "cas"})
        self.assertEqual(rows({}, "passthrough"), {})

    def test_table(self):
        text = counts.render([cell({"iova": {"lock_tree": 300}},
                                   iova="rbtree46"),
                              cell({"iova": {"lock_tree": 300}},
                                   iova="rbtree612")])
        self.assertRegex(text, r"iova=rbtree46 +locks of the tree +3  3\n")
        self.assertRegex(text, r"rbtree612 +locks of the tree +3  2 \*")
        self.assertLessEqual(max(map(len, text.splitlines())), 79)

    def test_bad_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.json"
            for text in ("", "[]", "{}", json.dumps({"cells": [{}]}),
                         json.dumps({"cells": []})):
                path.write_text(text)
                with self.assertRaises(UsageError):
                    counts.load(path)
            with self.assertRaises(UsageError):
                counts.load(folder)


if __name__ == "__main__":
    unittest.main()
