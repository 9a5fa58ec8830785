"""From measurements to an estimate: combine them by least squares, then correct negative cells.

In symbols: the measured numbers are y = W c + noise, where c are the coefficients of the rows in the residual basis.
The combined coefficients are the least squares estimate l = (W' V^-1 W)^-1 W' V^-1 y with variances v, which is a
weighted average for each coefficient (``Averages``). The estimate x has the same keys and is corrected from l; all its
tables agree because they share coefficients. Arrays: coefficients, variances and keys (coefficients); a ``ViewGroup``
has places (views, cells).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from crosstally.checks import is_whole
from crosstally.errors import QueryError, did_you_mean
from crosstally.inference.cell_errors import SquaredErrors
from crosstally.inference.joint_correction import (
    CORRECTIONS,
    Correction,
    ViewGroup,
    nearest_above_zero,
    with_total_above_zero,
)
from crosstally.inference.shrink import shrunk, smoothed
from crosstally.measurements import Measurement
from crosstally.query.ways import Groups
from crosstally.residuals import Estimate, decompose, rebuild
from crosstally.residuals.combining import Averages, by_shape
from crosstally.residuals.nested import extended_measurements, shares_in_groups
from crosstally.schema import Schema

SHRUNK = "shrunk"
JOINT = "joint"
CORRECTED = (SHRUNK, JOINT, *CORRECTIONS)
"""Corrections of negative cells; ``usual_correction`` gives the default."""

ROUNDS = 3
"""How often views corrected one by one are made consistent again: after one round, large tables are still affected."""


def usual_correction(measurements: Sequence[Measurement]) -> str:
    """How a release corrects negative cells by default: by shrinkage.

    Where ranges were measured by a matrix, not at all. Noise of neighbouring cells is then made to cancel in ranges,
    and corrections of single cells undo that: ranges of 64 ages had up to twice the error (rho = 0.02).
    """
    return "none" if any(m.query.matrices for m in measurements) else SHRUNK


def estimate(
    schema: Schema,
    measurements: Sequence[Measurement],
    *,
    rows: int | None = None,
    nonnegative: str = SHRUNK,
    rounds: int = ROUNDS,
) -> Estimate:
    """The consistent estimate from all measurements, with negative cells corrected.

    Args:
        schema: The schema of the tables.
        measurements: Noisy cells and contrasts, as they were drawn. Choices are ignored.
        rows: The public number of rows, if any; otherwise the measured total is used.
        nonnegative: ``shrunk``, ``joint``, or as in PriView (section 4.4) ``none``, ``simple``, ``global``, ``ripple``.
        rounds: How often the largest views are corrected and averaged again; ``shrunk`` and ``joint`` need none.

    Returns:
        The estimate. Its variances are those before correction. The total stays as it was combined, or becomes zero
        where noise made it negative. Corrected views agree again after averaging, so small negative cells may return;
        ``smallest`` says how small, and ``answers`` removes them.
    """
    return infer(schema, measurements, rows=rows, nonnegative=nonnegative, rounds=rounds).estimate


def unsolved_estimate(
    schema: Schema,
    measurements: Sequence[Measurement],
    *,
    rows: int | None = None,
    nonnegative: str = SHRUNK,
    rounds: int = ROUNDS,
) -> Estimate:
    """An estimate without coefficients: it raises whatever ``estimate`` would, in a small part of the time.

    Cells and contrasts have averages whatever they are. Those of matrices exist if the tables inside them are measured
    too, which averaging checks: the values do not matter.
    """
    _check_options(rows, nonnegative, rounds)
    groups = Groups.of(schema, (m.query for m in measurements))
    # Whether the equations of matrices have one solution depends on the matrices alone: zeros suffice to check it.
    if any(m.query.matrices for m in measurements):
        estimate(schema, measurements, rows=rows, nonnegative="none")
    if not measurements and rows is None:
        raise _nothing_measured()
    none = np.empty(0)
    extended = schema if groups is None else groups.extended
    return Estimate(extended, none, coefficients=none, variances=none, corrected=nonnegative, groups=groups)


@dataclass(frozen=True, slots=True, eq=False)
class Inference:
    """An estimate and the steps that led to it, so that they can be repeated with other combined coefficients.

    ``linear`` is the estimate before correction (its total not negative where anything is corrected), ``averages`` made
    it from ``measurements`` (where values are in groups, those of the extended schema), and ``views`` are its largest
    tables. ``correct`` gives corrected coefficients with every decision of this inference kept; None where nothing was
    corrected.
    """

    estimate: Estimate
    _: KW_ONLY
    linear: Estimate
    measurements: tuple[Measurement, ...]
    averages: Averages
    views: tuple[ViewGroup, ...]
    correct: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None

    def again(self, linear: NDArray[np.float64]) -> NDArray[np.float64]:
        """The coefficients that the same inference finds from other combined coefficients."""
        if self.correct is None:
            return linear.copy()
        return _with_values_in_groups(replace(self.estimate, coefficients=self.correct(linear))).coefficients

    @property
    def orders(self) -> int:
        """How many orders coefficients may have: those of no attribute up to those of all that a measurement has."""
        return 1 + max((len(m.query.attributes) for m in self.measurements), default=0)

    def smooth(self) -> NDArray[np.float64]:
        """The smoothed estimate that stands for the truth of replicates (``shrink.smoothed``)."""
        return smoothed(self.linear, self.views, self.estimate.coefficients)

    def squared_errors(self) -> SquaredErrors | None:
        """The mean squared errors of cells of large covered tables (``cell_errors``); only shrinkage has them."""
        return SquaredErrors.after(self) if self.estimate.corrected == SHRUNK else None


def infer(
    schema: Schema,
    measurements: Sequence[Measurement],
    *,
    rows: int | None = None,
    nonnegative: str = SHRUNK,
    rounds: int = ROUNDS,
) -> Inference:
    """As ``estimate``, with everything needed to repeat it."""
    _check_options(rows, nonnegative, rounds)
    found = uncorrected(schema, measurements, rows=rows, nonnegative=nonnegative)
    combined = found.linear
    if nonnegative != "none" and combined.covers(()):
        coefficients, correct = _correction(found, nonnegative, rounds)
        corrected = replace(combined, coefficients=coefficients, corrected=nonnegative)
        found = replace(found, estimate=corrected, correct=correct)
    best = replace(found.estimate, smallest=_smallest(found.estimate, found.views))
    return replace(found, estimate=_with_values_in_groups(best))


def uncorrected(
    schema: Schema, measurements: Sequence[Measurement], *, rows: int | None = None, nonnegative: str = SHRUNK
) -> Inference:
    """An inference up to where negative cells would be corrected: its estimate is that of least squares."""
    measurements = tuple(m for m in measurements if m.query.is_linear)
    groups = Groups.of(schema, (m.query for m in measurements))
    if groups is not None:
        # An attribute whose values are in groups becomes two: the groups, and the values in full of its one-way table.
        schema, measurements = groups.extended, extended_measurements(groups, measurements)
    averages = Averages.of(schema, measurements, groups)
    combined = averages.estimate([m.values for m in measurements], rows)
    if not len(combined.keys):
        raise _nothing_measured()
    # Only the largest tables are corrected: whatever lies inside one is a sum of its cells, and not negative either.
    views = tuple(_view_groups(combined, maximal_views(combined, [m.query.attributes for m in measurements])))
    if nonnegative != "none" and combined.covers(()):  # corrections keep the total, so it must not be negative
        total = int(combined.places([()])[0].item())
        combined = replace(combined, coefficients=with_total_above_zero(combined.coefficients, total))
    return Inference(combined, linear=combined, measurements=measurements, averages=averages, views=views, correct=None)


def _correction(
    inference: Inference, nonnegative: str, rounds: int
) -> tuple[NDArray[np.float64], Callable[[NDArray[np.float64]], NDArray[np.float64]]]:
    """The corrected coefficients, and a function that corrects others in the same way."""
    combined, views = inference.linear, inference.views
    total = int(combined.places([()])[0].item())

    def joint(linear: NDArray[np.float64]) -> NDArray[np.float64]:
        return nearest_above_zero(linear, combined.variances, views, total=total)

    def one_by_one(linear: NDArray[np.float64]) -> NDArray[np.float64]:
        for _ in range(rounds):
            linear = _corrected(replace(combined, coefficients=linear), views, CORRECTIONS[nonnegative])
        return linear

    if nonnegative == SHRUNK and combined.coefficients[total] > 0:
        shrinkage = shrunk(combined, inference.measurements, inference.averages, views)

        # A replicate whose total is not positive has no shares to shrink towards: all its cells are nearest to zero.
        def again(linear: NDArray[np.float64]) -> NDArray[np.float64]:
            return shrinkage.again(linear) if linear[total] > 0 else joint(linear)

        return shrinkage.coefficients, again
    correct = joint if nonnegative in {SHRUNK, JOINT} else one_by_one
    return correct(combined.coefficients), correct


def _with_values_in_groups(found: Estimate) -> Estimate:
    """The estimate whose full one-way tables agree again with the tables of groups, after separate corrections."""
    groups = found.groups
    if groups is None or found.corrected == "none":
        return found
    coefficients = found.coefficients.copy()
    for name, full in groups.full_names.items():
        if found.covers((full,)):
            # Groups were corrected together with larger tables; of the values only their shares in a group are taken.
            shares = shares_in_groups(groups.codes[name], found.table((full,)))
            values = found.table((name,))[groups.codes[name]] * shares
            coefficients[found.places([(full,)])[0][0, 1:]] = decompose(values, 1)[1:]
    return replace(found, coefficients=coefficients)


def _check_options(rows: int | None, nonnegative: str, rounds: int) -> None:
    if nonnegative not in CORRECTED:
        near = did_you_mean(str(nonnegative), CORRECTED)
        raise QueryError(f"unknown correction of negative cells {nonnegative!r}{near}")
    if rows is not None and not is_whole(rows, 0, numpy=True):
        raise QueryError(f"rows must be a whole number of at least 0, got {rows!r}")
    if not is_whole(rounds, 1):
        raise QueryError(f"rounds must be a whole number of at least 1, got {rounds!r}")


def _nothing_measured() -> QueryError:
    return QueryError("there is nothing to estimate from: measure something, or give the public number of rows")


def maximal_views(combined: Estimate, tables: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """The covered tables that no other covered table contains, each once; the total alone is not a view."""
    schema = combined.schema
    distinct = list(dict.fromkeys(schema.ordered(names) for names in tables if names))
    covered = [names for names, inside in zip(distinct, combined.covered(distinct), strict=True) if inside]
    holders = dict.fromkeys(schema.names, 0)  # for each attribute the tables that hold it, as bits
    for i, names in enumerate(covered):
        for name in names:
            holders[name] |= 1 << i
    # A table is largest if no other holds all its attributes: the bits that they share are its own alone.
    return [
        names
        for i, names in enumerate(covered)
        if reduce(lambda shared, name: shared & holders[name], names, -1) == 1 << i
    ]


def smallest_cell(combined: Estimate, tables: Sequence[Sequence[str]]) -> float:
    """The smallest cell of the largest covered tables among these; NaN when none is covered."""
    return _smallest(combined, _view_groups(combined, maximal_views(combined, tables)))


def _smallest(combined: Estimate, groups: Sequence[ViewGroup]) -> float:
    tables = (rebuild(combined.coefficients[g.places].reshape(-1, *g.shape), len(g.shape)) for g in groups)
    return min((float(stack.min()) for stack in tables), default=math.nan)


def _view_groups(combined: Estimate, views: Sequence[tuple[str, ...]]) -> list[ViewGroup]:
    shapes = by_shape([combined.schema.sizes(view) for view in views])
    return [
        ViewGroup(shape, combined.places(tables)[0], _possible(combined.schema, tables))
        for shape, tables in ((shape, [views[i] for i in group]) for shape, group in shapes.items())
    ]


def _possible(schema: Schema, tables: Sequence[tuple[str, ...]]) -> NDArray[np.bool_]:
    """For each cell of tables of one shape whether it is possible; no rows if no cell is impossible."""
    cells = [schema.possible(names) for names in tables]
    if all(each is None for each in cells):
        return np.empty((0, 0), np.bool_)
    everywhere = np.ones(schema.sizes(tables[0]), np.bool_)
    return np.stack([(everywhere if each is None else each).ravel() for each in cells])


def _corrected(combined: Estimate, groups: Sequence[ViewGroup], correct: Correction) -> NDArray[np.float64]:
    """The coefficients after each view was corrected: averages over the views; the total and all others stay.

    Views count by 1 / (variance x cells). Nothing but a view's own measurements holds its coefficient of highest order,
    whose variance is that of its cells.
    """
    number = len(combined.keys)
    sums, weights = np.zeros(number), np.zeros(number)
    for group in groups:
        ndim = len(group.shape)
        # coefficients -> cells, corrected there, and back: (views, *shape) each time
        stack = combined.coefficients[group.places].reshape(-1, *group.shape)
        corrected = decompose(correct(rebuild(stack, ndim), ndim), ndim).reshape(group.places.shape)
        precisions = 1 / (combined.variances[group.places[:, -1:]] * group.places.shape[1])
        places, weight = group.places.ravel(), np.broadcast_to(precisions, group.places.shape)
        sums += np.bincount(places, (corrected * weight).ravel(), number)
        weights += np.bincount(places, weight.ravel(), number)
    seen = weights > 0
    seen[combined.places([()])[0]] = False  # "simple" makes totals larger, view by view: the combined one stays
    return np.where(seen, sums / np.where(seen, weights, 1.0), combined.coefficients)
