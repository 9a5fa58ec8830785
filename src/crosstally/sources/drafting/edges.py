"""Edges of bins that a draft suggests: round numbers, ages, powers, and periods of dates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from functools import cache

import numpy as np
from numpy.typing import NDArray

from crosstally.schema import Attribute, DateReading, Outside

# Bins with round edges, of three kinds. A kind that puts most rows into one bin gives way to the next. Equal width from
# the least number to the greatest; a ladder 1, 2, 5, 10, ... where large numbers are rare, as with incomes; equal width
# over nearly all rows, where a few numbers lie far from all others on either side.


_MOST_BINS = 8  # bins of a draft. Chosen: few enough to read, enough to show a shape. A steward may change them
_CROWDED = 0.75  # of all rows in one bin: the others then say little
_COARSE = 0.5  # of all rows in one bin of the ladder: bins of equal width over nearly all rows may be finer
_OFTEN = 0.2  # of all rows at zero: it then gets its own bin
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
    """Edges near the quantiles of a sample, for numbers most of which would be in one bin of equal width.

    >>> sample = np.array([43, *[*range(58, 66)] * 20, 79])
    >>> edges_from_rows(Decimal(43), Decimal(79), sample, whole=True)
    (20, 58, 59, 60, 61, 62, 63, 64, 65, 100)
    """
    zero = bool(low >= 0 and np.mean(sample == 0) > _OFTEN)
    rest = sample[sample != 0] if zero else sample
    edges = ladder_edges(low, high, rest)
    if len(rest) and _largest_share(edges, rest) > _COARSE:
        edges = min(edges, inner_edges(low, high, rest, whole=whole), key=lambda each: _largest_share(each, rest))
    edges = tuple(sorted({*edges, 1})) if zero and whole else edges
    return edges if len(edges) > 2 else round_edges(low, high)  # where nearly all are one number: one bin says nothing


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


# Bins from noisy counts: the round numbers of a public ladder that are near the noisy quantiles become edges. The
# ladder is fixed before any row is seen, so that counts of its bins can be bought like any other table. What follows
# from the noisy counts costs nothing.


_MANTISSAS = (1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9)
"""Round numbers no farther apart than a fourth of their size; more of them would hold fewer rows each."""
_LARGEST = 12  # powers of ten: what is beyond a trillion goes to the outside values
_SMALLEST = -3  # of numbers that are not whole
_MOST_TOGETHER = 32  # rungs that are combined, where each alone has too few rows: about one and a half decades
_FALSE_RANGE = 0.01
"""The chance that noise alone makes the bins of a column reach farther than its rows. Nothing is lost then but a few
empty cells, which the steward sees."""


def rungs(name: str, *, whole: bool) -> Attribute:
    """A column in the bins of the ladder, the same whatever its rows are.

    >>> [edge for edge in rungs("income", whole=True).edges if -2 <= edge <= 25]
    [-2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 25]
    """
    positive = sorted({_power_rung(m, p) for p in range(0 if whole else _SMALLEST, _LARGEST) for m in _MANTISSAS})
    if whole:
        positive = [rung for rung in positive if rung == int(rung)]
    positive.append(10**_LARGEST)
    edges = [*(-rung for rung in reversed(positive)), 0, *positive]
    return Attribute(name, edges=edges, missing=True, outside=Outside.OTHER)


def _power_rung(mantissa: float, power: int) -> float:
    rung = float(f"{mantissa}e{power}")
    return int(rung) if rung == int(rung) else rung


def edges_near_quantiles(ladder: Sequence[float], noisy: NDArray[np.float64], *, scale: float) -> tuple[float, ...]:
    """Edges of about eight bins that hold about as many rows each; none where nothing can be distinguished from noise.

    A bin of the ladder that holds an eighth of the rows, as zero often does, is a bin by itself; the others share what
    is left.

    Args:
        ladder: The edges of the bins that were counted.
        noisy: Their noisy counts.
        scale: Scale of the Laplace noise in each.

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
    """The bound that a sum of Laplace variables of scale 1 exceeds with at most this probability (Chernoff).

    E exp(x L) = 1 / (1 - x^2), so P(sum > t) <= exp(-x t) / (1 - x^2)^number for every x between 0 and 1.
    """
    x = np.linspace(0.001, 0.999, 999)
    return float(np.min((-math.log(probability) - number * np.log1p(-(x**2))) / x))


# Columns of dates: how they are written, and what to make of them.


_FORMATS = ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y")
_MANY_YEARS = 20  # from here on years go into bins


class Dates:
    """The formats in which every text seen so far is a date, with the first and the last day in each."""

    def __init__(self) -> None:
        self._ends: dict[str, tuple[date, date] | None] = dict.fromkeys(_FORMATS)
        self._readings = {form: DateReading("year", form) for form in _FORMATS}

    @property
    def possible(self) -> bool:
        """Whether every text so far is a date in some format."""
        return bool(self._ends)

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats that are left; none once a text is no date."""
        return tuple(form for form, ends in self._ends.items() if ends is not None)

    def add(self, texts: Sequence[str]) -> None:
        """Add distinct texts."""
        for form in tuple(self._ends):
            days = []
            for text in texts:
                day = self._readings[form].day(text)
                if day is None:
                    del self._ends[form]
                    break
                days.append(day)
            else:
                known = [*days, *(self._ends[form] or ())]
                if known:
                    self._ends[form] = min(known), max(known)

    def column(self) -> tuple[DateReading, tuple[str, ...], tuple[float, ...]] | None:
        """How to read the dates, and their labels or edges; None unless they are written in one way."""
        if len(self.formats) != 1:
            return None
        (form,) = self.formats
        ends = self._ends[form]
        assert ends is not None
        first, last = ends
        if last.year - first.year >= _MANY_YEARS:
            return DateReading("year", form), (), round_edges(Decimal(first.year), Decimal(last.year))
        months = 12 * (last.year - first.year) + last.month - first.month
        part = "year" if last.year - first.year >= 3 else "quarter" if months >= 6 else "month"
        days = (date(first.year + i // 12, i % 12 + 1, 1) for i in range(first.month - 1, first.month + months))
        labels = dict.fromkeys(DateReading(part).text(day.isoformat()) or "" for day in days)
        return DateReading(part, form), tuple(labels), ()
