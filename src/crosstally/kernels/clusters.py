"""Greedy merging of attribute sets: the pair that costs least, again and again."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["merge_order"]

# Costs that differ by less, in proportion, are equal: powers are computed in two ways that round differently.
_TIE = 1e-9


@njit("float64(int64, int64, uint64[:, ::1], float64[:, ::1])", cache=True)
def _shared_cells(i: int, j: int, sets: NDArray[np.uint64], cells: NDArray[np.float64]) -> float:
    """The number of cells over the attributes that two sets share, from a table for each eight attributes."""
    total = 1.0
    for word in range(sets.shape[1]):
        both = sets[i, word] & sets[j, word]
        byte = 8 * word
        while both:
            total *= cells[byte, both & np.uint64(255)]
            both >>= np.uint64(8)
            byte += 1
    return total


@njit("float64(int64, int64, uint64[:, ::1], float64[:, ::1], float64[:, ::1], float64)", cache=True)
def _union(  # noqa: PLR0917
    i: int,
    j: int,
    sets: NDArray[np.uint64],
    cells: NDArray[np.float64],
    state: NDArray[np.float64],
    most: float,
) -> float:
    """Weight times cells of the union of two sets; infinite beyond the most cells."""
    together = state[i, 0] * state[j, 0] / _shared_cells(i, j, sets, cells)
    return math.inf if together > most else together * (state[i, 1] + state[j, 1])


@njit("float64(float64, int64)", cache=True)
def _raised(number: float, root: int) -> float:
    """Just below the number whose root it is: costs are compared by it, since roots take long."""
    if number <= 0:
        return 0.0
    raised = number if root == 1 else number * number if root == 2 else number * number * number
    return raised * (1 - _TIE)


@njit(
    "void(int64, uint64[:, ::1], float64[:, ::1], float64[:, ::1], float64[::1], float64[::1], int64[::1])",
    cache=True,
)
def _find_partner(  # noqa: PLR0917
    i: int,
    sets: NDArray[np.uint64],
    cells: NDArray[np.float64],
    state: NDArray[np.float64],
    limits: NDArray[np.float64],
    best: NDArray[np.float64],
    partner: NDArray[np.int64],
) -> None:
    """The set with which one merges at the least increase of cost; what was known is a bound, and enough if reached."""
    most, root, window = limits[0], int(limits[1]), int(limits[2])
    bound = best[i] + _TIE * abs(best[i])
    best[i], partner[i] = math.inf, -1
    for j in range(max(0, i - window), min(len(sets), i + window + 1)):
        if j != i and state[j, 0] > 0:
            found = _union(i, j, sets, cells, state, most)
            if found < _raised(best[i] + state[i, 2] + state[j, 2], root):
                best[i] = found ** (1 / root) - state[i, 2] - state[j, 2]
                partner[i] = j
                if best[i] <= bound:
                    return


@njit(
    "int64(uint64[:, ::1], float64[:, ::1], float64[:, ::1], float64[::1], int64[:, ::1], float64[:, ::1])",
    cache=True,
)
def merge_order(  # noqa: PLR0912, PLR0917
    sets: NDArray[np.uint64],
    cells: NDArray[np.float64],
    state: NDArray[np.float64],
    limits: NDArray[np.float64],
    merged: NDArray[np.int64],
    totals: NDArray[np.float64],
) -> int:
    """Merge sets until that has become far from the best on the way, or none may be merged; the number of merges.

    Each set knows its best partner. When a partner is merged away, what was known is a bound that is looked at again
    only when it is the lowest of all.

    Args:
        sets: A row of bits for each set, 64 attributes a word; changed.
        cells: For each eight attributes the number of cells over each of their 256 subsets.
        state: For each set its cells (0 when it was merged away), its weight, and the root of their product; changed.
        limits: The most cells of a set; the root (1, 2 or 3) of weight times cells which is the cost of a set, where
            with 1 the sum is multiplied by the squared number of sets; how far apart sets may stand; and how many
            times the lowest sum so far ends it.
        merged: Written: for each merge the set that stays and the one that goes; its length limits the merges.
        totals: Written: for each merge the objective, and the sum of cells, after it.
    """
    number, most, root, window = len(sets), limits[0], int(limits[1]), int(limits[2])
    known = np.ones(number, np.bool_)
    best, partner = np.full(number, -1e300), np.full(number, -1)
    for i in range(number):
        _find_partner(i, sets, cells, state, limits, best, partner)
    cost, needed = state[:, 2].sum(), state[:, 0].sum()
    least = math.inf
    for merge in range(min(number - 1, len(merged))):
        i = int(np.argmin(best))
        while not known[i]:
            _find_partner(i, sets, cells, state, limits, best, partner)
            known[i] = True
            i = int(np.argmin(best))
        if best[i] == math.inf:
            return merge
        j = partner[i]
        cost += best[i]
        needed -= state[i, 0] + state[j, 0]
        state[i, 0] *= state[j, 0] / _shared_cells(i, j, sets, cells)
        state[i, 1] += state[j, 1]
        state[i, 2] = (state[i, 0] * state[i, 1]) ** (1 / root)
        needed += state[i, 0]
        for word in range(sets.shape[1]):
            sets[i, word] |= sets[j, word]
        state[j, 0], best[j] = 0.0, math.inf
        merged[merge, 0], merged[merge, 1] = i, j
        totals[merge, 0] = cost if root > 1 else cost * (number - 1 - merge) ** 2
        totals[merge, 1] = needed
        least = min(least, totals[merge, 0])
        if totals[merge, 0] > limits[3] * least:
            return merge + 1
        best[i], partner[i] = math.inf, -1
        for k in range(max(0, i - window), min(number, i + window + 1)):
            if state[k, 0] == 0 or k == i:
                continue
            found = _union(i, k, sets, cells, state, most)
            both = state[i, 2] + state[k, 2]
            if found < _raised(max(best[i], best[k]) + both, root):
                increase = found ** (1 / root) - both
                if increase < best[i]:
                    best[i], partner[i] = increase, k
                if increase <= best[k]:
                    best[k], partner[k], known[k] = increase, i, True
                    continue
            if partner[k] == i or partner[k] == j:
                known[k] = False
        for k in range(max(0, j - window), min(number, j + window + 1)):
            if partner[k] == j and state[k, 0] > 0:
                known[k] = False
    return min(number - 1, len(merged))
