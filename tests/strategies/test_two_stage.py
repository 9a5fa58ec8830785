"""Two-stage: its goal, and what it plans."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from crosstally.budget import Budget, Neighbours, NoiseKind, Objective
from crosstally.measurements import Measurement
from crosstally.plans.plan import Plan
from crosstally.query.queries import Cells
from crosstally.strategies import TwoStage
from crosstally.strategies.goal import goal_of, weighing_tables
from crosstally.strategies.planner import Proposal, compare
from crosstally.strategies.rules import next_stage, outlook
from crosstally.strategies.view_shares import known_sizes
from simulated import margin, noise_of, people, schema_of

RHO, PURE = ct.Budget(rho=Fraction(1, 10)), ct.Budget(epsilon=1)


def measured(rng: np.random.Generator, full: np.ndarray, plan: Plan) -> list[Measurement]:
    """What a plan's requests get, with noise of numpy's."""
    out = []
    for request in plan.requests:
        axes = plan.schema.positions
        exact = request.query.answer(margin(full, sorted(axes[name] for name in request.query.attributes)))
        noisy = np.asarray(exact + noise_of(rng, request.noise, exact.shape))
        out.append(Measurement(request.query, noisy, variance=request.noise.variance, noise=request.noise, origin="t"))
    return out


def staged(schema: ct.Schema, budget: ct.Budget, full: np.ndarray, workload: ct.Workload | None = None) -> list[Plan]:
    first = TwoStage().plan(schema, workload, budget)
    second = next_stage(first, measured(np.random.default_rng(5), full, first))
    assert second is not None
    return [first, second]


# The goal


def test_the_goal_weighs_tables_of_an_order_alike_by_hand() -> None:
    schema = schema_of(2, 4)
    goal = goal_of(schema, None)
    assert goal.shares.tolist() == [0.25, 0.75]  # the pair makes up for two orders that are not there
    # Order 1 is the total, a0 and a1, a third each: variance of a cell of a0 = total / 4 + effect x 1/2, of a1 =
    # total / 16 + effect x 3/4. The pair: total / 64 + a0 x 1/2 / 16 + a1 x 3/4 / 4 + both x 3/8.
    by_set = {len(p[0]): (places, p) for places, p in goal.closure.members}
    total, ones, both = (by_set[k][0] for k in (0, 1, 2))
    assert goal.weights[0][total[0]] == pytest.approx((1 + 1 / 4 + 1 / 16) / 3)
    assert goal.weights[0][ones].tolist() == pytest.approx([1 / 6, 1 / 4])
    assert goal.weights[1][ones].tolist() == pytest.approx([1 / 32, 3 / 16])
    assert goal.weights[1][both[0]] == pytest.approx(3 / 8)
    assert goal.score(np.array([16.0, 81.0])) == pytest.approx(4**0.25 * 9**0.75)


def test_naming_tables_adds_those_below_with_a_twentieth_for_all_of_them() -> None:
    schema = schema_of(2, 3, 2, 5)
    for k, shares in ((1, [1.0]), (2, [0.05, 0.95]), (3, [0.025, 0.025, 0.95]), (4, [0.05 / 3] * 3 + [0.95])):
        assert goal_of(schema, ct.Workload.all_ways(schema, k)).shares.tolist() == pytest.approx(shares)
    for k, shares in ((2, [0.25, 0.75]), (3, [0.25, 0.25, 0.5])):
        assert goal_of(schema, ct.Workload.up_to(schema, k)).shares.tolist() == pytest.approx(shares)
    weighed = dict(weighing_tables(schema, ct.Workload([("a0", "a1")], [7.0])))
    assert set(weighed) == {(), ("a0",), ("a1",), ("a0", "a1")}
    assert weighed["a0", "a1"] == pytest.approx(1 / 6)  # the only table of its order, of 6 cells
    assert weighed["a0",] == pytest.approx(3 / 3 / 2)  # one of three of order 1, which counts three times


def test_larger_tables_count_for_more_as_the_objective_has_it() -> None:
    """Pairs of 6, 8 and 12 cells; the second attribute has 3 values, of which rows are on 1.5, by effective numbers."""
    schema = schema_of(2, 3, 4)
    plain = goal_of(schema, ct.Workload.all_ways(schema, 2))
    assert plain.of_tables[1][plain.of_tables[1] > 0].tolist() == pytest.approx([1 / 3] * 3)
    weighed = plain.weighed(Objective.CELLS)
    assert weighed.of_tables[1][weighed.of_tables[1] > 0].tolist() == pytest.approx([6 / 26, 8 / 26, 12 / 26])
    used = plain.weighed(Objective.CELLS, [2, 1.5, 4])
    assert used.of_tables[1][used.of_tables[1] > 0].tolist() == pytest.approx([3 / 17, 8 / 17, 6 / 17])
    balanced = plain.weighed(Objective.BALANCED)
    powers = np.array([6.0, 8.0, 12.0]) ** 0.5
    assert balanced.of_tables[1][balanced.of_tables[1] > 0].tolist() == pytest.approx((powers / powers.sum()).tolist())
    assert weighed.weights[1] == pytest.approx(plain.closure.weights(weighed.of_tables[1]))


def test_one_way_tables_that_were_not_asked_for_only_decide() -> None:
    """A twentieth is enough for many rows, and all else goes to the pairs; of few rows a quarter is looked at."""
    schema = schema_of(*[3] * 6)
    plan = TwoStage().plan(schema, ct.Workload.all_ways(schema, 2), PURE)
    assert [plan.share, *(rule.share for rule in plan.later)] == [Fraction(1, 20), Fraction(1, 5), Fraction(3, 4)]
    many = measured(np.random.default_rng(1), people(np.random.default_rng(0), schema.shape, 200_000, 0.3), plan)
    at_once = next_stage(plan, many)
    assert at_once is not None
    assert at_once.later == ()
    assert at_once.own_budget.amount == Fraction(19, 20) * plan.budget.amount
    few = measured(np.random.default_rng(1), people(np.random.default_rng(0), schema.shape, 200, 0.3), plan)
    looked = next_stage(plan, few)
    assert looked is not None
    assert {len(request.query.attributes) for request in looked.requests} <= {0, 1, 2}
    assert [rule.share for rule in looked.later] == [Fraction(3, 4) / Fraction(19, 20)]


# What plans measure


def test_of_many_rare_values_wide_views_are_measured() -> None:
    """A few wide views are better than pairs: inference knows that most of their cells are small."""
    schema = schema_of(*[2] * 12)
    rng = np.random.default_rng(3)
    codes = rng.random((20_000, 12)) < 0.08
    full = np.bincount(codes @ (1 << np.arange(12)), minlength=2**12).reshape(schema.shape)
    plan = TwoStage().plan(schema, None, Budget(epsilon="0.2"))
    seen = measured(np.random.default_rng(5), full, plan)
    second = next_stage(plan, seen)
    assert second is not None
    assert max(len(request.query.attributes) for request in second.requests) > 2


@pytest.mark.parametrize(
    ("relation", "number", "best"), [("add-remove", 8, 107.85), ("replace", 4, 128.0)], ids=["add-remove", "replace"]
)
def test_one_way_tables_have_at_most_twice_the_error_of_the_best_noise_for_them(
    relation: str, number: int, best: float
) -> None:
    """Attributes of six values, epsilon 1 and delta 1e-9: for one-way tables alone Laplace noise is best.

    Eight tables, or four if rows are replaced, have Laplace noise of scale 8: cells of variance 128. The total has
    6 x 128 / 8 = 96 (of four tables 192) and a cell 5/6 x 128 + 96 / 36 (192 / 36); ``best`` is the mean of the total
    and the tables.
    """
    schema, budget = schema_of(*[6] * number), ct.Budget(epsilon=1, delta="1e-9", rule="rho")
    plan = TwoStage().plan(schema, None, budget, neighbours=Neighbours(relation))
    limit = 2 * math.sqrt(best)
    (rule,) = plan.later
    assert float(str(rule.parameters["one_ways"])) == pytest.approx(limit, rel=0.005)
    before = replace(plan, later=(replace(rule, parameters={"named": False}),))
    full = people(np.random.default_rng(3), schema.shape, 1_000_000, 1.0)
    seen = measured(np.random.default_rng(5), full, plan)
    errors = []
    for each in (plan, before):
        second = next_stage(each, seen)
        assert second is not None
        assert float(each.budget_left.amount) * 0.97 < second.cost <= each.budget_left.amount
        assert any(len(request.query.attributes) == 2 for request in second.requests)
        together = replace(each, requests=(*each.requests, *second.requests), later=())
        errors.append(together.order_errors[1])
    assert errors[0] == pytest.approx(limit, rel=0.05)  # precisions are rounded
    assert errors[1] > 1.1 * limit


def test_a_limit_of_one_way_tables_is_kept_in_the_plan_and_must_be_a_number(tmp_path: Path) -> None:
    schema = schema_of(*[6] * 8)
    plan = TwoStage().plan(schema, None, ct.Budget(epsilon=1, delta="1e-9"))
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json").later == plan.later
    assert "one_ways" not in TwoStage().plan(schema, None, RHO).later[0].parameters  # rho alone has no Laplace part
    forged = replace(plan, later=(replace(plan.later[0], parameters={"named": False, "one_ways": "-1"}),))
    with pytest.raises(ct.CrosstallyError, match="one_ways must be positive, got -1"):
        outlook(forged)


def test_one_way_tables_of_binary_attributes_are_measured_together_under_laplace_noise() -> None:
    """Four tables of three, each with epsilon 1/4 and noise of variance 32, below a table each.

    The difference of an attribute's two cells has the variance 8 x 32, the total 8 x 32 / 4, a cell a quarter of both
    together, 80; the total counts as a thirteenth table. With a table each a cell has (2 x 288 + 48) / 4 = 156.
    """
    schema = schema_of(*[2] * 12)
    plan = TwoStage().plan(schema, ct.Workload.all_ways(schema, 1), PURE)
    assert {len(request.query.attributes) for request in plan.requests} == {3}
    assert plan.cost == 1
    assert plan.order_errors[1] == pytest.approx(math.sqrt((12 * 80 + 64) / 13), rel=0.01)


# Plans


@pytest.mark.parametrize("budget", [RHO, PURE], ids=str)
@pytest.mark.parametrize("relation", list(ct.Neighbours))
def test_both_stages_cost_the_budget_and_no_more(budget: ct.Budget, relation: ct.Neighbours) -> None:
    schema = schema_of(2, 3, 4, 2)
    full = people(np.random.default_rng(3), schema.shape, 20_000, 0.5)
    first = TwoStage().plan(schema, None, budget, neighbours=relation)
    assert [str(rule.share) for rule in first.later] == ["3/4"]
    second = next_stage(first, measured(np.random.default_rng(1), full, first))
    assert second is not None
    assert first.cost + second.cost <= budget.amount
    assert first.cost + second.cost > budget.amount * Fraction(98, 100)
    kind = NoiseKind.LAPLACE if budget.pure else NoiseKind.GAUSSIAN
    assert {request.noise.kind for plan in (first, second) for request in plan.requests} == {kind}


def test_every_measured_set_has_its_subsets_measured() -> None:
    schema = schema_of(2, 3, 4, 2, 3)
    plans = staged(schema, RHO, people(np.random.default_rng(3), schema.shape, 50_000, 1.0))
    sets = {frozenset(request.query.attributes) for plan in plans for request in plan.requests}
    assert any(len(one) == 3 for one in sets)
    assert all(one - {name} in sets for one in sets for name in one)


def test_interactions_too_small_for_their_noise_are_not_measured() -> None:
    schema = schema_of(2, 3, 4, 2, 3)
    rng = np.random.default_rng(3)
    many = staged(schema, RHO, people(rng, schema.shape, 1_000_000, 0.5), ct.Workload.all_ways(schema, 3))[1]
    few = staged(schema, RHO, people(rng, schema.shape, 40, 0.5), ct.Workload.all_ways(schema, 3))[1]
    orders = [[len(request.query.attributes) for request in plan.requests] for plan in (few, many)]
    assert 3 not in orders[0]
    assert orders[1].count(3) == 10


def test_a_single_named_table_is_measured_at_once_with_everything() -> None:
    schema = schema_of(4, 3, 5)
    plan = TwoStage().plan(schema, ct.Workload([("a0", "a2")]), PURE)
    assert not plan.later
    assert [request.query for request in plan.requests if len(request.query.attributes) == 2] == [Cells(("a0", "a2"))]
    assert plan.cost == 1


def test_only_attributes_of_named_tables_are_measured() -> None:
    schema = schema_of(2, 3, 4, 2)
    for budget in (RHO, PURE):
        plan = TwoStage().plan(schema, ct.Workload.all_ways(schema.subset("a0", "a1", "a2"), 2), budget)
        assert {name for r in outlook(plan).requests for name in r.query.attributes} == {"a0", "a1", "a2"}


def test_an_outlook_covers_what_was_named_and_spends_the_same() -> None:
    schema = schema_of(2, 3, 4, 2, 3)
    for budget in (RHO, PURE):
        for named in (None, ct.Workload.all_ways(schema, 3)):
            plan = TwoStage().plan(schema, named, budget)
            seen = outlook(plan)
            assert plan.later
            assert not seen.later
            assert seen.covers
            assert seen.cost <= budget.amount


# The planner


def test_laplace_noise_is_taken_for_few_tables_and_gaussian_for_many() -> None:
    """With epsilon 1 and delta 1e-9, Laplace noise wins below about epsilon^2 / (4 rho), 17, unrelated tables."""
    few, many = schema_of(3, 4), schema_of(*[3] * 30)
    budget = ct.Budget(epsilon=1, delta=1e-9)
    pure = compare(few, Proposal(budget, named=ct.Workload([("a0", "a1")]))).chosen
    assert (pure.budget, pure.cost) == (ct.Budget(epsilon=1), 1)
    assert compare(many, Proposal(budget, ways=1)).chosen.budget == budget
    in_rho = compare(few, Proposal(budget, named=ct.Workload([("a0", "a1")])), currency="rho").chosen
    if in_rho.budget.pure:
        assert in_rho.budget.amount**2 / 2 <= budget.counted_in("rho").amount


def test_a_release_in_a_ledger_of_rho_never_costs_more_than_its_rho(tmp_path: Path) -> None:
    schema = schema_of(2, 3)
    rows = pa.table({"a0": ["0", "1", "1"], "a1": ["2", "2", "0"]})
    given = {"epsilon": 1, "delta": 1e-9}
    cap = ct.Budget(rho=ct.Budget(**given, rule="rho").amount)
    ct.Ledger.create(tmp_path / "l", schema=schema, budget=cap)
    ct.release(rows, schema, epsilon=1, delta=1e-9, workload=ct.Workload([("a0",)]), ledger=tmp_path / "l")
    spent = ct.Ledger.open(tmp_path / "l").spent
    assert cap.amount * Fraction(98, 100) < spent <= cap.amount


def test_without_a_ledger_the_statement_says_pure_epsilon_where_laplace_noise_was_better() -> None:
    schema = schema_of(2, 3)
    rows = pa.table({"a0": ["0", "1", "1"], "a1": ["2", "2", "0"]})
    released = ct.release(rows, schema, epsilon=1, delta=1e-9, workload=ct.Workload([("a0", "a1")]))
    assert released.statement.budget == ct.Budget(epsilon=1)


def test_rms_error_is_of_the_named_tables_and_the_score_of_all_that_was_aimed_at() -> None:
    schema = schema_of(2, 3, 4)
    named = ct.Workload([("a0", "a1"), ("a1", "a2")], [1, 5])
    plan = next(p for p in ct.plan(schema, rho=0.5, workload=named).plans if p.strategy == "residual")
    assert plan.workload == named
    assert plan.objective == Objective.BALANCED
    cells = np.array([6, 12])
    errors = np.array(list(plan.errors.values()))
    assert plan.rms_error == pytest.approx(math.sqrt(cells @ errors**2 / 18))
    papers = next(
        p for p in ct.plan(schema, rho=0.5, workload=named, objective="cells").plans if p.strategy == "residual"
    )
    errors = np.array(list(papers.errors.values()))
    assert papers.score == pytest.approx(math.sqrt((cells * [1, 5]) @ errors**2 / (6 + 60)))
    assert papers.rms_error == pytest.approx(math.sqrt(cells @ errors**2 / 18))
    assert papers.score < plan.rms_error * 2


def test_a_plan_remembers_its_objective() -> None:
    schema = schema_of(2, 3, 4)
    plan = ct.plan(schema, rho=0.5).chosen
    assert plan.to_dict()["objective"] == "balanced"
    assert Plan.from_dict(plan.to_dict()) == plan
    broken = {**plan.to_dict(), "objective": "rows"}
    with pytest.raises(ct.CrosstallyError, match="balanced, tables, l1 or cells"):
        Plan.from_dict(broken)


def test_known_sizes_are_known_with_the_error_of_noise_alone() -> None:
    closure = goal_of(schema_of(2, 3), None).closure
    precision = np.linspace(0.1, 2, len(closure))
    assert known_sizes(closure).errors(precision) == pytest.approx(1 / precision)


def test_contrasts_are_what_gaussian_stages_measure() -> None:
    plans = staged(schema_of(2, 3, 4), RHO, people(np.random.default_rng(0), (2, 3, 4), 9_000, 0.3))
    assert {r.query.kind for p in plans for r in p.requests if r.query.attributes} == {"contrast"}


@pytest.mark.parametrize("budget", [RHO, PURE], ids=str)
def test_a_wide_schema_is_measured_in_groups_and_answered_in_its_own_values(budget: ct.Budget) -> None:
    """Three attributes of 600 values have 1,080,000 cells in pairs: more than are measured."""
    schema = ct.Schema(
        [ct.Attribute(name, [str(v) for v in range(600)]) for name in "abc"] + [ct.Attribute("d", ["x", "y"])]
    )
    rng = np.random.default_rng(2)
    codes = rng.zipf(1.5, (50_000, 3)) % 600
    codes[:, 1] = np.where(rng.random(50_000) < 0.8, codes[:, 0], codes[:, 1])  # a and b nearly agree
    rows = pa.table({name: codes[:, i].astype(str) for i, name in enumerate("abc")} | {"d": ["x"] * 50_000})
    spent = {"rho": budget.rho} if budget.epsilon is None else {"epsilon": budget.epsilon}
    released = ct.release(rows, schema, **spent)
    grouped = [m.query for m in released.measurements if m.query.is_table and m.query.groups]
    assert grouped
    assert sum(math.prod(query.shape(schema)) for query in grouped) <= 200_000
    answer = released.marginal("a", "b").values
    truth = np.zeros((600, 600))
    np.add.at(truth, (codes[:, 0], codes[:, 1]), 1)
    independent = np.outer(truth.sum(axis=1), truth.sum(axis=0)) / 50_000
    assert answer.shape == (600, 600)
    assert ((answer - truth) ** 2).sum() < 0.5 * ((independent - truth) ** 2).sum()


def test_attributes_that_were_measured_together_keep_their_values() -> None:
    """Attributes of three values are measured together first; groups of their rare values would then be refused."""
    schema = schema_of(600, 600, 600, 3, 3, 3, 3)
    rng = np.random.default_rng(2)
    first, other = rng.zipf(1.5, (2, 20_000)) % 600
    rare = np.where(np.isin(first, [2, 3]), first - 1, 0)  # values of fewer rows, which follow the first
    codes = [first, first, other, rare, *(rng.choice(3, 20_000, p=[0.98, 0.01, 0.01]) for _ in range(3))]
    rows = pa.table({f"a{i}": code.astype(str) for i, code in enumerate(codes)})
    plan = ct.plan(schema, epsilon=8, strategy="two-stage").chosen
    together = {name for r in plan.requests for name in r.query.attributes if len(r.query.attributes) > 1}
    assert together
    queries = [m.query for m in ct.release(rows, plan=plan).measurements]
    grouped = {name for query in queries if query.is_table for name, _ in query.groups}
    assert grouped
    assert not grouped & together


@pytest.mark.parametrize("delta", [None, "1e-9"])
def test_a_named_table_over_sixteen_attributes_is_planned(delta: str | None) -> None:
    """It has 65,536 sets: trying every family of views took a minute, and every subset of every set as long."""
    schema = ct.Schema([ct.Attribute(f"a{i}", ["0", "1"]) for i in range(20)])
    begun = time.process_time()
    chosen = ct.plan(
        schema, epsilon=1, delta=delta, workload=ct.Workload([schema.names[:16]]), strategy="two-stage"
    ).chosen
    assert {name for request in chosen.requests for name in request.query.attributes} == set(schema.names[:16])
    assert time.process_time() - begun < 60


def test_weights_of_very_many_tables_take_time_in_proportion() -> None:
    """44,850 pairs: their sum was added up again for each of them, for minutes."""
    schema = ct.Schema([ct.Attribute(f"a{i}", ["0", "1"]) for i in range(300)])
    begun = time.process_time()
    weights = dict(weighing_tables(schema, ct.Workload.all_ways(schema, 2)))
    assert weights[("a0", "a1")] == pytest.approx(1 / 44_850 / 4)
    assert time.process_time() - begun < 10
