"""Groups of the values of wide attributes, chosen by noisy counts that were measured earlier.

A group with few rows adds noise to every pair and says little; a group with many rows hides how its values differ. With
s the noise of a pair's cell (its standard deviation) and N rows, a group of about sqrt(2 s N) rows is taken: a pair of
two such groups holds, if they are independent, (2 s N) / N = 2 s rows, twice its noise.

Values that have an order, bins, are put together with their neighbours; labels, which have none, with those of nearly
the same count: the most frequent ones stay by themselves. The cells for other and missing values are no neighbours of
the last bin and stay by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosstally.schema import Attribute, Schema

__all__ = ["groups_of_all", "rows_of_a_group", "value_groups"]

_FEWEST = 2
"""A table of one group would tell nothing that the other attribute's own table does not."""

_FEWER = 1.25
"""By so much groups grow, again and again, until all pairs fit: cells fall by about a third each time."""


def rows_of_a_group(std_error: float, rows: float) -> float:
    """About how many rows a group should hold, given the noise of a pair's cell and the number of rows."""
    return math.sqrt(2 * std_error * max(rows, 1.0))


def value_groups(attribute: Attribute, counts: ArrayLike, rows_each: float) -> tuple[int, ...] | None:
    """The group of each value, so that groups hold about ``rows_each`` rows; None where each value stays by itself.

    Values are run through in order, and a group is closed as soon as it holds so many rows; what is left at the end
    goes to the last group. Counts below zero count as zero. There are at least two groups.

    >>> ages = Attribute("age", edges=range(0, 90, 10), missing=True)
    >>> value_groups(ages, [5, 6, 20, 3, 3, 3, -2, 1, 4], rows_each=10)
    (0, 0, 1, 2, 2, 2, 2, 2, 3)
    """
    held = _above_zero(counts)
    bins = len(attribute.edges) - 1
    order = np.arange(bins) if attribute.edges else np.argsort(-held, kind="stable")
    alone = np.arange(len(order), attribute.size)
    groups = np.empty(attribute.size, np.intp)
    groups[order] = _closed(held[order], rows_each, at_least=_FEWEST - len(alone))
    groups[alone] = groups[order].max() + 1 + np.arange(len(alone))
    return None if groups.max() + 1 == attribute.size else tuple(groups.tolist())


def _above_zero(counts: ArrayLike) -> NDArray[np.float64]:
    return np.maximum(np.asarray(counts, np.float64), 0.0)


def _closed(held: NDArray[np.float64], rows_each: float, *, at_least: int) -> NDArray[np.intp]:
    """The group of each value of a row of them."""
    groups, group, rows = np.empty(len(held), np.intp), 0, 0.0
    for i, count in enumerate(held.tolist()):
        groups[i] = group
        rows += count
        if rows >= rows_each:
            group, rows = group + 1, 0.0
    if 0 < group == groups[-1]:  # what is left does not make a group of its own
        groups[groups == group] = group - 1
    if groups[-1] + 1 < at_least and len(held) > 1:  # all rows would be in one: two halves then
        half = int(np.searchsorted(np.cumsum(held), held.sum() / 2)) + 1
        groups[:] = np.arange(len(held)) >= min(half, len(held) - 1)
    return groups


def groups_of_all(
    schema: Schema,
    counts: Mapping[str, ArrayLike],
    *,
    rows_each: float,
    most_cells: int,
    in_full: Collection[str] = (),
) -> dict[str, tuple[int, ...]]:
    """The groups of all attributes that need them, so that all pairs together have at most ``most_cells`` cells.

    Args:
        schema: The attributes.
        counts: The noisy counts of the values of each.
        rows_each: How many rows a group should hold about; more where there would be too many cells.
        most_cells: Of all pairs together. Where even two groups of each attribute have more, that is what one gets.
        in_full: Attributes that keep all their values.
    """
    most_rows = max(float(_above_zero(counts[name]).sum()) for name in schema.names)
    while True:
        found = {a.name: value_groups(a, counts[a.name], rows_each) for a in schema.attributes if a.name not in in_full}
        sizes = [max(groups) + 1 if (groups := found.get(a.name)) else a.size for a in schema.attributes]
        out = {name: groups for name, groups in found.items() if groups is not None}
        cells = sum(a * b for a, b in combinations(sizes, 2))
        if cells <= most_cells or rows_each > most_rows:
            return out
        rows_each *= _FEWER
