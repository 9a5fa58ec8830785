"""Acceptance criteria: limits that noise meets or misses, as its distribution says, before spending and after."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from cli_runs import Ran, run
from crosstally.budget import Neighbours, Noise, NoiseKind
from crosstally.errors import QueryError
from crosstally.plans.plan import Plan
from crosstally.releases.acceptance import Criteria, Criterion, judge_plan, judge_release
from crosstally.strategies.direct import Direct
from crosstally.strategies.planner import Proposal, compare

SCHEMA = ct.Schema([ct.Attribute("place", list("abcdefgh")), ct.Attribute("sex", ["f", "m"])])
ROWS = 8_000
LARGEST = {
    "name": "largest",
    "ways": 1,
    "tables": None,
    "error": "largest",
    "at_most": 1.0,
    "of": "rows",
    "level": 0.99,
}
TYPICAL = {**LARGEST, "name": "typical", "error": "typical", "of": "average count", "level": None}


def wanted(*given: Mapping[str, object], rows: int | None = ROWS) -> Criteria:
    return Criteria(tuple(Criterion(**each) for each in given), rows)


def table() -> pa.Table:
    return pa.table({"place": list("abcdefgh") * (ROWS // 8), "sex": ["f", "m"] * (ROWS // 2)})


def plan(epsilon: str = "1", tables: tuple[tuple[str, ...], ...] = (("place",),)) -> Plan:
    proposal = Proposal(ct.Budget(epsilon=epsilon), tables=tables, neighbours=Neighbours.ADD_REMOVE)
    return compare(SCHEMA, proposal, strategies=[Direct()]).chosen


def largest_of_eight(scale: float, level: float) -> float:
    """The quantile of the largest of 8 independent discrete Laplace numbers: P(|k| <= m)^8 for whole m."""
    ratio = math.exp(-1 / scale)
    within = [1 - 2 * ratio ** (m + 1) / (1 + ratio) for m in range(1, 2_000)]
    return next(m for m, chance in enumerate(within, start=1) if chance**8 >= level)


def test_the_forecast_of_a_largest_error_is_that_of_its_noise() -> None:
    """One table of 8 cells, Laplace noise of scale 1: 1,000 draws give the 99% quantile of the largest to 1 count
    with a chance of at least 0.999 (the seed is fixed, so this cannot fail by chance)."""
    (noise,) = {each.noise for each in plan("1").requests}
    assert noise == Noise(NoiseKind.LAPLACE, 1.0)
    asked = {**LARGEST, "ways": None, "tables": (("place",),)}
    (found,) = judge_plan(plan("1"), wanted(asked))
    assert found.high * ROWS == pytest.approx(largest_of_eight(1.0, 0.99), abs=1.01)


def test_the_forecast_of_a_typical_error_is_that_of_its_noise() -> None:
    """Discrete Laplace of scale 1 has the standard error 1.357; an average cell has 1,000 rows."""
    asked = {**TYPICAL, "ways": None, "tables": (("place",),)}
    (found,) = judge_plan(plan("1"), wanted(asked))
    assert found.high == pytest.approx(math.sqrt(Noise(NoiseKind.LAPLACE, 1.0).variance) / 1000)
    assert found.low <= found.high


@pytest.mark.parametrize(("limit", "word"), [(1.0, "pass"), (1e-6, "fail")])
def test_verdicts_before_and_after(limit: float, word: str) -> None:
    asked = wanted({**LARGEST, "at_most": limit}, {**TYPICAL, "at_most": limit})
    planned = plan("1", (("place",), ("sex",)))
    assert [each.word for each in judge_plan(planned, asked)] == [word, word]
    assert [each.word for each in judge_release(ct.release(table(), plan=planned), asked)] == [word, word]


def test_between_the_ends_it_is_unlikely_and_without_a_forecast_too() -> None:
    planned = plan("1")
    asked = {**TYPICAL, "ways": None, "tables": (("place",),)}
    (found,) = judge_plan(planned, wanted(asked))
    assert found.low < found.high
    between = {**asked, "at_most": (found.low + found.high) / 2}
    assert [each.word for each in judge_plan(planned, wanted(between))] == ["unlikely"]
    unmeasured = {**LARGEST, "ways": None, "tables": (("place", "sex"),)}
    assert [each.word for each in judge_plan(planned, wanted(unmeasured))] == ["unlikely"]


def test_the_verdict_after_holds_of_the_true_errors() -> None:
    """Of 12 releases of uniform rows, whose largest errors are known, few are beyond their own 99% quantile.

    If each is beyond with probability 0.01, four or more of 12 are with 5e-6: 495 x 1e-8.
    """
    planned = plan("0.5", (("place",), ("sex",)))
    asked = wanted({**LARGEST, "at_most": 1.0})
    missed = 0
    for _ in range(12):
        made = ct.release(table(), plan=planned)
        (found,) = judge_release(made, asked)
        errors = [np.abs(made.marginal(name).values - ROWS / SCHEMA[name].size).max() for name in SCHEMA.names]
        missed += max(errors) > found.high * ROWS
    assert missed <= 3


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"error": "median"}, "error must be typical or largest"),
        ({"of": "cells"}, "of must be"),
        ({"level": None}, "a largest error has a level"),
        ({"level": 0.9999}, "a largest error has a level"),
        ({"error": "typical"}, "a typical one has null"),
        ({"at_most": 0}, "at_most must be a positive share"),
        ({"tables": (("sex",),)}, "must name its tables, or say of how many ways"),
    ],
)
def test_criteria_that_are_none(change: dict[str, object], why: str) -> None:
    with pytest.raises(QueryError, match=why):
        wanted({**LARGEST, **change})


def test_unknown_attributes_and_unknown_rows() -> None:
    with pytest.raises(QueryError, match="'town'"):
        judge_plan(plan(), wanted({**LARGEST, "ways": None, "tables": (("town",),)}))
    with pytest.raises(QueryError, match="say about how many rows there are"):
        judge_plan(plan(), wanted(LARGEST, rows=None))


# At the terminal


def folder(tmp_path: Path, limit: float, **change: object) -> Path:
    import pyarrow.csv

    pyarrow.csv.write_csv(table(), tmp_path / "people.csv")
    SCHEMA.save(tmp_path / "s.json")
    given = {"crosstally-criteria": 1, "rows": ROWS, "criteria": [{**LARGEST, "at_most": limit}], **change}
    (tmp_path / "criteria.json").write_text(json.dumps(given))
    return tmp_path


def release(at: Path, *more: object) -> Ran:
    plain = (
        "--schema",
        at / "s.json",
        "--epsilon",
        "1",
        "--strategy",
        "direct",
        "--tables",
        "place",
        "--tables",
        "sex",
    )
    return run("release", at / "people.csv", *plain, "--accept", at / "criteria.json", *more)


def test_a_release_spends_only_if_the_forecast_passes(tmp_path: Path) -> None:
    at = folder(tmp_path, 1e-5)
    ran = release(at)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "nothing was spent: the forecast does not pass: largest: fail" in ran.err
    assert not list(at.glob("*.ledger")) + list(at.glob("*.parquet"))


def test_a_release_that_passes_says_so_and_so_does_its_statement(tmp_path: Path) -> None:
    at = folder(tmp_path, 0.5)
    summary = json.loads(release(at, "--json").out)
    assert [each["verdict"] for each in summary["criteria"]] == ["pass"]
    paid = (at / "people.release.parquet", "--ledger", at / "people.ledger")
    facts = json.loads(run("statement", *paid, "--accept", at / "criteria.json", "--json").out)
    assert [each["verdict"] for each in facts["criteria"]] == ["pass"]
    assert "Acceptance criteria" in [each["title"] for each in facts["sections"]]


def test_what_fails_after_is_written_and_paid_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = folder(tmp_path, 1e-5)
    monkeypatch.setattr("crosstally.cli.release._check_forecast", lambda *_given, **_more: None)
    ran = release(at)
    assert ran.code == 1
    assert "is written and paid for; its own draws do not pass: largest: fail; a new attempt is a new charge" in ran.err
    assert ct.open_release(at / "people.release.parquet").measurements
    paid = (at / "people.release.parquet", "--ledger", at / "people.ledger")
    missed = run("statement", *paid, "--accept", at / "criteria.json", "-o", at / "s.html")
    assert (missed.code, (at / "s.html").is_file()) == (1, True)


def test_a_plan_is_judged_too(tmp_path: Path) -> None:
    at = folder(tmp_path, 1e-5)
    given = ("plan", at / "s.json", "--epsilon", "1", "--rows", ROWS, "--accept", at / "criteria.json")
    ran = run(*given)
    assert (ran.code, "the forecast does not pass: largest: fail" in ran.err) == (1, True)
    assert "largest error at most 1e-05 of rows with 99.0%" in ran.out
    judged = json.loads(run(*given, "--json").out)["criteria"]
    assert [each["verdict"] for each in judged] == ["fail"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"crosstally-criteria": 2}, "criteria must have crosstally-criteria 1"),
        ({"rows": 0}, "rows must be a whole number or null"),
        ({"criteria": []}, "criteria a list of at least one"),
        ({"criteria": [{"name": "x"}]}, "each criterion must have at_most, error, level, name, of, tables, ways"),
        ({"criteria": [{**LARGEST, "at_most": "2%"}]}, "must be numbers"),
        ({"criteria": [{**LARGEST, "ways": None, "tables": 3}]}, "tables must be"),
    ],
)
def test_files_that_are_no_criteria(change: dict[str, object], why: str, tmp_path: Path) -> None:
    ran = release(folder(tmp_path, 0.5, **change))
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert why in ran.err
