"""The table of greatest entropy with given margins, nearly, without a matrix: Newton's method in cells of margins.

A table p of total 1 has K cells; L numbers are the cells of its margins over some sets of axes, one set after the
other. With A the 0-1 matrix that adds p up to these margins, and t the margins wanted, the dual over L numbers
lambda is

    log sum exp(A' lambda) - lambda t + (ridge / 2) |theta(lambda)|^2,

where theta(lambda) are the coefficients of the function A' lambda in orthonormal contrasts, without the total. Its
Hessian A (diag p - p p') A' + ridge R is never made: conjugate gradients need it times a vector, and that is a spread
over the table and a sum back. The diagonal of A diag(p) A' is the margin of p itself; divided by it (which is one step
of raking) the system has eigenvalues of at most the number of margins.

A table is (rows, width): its last axes together are the width. Sets of axes are of two kinds. A *free* one has none of
the last axes: a row has one number of it. The others are made *wide* by the rest of the last axes: a row has ``width``
numbers of it, side by side, so that processors add several at once.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numpy as np
from numba import njit

from crosstally.kernels.entropy import dot
from crosstally.kernels.helmert import expand, project
from crosstally.typing import Floats, Integers

Places = tuple[Integers, Integers, Integers, Integers]
"""free (free sets, rows): the cell of the set's margin that a row lies in; wide (wide sets, rows): where the row of a
wide margin starts; into, source: cell ``into[i]`` of the wide margins contains cell ``source[i]`` of a margin."""

Blocks = tuple[Integers, Integers, Integers, Integers, Floats]
"""starts (sets + 1): where each margin starts; dims (sets): how many axes it has; sizes: of these axes, one set after
the other; for each cell of a margin, as the place of a coefficient: which one it is (0 the total), and its scale."""

Work = tuple[Floats, Floats, Floats, Floats]
"""Vectors over L, wide margins, coefficients, and the table: rows as named below."""

_PLACES = "Tuple((int64[:, ::1], int64[:, ::1], int64[::1], int64[::1]))"
_BLOCKS = "Tuple((int64[::1], int64[::1], int64[::1], int64[::1], float64[::1]))"
_WORK = "UniTuple(float64[:, ::1], 4)"

# The rows of the vectors over the cells of margins
_LAMBDA, _TARGET, _TRIAL, _MARGIN, _GRADIENT, _DIRECTION, _REST, _ALONG, _IMAGE, _PULL = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9

_SEARCH_STEPS = 300
"""The most steps of conjugate gradients for one step of Newton's method; on 60 tables of real releases 5 to 150."""

_SEARCH_TOLERANCE = 0.01
"""Conjugate gradients end when the (preconditioned, squared) residual has fallen to this share: a gradient ten times
smaller for each step. With .09 the additional Newton steps take longer than is saved, with .0009 each step does."""

_EMPTY = 1e-6
"""Rows of the table whose largest cell is below this share of the ridge are left out of the Hessian: the ridge
dominates there. The gradient includes them, so only the path to the solution depends on this, not the solution."""

_SHORTEST = 1e-18
"""Shorter steps of the line search are accepted: only rounding errors are left."""


@njit("void(float64[::1])", cache=True)
def _clear(values: Floats) -> None:
    for i in range(len(values)):  # an assignment of slices takes long to compile
        values[i] = 0.0


@njit(f"void(float64[::1], {_PLACES}, float64[::1])", cache=True)
def _make_wide(margins: Floats, places: Places, wide: Floats) -> None:
    """Add up, for each cell of the wide margins, the cells of margins that contain it."""
    _, _, into, source = places
    _clear(wide)
    for i in range(len(into)):
        wide[into[i]] += margins[source[i]]


@njit(f"void(float64[::1], {_PLACES}, float64[::1])", cache=True)
def _add_wide(wide: Floats, places: Places, margins: Floats) -> None:
    """Add the wide margins to the margins that they were made of."""
    _, _, into, source = places
    for i in range(len(into)):
        margins[source[i]] += wide[into[i]]


