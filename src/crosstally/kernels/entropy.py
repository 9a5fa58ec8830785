"""Tables that have some given coefficients and no negative cell: of greatest entropy, or of least squares.

u_z is a product over axes of Helmert's vectors: u_0 = 1, and u_j is 1 below j, -j at j, 0 above. With f = sum theta_z
u_z the table is exp(f) / Z, or the positive part of f over the number of cells. Newton's method minimises the dual

    (log Z, or sum_x max(f, 0)^2 / (2 C)) - sum theta_z c_z + (ridge / 2) sum weight_z theta_z^2

over theta, with C cells. weight_z is the product of j (j + 1), the squared length of u_j, over the axes with j > 0, so
that the ridge softens all coefficients alike in orthonormal contrasts; for the total it is 1, or what the caller gives.

Products stay in the basis (u_j u_k = u_j for 0 < j < k) but for squares, so the Hessian is no matrix product: every
entry is one number of a transform of p that is widened by the squares of each axis (for two values u_1^2 = 1: nothing
is added, and the entry is the Walsh coefficient of z xor w).

In symbols, with cells x = 1..C, K constraints z (``places`` among the C coefficients of a table of these ``sizes``) and
targets c_z, the table p solves one of

    greatest entropy   max -sum p log p,       or   least squares   min sum (C p)^2 / (2 C),
    subject to   sum_x u_z(x) p(x) = c_z,     p >= 0,

each constraint softened by the ridge. The gradient of the dual is E_p[u_z] - c_z + ridge weight_z theta_z, its Hessian
the covariance of u_z and u_w (uncentred for least squares, with the slopes dp/df in the place of p) plus the ridge.
The ridge runs from 1e-4 down to 1e-10 times the largest target, or 1 (``_follow``): targets that noise made impossible
have no exact solution, and theta then grows as 1 / ridge.

A table is done when, at the smallest ridge that can be reached, the slope along Newton's step, twice the decrease of
the dual that it promises, is at most 1e-12, or rounding leaves no slope (``_follow``). Where nothing converges, the
ridge that is told is infinite, and the table is not to be used.

Arrays of work: vectors (8, K), cells (3, C), wide (2, widened cells: two rooms that ``widen`` uses in turn), and the
Hessian (K, K) or room for conjugate gradients (5, K); the rows are named below. For one attribute of two values u_0 = 1
and u_1 = +1, -1: the target 0.4 for z = 1 gives p = 0.7, 0.3.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crosstally.kernels.helmert import expand, project, widen, widened_cells
from crosstally.typing import Floats, Integers

GREATEST_ENTROPY, LEAST_SQUARES = 0, 1  # the argument ``law`` of kernels: which dual is minimised

# The first ridge, in units: chosen large enough for Newton's method to converge from its start.
LARGEST_RIDGE = 1e-4
# The last ridge: if a table fits, the result fits to 1e-8 of the total or better (docs/methods/unmeasured.md).
SMALLEST_RIDGE = 1e-10
# The factor by which a stage lowers the ridge at first and after an easy stage. Chosen: it changes time alone.
_FIRST_FACTOR = 100.0
_LEAST_FACTOR = 1.05  # smaller factors are not tried: the ridge then stays at its last value
_HOPELESS = 1e6  # if nothing converges, the ridge rises by factors of ten up to this; then there is no table
# Newton steps of a stage: few are needed from a near start. If they do not suffice, the factor is made smaller.
_STEPS = 12
_STEPS_ALONE = 100  # Newton steps of the first stage, which has no near start, and of the last, which must be precise
_EASY = 3  # steps of a stage that was easy: the next is wider. Chosen: it changes time alone
_LOOSE = 0.01  # where stages end, as the slope along Newton's step (see above); they only lead to the next one
# Least squares: a logarithmic barrier of this times the ridge rounds the corner at zero, for Newton needs a slope.
_BARRIER = 100.0
_TIGHT = 1e-12  # the last stage ends here; smaller decreases are rounding errors
_SHORTEST = 1e-18  # a step of this length is accepted: it changes nothing, and the search must end
_SEARCH_STEPS = 300  # limits time: steps of conjugate gradients, which replace a matrix for large tables
# Their squared residual, relative to the first, at which they end: a precision of 1e-4 suffices for a Newton step.
_SEARCH_TOLERANCE = 1e-8
_SEARCH_VECTORS = 5  # their vectors, instead of a matrix: residual, scaled residual, direction, its image, scales
_LEAST_MARGIN = 1e-4  # smaller margins are raised to this: theta starts at their logarithm and is then corrected


@njit("boolean(float64[:, ::1])", cache=True)
def _factorise(matrix: Floats) -> bool:
    """Cholesky's factor in the upper triangle, in place; False when the matrix is not positive definite.

    Four rows at a time are taken from all that follow, so that these are read and written a quarter as often.
    """
    number = matrix.shape[1]
    for start in range(0, number, 4):
        end = min(start + 4, number)
        for k in range(start, end):
            for i in range(start, k):
                factor = matrix[i, k]
                for j in range(k, number):
                    matrix[k, j] -= factor * matrix[i, j]
            if not matrix[k, k] > 0.0:
                return False
            root = math.sqrt(matrix[k, k])
            for j in range(k, number):
                matrix[k, j] /= root
        if end < number:
            a, b, c, d = matrix[start], matrix[start + 1], matrix[start + 2], matrix[start + 3]
            for i in range(end, number):
                row, at, bt, ct, dt = matrix[i], a[i], b[i], c[i], d[i]
                for j in range(i, number):
                    row[j] -= at * a[j] + bt * b[j] + ct * c[j] + dt * d[j]
    return True


@njit("void(float64[:, ::1], float64[::1])", cache=True)
def _solve(factor: Floats, vector: Floats) -> None:
    """The solution for a factorised matrix, in place."""
    number = len(vector)
    for k in range(number):
        vector[k] /= factor[k, k]
        own = vector[k]
        for j in range(k + 1, number):
            vector[j] -= factor[k, j] * own
    for k in range(number - 1, -1, -1):
        rest = vector[k]
        for j in range(k + 1, number):
            rest -= factor[k, j] * vector[j]
        vector[k] = rest / factor[k, k]


# The rows of the vectors that Newton's method works with
_THETA, _GRADIENT, _DIRECTION, _CENTRE, _TARGET, _WEIGHTS, _TRIAL, _SAVED = 0, 1, 2, 3, 4, 5, 6, 7
_VECTORS = 8  # how many rows those are

# The rows of the workspace of conjugate gradients: residual, scaled residual, direction, its image, scales
_RESIDUAL, _SCALED, _ALONG, _IMAGE, _SCALES = 0, 1, 2, 3, 4

# The rows of the tables: the table itself, its derivative by f, and a workspace for transforms
_TABLE, _SLOPES, _SCRATCH = 0, 1, 2
_TABLES = 3  # how many rows those are


@njit("void(float64[::1], float64[::1])", cache=True)
def _copy(source: Floats, target: Floats) -> None:
    for i in range(len(source)):  # an assignment of slices takes three seconds to compile
        target[i] = source[i]


@njit("float64(float64[::1], float64[::1])", cache=True)
def dot(first: Floats, second: Floats) -> float:
    """The inner product, added up from the first to the last."""
    total = 0.0
    for i in range(len(first)):
        total += first[i] * second[i]
    return total


@njit("float64(float64[::1], float64[::1])", cache=True)
def _normalise(table: Floats, slopes: Floats) -> float:
    """Greatest entropy: p = exp(f) / Z in place of f, its derivative (but for the constraint on the sum), and log Z."""
    # The largest f is taken off before exponentials: no overflow, and log Z = top + log(sum)
    top = table[0]
    for f in table:
        top = max(top, f)
    whole = 0.0
    for x in range(len(table)):
        table[x] = math.exp(table[x] - top)
        whole += table[x]
    for x in range(len(table)):
        table[x] /= whole
        slopes[x] = table[x]
    return float(top + math.log(whole))


@njit("float64(float64[::1], float64[::1], float64)", cache=True)
def _clip(table: Floats, slopes: Floats, barrier: float) -> float:
    """Least squares: the positive part of f over the number of cells in place of f, its derivative, sum t^2 / (2 C).

    The corner at zero is rounded: t maximises f t - t^2 / 2 + barrier log t, which is the value of the cell.
    """
    share, value = 1.0 / len(table), 0.0
    for x in range(len(table)):
        f = table[x]
        root = math.sqrt(f * f + 4.0 * barrier)
        t = 0.5 * (f + root) if f > 0.0 else 2.0 * barrier / (root - f)
        value += share * (f * t - 0.5 * t * t + barrier * math.log(t))
        slopes[x] = share * t / root
        table[x] = share * t
    return value


@njit("void(float64[::1], int64[::1], int64[::1], float64[::1])", cache=True)
def _spread(coefficients: Floats, places: Integers, sizes: Integers, table: Floats) -> None:
    """The function with these coefficients at these places, cell by cell."""
    table[:] = 0.0
    for i in range(len(places)):
        table[places[i]] = coefficients[i]
    expand(table, sizes)


@njit("float64(int64, float64[:, ::1], float64, int64[::1], int64[::1], float64[:, ::1])", cache=True)
def _evaluate(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    law: int, vectors: Floats, ridge: float, places: Integers, sizes: Integers, cells: Floats
) -> float:
    """The dual at the trial point; the table, its slopes, the centre of the covariance and the gradient are written."""
    trial, gradient, centre = vectors[_TRIAL], vectors[_GRADIENT], vectors[_CENTRE]
    target, weights = vectors[_TARGET], vectors[_WEIGHTS]
    table, slopes, scratch = cells[_TABLE], cells[_SLOPES], cells[_SCRATCH]
    _spread(trial, places, sizes, table)
    value = _normalise(table, slopes) if law == GREATEST_ENTROPY else _clip(table, slopes, _BARRIER * ridge)
    _copy(table, scratch)
    project(scratch, sizes)
    for i in range(len(places)):
        moment = scratch[places[i]]
        centre[i] = moment if law == GREATEST_ENTROPY else 0.0
        pull = ridge * weights[i] * trial[i]
        gradient[i] = moment - target[i] + pull
        value += trial[i] * (0.5 * pull - target[i])
    return float(value)


@njit("boolean(float64[:, ::1], float64, int32[:, ::1], float64[::1], float64[:, ::1])", cache=True)
def _solve_directly(
    vectors: Floats, ridge: float, products: NDArray[np.int32], widened: Floats, matrix: Floats
) -> bool:
    """Newton's direction: minus the gradient over covariance + ridge; False when that cannot be factorised."""
    centre, weights = vectors[_CENTRE], vectors[_WEIGHTS]
    # Only the upper triangle is filled: E[u_i u_j] is one entry of the widened transform, at products[i, j]
    for i in range(len(centre)):
        for j in range(i, len(centre)):
            matrix[i, j] = widened[products[i, j]] - centre[i] * centre[j]
        matrix[i, i] += ridge * weights[i]
    if not _factorise(matrix):
        return False
    for i in range(len(centre)):
        vectors[_DIRECTION, i] = -vectors[_GRADIENT, i]
    _solve(matrix, vectors[_DIRECTION])
    return True


