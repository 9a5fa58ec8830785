"""PriView's baselines, slowly: dense matrices, a general optimiser, one row and one cell at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
from scipy.optimize import minimize

from crosstally.typing import Floats


def workload_matrix(attributes: int, tables: Sequence[Sequence[int]]) -> Floats:
    """A row for each cell of each table: 1 where a cell of the full table is counted in it."""
    domain = list(product((0, 1), repeat=attributes))
    return np.array(
        [
            [float(tuple(x[i] for i in table) == cell) for x in domain]
            for table in tables
            for cell in product((0, 1), repeat=len(table))
        ]
    )


def mechanism_error(workload: Floats, strategy: Floats) -> float:
    """The matrix mechanism's sum of squared errors in V_u, from its definition."""
    sensitivity = max(sum(abs(entry) for entry in column) for column in strategy.T)
    return sensitivity**2 * float(np.sum((workload @ np.linalg.pinv(strategy)) ** 2))


def best_weights(workload: Floats) -> float:
    """The least error of weighted eigenvectors, by a general optimiser over the logarithms of all weights."""
    size = workload.shape[1]
    attributes = size.bit_length() - 1
    basis: Floats = np.ones((1, 1))
    for _ in range(attributes):
        basis = np.asarray(np.kron(basis, [[1, 1], [1, -1]]) / math.sqrt(2), np.float64)
    image = basis @ workload.T @ workload @ basis.T
    assert np.allclose(image, np.diag(np.diag(image)))  # they are eigenvectors
    used = basis[np.diag(image) > 1e-9]

    def log_error(logs: Floats) -> float:
        return math.log(mechanism_error(workload, np.exp(logs)[:, None] * used))

    found = minimize(log_error, np.zeros(len(used)), method="Nelder-Mead", options={"maxiter": 20_000, "xatol": 1e-9})
    return math.exp(found.fun)


def best_strategy(workload: Floats, rows: int, random: np.random.Generator) -> float:
    """The least error of any strategy of so many rows that a search from random starts finds."""

    def log_error(entries: Floats) -> float:
        strategy = entries.reshape(rows, -1)
        left = workload - workload @ np.linalg.pinv(strategy) @ strategy
        return math.log(mechanism_error(workload, strategy)) + 1e3 * float(np.sum(left**2))

    ends = []
    for _ in range(2):
        start = random.normal(0, 1, rows * workload.shape[1])
        for _ in range(3):
            start = minimize(log_error, start, method="Powell", options={"maxiter": 15}).x
        ends.append(log_error(start))
    return math.exp(min(ends))


def learned_cell(rows: Sequence[Sequence[int]], cell: Sequence[int], gamma: float) -> float:
    """The sum over rows of 1 - p(differences), with Chebyshev's polynomials from their recurrence."""
    k, power = len(cell), math.ceil(-math.log2(gamma))

    def chebyshev(degree: int, x: float) -> float:
        before, now = 1.0, x
        for _ in range(degree - 1):
            before, now = now, 2 * x * now - before
        return now

    root = math.ceil(math.sqrt(k))
    total = 0.0
    for row in rows:
        differences = sum(a != b for a, b in zip(row, cell, strict=True))
        total += (chebyshev(root, (k + 1 - differences) / k) / chebyshev(root, 1 + 1 / k)) ** power
    return total


def published_sums(row: Sequence[int], p: Sequence[float]) -> float:
    """The L1 norm of all coefficients of one row's polynomial, found by inclusion and exclusion over sets of literals.

    ``p`` are the polynomial's values at 0..t. The coefficient of a set of s literals is the alternating sum of p over
    its subsets when all of them differ from the row, and zero otherwise.
    """
    degree = len(p) - 1
    literals = [(i, value) for i in range(len(row)) for value in (0, 1)]
    total = 0.0
    for size in range(1, degree + 1):
        for chosen in combinations(literals, size):
            if all(row[i] != value for i, value in chosen):
                total += abs(sum((-1) ** (size - m) * math.comb(size, m) * p[m] for m in range(size + 1)))
    return total