@njit(inline="always")  # a call for each row takes as long as its work
def _spread_row(row: int, margins: Floats, places: Places, wide: Floats, out: Floats) -> None:
    """One row of A' margins: the sum of the cells of all margins that a cell lies in."""
    free, starts, _, _ = places
    base = 0.0
    for s in range(len(free)):
        base += margins[free[s, row]]
    for j in range(len(out)):
        out[j] = base
    for s in range(len(starts)):
        part = wide[starts[s, row] : starts[s, row] + len(out)]
        for j in range(len(out)):
            out[j] += part[j]


@njit(inline="always")  # a call for each row takes as long as its work
def _sum_row(row: int, cells: Floats, places: Places, wide: Floats, margins: Floats) -> None:
    """Add one row of a table to all margins."""
    free, starts, _, _ = places
    if len(free):
        # Four sums side by side: one alone would wait for each of its additions.
        a = b = c = d = 0.0
        whole = len(cells) // 4 * 4
        for j in range(0, whole, 4):
            a += cells[j]
            b += cells[j + 1]
            c += cells[j + 2]
            d += cells[j + 3]
        for j in range(whole, len(cells)):
            a += cells[j]
        total = (a + b) + (c + d)
        for s in range(len(free)):
            margins[free[s, row]] += total
    for s in range(len(starts)):
        part = wide[starts[s, row] : starts[s, row] + len(cells)]
        for j in range(len(cells)):
            part[j] += cells[j]


@njit(f"void(float64[::1], float64, {_BLOCKS}, float64[::1], float64[::1])", cache=True)
def _pull(margins: Floats, ridge: float, blocks: Blocks, coefficients: Floats, out: Floats) -> None:
    """The gradient of ridge / 2 |theta|^2; ridge times theta stands in the coefficients."""
    starts, dims, sizes, which, scales = blocks
    _clear(coefficients)
    axis = 0
    for s in range(len(dims)):
        part, own = out[starts[s] : starts[s + 1]], sizes[axis : axis + dims[s]]
        for i in range(len(part)):
            part[i] = margins[starts[s] + i]
        project(part, own)
        for i in range(len(part)):
            coefficients[which[starts[s] + i]] += ridge * scales[starts[s] + i] * part[i]
        axis += dims[s]
    coefficients[0] = 0.0
    axis = 0
    for s in range(len(dims)):
        part, own = out[starts[s] : starts[s + 1]], sizes[axis : axis + dims[s]]
        for i in range(len(part)):
            part[i] = coefficients[which[starts[s] + i]] * scales[starts[s] + i]
        expand(part, own)
        axis += dims[s]


@njit(f"float64(float64, {_PLACES}, {_BLOCKS}, {_WORK})", cache=True)
def _evaluate(ridge: float, places: Places, blocks: Blocks, work: Work) -> float:
    """The dual at the trial point; the table, its margins and the gradient are written."""
    vectors, wide, coefficients, tables = work
    trial, margin, table = vectors[_TRIAL], vectors[_MARGIN], tables[0]
    rows = places[0].shape[1]
    width = len(table) // rows
    _make_wide(trial, places, wide[0])
    for r in range(rows):
        _spread_row(r, trial, places, wide[0], table[r * width : (r + 1) * width])
    top = table[0]
    for f in table:
        top = max(top, f)
    whole = 0.0
    for x in range(len(table)):
        table[x] = math.exp(table[x] - top)
        whole += table[x]
    _clear(margin)
    _clear(wide[1])
    for r in range(rows):
        for x in range(r * width, (r + 1) * width):
            table[x] /= whole
        _sum_row(r, table[r * width : (r + 1) * width], places, wide[1], margin)
    _add_wide(wide[1], places, margin)
    _pull(trial, ridge, blocks, coefficients[0], vectors[_PULL])
    value = top + math.log(whole)
    for i in range(len(trial)):
        vectors[_GRADIENT, i] = margin[i] - vectors[_TARGET, i] + vectors[_PULL, i]
        value += trial[i] * (0.5 * vectors[_PULL, i] - vectors[_TARGET, i])
    return float(value)