@njit("void(float64[:, ::1], float64, int64[::1], int64[::1], float64[:, ::1], float64[:, ::1])", cache=True)
def _solve_by_search(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    vectors: Floats, ridge: float, places: Integers, sizes: Integers, cells: Floats, search: Floats
) -> None:
    """The same direction, nearly, by conjugate gradients: no matrix, one transform each way for each step."""
    centre, weights, direction = vectors[_CENTRE], vectors[_WEIGHTS], vectors[_DIRECTION]
    rest, scaled, along = search[_RESIDUAL], search[_SCALED], search[_ALONG]
    image, scales = search[_IMAGE], search[_SCALES]
    slopes, scratch = cells[_SLOPES], cells[_SCRATCH]
    first = last = 0.0
    for step in range(_SEARCH_STEPS):
        for i in range(len(places)):
            if step == 0:
                direction[i], along[i], rest[i] = 0.0, 0.0, -vectors[_GRADIENT, i]
                scales[i] = 1.0 / (weights[i] * (1.0 / len(slopes) + ridge))
            scaled[i] = rest[i] * scales[i]
        size = dot(rest, scaled)
        first = max(first, size)
        if not size > _SEARCH_TOLERANCE * first:
            break  # the residual, in the norm of the scaling, is small beside the gradient's
        for i in range(len(places)):
            along[i] = scaled[i] + (size / last * along[i] if step else 0.0)
        last = size
        # The Hessian times ``along``: to cells, times dp/df, back to coefficients; less the mean; plus the ridge
        _spread(along, places, sizes, scratch)
        for x in range(len(slopes)):
            scratch[x] *= slopes[x]
        project(scratch, sizes)
        mean = dot(centre, along)
        for i in range(len(places)):
            image[i] = scratch[places[i]] - mean * centre[i] + ridge * weights[i] * along[i]
        length = size / dot(along, image)
        for i in range(len(places)):
            direction[i] += length * along[i]
            rest[i] -= length * image[i]


