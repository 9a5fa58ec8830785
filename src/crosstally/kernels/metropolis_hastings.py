"""Metropolis-Hastings moves of one attribute of one row at a time, for laws given by tables of log-weights.

A row t = (t_1, ..., t_d) is drawn from

    p(t)  proportional to  q_1(t_1) ... q_d(t_d) exp(sum over tables T of w_T(t restricted to T)),

q_k the law that values of attribute k are proposed from (the prior) and w_T the log-weights of the cells of table T. A
proposal t -> t' changes one attribute and comes from its q_k, so q cancels from the ratio of Metropolis and Hastings:
the move is accepted with probability min(1, exp(gain)), gain = sum over tables with k of w_T(t') - w_T(t). This is not
a Gibbs sampler: that would draw from the conditional law of t_k, which needs the weights of all its values, not of two.

Two attributes of 2 and 3 values and one table of both: ``attributes`` is [[0, 1, 2, 0], [1, 2, 3, 2]], ``moves`` is
[0, 0], ``shifts`` is [0, 3, 0, 1, 2] (cells are numbered 3 t_1 + t_2), ``weights`` and ``counts`` have six entries. If
the table does not tell the last two values of t_2 apart, ``shifts`` is [0, 2, 0, 1, 1] and it has four cells.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crosstally.kernels.covering import fraction, next_state, number_below
from crosstally.typing import Floats, Integers

_FIRST_MOVE, _LAST_MOVE, _VALUES, _SHIFTS = 0, 1, 2, 3
"""The columns of ``attributes``: where its moves start, where they end (exclusive), how many values it has, and where
its shifts start."""

_STAYS, _ALIAS = 0, 1
"""The last axis of ``proposals``: the probability that a uniformly drawn value is kept, and its substitute."""


Numbers = NDArray[np.uint32]
"""Numbers of cells have no sign, since a signed index is compared with zero each time: with signs a sweep takes nearly
twice as long."""
Law = tuple[Integers, Numbers, Numbers, Floats]
"""Attributes, moves, shifts and weights, see ``sweep``."""
Place = tuple[Numbers, Numbers, Floats]
"""For each table the cell that a row was in at first, the cell that it is in, and the log-weight of that one."""


@njit(inline="always")
def _locate(row: NDArray[np.int32], law: Law, place: Place) -> None:
    """Write the cell of each table that a row is in, twice, and its log-weight."""
    attributes, moves, shifts, weights = law
    before, cells, held = place
    cells[:] = np.uint32(0)
    for k in range(len(attributes)):
        own = moves[attributes[k, _FIRST_MOVE] : attributes[k, _LAST_MOVE]]
        number = len(own)
        here = shifts[attributes[k, _SHIFTS] + row[k] * number :][:number]
        for m in range(number):
            cells[own[m]] += here[m]
    for t in range(len(cells)):
        before[t] = cells[t]
        held[t] = weights[cells[t]]


@njit(inline="always")
def _gain(  # noqa: PLR0917
    own: Numbers, here: Numbers, there: Numbers, place: Place, weights: Floats, after: tuple[Numbers, Floats]
) -> float:
    """The logarithm of the ratio of the two laws: cells of other tables do not change and cancel."""
    _, cells, held = place
    later, gained = after
    gain = 0.0
    for m in range(len(own)):
        later[m] = np.uint32(cells[own[m]] + there[m] - here[m])
        gained[m] = weights[later[m]]
        gain += gained[m] - held[own[m]]
    return gain


@njit("void(uint32[::1], uint32[::1], int64[::1])", cache=True, inline="always")
def _recount(before: Numbers, cells: Numbers, counts: Integers) -> None:
    """Count a row in the cells that it is in, no more in those where it was before."""
    for t in range(len(cells)):
        if cells[t] != before[t]:
            counts[before[t]] -= 1
            counts[cells[t]] += 1


@njit(
    "int64(int32[:, ::1], int64[:, ::1], uint32[::1], uint32[::1], float64[::1], int64[::1], "
    "float64[:, :, ::1], uint64)",
    cache=True,
)
def sweep(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    codes: NDArray[np.int32],
    attributes: Integers,
    moves: Numbers,
    shifts: Numbers,
    weights: Floats,
    counts: Integers,
    proposals: Floats,
    seed: np.uint64,
) -> int:
    """Propose a new value for each attribute of each row in turn; how many were taken. Rows and counts are changed.

    The law that stays the same is the product of the proposals' laws times the exponential of the sum of the
    log-weights of the cells that a row is in. Only the tables that hold the attribute moved are looked at.

    Args:
        codes: The values of each row: (rows, attributes); changed.
        attributes: For each attribute where its moves start and end, how many values it has, and where its shifts
            start: (attributes, 4).
        moves: Attribute by attribute the tables that hold it: (moves).
        shifts: Attribute by attribute and value by value what it adds to the number of the cell, for each of the
            attribute's moves: those of one value are next to each other. Cells are numbered over all tables: where a
            table starts is part of the shifts of one of its attributes.
        weights: The log-weight of each cell of all tables: (cells).
        counts: How many rows are in each cell of all tables: (cells); changed.
        proposals: For each value of an attribute the probability with which it stands for itself when it is drawn
            evenly, and the value taken instead (Walker's alias method): (attributes, most values, 2).
        seed: Of the proposals.
    """
    state, taken, tables = seed, 0, int(moves.max()) + 1 if len(moves) else 0
    # Reused for every row: its place, and for each move of an attribute the cell and the log-weight after it
    before, cells, held = np.empty(tables, np.uint32), np.empty(tables, np.uint32), np.empty(tables, np.float64)
    later, gained = np.empty(len(moves), np.uint32), np.empty(len(moves), np.float64)
    law, place = (attributes, moves, shifts, weights), (before, cells, held)
    for row in codes:
        _locate(row, law, place)
        for k in range(len(attributes)):
            state = next_state(state)
            value = number_below(state, attributes[k, _VALUES])
            state = next_state(state)
            if fraction(state) >= proposals[k, value, _STAYS]:
                value = int(proposals[k, value, _ALIAS])
            # Drawn whether it is needed or not: each attribute of each row takes three numbers of the generator
            state = next_state(state)
            if value == row[k]:
                continue
            own = moves[attributes[k, _FIRST_MOVE] : attributes[k, _LAST_MOVE]]
            number = len(own)
            here = shifts[attributes[k, _SHIFTS] + row[k] * number :][:number]
            there = shifts[attributes[k, _SHIFTS] + value * number :][:number]
            gain = _gain(own, here, there, place, weights, (later, gained))
            if gain >= 0 or fraction(state) < math.exp(gain):
                taken += 1
                row[k] = value
                for m in range(number):
                    cells[own[m]] = later[m]
                    held[own[m]] = gained[m]
        _recount(before, cells, counts)
    return taken
