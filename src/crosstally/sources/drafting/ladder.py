"""Bins from noisy counts: a public ladder of round numbers, of which those near the noisy quantiles become edges.

The ladder is fixed before any row is seen, so that counts of its bins can be bought like any other table. What follows
from the noisy counts costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from crosstally.schema import Attribute, Outside

__all__ = ["edges_near_quantiles", "rungs"]

_MANTISSAS = (1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9)
"""Round numbers no farther apart than a fourth of their size; more of them would hold fewer rows each."""
_LARGEST = 12  # powers of ten: what is beyond a trillion goes to the outside values
_SMALLEST = -3  # of numbers that are not whole
_MOST_BINS = 8  # bins of a draft, as in ``bins``. Values that fill a bin by themselves take theirs from it
_MOST_TOGETHER = (
    32  # rungs that are looked at together, where each alone has too few rows: about one and a half decades
)
_FALSE_RANGE = 0.01
"""The chance that noise alone makes the bins of a column reach farther than its rows. Nothing is lost then but a few
empty cells, which the steward sees."""


def rungs(name: str, *, whole: bool) -> Attribute:
    """A column in the bins of the ladder, the same whatever its rows are.

    >>> [edge for edge in rungs("income", whole=True).edges if -2 <= edge <= 25]
    [-2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 25]
    """
    positive = sorted({_rung(m, p) for p in range(0 if whole else _SMALLEST, _LARGEST) for m in _MANTISSAS})
    if whole:
        positive = [rung for rung in positive if rung == int(rung)]
    positive.append(10**_LARGEST)
    edges = [*(-rung for rung in reversed(positive)), 0, *positive]
    return Attribute(name, edges=edges, missing=True, outside=Outside.OTHER)


def _rung(mantissa: float, power: int) -> float:
    rung = float(f"{mantissa}e{power}")
    return int(rung) if rung == int(rung) else rung


def edges_near_quantiles(ladder: Sequence[float], noisy: NDArray[np.float64], *, scale: float) -> tuple[float, ...]:
    """Edges of about eight bins that hold about as many rows each; none where nothing can be told from noise.

    A bin of the ladder that holds an eighth of the rows, as zero often does, is a bin by itself; the others share what
    is left.

    Args:
        ladder: The edges of the bins that were counted.
        noisy: Their noisy counts.
        scale: Of the Laplace noise in each.

    >>> edges_near_quantiles([0, 1, 2, 5, 10, 20], np.array([3.0, 400, 395, 410, -2]), scale=1)
    (1, 2, 5, 10)
    """
    held = _held(noisy, scale)
    if not held.any():
        return ()
    filled, heavy = np.flatnonzero(held), np.flatnonzero(held >= held.sum() / _MOST_BINS)
    first, last = int(filled[0]), int(filled[-1]) + 1
    chosen = {first, last, *heavy.tolist(), *(heavy + 1).tolist()}
    held[heavy] = 0.0
    below = np.concatenate([[0.0], np.cumsum(held)])[first : last + 1]  # rows below each edge, without those
    parts = _MOST_BINS - len(heavy)
    if below[-1] > 0:
        chosen |= {first + int(np.abs(below - below[-1] * i / parts).argmin()) for i in range(1, parts)}
    return tuple(ladder[i] for i in sorted(chosen))


def _held(noisy: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """The noisy counts of bins that hold rows beyond doubt, alone or with their neighbours; zero for all others.

    First every bin by itself, then those that are left in groups of two, four and so on.
    """
    found, tests = np.zeros(len(noisy), bool), 2 * len(noisy)
    size = 1
    while size <= _MOST_TOGETHER:
        for start in range(0, len(noisy), size):
            left = start + np.flatnonzero(~found[start : start + size])
            if len(left) and noisy[left].sum() > scale * _tail(len(left), _FALSE_RANGE / tests):
                found[left] = True
        size *= 2
    return np.where(found, np.maximum(noisy, 0.0), 0.0)


@cache
def _tail(number: int, probability: float) -> float:
    """What the sum of so many Laplace variables of scale 1 exceeds with at most this probability (Chernoff's bound).

    E exp(x L) = 1 / (1 - x^2), so P(sum > t) <= exp(-x t) / (1 - x^2)^number for every x between 0 and 1.
    """
    x = np.linspace(0.001, 0.999, 999)
    return float(np.min((-math.log(probability) - number * np.log1p(-(x**2))) / x))
