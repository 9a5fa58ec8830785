"""One step towards tables that agree and have no negative cell, for all views of one shape."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crosstally.kernels.helmert import expand, expand_abreast, project, project_abreast
from crosstally.typing import Floats, Integers

ABREAST = 8
"""How many views ``split_step_abreast`` takes at a time: as many doubles as the widest registers hold. With 108 views
of 256 cells a step takes 0.45 of its time; the result does not depend on it."""


@njit(
    "UniTuple(float64, 2)(float64[::1], int64[:, ::1], float64[::1], int64[::1], float64[::1], boolean[:, ::1],"
    " float64[:, ::1], float64[:, ::1], float64[::1])",
    cache=True,
)
def split_step(  # noqa: PLR0917 (a kernel gets arrays)
    coefficients: Floats,
    places: Integers,
    factors: Floats,
    sizes: Integers,
    penalties: Floats,
    possible: NDArray[np.bool_],
    above_zero: Floats,
    owed: Floats,
    sums: Floats,
) -> tuple[float, float]:
    """Clip each view, remember what that changed, and add up what the views want of the coefficients.

    Args:
        coefficients: Of all sets of attributes.
        places: For each view where its coefficients stand.
        factors: What turns a coefficient of a view into one of Helmert's vectors in whole numbers, and back.
        sizes: How many values each attribute of the views has.
        penalties: For each view what a squared difference costs.
        possible: For each view the cells that someone can be in; the others become zero. No rows where all can.
        above_zero: The views without negative cells; changed.
        owed: What clipping has changed so far, cell by cell; changed.
        sums: What the views want of each coefficient, times penalties; added to.

    Returns:
        The most that a cell differs from its clipped one, and the most that a clipped one moved, in noise units: times
        the root of the penalty.
    """
    apart = moved = 0.0
    cells = places.shape[1]
    view = np.empty(cells)
    for v in range(len(places)):
        for c in range(cells):
            view[c] = coefficients[places[v, c]] * factors[c]
        expand(view, sizes)
        unit = np.sqrt(penalties[v])
        for c in range(cells):
            clipped = max(view[c] + owed[v, c], 0.0) if len(possible) == 0 or possible[v, c] else 0.0
            owed[v, c] += view[c] - clipped
            apart = max(apart, unit * abs(view[c] - clipped))
            moved = max(moved, unit * abs(clipped - above_zero[v, c]))
            above_zero[v, c] = clipped
            view[c] = clipped - owed[v, c]
        project(view, sizes)
        for c in range(cells):
            sums[places[v, c]] += penalties[v] * factors[c] * view[c]
    return apart, moved


@njit(
    "UniTuple(float64, 2)(float64[::1], int64[:, ::1], float64[::1], int64[::1], float64[::1], float64[:, :, ::1],"
    " float64[:, :, ::1], float64[::1])",
    cache=True,
)
def split_step_abreast(  # noqa: PLR0917 (a kernel gets arrays)
    coefficients: Floats,
    places: Integers,
    factors: Floats,
    sizes: Integers,
    penalties: Floats,
    above_zero: Floats,
    owed: Floats,
    sums: Floats,
) -> tuple[float, float]:
    """As ``split_step``, to the last bit, of views in which all cells are possible and whose number ABREAST divides.

    Args:
        coefficients: See ``split_step``, as for all that is not named here.
        places: (views, cells).
        factors: (cells).
        sizes: How many values each attribute of the views has.
        penalties: (views).
        above_zero: (views / ABREAST, cells, ABREAST); changed.
        owed: The same; changed.
        sums: What the views want of each coefficient; added to, view after view.
    """
    apart, moved, units = np.zeros(ABREAST), np.zeros(ABREAST), np.empty(ABREAST)
    cells = places.shape[1]
    flat = np.empty(cells * ABREAST)
    views = flat.reshape((cells, ABREAST))
    for block in range(len(owed)):
        first = block * ABREAST
        for b in range(ABREAST):
            units[b] = np.sqrt(penalties[first + b])
            for c in range(cells):
                views[c, b] = coefficients[places[first + b, c]] * factors[c]
        expand_abreast(flat, sizes, ABREAST)
        for c in range(cells):
            for b in range(ABREAST):
                clipped = max(views[c, b] + owed[block, c, b], 0.0)
                owed[block, c, b] += views[c, b] - clipped
                apart[b] = max(apart[b], units[b] * abs(views[c, b] - clipped))
                moved[b] = max(moved[b], units[b] * abs(clipped - above_zero[block, c, b]))
                above_zero[block, c, b] = clipped
                views[c, b] = clipped - owed[block, c, b]
        project_abreast(flat, sizes, ABREAST)
        for b in range(ABREAST):
            for c in range(cells):
                sums[places[first + b, c]] += penalties[first + b] * factors[c] * views[c, b]
    return apart.max(), moved.max()
