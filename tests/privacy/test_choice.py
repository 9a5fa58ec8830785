"""A private choice: its law, its sensitivity and its cost by enumeration, and that no score ever leaves."""

from __future__ import annotations

import json
import math
from collections import Counter
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2

import crosstally as ct
from conftest import schema_of
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind, Sensitivity
from crosstally.errors import BudgetError, CrosstallyError, PlanError, QueryError, ReleaseError
from crosstally.inference.estimates import estimate
from crosstally.measurements import Chosen, ExactTable, Measurement
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request
from crosstally.privacy.accounting import tight_epsilon
from crosstally.privacy.measure import measure
from crosstally.privacy.noise import LIMIT, mechanism
from crosstally.query.choice import Choice
from crosstally.query.queries import Cells
from crosstally.query.query_json import query_from_dict
from crosstally.releases import Statement, open_release, publish
from crosstally.releases.file.header import read_header
from crosstally.releases.file.writer import header_bytes
from crosstally.residuals import combine
from crosstally.schema import Outside, Schema, Unit
from crosstally.workload import Workload
from reference_privacy import answer, brute_force_choice, brute_force_spent, neighbouring_tables

TOY = schema_of(2, 2)
CHOICE = Choice(
    [("a0",), ("a1",), ("a0", "a1")],
    [[1, 0], [0, 2], [1, 0, 0, 1]],
    weights=["1/2", "1/3", "1"],
    penalties=[0, 1, -2],
)
SCHEMAS = {
    "rows": TOY,
    "rows that may be dropped": schema_of(2, 2, outside=Outside.DROP),
    "units of up to 2 rows": schema_of(2, 2, unit=Unit("id", 2)),
}


def plan_of(*requests: Request, budget: Budget, schema: Schema = TOY, relation: str = "add-remove") -> Plan:
    workload, neighbours = Workload.small_tables(schema), Neighbours(relation)
    return Plan(schema, requests, strategy="test", workload=workload, budget=budget, neighbours=neighbours)


def exact_tables(plan: Plan, rows: list[tuple[int, ...]]) -> list[ExactTable]:
    tables = []
    for table in plan.tables:
        shape = plan.schema.sizes(table.attributes)
        counts = answer({"cells": list(table.attributes)}, plan.schema.to_dict(), tuple(rows))
        tables.append(ExactTable(plan.schema.subset(*table.attributes), np.array(counts, np.int64).reshape(shape)))
    return tables


def softmax(scores: list[int], scale: float) -> list[float]:
    weights = [math.exp((score - max(scores)) / scale) for score in scores]
    return [weight / sum(weights) for weight in weights]


# Its law


def permute_and_flip(scores: list[int], scale: float) -> list[float]:
    """The other law: in a random order, the first whose coin of exp((score - largest) / scale) shows heads."""
    coins = [math.exp((score - max(scores)) / scale) for score in scores]
    out = [0.0] * len(scores)
    orders = list(permutations(range(len(scores))))
    for order in orders:
        left = 1 / len(orders)
        for i in order:
            out[i] += left * coins[i]
            left *= 1 - coins[i]
    return out


@pytest.mark.parametrize("relation", list(Neighbours), ids=str)
def test_what_is_chosen_has_the_softmax_law_and_no_other(relation) -> None:
    """False alarms: one in a million. 1.3 times the scale, 1 / 1.3 times it, and permute-and-flip are rejected."""
    scale, times = 12.0, 4_000
    rows = [(0, 0)] * 3 + [(1, 0)] * 2
    request = Request(CHOICE, Noise(NoiseKind.GUMBEL, scale))
    plan = plan_of(*[request] * times, budget=Budget(epsilon=10**6), relation=relation)
    ledger = ct.Ledger.in_memory(schema=TOY, budget=plan.budget, neighbours=relation)
    found = Counter(int(each.values) for each in measure(exact_tables(plan, rows), plan, ledger=ledger))
    # By hand: a0 is (3, 2), 2 + 2 from (1, 0). a1 is (5, 0), 5 + 2 from (0, 2), less 1. Both are (3, 0, 2, 0), 2 + 0 +
    # 2 + 1 from (1, 0, 0, 1), and 2 more. Weights are 3, 2 and 6 over 6.
    scores = [3 * 4, 2 * 6, 6 * 7]
    assert answer(CHOICE.to_dict(), TOY.to_dict(), tuple(rows)) == scores

    def fits(law: list[float]) -> bool:
        statistic = sum((found[i] - times * p) ** 2 / (times * p) for i, p in enumerate(law))
        return float(chi2.sf(statistic, len(law) - 1)) > 1e-6

    laws = [softmax(scores, scale * factor) for factor in (1, 1.3, 1 / 1.3)]
    assert [*map(fits, laws), fits(permute_and_flip(scores, scale))] == [True, False, False, False]


