"""Smooth guesses of views from their margins: independence, and raking to all pairs; raking to any margins."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crosstally.kernels.helmert import expand
from crosstally.typing import Floats, Integers

_LEAST_SUM = 1e-300
"""Margins below this are of cells that are all zero."""

_ADD, _SCALE = False, True  # what a visit of a pair does

_CLOSE = 1e-4
"""Raking ends when no two-way cell was off by more than this share of the total. Chosen: the result is only a guess
that cells are shrunk towards. Less takes more sweeps, up to the most that are allowed."""


@njit("int64[::1](int64[::1])", cache=True)
def _strides(sizes: Integers) -> Integers:
    """How far apart in a flat table two cells are that differ by one along each axis."""
    strides = np.ones(len(sizes), np.int64)
    for axis in range(len(sizes) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * sizes[axis + 1]
    return strides


@njit("void(float64[::1], int64[:, ::1], float64[::1], int64[::1], float64[:, ::1])", cache=True)
def independent_guesses(coefficients: Floats, places: Integers, factors: Floats, sizes: Integers, out: Floats) -> None:
    """For each view the table of independent attributes that has its total and its one-way tables.

    Args:
        coefficients: Of all sets of attributes, one after the other; those of order 0 and 1 are used.
        places: (views, cells): where in ``coefficients`` coefficient z of each view stands; z counts like cells, the
            last attribute fastest, so z = x stride_a has value x on axis a and 0 on the others.
        factors: (cells): what turns coefficient z of a view into that of Helmert's vectors in whole numbers.
        sizes: How many values each attribute of the views has.
        out: (views, cells): the guesses; one-way cells below zero count as zero.
    """
    cells, strides = places.shape[1], _strides(sizes)
    table, size = np.empty(sizes.max()), np.empty(1, np.int64)
    for v in range(len(places)):
        for c in range(cells):
            out[v, c] = coefficients[places[v, 0]]
        for axis in range(len(sizes)):
            n, stride = sizes[axis], strides[axis]
            for x in range(n):
                # factors holds 1 / size of every axis on which z is 0; of axes outside the one-way table it is put back
                table[x] = coefficients[places[v, x * stride]] * factors[x * stride] * (cells // n)
            size[0] = n
            expand(table[:n], size)
            whole = 0.0
            for x in range(n):
                table[x] = max(table[x], 0.0)
                whole += table[x]
            for start in range(0, cells, stride * n):
                for x in range(n):
                    share = table[x] / whole
                    for c in range(start + x * stride, start + (x + 1) * stride):
                        out[v, c] *= share


@njit("UniTuple(int64, 3)(int64[::1], int64, int64)", cache=True)
def _around(sizes: Integers, first: int, second: int) -> tuple[int, int, int]:
    """How many cells there are over the axes before, between and after two axes: a table is a box of five sides."""
    outer = middle = inner = 1
    for axis in range(len(sizes)):
        if axis < first:
            outer *= sizes[axis]
        elif first < axis < second:
            middle *= sizes[axis]
        elif axis > second:
            inner *= sizes[axis]
    return outer, middle, inner


@njit("void(float64[::1], int64[::1], int64, int64, float64[::1], boolean)", cache=True)
def _visit_pair(  # noqa: PLR0917 (a kernel gets arrays)
    table: Floats, sizes: Integers, first: int, second: int, numbers: Floats, scale: bool
) -> None:
    """Add the margin over two axes to numbers, or multiply each cell by the number of its values on two axes."""
    outer, middle, inner = _around(sizes, first, second)
    left, right = sizes[first], sizes[second]
    for o in range(outer):
        for a in range(left):
            for m in range(middle):
                start = ((o * left + a) * middle + m) * right * inner
                for b in range(right):
                    number, part = numbers[a * right + b], 0.0
                    if scale:
                        for i in range(start + b * inner, start + (b + 1) * inner):
                            table[i] *= number
                    else:
                        for i in range(start + b * inner, start + (b + 1) * inner):
                            part += table[i]
                        numbers[a * right + b] += part


@njit("float64(float64[::1], float64[::1], int64[::1], int64, int64)", cache=True)
def _rake_pair(table: Floats, target: Floats, sizes: Integers, first: int, second: int) -> float:
    """Multiply the cells so that the margin over two axes is the target; return the most that it was off."""
    scales = np.zeros(len(target))
    _visit_pair(table, sizes, first, second, scales, _ADD)
    off = 0.0
    for j in range(len(target)):
        off = max(off, abs(scales[j] - target[j]))
        scales[j] = target[j] / scales[j] if scales[j] > _LEAST_SUM else 0.0
    _visit_pair(table, sizes, first, second, scales, _SCALE)
    return off


@njit("void(float64[::1], int64[::1], float64[::1], int64[::1], float64, float64[::1])", cache=True)
def _pair_targets(  # noqa: PLR0917 (a kernel gets arrays)
    coefficients: Floats, places: Integers, factors: Floats, sizes: Integers, floor: float, targets: Floats
) -> None:
    """All two-way tables of one view, one after the other: cells below the floor raised to it, then the total kept."""
    cells, strides, pair, start = len(places), _strides(sizes), np.empty(2, np.int64), 0
    for first in range(len(sizes)):
        for second in range(first + 1, len(sizes)):
            left, right = sizes[first], sizes[second]
            table = targets[start : start + left * right]
            for j in range(left * right):
                c = j // right * strides[first] + j % right * strides[second]
                # As for one-way tables: 1 / size of the axes outside the pair is put back
                table[j] = coefficients[places[c]] * factors[c] * (cells // (left * right))
            pair[0], pair[1] = left, right
            expand(table, pair)
            whole = 0.0
            for j in range(left * right):
                table[j] = max(table[j], floor)
                whole += table[j]
            for j in range(left * right):
                table[j] *= coefficients[places[0]] / whole
            start += left * right


@njit("void(float64[::1], int64[:, ::1], float64[::1], int64[::1], float64, int64, float64[:, ::1])", cache=True)
def pair_guesses(  # noqa: PLR0917 (a kernel gets arrays)
    coefficients: Floats, places: Integers, factors: Floats, sizes: Integers, floor: float, sweeps: int, out: Floats
) -> None:
    """The guesses raked to all two-way tables of their views: nearly the maximum entropy tables with these pairs.

    Args:
        coefficients: Of all sets of attributes, one after the other; those of order 0 to 2 are used.
        places: (views, cells), as for independent guesses.
        factors: (cells), as for independent guesses.
        sizes: How many values each attribute of the views has.
        floor: The least count of a two-way cell; what is below counts as this.
        sweeps: The most often that all pairs are visited.
        out: (views, cells): the independent guesses; changed.
    """
    number = (sizes.sum() ** 2 - (sizes**2).sum()) // 2  # cells of all pairs
    targets = np.empty(number)
    for v in range(len(places)):
        _pair_targets(coefficients, places[v], factors, sizes, floor, targets)
        for _ in range(sweeps):
            off, start = 0.0, 0
            for first in range(len(sizes)):
                for second in range(first + 1, len(sizes)):
                    stop = start + sizes[first] * sizes[second]
                    off = max(off, _rake_pair(out[v], targets[start:stop], sizes, first, second))
                    start = stop
            if off < _CLOSE * coefficients[places[v, 0]]:
                break


@njit("float64(float64[::1], float64[::1], int32[:, ::1], int64[::1], float64[::1])", cache=True)
def _sweep(table: Floats, wanted: Floats, places: NDArray[np.int32], starts: Integers, scales: Floats) -> float:
    """Scale a table to each of its margins, one after another; return the most that one was off, by its size."""
    worst, number = 0.0, len(places)
    # One pass for each margin: cells are scaled to the last margin while the next one is added up
    for s in range(number + 1):
        for j in range(starts[s], starts[s + 1]) if s < number else range(0):
            scales[j] = 0.0
        for c in range(len(table)):
            if s > 0:
                table[c] *= scales[places[s - 1, c]]
            if s < number:
                scales[places[s, c]] += table[c]
        for j in range(starts[s], starts[s + 1]) if s < number else range(0):
            worst = max(worst, abs(scales[j] - wanted[j]) / (wanted[j] + 1.0))
            scales[j] = wanted[j] / scales[j] if scales[j] > _LEAST_SUM else 0.0
    return worst


@njit("void(float64[:, ::1], float64[:, ::1], int32[:, ::1], int64[::1], int64, float64)", cache=True)
def rake_to_margins(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    tables: Floats, wanted: Floats, places: NDArray[np.int32], starts: Integers, sweeps: int, close: float
) -> None:
    """Scale each table, in place, until its margins are those wanted, nearly.

    Args:
        tables: (tables, cells).
        wanted: (W, cells of all margins, one margin after another), W >= 1; line w is for the w-th of W equal runs of
            tables.
        places: (margins, cells of a table): the place in a line of ``wanted`` that each cell is added to.
        starts: (margins + 1): where each margin starts, and where the last one ends.
        sweeps: How often every margin is visited, at most.
        close: A table is done when |sum - wanted| < close (wanted + 1) held for every cell of every margin.
    """
    scales, each = np.empty(wanted.shape[1]), len(tables) // len(wanted)
    for r in range(len(tables)):
        for _ in range(sweeps):
            if _sweep(tables[r], wanted[r // each], places, starts, scales) < close:
                break
