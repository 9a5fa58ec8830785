"""Slow plain versions of the reconstructions: dense bases, and clarabel's conic solver on the primal problems."""

from __future__ import annotations

from itertools import product

import clarabel
import numpy as np
from scipy import sparse
from scipy.optimize import nnls


def helmert(n: int) -> np.ndarray:
    """Row 0 all ones, then orthonormal rows (1, ..., 1, -j, 0, ..., 0) / sqrt(j (j + 1))."""
    contrasts = [np.array([1.0] * j + [-j] + [0.0] * (n - j - 1)) / np.sqrt(j * (j + 1)) for j in range(1, n)]
    return np.array([np.ones(n), *contrasts])


def basis(shape: tuple[int, ...]) -> np.ndarray:
    """A row for each coefficient, a column for each cell."""
    out = np.ones((1, 1))
    for n in shape:
        out = np.kron(out, helmert(n))
    return out


def covered_cells(shape: tuple[int, ...], views: list[tuple[int, ...]]) -> np.ndarray:
    """Which coefficients lie in some view (axes)."""
    out = [
        any(all(index == 0 or axis in view for axis, index in enumerate(z)) for view in views)
        for z in product(*map(range, shape))
    ]
    return np.array(out)


def solve_cone(
    quadratic: np.ndarray, linear: np.ndarray, rows: np.ndarray, bounds: np.ndarray, cones: list[object]
) -> np.ndarray:
    """Clarabel's solution of min x'Qx/2 + q'x with bounds - rows x in the cones."""
    upper, lines = sparse.csc_matrix(np.triu(quadratic)), sparse.csc_matrix(rows)
    for tolerance in (1e-12, 1e-10, 1e-8):
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        settings.reduced_tol_gap_abs = settings.reduced_tol_gap_rel = settings.reduced_tol_feas = 1e-8
        solution = clarabel.DefaultSolver(upper, linear, lines, bounds, cones, settings).solve()
        if str(solution.status) in {"Solved", "AlmostSolved"}:
            return np.array(solution.x)
    raise AssertionError(f"clarabel: {solution.status}")


def most_entropy(matrix: np.ndarray, target: np.ndarray) -> np.ndarray:
    """p >= 0 with matrix p = target and the greatest entropy: max sum t with (t, p, 1) in the exponential cone."""
    constraints, cells = matrix.shape
    rows = [np.hstack([matrix, np.zeros((constraints, cells))])]
    bounds = [target]
    for x in range(cells):
        block = np.zeros((3, 2 * cells))
        block[0, cells + x] = -1.0
        block[1, x] = -1.0
        rows.append(block)
        bounds.append(np.array([0.0, 0.0, 1.0]))
    cones = [clarabel.ZeroConeT(constraints)] + [clarabel.ExponentialConeT()] * cells
    linear = np.concatenate([np.zeros(cells), -np.ones(cells)])
    return solve_cone(np.zeros((2 * cells,) * 2), linear, np.vstack(rows), np.concatenate(bounds), cones)[:cells]


def nearest(matrix: np.ndarray, target: np.ndarray) -> np.ndarray:
    """p >= 0 with sum 1 for which |matrix p - target|^2 is least, by SciPy's active set method."""
    cells = matrix.shape[1]
    rows, wanted = np.vstack([matrix, np.full(cells, 1e5)]), np.append(target, 1e5)
    p, _ = nnls(rows, wanted, maxiter=100 * cells)
    return np.asarray(p / p.sum())


def least_norm(matrix: np.ndarray, target: np.ndarray) -> np.ndarray:
    """p >= 0 with matrix p = target and the least sum of squares."""
    constraints, cells = matrix.shape
    rows = np.vstack([matrix, -np.eye(cells)])
    bounds = np.concatenate([target, np.zeros(cells)])
    cones = [clarabel.ZeroConeT(constraints), clarabel.NonnegativeConeT(cells)]
    return solve_cone(np.eye(cells), np.zeros(cells), rows, bounds, cones)


def least_difference(marginals: list[tuple[tuple[int, ...], np.ndarray]], shape: tuple[int, ...]) -> float:
    """The least possible largest difference of a cell between given marginals and those of a table >= 0."""
    blocks, wanted = [], []
    for axes, marginal in marginals:
        for cell, value in np.ndenumerate(marginal):
            hit = np.zeros(shape)
            index: list[int | slice] = [slice(None)] * len(shape)
            for axis, i in zip(axes, cell, strict=True):
                index[axis] = i
            hit[tuple(index)] = 1.0
            blocks.append(hit.ravel())
            wanted.append(value)
    sums, goal = np.array(blocks), np.array(wanted)
    cells = sums.shape[1]
    worst = np.ones((len(goal), 1))
    rows = np.vstack(
        [np.hstack([sums, -worst]), np.hstack([-sums, -worst]), np.hstack([-np.eye(cells), np.zeros((cells, 1))])]
    )
    bounds = np.concatenate([goal, -goal, np.zeros(cells)])
    linear = np.append(np.zeros(cells), 1.0)
    cones = [clarabel.NonnegativeConeT(len(bounds))]
    return float(solve_cone(np.zeros((cells + 1,) * 2), linear, rows, bounds, cones)[-1])


