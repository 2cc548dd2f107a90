# SPDX-License-Identifier: GPL-2.0-or-later
"""Comparing two small samples."""

import itertools
import random
import unittest

from iommulab import stats


class Stats(unittest.TestCase):
    def test_distribution_of_u(self):
        """Against all orders, counted one by one."""
        for n, m in ((3, 3), (4, 2), (4, 4)):
            counts = [0] * (n * m + 1)
            for places in itertools.combinations(range(n + m), n):
                counts[sum(sum(q > p for q in range(n + m)
                               if q not in places)
                           for p in places)] += 1
            self.assertEqual([stats._ways(n, m, u)
                              for u in range(n * m + 1)], counts)

    def test_published_critical_values(self):
        """Two-sided, 5 %: U of 2 for 5 and 5, 23 for 10 and 10."""
        for n, u in ((5, 2), (8, 13), (10, 23)):
            self.assertLessEqual(stats._below(n, n, u), 0.025)
            self.assertGreater(stats._below(n, n, u + 1), 0.025)

    def test_interval(self):
        a = (100.0, 101.0, 99.0, 100.5, 99.5)
        low, high = stats.interval(a, [x * 1.1 for x in a])
        self.assertTrue(1.08 < low < 1.1 < high < 1.12)
        self.assertLess(stats.p_value(a, [x * 1.1 for x in a]), 0.01)
        low, high = stats.interval(a, a)
        self.assertTrue(low < 1 < high)
        self.assertEqual(stats.p_value(a, a), 1)

    def test_too_few(self):
        self.assertIsNone(stats.interval((1, 2, 3), (1, 2, 3)))
        self.assertIsNone(stats.interval((1,), (1,)))
        self.assertIsNotNone(stats.interval((1,) * stats.LEAST,
                                            (1,) * stats.LEAST))

    def test_covers_the_truth(self):
        """The interval holds the true ratio in 95 % of the cases."""
        rand = random.Random(1)
        held = 0
        for _ in range(400):
            a = [rand.gauss(100, 5) for _ in range(6)]
            b = [rand.gauss(120, 5) for _ in range(6)]
            low, high = stats.interval(a, b)
            held += low <= 1.2 <= high
        self.assertTrue(0.92 <= held / 400 <= 0.99, held)


if __name__ == "__main__":
    unittest.main()
