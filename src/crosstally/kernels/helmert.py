"""Tables to inner products with products of Helmert's vectors in whole numbers, and back.

u_0 = (1, ..., 1) and u_j = (1, ..., 1, -j, 0, ..., 0) with j ones. The function of coefficient z on the cells of a
table is the product of u_(z_i) over its axes.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crosstally.typing import Floats, Integers


@njit("void(float64[::1], int64[::1])", cache=True)
def expand(values: Floats, sizes: Integers) -> None:
    """Coefficients to the function with these coefficients, cell by cell, in place."""
    number, stride = len(values), 1
    for axis in range(len(sizes) - 1, -1, -1):
        size = sizes[axis]
        for start in range(0, number, stride * size):
            if size == 2:
                for j in range(start, start + stride):
                    constant, first = values[j], values[j + stride]
                    values[j] = constant + first
                    values[j + stride] = constant - first
            else:
                for j in range(start, start + stride):
                    tail = values[j]
                    for x in range(size - 1, 0, -1):
                        own = values[j + x * stride]
                        values[j + x * stride] = tail - x * own
                        tail += own
                    values[j] = tail
        stride *= size


@njit("void(float64[::1], int64[::1])", cache=True)
def project(values: Floats, sizes: Integers) -> None:
    """A table to its inner products with all basis functions, in place."""
    number, stride = len(values), 1
    for axis in range(len(sizes) - 1, -1, -1):
        size = sizes[axis]
        for start in range(0, number, stride * size):
            if size == 2:
                for j in range(start, start + stride):
                    first, second = values[j], values[j + stride]
                    values[j] = first + second
                    values[j + stride] = first - second
            else:
                for j in range(start, start + stride):
                    head = values[j]
                    for x in range(1, size):
                        own = values[j + x * stride]
                        values[j + x * stride] = head - x * own
                        head += own
                    values[j] = head
        stride *= size


@njit("void(float64[::1], int64[::1], int64)", cache=True)
def expand_abreast(values: Floats, sizes: Integers, abreast: int) -> None:
    """As ``expand``, of several tables at once: (cells, tables), flat. To the last bit what each would become alone.

    Additions are the same; whole rows of them are next to each other, which processors do several at a time.
    """
    stride = abreast
    for axis in range(len(sizes) - 1, -1, -1):
        size = sizes[axis]
        for start in range(0, len(values), stride * size):
            tail = values[start : start + stride]
            for x in range(size - 1, 0, -1):
                row = values[start + x * stride : start + (x + 1) * stride]
                for j in range(stride):
                    own = row[j]
                    row[j] = tail[j] - x * own
                    tail[j] += own
        stride *= size


@njit("void(float64[::1], int64[::1], int64)", cache=True)
def project_abreast(values: Floats, sizes: Integers, abreast: int) -> None:
    """As ``project``, of several tables at once: (cells, tables), flat. To the last bit what each alone becomes."""
    stride = abreast
    for axis in range(len(sizes) - 1, -1, -1):
        size = sizes[axis]
        for start in range(0, len(values), stride * size):
            head = values[start : start + stride]
            for x in range(1, size):
                row = values[start + x * stride : start + (x + 1) * stride]
                for j in range(stride):
                    own = row[j]
                    row[j] = head[j] - x * own
                    head[j] += own
        stride *= size


@njit("int64(int64[::1])", cache=True)
def widened_cells(sizes: Integers) -> int:
    """How many numbers the widened transform has."""
    cells = 1
    for size in sizes:
        cells *= 2 if size == 2 else 2 * size - 1
    return cells


@njit("float64[::1](float64[::1], int64[::1], float64[::1], float64[::1])", cache=True)
def widen(table: Floats, sizes: Integers, first: Floats, second: Floats) -> Floats:
    """The inner products of a table with all basis functions and their squares; it stands in one of the two arrays."""
    number, inner = len(table), 1
    source, target = first, second
    for x in range(number):
        source[x] = table[x]
    for axis in range(len(sizes) - 1, -1, -1):
        size = sizes[axis]
        width = 2 if size == 2 else 2 * size - 1
        outer = number // (size * inner)
        for o in range(outer):
            old, new = o * size * inner, o * width * inner
            for j in range(inner):
                head = source[old + j]
                for x in range(1, size):
                    own = source[old + x * inner + j]
                    target[new + x * inner + j] = head - x * own
                    if size > 2:
                        target[new + (size - 1 + x) * inner + j] = head + x * x * own
                    head += own
                target[new + j] = head
        source, target = target, source
        number = outer * width * inner
        inner *= width
    return source


@njit("int32[:, ::1](int64[::1], int64[::1])", cache=True)
def product_places(places: Integers, sizes: Integers) -> NDArray[np.int32]:
    """Where the product of each two basis functions stands in the widened transform."""
    number, ndim = len(places), len(sizes)
    out = np.zeros((number, number), np.int32)
    digits = np.empty((ndim, number), np.int64)
    for i in range(number):
        rest = places[i]
        for axis in range(ndim - 1, -1, -1):
            digits[axis, i] = rest % sizes[axis]
            rest //= sizes[axis]
    stride = 1
    for axis in range(ndim - 1, -1, -1):
        size = sizes[axis]
        for i in range(number):
            a = digits[axis, i]
            for j in range(i, number):
                b = digits[axis, j]
                if a != b:
                    out[i, j] += stride * (a + b if a == 0 or b == 0 else min(a, b))
                elif a > 0 and size > 2:
                    out[i, j] += stride * (size - 1 + a)
        stride *= 2 if size == 2 else 2 * size - 1
    return out


@njit("float64(float64[::1], int64[::1], int64, int64)", cache=True)
def _marginal_part(values: Floats, sizes: Integers, subset: int, z: int) -> float:
    """What coefficient z of a marginal over some axes adds to its cells, in units of its basis function."""
    place, stride, scale = 0, 1, 1.0
    for axis in range(len(sizes) - 1, -1, -1):
        size = sizes[axis]
        if subset >> axis & 1:
            digit = z % size
            z //= size
            place += digit * stride
            scale *= digit * (digit + 1) if digit else size
        stride *= size
    return float(values[place] / scale)


@njit("void(float64[:, ::1], float64[:, ::1], boolean[::1], int64[::1], int64[::1], float64[::1])", cache=True)
def marginal_differences(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    tables: Floats, targets: Floats, covered: NDArray[np.bool_], sizes: Integers, subsets: Integers, largest: Floats
) -> None:
    """For each table the largest difference of a cell of its marginals over some subsets (axes as bits) to its targets.

    Targets are inner products with the basis functions; where they are not covered there is no difference.
    """
    number, ndim = tables.shape[1], len(sizes)
    difference, part, own = np.empty(number), np.empty(number), np.empty(ndim, np.int64)
    for t in range(len(tables)):
        for z in range(number):
            difference[z] = tables[t, z]
        project(difference, sizes)
        for z in range(number):
            difference[z] = difference[z] - targets[t, z] if covered[z] else 0.0
        for subset in subsets:
            count, cells = 0, 1
            for axis in range(ndim):
                if subset >> axis & 1:
                    own[count] = sizes[axis]
                    count += 1
                    cells *= sizes[axis]
            for z in range(cells):
                part[z] = _marginal_part(difference, sizes, subset, z)
            expand(part[:cells], own[:count])
            for z in range(cells):
                largest[t] = max(largest[t], abs(part[z]))
