"""The objective of a plan: the error of its tables, order by order, and one score for all orders.

Tables over one, two and three attributes have errors of different sizes, and there is no natural exchange rate between
them. So the error of an order is the mean over its tables of the mean squared error of a cell, weighed by the objective
(``larger``), and orders are combined
by a weighted geometric mean: reducing one order's error by 10% counts the same, whatever that error is. A consequence,
which planning uses: budget that serves one order alone is best shared in proportion to the orders' weights, under
Laplace as under Gaussian noise.

The expected error of a plan follows from its queries and noise alone; no charge depends on it. A schema's public counts
are treated as measurements that cost nothing. They are not requests: nothing is asked of the rows for them, no noise is
drawn, and the noise and cost of every request still follow from its own sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Objective
from crosstally.measurements import public_variance
from crosstally.plans.plan import Plan
from crosstally.plans.request import RequestGroup
from crosstally.query.along import AskedAlong, asked_along
from crosstally.query.ways import full_part
from crosstally.residuals.axes import Axes, linear_axes
from crosstally.residuals.mixed import MixedAxes
from crosstally.residuals.variances import Closure, MeasuredAlike, Variances, closure_of
from crosstally.schema import Schema
from crosstally.typing import Floats
from crosstally.workload import Workload

ORDERS = 4
"""Without named tables, tables of up to four attributes count. Interactions of more are too small to measure: on six
real tables their median is below 0.003 of what the one-way tables allow, a third of it with each further order."""

_SUBSETS = 800_000
"""If the tables of an order have more subsets than this together, a sample represents them: a second of planning."""


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """The tables that matter, by order: the number of their attributes.

    ``weights`` has a row for each order: what the variance of the coefficients of each set of ``closure`` counts for in
    the mean squared error of a cell. ``shares`` of the orders sum to one. ``sampled`` marks sets that only tables of a
    sample contain: there is no reason to measure these rather than sets outside the sample. ``cells`` is for each order
    the mean number of cells of its tables, without the total. ``of_tables`` has the weights of each order's tables.
    """

    orders: tuple[int, ...]
    closure: Closure
    weights: Floats
    shares: Floats
    sampled: NDArray[np.bool_]
    cells: tuple[float, ...]
    of_tables: Floats

    def errors(self, variances: Floats) -> Floats:
        """The mean squared error of each order, from that of the coefficients of each set; NaN where one is missing."""
        # A weight of zero times a variance that is not known is nothing
        return np.array([row[row > 0] @ variances[row > 0] for row in self.weights])

    def errors_of(self, variances: Variances) -> Floats:
        """The mean squared error of each order, also where an attribute is measured by a matrix."""
        if not variances.linear:
            return self.errors(variances.of_sets)
        of_tables = variances.of_tables
        return np.array([row[row > 0] @ of_tables[row > 0] for row in self.of_tables])

    def weighed(self, objective: Objective, values: Sequence[float] | None = None) -> Goal:
        """The same goal where tables of more cells count for more within their order, as the objective has it.

        ``values`` is how many values of each attribute are in use: rows of a table with few rows in most cells are in
        few cells, and noise on the others is shrunk. By default all are.
        """
        if objective == Objective.TABLES:
            return self
        used = self.closure.sizes if values is None else np.asarray(values, np.float64)
        weights = np.full(self.closure.tables, used.mean() ** larger(objective, 1))  # of the total as of an attribute
        for block in self.closure.blocks:
            if order := block.positions.shape[1]:
                weights[block.places] = used[block.positions].prod(axis=1) ** larger(objective, order)
        of_tables = self.of_tables * weights
        of_tables /= of_tables.sum(axis=1, keepdims=True)
        return replace(self, of_tables=of_tables, weights=np.array([self.closure.weights(row) for row in of_tables]))

    def score(self, errors: Floats) -> float:
        """The geometric mean of the orders' RMS errors."""
        return math.exp(float(self.shares @ np.log(np.maximum(errors, 1e-300))) / 2)


