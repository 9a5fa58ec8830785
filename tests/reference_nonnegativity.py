"""Slow plain corrections of negative cells, written from PriView section 4.4."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray


def ripple(table: NDArray[np.float64], threshold: float) -> NDArray[np.float64]:
    """In rounds: each cell below becomes zero, its deficit is taken equally from all cells one attribute away."""
    values = {cell: float(table[cell]) for cell in product(*map(range, table.shape))}
    while low := {cell: -value for cell, value in values.items() if value < -threshold - 1e-9}:
        for cell in low:
            values[cell] = 0.0
        for cell, deficit in low.items():
            neighbours = [
                (*cell[:axis], other, *cell[axis + 1 :])
                for axis, size in enumerate(table.shape)
                for other in range(size)
                if other != cell[axis]
            ]
            for neighbour in neighbours:
                values[neighbour] -= deficit / len(neighbours)
    return np.array([values[cell] for cell in np.ndindex(table.shape)]).reshape(table.shape)


def clip_and_keep_total(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Negative cells to zero, the same from each positive cell to keep the total, again while that makes new ones."""
    total, values = table.sum(), np.maximum(table, 0.0)
    if total <= 0:
        return np.zeros_like(table)
    while values.sum() - total > 1e-12 * total:
        positive = values > 0
        values[positive] -= (values.sum() - total) / positive.sum()
        values = np.maximum(values, 0.0)
    return values
