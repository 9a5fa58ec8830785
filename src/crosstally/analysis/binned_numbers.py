"""Means and quantiles of numbers that were counted in bins.

A bin says between which numbers a row is, not where. Each label k stands for a range l_k to u_k: whole numbers in
[16, 25) are 16 to 24. With n_k rows in each bin, the mean lies in its identified range

    sum n_k l_k / sum n_k   to   sum n_k u_k / sum n_k,

and no number of rows makes that narrower. The interval goes from the lower end of the interval of the first figure to
the upper end of that of the second: it holds all of the range, and the noise. Where all ranges are single numbers the
mean is a figure like any other.

The q-quantile lies in the first bin k whose cumulative share F_k is at least q. The interval goes from the first bin
whose F_k could be at least q, by the interval of F_k, to the first whose F_k is so for certain. It fails only if one of
F_k and F_(k-1) is outside its interval, on one side each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.changes import Change
from crosstally.answers.marginal import ErrorKind, Marginal
from crosstally.answers.uncertainty import Bounds, Ends
from crosstally.checks import is_number
from crosstally.errors import QueryError
from crosstally.schema import Attribute
from crosstally.schema.attribute import MISSING, OTHER
from crosstally.typing import Floats

Places = Sequence[float | tuple[float, float]]
"""What each label stands for: a number, or the least and the greatest that it may be."""

_FROM_TO = re.compile(r"\s*(-?\d+)\s*(?:-|–|to)\s*(-?\d+)\s*")  # the label "16-24" of the bin [16, 25)


def mean(table: Marginal, name: str, *, at: Places | None = None, whole: bool | None = None) -> Marginal:
    """The mean of a numeric attribute for each combination of the other attributes.

    Bins hide where in them people are: the number shown is that of their middles, and the interval holds all that is
    possible, from everybody at the lower to everybody at the upper end, and the noise. Missing and other values are
    left out.

    Args:
        table: Counts over the attribute, and over those it is to be compared by.
        name: The attribute: with edges, or with numbers as labels.
        at: What people with each label count as, if not what the schema says: a number, or the least and greatest.
        whole: Whether the numbers are whole, so that a bin from 16 to below 25 ends at 24. By default they are if the
            schema names bins so: 16-24.
    """
    inside, low, high = _ranges(table, name, at, whole=whole)
    found = _mean_at(inside, name, (low + high) / 2)
    if (low == high).all():
        return found
    first, last = _mean_at(inside, name, low), _mean_at(inside, name, high)
    return _bounded(found, partial(_mean_ends, first, last)) if first.uncertainty else found.without_error()


def quantile(table: Marginal, name: str, q: float, *, at: Places | None = None, whole: bool | None = None) -> Marginal:
    """The number that a share ``q`` of rows do not exceed, for each combination of the other attributes.

    The number shown supposes that people are spread evenly within their bin. The interval does not: its ends are ends
    of bins, or the numbers themselves where each label is one.

    Args:
        table: Counts over the attribute, and over those it is to be compared by.
        name: The attribute: with edges, or with numbers as labels.
        q: The share: 0.5 for the median.
        at: What each label stands for, as for ``mean``; it must increase.
        whole: Whether the numbers are whole, as for ``mean``.
    """
    if not is_number(q) or not 0 < q < 1:
        raise QueryError(f"q must be between 0 and 1, got {q!r}")
    inside, low, high = _ranges(table, name, at, whole=whole)
    if (np.diff(low) <= 0).any() or (high[:-1] > low[1:]).any():
        raise QueryError(f"{name!r}: a quantile needs numbers that increase from label to label")
    shares, axis = inside.cumulative(name).share_of(inside.sum(name)), inside.attributes.index(name)
    values = _inside_bins(np.moveaxis(shares.values, axis, 0), q, low, high)
    found = replace(inside.sum(name), values=values, quantity="quantile", relaxed=0.0)
    ends = partial(_quantile_ends, shares, axis, q, (low, high))
    return _bounded(found, ends) if shares.uncertainty else found.without_error()


def _mean_at(table: Marginal, name: str, numbers: Floats) -> Marginal:
    return table.weighted_sum(name, numbers.tolist()).per(table.sum(name), "mean")


def _bounded(found: Marginal, ends: Callable[[float], Ends]) -> Marginal:
    return replace(found, uncertainty=Bounds(ends=partial(_ends, ends)), error_kind=ErrorKind.BOUNDS)


def _ends(ends: Callable[[float], Ends], change: Change | None, values: Floats, level: float) -> Ends:
    both = np.stack(ends(level))
    low, high = both if change is None else change(both)
    return np.fmin(low, values), np.fmax(high, values)


def _mean_ends(first: Marginal, last: Marginal, level: float) -> Ends:
    return first.interval(level).low, last.interval(level).high


def _quantile_ends(shares: Marginal, axis: int, q: float, ranges: Ends, level: float) -> Ends:
    least, most = (np.moveaxis(np.asarray(each), axis, 0) for each in shares.interval(level))
    return ranges[0][_first_bin(most, q)], ranges[1][_first_bin(least, q)]


def _first_bin(shares: Floats, q: float) -> NDArray[np.intp]:
    """The first bin up to which there are at least a share q, for each cell; bins are the first axis."""
    return np.asarray(np.concatenate([shares[:-1] >= q, np.ones_like(shares[-1:], np.bool_)]).argmax(axis=0))


def _inside_bins(shares: Floats, q: float, low: Floats, high: Floats) -> Floats:
    """Where in its bin the quantile is if all places are equally likely; NaN where nobody is."""
    found = _first_bin(shares, q)
    after = np.take_along_axis(shares, found[None], 0)[0]
    before = np.where(found > 0, np.take_along_axis(shares, np.maximum(found - 1, 0)[None], 0)[0], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.clip((q - before) / (after - before), 0.0, 1.0)
    return np.asarray(np.where(np.isfinite(after), low[found] + part * (high - low)[found], np.nan))


def _ranges(table: Marginal, name: str, at: Places | None, *, whole: bool | None) -> tuple[Marginal, Floats, Floats]:
    """The table with the labels that stand for numbers, and the least and the greatest that each stands for."""
    table.schema.check((name,))
    attribute = table.schema[name]
    given = _of_schema(attribute, whole) if at is None else at
    try:
        ends = np.array([each if np.ndim(each) else (each, each) for each in given], np.float64).reshape(-1, 2)
    except (TypeError, ValueError):
        ends = np.empty((0, 2))
    if not len(ends) or not np.isfinite(ends).all() or (ends[:, 0] > ends[:, 1]).any():
        raise QueryError(f"{name!r}: each label must stand for a number, or for the least and the greatest: (16, 24)")
    kept = [label for label in attribute.labels if label not in {OTHER, MISSING}] if at is None else attribute.labels
    if len(ends) != len(kept):
        raise QueryError(f"{name!r}: weights must be {len(kept)} numbers, one for each label")
    return table.sel({name: list(kept)}), ends[:, 0], ends[:, 1]


def _of_schema(attribute: Attribute, whole: bool | None) -> Places:
    if not attribute.edges:
        try:
            return [float(label) for label in attribute.labels if label not in {OTHER, MISSING}]
        except ValueError:
            raise QueryError(f"{attribute.name!r} has labels and no edges; say what each counts as: at=[...]") from None
    bins = list(pairwise(attribute.edges))
    if not (_named_whole(attribute) if whole is None else whole):
        return bins
    least, most = np.ceil(attribute.edges[:-1]), np.ceil(attribute.edges[1:]) - 1
    most[-1] = np.floor(attribute.edges[-1])  # the last bin is closed
    return [(float(a), float(b)) if a <= b else each for a, b, each in zip(least, most, bins, strict=True)]


def _named_whole(attribute: Attribute) -> bool:
    """Whether the names of bins say that numbers are whole: 16-24 is [16, 25). Those without two numbers say nothing.

    >>> _named_whole(Attribute("age", edges=[16, 25, 75, 95], bins=["16-24", "25-74", "75 and over"]))
    True
    """
    found = [
        (read, b)
        for label, b in zip(attribute.bins, attribute.edges[1:], strict=False)
        if (read := _FROM_TO.fullmatch(label)) is not None
    ]
    return bool(found) and all(int(read[2]) in {b - 1, attribute.edges[-1]} for read, b in found)