def test_a_single_candidate_is_chosen_and_scores_of_any_size_are_told_apart() -> None:
    """At a scale of 0.01 noise reaches 1 but once in e^100 draws; a score of 2^61 does not lose the last digit."""
    sampler = mechanism(Noise(NoiseKind.GUMBEL, 0.01), [Sensitivity(1, 1)])
    assert sampler.choose(np.array([5], np.int64)) == 0
    assert sampler.choose(np.array([2**61, 2**61 + 1, -(2**61)], np.int64)) == 1


# Its sensitivity and its cost


@pytest.mark.parametrize("relation", list(Neighbours), ids=str)
@pytest.mark.parametrize("about", SCHEMAS)
def test_sensitivity_is_what_some_neighbours_attain(about, relation) -> None:
    schema = SCHEMAS[about]
    claimed = CHOICE.sensitivity(schema, relation)
    by_hand = 6 * (2 if schema.max_rows == 2 else 1) * (2 if relation == Neighbours.REPLACE else 1)
    assert (claimed.l1, claimed.l2_squared) == (by_hand, by_hand**2)
    others = 1 if schema.max_rows == 2 else 3
    attained = brute_force_choice(CHOICE.to_dict(), schema.to_dict(), relation.value, others)
    assert attained == by_hand


@pytest.mark.parametrize("relation", list(Neighbours), ids=str)
def test_no_reference_lets_a_unit_move_a_score_farther(relation) -> None:
    """Every reference of a table of two cells with numbers from -1 to 2, on every pair with up to two others."""
    schema = schema_of(2)
    for reference in product(range(-1, 3), repeat=2):
        choice = Choice([("a0",)], [reference], weights=["2/7"])
        moved = brute_force_choice(choice.to_dict(), schema.to_dict(), relation.value, 2)
        assert moved <= choice.sensitivity(schema, relation).l1 == (4 if relation == Neighbours.REPLACE else 2)


@pytest.mark.parametrize("relation", list(Neighbours), ids=str)
def test_no_neighbours_are_told_apart_beyond_the_cost(relation) -> None:
    """By enumeration of all outcomes: the log of any ratio is at most epsilon, Renyi divergences at most alpha rho."""
    noise, given, query = Noise(NoiseKind.GUMBEL, 7.0), TOY.to_dict(), CHOICE.to_dict()
    request = Request(CHOICE, noise)
    epsilon = float(plan_of(request, budget=Budget(epsilon=100), relation=relation).cost)
    rho = float(plan_of(request, budget=Budget(rho=100), relation=relation).cost)
    widest = 0.0
    for before, after in neighbouring_tables(given, relation.value, 2):
        for one, two in ((before, after), (after, before)):
            p, q = (softmax(answer(query, given, rows), noise.scale) for rows in (one, two))
            losses = [math.log(x / y) for x, y in zip(p, q, strict=True)]
            assert max(losses) <= epsilon * (1 + 1e-12)
            widest = max(widest, max(losses) - min(losses))
            for alpha in (1.5, 2.0, 8.0):
                moment = sum(x * math.exp((alpha - 1) * loss) for x, loss in zip(p, losses, strict=True))
                assert math.log(moment) / (alpha - 1) <= alpha * rho * (1 + 1e-9)
    assert widest <= epsilon * (1 + 1e-12)  # what makes rho an eighth of the square, not half of it
    assert widest > epsilon / 2


