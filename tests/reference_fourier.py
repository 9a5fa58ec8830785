"""Fourier coefficients of binary tables from their definition, and programs over them: plain code, small cases."""

from __future__ import annotations

from itertools import combinations, product
from math import prod

import numpy as np


def largest_odd_weight(weights: dict[int, float], attributes: int) -> float:
    """The largest over all z of the sum of weights of the sets (as bits) that share an odd number of bits with z."""
    best = 0.0
    for z in range(2**attributes):
        best = max(best, sum(weight for mask, weight in weights.items() if (mask & z).bit_count() % 2))
    return best


def downward_closure(tables: list[tuple[str, ...]]) -> set[frozenset[str]]:
    """All sets inside some table."""
    return {frozenset(part) for table in tables for k in range(len(table) + 1) for part in combinations(table, k)}


def coefficient(table: np.ndarray, axes: tuple[int, ...]) -> float:
    """The sum over all cells of the count, with a minus for each of the axes at which the cell is not 0."""
    total = 0.0
    for cell in product(*(range(n) for n in table.shape)):
        total += float(table[cell]) * prod(-1 if cell[axis] else 1 for axis in axes)
    return total


def coefficient_matrix(attributes: int, sets: list[tuple[int, ...]]) -> np.ndarray:
    """A row for each set, a column for each cell of a binary table: the signs of ``coefficient``."""
    cells = list(product((0, 1), repeat=attributes))
    return np.array([[prod(-1 if cell[axis] else 1 for axis in axes) for cell in cells] for axes in sets], float)


def marginal_matrix(shape: tuple[int, ...], tables: list[tuple[int, ...]]) -> np.ndarray:
    """A row for each cell of each table over these axes, a column for each cell of the full table."""
    cells = list(product(*(range(n) for n in shape)))
    rows = []
    for axes in tables:
        rows += [
            [float(tuple(cell[axis] for axis in axes) == wanted) for cell in cells]
            for wanted in product(*(range(shape[axis]) for axis in axes))
        ]
    return np.array(rows)


def nearest_by_cone_program(matrix: np.ndarray, targets: np.ndarray, objective: str) -> float:
    """The least largest (or total) distance of matrix @ w to the targets over w >= 0, by an interior point solver."""
    import clarabel
    from scipy import sparse

    rows, columns = matrix.shape
    slacks = 1 if objective == "largest" else rows
    slack = np.ones((rows, 1)) if objective == "largest" else np.eye(rows)
    constraints = np.block(
        [[matrix, -slack], [-matrix, -slack], [-np.eye(columns), np.zeros((columns, slacks))]],
    )
    bounds = np.concatenate([targets, -targets, np.zeros(columns)])
    costs = np.concatenate([np.zeros(columns), np.ones(slacks)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix((len(costs), len(costs))),
        costs,
        sparse.csc_matrix(constraints),
        bounds,
        [clarabel.NonnegativeConeT(len(bounds))],
        settings,
    )
    return float(solver.solve().obj_val)
