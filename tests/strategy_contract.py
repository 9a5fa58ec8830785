"""What every strategy must do, whoever wrote it: inherit from ``StrategyContract`` and give a fixture ``strategy``.

Costs are compared with brute force over every pair of neighbouring tables, coverage and errors with least squares over
matrices that are written out number by number.
"""

from __future__ import annotations

import inspect
import json
import math
from dataclasses import fields, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from conftest import schema_of
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.errors import BudgetError, CrosstallyError, PlanError
from crosstally.measurements import Measurement
from crosstally.plans.plan import Plan
from crosstally.query.queries import Cells
from crosstally.schema import Outside, Unit
from crosstally.strategies import Strategy, Task
from crosstally.workload import Workload
from reference_privacy import answer, brute_force_spent

__all__ = ["BUDGETS", "StrategyContract"]

BUDGETS = {
    "epsilon": Budget(epsilon="0.7"),
    "rho": Budget(rho="1/3"),
    "epsilon and delta": Budget(epsilon=1, delta="1e-6"),
}


TOY = schema_of(2, 3, 2)
TABLES = Workload([("a0",), ("a1", "a2")], [2, 1])
UNITS = {
    "rows": schema_of(2, 3),
    "rows that may be dropped": schema_of(2, 3, outside=Outside.DROP),
    "units of up to 2 rows": schema_of(2, 3, unit=Unit("id", 2)),
}


