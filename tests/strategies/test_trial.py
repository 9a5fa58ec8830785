"""Pairs on trial: which, for how much, and what they say of interactions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from conftest import schema_of
from crosstally import pipeline
from crosstally.measurements import Measurement
from crosstally.plans.plan import Plan
from crosstally.query.queries import Cells
from crosstally.schema import Schema
from crosstally.strategies import rules
from crosstally.strategies.goal import goal_of
from crosstally.strategies.view_shares import Belief, TableBudget, ViewShares, unshrunk_score
from crosstally.strategies.wide_schemas import mean_square_size, trial_pairs, trial_share


def measured(table: np.ndarray, variance: float) -> Measurement:
    return Measurement(Cells(("a", "b")), table, variance=variance, noise=None, origin="test")


@pytest.mark.parametrize("number", [2, 33, 48])
def test_every_attribute_is_tried_with_another(number: int) -> None:
    names = [f"a{i:02}" for i in range(number)]
    pairs = trial_pairs(names)
    assert len(pairs) == (number + 1) // 2
    assert {name for pair in pairs for name in pair} == set(names)
    assert all(first < second for first, second in pairs)
    assert pairs == trial_pairs(names)


def test_a_trial_costs_as_much_for_each_table_as_the_one_way_tables() -> None:
    assert trial_share(33) == Fraction(17, 50)
    assert trial_share(32) == 0  # (5/6)^16 is 0.054: no large interaction may be among sixteen pairs


def test_the_size_of_exact_interactions() -> None:
    """Shares of a half, and 10 of 100 rows too many on the diagonal: 4 x 100 over 100^2 / 4."""
    exact = measured(np.array([[35, 15], [15, 35]]), 1e-9)
    assert mean_square_size([exact, exact], 100.0) == pytest.approx(0.16)


def test_noise_is_no_interaction() -> None:
    """4,000 independent tables, whose mean has a standard error of 4e-6: 3e-5 is six of them from either mean.

    Noise counts 180,000 x 2.14 x 3.2 over 4.34e9, which is 2.8e-4; a fifth of it, left in, is 5.7e-5.
    """
    rng = np.random.default_rng(0)
    expected = 100_000 * np.outer([0.5, 0.3, 0.2], [0.4, 0.3, 0.2, 0.1])
    tables = [expected + rng.laplace(0, 300, expected.shape) for _ in range(4_000)]
    right, wrong = (mean_square_size([measured(t, v) for t in tables], 100_000.0) for v in (180_000.0, 144_000.0))
    assert right < 3e-5 < wrong
    assert mean_square_size([measured(expected, 1e-9)] * 2, 100_000.0) == pytest.approx(1e-5)  # sampling alone


def test_a_belief_takes_the_size_that_was_seen() -> None:
    goal = goal_of(schema_of(2, 2), None)
    belief = Belief.of_one_ways(goal.closure, [np.array([0.5, 0.5])] * 2, 1_000.0).with_pairs_of(0.04)
    pair = goal.closure.members[2][0]
    # (0.2 x 1,000)^2 x 1/2 x 1/2 for its one coefficient
    assert belief.errors(np.zeros(len(goal.closure)))[pair] == pytest.approx([10_000])


def test_a_score_of_noise_that_nothing_shrinks() -> None:
    """One pair of two binary attributes, alone, with cells of variance 8: so are all its coefficients, in all cells."""
    goal = goal_of(schema_of(2, 2), None)
    belief = Belief.of_one_ways(goal.closure, [np.array([0.5, 0.5])] * 2, 10.0)
    found = ViewShares(((0, 1),), (1.0,), 0.0)
    already = np.zeros(len(goal.closure))
    score = unshrunk_score(goal, belief, found, TableBudget(1 / 8, 2), already=already)
    # The pair's cells have variance 8; the mean over the total, 4 x 8, and two one-way tables, 2 x 8, is 64 / 3
    assert score == pytest.approx((64 / 3) ** (1 / 8) * 8 ** (3 / 8))


SIZES = (700, 700, 700, *([3] * 31))


def wide() -> Schema:
    return schema_of(*SIZES)


def test_a_wide_schema_has_a_trial_under_laplace_noise_alone() -> None:
    plan = ct.plan(wide(), epsilon=1, strategy="two-stage").chosen
    assert [rule.share for rule in plan.later] == [Fraction(1, 12), Fraction(3, 4)]
    assert Plan.from_dict(plan.to_dict()) == plan
    assert len(ct.plan(wide(), rho=1, strategy="two-stage").chosen.later) == 1
    assert len(ct.plan(schema_of(*[3] * 34), epsilon=1, strategy="two-stage").chosen.later) == 1


@pytest.mark.parametrize("related", [False, True])
def test_pairs_are_measured_where_the_trial_finds_interactions(related: bool) -> None:
    rng = np.random.default_rng(1)
    number = 200_000
    hidden = rng.random((number, 1))
    own = rng.random((number, len(SIZES)))
    codes = (np.where(rng.random(own.shape) < 0.9, hidden, own) if related else own) * np.array(SIZES)
    schema = wide()
    rows = pa.table({name: codes[:, i].astype(int).astype(str) for i, name in enumerate(schema.names)})
    released = ct.release(rows, schema, epsilon=2)
    assert released.statement.budget == ct.Budget(epsilon=2)
    larger = [m for m in released.measurements if len(m.query.attributes) > 1]
    assert (len(larger) > 60) is related  # of the first two stages there are at most 17 and 17
    assert released.marginal("a0", "a33").values.shape == (700, 3)


@pytest.mark.parametrize("stages", [1, 2])
def test_a_crash_after_any_stage_of_three_loses_nothing_and_draws_nothing_twice(stages, tmp_path, monkeypatch) -> None:
    schema = wide()
    rng = np.random.default_rng(2)
    rows = pa.table({name: rng.integers(0, n, 500).astype(str) for name, n in zip(schema.names, SIZES, strict=True)})
    ledger = ct.Ledger.create(tmp_path / "wide.ledger", schema=schema, budget=ct.Budget(epsilon=1))
    plan = ct.plan(schema, epsilon=1, strategy="two-stage").chosen
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
    assert ledger.spent == 1
    assert [each.state for each in ledger.entries()] == ["delivered"] * 3
    for kept, given in zip(before, released.measurements, strict=False):
        assert kept.query == given.query
        assert np.array_equal(kept.values, given.values)
