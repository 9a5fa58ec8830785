"""One step of expectation maximisation for latent classes (``answers.unmeasured.latent_class_model``)."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crosstally.typing import Floats

_LEAST = 1e-300  # stands for zero under a fraction line


@njit("float64(float64[::1])", cache=True)
def _sum(numbers: Floats) -> float:
    """The sum, in four parts side by side: one after the other takes four times as long."""
    a = b = c = d = 0.0
    whole = len(numbers) // 4 * 4
    for i in range(0, whole, 4):
        a += numbers[i]
        b += numbers[i + 1]
        c += numbers[i + 2]
        d += numbers[i + 3]
    for i in range(whole, len(numbers)):
        a += numbers[i]
    return a + b + (c + d)


@njit("void(float64[::1], float64[:, ::1], int32[:, ::1], float64[::1], float64[::1], float64[:, ::1])", cache=True)
def share_out(  # noqa: PLR0917 (a kernel gets arrays)
    weights: Floats, values: Floats, cells: NDArray[np.int32], counts: Floats, class_sums: Floats, value_sums: Floats
) -> None:
    """Share each cell's count out among the classes, and add what each class gets to its sums.

    Cells are in the order of their values, so that neighbours begin with the same ones: products of these are kept, one
    for each axis, and what cells with the same beginning got is added up once. Half of the time of cell by cell.

    Args:
        weights: (classes): the share of each class.
        values: (values of all attributes, classes): the share of each value in each class.
        cells: (cells, axes): the rows of ``values`` that are the values of each cell.
        counts: (cells).
        class_sums: (classes): is added to.
        value_sums: (values of all attributes, classes): is added to.
    """
    number, axes = cells.shape
    classes = len(weights)
    products = np.empty((axes + 1, classes))  # of the weights and the values of the first axes
    got = np.zeros((axes + 1, classes))  # what the cells of this beginning got so far
    products[0] = weights
    same = 0  # axes at the beginning of this cell that are those of the last one
    for i in range(number + 1):
        if i > 0:
            same = 0
            while i < number and same < axes and cells[i, same] == cells[i - 1, same]:
                same += 1
            for axis in range(axes - 1, same - 1, -1):
                row = cells[i - 1, axis]
                for c in range(classes):
                    share = got[axis + 1, c]
                    value_sums[row, c] += share
                    got[axis, c] += share
                    got[axis + 1, c] = 0.0
        if i == number:
            break
        for axis in range(same, axes):
            row = cells[i, axis]
            for c in range(classes):
                products[axis + 1, c] = products[axis, c] * values[row, c]
        factor = counts[i] / max(_sum(products[axes]), _LEAST)
        for c in range(classes):
            got[axes, c] += products[axes, c] * factor
    class_sums += got[0]