class StrategyContract:
    """The contract. ``pays`` are the kinds of budget that the strategy can plan for."""

    pays: tuple[str, ...] = tuple(BUDGETS)

    @pytest.fixture(params=tuple(BUDGETS))
    def budget(self, request: pytest.FixtureRequest, strategy: Strategy) -> Budget:
        """Each budget; where the strategy cannot be paid with it, it says so by name, and the test goes on with rho."""
        given = BUDGETS[request.param]
        if request.param in self.payable(strategy):
            return given
        with pytest.raises(PlanError, match=strategy.name):
            strategy.plan(TOY, None, given)
        return BUDGETS["rho"]

    @pytest.fixture(params=list(Neighbours), ids=str)
    def relation(self, request: pytest.FixtureRequest) -> Neighbours:
        relation: Neighbours = request.param
        return relation

    def payable(self, strategy: Strategy) -> tuple[str, ...]:
        """The budgets that this strategy can be paid with."""
        return self.pays

    @pytest.mark.parametrize("workload", [None, TABLES], ids=["default", "named"])
    def test_it_costs_at_most_the_budget_for_what_was_asked(self, strategy, budget, relation, workload) -> None:
        plan = strategy.plan(TOY, workload, budget, neighbours=relation)
        assert plan.cost <= plan.own_budget.amount
        assert sum(each.amount for each in plan.stage_budgets) <= budget.amount
        assert (plan.schema, plan.budget, plan.neighbours, plan.strategy) == (TOY, budget, relation, strategy.name)
        assert plan.workload == (workload or Workload.small_tables(TOY)).for_schema(TOY)

    def test_the_same_again_and_through_a_file(self, strategy, budget, relation) -> None:
        plan = strategy.plan(TOY, TABLES, budget, neighbours=relation)
        assert strategy.plan(TOY, TABLES, budget, neighbours=relation).to_dict() == plan.to_dict()
        read = Plan.from_dict(json.loads(json.dumps(plan.to_dict())))
        assert (read, read.cost, read.to_dict()) == (plan, plan.cost, plan.to_dict())
        assert list(read.errors.values()) == pytest.approx(list(plan.errors.values()), rel=1e-12, nan_ok=True)

    @pytest.mark.parametrize("about", UNITS)
    def test_the_cost_charged_is_attained_or_above(self, strategy, budget, relation, about) -> None:
        """By brute force; equal where rows are added, never below where they are replaced."""
        plan = strategy.plan(UNITS[about], None, budget, neighbours=relation)
        attained = brute_force_spent(budget, plan.schema, plan.requests, plan.neighbours)
        assert plan.cost >= attained
        doubles = Fraction(1, 10**12) if budget.currency == "mu2" else 0
        assert plan.cost <= attained * (1 + doubles) or relation == Neighbours.REPLACE

    def test_it_covers_a_table_or_says_that_it_does_not(self, strategy, budget, relation) -> None:
        plan = strategy.plan(TOY, None, budget, neighbours=relation)
        for names, error in plan.errors.items():
            assert error == pytest.approx(least_squares_error(plan, names), rel=1e-8, nan_ok=True)
        assert plan.covers == (not any(map(math.isnan, plan.errors.values())))

    def test_it_is_told_no_data(self, strategy) -> None:
        """Only public things: a schema, tables that matter, a budget and a relation; later stages what was measured."""
        known = ["schema", "asked", "budget", "neighbours", "units", "measures", "objective"]
        assert [each.name for each in fields(Task)] == known
        assert list(inspect.signature(strategy.planned).parameters) == ["task"]
        assert list(inspect.signature(strategy.next).parameters) == ["plan", "seen"]
        assert list(inspect.signature(strategy.with_rows).parameters) == ["rows"]

    def test_a_relation_may_be_given_by_its_text(self, strategy, relation) -> None:
        budget = BUDGETS["rho"]
        by_text = strategy.plan(TOY, None, budget, neighbours=str(relation.value))
        assert by_text.to_dict() == strategy.plan(TOY, None, budget, neighbours=relation).to_dict()
        for wrong in ("REPLACE", "", None):
            with pytest.raises(BudgetError, match="neighbours must be add-remove or replace"):
                strategy.plan(TOY, None, budget, neighbours=wrong)

    def test_a_draft_is_planned_as_any_schema_and_stays_a_draft(self, strategy, budget) -> None:
        draft = replace(TOY, draft=True)
        plan = strategy.plan(draft, TABLES, budget)
        assert plan.schema.draft
        assert plan.requests == strategy.plan(TOY, TABLES, budget).requests

    def test_one_attribute(self, strategy, budget, relation) -> None:
        plan = strategy.plan(schema_of(3), None, budget, neighbours=relation)
        assert plan.cost <= plan.own_budget.amount
        assert list(plan.errors) == [("a0",)]
        assert Plan.from_dict(plan.to_dict()) == plan

    def test_a_unit_of_several_rows_needs_that_much_more_noise(self, strategy, budget) -> None:
        """All its rows may sit in one cell: m times the scale, for Laplace and for Gaussian noise.

        By mu^2 nearly so: that of a move by one is 1 / (scale^2 - 1 / 12), hardly.
        """
        one = strategy.plan(schema_of(2, 3), None, budget)
        many = strategy.plan(schema_of(2, 3, unit=Unit("id", 5)), None, budget)
        assert [r.query for r in many.requests] == [r.query for r in one.requests]
        expected = [5 * r.noise.scale for r in one.requests]
        assert [r.noise.scale for r in many.requests] == pytest.approx(
            expected, rel=1e-6 if budget.rule is None else 1e-2
        )
        single = [
            m.noise.unit_cost(budget.currency) / o.noise.unit_cost(budget.currency)
            for m, o in zip(many.requests, one.requests, strict=True)
        ]
        assert [float(part) for part in single] == pytest.approx(
            [1 / 5 if budget.pure else 1 / 25] * len(single), rel=1e-6
        )

    def test_unknown_attributes_are_refused(self, strategy) -> None:
        with pytest.raises(CrosstallyError, match="unknown attribute 'zz'"):
            strategy.plan(TOY, Workload([("zz",)]), BUDGETS["rho"])

    def test_a_plan_of_one_stage_has_nothing_after_it(self, strategy) -> None:
        plan = strategy.plan(TOY, None, BUDGETS["rho"])
        total = Measurement(Cells(()), np.array(9), variance=1.0, noise=Noise(NoiseKind.GAUSSIAN, 1.0), origin="test")
        assert plan.later or strategy.name == "views" or strategy.next(plan, [total]) is None
        assert plan.share == 1 - sum((rule.share for rule in plan.later), Fraction(0))


def least_squares_error(plan: Plan, names: tuple[str, ...]) -> float:
    """The RMS error of a table's cells by generalised least squares over all requests; NaN where it does not follow."""
    given = plan.schema.to_dict()
    cells = list(product(*map(range, plan.schema.shape)))

    def columns(query: dict[str, Any]) -> np.ndarray[Any, Any]:
        return np.array([answer(query, given, (cell,)) for cell in cells], float).T

    wanted = columns({"cells": list(names)})
    # what no unit can move has next to no noise: a variance that matters to no digit compared keeps the matrix sound
    least = 1e-10 * max((r.noise.variance for r in plan.requests), default=1.0)
    weighted = [columns(r.query.to_dict()) / math.sqrt(max(r.noise.variance, least)) for r in plan.requests]
    asked = np.vstack([np.zeros((1, len(cells))), *weighted])
    recovery = wanted @ np.linalg.pinv(asked, rcond=1e-9)
    if not np.allclose(recovery @ asked, wanted, atol=1e-7):
        return math.nan
    return math.sqrt(float((recovery**2).sum(axis=1).mean()))
