"""Greedy merging of attribute sets: the pair that costs least, again and again.

Each set i is a cluster of tables that are measured together: c_i is the number of cells of the union of their
attributes, w_i the sum of the tables' weights. With h the root (1, 2 or 3) the cost of a set is

    f_i = (w_i c_i)^(1/h),     objective = sum of f_i   (for h = 1 that sum times the squared number of sets),

which is, up to constants, the error of the tables when every cluster gets its best share of the budget (h = 3 under
Laplace noise, 2 under Gaussian; with 1 all clusters have the same share). Merging i and j changes the sum by

    increase(i, j) = ((w_i + w_j) c_(i union j))^(1/h) - f_i - f_j,      c_(i union j) = c_i c_j / c_(i intersect j).

Two sets {a, b} and {b, c} of attributes of 2 values, each of weight 1, h = 1: f = 4 each. Their union has 8 cells and
costs 16, so the increase is 8 and the sum 16; the objective falls from 2^2 x 8 = 32 to 1^2 x 16 = 16.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crosstally.typing import Floats, Integers

# Costs that differ by less, in proportion, are equal: powers are computed in two ways that round differently.
_TIE = 1e-9

_CELLS, _WEIGHT, _COST = 0, 1, 2
"""The columns of ``state``: c, w and f of each set; no cells once it was merged away."""

_MOST_CELLS, _ROOT, _WINDOW, _FAR = 0, 1, 2, 3
"""The entries of ``limits``, see ``merge_order``."""

_STAYS, _GOES = 0, 1
"""The columns of ``merged``."""

_OBJECTIVE, _SUM_OF_CELLS = 0, 1
"""The columns of ``totals``."""


@njit("float64(int64, int64, uint64[:, ::1], float64[:, ::1])", cache=True)
def _shared_cells(i: int, j: int, sets: NDArray[np.uint64], cells: Floats) -> float:
    """The number of cells over the attributes that two sets share, from a table for each eight attributes."""
    total = 1.0
    for word in range(sets.shape[1]):
        # Eight attributes at a time: one look into a table in place of up to eight products
        both = sets[i, word] & sets[j, word]
        byte = 8 * word
        while both:
            total *= cells[byte, both & np.uint64(255)]
            both >>= np.uint64(8)
            byte += 1
    return total


@njit("float64(int64, int64, uint64[:, ::1], float64[:, ::1], float64[:, ::1], float64)", cache=True)
def _union(  # noqa: PLR0917
    i: int, j: int, sets: NDArray[np.uint64], cells: Floats, state: Floats, most: float
) -> float:
    """Weight times cells of the union of two sets; infinite beyond the most cells."""
    together = state[i, _CELLS] * state[j, _CELLS] / _shared_cells(i, j, sets, cells)
    return math.inf if together > most else together * (state[i, _WEIGHT] + state[j, _WEIGHT])


@njit("float64(float64, int64)", cache=True)
def _raised(number: float, root: int) -> float:
    """Just below the number whose root it is: costs are compared by it, since roots take long."""
    if number <= 0:
        return 0.0
    raised = number if root == 1 else number * number if root == 2 else number * number * number
    return raised * (1 - _TIE)


Clusters = tuple[NDArray[np.uint64], Floats, Floats, Floats]
"""Sets, cells, state and limits, see ``merge_order``."""
Partners = tuple[Floats, Integers, NDArray[np.bool_]]
"""For each set the least increase of any of its merges, the partner that attains it, and whether that is known: if not
it is a lower bound."""


@njit(
    "void(int64, Tuple((uint64[:, ::1], float64[:, ::1], float64[:, ::1], float64[::1])),"
    " Tuple((float64[::1], int64[::1], boolean[::1])))",
    cache=True,
)
def _find_partner(i: int, clusters: Clusters, partners: Partners) -> None:
    """The set with which one merges at the least increase of cost; what was known is a bound, and enough if reached."""
    sets, cells, state, limits = clusters
    best, partner, known = partners
    known[i] = True
    # With what was known as a bound (a cost that no partner can undercut) the first partner that reaches it is the best
    most, root, window = limits[_MOST_CELLS], int(limits[_ROOT]), int(limits[_WINDOW])
    bound = best[i] + _TIE * abs(best[i])
    best[i], partner[i] = math.inf, -1
    for j in range(max(0, i - window), min(len(sets), i + window + 1)):
        if j != i and state[j, _CELLS] > 0:
            found = _union(i, j, sets, cells, state, most)
            if found < _raised(best[i] + state[i, _COST] + state[j, _COST], root):
                best[i] = found ** (1 / root) - state[i, _COST] - state[j, _COST]
                partner[i] = j
                if best[i] <= bound:
                    return


@njit("void(int64, int64, uint64[:, ::1], float64[:, ::1], float64[:, ::1], int64)", cache=True, inline="always")
def _unite(  # noqa: PLR0917
    i: int, j: int, sets: NDArray[np.uint64], cells: Floats, state: Floats, root: int
) -> None:
    """One set becomes the union of two, the other goes."""
    state[i, _CELLS] *= state[j, _CELLS] / _shared_cells(i, j, sets, cells)
    state[i, _WEIGHT] += state[j, _WEIGHT]
    state[i, _COST] = (state[i, _CELLS] * state[i, _WEIGHT]) ** (1 / root)
    for word in range(sets.shape[1]):
        sets[i, word] |= sets[j, word]
    state[j, _CELLS] = 0.0


@njit(inline="always")
def _look_around(i: int, j: int, clusters: Clusters, partners: Partners) -> None:
    """Increases change for a union i alone: find its best partner, whether it is that of others, and who lost j."""
    sets, cells, state, limits = clusters
    best, partner, known = partners
    number, most, root, window = len(sets), limits[_MOST_CELLS], int(limits[_ROOT]), int(limits[_WINDOW])
    best[i], partner[i] = math.inf, -1
    for k in range(max(0, i - window), min(number, i + window + 1)):
        if state[k, _CELLS] == 0 or k == i:
            continue
        found = _union(i, k, sets, cells, state, most)
        both = state[i, _COST] + state[k, _COST]
        if found < _raised(max(best[i], best[k]) + both, root):
            increase = found ** (1 / root) - both
            if increase < best[i]:
                best[i], partner[i] = increase, k
            if increase <= best[k]:
                best[k], partner[k], known[k] = increase, i, True
                continue
        # Its best partner changed or went, and the union is no better: what it knew is a bound
        if partner[k] == i or partner[k] == j:
            known[k] = False
    for k in range(max(0, j - window), min(number, j + window + 1)):
        if partner[k] == j and state[k, _CELLS] > 0:
            known[k] = False


@njit(
    "int64(uint64[:, ::1], float64[:, ::1], float64[:, ::1], float64[::1], int64[:, ::1], float64[:, ::1])",
    cache=True,
)
def merge_order(  # noqa: PLR0917
    sets: NDArray[np.uint64], cells: Floats, state: Floats, limits: Floats, merged: Integers, totals: Floats
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
    number, root = len(sets), int(limits[_ROOT])
    best, partner, known = np.full(number, -1e300), np.full(number, -1), np.ones(number, np.bool_)
    clusters, partners = (sets, cells, state, limits), (best, partner, known)
    for i in range(number):
        _find_partner(i, clusters, partners)
    cost, needed = state[:, _COST].sum(), state[:, _CELLS].sum()
    least = math.inf
    for merge in range(min(number - 1, len(merged))):
        # The set with the least increase; while that is a bound only, look again
        i = int(np.argmin(best))
        while not known[i]:
            _find_partner(i, clusters, partners)
            i = int(np.argmin(best))
        if best[i] == math.inf:
            return merge
        j = partner[i]
        cost += best[i]
        needed -= state[i, _CELLS] + state[j, _CELLS]
        _unite(i, j, sets, cells, state, root)
        needed += state[i, _CELLS]
        best[j] = math.inf
        merged[merge, _STAYS], merged[merge, _GOES] = i, j
        # After this merge number - 1 - merge sets are left
        totals[merge, _OBJECTIVE] = cost if root > 1 else cost * (number - 1 - merge) ** 2
        totals[merge, _SUM_OF_CELLS] = needed
        least = min(least, totals[merge, _OBJECTIVE])
        if totals[merge, _OBJECTIVE] > limits[_FAR] * least:
            return merge + 1
        _look_around(i, j, clusters, partners)
    return min(number - 1, len(merged))
