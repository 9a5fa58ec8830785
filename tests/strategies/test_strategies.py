"""Strategies and plans: literals of the papers, exact costs, JSON both ways."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.errors import BudgetError, PlanError, QueryError, TooManyCellsError
from crosstally.measurements import Measurement
from crosstally.plans.joint_cost import privacy_cost
from crosstally.query.queries import Cells
from crosstally.schema import Attribute, Schema, Unit
from crosstally.strategies import NAMED, Direct, Flat, Plan, Request, Uniform, named
from crosstally.workload import Workload

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE


def binary(d: int, unit: Unit | None = None) -> Schema:
    return Schema([Attribute(f"a{i}", ["0", "1"]) for i in range(d)], unit)


def continuous(plan: Plan) -> float:
    """The sum of the papers' variances 2 b^2 over all cells of the workload, each read from its own table."""
    cells = (math.prod(plan.schema.sizes(r.query.attributes)) for r in plan.requests)
    return sum(n * 2 * r.noise.scale**2 for n, r in zip(cells, plan.requests, strict=True))


A_AND_AB = Workload([("a0",), ("a0", "a1")])


def test_uniform_and_optimal_budgets_of_the_icde_example() -> None:
    """48 with uniform budgets, 46.168 = (4^(1/3) + 8^(1/3))^3 with optimal ones."""
    schema, budget = binary(3), Budget(epsilon=1)
    assert continuous(Direct(budgets="uniform").plan(schema, A_AND_AB, budget)) == pytest.approx(48)
    assert continuous(Direct(budgets="optimal").plan(schema, A_AND_AB, budget)) == pytest.approx(46.168, abs=5e-4)


def test_optimal_gaussian_budgets() -> None:
    """Minimise 2 / r + 4 / (rho - r): r proportional to sqrt(2) and sqrt(4); least sum (sqrt 2 + 2)^2 / (2 rho)."""
    plan = Direct().plan(binary(3), A_AND_AB, Budget(rho=0.5))
    variances = sum(n * r.noise.scale**2 for n, r in zip((2, 4), plan.requests, strict=True))
    assert variances == pytest.approx((math.sqrt(2) + 2) ** 2, rel=1e-9)


def test_weights_ask_for_accuracy() -> None:
    heavy = Direct().plan(binary(3), Workload([("a0",), ("a1",)], [27, 1]), Budget(epsilon=1))
    assert heavy.requests[1].noise.scale / heavy.requests[0].noise.scale == pytest.approx(3)


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
@pytest.mark.parametrize("unit", [None, Unit("id", 3)])
@pytest.mark.parametrize("budget", [Budget(epsilon=0.7), Budget(rho="1/3"), Budget(epsilon=1, delta=1e-6)])
@pytest.mark.parametrize("strategy", [Flat(), Direct(), Direct(budgets="uniform")])
def test_plans_cost_what_was_said_and_hardly_less(strategy, budget, unit, neighbours) -> None:
    plan = strategy.plan(binary(4, unit), Workload.up_to(binary(4), 2), budget, neighbours=neighbours)
    assert budget.amount * Fraction("0.999999") < plan.cost <= budget.amount


def test_scales_by_hand() -> None:
    """One unit of up to m rows, w tables: add-remove L1 = m w, L2 = m sqrt(w); replace 2 m w and m sqrt(2 w)."""
    workload = Workload.all_ways(binary(4), 2)  # w = 6
    for unit, m in ((None, 1), (Unit("id", 3), 3)):
        for neighbours, l1, l2 in ((ADD, m * 6, m * math.sqrt(6)), (REPLACE, 2 * m * 6, m * math.sqrt(12))):
            schema = binary(4, unit)
            laplace = Direct().plan(schema, workload, Budget(epsilon=0.5), neighbours=neighbours)
            gaussian = Direct().plan(schema, workload, Budget(rho=0.5), neighbours=neighbours)
            assert {r.noise.scale for r in laplace.requests} == {l1 / 0.5}
            assert [r.noise.scale for r in gaussian.requests] == pytest.approx([l2] * 6)


def test_errors_of_flat_and_direct_by_hand() -> None:
    """Flat sums 2^(d-k) noisy cells; the pairs of Direct share their totals and one-way tables by least squares."""
    noise = Noise(NoiseKind.LAPLACE, 1.0).variance
    flat = Flat().plan(binary(4), Workload([("a0",), ("a0", "a1")]), Budget(epsilon=1))
    assert flat.errors[("a0",)] == pytest.approx(math.sqrt(8 * noise))
    assert flat.errors[("a0", "a1")] == pytest.approx(math.sqrt(4 * noise))
    pairs = Direct().plan(binary(4), Workload.all_ways(binary(4), 2), Budget(epsilon=1))
    one = Noise(NoiseKind.LAPLACE, 6.0).variance
    # per cell: interaction 1/4, two main effects each seen in 3 of 6 tables, total in all 6
    assert pairs.rms_error == pytest.approx(math.sqrt(one * (1 / 4 + 2 / 4 / 3 + 1 / 4 / 6)))


def test_uniform_measures_nothing_and_covers_nothing() -> None:
    plan = Uniform().plan(binary(4), None, Budget(epsilon=1))
    assert (plan.requests, plan.cost, plan.cells, plan.covers) == ((), 0, 0, False)
    assert math.isnan(plan.rms_error)


