"""Public counts in plans: what they spare, what they leave as it was, and that no cost or noise follows from them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from crosstally.measurements import Measurement, public_counts
from crosstally.plans.plan import Plan
from crosstally.schema import Impossible, PublicCounts
from crosstally.strategies import TwoStage
from crosstally.strategies.goal import goal_of, known_variances, public_precision
from crosstally.strategies.planner import Proposal, compare
from crosstally.strategies.rules import next_stage
from reference_privacy import brute_force_spent
from simulated import margin, noise_of, people, schema_of

SCHEMA = schema_of(2, 3, 4, 2)
RHO, PURE = ct.Budget(rho=Fraction(1, 10)), ct.Budget(epsilon=1)
FACTS = (
    PublicCounts(None, (20_000,)),
    PublicCounts("a2", (5_000,) * 4),
    PublicCounts("a1", (7_000, 7_000, 6_000), error=30),
    Impossible({"a0": ("0",), "a1": ("1", "2")}),
)


def measured(plan: Plan) -> list[Measurement]:
    """What the first stage gets, with noise of numpy's: the same in every run."""
    full = people(np.random.default_rng(3), SCHEMA.shape, 20_000, 0.5)
    rng, out = np.random.default_rng(5), []
    for request in plan.requests:
        axes = sorted(SCHEMA.positions[name] for name in request.query.attributes)
        exact = request.query.answer(margin(full, axes))
        noisy = np.asarray(exact + noise_of(rng, request.noise, exact.shape))
        out.append(Measurement(request.query, noisy, variance=request.noise.variance, noise=request.noise, origin="t"))
    return out


def test_impossible_combinations_alone_leave_plans_as_they_were() -> None:
    """To count such sets for less made pairs worse under Gaussian noise (lab/evidence/two-stage.md)."""
    for budget in (RHO, PURE):
        plain, known = (
            TwoStage().plan(replace(SCHEMA, facts=facts), None, budget).to_dict() for facts in ((), FACTS[3:])
        )
        assert {**known, "schema": None} == {**plain, "schema": None}


# What public counts spare


def test_an_exact_public_table_leaves_its_budget_to_all_others_alike() -> None:
    """One of three tables is public: a quarter becomes (1/4 x 2/3) / (1/4 x 2/3 + 3/4) = 2/11, an eleventh for each.

    Without facts each has a twelfth, and the second stage 9/12 instead of 9/11: 12/11 times as much for all.
    """
    schema = schema_of(6, 6, 6)
    known = replace(schema, facts=(PublicCounts("a1", (100,) * 6),))
    plain, plan = (TwoStage().plan(each, None, PURE) for each in (schema, known))
    assert [each.query.attributes for each in plan.requests] == [("a0",), ("a2",)]
    assert [each.noise.scale for each in plan.requests] == pytest.approx([11, 11])
    assert [each.noise.scale for each in plain.requests] == pytest.approx([12, 12, 12])
    assert [(rule.version, rule.share) for rule in plan.later] == [(1, Fraction(9, 11))]
    assert [(rule.version, rule.share) for rule in plain.later] == [(1, Fraction(3, 4))]
    assert plan.errors[("a1",)] == pytest.approx(0.01)  # of an exact count
    assert plan.errors[("a0",)] < plain.errors[("a0",)]


def test_under_gaussian_noise_contrasts_of_public_tables_are_not_bought_in_either_stage() -> None:
    known = replace(SCHEMA, facts=(PublicCounts("a1", (7_000, 7_000, 6_000)),))
    first = TwoStage().plan(known, None, RHO)
    second = next_stage(first, [*public_counts(known), *measured(first)])
    assert second is not None
    bought = [request.query.attributes for plan in (first, second) for request in plan.requests]
    assert ("a1",) not in bought
    assert () not in bought  # the total is the sum of a1
    assert ("a0", "a1") in bought


def test_a_public_table_with_an_error_counts_as_a_measurement_of_that_variance() -> None:
    """Two alike attributes and 1 / (a + p) + 1 / q with p + q fixed are least where a + p = q."""
    plain, known = schema_of(4, 4), replace(schema_of(4, 4), facts=(PublicCounts("a0", (250,) * 4, error=10.0),))
    goal = goal_of(known, None)
    places = goal.closure.members[1][0]
    assert public_precision(goal.closure)[places].tolist() == pytest.approx([1 / 100, 0])
    variances = [
        known_variances(TwoStage().plan(each, None, RHO), goal.closure, public=False).of_sets[places]
        for each in (plain, known)
    ]
    assert variances[0][0] == pytest.approx(variances[0][1])
    bought = 1 / variances[1]
    assert 1 / 100 + bought[0] == pytest.approx(bought[1], rel=2**0.25 - 1)  # precisions are in steps of a fourth root
    assert bought[0] < 0.8 * bought[1]


def test_where_all_one_way_tables_are_public_the_whole_budget_goes_to_larger_ones() -> None:
    full = people(np.random.default_rng(3), SCHEMA.shape, 20_000, 0.5)
    facts = [PublicCounts(f"a{i}", tuple(margin(full, [i]).tolist())) for i in range(4)]
    known = replace(SCHEMA, facts=facts)
    for budget in (RHO, PURE):
        plan = TwoStage().plan(known, None, budget)
        assert not plan.later
        assert {len(each.query.attributes) for each in plan.requests} <= {2, 3, 4}
        assert budget.amount * Fraction(98, 100) < plan.cost <= budget.amount
    rows = pa.table({f"a{i}": column.astype(str) for i, column in enumerate(_codes(full).T)})
    release = ct.release(rows, known, epsilon=1)
    assert release.marginal("a2").values == pytest.approx(margin(full, [2]), abs=0.1)


