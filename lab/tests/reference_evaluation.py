"""Slow plain versions for the tests of ``crosstally_lab.papers``; nothing of it is imported here."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations, product

import numpy as np


def transitions(columns: list[list[int]], order: int) -> dict[int, tuple[int, int]]:
    """For each number of ones among the previous bits: how often it occurred, and how often a 1 followed."""
    seen: Counter[int] = Counter()
    followed: Counter[int] = Counter()
    for i in range(order, len(columns)):
        for bits in zip(*columns[i - order : i + 1], strict=True):
            seen[sum(bits[:-1])] += 1
            followed[sum(bits[:-1])] += bits[-1]
    return {ones: (seen[ones], followed[ones]) for ones in sorted(seen)}


def mutual_information(first: list[object], second: list[object]) -> float:
    """The mutual information of two columns, in nats."""
    n = len(first)
    one, other, both = Counter(first), Counter(second), Counter(zip(first, second, strict=True))
    return sum(c / n * math.log(c * n / (one[a] * other[b])) for (a, b), c in both.items())


def dense_least_squares_error(d: int, k: int) -> float:
    """The squared error of a k-way table of d binary attributes after ordinary least squares on all k-way tables.

    Built from the matrix of all counting queries; in units of V_u: each cell is drawn with variance C(d, k)^2.
    """
    cells = list(product((0, 1), repeat=d))
    tables = list(combinations(range(d), k))
    queries = np.array(
        [
            [float(tuple(cell[i] for i in table) == values) for cell in cells]
            for table in tables
            for values in product((0, 1), repeat=k)
        ]
    )
    hat = queries @ np.linalg.pinv(queries)  # the covariance of fitted answers when drawn ones have variance 1
    return float(np.trace(hat)) / len(tables) * len(tables) ** 2
