"""Change rows, one value at a time, so that the squared distance of their tables to wanted ones falls.

With r_T the counts of the rows in table T minus the wanted ones and w_T the weight of the table, the distance is

    F = sum over T of w_T |r_T|^2.

A row that leaves cell a of a table for cell b changes F by w (2 r_b + 1) - w (2 r_a - 1). ``increments`` holds
w (2 r + 1) for each cell. So the best value v of attribute k in a row has the least sum of increments over the tables
with k, where the increments of the value it has are less by 2 w each: staying changes nothing. Each table is stored
once for each of its axes, with that axis last: then the increments of all values of k are next to each other, and the
sums are fast. Cells that no row may be in have a very large increment and no weight. A value is replaced by others of
its group only.

At temperature t the values are those of a Markov chain that stays in the law exp(-F / t) of rows: a slice sampler,
which draws evenly among the values that change F by less than t times an exponential number. Small t favours near
tables, and among these such as many different sets of rows have: tables of maximum entropy. At t = 0 the best value is
taken.

F is convex in the table over all attributes, and a row that is on its way through a worse cell costs about w: the
descent gets to the least distance, up to rounding, where it does not have to leave a cell that it may not be in.

Two attributes of 2 and 3 values and one table of both, of weight 1: ``uses`` is [[0, 0, 0, 1], [6, 1, 1, 2]] (where it
starts, its last axis, where its terms start and end), ``terms`` is [[1, 2], [0, 3]] (an attribute and its stride),
``touched`` is [0, 1, 0, 1], ``attributes`` is [[2, 0, 1, 0, 2], [3, 1, 2, 2, 4]], ``groups`` is [[0, 0, 0], [0, 0, 0]].
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crosstally.kernels.covering import fraction, next_state, number_below
from crosstally.typing import Floats, Integers

_VALUES, _FIRST_USE, _LAST_USE, _FIRST_TOUCHED, _LAST_TOUCHED = 0, 1, 2, 3, 4
"""The columns of ``attributes``: how many values it has, its uses, and the uses whose cell it changes. Ends are
exclusive."""

_START, _LAST_AXIS, _FIRST_TERM, _LAST_TERM = 0, 1, 2, 3
"""The columns of ``uses``."""

_ATTRIBUTE, _STRIDE = 0, 1
"""The columns of ``terms``."""

Layout = tuple[Integers, Integers, Integers, Integers, Integers, Floats]
"""Attributes, groups, uses, terms, touched and weights, see ``descend``."""
_LAYOUT = "Tuple((int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[::1], float64[::1]))"


@njit("int64(int32[::1], int64[::1], int64[:, ::1])", cache=True, inline="always")
def _line(row: NDArray[np.int32], use: Integers, terms: Integers) -> int:
    """Where the cells of a row begin that differ from its own in the last axis only."""
    place = use[_START]
    for m in range(use[_FIRST_TERM], use[_LAST_TERM]):
        place += row[terms[m, _ATTRIBUTE]] * terms[m, _STRIDE]
    return int(place)


@njit(cache=True, inline="always")
def _count(row: NDArray[np.int32], uses: Integers, layout: Layout, increments: Floats, times: float) -> None:
    """Count a row so many times in some uses."""
    _, _, every, terms, _, weights = layout
    for u in uses:
        increments[_line(row, every[u], terms) + row[every[u, _LAST_AXIS]]] += 2 * times * weights[u]


@njit(cache=True, inline="always")
def _one_below(sums: Floats, limit: float, state: np.uint64) -> int:
    """One of the places of a number that is at most the limit, each with the same probability."""
    number = 0
    for v in range(len(sums)):
        number += sums[v] <= limit
    left = number_below(state, number)
    for v in range(len(sums)):
        if sums[v] <= limit:
            if left == 0:
                return v
            left -= 1
    return -1


@njit(f"void(int32[:, ::1], {_LAYOUT}, float64[::1])", cache=True)
def count_rows(codes: NDArray[np.int32], layout: Layout, increments: Floats) -> None:
    """Count rows in every table; increments are changed."""
    uses = np.arange(len(layout[2]))
    for i in range(len(codes)):
        _count(codes[i], uses, layout, increments, 1.0)


@njit(f"int64(int32[:, ::1], {_LAYOUT}, float64[::1], float64, uint64)", cache=True)
def descend(codes: NDArray[np.int32], layout: Layout, increments: Floats, temperature: float, seed: np.uint64) -> int:
    """Give each attribute of each row in turn a better value; how many were changed. Rows and increments are changed.

    Args:
        codes: The values of each row: (rows, attributes); changed.
        layout: For each attribute how many values it has, where its uses start and end, and where the uses that it
            changes start and end in ``touched``: (attributes, 5). The group of each of its values: (attributes, most
            values). The tables, each once for each of its axes, in the
            order of these: where its increments start, its last axis, and where its terms start and end: (uses, 4).
            The other axes of each use and how far their values are apart: (terms, 2). Attribute by attribute the uses
            of all tables that hold it. The weight of the table of each use: (uses).
        increments: For each cell of each use the change of the distance if a row were added; changed.
        temperature: 0 for the best value.
        seed: Seed of the choice of values.
    """
    attributes, groups, uses, terms, touched, weights = layout
    changed, number, state = 0, len(attributes), seed
    sums = np.empty(attributes[:, _VALUES].max())
    for i in range(len(codes)):
        row = codes[i]
        for turn in range(number):
            k = (i + turn) % number  # no attribute is always the first to move
            values, old = attributes[k, _VALUES], row[k]
            sums[:values] = 0.0
            for u in range(attributes[k, _FIRST_USE], attributes[k, _LAST_USE]):
                start = _line(row, uses[u], terms)
                line = increments[start : start + values]
                for v in range(values):
                    sums[v] += line[v]
                sums[old] -= 2 * weights[u]
            for v in range(values):
                if groups[k, v] != groups[k, old]:
                    sums[v] = np.inf
            if temperature > 0:
                state = next_state(state)
                limit = sums[old] - temperature * math.log(1 - fraction(state))
                state = next_state(state)
                best = _one_below(sums[:values], limit, state)
            else:
                best = int(np.argmin(sums[:values]))
                best = best if sums[best] < sums[old] else old
            if best != old:
                changed += 1
                own = touched[attributes[k, _FIRST_TOUCHED] : attributes[k, _LAST_TOUCHED]]
                _count(row, own, layout, increments, -1.0)
                row[k] = best
                _count(row, own, layout, increments, 1.0)
    return changed
