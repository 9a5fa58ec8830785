"""Slow plain versions of everything linear: dense matrices over the whole domain, written from the definitions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
RANK = 1e-9


def helmert(n: int) -> Matrix:
    """Ones, then for j = 1 to n-1 the row (1, ..., 1, -j, 0, ..., 0) / sqrt(j (j + 1)) with j ones."""
    contrasts = [([1] * j + [-j] + [0] * (n - j - 1), (j * (j + 1)) ** 0.5) for j in range(1, n)]
    return np.array([[1.0] * n] + [[value / length for value in row] for row, length in contrasts])


def kron(factors: Sequence[Matrix]) -> Matrix:
    return reduce(np.kron, factors, np.ones((1, 1)))


def marginal_matrix(sizes: Sequence[int], axes: Sequence[int]) -> Matrix:
    """One row for each cell of the table over some axes in their order, a column for each cell of the domain."""
    cells = list(product(*(range(n) for n in sizes)))
    place = {row: i for i, row in enumerate(product(*(range(sizes[axis]) for axis in axes)))}
    matrix = np.zeros((len(place), len(cells)))
    for column, cell in enumerate(cells):
        matrix[place[tuple(cell[axis] for axis in axes)], column] = 1.0
    return matrix


def contrast_matrix(sizes: Sequence[int], axes: Sequence[int]) -> Matrix:
    """The integer contrast of the table over some axes: n I - J, or (1, -1) where n is 2."""
    factors = [np.array([[1.0, -1.0]]) if sizes[axis] == 2 else sizes[axis] * np.eye(sizes[axis]) - 1 for axis in axes]
    return kron(factors) @ marginal_matrix(sizes, axes)


class DenseLeastSquares:
    """Generalised least squares over the whole domain; the solution of least norm where there are many.

    ``parts`` are (matrix, answer, variance); with a ``total`` the sum over the domain is known. ``recovery`` is what
    takes noise in the answers to the error of the solution.
    """

    def __init__(
        self, cells: int, parts: Sequence[tuple[Matrix, NDArray[np.float64], float]], total: float | None = None
    ) -> None:
        rows = np.concatenate([matrix / variance**0.5 for matrix, _, variance in parts] or [np.zeros((1, cells))])
        right = np.concatenate([np.ravel(y) / variance**0.5 for _, y, variance in parts] or [np.zeros(1)])
        known = np.full(cells, 0.0 if total is None else total / cells)
        free = np.eye(cells) - (0.0 if total is None else 1 / cells)
        seen = rows @ free
        seen[np.abs(seen) < 1e-12 * np.abs(rows).max()] = 0.0  # rounding must not look like a measurement
        inverse = np.linalg.pinv(seen, rcond=RANK)
        self.solution = known + free @ inverse @ (right - rows @ known)
        self.recovery = free @ inverse @ np.diag([1 / v**0.5 for matrix, _, v in parts for _ in matrix] or [0.0])
        self.covariance = free @ inverse @ inverse.T @ free
        space = np.concatenate([rows, *([] if total is None else [np.ones((1, cells))])])
        self.inside = np.linalg.pinv(space, rcond=RANK) @ space

    def covers(self, matrix: Matrix) -> bool:
        """Whether the rows of a matrix are combinations of what was measured."""
        return bool(np.allclose(matrix @ self.inside, matrix, atol=1e-8))

    def answer(self, matrix: Matrix) -> NDArray[np.float64]:
        return matrix @ self.solution

    def variances(self, matrix: Matrix) -> NDArray[np.float64]:
        return np.sum(matrix @ self.covariance * matrix, axis=1)
