"""Bins with round edges: of equal width where rows are spread, on a ladder 1, 2, 5, 10, ... where they are not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

__all__ = ["AGE_EDGES", "AGE_NAMES", "bin_names", "is_crowded", "ladder_edges", "round_edges"]

_MOST_BINS = 8  # bins of a draft. Chosen: few enough to read, enough to show a shape. A steward may change them
_CROWDED = 0.75  # of all rows in one bin: the others then say little
_OFTEN = 0.2  # of all rows at zero: it then has a bin of its own

AGE_EDGES = (0, 18, 25, 35, 45, 55, 65, 75, 120)
"""Ages as statistical offices publish them, chosen without a look at the rows."""
AGE_NAMES = ("0-17", "18-24", "25-34", "35-44", "45-54", "55-64", "65-74", "75+")


def round_edges(low: Decimal, high: Decimal) -> tuple[float, ...]:
    """About five to eight bins of equal width with round edges that cover both numbers.

    >>> round_edges(Decimal(17), Decimal(90))
    (10, 20, 30, 40, 50, 60, 70, 80, 90)
    """
    power = Decimal(10) ** math.floor(((high - low) / _MOST_BINS).log10())
    for factor in ("1", "2", "2.5", "5", "10", "20"):
        step = Decimal(factor) * power
        first, last = math.floor(low / step), math.ceil(high / step)
        is_odd_step = factor == "2.5" and step < 10
        if last - first <= _MOST_BINS and not is_odd_step:
            break
    return tuple(_plain(step * i) for i in range(first, last + 1))


def is_crowded(edges: Sequence[float], sample: NDArray[np.float64]) -> bool:
    """Whether most rows are in one of the bins."""
    return bool(len(sample)) and float(np.histogram(sample, edges)[0].max()) > _CROWDED * len(sample)


def ladder_edges(low: Decimal, high: Decimal, sample: NDArray[np.float64], *, whole: bool) -> tuple[float, ...]:
    """Edges on the ladder of 1, 2 and 5 times powers of ten, near the quantiles of a sample; they cover both numbers.

    >>> sample = np.array([0] * 50 + [700, 900, 1800, 2100, 4700, 9000, 30000])
    >>> ladder_edges(Decimal(0), Decimal(30000), sample, whole=True)
    (0, 1, 500, 1000, 2000, 5000, 50000)
    """
    alone = bool(low >= 0 and np.mean(sample == 0) > _OFTEN)
    rest = sample[sample != 0] if alone else sample
    shares = np.arange(1, _MOST_BINS - 1) / (_MOST_BINS - 1)
    quantiles = np.quantile(rest, shares, method="lower") if len(rest) else rest
    inner = {_rung(Decimal(repr(float(quantile))), up=False) for quantile in quantiles}
    edges = {edge for edge in inner if low < edge < high}
    if alone and whole:
        edges.add(Decimal(1))
    if low < 0 < high:
        edges.add(Decimal(0))
    edges |= {_rung(low, up=False), _rung(high, up=True)}
    return tuple(_plain(edge) for edge in sorted(edges))


def bin_names(edges: Sequence[float]) -> tuple[str, ...]:
    """Names for bins of whole numbers.

    >>> bin_names((0, 1, 20, 40)), bin_names((-10, 0, 10))
    (('0', '1-19', '20-40'), ('-10 to -1', '0 to 10'))
    """
    dash = " to " if edges[0] < 0 else "-"
    lasts = [edge - 1 for edge in edges[1:-1]] + [edges[-1]]
    return tuple(f"{a}{dash}{b}" if a < b else f"{a}" for a, b in zip(edges[:-1], lasts, strict=True))


def _rung(number: Decimal, *, up: bool) -> Decimal:
    """The next number of the ladder that is at most this one, or at least."""
    if not number:
        return Decimal(0)
    if number < 0:
        return -_rung(-number, up=not up)
    power = Decimal(10) ** math.floor(number.log10())
    rungs = [power * factor for factor in (1, 2, 5, 10)]
    return min(rung for rung in rungs if rung >= number) if up else max(rung for rung in rungs if rung <= number)


def _plain(edge: Decimal) -> float:
    return int(edge) if edge == int(edge) else float(edge)
