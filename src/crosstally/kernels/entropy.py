"""Tables that have some given coefficients and no negative cell: of greatest entropy, or of least squares.

With u_z the functions of ``helmert`` and f = sum theta_z u_z, the table is exp(f) / Z, or the positive part of f over
the number of cells. Newton's method minimises the dual

    (log Z, or half the table's square) - sum theta_z c_z + (ridge / 2) sum weight_z theta_z^2.

Products stay in the basis (u_j u_k = u_j for 0 < j < k) but for squares, so the Hessian is no matrix product: every
entry is one number of a transform of p that is widened by the squares of each axis (for two values u_1^2 = 1: nothing
is added, and the entry is the Walsh coefficient of z xor w).
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crosstally.kernels.helmert import expand, project, widen, widened_cells

__all__ = [
    "GREATEST_ENTROPY",
    "LEAST_SQUARES",
    "solve_tables",
]

GREATEST_ENTROPY, LEAST_SQUARES = 0, 1

LARGEST_RIDGE = 1e-3
SMALLEST_RIDGE = 1e-10
_FIRST_FACTOR = 10.0
_LEAST_FACTOR = 1.05
_HOPELESS = 1e6
_STEPS = 12
_STEPS_ALONE = 300
_EASY = 3
_LOOSE = 0.01
_TIGHT = 1e-12
_SEARCH_STEPS = 300
_SEARCH_VECTORS = 5
_LEAST_MARGIN = 1e-4


@njit("boolean(float64[:, ::1])", cache=True)
def _factorise(matrix: NDArray[np.float64]) -> bool:
    """Cholesky's factor in the upper triangle, in place; False when the matrix is not positive definite."""
    number = len(matrix)
    for k in range(number):
        pivot = matrix[k, k]
        if not pivot > 0.0:
            return False
        root = math.sqrt(pivot)
        for j in range(k, number):
            matrix[k, j] /= root
        for i in range(k + 1, number):
            factor = matrix[k, i]
            for j in range(i, number):
                matrix[i, j] -= factor * matrix[k, j]
    return True


@njit("void(float64[:, ::1], float64[::1])", cache=True)
def _solve(factor: NDArray[np.float64], vector: NDArray[np.float64]) -> None:
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
_VECTORS = 8

# The rows of the tables: the table itself, its derivative by f, and room for transforms
_TABLE, _SLOPES, _SCRATCH = 0, 1, 2
_TABLES = 3


@njit("float64(float64[::1], float64[::1])", cache=True)
def _normalise(table: NDArray[np.float64], slopes: NDArray[np.float64]) -> float:
    """Greatest entropy: p = exp(f) / Z in place of f, its derivative (but for the constraint on the sum), and log Z."""
    top = float(np.max(table))
    whole = 0.0
    for x in range(len(table)):
        table[x] = math.exp(table[x] - top)
        whole += table[x]
    for x in range(len(table)):
        table[x] /= whole
        slopes[x] = table[x]
    return top + math.log(whole)


@njit("float64(float64[::1], float64[::1])", cache=True)
def _clip(table: NDArray[np.float64], slopes: NDArray[np.float64]) -> float:
    """Least squares: the positive part of f over the number of cells in place of f, its derivative, half its square."""
    share, value = 1.0 / len(table), 0.0
    for x in range(len(table)):
        slopes[x] = share if table[x] > 0.0 else 0.0
        value += 0.5 * slopes[x] * table[x] * table[x]
        table[x] *= slopes[x]
    return value


@njit("float64(int64, float64[:, ::1], float64, int64[::1], int64[::1], float64[:, ::1])", cache=True)
def _evaluate(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    law: int,
    vectors: NDArray[np.float64],
    ridge: float,
    places: NDArray[np.int64],
    sizes: NDArray[np.int64],
    cells: NDArray[np.float64],
) -> float:
    """The dual at the trial point; the table, its slopes, the centre of the covariance and the gradient are written."""
    trial, gradient, centre = vectors[_TRIAL], vectors[_GRADIENT], vectors[_CENTRE]
    target, weights = vectors[_TARGET], vectors[_WEIGHTS]
    table, slopes, scratch = cells[_TABLE], cells[_SLOPES], cells[_SCRATCH]
    table[:] = 0.0
    for i in range(len(places)):
        table[places[i]] = trial[i]
    expand(table, sizes)
    value = _normalise(table, slopes) if law == GREATEST_ENTROPY else _clip(table, slopes)
    scratch[:] = table
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
    vectors: NDArray[np.float64],
    ridge: float,
    products: NDArray[np.int32],
    widened: NDArray[np.float64],
    matrix: NDArray[np.float64],
) -> bool:
    """Newton's direction: minus the gradient over covariance + ridge; False when that cannot be factorised."""
    centre, weights = vectors[_CENTRE], vectors[_WEIGHTS]
    for i in range(len(centre)):
        for j in range(i, len(centre)):
            matrix[i, j] = widened[products[i, j]] - centre[i] * centre[j]
        matrix[i, i] += ridge * weights[i]
    if not _factorise(matrix):
        return False
    vectors[_DIRECTION] = -vectors[_GRADIENT]
    _solve(matrix, vectors[_DIRECTION])
    return True


