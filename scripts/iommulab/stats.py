# SPDX-License-Identifier: GPL-2.0-or-later
"""Two small samples, compared without assuming a distribution.

The ratio is the median of all ratios between the samples (Hodges and
Lehmann), its interval and the p value come from the exact distribution of
Mann and Whitney's U.
"""

import functools
import math
import statistics

CONFIDENCE = 0.95
LEAST = 4               # runs of each that make an interval possible


def ratio(a, b):
    """How many times as large b is."""
    return statistics.median(y / x for x in a for y in b)


@functools.cache
def _ways(n, m, u):
    """In how many orders of n and m values U is u."""
    if u < 0:
        return 0
    if not n or not m:
        return int(u == 0)
    return _ways(n - 1, m, u - m) + _ways(n, m - 1, u)


def _below(n, m, u):
    """The probability that U is at most u where nothing differs."""
    return sum(_ways(n, m, i) for i in range(u + 1)) / math.comb(n + m, n)


def interval(a, b):
    """(low, high) of the ratio; None if there are too few to say."""
    n, m = len(a), len(b)
    cut = -1
    while _below(n, m, cut + 1) <= (1 - CONFIDENCE) / 2:
        cut += 1
    if cut < 0:
        return None
    ratios = sorted(y / x for x in a for y in b)
    return ratios[cut], ratios[-1 - cut]


def p_value(a, b):
    """Two-sided; equal values count as half."""
    n, m = len(a), len(b)
    u = sum((y > x) + (y == x) / 2 for x in a for y in b)
    return min(1.0, 2 * _below(n, m, math.floor(min(u, n * m - u))))