@pytest.mark.parametrize("budget", [Budget(epsilon=10), Budget(rho=10)], ids=str)
@pytest.mark.parametrize("relation", list(Neighbours), ids=str)
def test_it_costs_what_brute_force_and_the_ledger_say(relation, budget) -> None:
    """Beside a table, with rows added: every pair of neighbours moves both as far as they can."""
    kind = NoiseKind.LAPLACE if budget.pure else NoiseKind.GAUSSIAN
    requests = (Request(CHOICE, Noise(NoiseKind.GUMBEL, 5.0)), Request(Cells(("a0",)), Noise(kind, 2.0)))
    plan = plan_of(*requests, budget=budget, relation=relation)
    moved = 2 if relation == Neighbours.REPLACE else 1
    epsilon = Fraction(2 * 6 * moved, 5)
    beside = Fraction(moved, 2) if budget.pure else Fraction(moved, 8)
    assert plan.cost == (epsilon if budget.pure else epsilon**2 / 8) + beside
    attained = brute_force_spent(budget, plan.schema, plan.requests, relation)
    assert attained <= plan.cost
    assert attained == plan.cost or relation == Neighbours.REPLACE
    exactly = Plan.from_dict({**plan.to_dict(), "budget": {budget_field(budget): str(plan.cost)}})
    ledger = ct.Ledger.in_memory(schema=TOY, budget=exactly.budget, neighbours=relation)
    measure(exact_tables(exactly, [(0, 1)]), exactly, ledger=ledger)
    assert (ledger.spent, ledger.remaining) == (plan.cost, 0)


def budget_field(budget: Budget) -> str:
    return "epsilon" if budget.pure else "rho"


@pytest.mark.parametrize("currency", ["epsilon", "rho", "mu2"])
def test_the_least_noise_costs_the_amount_and_hardly_less(currency) -> None:
    amount, sensitivity = Fraction(1, 7), CHOICE.sensitivity(TOY, Neighbours.REPLACE)
    noise = Noise.affordable_choice(sensitivity, amount, currency=currency)
    epsilon = noise.cost(sensitivity)
    cost = {"epsilon": epsilon, "rho": epsilon**2 / 8, "mu2": Fraction(11, 28) * epsilon**2}[currency]
    assert amount * (1 - Fraction(1, 10**12)) < cost <= amount


def test_a_cost_below_what_opendp_proves_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    noise, one = Noise(NoiseKind.GUMBEL, 2.0), Sensitivity(3, 9)
    assert noise.cost(one) == 3
    mechanism(noise, [one])
    monkeypatch.setattr(Noise, "cost", lambda *_: Fraction(299, 100))
    with pytest.raises(PlanError, match="more than the"):
        mechanism(noise, [one])


def test_what_it_means_as_epsilon_and_delta() -> None:
    plan = plan_of(Request(CHOICE, Noise(NoiseKind.GUMBEL, 60.0)), budget=Budget(epsilon=1))
    assert 0.1 < tight_epsilon(plan, 1e-6) <= 0.2


# What is kept, and what is not


ROWS = pa.table({"a0": ["0"] * 30 + ["1"] * 11, "a1": ["0", "1", "1"] * 13 + ["0"] * 2})


def released(tmp_path: Any, **options: Any) -> tuple[ct.Release, ct.Ledger]:
    ledger = ct.Ledger.create(tmp_path / "x.ledger", schema=TOY, budget=Budget(epsilon=3))
    requests = (
        Request(CHOICE, Noise(NoiseKind.GUMBEL, 12.0)),
        Request(Cells(("a0", "a1")), Noise(NoiseKind.LAPLACE, 1.0)),
    )
    return ct.release(ROWS, plan=plan_of(*requests, budget=Budget(epsilon=2)), ledger=ledger, **options), ledger


def test_only_the_number_is_stored_and_published(tmp_path) -> None:
    release, ledger = released(tmp_path, key="k")
    choice, cells = ledger.measurements("k")
    assert (choice.query, choice.values.shape, choice.values.dtype) == (CHOICE, (), np.int64)
    assert 0 <= int(choice.values) < 3
    assert [each.query for each in release.measurements] == [cells.query]
    told = Chosen(
        tables=CHOICE.candidates,
        numbers=(int(choice.values),),
        noise=choice.noise,
        origin=choice.origin,
        weight=max(CHOICE.whole_weights),
    )
    assert release.choices == (told,)
    assert told.picked == (CHOICE.candidates[told.numbers[0]],)
    release.save(tmp_path / "x.parquet")
    again = open_release(tmp_path / "x.parquet")
    assert again.choices == release.choices
    assert again.marginal("a0").values == pytest.approx(release.marginal("a0").values, rel=1e-12)
    for how in ("joint", "none"):
        other = release.refit(nonnegative=how)
        other.save(tmp_path / "y.parquet")
        assert open_release(tmp_path / "y.parquet").choices == release.choices
    repeated = ct.release(None, plan=ledger.plan("k"), ledger=ledger, key="k")
    assert repeated.choices == release.choices
    ledger.verify()