@lru_cache(maxsize=4)
def goal_of(schema: Schema, named: Workload | None) -> Goal:
    """The goal for named tables; without any, for all tables of up to four attributes. Tables of an order count alike.

    The lower tables inside named ones matter a little too, and the total counts as one of the tables over one
    attribute. Of orders above four only named tables count.
    """
    orders = _named_orders(named) if named else _all_orders(schema)
    tables = tuple(table for order in orders for table in order.tables)
    closure = Closure(schema, tables)
    ends = np.cumsum([len(order.tables) for order in orders])
    rows, of_tables = [], []
    for order, end in zip(orders, ends, strict=True):
        counts = np.zeros(len(tables))
        counts[end - len(order.tables) : end] = np.array(order.weights) / sum(order.weights)
        of_tables.append(counts)
        rows.append(closure.weights(counts))
    whole = np.zeros(len(closure), np.bool_)
    for row, order in zip(rows, orders, strict=True):
        if order.complete:
            whole |= row > 0
    numbers = tuple(max(map(len, order.tables)) for order in orders)
    cells = tuple(_mean_cells(schema, order.tables) for order in orders)
    shares = _shares([order.named for order in orders])
    return Goal(numbers, closure, np.array(rows), shares, ~whole, cells, np.array(of_tables))


def _mean_cells(schema: Schema, tables: Sequence[tuple[str, ...]]) -> float:
    counted = [math.prod(schema.sizes(table)) for table in tables if table]
    return sum(counted) / len(counted) if counted else 1.0


def _cells(schema: Schema, tables: Sequence[tuple[str, ...]]) -> Floats:
    """The number of cells of each table, relative to the mean; the total counts as an average table."""
    cells = np.array([math.prod(schema.sizes(table)) if table else np.nan for table in tables], np.float64)
    return np.nan_to_num(cells / np.nanmean(cells), nan=1.0) if len(cells) > np.isnan(cells).sum() else np.ones(1)


def weighing_tables(schema: Schema, named: Workload, objective: Objective = Objective.TABLES) -> Workload:
    """The named tables and those below them, for strategies that minimise a weighted sum of the variances of cells.

    Within an order tables count as in the goal. One-way tables, whose errors are the smallest, count ``_ONE_WAYS``
    times as much as any other order.
    """
    weights = {
        table: (_ONE_WAYS if len(table) <= 1 else 1.0) * weight / together / math.prod(schema.sizes(table))
        for order in _named_orders(named)
        for power in [larger(objective, max(map(len, order.tables)))]
        for counts in [np.array(order.weights) * _cells(schema, order.tables) ** power]
        for together in [counts.sum()]
        for table, weight in zip(order.tables, counts.tolist(), strict=True)
    }
    return Workload(weights.keys(), weights.values(), named.along)


_ONE_WAYS = 3.0
"""Chosen with a prototype on five tables under Gaussian noise, for the least regret at one and two attributes together.
Strategies that are given by name use it; the default plan does not."""


def larger(objective: Objective, order: int) -> float:
    """The power of its cells that a table's mean squared error counts with, beside others over as many attributes.

    Tables with cells of deviation s_T that are measured one by one cost sum 1 / s_T of epsilon, or sum 1 / s_T^2 of
    rho. So the power a gives s_T ~ cells^(-a/3), or cells^(-a/4). The least L1 error, sum cells s_T, has the powers 1/2
    and 1/3: a is 3/2 or 4/3. The least of the larger of both regrets has powers of .21 and .15 for the pairs of Adult,
    whose attributes differ in size: a is about .6. A larger table shares its noise with more others: with .6 triples of
    Adult's eight attributes have 1.15 times the squared error that they have with .3, and no less of L1. So "balanced"
    goes by the geometric mean of the numbers of values: a is 1/2 for pairs, 1/3 for triples.
    """
    return {Objective.TABLES: 0.0, Objective.BALANCED: 1 / max(order, 2), Objective.L1: 1.4, Objective.CELLS: 1.0}[
        objective
    ]


