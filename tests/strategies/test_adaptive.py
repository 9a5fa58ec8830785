"""Adaptive: its prediction and choices against slow versions, its stages, its cost by brute force, its repetition."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import crosstally as ct
from cli_runs import ran_well
from conftest import schema_of
from crosstally.errors import PlanError
from crosstally.measurements import Measurement
from crosstally.plans.request import stage_key
from crosstally.query.choice import Choice
from crosstally.query.queries import Cells, Contrast
from crosstally.residuals import combine
from crosstally.strategies import Adaptive, adaptive
from crosstally.strategies.adaptive import candidates_of
from crosstally.strategies.likely import predicted_tables
from crosstally.strategies.rules import next_stage
from reference_adaptive import slow_choice, slow_prediction
from reference_privacy import brute_force_spent

SCHEMA = schema_of(2, 3, 2)
RANDOM = np.random.default_rng(5)
CODES = np.stack([RANDOM.integers(0, n, 300) for n in SCHEMA.shape])
CODES[2] = np.where(RANDOM.random(300) < 0.9, CODES[0], CODES[2])  # a0 and a2 go together
ROWS = pa.table({f"a{i}": [str(v) for v in column] for i, column in enumerate(CODES)})
FULL = np.zeros(SCHEMA.shape, np.int64)
np.add.at(FULL, tuple(CODES), 1)
TRIPLES = ct.Workload.up_to(SCHEMA, 3)
BUDGETS = {"epsilon": ct.Budget(epsilon=2), "rho": ct.Budget(rho="1/3"), "both": ct.Budget(epsilon=1, delta="1e-6")}


def margin(names: tuple[str, ...]) -> np.ndarray:
    return FULL.sum(axis=tuple(i for i in range(3) if f"a{i}" not in names))


def exact(*tables: tuple[str, ...]) -> list[Measurement]:
    return [Measurement(Cells(each), margin(each), variance=1.0, noise=None, origin="x") for each in tables]


def run(ledger: ct.Ledger, rounds: int, workload: ct.Workload = TRIPLES) -> ct.Release:
    plan = Adaptive(rounds=rounds).plan(SCHEMA, workload, ledger.budget, neighbours=ledger.neighbours)
    return ct.release(ROWS, plan=plan, ledger=ledger, key="k")


def keys(ledger: ct.Ledger) -> list[str]:
    return [entry.key for entry in ledger.entries()]


# Its model


def test_a_covered_table_is_its_own_estimate_and_others_are_raked() -> None:
    ones = [("a0",), ("a1",), ("a2",)]
    combined = combine(SCHEMA, exact(*ones, ("a0", "a2"), ("a1", "a2")))
    pair, independent, triple = predicted_tables(combined, [("a0", "a2"), ("a0", "a1"), ("a0", "a1", "a2")], 300)
    np.testing.assert_allclose(pair, margin(("a0", "a2")))
    np.testing.assert_allclose(independent, np.outer(margin(("a0",)), margin(("a1",))) / 300)
    # two tables that share a2 are a tree: the product of both over the one in common, in closed form
    closed = margin(("a0", "a2"))[:, None, :] * margin(("a1", "a2"))[None] / margin(("a2",))
    np.testing.assert_allclose(triple, closed)


def test_a_cycle_is_raked_as_the_slow_version_does() -> None:
    tables = [("a0", "a1"), ("a0", "a2"), ("a1", "a2")]
    combined = combine(SCHEMA, exact(*tables))
    (found,) = predicted_tables(combined, [("a0", "a1", "a2")], 300)
    known = {names: margin(names).astype(float) for names in [*tables, ("a0",), ("a1",), ("a2",)]}
    np.testing.assert_allclose(found, slow_prediction(("a0", "a1", "a2"), known, 300.0), rtol=1e-9)


def test_negative_cells_count_as_zero() -> None:
    noisy = [
        Measurement(Cells(("a0",)), np.array([-50, 150]), variance=1.0, noise=None, origin="x"),
        Measurement(Cells(("a1",)), np.array([-50, 200, -50]), variance=1.0, noise=None, origin="x"),
    ]
    (found,) = predicted_tables(combine(SCHEMA, noisy), [("a0", "a1")], 100)
    assert found.tolist() == [[0, 0, 0], [0, pytest.approx(100), 0]]
    none = [Measurement(Cells(("a0",)), np.array([-5, -5]), variance=1.0, noise=None, origin="x")]
    assert predicted_tables(combine(SCHEMA, none), [("a0",)], 10)[0].tolist() == [5, 5]


# Its stages


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("relation", list(ct.Neighbours), ids=str)
def test_every_choice_is_the_slow_versions(budget, relation) -> None:
    """Candidates, references, weights and penalties of all rounds, from the recorded measurements alone."""
    ledger = ct.Ledger.in_memory(schema=SCHEMA, budget=BUDGETS[budget], neighbours=relation)
    run(ledger, 4)
    seen: list[Measurement] = []
    for key in keys(ledger):
        plan = ledger.plan(key)
        assert plan is not None
        for request in plan.requests:
            if isinstance(request.query, Choice):
                following = ledger.plan(stage_key("k", keys(ledger).index(key) + 2))
                measuring = float(following.own_budget.nearly_rho)
                slow = slow_choice(
                    SCHEMA.shape, seen, TRIPLES.tables, amount=measuring, pure=BUDGETS[budget].pure, relation=relation
                )
                assert request.query.candidates == tuple(slow)
                for i, (reference, weight, penalty) in enumerate(slow.values()):
                    assert np.abs(np.array(request.query.reference[i]) - reference).max() <= 0.5 + 1e-6
                    assert float(request.query.weights[i]) == pytest.approx(weight, abs=5e-4)
                    assert request.query.penalties[i] == pytest.approx(penalty, abs=0.51)
        seen += ledger.measurements(key)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("relation", list(ct.Neighbours), ids=str)
def test_the_cost_of_a_run_by_brute_force_is_the_ledgers(budget, relation) -> None:
    """All requests together, as they were recorded; under replacement no reference need let a unit move all of them."""
    ledger = ct.Ledger.in_memory(schema=SCHEMA, budget=BUDGETS[budget], neighbours=relation)
    run(ledger, 2)
    requests = [request for key in keys(ledger) for request in ledger.plan(key).requests]
    true = brute_force_spent(BUDGETS[budget], SCHEMA, requests, relation)
    assert ledger.spent == BUDGETS[budget].amount
    assert true <= ledger.spent
    assert true > ledger.spent * Fraction(999_999, 1_000_000) or relation == ct.Neighbours.REPLACE


def test_a_run_is_repeated_from_what_was_recorded(tmp_path) -> None:
    ledger = ct.Ledger.create(tmp_path / "x.ledger", schema=SCHEMA, budget=ct.Budget(rho=1))
    release = run(ledger, 3)
    seen: list[Measurement] = []
    for number in range(1, 7):
        plan = ledger.plan(stage_key("k", number))
        seen += ledger.measurements(stage_key("k", number))
        assert next_stage(plan, seen).to_dict() == ledger.plan(stage_key("k", number + 1)).to_dict()
    assert ct.release(None, plan=ledger.plan("k"), ledger=ledger, key="k").choices == release.choices
    assert (len(release.choices), len(release.measurements), ledger.spent) == (3, 6, 1)
    assert [each.query.attributes for each in release.measurements[3:]] == [each.picked[0] for each in release.choices]


def test_shares_by_hand() -> None:
    """Three one-way tables and six rounds, each a ninth; a tenth of a round chooses."""
    plan = Adaptive(rounds=6).plan(SCHEMA, None, ct.Budget(epsilon=9))
    assert [each.amount for each in plan.stage_budgets] == [3, *[Fraction(1, 10), Fraction(9, 10)] * 6]
    assert [(each.query, each.noise.scale) for each in plan.requests] == [(Cells((f"a{i}",)), 1.0) for i in range(3)]
    assert len(Adaptive().plan(SCHEMA, None, ct.Budget(epsilon=9)).later) == 2 * 4 * 3


@pytest.mark.parametrize(
    ("budget", "chosen", "expected"),
    [
        (ct.Budget(epsilon=1), 0, Cells(("a0", "a2"))),
        (ct.Budget(rho=1), 0, Contrast(("a0", "a2"))),
        (ct.Budget(rho=1), 3, Cells(("a0", "a1", "a2"))),
    ],
    ids=str,
)
def test_what_is_known_is_not_measured_again(budget, chosen, expected) -> None:
    """One-way tables are known: of a pair only the contrast is left. Pairs are not: of the triple, all of it is."""
    plan = Adaptive(rounds=1).plan(SCHEMA, TRIPLES, budget)
    seen = exact(("a0",), ("a1",), ("a2",))
    second = next_stage(plan, seen)
    assert second is not None
    (request,) = second.requests
    answer = Measurement(request.query, np.array(chosen), variance=1.0, noise=request.noise, origin="x")
    third = next_stage(second, [*seen, answer])
    assert third is not None
    assert [each.query for each in third.requests] == [expected]


def test_a_strong_dependence_is_found() -> None:
    """a0 and a2 go together in 95 of 100 rows: their table is the farthest by far, and noise is small."""
    ledger = ct.Ledger.in_memory(schema=SCHEMA, budget=ct.Budget(epsilon=200))
    assert run(ledger, 2, ct.Workload.up_to(SCHEMA, 2)).choices[0].picked[0] == ("a0", "a2")


# Its candidates


def test_candidates_are_the_tables_inside_wanted_ones_the_smallest_first(monkeypatch) -> None:
    wanted = ct.Workload([("a0", "a1", "a2"), ("a1",)])
    every = (("a0", "a2"), ("a0", "a1"), ("a1", "a2"), ("a0", "a1", "a2"))
    assert candidates_of(SCHEMA, wanted) == every
    monkeypatch.setattr(adaptive, "MOST_CELLS", 4 + 6 + 6 + 11)
    assert candidates_of(SCHEMA, wanted) == every[:3]
    monkeypatch.setattr(adaptive, "MOST_CANDIDATES", 2)
    assert candidates_of(SCHEMA, wanted) == every[:2]


def test_a_table_of_very_many_attributes_has_candidates_too() -> None:
    schema = schema_of(*[2] * 40)
    found = candidates_of(schema, ct.Workload([schema.names]))
    assert len(found) == 5_000
    assert found[: math.comb(40, 2)] == tuple(combinations(schema.names, 2))


@pytest.mark.parametrize(("rows", "left"), [(70, 4), (35, 3), (25, 1), (5, 1)])
def test_candidates_whose_noise_is_above_twice_the_rows_are_left_out(rows, left) -> None:
    """Scale 10 for each cell: 40 in the pair of 4 cells, 60 in those of 6, 120 in the triple. One always stays."""
    plan = Adaptive(rounds=1).plan(SCHEMA, TRIPLES, ct.Budget(epsilon=Fraction(4, 9)))
    assert plan.stage_budgets[-1].amount == Fraction(1, 10)
    ones = [
        Measurement(Cells((f"a{i}",)), np.full(n, rows / n), variance=1.0, noise=None, origin="x")
        for i, n in enumerate(SCHEMA.shape)
    ]
    (request,) = next_stage(plan, ones).requests
    assert isinstance(request.query, Choice)
    assert request.query.candidates == candidates_of(SCHEMA, TRIPLES)[:left]
    assert request.query.penalties == (40, 60, 60, 120)[:left]


def test_one_way_tables_alone_need_no_rounds() -> None:
    plan = Adaptive().plan(SCHEMA, ct.Workload([("a0",), ("a2",)]), ct.Budget(epsilon=1))
    assert ([each.query for each in plan.requests], plan.later) == ([Cells(("a0",)), Cells(("a2",))], ())


@pytest.mark.parametrize("rounds", [0, 201, True, 1.5])
def test_bad_rounds_are_refused(rounds) -> None:
    with pytest.raises(PlanError, match="rounds must be a whole number from 1 to 200"):
        Adaptive(rounds=rounds)


# At the terminal


def test_a_run_at_the_terminal_says_what_was_chosen(tmp_path) -> None:
    SCHEMA.save(tmp_path / "p.schema.json")
    pa.csv.write_csv(ROWS, tmp_path / "p.csv")
    shown = ran_well(
        "plan", tmp_path / "p.schema.json", "--epsilon", "9", "--strategy", "adaptive", "-o", tmp_path / "p.json"
    )
    assert "24 later stages, with 80% of the budget together, ask what adaptive chooses by those before." in shown.out
    ran_well("release", tmp_path / "p.csv", "--plan", tmp_path / "p.json", "-o", tmp_path / "r.parquet")
    release = ct.open_release(tmp_path / "r.parquet")
    tables = ", ".join(dict.fromkeys(" x ".join(each.picked[0]) for each in release.choices))
    text = " ".join(ran_well("inspect", tmp_path / "r.parquet").out.split())
    assert "What to measure was chosen 12 times by a noisy maximum (Gumbel noise on scores that nobody sees)" in text
    assert f"which the budget pays for: {tables}." in text
    found = json.loads(ran_well("inspect", tmp_path / "r.parquet", "--json").out)["choices"]
    assert found == [{"tables": 3, "chosen": [list(each.picked[0])]} for each in release.choices]