@njit("void(float64[:, ::1], float64, int64[::1], int64[::1], float64[:, ::1], float64[:, ::1])", cache=True)
def _solve_by_search(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    vectors: NDArray[np.float64],
    ridge: float,
    places: NDArray[np.int64],
    sizes: NDArray[np.int64],
    cells: NDArray[np.float64],
    search: NDArray[np.float64],
) -> None:
    """The same direction, nearly, by conjugate gradients: no matrix, one transform each way for each step."""
    centre, weights, direction = vectors[_CENTRE], vectors[_WEIGHTS], vectors[_DIRECTION]
    rest, scaled, along, image, scales = search[0], search[1], search[2], search[3], search[4]
    slopes, scratch = cells[_SLOPES], cells[_SCRATCH]
    direction[:] = 0.0
    rest[:] = -vectors[_GRADIENT]
    scales[:] = 1.0 / (weights * (1.0 / len(slopes) + ridge))
    scaled[:] = rest * scales
    along[:] = scaled
    size = first = np.sum(rest * scaled)
    for _ in range(_SEARCH_STEPS):
        scratch[:] = 0.0
        for i in range(len(places)):
            scratch[places[i]] = along[i]
        expand(scratch, sizes)
        mean = np.sum(centre * along)
        for x in range(len(slopes)):
            scratch[x] *= slopes[x]
        project(scratch, sizes)
        for i in range(len(places)):
            image[i] = scratch[places[i]] - mean * centre[i] + ridge * weights[i] * along[i]
        length = size / np.sum(along * image)
        direction += length * along
        rest -= length * image
        scaled[:] = rest * scales
        new = np.sum(rest * scaled)
        if not new > 1e-8 * first:
            break
        along[:] = scaled + (new / size) * along
        size = new


@njit("void(float64[:, ::1], int64[::1], int64[::1])", cache=True)
def _start(vectors: NDArray[np.float64], places: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
    """Theta of the product of the margins of single attributes, kept away from zero."""
    theta, target = vectors[_THETA], vectors[_TARGET]
    theta[:] = 0.0
    stride = 1
    for axis in range(len(sizes) - 1, -1, -1):
        size = sizes[axis]
        found = np.searchsorted(places, stride * np.arange(1, size))
        logs = np.full(size, 1.0 / size)
        for j in range(1, size):
            i = found[j - 1]
            if i < len(places) and places[i] == j * stride:
                part = target[i] / (j * (j + 1))
                logs[:j] += part
                logs[j] -= j * part
        for x in range(size):
            logs[x] = math.log(max(logs[x], _LEAST_MARGIN))
        head = logs[0]
        for j in range(1, size):
            i = found[j - 1]
            if i < len(places) and places[i] == j * stride:
                theta[i] = (head - j * logs[j]) / (j * (j + 1))
            head += logs[j]
        stride *= size


_WORK = "UniTuple(float64[:, ::1], 4)"


@njit(f"int64(int64, float64, float64, int64, int64[::1], int64[::1], int32[:, ::1], {_WORK})", cache=True)
def _newton(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    law: int,
    ridge: float,
    tolerance: float,
    most_steps: int,
    places: NDArray[np.int64],
    sizes: NDArray[np.int64],
    products: NDArray[np.int32],
    work: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]],
) -> int:
    """How many steps it took from theta to the minimum, which stands in theta; minus that when it was not reached.

    A step is accepted where the dual, convex along it, has not turned up by much. That and the stop use slopes only:
    near the minimum of a table that noise made impossible, differences of the dual itself drown in rounding.
    """
    vectors, cells, wide, matrix = work
    theta, trial, gradient, direction = vectors[_THETA], vectors[_TRIAL], vectors[_GRADIENT], vectors[_DIRECTION]
    trial[:] = theta
    value = _evaluate(law, vectors, ridge, places, sizes, cells)
    for step in range(1, most_steps + 1):
        if len(products) == 0:
            _solve_by_search(vectors, ridge, places, sizes, cells, matrix)
        elif not _solve_directly(vectors, ridge, products, widen(cells[_SLOPES], sizes, wide[0], wide[1]), matrix):
            return -step
        slope = 0.0
        for i in range(len(theta)):
            slope -= gradient[i] * direction[i]
        if not slope > 0.0:  # rounding is all that is left
            return step
        length = 1.0
        for _ in range(60):
            for i in range(len(theta)):
                trial[i] = theta[i] + length * direction[i]
            new = _evaluate(law, vectors, ridge, places, sizes, cells)
            rise = 0.0
            for i in range(len(theta)):
                rise += gradient[i] * direction[i]
            if rise <= 0.0 or (rise <= 0.3 * slope and new <= value + 1e-13 * abs(value)):
                break
            length *= max(0.1, min(0.5, slope / (slope + rise)))
        theta[:] = trial
        value = new
        if slope <= tolerance:
            return step
    return -most_steps


