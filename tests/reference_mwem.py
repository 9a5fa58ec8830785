"""MWEM from the paper, slowly: a number for each row that there may be, plain loops, one cell of a table at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import exp

Weights = dict[tuple[int, ...], float]


def first_weights(sizes: Sequence[int], rows: float) -> Weights:
    """As many rows everywhere."""
    domain = list(product(*map(range, sizes)))
    return {x: rows / len(domain) for x in domain}


def table_of(weights: Weights, axes: Sequence[int], sizes: Sequence[int]) -> list[float]:
    """The counts of a table, the last attribute fastest."""
    cells = product(*(range(sizes[axis]) for axis in axes))
    return [sum(w for x, w in weights.items() if tuple(x[axis] for axis in axes) == cell) for cell in cells]


def next_weights(weights: Weights, axes: Sequence[int], sizes: Sequence[int], noisy: Sequence[float]) -> Weights:
    """A round of figure 1 of the paper, for all cells q of a table: A(x) exp(q(x) (m - q(A)) / 2n), scaled to n."""
    rows = sum(weights.values())
    own = table_of(weights, axes, sizes)
    cells = list(product(*(range(sizes[axis]) for axis in axes)))
    changed = dict(weights)
    for i, cell in enumerate(cells):
        for x in changed:
            inside = 1 if tuple(x[axis] for axis in axes) == cell else 0
            changed[x] *= exp(inside * (noisy[i] - own[i]) / (2 * rows))
    whole = sum(changed.values())
    return {x: w * rows / whole for x, w in changed.items()}