@njit(f"void(float64, int64[::1], {_PLACES}, {_BLOCKS}, {_WORK})", cache=True)
def _apply_hessian(ridge: float, rows: Integers, places: Places, blocks: Blocks, work: Work) -> None:
    """The Hessian times the vector of the search, from some rows of the table."""
    vectors, wide, coefficients, tables = work
    along, image, table = vectors[_ALONG], vectors[_IMAGE], tables[0]
    width = len(table) // places[0].shape[1]
    own = wide[2, :width]
    _make_wide(along, places, wide[0])
    _clear(image)
    _clear(wide[1])
    for r in rows:
        _spread_row(r, along, places, wide[0], own)
        for j in range(width):
            own[j] *= table[r * width + j]
        _sum_row(r, own, places, wide[1], image)
    _add_wide(wide[1], places, image)
    _pull(along, ridge, blocks, coefficients[1], vectors[_PULL])
    mean = dot(along, vectors[_MARGIN])
    for i in range(len(image)):
        image[i] += vectors[_PULL, i] - mean * vectors[_MARGIN, i]


@njit("int64[::1](float64[::1], int64, float64)", cache=True)
def _rows_above(table: Floats, rows: int, least: float) -> Integers:
    """The rows of a table that have a cell above some number."""
    width, count = len(table) // rows, 0
    found = np.empty(rows, np.int64)
    for r in range(rows):
        most = 0.0
        for x in range(r * width, (r + 1) * width):
            most = max(most, table[x])
        if most > least:
            found[count] = r
            count += 1
    return found[:count]


@njit(f"void(float64, {_PLACES}, {_BLOCKS}, {_WORK})", cache=True)
def _search(ridge: float, places: Places, blocks: Blocks, work: Work) -> None:
    """Newton's direction, nearly: minus the gradient over the Hessian, by conjugate gradients."""
    vectors = work[0]
    direction, rest, along, image = vectors[_DIRECTION], vectors[_REST], vectors[_ALONG], vectors[_IMAGE]
    margin = vectors[_MARGIN]
    rows = _rows_above(work[3][0], places[0].shape[1], _EMPTY * ridge)
    for i in range(len(rest)):
        direction[i], along[i], rest[i] = 0.0, 0.0, -vectors[_GRADIENT, i]
    first = last = 0.0
    for step in range(_SEARCH_STEPS):
        size = 0.0
        for i in range(len(rest)):
            size += rest[i] * rest[i] / (margin[i] + ridge)
        first = max(first, size)
        if not size > _SEARCH_TOLERANCE * first:
            break
        for i in range(len(rest)):
            along[i] = rest[i] / (margin[i] + ridge) + (size / last * along[i] if step else 0.0)
        last = size
        _apply_hessian(ridge, rows, places, blocks, work)
        curvature = dot(along, image)
        if not curvature > 0.0:  # rounding is all that is left
            break
        length = size / curvature
        for i in range(len(rest)):
            direction[i] += length * along[i]
            rest[i] -= length * image[i]


@njit(f"int64(float64, float64, int64, {_PLACES}, {_BLOCKS}, {_WORK})", cache=True)
def fit_margins(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    ridge: float, tolerance: float, most_steps: int, places: Places, blocks: Blocks, work: Work
) -> int:
    """How many steps it took from lambda to the minimum of the dual; minus that when it was not reached.

    Lambda stands in row 0 of the vectors and the margins wanted in row 1. Afterwards the table stands in the last
    array, and by how much it misses the coefficients wanted in row 0 of the coefficients.

    Steps are accepted by slopes, as in ``entropy``: near the minimum of margins that no table has, differences of the
    dual drown in rounding.
    """
    vectors = work[0]
    theta, trial, gradient, direction = vectors[_LAMBDA], vectors[_TRIAL], vectors[_GRADIENT], vectors[_DIRECTION]
    _clear(direction)
    value, slope, length, step = math.inf, 0.0, 1.0, 0
    while True:
        for i in range(len(theta)):
            trial[i] = theta[i] + length * direction[i]
        new = _evaluate(ridge, places, blocks, work)
        rise = dot(gradient, direction)
        if rise > 0.0 and (rise > 0.3 * slope or new > value + 1e-13 * abs(value)) and length > _SHORTEST:
            length *= max(0.1, min(0.5, slope / (slope + rise)))
            continue
        for i in range(len(theta)):
            theta[i] = trial[i]
        if step and slope <= tolerance:
            return step
        if step == most_steps:
            return -step
        step += 1
        _search(ridge, places, blocks, work)
        value, slope, length = new, -dot(gradient, direction), 1.0
        if not slope > 0.0:  # rounding is all that is left
            return step