@njit("void(float64[:, ::1], int64[::1], int64[::1])", cache=True)
def _start(vectors: Floats, places: Integers, sizes: Integers) -> None:
    """Theta of the product of the margins of single attributes, kept away from zero."""
    theta, target = vectors[_THETA], vectors[_TARGET]
    theta[:] = 0.0
    widest = 0
    for size in sizes:
        widest = max(widest, size)
    logs = np.empty(widest)
    stride = 1
    for axis in range(len(sizes) - 1, -1, -1):
        size = sizes[axis]
        # The margin of the axis from its coefficients: 1/n + sum_j target_j u_j(x) / (j (j + 1))
        logs[:] = 1.0 / size
        for i in range(len(places)):
            j = places[i] // stride
            if j < size and j * stride == places[i]:
                part = target[i] / (j * (j + 1))
                for x in range(j):
                    logs[x] += part
                logs[j] -= j * part
        for x in range(size):
            logs[x] = math.log(max(logs[x], _LEAST_MARGIN))
        for i in range(len(places)):
            j = places[i] // stride
            if j < size and j * stride == places[i]:
                for x in range(j):
                    theta[i] += logs[x]
                theta[i] = (theta[i] - j * logs[j]) / (j * (j + 1))
        stride *= size


Problem = tuple[int, Integers, Integers, NDArray[np.int32]]
"""The law, places, sizes and products, see ``solve_tables``."""
Work = tuple[Floats, Floats, Floats, Floats]
"""The arrays of work (module docstring)."""


