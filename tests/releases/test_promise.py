"""A release cannot contradict its promise: what its measurements cost is computed again when it is saved and opened."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from cli_runs import ran_well, run
from crosstally.budget import Budget, Currency, Neighbours, Noise, NoiseKind
from crosstally.errors import ReleaseError
from crosstally.measurements import Chosen, Measurement
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request
from crosstally.query.choice import Choice
from crosstally.query.queries import Cells, Contrast, Query
from crosstally.releases import Release, open_release, publish
from crosstally.releases.file.writer import header_bytes
from crosstally.releases.publication import costs_of_entries, foreign_origins
from crosstally.schema import Attribute, Schema, Unit
from crosstally.workload import Workload
from forged_release import forge, set_in
from released import noisy, people, statement, views

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
LAPLACE_2 = Noise(NoiseKind.LAPLACE, 2.0)
GAUSSIAN_2 = Noise(NoiseKind.GAUSSIAN, 2.0)


def cost(
    queries: list[Query],
    noise: Noise,
    neighbours: Neighbours,
    *,
    unit: int = 1,
    origins: tuple[str, ...] = (),
    choices: tuple[Chosen, ...] = (),
) -> Fraction:
    schema = people(Unit("person", unit))
    measured = [replace(noisy(schema, query, noise), origin="e") for query in queries]
    for i, origin in enumerate(origins):
        measured[i] = replace(measured[i], origin=origin)
    currency: Currency = "epsilon" if noise.kind is NoiseKind.LAPLACE else "rho"
    return sum(costs_of_entries(schema, neighbours, measured, choices, currency=currency).values(), Fraction(0))


SEX, AGE = Cells(("sex",)), Cells(("âge",))
GUMBEL = Chosen(tables=(("sex",), ("âge",)), numbers=(0,), noise=Noise(NoiseKind.GUMBEL, 8.0), origin="e", weight=3)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (cost([SEX, AGE], LAPLACE_2, ADD), Fraction(1)),  # 1/2 each
        (cost([SEX, AGE], LAPLACE_2, REPLACE), Fraction(2)),  # 2/2 each
        (cost([SEX], LAPLACE_2, ADD, unit=3), Fraction(3, 2)),
        (cost([SEX, AGE], GAUSSIAN_2, ADD), Fraction(1, 4)),  # 1 / (2 x 4) each
        (cost([SEX], GAUSSIAN_2, REPLACE, unit=3), Fraction(9, 4)),  # 9 x 2 / 8
        # sex differs: 2; sex and age both differ, of two bins and missing, or only one does: never all three
        (cost([Contrast(("sex",)), Contrast(("sex", "âge"))], LAPLACE_2, ADD), Fraction(1 + 6, 2)),
        (cost([SEX, AGE], LAPLACE_2, ADD, origins=("a", "b")), Fraction(1)),  # two entries add up
        (cost([SEX], LAPLACE_2, ADD, choices=(GUMBEL,)), Fraction(1, 2) + Fraction(6, 8)),  # 2 x 3 / 8
        (cost([SEX], LAPLACE_2, REPLACE, choices=(GUMBEL,)), Fraction(1) + Fraction(12, 8)),
        (cost([SEX], GAUSSIAN_2, ADD, choices=(GUMBEL,)), Fraction(1, 8) + Fraction(36, 64) / 8),
        (cost([], LAPLACE_2, ADD, choices=(replace(GUMBEL, weight=1),)), Fraction(2, 8)),
    ],
)
def test_costs_by_hand(found: Fraction, expected: Fraction) -> None:
    assert found == expected


def test_a_statement_that_promises_more_privacy_than_was_paid_is_refused(tmp_path: Path) -> None:
    """Three tables with Laplace noise of scale 7.5 cost 3 / 7.5 = 0.4."""
    path = tmp_path / "r.parquet"
    views(budget=Budget(epsilon="0.4")).save(path)
    assert open_release(path).statement.budget == Budget(epsilon="0.4")
    message = "its measurements cost ε = 0.4, more than its statement of ε = 0.399"
    with pytest.raises(ReleaseError, match=message):
        views(budget=Budget(epsilon="0.399")).save(tmp_path / "s.parquet")
    assert not (tmp_path / "s.parquet").exists()
    with pytest.raises(ReleaseError, match=message):
        open_release(forge(path, set_in("statement", "budget", to={"epsilon": "0.399"})))


def test_replacement_and_units_cost_more_than_a_forged_statement_says(tmp_path: Path) -> None:
    views(budget=Budget(epsilon="0.4")).save(tmp_path / "r.parquet")
    with pytest.raises(ReleaseError, match="cost ε = 0.533333, more than"):  # two tables move by 2; the total stays
        open_release(forge(tmp_path / "r.parquet", set_in("statement", "neighbours", to="replace")))


def test_gaussian_noise_cannot_be_promised_as_pure(tmp_path: Path) -> None:
    made = publish(people(), [noisy(people(), SEX, GAUSSIAN_2)], statement(budget=Budget(rho="1/8")))
    made.save(tmp_path / "r.parquet")
    with pytest.raises(ReleaseError, match="do not fit its privacy statement: Gaussian noise cannot be paid"):
        open_release(forge(tmp_path / "r.parquet", set_in("statement", "budget", to={"epsilon": "9"})))


def test_answers_of_others_are_left_out_and_named(tmp_path: Path) -> None:
    foreign = replace(noisy(people(), AGE, None), origin="census 2020")
    made = publish(people(), [noisy(people(), SEX, LAPLACE_2), foreign], statement(budget=Budget(epsilon="1/2")))
    assert foreign_origins(made.statement, made.measurements) == ("census 2020",)
    made.save(tmp_path / "r.parquet")
    assert "answers of census 2020" in ran_well("inspect", tmp_path / "r.parquet").out.replace("\n", " ")
    assert json.loads(ran_well("inspect", tmp_path / "r.parquet", "--json").out)["foreign"] == ["census 2020"]


# Every strategy, and the ledger that paid

TOY = Schema([Attribute("a", ["0", "1"]), Attribute("b", ["x", "y", "z"]), Attribute("c", ["0", "1"])])
ROWS = pa.table({"a": ["0", "1"] * 60, "b": ["x", "y", "z"] * 40, "c": ["0", "1", "1"] * 40})


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize(
    ("strategy", "budget"),
    [
        ("direct", {"epsilon": "1/3"}),
        ("fourier", {"epsilon": 1}),
        ("residual", {"epsilon": 1, "delta": "1e-6"}),
        ("two-stage", {"epsilon": 1}),
        ("two-stage", {"rho": "0.1"}),
        ("mwem", {"rho": "0.1"}),
        ("adaptive", {"epsilon": 1}),
        ("adaptive", {"epsilon": 1, "delta": "1e-6"}),
    ],
)
def test_every_release_keeps_its_own_promise(
    strategy: str, budget: dict[str, Any], neighbours: Neighbours, tmp_path: Path
) -> None:
    ledger = ct.Ledger.create(tmp_path / "l", schema=TOY, budget=Budget(**budget), neighbours=neighbours)
    made = ct.release(ROWS, TOY, **budget, strategy=strategy, neighbours=neighbours, ledger=ledger)
    made.save(tmp_path / "r.parquet")
    opened = open_release(tmp_path / "r.parquet")
    assert opened.statement.plan == ledger.entries()[0].request
    paid = json.loads(ran_well("inspect", tmp_path / "r.parquet", "--json", "--ledger", tmp_path / "l").out)["ledger"]
    assert paid["entries"] == [entry.number for entry in ledger.entries()]
    assert paid["plan_checked"]
    assert Fraction(paid["charged"]) == ledger.spent


def bought(folder: Path) -> tuple[Release, Path]:
    """A release with a choice, saved, and its ledger."""
    choice = Choice([("a",), ("b",)], [[60, 60], [40] * 3], weights=["1/2", "1/3"])
    requests = (Request(choice, Noise(NoiseKind.GUMBEL, 12.0)), Request(Cells(("a",)), LAPLACE_2))  # 2 x 3 / 12 + 1/2
    plan = Plan(
        TOY, requests, strategy="by hand", workload=Workload([("a",)]), budget=Budget(epsilon=1), neighbours=ADD
    )
    ledger = ct.Ledger.create(folder / "l.ledger", schema=TOY, budget=Budget(epsilon=2))
    release = ct.release(ROWS, plan=plan, ledger=ledger, key="k")
    release.save(folder / "r.parquet")
    return release, folder / "l.ledger"


def test_the_ledger_that_paid_is_told_in_words(tmp_path: Path) -> None:
    _, ledger = bought(tmp_path)
    out = " ".join(ran_well("inspect", tmp_path / "r.parquet", "--ledger", ledger).out.split())
    assert "Checked with the ledger: entry 1 charged 1 of epsilon and bought exactly these numbers. The plan is" in out
    ran_well("ledger", "export", ledger, "k", "-o", tmp_path / "again.parquet")
    assert open_release(tmp_path / "again.parquet").statement == open_release(tmp_path / "r.parquet").statement
    ran_well("inspect", tmp_path / "again.parquet", "--ledger", ledger)


def add_one(arrays: dict[str, Any]) -> None:
    arrays["value"] = pa.array(arrays["value"].to_numpy() + np.array([1, 0]))


@pytest.mark.parametrize(
    ("change", "columns", "message"),
    [
        (set_in("statement", "plan", to="0" * 64), None, "the plan of the release is not the one that entry 1"),
        (set_in("statement", "entry", to="entry 2"), None, "did not buy any of its numbers"),
        (None, add_one, "the numbers of the release are not those that entry 1"),
        ("the other table", None, "the numbers of the release are not those that entry 1"),
        (set_in("choices", 0, "origin", to="entry 7 of ledger x"), None, "the release was paid by entry 7 of ledger x"),
    ],
)
def test_a_release_that_the_ledger_did_not_pay_is_told(change: Any, columns: Any, message: str, tmp_path: Path) -> None:
    release, ledger = bought(tmp_path)
    if change == "the other table":
        change = set_in("choices", 0, "chosen", to=[1 - release.choices[0].numbers[0]])
    path = forge(tmp_path / "r.parquet", change, columns=columns)
    ran = run("inspect", path, "--ledger", ledger)
    assert ran.code == 1
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_another_ledger_did_not_pay(tmp_path: Path) -> None:
    bought(tmp_path)
    other = ct.Ledger.create(tmp_path / "o.ledger", schema=TOY, budget=Budget(epsilon=2))
    assert run("inspect", tmp_path / "r.parquet", "--ledger", other.path).err.startswith("crosstally: the release was")
    third = ct.Ledger.create(tmp_path / "p.ledger", schema=TOY.subset("a"), budget=Budget(epsilon=2))
    assert "other attributes" in run("inspect", tmp_path / "r.parquet", "--ledger", third.path).err


def test_a_choice_in_a_file_costs_what_its_weight_says(tmp_path: Path) -> None:
    release, _ = bought(tmp_path)
    assert json.loads(header_bytes(release))["choices"][0]["weight"] == 3  # 1/2 and 1/3 are 3/6 and 2/6
    with pytest.raises(ReleaseError, match="cost ε = 1.16667, more than its statement of ε = 1"):  # 2 x 4 / 12 + 1/2
        open_release(forge(tmp_path / "r.parquet", set_in("choices", 0, "weight", to=4)))


def test_measurements_without_noise_cost_nothing_here() -> None:
    made = [Measurement(SEX, np.array([1.0, 2.0]), variance=1.0, noise=None, origin="protocol")]
    assert not costs_of_entries(people(), REPLACE, made, (), currency="epsilon")
