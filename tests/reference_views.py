"""The variance that least squares over views leaves, by matrices: every cell of the domain is an unknown."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np


def summing(table: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
    """The matrix that sums the cells of the domain into the cells of a table."""
    cells = list(product(*(range(n) for n in sizes)))
    rows = {cell: i for i, cell in enumerate(product(*(range(sizes[i]) for i in table)))}
    out = np.zeros((len(rows), len(cells)))
    for column, cell in enumerate(cells):
        out[rows[tuple(cell[i] for i in table)], column] = 1
    return out


def least_squares_variances(
    views: Sequence[Sequence[int]], variances: Sequence[float], table: Sequence[int], sizes: Sequence[int]
) -> np.ndarray:
    """The variance of each cell of a table, estimated from all views by generalised least squares."""
    design = np.concatenate([summing(view, sizes) / np.sqrt(v) for view, v in zip(views, variances, strict=True)])
    covariance = np.linalg.pinv(design.T @ design)
    query = summing(table, sizes)
    return np.einsum("ij,jk,ik->i", query, covariance, query)
