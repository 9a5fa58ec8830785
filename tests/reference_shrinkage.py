"""Slow plain versions of the steps of shrinkage, cell by cell, written from the formulas in the module's docstrings."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]


def component_variance(mean: float, width: float) -> float:
    return min(mean, (0.35 * mean) ** 2) + (width * mean) ** 2


def density(y: float, mean: float, variance: float) -> float:
    return math.exp(-((y - mean) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)


def posterior(y: float, q: float, noise: float, components: Table, weights: Table) -> tuple[float, float]:
    """The posterior mean and variance of a count; each component's own mean is not below zero."""
    shares, means, squares = [], [], []
    for (lift, width), weight in zip(components.T, weights, strict=True):
        mean = lift * q
        own = component_variance(mean, width)
        shares.append(weight * density(y, mean, own + noise))
        means.append(max((mean * noise + y * own) / (own + noise), 0.0))
        squares.append(means[-1] ** 2 + own * noise / (own + noise))
    total = sum(shares)
    mean = sum(s * m for s, m in zip(shares, means, strict=True)) / total
    return mean, sum(s * m for s, m in zip(shares, squares, strict=True)) / total - mean**2


def expectation_maximisation(
    cells: list[tuple[float, float, float]], components: Table, start: Table, prior: Table, steps: int
) -> Table:
    """Weights after some steps; cells are (noisy count, guess, noise variance)."""
    weights = start.copy()
    for _ in range(steps):
        sums = prior.copy()
        for y, q, noise in cells:
            likelihoods = np.array([
                density(y, lift * q, noise + component_variance(lift * q, width)) for lift, width in components.T
            ])  # fmt: skip
            sums += weights * likelihoods / (weights * likelihoods).sum()
        weights = sums / sums.sum()
    return weights


def independent(table: Table) -> Table:
    """The product of the one-way shares, times the total."""
    total = table.sum()
    out = np.full(table.shape, total)
    for axis, n in enumerate(table.shape):
        one_way = np.array([table.take(x, axis).sum() for x in range(n)])
        one_way = np.maximum(one_way, 0.0) / np.maximum(one_way, 0.0).sum()
        for cell in product(*map(range, table.shape)):
            out[cell] *= one_way[cell[axis]]
    return out


def raked(table: Table, start: Table, sweeps: int, floor: float) -> Table:
    """The start raked to all two-way tables of a table, pair after pair."""
    out = start.copy()
    for _ in range(sweeps):
        for pair in combinations(range(table.ndim), 2):
            others = tuple(axis for axis in range(table.ndim) if axis not in pair)
            target = np.maximum(table.sum(axis=others), floor)
            target *= table.sum() / target.sum()
            have = out.sum(axis=others)
            for cell in product(*map(range, table.shape)):
                key = cell[pair[0]], cell[pair[1]]
                out[cell] *= target[key] / have[key]
    return out


def best_weights(q: Table, g: Table, steps: int = 400) -> tuple[float, float, float]:
    """The least a' Q a + 2 a' g over a fine grid of the triangle: its value and its place."""
    best = (0.0, 0.0, 0.0)
    for i in range(steps + 1):
        for j in range(steps + 1 - i):
            a, b = i / steps, j / steps
            best = min(best, (q[0] * a * a + 2 * q[1] * a * b + q[2] * b * b + 2 * (g[0] * a + g[1] * b), a, b))
    return best