@njit(f"float64(int64, float64, int64[::1], int64[::1], int32[:, ::1], {_WORK})", cache=True)
def _follow(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    law: int,
    unit: float,
    places: NDArray[np.int64],
    sizes: NDArray[np.int64],
    products: NDArray[np.int32],
    work: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]],
) -> float:
    """The smallest ridge that was reached, with its theta. It is made smaller in stages, each started from the last.

    Where constraints are such that no table meets them, theta grows as 1 / ridge, and a stage may be too wide: then the
    last minimum is made sharper and the stage narrower.
    """
    theta, saved = work[0][_THETA], work[0][_SAVED]
    ridge, least, factor, tolerance = LARGEST_RIDGE * unit, SMALLEST_RIDGE * unit, _FIRST_FACTOR, _LOOSE
    taken = _newton(law, ridge, tolerance, _STEPS_ALONE, places, sizes, products, work)
    while taken < 0 and ridge < _HOPELESS * unit:
        ridge *= 10.0
        theta[:] = 0.0
        taken = _newton(law, ridge, tolerance, _STEPS_ALONE, places, sizes, products, work)
    saved[:] = theta
    while ridge > least and factor > _LEAST_FACTOR:
        smaller = max(ridge / factor, least)
        taken = _newton(law, smaller, tolerance, _STEPS, places, sizes, products, work)
        if taken > 0:
            ridge = smaller
            if taken <= _EASY:
                factor *= _FIRST_FACTOR
        else:
            theta[:] = saved
            factor, tolerance = math.sqrt(factor), max(tolerance / 100.0, _TIGHT)
            _newton(law, ridge, tolerance, _STEPS, places, sizes, products, work)
        saved[:] = theta
    while _newton(law, ridge, _TIGHT, _STEPS_ALONE, places, sizes, products, work) < 0:
        ridge *= 10.0
        if not ridge < _HOPELESS * unit:
            return math.inf
        theta[:] = saved
    return ridge


@njit(
    "void(int64, int64[::1], int64[::1], int32[:, ::1], float64[::1], float64[:, ::1], float64[:, ::1], float64[::1])",
    cache=True,
)
def solve_tables(  # noqa: PLR0917 (a kernel gets arrays and numbers)
    law: int,
    places: NDArray[np.int64],
    sizes: NDArray[np.int64],
    products: NDArray[np.int32],
    weights: NDArray[np.float64],
    targets: NDArray[np.float64],
    tables: NDArray[np.float64],
    ridges: NDArray[np.float64],
) -> None:
    """Solve for each row of targets: the table, and the ridge that was reached, infinite if none was.

    Tables of greatest entropy have a total of 1; it is not among their targets. Without products no matrix is made.
    """
    number = len(places)
    rows = number if len(products) else _SEARCH_VECTORS
    wide = widened_cells(sizes) if len(products) else 0
    cells = np.empty((_TABLES, tables.shape[1]))
    work = np.zeros((_VECTORS, number)), cells, np.empty((2, wide)), np.empty((rows, number))
    vectors = work[0]
    vectors[_WEIGHTS] = weights
    for i in range(len(targets)):
        vectors[_TARGET] = targets[i]
        unit = max(1.0, np.max(np.abs(targets[i])))
        if law == GREATEST_ENTROPY:
            _start(vectors, places, sizes)
        else:
            vectors[_THETA] = 0.0
        ridges[i] = _follow(law, unit, places, sizes, products, work)
        vectors[_TRIAL] = vectors[_THETA]
        _evaluate(law, vectors, ridges[i], places, sizes, cells)
        tables[i] = cells[_TABLE]