def test_one_stage_strategies_have_nothing_more_to_ask() -> None:
    noise = Noise(NoiseKind.LAPLACE, 1.0)
    seen = Measurement(Cells(("a0",)), np.array([1, 2]), variance=noise.variance, noise=noise, origin="test")
    for strategy in NAMED.values():
        if strategy.name in ("two-stage", "mwem", "adaptive"):
            continue
        plan = strategy.plan(binary(3), None, Budget(rho=1))
        assert plan.later == ()
        assert strategy.name == "views" or strategy.next(plan, [seen]) is None
        assert strategy.with_rows(9).plan(binary(3), None, Budget(rho=1)) == plan


def test_flat_refuses_a_domain_that_is_too_large() -> None:
    with pytest.raises(TooManyCellsError, match="the full table has 1,048,576 cells, and flat is limited to 500,000"):
        Flat().plan(binary(20), None, Budget(epsilon=1))
    assert Flat(max_cells=5_000_000).plan(binary(20), None, Budget(epsilon=1)).cells == 2**20
    with pytest.raises(TooManyCellsError, match="about 10\\^60 cells"):
        Flat().plan(binary(200), None, Budget(epsilon=1))
    with pytest.raises(TooManyCellsError, match="max_cells must be from 1 to 5,000,000"):
        Flat(max_cells=5_000_001)


def test_a_plan_of_too_many_cells_is_refused() -> None:
    wide = Schema([Attribute(n, [str(i) for i in range(3000)]) for n in "ab"])
    with pytest.raises(TooManyCellsError, match="a x b would have 9,000,000 cells, at most 5,000,000 fit"):
        Direct().plan(wide, Workload([("a", "b")]), Budget(epsilon=1))


def test_plan_files_both_ways(tmp_path) -> None:
    plan = Direct().plan(binary(4, Unit("id", 2)), Workload.up_to(binary(4), 2), Budget(rho="1/3"), neighbours=REPLACE)
    plan.save(tmp_path / "p.json")
    assert Plan.load(tmp_path / "p.json") == plan


def changed_plan(**changes) -> dict:
    plan = Direct().plan(binary(3), None, Budget(epsilon=1)).to_dict()
    return json.loads(json.dumps({**plan, **changes}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"crosstally-plan": 2}, "not a crosstally plan of format 1"),
        ({"crosstally-plan": True}, "not a crosstally plan of format 1"),
        ({"budget": {"epsilon": "0.1"}}, "the plan costs more than its budget of ε = 0.1"),
        ({"neighbours": "replace"}, "the plan costs more than its budget of ε = 1"),
        ({"neighbours": "swap"}, "must name its strategy and its neighbours"),
        ({"requests": {}}, "requests and later stages must be lists"),
        ({"requests": [{}]}, "each request must be an object with query and noise"),
        ({"extra": 1}, "a plan must have exactly the fields"),
    ],
)
def test_forged_plans_are_refused(changes, message) -> None:
    with pytest.raises(PlanError, match=message):
        Plan.from_dict(changed_plan(**changes))


def test_every_field_of_a_plan_is_there() -> None:
    for field in (whole := changed_plan()):
        with pytest.raises(PlanError, match=r"exactly the fields|not a crosstally plan"):
            Plan.from_dict({name: value for name, value in whole.items() if name != field})


def test_plan_files_that_are_none(tmp_path) -> None:
    with pytest.raises(PlanError, match="cannot read the plan .* No such file"):
        Plan.load(tmp_path / "none.json")
    (tmp_path / "p.json").write_text("{")
    with pytest.raises(PlanError, match="it is not JSON"):
        Plan.load(tmp_path / "p.json")
    (tmp_path / "p.json").write_text(json.dumps(changed_plan(requests=[{"query": {"cells": ["zz"]}, "noise":
        {"kind": "laplace", "scale": 100.0}}])))  # fmt: skip
    with pytest.raises(PlanError, match="unknown attribute 'zz'"):
        Plan.load(tmp_path / "p.json")


def test_gaussian_noise_is_not_paid_with_pure_epsilon() -> None:
    request = Request(Cells(("a0",)), Noise(NoiseKind.GAUSSIAN, 100.0))
    with pytest.raises(BudgetError, match="Gaussian noise cannot be paid with a pure epsilon"):
        privacy_cost([request], binary(1), ADD, currency="epsilon")


def test_laplace_in_rho_counts_half_the_square_of_epsilon() -> None:
    request = Request(Cells(("a0",)), Noise(NoiseKind.LAPLACE, 2.0))
    assert privacy_cost([request] * 3, binary(1), ADD, currency="rho") == Fraction(3, 8)


def test_strategies_by_name() -> None:
    assert named("flat") == Flat()
    assert named("direct-uniform") == Direct(budgets="uniform")
    with pytest.raises(PlanError, match="unknown strategy 'direkt'; did you mean 'direct'"):
        named("direkt")
    with pytest.raises(PlanError, match="budgets must be uniform or optimal, got 'best'"):
        Direct(budgets="best")
    with pytest.raises(QueryError, match="unknown attribute"):
        Direct().plan(binary(2), Workload([("zz",)]), Budget(epsilon=1))
