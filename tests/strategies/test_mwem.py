"""MWEM: its weights against the paper's loops, its stages, its cost by brute force, and that it can be repeated."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from conftest import schema_of
from crosstally.budget import NoiseKind
from crosstally.errors import PlanError, TooManyCellsError
from crosstally.measurements import Measurement
from crosstally.plans.request import stage_key
from crosstally.query.choice import Choice
from crosstally.query.queries import Cells
from crosstally.schema import Unit
from crosstally.strategies import MWEM
from crosstally.strategies.mwem import multiplicative_weights
from crosstally.strategies.rules import next_stage
from reference_mwem import first_weights, next_weights, table_of
from reference_privacy import brute_force_spent

SCHEMA = schema_of(2, 3, 2)
RANDOM = np.random.default_rng(3)
CODES = np.stack([RANDOM.integers(0, n, 300) for n in (2, 3, 2)])
CODES[2] = np.where(RANDOM.random(300) < 0.9, CODES[0], CODES[2])  # a0 and a2 go together
ROWS = pa.table({f"a{i}": [str(v) for v in column] for i, column in enumerate(CODES)})
BUDGETS = {"epsilon": ct.Budget(epsilon=2), "rho": ct.Budget(rho="1/3"), "both": ct.Budget(epsilon=1, delta="1e-6")}


def run(ledger: ct.Ledger, strategy: MWEM, rows: int | None = None) -> ct.Release:
    plan = (strategy if rows is None else strategy.with_rows(rows)).plan(
        SCHEMA, None, ledger.budget, neighbours=ledger.neighbours
    )
    return ct.release(ROWS, plan=plan, rows=rows, ledger=ledger, key="k")


@pytest.mark.parametrize("rows", [None, 300])
def test_every_choice_is_between_what_the_slow_version_says(rows) -> None:
    """The references of all rounds, from the recorded measurements; and the mean that the paper publishes."""
    ledger = ct.Ledger.in_memory(schema=SCHEMA, budget=ct.Budget(epsilon=5))
    run(ledger, MWEM(rounds=4), rows)
    seen = [each for key in keys(ledger) for each in ledger.measurements(key)]
    assert len(seen) == (9 if rows is None else 8)
    number = float(seen[0].values) if rows is None else rows
    weights, rounds = first_weights(SCHEMA.shape, number), []
    for each in seen:
        if isinstance(each.query, Choice):
            assert each.query.candidates == ct.Workload.up_to(SCHEMA, 2).tables
            assert (set(each.query.weights), set(each.query.penalties)) == ({1}, {0})
            for names, reference in zip(each.query.candidates, each.query.reference, strict=True):
                slow = table_of(weights, [int(name[1]) for name in names], SCHEMA.shape)
                assert np.abs(np.array(reference) - slow).max() <= 0.5 + 1e-9
            chosen = each.query.candidates[int(each.values)]
        elif each.query.attributes:
            assert each.query == Cells(chosen)
            axes = [int(name[1]) for name in chosen]
            weights = next_weights(weights, axes, SCHEMA.shape, each.values.ravel().tolist())
            rounds.append(np.array(list(weights.values())).reshape(SCHEMA.shape))
    found = multiplicative_weights(SCHEMA, seen, rows=number)
    np.testing.assert_allclose(np.mean(found[1:], axis=0), np.mean(rounds, axis=0), rtol=1e-9)


def test_replays_are_those_of_the_slow_version() -> None:
    """Every round goes through all tables measured so far, three times; choices rest on what comes of it."""
    ledger = ct.Ledger.in_memory(schema=SCHEMA, budget=ct.Budget(epsilon=5))
    run(ledger, MWEM(rounds=3, replays=3), 300)
    seen = [each for key in keys(ledger) for each in ledger.measurements(key)]
    weights, tables = first_weights(SCHEMA.shape, 300), []
    for each in seen:
        if isinstance(each.query, Choice):
            for names, reference in zip(each.query.candidates, each.query.reference, strict=True):
                slow = table_of(weights, [int(name[1]) for name in names], SCHEMA.shape)
                assert np.abs(np.array(reference) - slow).max() <= 0.5 + 1e-9
        else:
            tables.append(([int(name[1]) for name in each.query.attributes], each.values.ravel().tolist()))
            for axes, noisy in tables * 3:
                weights = next_weights(weights, axes, SCHEMA.shape, noisy)
    assert len(tables) == 3
    found = multiplicative_weights(SCHEMA, seen, rows=300, replays=3)
    np.testing.assert_allclose(found[-1].ravel(), list(weights.values()), rtol=1e-9)


def test_only_plans_with_replays_name_them() -> None:
    """Plans that were approved before there were replays are still followed, and written as they were."""
    once, often = (MWEM(rounds=2, replays=n).plan(SCHEMA, None, ct.Budget(epsilon=1)) for n in (0, 100))
    assert dict(once.later[0].parameters) == {"rounds": 2, "rows": None}
    assert dict(often.later[0].parameters) == {"rounds": 2, "rows": None, "replays": 100}


def keys(ledger: ct.Ledger) -> list[str]:
    return [entry.key for entry in ledger.entries()]


@pytest.mark.parametrize("rows", [None, 300])
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("relation", list(ct.Neighbours), ids=str)
def test_the_cost_of_a_run_by_brute_force_is_the_ledgers(budget, relation, rows) -> None:
    """All requests together, as they were recorded; under replacement no reference need let a unit move all of them."""
    ledger = ct.Ledger.in_memory(schema=SCHEMA, budget=BUDGETS[budget], neighbours=relation)
    run(ledger, MWEM(rounds=2), rows)
    requests = [request for key in keys(ledger) for request in ledger.plan(key).requests]
    true = brute_force_spent(BUDGETS[budget], SCHEMA, requests, relation)
    assert ledger.spent == BUDGETS[budget].amount
    assert true <= ledger.spent
    assert true > ledger.spent * Fraction(999_999, 1_000_000) or relation == ct.Neighbours.REPLACE


def test_stages_and_their_noise_by_hand() -> None:
    """Two rounds for epsilon = 2: 1/50 for the rows, then 4 stages of 99/200. A choice has noise 2 / (99/200)."""
    plan = MWEM(rounds=2).plan(SCHEMA, None, ct.Budget(epsilon=2))
    assert [each.amount for each in plan.stage_budgets] == [Fraction(1, 50), *[Fraction(99, 200)] * 4]
    assert [(each.query, each.noise.scale) for each in plan.requests] == [(Cells(()), 50.0)]
    first = Measurement(Cells(()), np.array(300), variance=1.0, noise=None, origin="x")
    second = next_stage(plan, [first])
    assert second is not None
    (request,) = second.requests
    assert isinstance(request.query, Choice)
    assert (request.noise.kind, request.noise.scale) == (NoiseKind.GUMBEL, pytest.approx(400 / 99))
    assert request.query.reference[:2] == ((150, 150), (100, 100, 100))
    chosen = Measurement(request.query, np.array(1), variance=1.0, noise=request.noise, origin="x")
    third = next_stage(second, [first, chosen])
    assert third is not None
    assert [(each.query, each.noise.scale) for each in third.requests] == [(Cells(("a1",)), pytest.approx(200 / 99))]
    assert len(third.later) == 2


def test_a_run_is_repeated_from_what_was_recorded(tmp_path) -> None:
    ledger = ct.Ledger.create(tmp_path / "x.ledger", schema=SCHEMA, budget=ct.Budget(rho=1))
    release = run(ledger, MWEM(rounds=3))
    seen: list[Measurement] = []
    for number in range(1, 7):
        plan = ledger.plan(stage_key("k", number))
        seen += ledger.measurements(stage_key("k", number))
        again = next_stage(plan, seen)
        assert again.to_dict() == ledger.plan(stage_key("k", number + 1)).to_dict()
    assert ct.release(None, plan=ledger.plan("k"), ledger=ledger, key="k").choices == release.choices
    assert len(release.choices) == 3
    assert ledger.spent == 1
    assert [each.query.attributes for each in release.measurements[1:]] == [each.picked[0] for each in release.choices]


def test_a_strong_dependence_is_found() -> None:
    """a0 and a2 go together in 95 of 100 rows; their table is the farthest by 250 of 300 at first: noise is 1."""
    ledger = ct.Ledger.in_memory(schema=SCHEMA, budget=ct.Budget(epsilon=80))
    assert run(ledger, MWEM(rounds=2)).choices[0].picked[0] == ("a0", "a2")


def test_noise_far_above_the_rows_cannot_overflow() -> None:
    loud = Measurement(
        Cells(("a1", "a0")), np.array([[10**9, 0], [0, 0], [0, -(10**9)]]), variance=1.0, noise=None, origin="x"
    )
    found = multiplicative_weights(SCHEMA, [loud, loud], rows=0)
    assert [float(each.sum()) for each in found] == pytest.approx([1, 1, 1])
    assert found[-1][0, 0].sum() == pytest.approx(1)


def test_units_of_several_rows_have_that_much_more_noise() -> None:
    own = schema_of(2, 3, 2, unit=Unit("id", 5))
    one, many = (MWEM(rounds=2, rows=300).plan(s, None, ct.Budget(epsilon=1)) for s in (SCHEMA, own))
    assert many.requests[0].noise.scale == pytest.approx(5 * one.requests[0].noise.scale)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 0}, "rounds must be a whole number from 1 to 200, got 0"),
        ({"rounds": True}, "rounds must be a whole number"),
        ({"rounds": 201}, "from 1 to 200"),
        ({"rows_share": 1}, "rows_share must be between 0 and 1"),
        ({"replays": -1}, "replays must be a whole number from 0 to 1,000, got -1"),
        ({"replays": True}, "replays must be a whole number"),
    ],
    ids=str,
)
def test_bad_options_are_refused(options, message) -> None:
    with pytest.raises(PlanError, match=message):
        MWEM(**options)


def test_large_domains_and_workloads_without_tables_are_refused() -> None:
    with pytest.raises(TooManyCellsError, match="the full table has 262,144 cells, and mwem is limited to 200,000"):
        MWEM().plan(schema_of(*[2] * 18), None, ct.Budget(epsilon=1))
    with pytest.raises(PlanError, match="tables of at least one attribute"):
        MWEM(rows=5).plan(SCHEMA, ct.Workload([()]), ct.Budget(epsilon=1))
    plan = MWEM().plan(SCHEMA, None, ct.Budget(epsilon=1))
    with pytest.raises(PlanError, match="by the number of rows, which was not measured"):
        next_stage(plan, [])
