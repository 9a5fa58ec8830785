"""PriView's Ripple on one table at a time, in rounds.

A round takes the deficits of the cells in ``below`` from their neighbours. Neighbours only go down within a round, so a
cell belongs to the next one when it passes the threshold.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import numpy as np
from numba import njit

from crosstally.typing import Floats, Integers


@njit("int64(float64[::1], float64[::1], int64[::1], int64, int64[::1], float64, int64[::1])", cache=True)
def _take_from_neighbours(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    cells: Floats, shares: Floats, below: Integers, count: int, sizes: Integers, threshold: float, following: Integers
) -> int:
    """A round that visits each neighbour of each cell below; how many cells are listed in ``following``."""
    found = 0
    for k in range(count):
        i, rest, stride = below[k], below[k], 1
        for axis in range(len(sizes) - 1, -1, -1):
            size = sizes[axis]
            own = rest % size
            rest //= size
            for value in range(size):
                if value != own:
                    j = i + (value - own) * stride
                    before = cells[j]
                    cells[j] = before - shares[i]
                    if before >= -threshold and cells[j] < -threshold:
                        following[found] = j
                        found += 1
            stride *= size
    return found


@njit("int64(float64[::1], float64[::1], int64[::1], float64, int64[::1])", cache=True)
def _take_from_lines(cells: Floats, shares: Floats, sizes: Integers, threshold: float, following: Integers) -> int:
    """The same round by sums along every line of the table: cheaper when many cells are below."""
    number, stride = len(cells), 1
    for axis in range(len(sizes) - 1, -1, -1):
        size = sizes[axis]
        for start in range(0, number, stride * size):
            if size == 2:
                for first in range(start, start + stride):
                    cells[first] -= shares[first + stride]
                    cells[first + stride] -= shares[first]
                continue
            for first in range(start, start + stride):
                line = 0.0
                for j in range(first, first + stride * size, stride):
                    line += shares[j]
                for j in range(first, first + stride * size, stride):
                    cells[j] -= line - shares[j]
        stride *= size
    found = 0
    for i in range(number):
        if cells[i] < -threshold:
            following[found] = i
            found += 1
    return found


@njit("int64(float64[::1], int64[::1], float64, int64)", cache=True)
def ripple_table(cells: Floats, sizes: Integers, threshold: float, most_steps: int) -> int:
    """Correct one table in place; how many cells are still below when no more than ``most_steps`` may be taken."""
    number, neighbours = len(cells), int(np.sum(sizes - 1))
    lines = number * (len(sizes) + 1)
    below, following = np.empty(number, np.int64), np.empty(number, np.int64)
    shares = np.zeros(number)
    count = steps = 0
    for i in range(number):
        if cells[i] < -threshold:
            below[count] = i
            count += 1
    while count > 0 and neighbours > 0 and steps < most_steps:
        for k in range(count):
            shares[below[k]] = -cells[below[k]] / neighbours
            cells[below[k]] = 0.0
        visits = 8 * count * neighbours  # jumping about costs several times as much as going through
        if visits < lines:
            steps += visits
            found = _take_from_neighbours(cells, shares, below, count, sizes, threshold, following)
        else:
            steps += lines
            found = _take_from_lines(cells, shares, sizes, threshold, following)
        for k in range(count):
            shares[below[k]] = 0.0
        below, following, count = following, below, found
    return count
