"""The constraints of the maximum entropy model: what the measurements say about means of functions of a row.

Each query has the answered share pi = a / n and the bound beta = alpha n / b on its weight (EDBT 2012, equation 30; b
is the scale of its noise, or of Laplace noise with the same variance). Tables enter as their least squares estimate
from all raw tables, with negative cells corrected, so that they agree with each other and some distribution is close to
them. Linear answers enter as they were drawn.

Values of an attribute that all queries of a constraint treat alike are one class, and a cell is a combination of
classes: two ranges of 91 ages make at most five classes of them. Nothing is lost, and rows are sorted into hundreds of
cells instead of hundreds of thousands.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import NoiseKind
from crosstally.checks import is_number
from crosstally.errors import QueryError, TooManyCellsError
from crosstally.inference.estimates import estimate, maximal_views
from crosstally.measurements import Measurement
from crosstally.notebook.history.bundles import Positions, QueryBatch
from crosstally.notebook.history.prior import Prior
from crosstally.notebook.history.record import History
from crosstally.query.linear import linear_among
from crosstally.query.queries import MAX_CELLS
from crosstally.residuals.combining import Estimate, combine
from crosstally.residuals.nested import full_part_measured
from crosstally.schema import Schema
from crosstally.typing import Floats

SOFT = 4.0
"""c of the softness k = c (b / n) / beta: differences up to c scales of the noise cost their square, larger ones their
size (Huber's penalty).

The paper's penalty is the absolute difference alone, c = 0: then most answers are met exactly, noise and all, and the
weights of overlapping answers are hardly determined. Chosen on census-9 and generated rows, among 0, 1, 4 and 16: with
0 rows are no better for past questions than the raw answers, and weights often do not settle; between 1 and 16 the
errors of new questions differ by less than 5% at their best alpha.
"""
_ROUNDS = 4  # corrections of negative cells, each made consistent again. Chosen; more rounds leave less below zero


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """Queries about the same attributes: the target mean of each over the rows, and the bound on its weight.

    ``noise`` is the scale of the noise in each target, b / n. ``tables`` has a line for each query with what a row in
    each cell adds; None when the queries are the cells. ``classes`` has for each attribute the class of each value
    (see the module); none are given where every value is a class. ``rows`` says which of the linear answers they are,
    in the order of the history; none are for tables.
    """

    positions: Positions
    targets: Floats
    _: KW_ONLY
    noise: Floats
    bounds: Floats
    tables: Floats | None = None
    classes: tuple[NDArray[np.intp], ...] = ()
    rows: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))

    @property
    def softness(self) -> Floats:
        """The distance from its target per unit of weight, of a query inside its bounds: k = c (b / n) / beta."""
        return np.asarray(SOFT * self.noise / self.bounds)

    def chosen(self, marks: NDArray[np.bool_]) -> Constraints:
        """Those of the queries that are marked."""
        assert self.tables is not None
        return Constraints(
            self.positions,
            self.targets[marks],
            noise=self.noise[marks],
            bounds=self.bounds[marks],
            tables=self.tables[marks],
            classes=self.classes,
            rows=self.rows[marks],
        )

    def sorting(self, shape: Sequence[int]) -> tuple[NDArray[np.intp], ...]:
        """For each attribute the class of each value; ``shape`` has the numbers of values of all attributes."""
        return self.classes or tuple(np.arange(shape[p]) for p in self.positions)

    def prior_shares(self, prior: Prior) -> Floats:
        """The share of each cell where attributes are independent."""
        parts = [
            np.bincount(classes, prior.probabilities[p])
            for p, classes in zip(self.positions, self.sorting(prior.schema.shape), strict=True)
        ]
        return np.asarray(reduce(np.multiply.outer, parts, np.array(1.0))).ravel()

    def means(self, shares: Floats) -> Floats:
        """The mean of each query, from the share of each cell."""
        return shares if self.tables is None else self.tables @ shares

    def spreads(self, shares: Floats) -> Floats:
        """The variance of each query over the rows."""
        if self.tables is None:
            return shares * (1 - shares)
        return np.maximum(np.square(self.tables) @ shares - np.square(self.tables @ shares), 0.0)

    def log_weights(self, weights: Floats) -> Floats:
        """The log-weight of each cell under the weights of the queries."""
        return weights if self.tables is None else weights @ self.tables

    def stiffness(self, shares: Floats, rounds: int = 20) -> float:
        """The largest eigenvalue of the queries' correlations; 1 for cells, as many as there are for equal queries."""
        if self.tables is None:
            return 1.0
        scales = 1 / np.sqrt(np.maximum(self.spreads(shares), 1e-12))
        vector, value = np.ones(len(scales)), 1.0
        for _ in range(rounds):
            function = self.log_weights(vector * scales)
            image = scales * self.means(shares * (function - shares @ function))
            value = float(np.linalg.norm(image))
            if value == 0:
                return 1.0
            vector = image / value
        return max(value, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Everything that the maximum entropy model is made of: constraints, prior, and about how many rows there are."""

    schema: Schema
    constraints: tuple[Constraints, ...]
    _: KW_ONLY
    prior: Prior
    size: float

    def with_alpha(self, alpha: float) -> Problem:
        """The same with other bounds: alpha over the scale of each target's noise."""
        return replace(self, constraints=tuple(replace(c, bounds=alpha / c.noise) for c in self.constraints))

    def answers(self, marks: NDArray[np.bool_]) -> Problem:
        """The same with those linear answers only that are marked, and all tables."""
        kept = [c if c.tables is None else c.chosen(marks[c.rows]) for c in self.constraints]
        return replace(self, constraints=tuple(c for c in kept if c.targets.size))


def problem(schema: Schema, measurements: Iterable[Measurement], *, total: float | None, alpha: float) -> Problem:
    """The maximum entropy problem that raw measurements of any kind pose.

    Args:
        schema: What they are about.
        measurements: Tables, contrasts and linear answers, as they were drawn.
        total: The number of rows, where that is public.
        alpha: How much the answers count against the entropy.
    """
    if not is_number(alpha) or not 0 < alpha < math.inf:
        raise QueryError(f"alpha must be a positive number, got {alpha!r}")
    given = tuple(measurements)
    measured = tuple(full_part_measured(each) for each in given if each.query.is_linear and not each.query.matrices)
    history = History(schema, given, total=total)
    tables = [m for m in measured if m.query.is_product]
    combined = _consistent(schema, tables, total)
    size = history.size
    constraints = (*_of_tables(combined, tables, size, alpha), *_of_answers(schema, history.linear, size, alpha))
    singles = [name for name in schema.names if combined.covers((name,))]
    prior = Prior.of(schema, {name: combined.table((name,)) for name in singles})
    return Problem(schema, constraints, prior=prior, size=size)


def _consistent(schema: Schema, tables: Sequence[Measurement], total: float | None) -> Estimate:
    """The least squares estimate of all raw tables, almost without negative cells, so that some distribution is near.

    Cells that are negative cannot be met. Left as they are, weights drift without end and what the cells of one large
    table cannot have is taken from all other tables.
    """
    if not tables and total is None:
        return combine(schema, tables)
    rows = None if total is None else round(total)
    return estimate(schema, tables, rows=rows, nonnegative="global", rounds=_ROUNDS)


def _of_tables(combined: Estimate, tables: Sequence[Measurement], size: float, alpha: float) -> Iterable[Constraints]:
    views = maximal_views(combined, [m.query.attributes for m in tables])
    positions = combined.schema.positions
    for names in views:
        values = combined.table(names).ravel() / size
        noise = np.full(values.size, math.sqrt(combined.variance(names) / 2) / size)
        yield Constraints(tuple(positions[name] for name in names), values, noise=noise, bounds=alpha / noise)


def _of_answers(schema: Schema, linear: Sequence[Measurement], size: float, alpha: float) -> Iterable[Constraints]:
    batch = QueryBatch.of(linear_among(m.query for m in linear), schema)
    values = np.array([float(m.values) for m in linear]) / size
    noise = np.array([_scale(m) for m in linear]) / size
    for bundle in batch.bundles:
        cells = math.prod(schema.shape[p] for p in bundle.positions)
        if cells > MAX_CELLS:
            raise TooManyCellsError(f"a question must be over at most {MAX_CELLS:,} cells, got {cells:,}")
        if bundle.positions:  # one about no attribute asks for the number of rows, which is not the distribution's
            tables, classes = _in_classes(bundle.tables)
            own = noise[bundle.rows]
            yield Constraints(
                bundle.positions,
                values[bundle.rows],
                noise=own,
                bounds=alpha / own,
                tables=tables,
                classes=classes,
                rows=bundle.rows,
            )


def _in_classes(tables: Floats) -> tuple[Floats, tuple[NDArray[np.intp], ...]]:
    """Tables (queries, values of each attribute) as (queries, cells of classes), and each attribute's classes.

    >>> tables, (first, second) = _in_classes(np.array([[[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]]))
    >>> tables.tolist(), first.tolist(), second.tolist()
    ([[1.0, 0.0, 0.0, 0.0]], [0, 1], [0, 0, 1])
    """
    classes = []
    for axis in range(1, tables.ndim):
        # Values with the same slices are one class, numbered in the order in which they appear
        numbers: dict[bytes, int] = {}
        slices = np.moveaxis(tables, axis, 0)
        own = np.array([numbers.setdefault(each.tobytes(), len(numbers)) for each in slices], np.intp)
        tables = tables.take(np.unique(own, return_index=True)[1], axis)
        classes.append(own)
    return tables.reshape(len(tables), -1), tuple(classes)


def _scale(measurement: Measurement) -> float:
    noise = measurement.noise
    if noise is not None and noise.kind is NoiseKind.LAPLACE:
        return float(noise.scale)
    return math.sqrt(measurement.variance / 2)
