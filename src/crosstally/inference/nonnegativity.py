"""Corrections of negative cells (PriView section 4.4): each returns tables without (large) negative cells.

Each function takes a stack of tables, whose last ``ndim`` axes are the attributes, and returns a new stack. ``simple``
increases the total; ``global`` and ``ripple`` keep it. A table whose total is negative becomes all zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosstally.errors import CrosstallyError

__all__ = ["CORRECTIONS", "clip", "clip_and_keep_total", "ripple", "unchanged"]

# Guard against endless ripples: the most steps of a table are _LEAST_STEPS plus _STEPS_FOR_EACH_CELL times its cells.
_LEAST_STEPS = 10_000_000
_STEPS_FOR_EACH_CELL = 1_000  # see above. A table that needs more is clipped with its total kept
_ROUNDING = 1e-9  # in rows: far above the rounding of doubles, far below any threshold that somebody asks for

Correction = Callable[[NDArray[np.float64], int], NDArray[np.float64]]


def unchanged(tables: ArrayLike, ndim: int) -> NDArray[np.float64]:  # noqa: ARG001 (all corrections are called alike)
    """The tables as they are: ``none``."""
    return np.array(tables, np.float64)


def clip(tables: ArrayLike, ndim: int) -> NDArray[np.float64]:  # noqa: ARG001
    """The tables with negative cells set to zero: ``simple``."""
    return np.maximum(np.asarray(tables, np.float64), 0.0)


def clip_and_keep_total(tables: ArrayLike, ndim: int) -> NDArray[np.float64]:
    """The tables with negative cells set to zero and one constant taken from the others: ``global``.

    The constant is the one that keeps each table's total when cells that it would make negative become zero too. It is
    found exactly, by sorting, and only where there are negative cells.

    >>> clip_and_keep_total([5.0, 1.0, -2.0, 0.25], ndim=1)
    array([4.125, 0.125, 0.   , 0.   ])
    """
    out = np.array(tables, np.float64)
    cells = out.reshape(-1, math.prod(out.shape[out.ndim - ndim :]))
    negative = np.flatnonzero((cells < 0).any(axis=1))
    if len(negative):
        cells[negative] = _without_constant(cells[negative])
    return out


def _without_constant(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each row's max(cell - c, 0) with c such that the total stays; zeros where the total is not positive."""
    totals = cells.sum(axis=1, keepdims=True)
    ordered = np.sort(cells, axis=1)[:, ::-1]
    constants = (np.cumsum(ordered, axis=1) - totals) / np.arange(1, cells.shape[1] + 1)
    kept = (ordered > constants).sum(axis=1, keepdims=True)
    constant = np.take_along_axis(constants, np.maximum(kept - 1, 0), axis=1)
    return np.where(totals > 0, np.maximum(cells - constant, 0.0), 0.0)


def ripple(tables: ArrayLike, ndim: int, *, threshold: float = 1.0) -> NDArray[np.float64]:
    """The tables with the deficit of each cell below minus the threshold taken from its neighbours: ``ripple``.

    Such a cell becomes zero and what it lacked is taken in equal parts from the sum(n_i - 1) cells that differ from it
    in one attribute. This goes in rounds, all cells below at once, so that the order of cells and attributes does not
    matter, until no cell is below. With a positive total that ends: once every cell has been set to zero, all are at
    most zero, which contradicts the total. It may take long when little is left to take from; then, and when the total
    is not positive, the table is given to ``global``.

    >>> ripple([[-4.0, 5.0], [3.0, 9.0]], ndim=2)
    array([[0., 3.],
           [1., 9.]])
    """
    if not threshold >= 0:  # else shares may be negative, and a cell pass the threshold more than once in a round
        raise CrosstallyError(f"threshold must be a number of at least 0, got {threshold!r}")
    out = np.array(tables, np.float64, order="C")
    sizes = np.array(out.shape[out.ndim - ndim :], np.int64)
    cells = out.reshape(-1, math.prod(sizes.tolist()))
    limit = float(threshold) + _ROUNDING  # whole numbers often land on the threshold: rounding must not decide there
    below = np.flatnonzero((cells < -limit).any(axis=1))
    if not len(below):
        return out
    from crosstally.kernels.ripple import ripple_table

    steps = _LEAST_STEPS + _STEPS_FOR_EACH_CELL * cells.shape[1]
    for i in below:
        if cells[i].sum() <= 0 or ripple_table(cells[i], sizes, limit, steps):
            cells[i] = clip_and_keep_total(cells[i], 1)
    return out


CORRECTIONS: Mapping[str, Correction] = {
    "none": unchanged,
    "simple": clip,
    "global": clip_and_keep_total,
    "ripple": ripple,
}
