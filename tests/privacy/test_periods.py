"""Tables of two years with the same labels are two schemas of an account, where their schemas name the period."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import crosstally as ct
from crosstally.errors import LedgerError, PlanError, QueryError
from crosstally.schema import About, Attribute, Schema


def schema_of(period: str | None, title: str | None = None) -> Schema:
    about = None if period is None and title is None else About(period=period, title=title)
    return Schema([Attribute("sex", ["Female", "Male"])], about=about)


def people(women: int, men: int) -> pa.Table:
    return pa.table({"sex": ["Female"] * women + ["Male"] * men})


def test_the_period_is_a_part_of_what_a_schema_is_about_and_other_descriptions_are_not() -> None:
    plain = schema_of(None)
    assert set(plain.identity()) == {"attributes"}
    assert schema_of("2026").identity()["period"] == "2026"
    assert schema_of("2026", "Census").identity() == schema_of("2026").identity()
    assert schema_of(None, "Census").identity() == plain.identity()
    assert schema_of("2026").subset("sex").identity() == schema_of("2026").identity()


def test_answers_of_two_years_are_not_added_up_by_accident(tmp_path: Path) -> None:
    ledger = tmp_path / "people.ledger"
    ct.Ledger.create(ledger, schema=schema_of("2026"), budget=ct.Budget(epsilon=200))
    ct.open_notebook(ledger).ask(people(100, 900), "sex = Female", epsilon=50)
    with pytest.raises(QueryError, match="unit and period that the ledger is about"):
        ct.open_notebook(ledger, schema=schema_of("2027"))
    with pytest.raises(LedgerError, match="this is another schema, of rows: say how many rows one person may be"):
        ct.release(people(900, 100), schema_of("2027"), epsilon=1, ledger=ledger)
    plan = ct.plan(schema_of("2026"), epsilon=1).chosen
    with pytest.raises(PlanError, match="unit and period that the plan is about"):
        ct.release(people(900, 100), schema_of("2027"), plan=plan)
    ct.Ledger.open(ledger).admit(schema_of("2027"), at_most=1)
    with pytest.raises(QueryError, match="several tables of these people: say which"):
        ct.open_notebook(ledger)
    for year, women in (("2026", 100), ("2027", 900)):
        notebook = ct.open_notebook(ledger, schema=schema_of(year))
        if year == "2027":
            notebook.ask(people(women, 1000 - women), "sex = Female", epsilon=50)
        # noise of scale 1/50, where the other year is 800 away
        assert abs(float(notebook.estimate("sex = Female").value) - women) < 20
    assert ct.Ledger.open(ledger).spent == 100