def duality_gap(p: np.ndarray, matrix: np.ndarray, target: np.ndarray, ridge: float) -> float:
    """How far p is at most from the maximum of H(p) - |matrix p - target|^2 / (2 ridge) over p >= 0 with sum 1.

    Any theta bounds the maximum from above by log sum exp(matrix' theta) - theta target + ridge |theta|^2 / 2; the best
    one is (target - matrix p) / ridge at the optimal p.
    """
    missed = target - matrix @ p
    theta = missed / ridge
    exponents = theta @ matrix
    top = exponents.max()
    above = top + np.log(np.exp(exponents - top).sum()) - theta @ target + ridge / 2 * theta @ theta
    inside = p[p > 0]
    return float(above + (inside * np.log(inside)).sum() + missed @ missed / (2 * ridge))


def parts(shape: tuple[int, ...], views: list[tuple[int, ...]]) -> list[set[int]]:
    """The axes, divided so that no view has axes of two parts."""
    groups = [{axis} for axis in range(len(shape))]
    for view in views:
        touched = [group for group in groups if group & set(view)]
        groups = [group for group in groups if not group & set(view)] + ([set().union(*touched)] if touched else [])
    return groups


def possible(table: np.ndarray, views: list[tuple[int, ...]]) -> np.ndarray:
    """The cells that no empty cell of a view rules out: a conic solver is slow to see that the others are zero."""
    out = np.ones(table.shape, bool)
    for view in views:
        out &= table.sum(axis=tuple(i for i in range(table.ndim) if i not in view), keepdims=True) > 1e-10
    return out


def independent(matrix: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As many equations as are independent."""
    left, sizes, right = np.linalg.svd(matrix, full_matrices=False)
    kept = sizes > 1e-9 * sizes[0]
    return right[kept], (left.T @ target)[kept] / sizes[kept]


def nearest_of_most_entropy(shape: tuple[int, ...], views: list[tuple[int, ...]], table: np.ndarray) -> np.ndarray:
    """Of all p >= 0 of sum 1 whose coefficients in the views are nearest to those of the table, that of most entropy.

    Parts that no view joins are independent. A part that lies in one view is the nearest p cell by cell.
    """
    out = np.ones(shape)
    for part in parts(shape, views):
        axes = sorted(part)
        sizes = tuple(shape[axis] for axis in axes)
        inside = [tuple(axes.index(axis) for axis in view if axis in part) for view in views]
        marginal = table.sum(axis=tuple(axis for axis in range(len(shape)) if axis not in part))
        matrix = basis(sizes)[covered_cells(sizes, inside)]
        if len(matrix) == marginal.size:
            own = nearest(np.eye(marginal.size), marginal.ravel())
        else:
            near = nearest(matrix[1:], matrix[1:] @ marginal.ravel()) if len(matrix) > 1 else marginal.ravel()
            alive = possible(near.reshape(sizes), inside).ravel()
            own = np.zeros(near.size)
            own[alive] = most_entropy(*independent(matrix[:, alive], matrix @ near))
        out = out * own.reshape([n if axis in part else 1 for axis, n in enumerate(shape)])
    return out


def random_table(random: np.random.Generator, kind: str, most_cells: int) -> tuple[np.ndarray, list[tuple[int, ...]]]:
    """A table of sum 1 and some views of it; ``zeros`` has empty cells, noise makes the others impossible tables."""
    while True:
        ndim = int(random.integers(2, 7))
        largest = 3 if random.random() < 0.5 else 5
        shape = tuple(int(n) for n in random.integers(2, largest, ndim))
        if np.prod(shape) <= most_cells:
            break
    number = int(random.integers(1, 2 * ndim))
    views = [tuple(sorted(random.choice(ndim, int(random.integers(1, ndim)), replace=False))) for _ in range(number)]
    concentration = {"inside": 1.0, "zeros": 0.05, "one-sided": 0.3, "noisy": 0.3, "wild": 0.3}[kind]
    table = random.dirichlet(np.full(np.prod(shape), concentration)).reshape(shape)
    if kind == "zeros":
        table = np.where(table < 1e-3, 0.0, table)
    if kind == "one-sided":
        table[0] = 0.0
        table[(0,) * ndim] = 1e-9
    table /= table.sum()
    noise = random.laplace(0, {"noisy": 0.02, "wild": 0.5}.get(kind, 0.0) or 1e-300, shape)
    return table + noise - noise.mean(), [tuple(int(axis) for axis in view) for view in views]
