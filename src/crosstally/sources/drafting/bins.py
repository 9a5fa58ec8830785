"""Bins with round edges, of three kinds. A kind that puts most rows into one bin gives way to the next.

Equal width from the least number to the greatest; a ladder 1, 2, 5, 10, ... where large numbers are rare, as with
incomes; equal width over nearly all rows, where a few numbers lie far from all others on either side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

__all__ = ["AGE_EDGES", "AGE_NAMES", "bin_names", "edges_from_rows", "is_crowded", "round_edges"]

_MOST_BINS = 8  # bins of a draft. Chosen: few enough to read, enough to show a shape. A steward may change them
_CROWDED = 0.75  # of all rows in one bin: the others then say little
_COARSE = 0.5  # of all rows in one bin of the ladder: bins of equal width over nearly all rows may be finer
_OFTEN = 0.2  # of all rows at zero: it then has a bin of its own
_RARE = 0.02  # of all rows beyond the inner bins, on each side. With 0.1 the two outer bins would be the largest

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
    return bool(len(sample)) and _largest_share(edges, sample) > _CROWDED


def _largest_share(edges: Sequence[float], sample: NDArray[np.float64]) -> float:
    return float(np.histogram(sample, edges)[0].max() / len(sample))


def edges_from_rows(low: Decimal, high: Decimal, sample: NDArray[np.float64], *, whole: bool) -> tuple[float, ...]:
    """Edges near the quantiles of a sample, for numbers of which bins of equal width have most in one.

    >>> sample = np.array([43, *[*range(58, 66)] * 20, 79])
    >>> edges_from_rows(Decimal(43), Decimal(79), sample, whole=True)
    (20, 58, 59, 60, 61, 62, 63, 64, 65, 100)
    """
    zero = bool(low >= 0 and np.mean(sample == 0) > _OFTEN)
    rest = sample[sample != 0] if zero else sample
    edges = ladder_edges(low, high, rest)
    if len(rest) and _largest_share(edges, rest) > _COARSE:
        edges = min(edges, inner_edges(low, high, rest, whole=whole), key=lambda each: _largest_share(each, rest))
    return tuple(sorted({*edges, 1})) if zero and whole else edges


def ladder_edges(low: Decimal, high: Decimal, sample: NDArray[np.float64]) -> tuple[float, ...]:
    """Edges on the ladder of 1, 2 and 5 times powers of ten, near the quantiles of a sample; they cover both numbers.

    >>> ladder_edges(Decimal(0), Decimal(30000), np.array([700, 900, 1800, 2100, 4700, 9000, 30000]))
    (0, 500, 1000, 2000, 5000, 50000)
    """
    shares = np.arange(1, _MOST_BINS - 1) / (_MOST_BINS - 1)
    quantiles = np.quantile(sample, shares, method="lower") if len(sample) else sample
    return _covering(low, high, {_rung(Decimal(repr(float(quantile))), up=False) for quantile in quantiles})


def inner_edges(low: Decimal, high: Decimal, sample: NDArray[np.float64], *, whole: bool) -> tuple[float, ...]:
    """Round edges of equal width over all but the least and the greatest of a sample; two bins hold those.

    >>> inner_edges(Decimal("0.5"), Decimal(60), np.array([0.5, *np.linspace(2, 5, 98), 60]), whole=False)
    (0.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 100)
    """
    first, last = (Decimal(repr(float(each))) for each in np.quantile(sample, (_RARE, 1 - _RARE), method="nearest"))
    inner = round_edges(first, last) if first < last else (_plain(first),)
    return _covering(low, high, {Decimal(repr(edge)) for edge in inner if not whole or edge == int(edge)})


def _covering(low: Decimal, high: Decimal, inner: set[Decimal]) -> tuple[float, ...]:
    """These edges and outer ones on the ladder, so that bins cover both numbers; zero parts losses from gains."""
    edges = {edge for edge in inner if low < edge < high} | {_rung(low, up=False), _rung(high, up=True)}
    if low < 0 < high:
        edges.add(Decimal(0))
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
