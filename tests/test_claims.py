"""What numbers say of themselves: what they count, which public counts may join them, which intervals are given."""

from __future__ import annotations

import json
import math
import re
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
import released
from cli_runs import run
from crosstally.answers.changes import Change
from crosstally.answers.marginal import ErrorKind, Marginal
from crosstally.answers.uncertainty import Draws, Spread
from crosstally.browser.explorer.grid import grid
from crosstally.browser.explorer.release_page import release_page
from crosstally.browser.explorer.served import Served
from crosstally.browser.explorer.view import TableView
from crosstally.errors import CrosstallyError, SchemaError
from crosstally.exports.px import px_text
from crosstally.query.queries import Cells
from crosstally.releases import Release, publish
from crosstally.reliability import PUBLISHED, SIGNS
from crosstally.schema import Attribute, Outside, Schema, Unit
from crosstally.schema.facts import PublicCounts
from web_clients import client_of, serving

BOUND = Unit("patient", 3)
CLAIMS = re.compile(r"\bpeople\b|true (?:count|one)", re.IGNORECASE)


def served(release: Release) -> Served:
    return serving(release, name="admissions", file="admissions.release.parquet")


def kept() -> Release:
    return released.views(released.people(BOUND), unit=BOUND, budget=ct.Budget(epsilon=2))


# What is counted


def said(release: Release, folder: Path) -> dict[str, str]:
    """What each door says of a release."""
    file = folder / "r.parquet"
    release.save(file)
    out = {
        "page": release_page(release, file_name="admissions.parquet"),
        "PX": px_text(release.marginal("sex")),
        "repr": f"{release.marginal('sex')}{release.statement.plain(release.schema)}",
    }
    pages = client_of(served(release), page=True)
    for address in ("/", "/table", "/table?rows=sex&columns=value", "/table?where=sex+%3D+Female", "/privacy"):
        out[address] = pages.get(address).text
    out["JSON-stat"] = client_of(served(release)).get("/api/v2/tables/admissions/data").text
    for command in (["table", file, "sex"], ["table", file, "sex", "value"], ["inspect", file]):
        ran = run(*command)
        out[str(command[0])] = ran.out + ran.err
    return out


def test_under_a_bound_no_door_says_people_or_the_true_count(tmp_path: Path) -> None:
    """Rows beyond the bound are in no table: what remains are neither all rows nor people."""
    doors = said(kept(), tmp_path)
    assert {door: CLAIMS.findall(words) for door, words in doors.items()} == {door: [] for door in doors}
    phrase = "count of rows (at most 3 of each patient)"
    assert phrase in " ".join(doors["table"].split())
    assert phrase in doors["page"]
    assert phrase in doors["PX"]
    assert "rows, at most 3 of each patient" in doors["/"]


def test_without_a_bound_they_do(tmp_path: Path) -> None:
    """So the search above would find it."""
    doors = said(released.views(), tmp_path)
    assert [door for door in ("page", "PX", "table", "/") if not CLAIMS.search(doors[door])] == []


# Public counts beside rows that are left out


DROPS = Attribute("sex", ["Female", "Male"], outside=Outside.DROP)
KEEPS = Attribute("sex", ["Female", "Male"])


@pytest.mark.parametrize(
    ("attribute", "unit", "left_out"),
    [(KEEPS, BOUND, "rows beyond 3 of each patient"), (DROPS, None, "rows outside the values of sex")],
)
@pytest.mark.parametrize("fact", [PublicCounts(None, (100,)), PublicCounts("sex", (60, 40), error=2.0)], ids=str)
def test_a_public_count_of_all_rows_is_refused_where_rows_are_left_out(
    attribute: Attribute, unit: Unit | None, left_out: str, fact: PublicCounts
) -> None:
    Schema([KEEPS], facts=[fact])
    with pytest.raises(SchemaError, match=f"facts: public counts are of all rows, .* leaves out {left_out}"):
        Schema([attribute], unit, facts=[fact])


