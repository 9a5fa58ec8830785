"""Strategies of one's own beside ours: the same contract, chosen by the same rule, found by name."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import pytest

import crosstally as ct
from conftest import schema_of
from crosstally.errors import PlanError
from crosstally.strategies import Cells, Contrast, Plan, Strategy, Task
from crosstally.strategies.planner import AUTO_STRATEGIES

SCHEMA = schema_of(2, 3, 2)
CHAIN = ct.Workload([("a0", "a1"), ("a1", "a2")])


@dataclass(frozen=True)
class Chain(Strategy):
    """Each attribute with the next one."""

    name: ClassVar[str] = "chain"

    def planned(self, task: Task) -> Plan:
        """All with equal shares."""
        return task.measuring(self.name, pairwise(task.schema.names))


def test_auto_stands_for_all_of_ours_and_its_choice_stays() -> None:
    found = ct.plan(SCHEMA, epsilon=1, strategies=["auto", Chain()])
    assert {each.strategy for each in found.plans} == {each.name for each in AUTO_STRATEGIES} - {"residual"} | {"chain"}
    assert found.chosen.strategy == "two-stage"
    assert [each.query for each in found["chain"].requests] == [Cells(("a0", "a1")), Cells(("a1", "a2"))]
    assert ct.plan(SCHEMA, epsilon=1, strategies=["auto"]).considered is AUTO_STRATEGIES


def test_without_auto_the_least_error_is_chosen() -> None:
    """Two tables of 6 cells share the budget in both; the full table of 12 cells has it all.

    Its tables of 6 sum two cells of noise of scale 1, variance 2 x 1.84; the others have scale 2, variance 7.8 or, with
    what they share, less than that but above 3.7.
    """
    found = ct.plan(SCHEMA, epsilon=1, workload=CHAIN, strategies=["flat", Chain()], objective="cells")
    assert found.chosen.strategy == "flat"
    assert found["chain"].rms_error > found["flat"].rms_error == pytest.approx((2 * 1.8413) ** 0.5, abs=1e-3)
    alone = ct.plan(SCHEMA, epsilon=1, strategies=[Chain()])
    assert (alone.chosen.strategy, alone.reason) == ("chain", "it was asked for")


def test_ranges_go_to_linear_strategies_of_ours() -> None:
    schema = ct.Schema([ct.Attribute("age", edges=range(9)), ct.Attribute("sex", ["f", "m"])])
    found = ct.plan(schema, epsilon=1, workload=ct.Workload.ranges(schema, "age"), strategies=["auto", Chain()])
    assert {each.strategy for each in found.plans} == {"linear", "chain"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "strategies must name at least one"),
        (["direct", "dirct"], "unknown strategy 'dirct'; did you mean 'direct'"),
    ],
)
def test_wrong_lists_are_refused(given: list[str], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        ct.plan(SCHEMA, epsilon=1, strategies=given)


def test_names_tell_plans_apart() -> None:
    @dataclass(frozen=True)
    class Other(Chain):
        """Another one of the same name."""

    with pytest.raises(PlanError, match="strategies must have different names, got 'chain' twice"):
        ct.plan(SCHEMA, epsilon=1, strategies=[Chain(), Other()])
    with pytest.raises(PlanError, match="say one strategy, or several strategies, not both"):
        ct.plan(SCHEMA, epsilon=1, strategy="flat", strategies=["direct"])
    found = ct.plan(SCHEMA, epsilon=1, strategies=["auto", "direct", Chain(), Chain()])
    assert [each.strategy for each in found.plans].count("chain") == 1
    with pytest.raises(PlanError, match="no strategy 'chian' was compared; did you mean 'chain'"):
        found["chian"]
    with pytest.raises(PlanError, match="residual has no plan: residual adds Gaussian noise"):
        found["residual"]


def test_any_query_can_have_a_share() -> None:
    """A third of rho for the contrast of two values, whose squared sensitivity is 1: scale sqrt(3 / (2 x 1/8))."""
    task = Task(SCHEMA, None, budget=ct.Budget(rho="1/8"), neighbours=ct.Neighbours.ADD_REMOVE)
    plan = task.asking("mine", [Contrast(("a0",)), Cells(("a1",))], [1, 2])
    assert plan.requests[0].noise.scale == pytest.approx(12**0.5)
    assert plan.requests[1].noise.scale == pytest.approx(6**0.5)
    assert plan.cost <= task.budget.amount
