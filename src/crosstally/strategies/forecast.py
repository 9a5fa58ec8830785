"""The error to expect of a plan, from its queries and noise alone; nothing that pays looks at it.

A schema's public counts count as measurements that cost nothing. They are no requests: nothing is asked of the rows for
them, no noise is drawn, and the noise and cost of every request follow from its own sensitivity as ever.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Objective
from crosstally.measurements import public_variance
from crosstally.plans.plan import Plan
from crosstally.plans.request import RequestGroup
from crosstally.query.along import AskedAlong
from crosstally.query.ways import full_part
from crosstally.residuals.axes import Axes, linear_axes
from crosstally.residuals.closure import Closure, closure_of
from crosstally.residuals.mixed import MixedAxes
from crosstally.residuals.variances import MeasuredAlike, Variances
from crosstally.schema import Schema
from crosstally.strategies.goal import goal_of
from crosstally.typing import Floats

__all__ = ["Plan", "known_variances", "measured_variances", "public_precision", "public_tables"]


def public_tables(schema: Schema) -> list[MeasuredAlike]:
    """The tables whose counts are public, in the form of measurements."""
    out: list[MeasuredAlike] = []
    for fact in schema.public_counts():
        place = [] if fact.attribute is None else [schema.positions[fact.attribute]]
        out.append((False, np.array([place], np.intp), public_variance(fact)))
    return out


def public_precision(closure: Closure) -> Floats:
    """The precision with which public counts tell the coefficients of each set; zero for sets they do not hold."""
    return Variances(closure, public_tables(closure.schema)).precisions


def measured_variances(plan: Plan, closure: Closure) -> Variances:
    """The variances of the sets and tables of a closure, as a plan's own stage measures them."""
    return _forecast(plan).variances(closure, {}, public=False)


def known_variances(plan: Plan, closure: Closure) -> Variances:
    """The variances of the sets and tables of a closure, as a plan's own stage and public counts tell them.

    Where an attribute is measured by a matrix, public counts are left out: errors are then at most these.
    """
    return _forecast(plan).variances(closure, {}, public=True)


def _forecast(plan: Plan) -> _Forecast:
    """That of a plan, which is kept with it."""
    found = plan.forecast
    assert isinstance(found, _Forecast)
    return found


def _in_full(group: RequestGroup, schema: Schema) -> MeasuredAlike:
    """What requests that are alike say about tables in full."""
    query, cells = full_part(group.query)
    if cells == 1:
        return query.is_residual, group.positions, group.noise.variance
    kept = np.array([[schema.positions[name] for name in query.attributes]], np.intp)
    return False, np.repeat(kept, len(group), axis=0), cells * group.noise.variance


class _Forecast:
    """The numbers of ``plans.plan.Forecast``, each worked out when it is first asked for."""

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
        plan = self._plan
        return MixedAxes.of(
            plan.schema, [(each.query, each.noise.variance) for each in plan.requests] if plan.mixed else []
        )

    @cached_property
    def _asked(self) -> NDArray[np.float64]:
        """The mean variance of what is asked of each table of the workload."""
        plan = self._plan
        return self.variances(self._closure, plan.workload.asked(plan.schema), public=True).of_tables

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
        goal = goal_of(plan.schema, plan.workload)
        return goal.score(goal.errors_of(self.variances(goal.closure, {}, public=True)))

    def _root_mean(self, weights: Floats) -> float:
        schema = self._plan.schema
        shares = weights * self._closure.cells(Axes.of(schema, None, self._plan.workload.asked(schema)))
        return math.sqrt(float(shares @ self._asked / shares.sum()))


Plan.forecaster = _Forecast
