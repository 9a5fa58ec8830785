"""A look before measuring: what it asks and costs, and what is measured by it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from cli_runs import run
from conftest import schema_of
from crosstally import pipeline
from crosstally.budget import Budget, Neighbours
from crosstally.plans.plan import Plan
from crosstally.query.choice import Choice
from crosstally.schema import PublicCounts, Schema, Unit
from crosstally.strategies import rules
from crosstally.strategies.look import candidates, choice_of_pairs, most_picks
from crosstally.strategies.strategy import Task
from reference_privacy import brute_force_choice

SIZES = (700, 700, 700, *([3] * 31))
PURE, RHO = Budget(epsilon=50), Budget(rho="1/20")


def wide() -> Schema:
    return schema_of(*SIZES)


def rows_of(number: int, *, related: bool) -> pa.Table:
    """Independent attributes, but the tenth is a copy of the fourth, and the second follows the first, if related."""
    rng = np.random.default_rng(2)
    codes = [rng.integers(0, size, number) for size in SIZES]
    if related:
        codes[9], codes[1] = codes[3], (codes[0] + rng.integers(0, 20, number)) % 700
    return pa.table({f"a{i}": own.astype(str) for i, own in enumerate(codes)})


def test_a_wide_schema_has_a_look_and_others_have_none() -> None:
    for budget, shares in (
        ({"epsilon": 1}, [Fraction(18, 1000), Fraction(132, 1000)]),
        ({"rho": 1}, [Fraction(35, 1000), Fraction(715, 1000)]),
        ({"epsilon": 1, "delta": "1e-9"}, [Fraction(35, 1000), Fraction(715, 1000)]),
    ):
        plan = ct.plan(wide(), strategy="two-stage", **budget).chosen
        assert [rule.share for rule in plan.later] == shares
        assert [rule.parameters for rule in plan.later] == [{"named": False, "look": True}, {"named": False}]
        assert Plan.from_dict(plan.to_dict()) == plan
    assert len(ct.plan(schema_of(*[3] * 34), epsilon=1, strategy="two-stage").chosen.later) == 1


def test_the_plan_says_so(tmp_path) -> None:
    wide().save(tmp_path / "s.json")
    ran = run("plan", tmp_path / "s.json", "--rho", "1")
    assert ran.code == 0
    assert "Then 3.5% looks which pairs of attributes are far from what these predict" in " ".join(ran.out.split())


def look_at(relation: str, *, unit: Unit | None = None, rows: float = 10_000.0) -> tuple[Task, Choice | None]:
    """A look at two pairs, of which the first attribute is in groups."""
    schema = schema_of(4, 2, 3, unit=unit)
    named = ct.Workload([("a0", "a1"), ("a1", "a2"), ("a2",)])
    task = Task(schema, named, budget=Budget(epsilon=5), neighbours=Neighbours(relation))
    shares = {"a0": np.array([0.75, 0.25]), "a1": np.array([0.5, 0.5]), "a2": np.array([0.6, 0.4, 0.0])}
    return task, choice_of_pairs(task, Budget(epsilon=1), shares, rows, {"a0": (0, 1, 1, 1)})


def test_what_it_asks_is_the_formula() -> None:
    """By hand: b is 2, so nothing has 2 ln(2 / 0.01), rounded up. 4 of epsilon are left, so noise is of scale 1/4."""
    _, choice = look_at("add-remove")
    assert choice is not None
    assert (choice.candidates, choice.picks) == (((), ("a0", "a1"), ("a1", "a2")), 1)
    assert choice.reference == ((), (3750, 3750, 1250, 1250), (3000, 2000, 0, 3000, 2000, 0))
    assert choice.penalties[0] == -math.ceil(2 * math.log(200)) == -11
    # Of the first noise nothing is shrunk; of the second, with two of six cells empty, the root of 2/3 of its variance
    assert choice.penalties[1:] == (round(4 / 4), round(6 / 4 * (4 / 6) ** 0.25))
    # Tables of 8 and 6 cells, in full: the weights are 100 / sqrt(8 / 6), to a whole number, and 100
    assert choice.weights == (100, 87, 100)
    assert dict(choice.groups_of) == {"a0": (0, 1, 1, 1)}


def test_without_rows_to_find_anything_there_is_none() -> None:
    """b ln(2 / 0.01) is 10.6, a tenth of 106 rows."""
    assert look_at("add-remove", rows=105.0)[1] is None
    assert look_at("add-remove", rows=107.0)[1] is not None
    assert look_at("replace", rows=107.0)[1] is None  # b is twice as large


@pytest.mark.parametrize("relation", list(Neighbours), ids=str)
@pytest.mark.parametrize("unit", [None, Unit("id", 2)], ids=["rows", "units"])
def test_its_sensitivity_is_what_some_neighbours_attain(relation: Neighbours, unit: Unit | None) -> None:
    """Unlike the budget, which is what is charged, ``b`` follows from it: both relations, rows and units."""
    task, choice = look_at(relation.value, unit=unit)
    assert choice is not None
    claimed = choice.sensitivity(task.schema, relation).l1
    assert claimed == 100 * task.schema.max_rows * (2 if relation == Neighbours.REPLACE else 1)
    assert brute_force_choice(choice.to_dict(), task.schema.to_dict(), relation.value, 0) == claimed
    (request,) = task.part(Fraction(1, 5)).requests([choice])
    assert request.noise.scale == 2 * claimed  # epsilon = 2 Delta / b is 1


def test_candidates_are_the_pairs_inside_what_was_named_the_smallest_first() -> None:
    schema = schema_of(900, 2, 700, 3)
    task = Task(schema, ct.Workload([("a3", "a1", "a0"), ("a2", "a0")]), budget=PURE, neighbours=Neighbours.REPLACE)
    sizes = {"a0": 900, "a1": 2, "a2": 700, "a3": 3}
    assert candidates(task, sizes) == [("a1", "a3"), ("a0", "a1"), ("a0", "a3")]  # a0 x a2 has 630,000 cells
    assert candidates(task, {**sizes, "a0": 4}) == [("a1", "a3"), ("a0", "a1"), ("a0", "a3"), ("a0", "a2")]


@pytest.mark.parametrize("budget", [PURE, RHO], ids=str)
def test_what_is_far_is_measured_and_nothing_else_is(budget: Budget) -> None:
    """a3 x a9 is 2/3 x 2 = 1.33 of the rows away, in 9 cells, and a0 x a1 nearly twice the rows, in 490,000.

    For 17 picks b is 38 or 70, and nothing 415 or 763. Independent pairs of 3 x 3 are 0.8 x 9 x 33 = 240 away: a few of
    560 may be picked, each with odds of exp(-4.6) or exp(-7.5) to nothing. a3 x a9 is missed with odds of exp(-170).
    Its counts have noise of a standard deviation of at most 50: 1,000 is ten times that of the sum of three.
    """
    released = ct.release(rows_of(10_000, related=True), wide(), **_given(budget))
    assert released.statement.budget == budget
    (chosen,) = released.choices
    assert len(chosen.numbers) == 17
    assert ("a3", "a9") in chosen.picked
    larger = {m.query.attributes for m in released.measurements if len(m.query.attributes) > 1}
    if (
        len(chosen.picked) < 17
    ):  # otherwise, one release in seven by rho, the pairs are taken for dense: all are measured
        assert {each for each in larger if len(set(each) & {"a0", "a1", "a2", "a3", "a9"}) == 2} <= set(chosen.picked)
    near = released.marginal("a3", "a9").values
    assert near.trace() == pytest.approx(10_000, abs=1_000)
    assert released.marginal("a0", "a33").values.shape == (700, 3)


def test_where_every_pick_finds_a_pair_all_are_measured() -> None:
    """Nine of ten values follow one hidden number: every pair is far, and there are 17 picks of 34 attributes."""
    rng = np.random.default_rng(1)
    hidden, own = rng.random((50_000, 1)), rng.random((50_000, len(SIZES)))
    codes = (np.where(rng.random(own.shape) < 0.9, hidden, own) * np.array(SIZES)).astype(int).astype(str)
    rows = pa.table({f"a{i}": codes[:, i] for i in range(len(SIZES))})
    released = ct.release(rows, wide(), rho=1)
    assert len(released.choices[0].picked) == most_picks(len(SIZES)) == 17
    assert sum(len(each.query.attributes) > 1 for each in released.measurements) > 100


def _given(budget: Budget) -> dict[str, Any]:
    return {budget.currency: budget.amount}


@pytest.mark.parametrize(
    ("budget", "factor"), [(Budget(epsilon=1), (0.85**2 + 0.15**2) ** -0.5), (Budget(rho="0.0005"), 1.0)], ids=str
)
def test_the_errors_of_a_wide_schema_have_a_range(budget: Budget, factor: float) -> None:
    """That of one-way tables is of naming them alone, with Laplace noise in two shares whose precisions are added.

    Pairs of 20,000 rows are predicted: in a range as wide as a factor of 5 between the small sizes, at least.
    """
    schema = wide()
    found = rules.likely_errors(ct.plan(schema, strategy="two-stage", **_given(budget)).chosen, 20_000)
    ones = ct.plan(schema, workload=ct.Workload.all_ways(schema, 1), strategy="two-stage", **_given(budget)).chosen
    alone = rules.likely_errors(ones, 20_000)[1]
    assert list(found) == [1, 2, 3, 4]
    assert found[1] == pytest.approx([factor * each for each in alone], rel=0.03)
    assert all(0 < low < high / 2 for low, high in (found[2], found[3]))


@pytest.mark.parametrize("budget", [Budget(epsilon=1), Budget(rho="0.0005")], ids=str)
def test_few_rows_are_not_looked_at_and_one_way_tables_get_all(budget: Budget) -> None:
    ledger = ct.Ledger.in_memory(schema=wide(), budget=budget)
    released = ct.release(rows_of(200, related=True), wide(), ledger=ledger, **_given(budget))
    assert released.choices == ()
    assert len(ledger.entries()) == 2
    assert ledger.spent > budget.amount * (1 - Fraction(1, 10**6))


@pytest.mark.parametrize("budget", [PURE, Budget(rho="1/2")], ids=str)
def test_public_one_way_tables_are_looked_at_at_once(budget: Budget) -> None:
    """The first stage is the look; a1 is a copy of a0, nearly twice the rows away."""
    rng, sizes = np.random.default_rng(0), (600, 600, 600, 2)
    codes = [rng.integers(0, size, 20_000) for size in sizes]
    codes[1] = codes[0]
    counts = [np.bincount(own, minlength=size).tolist() for own, size in zip(codes, sizes, strict=True)]
    facts = [PublicCounts(f"a{i}", tuple(own)) for i, own in enumerate(counts)]
    schema = Schema(schema_of(*sizes).attributes, facts=(PublicCounts(None, (20_000,)), *facts))
    plan = ct.plan(schema, strategy="two-stage", **_given(budget)).chosen
    assert [request.query.kind for request in plan.requests] == ["choice"]
    released = ct.release(pa.table({f"a{i}": own.astype(str) for i, own in enumerate(codes)}), plan=plan)
    assert released.choices[0].picked[:1] == (("a0", "a1"),)
    larger = [each.query.attributes for each in released.measurements if len(each.query.attributes) > 1]
    assert ("a0", "a1") in larger


@pytest.mark.parametrize("stages", [1, 2])
def test_a_crash_after_any_stage_of_three_loses_nothing_and_draws_nothing_twice(stages, tmp_path, monkeypatch) -> None:
    schema, rows = wide(), rows_of(5_000, related=True)
    ledger = ct.Ledger.create(tmp_path / "wide.ledger", schema=schema, budget=PURE)
    plan = ct.plan(schema, epsilon=50, strategy="two-stage").chosen
    rule, calls = rules.next_stage, iter([*[False] * (stages - 1), True])

    def crashes(*given: Any) -> Any:
        if next(calls):
            raise RuntimeError("the power went out")
        return rule(*given)

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "next_stage", crashes)
        with pytest.raises(RuntimeError):
            ct.release(rows, plan=plan, ledger=ledger, key="spring")
    paid = [each.key for each in ledger.entries()]
    assert len(paid) == stages
    before = [each for key in paid for each in ledger.measurements(key)]
    released = ct.release(rows, plan=plan, ledger=ledger, key="spring")
    assert ledger.spent == 50
    assert [each.state for each in ledger.entries()] == ["delivered"] * 3
    linear = [each for each in before if each.query.is_linear]
    for kept, given in zip(linear, released.measurements, strict=False):
        assert kept.query == given.query
        assert np.array_equal(kept.values, given.values)
    assert stages == 1 or tuple(before[-1].values.tolist()) == released.choices[0].numbers
