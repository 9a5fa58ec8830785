"""A table to its residual coefficients and back, axis by axis.

Along an axis of n values, coefficient 0 is the sum and coefficients 1 to n-1 are inner products with Helmert's vectors

    h_j = (1, ..., 1, -j, 0, ..., 0) / sqrt(j (j + 1)),    j ones,

which are orthonormal and sum to zero. Cumulative sums make both directions linear in the number of cells.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["decompose", "decompose_axis", "rebuild"]


def decompose(tables: ArrayLike, ndim: int) -> NDArray[np.float64]:
    """The coefficients of tables over ``ndim`` attributes; axes before the last ``ndim`` hold separate tables.

    >>> decompose([[3, 1], [0, 4]], ndim=1)
    array([[ 4.        ,  1.41421356],
           [ 4.        , -2.82842712]])
    """
    out = np.array(tables, np.float64)
    for axis in range(out.ndim - ndim, out.ndim):
        decompose_axis(out, axis)
    return out


def decompose_axis(tables: NDArray[np.float64], axis: int) -> None:
    """Coefficients along one axis in the place of values."""
    values = tables.swapaxes(axis, -1)
    sums = values.cumsum(axis=-1)
    steps, norms = _helmert(values.shape[-1])
    values[..., 1:] = (sums[..., :-1] - steps * values[..., 1:]) / norms
    values[..., 0] = sums[..., -1]


def rebuild(coefficients: ArrayLike, ndim: int) -> NDArray[np.float64]:
    """The tables that have these coefficients.

    >>> rebuild(decompose([[3, 1], [0, 4]], ndim=2), ndim=2).round(12)
    array([[3., 1.],
           [0., 4.]])
    """
    out = np.array(coefficients, np.float64)
    for axis in range(out.ndim - ndim, out.ndim):
        values = out.swapaxes(axis, -1)
        n = values.shape[-1]
        steps, norms = _helmert(n)
        parts = values[..., 1:] / norms
        mean = values[..., :1] / n
        values[..., 1:] = -steps * parts
        values[..., 0] = 0
        values[..., :-1] += parts[..., ::-1].cumsum(axis=-1)[..., ::-1]
        values += mean
    return out


@lru_cache(maxsize=64)  # sizes of axes: few in a schema, and small tables would spend most of their time on this
def _helmert(n: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The numbers j = 1, ..., n - 1 and the lengths sqrt(j (j + 1)) of their vectors."""
    steps = np.arange(1, n)
    norms = np.sqrt(steps * (steps + 1))
    for each in (steps, norms):
        each.setflags(write=False)
    return steps, norms
