"""The planner: the lowest predicted error among the strategies that cover the workload, and epsilon for a target."""

import math

import pytest

import crosstally as ct
from crosstally.errors import BudgetError, PlanError
from crosstally.strategies import Flat, Uniform
from crosstally.strategies.planner import Proposal, compare, solve_epsilon


def binary(d: int) -> ct.Schema:
    return ct.Schema([ct.Attribute(f"a{i}", ["0", "1"]) for i in range(d)])


def test_flat_wins_on_a_small_domain_and_searched_views_on_a_large_one() -> None:
    small = ct.plan(binary(6), epsilon=1.0, workload=ct.Workload.all_ways(binary(6), 3), objective="cells")
    assert small.chosen.strategy == "flat"
    large = ct.plan(binary(18), epsilon=1.0, workload=ct.Workload.all_ways(binary(18), 1), objective="cells")
    assert large.chosen.strategy == "optimum"
    assert {each.strategy for each in large.plans} >= {
        "flat",
        "views",
        "direct",
        "direct-uniform",
        "fourier",
        "uniform",
    }
    assert dict(large.refused)["residual"].startswith("residual adds Gaussian noise")
    gaussian = ct.plan(binary(18), rho=0.5, workload=ct.Workload.all_ways(binary(18), 2), objective="cells")
    assert gaussian.chosen.strategy in ("residual", "fourier")  # with two values each, they are the same plan


def test_what_cannot_plan_is_named_with_its_reason() -> None:
    comparison = ct.plan(binary(40), epsilon=1.0)
    assert comparison.chosen.strategy == "two-stage"
    assert dict(comparison.refused)["flat"].startswith("the full table has about 10^12 cells")


def test_a_strategy_that_was_asked_for_fails_with_its_own_reason() -> None:
    with pytest.raises(PlanError, match="the full table has about 10\\^12 cells"):
        ct.plan(binary(40), epsilon=1.0, strategy="flat")
    assert ct.plan(binary(4), epsilon=1.0, strategy="uniform").chosen.strategy == "uniform"


def test_nothing_covers() -> None:
    with pytest.raises(PlanError, match="no strategy that fits covers these tables"):
        compare(binary(40), Proposal(ct.Budget(epsilon=1)), strategies=[Flat(), Uniform()])
    with pytest.raises(PlanError, match="and 26 more would have 1,073,741,824 cells, at most 5,000,000 fit"):
        ct.plan(binary(40), epsilon=1.0, workload=ct.Workload([binary(40).names[:30]]))


def test_noise_that_no_sampler_has_refuses_one_strategy_and_not_all() -> None:
    """Shares that differ by 24 orders of magnitude: direct would need noise of a scale above 2^52 for one table."""
    schema = binary(3)
    workload = ct.Workload([schema.names[:1], schema.names[1:2]], weights=[1e-40, 1e40])
    comparison = ct.plan(schema, epsilon=0.001, workload=workload)
    assert "scale" in dict(comparison.refused)["direct"]
    assert comparison.chosen.covers


@pytest.mark.parametrize("rows", [-1, 1.5, True])
def test_rows_must_be_a_count(rows) -> None:
    with pytest.raises(PlanError, match="rows must be a whole number of at least 0"):
        ct.plan(binary(3), rows=rows, epsilon=1.0)


def test_epsilon_for_a_target_error() -> None:
    """One table of one binary attribute: the least epsilon, in three digits, whose noise has at most this deviation."""
    budget = solve_epsilon(binary(1), Proposal(ct.Budget(epsilon=1)), 10.0)
    scale = 1 / float(budget.epsilon)
    ratio = math.exp(-1 / scale)
    assert 2 * ratio / (1 - ratio) ** 2 <= 100 < 2 * (scale * 1.01) ** 2
    assert compare(binary(1), Proposal(budget)).chosen.rms_error <= 10


def test_targets_out_of_reach() -> None:
    with pytest.raises(BudgetError, match="is not reached with any epsilon up to 1000"):
        solve_epsilon(binary(1), Proposal(ct.Budget(epsilon=1)), 1e-300)
    with pytest.raises(BudgetError, match="the target error must be positive"):
        solve_epsilon(binary(1), Proposal(ct.Budget(epsilon=1)), 0)
