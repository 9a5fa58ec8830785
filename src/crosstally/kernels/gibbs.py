"""Metropolis-Hastings moves of one attribute of one row at a time, for laws given by tables of log-weights."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crosstally.kernels.covering import next_state, number_below

__all__ = ["sweep"]


@njit("float64(uint64)", cache=True)
def _fraction(state: np.uint64) -> float:
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
        codes: The values of each row.
        attributes: For each attribute where its moves start, where they end, and how many values it has.
        moves: For each table that holds an attribute the table, and how far its cell moves with one value.
        offsets: Where each table starts among the cells of all.
        weights: The log-weight of each cell of all tables.
        counts: How many rows are in each cell of all tables.
        proposals: For each value of an attribute the probability with which it stands for itself when it is drawn
            evenly, and the value taken instead.
        seed: Of the proposals.
    """
    state, taken = seed, 0
    cells = np.empty(len(offsets), np.int64)
    for r in range(len(codes)):
        row = codes[r]
        cells[:] = offsets
        for k in range(len(attributes)):
            for m in range(attributes[k, 0], attributes[k, 1]):
                cells[moves[m, 0]] += moves[m, 1] * row[k]
        for k in range(len(attributes)):
            state = next_state(state)
            value = number_below(state, attributes[k, 2])
            state = next_state(state)
            if _fraction(state) >= proposals[k, value, 0]:
                value = int(proposals[k, value, 1])
            state = next_state(state)
            step = value - row[k]
            if step == 0:
                continue
            gain = 0.0
            for m in range(attributes[k, 0], attributes[k, 1]):
                cell = cells[moves[m, 0]]
                gain += weights[cell + moves[m, 1] * step] - weights[cell]
            if gain >= 0 or _fraction(state) < math.exp(gain):
                taken += 1
                row[k] = value
                for m in range(attributes[k, 0], attributes[k, 1]):
                    cell = cells[moves[m, 0]]
                    counts[cell] -= 1
                    counts[cell + moves[m, 1] * step] += 1
                    cells[moves[m, 0]] = cell + moves[m, 1] * step
    return taken