def test_one_way_tables_alone_are_measured_even_if_all_are_public() -> None:
    """The budget is spent as was said, on what was asked for: with the plan of a schema without facts."""
    known = replace(SCHEMA, facts=[PublicCounts(f"a{i}", (10,) * n) for i, n in enumerate(SCHEMA.shape)])
    ones = ct.Workload.all_ways(SCHEMA, 1)
    assert TwoStage().plan(known, ones, PURE).requests == TwoStage().plan(SCHEMA, ones, PURE).requests


def test_the_kind_of_noise_is_chosen_as_without_facts_where_nothing_is_known_beforehand() -> None:
    """66 pairs: Gaussian noise for epsilon 1 and delta 1e-9; one pair: Laplace noise (17 tables are the limit)."""
    budget = ct.Budget(epsilon=1, delta=1e-9)
    for schema, pure in ((schema_of(*[4] * 12), False), (schema_of(3, 4), True)):
        facts = [PublicCounts(f"a{i}", (50,) * n) for i, n in enumerate(schema.shape)]
        assert compare(replace(schema, facts=facts), Proposal(budget)).chosen.budget.pure is pure
        assert compare(schema, Proposal(budget)).chosen.budget.pure is pure


# Privacy


@pytest.mark.parametrize("relation", list(ct.Neighbours))
@pytest.mark.parametrize("budget", [ct.Budget(rho=1), ct.Budget(epsilon=1)], ids=str)
def test_the_cost_of_a_release_with_facts_by_brute_force_is_the_ledgers(
    budget: ct.Budget, relation: ct.Neighbours
) -> None:
    """All pairs of neighbouring tables, also those that contradict the facts: nothing is spared for knowing them."""
    schema = replace(schema_of(2, 2, 3), facts=(PublicCounts("a0", (3, 1)), PublicCounts("a1", (2, 2), error=1)))
    rows = pa.table({"a0": ["0", "1", "1", "1"], "a1": ["0", "0", "0", "1"], "a2": ["2", "2", "0", "1"]})
    ledger = ct.Ledger.in_memory(schema=schema, budget=budget, neighbours=relation)
    plan = TwoStage().plan(schema, None, budget, neighbours=relation)
    assert plan.later[0].version == 1
    ct.release(rows, plan=plan, ledger=ledger, key="k")
    stages = [ledger.plan(key) for key in ("k", "k/2")]
    requests = [request for stage in stages if stage is not None for request in stage.requests]
    true = brute_force_spent(budget, schema, requests, relation)
    assert ledger.spent == budget.amount
    assert true <= ledger.spent
    assert true > ledger.spent * Fraction(9, 10) or relation == ct.Neighbours.REPLACE


def test_rows_that_contradict_public_counts_are_counted_like_any_others() -> None:
    """All 10,000 rows have value 1 of a0, which nobody has by the fact; what is measured beside it has them."""
    schema = replace(schema_of(2, 3, 2), facts=(PublicCounts("a0", (10_000, 0)),))
    rows = pa.table({"a0": ["1"] * 10_000, "a1": ["2"] * 10_000, "a2": ["0"] * 10_000})
    release = ct.release(rows, schema, epsilon=50, strategy="two-stage")
    held = [each for each in release.measurements if {"a0", "a1"} <= set(each.query.attributes) and each.noise]
    assert held
    for each in held:
        assert each.query.is_table
        axes = tuple(i for i, name in enumerate(each.query.attributes) if name not in {"a0", "a1"})
        assert each.values.sum(axis=axes)[1, 2] == pytest.approx(10_000, abs=100)
    assert release.marginal("a1").values == pytest.approx([0, 0, 10_000], abs=50)


# Wide schemas


@pytest.mark.parametrize("public", ["a", "abcd"])
@pytest.mark.parametrize("budget", [{"rho": 0.1}, {"epsilon": 1}], ids=str)
def test_wide_schemas_use_public_counts(budget: dict[str, float], public: str) -> None:
    """Three attributes of 600 values have 1,080,000 cells in pairs, which are measured in groups of values.

    The first two are the same, so that the look at the pairs finds theirs. It comes first where nothing else is asked.
    """
    rng = np.random.default_rng(2)
    codes = np.column_stack([rng.zipf(1.5, (20_000, 3)) % 600, np.zeros(20_000, int)])
    codes[:, 1] = codes[:, 0]
    sizes = {"a": 600, "b": 600, "c": 600, "d": 2}
    true = {name: np.bincount(codes[:, i], minlength=n) for i, (name, n) in enumerate(sizes.items())}
    facts = [PublicCounts(name, tuple(true[name].tolist())) for name in public]
    schema = ct.Schema([ct.Attribute(name, [str(v) for v in range(n)]) for name, n in sizes.items()], facts=facts)
    plan = ct.plan(schema, strategy="two-stage", **budget).chosen
    assert len(plan.later) == (2 if len(public) == 1 else 1)
    release = ct.release(pa.table({name: codes[:, i].astype(str) for i, name in enumerate(sizes)}), plan=plan)
    noisy = [each.query for each in release.measurements if each.noise is not None]
    assert ("a",) not in {query.attributes for query in noisy}
    assert any(query.groups for query in noisy if query.is_table)
    assert release.marginal("a").values == pytest.approx(true["a"], abs=1)


def _codes(full: np.ndarray) -> np.ndarray:
    """A row for each person of a full table."""
    cells = np.indices(full.shape).reshape(full.ndim, -1).T
    return np.repeat(cells, full.ravel(), axis=0)