@njit(inline="always")  # a level of calls less halves the time to compile
def _newton(problem: Problem, ridge: float, tolerance: float, most_steps: int, work: Work) -> int:
    """How many steps it took from theta to the minimum, which stands in theta; minus that when it was not reached.

    A step is accepted where the dual, convex along it, has not turned up by much. That and the stop use slopes only:
    near the minimum of a table that noise made impossible, differences of the dual itself drown in rounding.
    """
    law, places, sizes, products = problem
    vectors, cells, wide, matrix = work
    theta, trial, gradient, direction = vectors[_THETA], vectors[_TRIAL], vectors[_GRADIENT], vectors[_DIRECTION]
    direction[:] = 0.0
    value, slope, length = math.inf, 0.0, 1.0
    step = 0
    while True:
        for i in range(len(theta)):
            trial[i] = theta[i] + length * direction[i]
        # ``slope`` is minus the derivative along the direction at its start, ``rise`` the derivative at the trial point
        new = _evaluate(law, vectors, ridge, places, sizes, cells)
        rise = dot(gradient, direction)
        if rise > 0.0 and (rise > 0.3 * slope or new > value + 1e-13 * abs(value)) and length > _SHORTEST:
            length *= max(0.1, min(0.5, slope / (slope + rise)))
            continue
        _copy(trial, theta)
        if step and slope <= tolerance:
            return step
        if step == most_steps:
            return -step
        step += 1
        if len(products) == 0:
            _solve_by_search(vectors, ridge, places, sizes, cells, matrix)
        else:
            widened = cells[_SCRATCH]  # where it stands already, unless there are squares, or slopes that are no table
            if law != GREATEST_ENTROPY or wide.shape[1] > len(widened):
                widened = widen(cells[_SLOPES], sizes, wide[0], wide[1])
            if not _solve_directly(vectors, ridge, products, widened, matrix):
                return -step
        value, slope, length = new, -dot(gradient, direction), 1.0
        if not slope > 0.0:  # rounding is all that is left
            return step


