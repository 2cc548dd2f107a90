# SPDX-License-Identifier: GPL-2.0-or-later
"""The algorithms as the command knows them."""

import argparse
import unittest
from types import SimpleNamespace

from iommulab import machine, modes, result
from iommulab.errors import UsageError


def args(**chosen):
    return SimpleNamespace(**{**dict.fromkeys(modes.KNOBS),
                              "machine": list(machine.MACHINES), **chosen})


class Names(unittest.TestCase):
    def test_full_spelling(self):
        iova = modes.one_mode("iova")
        self.assertEqual(iova("pools"), "pools:16")
        self.assertEqual(iova("pools:4"), "pools:4")
        self.assertEqual(iova("rcache47"), "rcache47")
        self.assertEqual(iova("upstream"), "rcache")
        self.assertEqual(modes.one_mode("flush")("upstream"), "fq")

    def test_refused(self):
        for word in ("", "nonsense", "pools:3", "pools:", "pools:x",
                     "rcache:1", "upstream:1", "pools:-1", "Pools"):
            with self.assertRaisesRegex(argparse.ArgumentTypeError,
                                        "valid: rcache, rbtree46"):
                modes.one_mode("iova")(word)

    def test_lines_fit(self):
        for knob in modes.KNOBS.values():
            for name, mode in knob.modes.items():
                self.assertLessEqual(len(name), 10)
                self.assertLessEqual(len(mode.help), 66, name)
                self.assertNotIn('"', mode.help)


class Cells(unittest.TestCase):
    vtd = machine.MACHINES["vtd"]

    def test_none_chosen(self):
        self.assertEqual(modes.choices(args(), self.vtd, "lazy"), [()])

    def test_combinations(self):
        found = modes.choices(args(iova=["rcache", "pools:1"],
                                   flush=["fq", "strict"]), self.vtd, "lazy")
        self.assertEqual(len(found), 4)
        self.assertIn((("iova", "pools:1"), ("flush", "strict")), found)

    def test_only_where_it_makes_a_difference(self):
        chosen = args(iova=["rcache", "pools:1"], flush=["fq", "strict"])
        self.assertEqual(modes.choices(chosen, self.vtd, "passthrough"),
                         [()])
        self.assertEqual(modes.choices(chosen, self.vtd, "strict"),
                         [(("iova", "rcache"),), (("iova", "pools:1"),)])

    def test_of_another_machine(self):
        knob = modes.Knob("x", {"a": modes.Mode("x")}, ("smmuv3",),
                          ("strict",))
        old = dict(modes.KNOBS)
        modes.KNOBS["other"] = knob
        self.addCleanup(modes.KNOBS.pop, "other")
        self.assertNotIn("other", old)
        chosen = args(other=["a"])
        self.assertEqual(modes.choices(chosen, self.vtd, "strict"), [()])
        chosen.machine = ["vtd"]
        with self.assertRaisesRegex(UsageError, "--machine smmuv3"):
            modes.choices(chosen, self.vtd, "strict")


class Results(unittest.TestCase):
    def test_counters_are_checked(self):
        found = []
        result._counters({"iova": {"alloc": -1}, "flush": 3}, "x", found)
        self.assertEqual(len(found), 2)
