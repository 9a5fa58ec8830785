"""Data cubes: which tables to measure so that the noisiest table read from them has the least noise (PriView, 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from crosstally.typing import Floats

Positions = tuple[int, ...]


def chosen_cuboids(attributes: int, ways: int) -> list[Positions]:
    """The tables that are measured so that all tables of so many binary attributes can be read from them.

    When s tables share epsilon, a cell read from a table with t more attributes has the variance s^2 2^t V_u. For each
    t the tables that are wanted are covered greedily by tables of at most t more attributes, and the t with the least
    variance is taken. Simplified from Ding et al. (2011): they choose among tables of all sizes at once and lower the
    limit by bisection; on all k-way tables of binary attributes a cover by tables of one size is as good.

    >>> chosen_cuboids(9, 2)
    [(0, 1, 2, 3, 4, 5, 6, 7, 8)]
    """
    covers = [(_greedy_cover(attributes, ways, ways + more), more) for more in range(attributes - ways + 1)]
    return min(covers, key=lambda cover: len(cover[0]) ** 2 * 2 ** cover[1])[0]


def _greedy_cover(attributes: int, ways: int, size: int) -> list[Positions]:
    """Tables of one size, each the one that covers most of what is not covered yet."""
    missing = set(combinations(range(attributes), ways))
    offered = {block: set(combinations(block, ways)) for block in combinations(range(attributes), size)}
    chosen = []
    while missing:
        block = max(offered, key=lambda each: len(offered[each] & missing))
        chosen.append(block)
        missing -= offered[block]
    return chosen


def data_cubes(
    full: NDArray[np.int64],
    tables: Sequence[Positions],
    *,
    cuboids: Sequence[Positions],
    epsilon: float,
    random: np.random.Generator,
) -> list[Floats]:
    """The tables asked for, each read from the first cuboid that covers it.

    Simplified: cuboids that overlap are not made consistent. For nine attributes there is one cuboid only.
    """
    scale = len(cuboids) / epsilon
    noisy = {block: margin(full, block) + random.laplace(0, scale, (2,) * len(block)) for block in cuboids}
    found = []
    for table in tables:
        block = next(each for each in cuboids if set(table) <= set(each))
        found.append(margin(noisy[block], tuple(block.index(axis) for axis in table)))
    return found


def margin(table: NDArray[np.int64] | Floats, axes: Positions) -> Floats:
    """The sums of a table over all but some axes."""
    return np.asarray(table.sum(axis=tuple(axis for axis in range(table.ndim) if axis not in axes)), np.float64)