@njit(inline="always")  # a level of calls less halves the time to compile
def _follow(problem: Problem, unit: float, work: Work) -> float:
    """The smallest ridge that was reached, with its theta. It is made smaller in stages, each started from the last.

    Where constraints are such that no table meets them, theta grows as 1 / ridge, and a stage may be too wide: then the
    last minimum is made sharper and the stage narrower.
    """
    theta, saved = work[0][_THETA], work[0][_SAVED]
    ridge, reached, least = LARGEST_RIDGE * unit, math.inf, SMALLEST_RIDGE * unit
    factor, tolerance, steps, last = _FIRST_FACTOR, _LOOSE, _STEPS_ALONE, False
    while ridge < _HOPELESS * unit:
        taken = _newton(problem, ridge, tolerance, steps, work)
        # Three cases: the last, sharp minimum; a stage that was reached; one that was too wide
        if last:
            if taken > 0:
                return ridge
            _copy(saved, theta)
            ridge *= 10.0
        elif taken > 0 or ridge == reached:
            factor *= _FIRST_FACTOR if abs(taken) <= _EASY and ridge < reached else 1.0
            reached = ridge
            _copy(theta, saved)
            ridge, steps = max(reached / factor, least), _STEPS
        elif reached == math.inf:
            theta[:] = 0.0
            ridge *= 10.0
        else:
            _copy(saved, theta)
            ridge, factor, tolerance = reached, math.sqrt(factor), max(tolerance / 100.0, _TIGHT)
        if not last and (reached <= least or factor < _LEAST_FACTOR):
            ridge, tolerance, steps, last = reached, _TIGHT, _STEPS_ALONE, True
    return math.inf


@njit(
    "void(int64, int64[::1], int64[::1], int32[:, ::1], float64[::1], float64[:, ::1], float64[:, ::1], float64[::1])",
    cache=True,
)
def solve_tables(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    law: int,
    places: Integers,
    sizes: Integers,
    products: NDArray[np.int32],
    weights: Floats,
    targets: Floats,
    tables: Floats,
    ridges: Floats,
) -> None:
    """Solve for each row of targets: the table, and the ridge that was reached, infinite if none was.

    targets (tables, K), tables (tables, C), ridges (tables), weights (K); products (K, K) says where in the widened
    transform E[u_i u_j] stands, or is (0, 0).
    Tables of greatest entropy have a total of 1; it is not among their targets. Without products no matrix is made.
    """
    number = len(places)
    rows = number if len(products) else _SEARCH_VECTORS
    wide = widened_cells(sizes) if len(products) else 0
    cells = np.empty((_TABLES, tables.shape[1]))
    work = np.zeros((_VECTORS, number)), cells, np.empty((2, wide)), np.empty((rows, number))
    vectors = work[0]
    _copy(weights, vectors[_WEIGHTS])
    for i in range(len(targets)):
        _copy(targets[i], vectors[_TARGET])
        # Ridges are in units of the largest target, and at least of 1
        unit = 1.0
        for j in range(number):
            unit = max(unit, abs(targets[i, j]))
        vectors[_THETA] = 0.0
        if law == GREATEST_ENTROPY:
            _start(vectors, places, sizes)
        ridges[i] = _follow((law, places, sizes, products), unit, work)
        _copy(cells[_TABLE], tables[i])