@pytest.mark.parametrize(("attribute", "unit"), [(KEEPS, BOUND), (DROPS, None)])
def test_a_public_number_of_rows_is_refused_before_anything_is_charged(attribute: Attribute, unit: Unit | None) -> None:
    schema = Schema([attribute, Attribute("home", ["a", "b"])], unit)
    rows = pa.table({"sex": ["Female"], "home": ["a"], "patient": ["x"]})
    ledger = ct.Ledger.in_memory(schema=schema, budget=ct.Budget(epsilon=3), neighbours=ct.Neighbours.ADD_REMOVE)
    plan = ct.plan(schema, epsilon=1, rows=1_000).chosen
    for call in (
        lambda: ct.release(rows, schema, epsilon=1, rows=1, ledger=ledger),
        lambda: ct.release(rows, plan=plan, rows=1, ledger=ledger),
    ):
        with pytest.raises(CrosstallyError, match="rows: public counts are of all rows"):
            call()
    assert not ledger.entries()
    ct.release(rows, plan=plan, ledger=ledger)


@pytest.mark.parametrize("public", [{"rows": 3}, {}])
def test_a_public_count_is_refused_beside_a_query_that_leaves_rows_out(public: dict[str, int]) -> None:
    facts = [] if public else [PublicCounts("sex", (2, 1))]
    schema = Schema([KEEPS, Attribute("home", ["a", "b"])], facts=facts)
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE people AS SELECT 'Female' AS sex, 'a' AS home UNION ALL SELECT 'Male', 'b'")
    ledger = ct.Ledger.in_memory(schema=schema, budget=ct.Budget(epsilon=3), neighbours=ct.Neighbours.ADD_REMOVE)
    whole, part = (
        ct.Database(query=f"SELECT sex, home FROM people{where}", connection=connection)
        for where in ("", " WHERE home = 'a'")
    )
    with pytest.raises(CrosstallyError, match="public counts .* are of all rows, and the query leaves rows out"):
        ct.release(part, schema, epsilon=1, ledger=ledger, **public)
    assert not ledger.entries()
    ct.release(whole, schema, epsilon=1, ledger=ledger, **public)


# Intervals that were never shown to cover


def test_a_mean_of_bins_has_bounds_and_no_standard_error() -> None:
    """Of 44 means by middles of bins no interval of their noise held the true mean."""
    schema = Schema([Attribute("sex", ["Female", "Male"]), Attribute("age", edges=[0, 20, 60, 100])])
    measurement = released.noisy(schema, Cells(("sex", "age")))
    table = publish(schema, [measurement], released.statement()).marginal("sex", "age")
    mean = ct.analysis.mean(table, "age")
    low, high = mean.interval()
    assert (high - low >= 20).all()  # as much as the narrowest bin hides
    assert np.isnan(mean.std_error).all()
    assert np.isfinite(ct.analysis.mean(table, "age", at=[10, 40, 80]).std_error).all()


# One rule of reliability


class Wide:
    """The error of the noise in a cell, before correction: five times that of the number shown."""

    std_error = 50.0

    def half_width(self, level: float) -> float:
        return 98.0


class Narrow:
    """Counts with an error of 10."""

    def spread(self, _: Change | None) -> Spread:
        return Spread(None, np.full(4, 100.0), np.full(4, 100.0), math.inf)


def corrected() -> Marginal:
    schema = Schema([Attribute("x", ["a", "b", "c", "d"])])
    values = np.array([100.0, 40.0, 20.0, 0.0])
    known = Draws(error=Wide(), cells=Narrow())
    return Marginal(schema, values, method="least-squares", error_kind=ErrorKind.CORRECTED, uncertainty=known)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_reliability_is_that_of_the_number_shown_at_every_door(level: float) -> None:
    """Errors of 10 beside 100, 40, 20 and 0 are 10%, 25%, 50% and all; by that of the noise all are above 33.3%."""
    table = corrected()
    assert ct.analysis.quality(table).tolist() == ["", "E", "F", "F"]
    assert np.isnan(ct.analysis.suppress(table).values).tolist() == [False, False, True, True]
    shown = grid(table, table, TableView(("x",), (), level=level))
    assert [SIGNS[PUBLISHED[place]] for place in shown.classes[:, 0]] == ["", "E", "F", "F"]


def test_a_difference_below_zero_is_judged_by_its_size() -> None:
    table = corrected()
    below = replace(table, values=-table.values)
    assert ct.analysis.quality(below).tolist() == ["", "E", "F", "F"]


def test_json_stat_names_what_is_counted() -> None:
    found = json.loads(client_of(served(kept())).get("/api/v2/tables/admissions/data").text)
    unit = found["dimension"]["ContentsCode"]["category"]["unit"]["count"]
    assert unit["base"] == "rows, at most 3 of each patient"