_LOWER = 0.05
"""What all lower orders together count for, where these are not named: enough to decide where nothing else does."""


def _shares(named: Sequence[bool]) -> Floats:
    """Every named order counts alike, but the highest makes up for those that fewer than four orders do not have."""
    wanted = np.array(named)
    parts = wanted.astype(float)
    parts[np.flatnonzero(wanted)[-1]] = max(1.0, ORDERS - (wanted.sum() - 1.0))
    parts *= (1 - (_LOWER if not wanted.all() else 0.0)) / parts.sum()
    parts[~wanted] = _LOWER / max(1, (~wanted).sum())
    return np.asarray(parts)


@dataclass(frozen=True, slots=True)
class _Order:
    tables: Sequence[tuple[str, ...]]
    weights: Sequence[float]
    complete: bool
    named: bool = True


def _all_orders(schema: Schema) -> list[_Order]:
    d = len(schema.names)
    orders = []
    for k in range(1, min(ORDERS, d) + 1):
        number, room = math.comb(d, k), _SUBSETS >> k
        if number <= room:
            tables: Iterable[tuple[int, ...]] = combinations(range(d), k)
        else:
            tables = _sample(d, k, room // 10)
        named = [tuple([schema.names[i] for i in table]) for table in tables]
        of_order = [(), *named] if k == 1 else named
        orders.append(_Order(of_order, [1.0] * len(of_order), number <= room))
    return orders


def _sample(d: int, k: int, number: int) -> list[tuple[int, ...]]:
    """Different tables over k of d attributes, the same ones each time."""
    rng = np.random.default_rng([d, k])
    drawn = np.sort(rng.random((2 * number, d)).argpartition(k, axis=1)[:, :k], axis=1)
    return [tuple(row) for row in np.unique(drawn, axis=0)[:number].tolist()]


def _named_orders(named: Workload) -> list[_Order]:
    by_order: dict[int, dict[tuple[str, ...], float]] = {}
    mean = sum(named.weights) / len(named)
    for table, weight in named:
        by_order.setdefault(len(table), {})[table] = weight / mean
    complete = dict.fromkeys(by_order, True)
    for k in sorted(by_order, reverse=True):
        room = _SUBSETS >> k
        if len(by_order[k]) > room:
            by_order[k] = _thinned(by_order[k], max(1, room // 10))
            complete[k] = False
    every: dict[int, dict[tuple[str, ...], float]] = {k: dict(tables) for k, tables in by_order.items()}
    for tables in by_order.values():
        for table in tables:
            for k in range(1, min(ORDERS, len(table) - 1) + 1):
                lower = every.setdefault(k, {})
                for part in combinations(table, k):
                    lower.setdefault(part, 1.0)
    every.setdefault(1, {})[()] = 1.0
    every.pop(0, None)
    return [
        _Order(list(every[k]), list(every[k].values()), complete.get(k, True), named=k in by_order)
        for k in sorted(every)
        if every[k]
    ]


def _thinned(tables: dict[tuple[str, ...], float], number: int) -> dict[tuple[str, ...], float]:
    """Every n-th table, in the order in which they were named."""
    kept = list(tables.items())
    return dict(kept[i] for i in np.linspace(0, len(kept) - 1, number).astype(int).tolist())


def public_tables(schema: Schema) -> list[MeasuredAlike]:
    """The tables whose counts are public, in the form of measurements."""
    out: list[MeasuredAlike] = []
    for fact in schema.public_counts():
        place = [] if fact.attribute is None else [schema.positions[fact.attribute]]
        out.append((False, np.array([place], np.intp), public_variance(fact)))
    return out


def public_precision(closure: Closure) -> Floats:
    """The precision of the coefficients of each set from public counts; zero for sets they do not contain."""
    return Variances(closure, public_tables(closure.schema)).precisions


def known_variances(plan: Plan, closure: Closure, *, public: bool = True) -> Variances:
    """The variances of the sets and tables of a closure from a plan's own stage, and from public counts if asked.

    Where an attribute is measured by a matrix, public counts are left out: errors are then at most these.
    """
    forecast = plan.forecast  # it is kept with the plan
    assert isinstance(forecast, _Forecast)
    return forecast.variances(closure, {}, public=public)


def _in_full(group: RequestGroup, schema: Schema) -> MeasuredAlike:
    """The information in similar requests about tables in full."""
    query, cells = full_part(group.query)
    if cells == 1:
        return query.is_residual, group.positions, group.noise.variance
    kept = np.array([[schema.positions[name] for name in query.attributes]], np.intp)
    return False, np.repeat(kept, len(group), axis=0), cells * group.noise.variance


class _Forecast:
    """The numbers of ``plans.plan.Forecast``, each computed when it is first needed."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def variances(self, closure: Closure, asked: Mapping[str, AskedAlong], *, public: bool) -> Variances:
        """The variances of the sets and tables of a closure, of its cells or of what is asked along attributes."""
        plan = self._plan
        measured = [_in_full(group, plan.schema) for group in plan.measuring]
        if public and not plan.mixed and not plan.matrices:
            measured += public_tables(plan.schema)
        if plan.mixed:
            held = [plan.schema.positions[name] for name in plan.mixed]
            measured = [(alone, rows[~np.isin(rows, held).any(axis=1)], v) for alone, rows, v in measured]
        return Variances(closure, measured, linear_axes(plan.matrices), asked, self._mixed)

    @cached_property
    def _mixed(self) -> MixedAxes | None:
        if not self._plan.mixed:  # requests are made one by one, and there may be very many
            return None
        return MixedAxes(
            self._plan.schema,
            [(each.query, each.noise.variance) for each in self._plan.requests if each.query.is_linear],
        )

    @cached_property
    def _asked(self) -> NDArray[np.float64]:
        """The mean variance of what is asked of each table of the workload."""
        return self.variances(self._closure, self._along, public=True).of_tables

    @cached_property
    def _along(self) -> Mapping[str, AskedAlong]:
        """What is asked along each attribute whose cells are not asked."""
        plan = self._plan
        return {name: asked_along(asked, plan.schema[name].size) for name, asked in plan.workload.along}

    @property
    def _closure(self) -> Closure:
        return closure_of(self._plan.schema, self._plan.workload.tables)

    @cached_property
    def errors(self) -> Mapping[tuple[str, ...], float]:
        return dict(zip(self._plan.workload.tables, np.sqrt(self._asked).tolist(), strict=True))

    @property
    def covers(self) -> bool:
        return not bool(np.isnan(self._asked).any())

    @cached_property
    def rms_error(self) -> float:
        return self._root_mean(np.ones(len(self._plan.workload)))

    @cached_property
    def order_errors(self) -> Mapping[int, float]:
        goal = goal_of(self._plan.schema, self._plan.workload)
        errors = np.sqrt(goal.errors_of(self.variances(goal.closure, {}, public=True)))
        return dict(zip(goal.orders, errors.tolist(), strict=True))

    @cached_property
    def score(self) -> float:
        plan = self._plan
        if plan.objective == Objective.CELLS:
            return self._root_mean(np.array(plan.workload.weights))
        goal = goal_of(plan.schema, plan.workload).weighed(plan.objective)
        return goal.score(goal.errors_of(self.variances(goal.closure, {}, public=True)))

    def _root_mean(self, weights: Floats) -> float:
        shares = weights * self._closure.cells(Axes.of(self._plan.schema, None, self._along))
        return math.sqrt(float(shares @ self._asked / shares.sum()))


Plan.forecaster = _Forecast
