"""Measurements to an estimate: combined, negative cells corrected, combined again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import QueryError
from crosstally.inference.nonnegativity import Correction, correction
from crosstally.residuals import Estimate, combine, decompose, rebuild
from crosstally.residuals.combine import by_shape
from crosstally.schema import Schema
from crosstally.tables import Measurement

__all__ = ["ROUNDS", "estimate", "maximal_views", "smallest_cell"]

ROUNDS = 3
"""How often a release corrects and averages; one round leaves cells below zero that large tables feel."""


def estimate(
    schema: Schema,
    measurements: Sequence[Measurement],
    *,
    rows: int | None = None,
    nonnegative: str = "ripple",
    rounds: int = ROUNDS,
) -> Estimate:
    """All that measurements say, consistent, its negative cells corrected.

    Args:
        schema: What the tables are about.
        measurements: Noisy cells and contrasts, as they were drawn.
        rows: The number of rows where it is public; otherwise the measurements' own total is used.
        nonnegative: ``none``, ``simple``, ``global`` or ``ripple`` (PriView section 4.4).
        rounds: How often the largest views are corrected and averaged again.

    Returns:
        The estimate. Its variances are those before correction. The total stays as it was combined, or becomes zero
        where noise made it negative. Corrected views agree again after averaging, so small negative cells may return;
        ``smallest`` says how small, and ``answers`` removes them.
    """
    correct = correction(nonnegative)
    _check_numbers(rows, rounds)
    combined = combine(schema, measurements)
    if rows is not None:
        combined = combined.with_total(rows)
    if not len(combined.keys):
        raise QueryError("there is nothing to estimate from: measure something, or give the public number of rows")
    groups = _view_groups(combined, maximal_views(combined, [m.query.attributes for m in measurements]))
    if nonnegative == "none" or not combined.covers(()):
        return replace(combined, smallest=_smallest(combined, groups))
    combined = _with_total_above_zero(combined)
    for _ in range(rounds):
        combined = replace(combined, coefficients=_corrected(combined, groups, correct))
    return replace(combined, corrected=nonnegative, smallest=_smallest(combined, groups))


def _check_numbers(rows: int | None, rounds: int) -> None:
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 0):
        raise QueryError(f"rows must be a whole number of at least 0, got {rows!r}")
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise QueryError(f"rounds must be a whole number of at least 1, got {rounds!r}")


def _with_total_above_zero(combined: Estimate) -> Estimate:
    coefficients = combined.coefficients.copy()
    total = combined.places([()])[0]
    coefficients[total] = np.maximum(coefficients[total], 0.0)
    return replace(combined, coefficients=coefficients)


def maximal_views(combined: Estimate, tables: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """The tables that are covered and lie in no other such table, each once; the total alone is no view."""
    schema = combined.schema
    distinct = list(dict.fromkeys(schema.ordered(names) for names in tables if names))
    covered = [names for names, inside in zip(distinct, combined.covered(distinct), strict=True) if inside]
    holders = dict.fromkeys(schema.names, 0)  # for each attribute the tables that hold it, as bits
    for i, names in enumerate(covered):
        for name in names:
            holders[name] |= 1 << i
    return [
        names
        for i, names in enumerate(covered)
        if reduce(lambda shared, name: shared & holders[name], names, -1) == 1 << i
    ]


def smallest_cell(combined: Estimate, tables: Sequence[Sequence[str]]) -> float:
    """The smallest cell of the largest covered tables among these; NaN when none is covered."""
    return _smallest(combined, _view_groups(combined, maximal_views(combined, tables)))


def _smallest(combined: Estimate, groups: Sequence[_ViewGroup]) -> float:
    tables = (rebuild(combined.coefficients[g.places].reshape(-1, *g.shape), len(g.shape)) for g in groups)
    return min((float(stack.min()) for stack in tables), default=math.nan)


@dataclass(frozen=True, slots=True)
class _ViewGroup:
    """Views of one shape: where their coefficients stand, and how much each view counts in an average."""

    shape: tuple[int, ...]
    places: NDArray[np.intp]
    weights: NDArray[np.float64]


def _view_groups(combined: Estimate, views: Sequence[tuple[str, ...]]) -> list[_ViewGroup]:
    """Views by shape, weighted by 1 / (variance x cells).

    Nothing but a view's own measurements holds its coefficient of highest order, whose variance is that of its cells.
    """
    groups = []
    for shape, group in by_shape([combined.schema.sizes(view) for view in views]).items():
        places, _ = combined.places([views[i] for i in group])
        weights = 1 / (combined.variances[places[:, -1]] * places.shape[1])
        groups.append(_ViewGroup(shape, places, weights))
    return groups


def _corrected(combined: Estimate, groups: Sequence[_ViewGroup], correct: Correction) -> NDArray[np.float64]:
    """The coefficients after each view was corrected: averages over the views; the total and all others stay."""
    number = len(combined.keys)
    sums, weights = np.zeros(number), np.zeros(number)
    for group in groups:
        ndim = len(group.shape)
        stack = combined.coefficients[group.places].reshape(-1, *group.shape)
        corrected = decompose(correct(rebuild(stack, ndim), ndim), ndim).reshape(group.places.shape)
        places, weight = group.places.ravel(), np.broadcast_to(group.weights[:, None], group.places.shape)
        sums += np.bincount(places, (corrected * weight).ravel(), number)
        weights += np.bincount(places, weight.ravel(), number)
    seen = weights > 0
    seen[combined.places([()])[0]] = False
    return np.where(seen, sums / np.where(seen, weights, 1.0), combined.coefficients)
