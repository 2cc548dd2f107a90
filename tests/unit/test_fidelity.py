# SPDX-License-Identifier: GPL-2.0-or-later
"""Published figures beside simulated ones."""

import unittest

from iommulab import fidelity
from iommulab.experiment import Experiment, Figure


def figure(cell, value, relative=None, metric="ops_per_cpu_per_s",
           fitted=False, at="", along=""):
    return Figure("n", metric, cell, relative, value, "s", fitted, "g", at,
                  along)


def compare(figures, rates):
    """`rates` is {(cpus, mode): operations}."""
    cells = [{"ops_per_cpu_per_s": rate, "samples": [{}],
              "provenance": {"cell": str(key)}}
             for key, rate in rates.items()]
    points = [{"options": {"cpus": key[0], "cmdq": key[1]},
               "cell": str(key)} for key in rates]
    return fidelity.compare(
        Experiment("n", None, "t", "S4", (), tuple(figures)),
        {"points": points, "cells": cells})


class Fidelity(unittest.TestCase):
    def test_ratio_and_median(self):
        found = compare([figure({"cpus": "1", "cmdq": "a"}, 100),
                         figure({"cpus": 2, "cmdq": "a"}, 100),
                         figure({"cpus": 4, "cmdq": "a"}, 100)],
                        {(1, "a"): 90, (2, "a"): 150, (4, "a"): 120})
        self.assertEqual([r.ratio for r in found.rows], [0.9, 1.5, 1.2])
        self.assertAlmostEqual(found.median_error, 0.2)

    def test_fitted_figures_do_not_count(self):
        found = compare([figure({"cpus": 1}, 100, fitted=True),
                         figure({"cpus": 2}, 100)],
                        {(1, "a"): 100, (2, "a"): 150})
        self.assertAlmostEqual(found.median_error, 0.5)

    def test_not_measured(self):
        found = compare([figure({"cpus": 8}, 100)], {(1, "a"): 100})
        self.assertIsNone(found.median_error)
        self.assertEqual(fidelity.document([found]), {
            "schema": "iommulab/fidelity/1",
            "cells": [{"work": "S4", "cell": "n", "published": 100,
                       "simulated": None, "ratio": None}]})
        self.assertIn("None of 1 published figures was measured",
                      fidelity.render(found))

    def test_a_cell_without_the_number(self):
        found = compare([figure({"cpus": 1}, 1, metric="counters.a.b")],
                        {(1, "a"): 100})
        self.assertIn("no counters.a.b", found.rows[0].why)

    def order(self, published, simulated):
        cells = [{"cpus": 1, "cmdq": name} for name in "ab"]
        return compare(
            [figure(c, v) for c, v in zip(cells, published)],
            {(1, n): v for n, v in zip("ab", simulated)}).order

    def test_order(self):
        self.assertEqual(self.order((100, 200), (5, 6)), (1, 1))
        self.assertEqual(self.order((100, 200), (6, 5)), (0, 1))
        self.assertEqual(self.order((100, 200), (5, 5)), (0, 1))
        self.assertEqual(self.order((100, 109), (6, 5)), (0, 0))

    def test_order_of_ratios(self):
        cells = {"cpus": 1, "cmdq": "a"}, {"cpus": 1, "cmdq": "b"}
        found = compare([figure(cells[0], 0.5, cells[1])],
                        {(1, "a"): 3, (1, "b"): 4})
        self.assertEqual(found.order, (1, 1))
        self.assertEqual(found.rows[0].simulated, 0.75)
        found = compare([figure(cells[0], 1.5, cells[1])],
                        {(1, "a"): 3, (1, "b"): 4})
        self.assertEqual(found.order, (0, 1))

    def test_numbers_of_cpus_have_no_order(self):
        found = compare([figure({"cpus": 1, "cmdq": "a"}, 10),
                         figure({"cpus": 2, "cmdq": "a"}, 5)],
                        {(1, "a"): 3, (2, "a"): 4})
        self.assertEqual(found.order, (0, 0))

    def test_numbers(self):
        for value, text in ((453e3, "453K"), (9500, "9.5K"), (33.6e3, "33.6K"),
                            (0.22, "0.22"), (1.1, "1.1"), (990803, "991K"),
                            (4.43e6, "4.43M"), (999.6, "1K"), (100, "100"),
                            (0, "0"), (None, "-")):
            self.assertEqual(fidelity.number(value), text)

    def test_table(self):
        found = compare(
            [figure({"cpus": n, "cmdq": "a"}, n * 100, at=str(n),
                    along="cpus") for n in (1, 2)],
            {(1, "a"): 90, (2, "a"): 150})
        text = fidelity.render(found)
        self.assertIn("g\n  CPUs              1       2\n"
                      "  published       100     200\n"
                      "  simulated        90     150\n"
                      "  ratio          0.90    0.75\n", text)


if __name__ == "__main__":
    unittest.main()
