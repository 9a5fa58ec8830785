"""Metropolis-Hastings moves of one attribute of one row at a time, for laws given by tables of log-weights.

A row t = (t_1, ..., t_d) is drawn from

    p(t)  proportional to  q_1(t_1) ... q_d(t_d) exp(sum over tables T of w_T(t restricted to T)),

q_k the law that values of attribute k are proposed from (the prior) and w_T the log-weights of the cells of table T. A
proposal t -> t' changes one attribute and comes from its q_k, so q cancels from the ratio of Metropolis and Hastings:
the move is accepted with probability min(1, exp(gain)), gain = sum over tables with k of w_T(t') - w_T(t). This is not
a Gibbs sampler: that would draw from the conditional law of t_k, which needs the weights of all its values, not of two.

Two attributes of 2 and 3 values and one table of both: ``attributes`` is [[0, 1, 2], [1, 2, 3]], ``moves`` is
[[0, 3], [0, 1]] (cells are numbered 3 t_1 + t_2), ``offsets`` is [0], ``weights`` and ``counts`` have six entries.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crosstally.kernels.covering import next_state, number_below

__all__ = ["sweep"]

_FIRST_MOVE, _LAST_MOVE, _VALUES = 0, 1, 2
"""The columns of ``attributes``: where its moves start, where they end (exclusive), and how many values it has."""

_TABLE, _STRIDE = 0, 1
"""The columns of ``moves``: a table with the attribute, and the change of its cell index for one value."""

_STAYS, _ALIAS = 0, 1
"""The last axis of ``proposals``: the probability that a uniformly drawn value is kept, and its substitute."""


@njit("float64(uint64)", cache=True)
def _fraction(state: np.uint64) -> float:
    """A number from 0 (inclusive) to 1 (exclusive): the 53 high bits, as many as a float64 holds."""
    return float(state >> np.uint64(11)) * 2.0**-53


@njit(
    "int64(int32[:, ::1], int64[:, ::1], int64[:, ::1], int64[::1], float64[::1], int64[::1], float64[:, :, ::1], "
    "uint64)",
    cache=True,
)
def sweep(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    codes: NDArray[np.int32],
    attributes: NDArray[np.int64],
    moves: NDArray[np.int64],
    offsets: NDArray[np.int64],
    weights: NDArray[np.float64],
    counts: NDArray[np.int64],
    proposals: NDArray[np.float64],
    seed: np.uint64,
) -> int:
    """Propose a new value for each attribute of each row in turn; how many were taken. Rows and counts are changed.

    The law that stays the same is the product of the proposals' laws times the exponential of the sum of the
    log-weights of the cells that a row is in. Only the tables that hold the attribute moved are looked at.

    Args:
        codes: The values of each row: (rows, attributes); changed.
        attributes: For each attribute where its moves start and end, and how many values it has: (attributes, 3).
        moves: For each table that holds an attribute the table, and how far its cell moves with one value: (moves, 2).
        offsets: Where each table starts among the cells of all: (tables).
        weights: The log-weight of each cell of all tables: (cells).
        counts: How many rows are in each cell of all tables: (cells); changed.
        proposals: For each value of an attribute the probability with which it stands for itself when it is drawn
            evenly, and the value taken instead (Walker's alias method): (attributes, most values, 2).
        seed: Of the proposals.
    """
    state, taken = seed, 0
    cells = np.empty(len(offsets), np.int64)  # reused for every row
    for r in range(len(codes)):
        row = codes[r]
        cells[:] = offsets  # the cell that the row is in, for each table
        for k in range(len(attributes)):
            for m in range(attributes[k, _FIRST_MOVE], attributes[k, _LAST_MOVE]):
                cells[moves[m, _TABLE]] += moves[m, _STRIDE] * row[k]
        for k in range(len(attributes)):
            state = next_state(state)
            value = number_below(state, attributes[k, _VALUES])
            state = next_state(state)
            if _fraction(state) >= proposals[k, value, _STAYS]:
                value = int(proposals[k, value, _ALIAS])
            # Drawn whether it is needed or not: each attribute of each row takes three numbers of the generator
            state = next_state(state)
            step = value - row[k]
            if step == 0:
                continue
            # The ratio of the two laws: cells of other tables do not change and cancel
            gain = 0.0
            for m in range(attributes[k, _FIRST_MOVE], attributes[k, _LAST_MOVE]):
                cell = cells[moves[m, _TABLE]]
                gain += weights[cell + moves[m, _STRIDE] * step] - weights[cell]
            if gain >= 0 or _fraction(state) < math.exp(gain):
                taken += 1
                row[k] = value
                for m in range(attributes[k, _FIRST_MOVE], attributes[k, _LAST_MOVE]):
                    cell = cells[moves[m, _TABLE]]
                    counts[cell] -= 1
                    counts[cell + moves[m, _STRIDE] * step] += 1
                    cells[moves[m, _TABLE]] = cell + moves[m, _STRIDE] * step
    return taken