def test_plans_hold_it_both_ways(tmp_path) -> None:
    plan = plan_of(Request(CHOICE, Noise(NoiseKind.GUMBEL, 12.0)), budget=Budget(epsilon=2))
    plan.save(tmp_path / "p.json")
    assert ct.Plan.load(tmp_path / "p.json") == plan
    saved = json.loads((tmp_path / "p.json").read_text())
    assert saved["requests"] == [
        {
            "query": {
                "choice": {
                    "candidates": [["a0"], ["a1"], ["a0", "a1"]],
                    "reference": [[1, 0], [0, 2], [1, 0, 0, 1]],
                    "weights": ["0.5", "1/3", "1"],
                    "penalties": [0, 1, -2],
                    "picks": 1,
                    "groups": {},
                }
            },
            "noise": {"kind": "gumbel", "scale": 12.0},
        }
    ]
    assert (plan.tables, plan.covers) == (CHOICE.tables, False)


def test_inference_and_history_pass_it_over(tmp_path) -> None:
    _, ledger = released(tmp_path, key="k")
    both = ledger.measurements("k")
    for function in (combine, estimate):
        assert np.array_equal(function(TOY, both).coefficients, function(TOY, both[1:]).coefficients)
    notebook = ct.open_notebook(ledger)
    alone = notebook.estimate(ct.count(a0="0"))
    assert alone.value == pytest.approx(float(both[1].values[0].sum()), rel=1e-6)
    assert len(notebook.improve_tables()) == 1
    assert notebook.synthesize(rows=20).codes.shape == (20, 2)


def test_no_score_is_in_an_error_or_a_repr(tmp_path) -> None:
    plan = plan_of(Request(CHOICE, Noise(NoiseKind.GUMBEL, 12.0)), budget=Budget(epsilon=2))
    ledger = ct.Ledger.in_memory(schema=TOY, budget=plan.budget)
    big = 987_654_321_987
    tables = [ExactTable(t.schema, t.counts + big * 2**21) for t in exact_tables(plan, [])]
    with pytest.raises(PlanError, match="counts are too large") as caught:
        measure(tables, plan, ledger=ledger)
    assert "98765" not in str(caught.value)
    assert ledger.spent == 0
    with pytest.raises(PlanError, match="must be below 2\\^62") as caught:
        mechanism(plan.requests[0].noise, [Sensitivity(1, 1)]).choose(np.array([LIMIT, 3], np.int64))
    assert str(LIMIT) not in str(caught.value)
    release, _ = released(tmp_path)
    assert "score" not in repr(release.choices)


# What is refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"candidates": []}, "at least one candidate"),
        ({"candidates": [["a0"], ["a0"], ["a1"]]}, "each table once"),
        ({"candidates": [["a0"], ["a1"], ["a1", "a0", "a0"]]}, "name each of its attributes once"),
        ({"candidates": [[]], "reference": [[]], "weights": ["1"], "penalties": [0]}, "must have a table among"),
        ({"picks": 0}, "must pick from 1 to 3 of its candidates, got 0"),
        ({"picks": 4}, "must pick from 1 to 3 of its candidates, got 4"),
        ({"picks": True}, "must pick from 1 to 3 of its candidates, got True"),
        ({"groups": []}, "groups of a choice must be an object"),
        ({"groups": {"a0": 1}}, "groups of a choice must be an object"),
        ({"candidates": [["a0"], ["a1"], [5]]}, "lists of attribute names"),
        ({"candidates": "a0"}, "must be a list"),
        ({"candidates": 5}, "must be a list"),
        ({"reference": None}, "must be a list"),
        ({"reference": [[1, 0], [0, 2]]}, "reference must have one for each of 3 tables, got 2"),
        ({"reference": [[1, 0], [0, 2], [1, 0, 0.5, 1]]}, "must be whole numbers, got 0.5"),
        ({"reference": [[1, 0], [0, 2], [1, 0, True, 1]]}, "must be whole numbers, got True"),
        ({"reference": [[1, 0], [0, 2], [2**60, 0, 0, 1]]}, "less than 2\\^60"),
        ({"weights": ["1", "1"]}, "weights must have one for each"),
        ({"weights": ["1", "0", "1"]}, "weight must be positive"),
        ({"weights": [1, 1, 1]}, "texts of exact numbers"),
        ({"weights": ["1", "1", "1/4294967296"]}, "below 2\\^31"),
        ({"penalties": [0, 0]}, "penalties must have one for each"),
        ({"penalties": [0, 0, 2**61]}, "less than 2\\^60"),
        ({"extra": 1}, "must be an object with candidates"),
    ],
    ids=str,
)
def test_bad_choices_are_refused(changes, message) -> None:
    with pytest.raises((QueryError, BudgetError), match=message):
        query_from_dict({"choice": {**CHOICE.to_dict()["choice"], **changes}})


