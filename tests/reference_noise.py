"""Probabilities of discrete noise and of sums of it, by plain convolution."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def probabilities(kind: str, scale: float) -> dict[int, float]:
    """P(k) proportional to exp(-|k| / scale), or exp(-k^2 / (2 scale^2)), as far as it matters to the last bit."""
    reach = math.ceil(45 * scale) + 2
    weight = {
        k: math.exp(-abs(k) / scale if kind == "laplace" else -(k**2) / (2 * scale**2))
        for k in range(-reach, reach + 1)
    }
    total = math.fsum(weight.values())
    return {k: w / total for k, w in weight.items()}


def sum_on_grid(parts: Sequence[tuple[str, float, int, int]]) -> NDArray[np.float64]:
    """The probabilities of a sum of draws (kind, scale, whole weight, count) on -m to m."""
    out = np.ones(1)
    for kind, scale, weight, count in parts:
        single = probabilities(kind, scale)
        reach = max(single) * weight
        spread = np.zeros(2 * reach + 1)
        for k, p in single.items():
            spread[reach + k * weight] = p
        for _ in range(count):
            out = np.convolve(out, spread)
    return out


def half_width(parts: Sequence[tuple[str, float, int, int]], level: float) -> int:
    """The least h with P(|sum| <= h) >= level."""
    return half_width_of(sum_on_grid(parts), level)


def half_width_of(grid: NDArray[np.float64], level: float) -> int:
    middle = len(grid) // 2
    inside = grid[middle]
    h = 0
    while inside < level:
        h += 1
        inside += grid[middle - h] + grid[middle + h]
    return h


def draw(kind: str, scale: float, size: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draws by inversion."""
    single = probabilities(kind, scale)
    ends = np.cumsum(list(single.values()))
    return np.array(list(single))[np.minimum(np.searchsorted(ends, rng.random(size)), len(ends) - 1)]
