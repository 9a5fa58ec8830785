"""The history method of EDBT 2012 written out over the whole universe, with explicit vectors and matrices."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np


def universe(sizes: list[int]) -> list[tuple[int, ...]]:
    return list(product(*map(range, sizes)))


def query_vector(query: dict[str, Any], names: list[str], sizes: list[int]) -> np.ndarray:
    """What one row adds, for each row of the universe; the query as JSON."""
    place = {name: i for i, name in enumerate(names)}
    out = []
    for row in universe(sizes):
        terms = query["linear"]
        out.append(sum(t["weight"] * prod(f[row[place[name]]] for name, f in t["factors"].items()) for t in terms))
    return np.array(out, float)


def prior_vector(probabilities: list[np.ndarray]) -> np.ndarray:
    return np.array(
        [
            prod(p[v] for p, v in zip(probabilities, row, strict=True))
            for row in universe([len(p) for p in probabilities])
        ]
    )


def ridge(  # noqa: PLR0917
    vectors: np.ndarray, prior: np.ndarray, answers: np.ndarray, covariance: np.ndarray, new: np.ndarray, alpha: float
):
    """Estimates and expected squared errors of new queries: rows stray from 0 with covariance alpha^2 diag(prior)."""
    spread = alpha**2 * np.diag(prior)
    gain = new @ spread @ vectors.T @ np.linalg.inv(vectors @ spread @ vectors.T + covariance)
    errors = new @ spread @ new.T - gain @ vectors @ spread @ new.T
    return gain @ answers, np.diag(errors)


def part(vectors: np.ndarray, sizes: list[int], probabilities: list[np.ndarray], inside: set[int]) -> np.ndarray:
    """The part of each query for a set of attributes: averaged over the others, centred along these."""
    tables = vectors.reshape(-1, *sizes)
    for axis, p in enumerate(probabilities):
        mean = np.expand_dims(np.tensordot(tables, p, axes=(axis + 1, 0)), axis + 1)
        tables = tables - mean if axis in inside else np.broadcast_to(mean, tables.shape)
    return tables.reshape(len(vectors), -1)


def tilted_moments(distance: float, variance: float, scale: float) -> tuple[float, float]:
    """Mean and variance of u under a normal law times exp(-|u| / scale), summed over a fine grid."""
    reach = 40 * scale + abs(distance) + 12 * variance**0.5
    u = np.linspace(-reach, reach, 2_000_001)
    logs = -((u - distance) ** 2) / (2 * variance) - np.abs(u) / scale
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = float(weights @ u)
    return mean, float(weights @ (u - mean) ** 2)


def shaped_products(
    first: np.ndarray,
    second: np.ndarray,
    probabilities: list[np.ndarray],
    variances: dict[tuple[int, ...], float],
    matrices: dict[int, np.ndarray],
) -> np.ndarray:
    """The covariance of answers to two lists of queries, over the whole universe.

    The numbers of rows stray by the sum over sets of attributes of a variance times the product of a matrix for each
    attribute: its own, centred, for those in the set, what the prior says for the others.
    """
    total = np.zeros((len(first), len(second)))
    for inside, variance in variances.items():
        spread = np.ones((1, 1))
        for a, p in enumerate(probabilities):
            root, centre = np.diag(np.sqrt(p)), np.eye(len(p)) - np.outer(p, np.ones(len(p)))
            each = centre @ root @ matrices.get(a, np.eye(len(p))) @ root @ centre.T if a in inside else np.outer(p, p)
            spread = np.kron(spread, each)
        total += variance * first @ spread @ second.T
    return total


def log_likelihood(covariance: np.ndarray, answers: np.ndarray) -> float:
    return -0.5 * float(np.linalg.slogdet(covariance)[1] + answers @ np.linalg.solve(covariance, answers))