def test_a_reference_has_the_cells_of_its_table() -> None:
    with pytest.raises(QueryError, match="reference of a0 must have 2 numbers, got 3"):
        Choice([("a0",)], [[1, 2, 3]]).shape(TOY)


def test_noise_belongs_to_its_kind_of_query() -> None:
    with pytest.raises(PlanError, match="a choice must have Gumbel noise"):
        Request(CHOICE, Noise(NoiseKind.LAPLACE, 1.0))
    with pytest.raises(PlanError, match="nothing else may have it"):
        Request(Cells(("a0",)), Noise(NoiseKind.GUMBEL, 1.0))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"numbers": (3,)}, r"of 3 tables, got \[3\]"),
        ({"numbers": (0, -1)}, r"of 3 tables, got \[0, -1\]"),
        ({"numbers": (True,)}, "of 3 tables"),
        ({"numbers": ()}, "of 3 tables"),
        ({"numbers": (1, 1)}, "different tables"),
        ({"noise": Noise(NoiseKind.LAPLACE, 1.0)}, "must be Gumbel noise, got laplace"),
        ({"weight": 0}, "whole number of at least 1"),
        ({"weight": 1.5}, "whole number of at least 1"),
    ],
    ids=str,
)
def test_what_was_chosen_is_one_of_the_tables(changes, message) -> None:
    fields: dict[str, Any] = {"numbers": (1,), "noise": Noise(NoiseKind.GUMBEL, 1.0), "origin": "x", "weight": 1}
    with pytest.raises(CrosstallyError, match=message):
        Chosen(tables=CHOICE.candidates, **{**fields, **changes})


def test_a_release_of_a_choice_alone_needs_the_number_of_rows() -> None:
    noise = Noise(NoiseKind.GUMBEL, 1.0)
    chosen = Measurement(CHOICE, np.array(1), variance=noise.variance, noise=noise, origin="x")
    statement = Statement(strategy="t", budget=Budget(epsilon=1), neighbours=Neighbours.ADD_REMOVE, rows=40)
    release = publish(TOY, [chosen], statement)
    assert (release.rows, release.measurements, release.choices[0].numbers) == (40, (), (1,))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chosen": [3]}, "choice 0: what was chosen must be of 3 tables"),
        ({"chosen": ["1"]}, "choice 0: what was chosen"),
        ({"chosen": 1}, "choice 0: chosen must be a list"),
        ({"tables": [[0], [7]]}, "choice 0 must name attributes that are there"),
        ({"tables": [[0], 1]}, "choice 0: tables must be a list of lists"),
        ({"origin": 5}, "choice 0: origin must be a text"),
        ({"noise": {"kind": "laplace", "scale": 1.0}}, "must be Gumbel noise"),
        ({"weight": 0}, "choice 0: the weight of a choice"),
        ({"weight": None}, "choice 0: the weight of a choice"),
        ({"scores": [1, 2, 3]}, "choice 0 must be an object with exactly the fields"),
    ],
    ids=str,
)
def test_a_forged_choice_in_a_file_is_refused(tmp_path, changes, message) -> None:
    release, _ = released(tmp_path)
    header = json.loads(header_bytes(release))
    header["choices"][0].update(changes)
    with pytest.raises(ReleaseError, match=message):
        read_header(json.dumps(header).encode(), 4)


def test_forged_choices_and_noise_of_a_file(tmp_path) -> None:
    header = json.loads(header_bytes(released(tmp_path)[0]))
    read_header(json.dumps(header).encode(), 4)
    with pytest.raises(ReleaseError, match="must be a list"):
        read_header(json.dumps({**header, "choices": {}}).encode(), 4)
    noise = {"kind": "gumbel", "scale": 1.0}
    header["mechanisms"][0]["noise"] = noise
    with pytest.raises(ReleaseError, match="noise must be laplace or gaussian"):
        read_header(json.dumps(header).encode(), 4)
