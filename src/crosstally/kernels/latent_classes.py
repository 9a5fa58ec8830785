"""One step of expectation maximisation for latent classes (``inference.latent_classes``)."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["share_out"]

_LEAST = 1e-300  # stands for zero under a fraction line


@njit("void(float64[::1], float64[:, ::1], int32[:, ::1], float64[::1], float64[::1], float64[:, ::1])", cache=True)
def share_out(  # noqa: PLR0917 (a kernel gets arrays)
    weights: NDArray[np.float64],
    values: NDArray[np.float64],
    cells: NDArray[np.int32],
    counts: NDArray[np.float64],
    class_sums: NDArray[np.float64],
    value_sums: NDArray[np.float64],
) -> None:
    """Share each cell's count out among the classes, and add what each class gets to its sums.

    Args:
        weights: (classes): the share of each class.
        values: (values of all attributes, classes): the share of each value in each class.
        cells: (cells, axes): the rows of ``values`` that are the values of each cell.
        counts: (cells).
        class_sums: (classes): is added to.
        value_sums: (values of all attributes, classes): is added to.
    """
    number, axes = cells.shape
    part = np.empty(len(weights))
    for i in range(number):
        part[:] = weights
        for axis in range(axes):
            part *= values[cells[i, axis]]
        part *= counts[i] / max(part.sum(), _LEAST)
        class_sums += part
        for axis in range(axes):
            value_sums[cells[i, axis]] += part
