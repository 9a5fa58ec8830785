"""The schema file: descriptions that make no other cells, and a reading that only the steward's file holds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import crosstally as ct
from crosstally.errors import SchemaError
from crosstally.plans.plan import Plan
from crosstally.releases import Statement, publish
from crosstally.schema import Attribute, Level, RowReading, Schema, Unit
from crosstally.sources import Reading

CELLS: dict[str, Any] = {
    "unit": {"id": "person", "max_rows": 3},
    "attributes": [
        {"name": "town", "values": ["Bern", "Thun", "Lausanne"]},
        {"name": "age", "edges": [16, 25, 35], "missing": True, "outside": "other"},
    ],
}
FULL: dict[str, Any] = {
    "crosstally-schema": 1,
    "about": {"title": "Survey", "licence": "CC BY 4.0", "counts": "records"},
    "unit": {"id": "person", "max_rows": 3, "from": "data"},
    "attributes": [
        {
            "name": "town",
            "values": ["Bern", "Thun", "Lausanne"],
            "description": "where the person lives",
            "hierarchy": [
                {"name": "canton", "groups": {"Bern": ["Bern", "Thun"], "Vaud": ["Lausanne"]}},
                {"name": "country", "groups": {"Switzerland": ["Bern", "Vaud"]}},
            ],
        },
        {
            "name": "age",
            "edges": [16, 25, 35],
            "missing": True,
            "outside": "other",
            "bins": ["16-24", "25-34"],
            "measured_in": "years",
            "from": "data",
        },
    ],
    "reading": {"trim": True, "columns": {"town": {"column": "ORT_9", "groups": {"Bern": ["Berne-13"]}}}},
}
SECRETS = ("ORT_9", "Berne-13")


def test_json_both_ways_is_the_same(tmp_path: Path) -> None:
    schema = Schema.from_dict(FULL)
    assert schema.steward_dict() == FULL
    assert schema.to_dict() == {**FULL, "reading": "withheld"}
    assert schema["age"].labels == ("16-24", "25-34", "(other)", "(missing)")
    assert schema["town"].hierarchy[0] == Level("canton", {"Bern": ["Bern", "Thun"], "Vaud": ["Lausanne"]})
    schema.save(tmp_path / "s.json")
    assert json.loads((tmp_path / "s.json").read_text(encoding="utf-8")) == FULL
    assert (tmp_path / "s.json").stat().st_mode & 0o777 == 0o600
    assert Schema.load(tmp_path / "s.json").steward_dict() == FULL
    assert Schema.from_dict(schema.to_dict()).to_dict() == schema.to_dict()


def test_the_format_is_written_and_may_be_left_out() -> None:
    assert Schema.from_dict(CELLS).to_dict() == {"crosstally-schema": 1, **CELLS}
    assert Schema.from_dict({"crosstally-schema": 1, **CELLS}) == Schema.from_dict(CELLS)
    assert Schema.from_dict(FULL).bare().identity() == CELLS


def test_another_format_is_refused() -> None:
    for number in (0, 2, "1", True, None):
        with pytest.raises(SchemaError, match="does not read: it reads 1"):
            Schema.from_dict({**CELLS, "crosstally-schema": number})


def test_the_identity_is_that_of_the_cells() -> None:
    assert Schema.from_dict(FULL).identity() == CELLS
    cells = {
        "name": lambda a: {**a, "name": "city"},
        "values": lambda a: {**a, "values": ["Bern", "Lausanne", "Thun"]},
        "missing": lambda a: {**a, "missing": True},
        "outside": lambda a: {**a, "outside": "drop"},
    }
    for change in cells.values():
        other = {**CELLS, "attributes": [change(CELLS["attributes"][0]), CELLS["attributes"][1]]}
        assert Schema.from_dict(other).identity() != CELLS
    for unit in ({"id": "person", "max_rows": 2}, {"id": "house", "max_rows": 3}, None):
        assert Schema.from_dict({**CELLS, "unit": unit}).identity() != CELLS


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"about": {"titel": "x"}}, "about: unknown field 'titel'; did you mean 'title'?"),
        ({"about": {"title": ""}}, "about: title must be a non-empty text, got ''"),
        ({"about": {"counts": "people"}}, "about: counts must be 'records', or be left out, got 'people'"),
        ({"about": []}, "about must be an object, got list"),
        ({"unit": {"id": "p", "max_rows": 1, "from": "me"}}, "unit: from must be 'data', or be left out, got 'me'"),
        ({"reading": "yes"}, "reading: must be an object, got str"),
    ],
)
def test_errors_of_blocks(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError) as error:
        Schema.from_dict({**FULL, **change})
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bins": ["16-24"]}, "bins must name the 2 bins between the edges, got 1"),
        ({"bins": ["x", "x"]}, "bins must differ, got 'x' twice"),
        ({"bins": ["x", "(other)"]}, "the label '(other)' is reserved; use outside or missing instead"),
        ({"bins": "xy"}, "bins must be a list of labels, got 'xy'"),
        ({"description": " "}, "description must be a non-empty text, got ' '"),
        ({"description": "x" * 2001}, "description must have at most 2,000 characters, got 2,001"),
        ({"measured_in": 3}, "measured_in must be a non-empty text, got 3"),
    ],
)
def test_errors_of_attributes(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError) as error:
        Schema.from_dict({"crosstally-schema": 1, "attributes": [{"name": "a", "edges": [16, 25, 35], **change}]})
    assert str(error.value) == f"attributes[0]: attribute 'a': {message}"


@pytest.mark.parametrize(
    ("hierarchy", "message"),
    [
        ([{"name": "l", "groups": {"A": ["x"]}}], "must hold each label of the level below once, and does not for 'y'"),
        ([{"name": "l", "groups": {"A": ["x", "y"], "B": ["x"]}}], "and does not for 'x'"),
        ([{"name": "l", "groups": {"A": ["x", "y", "z"]}}], "and does not for 'z'"),
        (
            [{"name": "l", "groups": {"A": ["x"], "B": ["y"]}}, {"name": "m", "groups": {"C": ["x", "y"]}}],
            "'m' must hold each label of the level below once",
        ),
        ([{"name": "l", "groups": {"A": ["x", "y"]}}, {"name": "l", "groups": {"A": ["A"]}}], "different names"),
        ([{"name": "", "groups": {}}], "the name of a level must be a non-empty text, got ''"),
        ([{"name": "l", "groups": ["x"]}], "groups must be an object, got list"),
        ([{"name": "l", "groups": {"A": "xy"}}], "each group must be a name and a list of labels"),
        ([{"name": "l"}], "hierarchy[0]: the field 'groups' is missing"),
        ({"l": {}}, "hierarchy must be a list of levels, got dict"),
    ],
)  # fmt: skip
def test_errors_of_hierarchies(hierarchy: object, message: str) -> None:
    attribute = {"name": "a", "values": ["x", "y"], "hierarchy": hierarchy}
    with pytest.raises(SchemaError) as error:
        Schema.from_dict({"crosstally-schema": 1, "attributes": [attribute]})
    assert message in str(error.value)


# Nothing of a reading leaves the steward's file


def test_a_reading_is_not_printed_and_not_compared() -> None:
    schema = Schema.from_dict(FULL)
    assert not any(secret in repr(part) for secret in SECRETS for part in (schema, schema.reading, schema.public()))
    assert schema == schema.public() == replace(schema, reading=None)
    assert schema.subset("town").reading == schema.public().reading == "withheld"
    with pytest.raises(SchemaError, match="date") as error:  # nor by an error about it
        Schema.from_dict({**FULL, "reading": {"columns": {"town": {"column": "ORT_9", "date": {"into": "era"}}}}})
    assert not any(secret in str(error.value) for secret in SECRETS)


def test_nothing_that_is_published_holds_a_reading(tmp_path: Path) -> None:
    schema = Schema.from_dict(FULL)
    rows = tmp_path / "rows.csv"
    rows.write_text("person,ORT_9,age\n1,Berne-13,17\n2, Thun ,30\n3,Lausanne,\n", encoding="utf-8")
    plan = ct.plan(schema, rows=3, epsilon=1).chosen
    plan.save(tmp_path / "plan.json")
    ledger = ct.Ledger.create(tmp_path / "people.ledger", schema=schema, budget=ct.Budget(epsilon=3))
    release = ct.release(rows, schema, epsilon=1, ledger=ledger, key="first")
    release.save(tmp_path / "r.parquet")
    opened = ct.open_release(tmp_path / "r.parquet")
    assert opened.schema == schema
    for public in (plan.schema, ledger.schema, release.schema, opened.schema, release.marginal("town").schema):
        assert public.reading == "withheld"
    for file in ("plan.json", "r.parquet", "people.ledger"):
        content = (tmp_path / file).read_bytes()
        assert b"withheld" in content
        assert not any(secret.encode() in content for secret in SECRETS)
    assert not any(secret in str(release.statement.plain(release.schema)) for secret in SECRETS)


def test_the_digest_of_a_reading_is_noted_beside_the_ledger(tmp_path: Path) -> None:
    schema = Schema.from_dict(FULL)
    assert isinstance(schema.reading, RowReading)
    rows = tmp_path / "rows.csv"
    rows.write_text("person,ORT_9,age\n1,Berne-13,17\n", encoding="utf-8")
    ledger = ct.Ledger.create(tmp_path / "people.ledger", schema=schema, budget=ct.Budget(epsilon=3))
    ct.release(rows, schema, epsilon=1, ledger=ledger, key="first", strategy="flat")
    ct.open_notebook(ledger, schema=schema).ask(rows, "town = Bern", epsilon=1, key="second")
    ct.release(rows, schema, epsilon=1, ledger=ledger, key="first", strategy="flat")  # nothing is read again
    noted = (tmp_path / "people.ledger.readings").read_text(encoding="utf-8").splitlines()
    digest = schema.reading.digest
    assert [json.loads(line) for line in noted] == [{"key": key, "reading": digest} for key in ("first", "second")]
    assert (tmp_path / "people.ledger.readings").stat().st_mode & 0o777 == 0o600
    assert replace(schema.reading, trim=False).digest != digest


def test_what_is_said_of_the_file_is_part_of_the_digest(tmp_path: Path) -> None:
    sex = [{"name": "sex", "values": ["f", "m"]}]
    said, kept = Schema.from_dict({"attributes": sex}), {"file": {"delimiter": ";"}}
    in_schema = Schema.from_dict({"crosstally-schema": 1, "attributes": sex, "reading": kept})
    (tmp_path / "rows.csv").write_text("sex;age\nf;1\n", encoding="utf-8")
    digests = []
    for name, schema, reading in (("a", said, Reading(delimiter=";")), ("b", in_schema, None)):
        ledger = ct.Ledger.create(tmp_path / f"{name}.ledger", schema=schema, budget=ct.Budget(epsilon=3))
        ct.release(tmp_path / "rows.csv", schema, epsilon=1, ledger=ledger, reading=reading, strategy="flat")
        digests.append(json.loads((tmp_path / f"{name}.ledger.readings").read_text(encoding="utf-8"))["reading"])
    assert digests == [RowReading.from_dict(kept).digest] * 2


def test_rows_are_not_read_without_the_reading(tmp_path: Path) -> None:
    schema = Schema.from_dict(FULL)
    rows = tmp_path / "rows.csv"
    rows.write_text("person,ORT_9,age\n1,Berne-13,17\n", encoding="utf-8")
    ct.plan(schema, rows=3, epsilon=1).chosen.save(tmp_path / "plan.json")
    plan = Plan.load(tmp_path / "plan.json")
    with pytest.raises(ct.CrosstallyError, match="its reading is in the steward's own file"):
        ct.release(rows, plan=plan)
    assert ct.release(rows, schema, plan=plan).schema == schema
    with pytest.raises(
        ct.CrosstallyError, match="must have the attributes, cells, unit and period that the plan is about"
    ):
        ct.release(rows, replace(schema, unit=Unit("person", 4)), plan=plan)


def test_bins_are_asked_for_by_their_names_and_by_their_edges() -> None:
    schema = Schema.from_dict(FULL)
    frame = pa.table({"person": [1, 2], "ORT_9": ["Thun", "Thun"], "age": [20, 30]})
    plain = Schema.from_dict(CELLS)
    ledger = ct.Ledger.in_memory(schema=plain, budget=ct.Budget(epsilon=100))
    notebook = ct.open_notebook(ledger, schema=schema)  # the ledger knows neither the names nor the reading
    by_name = notebook.ask(frame, "age = '16-24'", epsilon=40)
    by_edges = notebook.ask(frame, "16 <= age < 25", epsilon=40)
    assert (by_name.drawn, by_edges.drawn) == pytest.approx((1, 1), abs=1)


# A better description does not lock the ledger


def test_a_ledger_pays_for_better_descriptions(tmp_path: Path) -> None:
    first, better = Schema.from_dict(CELLS), replace(Schema.from_dict(FULL), reading=None)
    rows = tmp_path / "rows.csv"
    rows.write_text("person,town,age\n1,Bern,17\n", encoding="utf-8")
    ledger = ct.Ledger.create(tmp_path / "people.ledger", schema=first, budget=ct.Budget(epsilon=3))
    ct.release(rows, first, epsilon=1, ledger=ledger, key="first", strategy="flat")
    described = ct.release(rows, better, epsilon=1, ledger=ledger, key="second", strategy="flat")
    assert described.schema["age"].labels == ("16-24", "25-34", "(other)", "(missing)")
    again = ct.release(rows, better, epsilon=1, ledger=ledger, key="first", strategy="flat")  # known, and not charged
    assert [entry.key for entry in ledger.entries()] == ["first", "second"]
    assert again.schema == better
    ledger.verify()
    other = replace(better, unit=Unit("row", 1))
    with pytest.raises(ct.CrosstallyError, match="another schema"):
        ct.release(rows, other, epsilon=1, ledger=ledger, strategy="flat")


def test_descriptions_change_no_number() -> None:
    first, better = Schema.from_dict(CELLS), replace(Schema.from_dict(FULL), reading=None)
    frame = pa.table({"person": [1, 2, 3], "town": ["Bern", "Thun", "Thun"], "age": [20, 30, None]})
    released = ct.release(frame, first, epsilon=1)
    described = publish(better, released.measurements, released.statement)
    assert (described.marginal("town", "age").values == released.marginal("town", "age").values).all()


def test_a_statement_says_what_no_budget_covers_and_what_is_counted() -> None:
    schema = Schema.from_dict(FULL)
    statement = Statement(
        strategy="flat", budget=ct.Budget(epsilon=1), neighbours=ct.Neighbours.ADD_REMOVE, unit=schema.unit
    )
    chosen = "The values of age and the bound of 3 records of each person were chosen by looking at the data"
    assert statement.plain(schema)[-2:] == (
        f"{chosen}; epsilon does not cover that choice.",
        "These tables count records, not the population: the weights of the survey are not used.",
    )
    assert statement.to_dict()["unit"] == {"id": "person", "max_rows": 3}
    only_bound = Schema([Attribute("a", ["x", "y"])], Unit("person", 3, from_data=True))
    assert statement.plain(only_bound)[-1].startswith("The bound of 3 rows of each person was chosen by")


def test_the_local_model_has_cells_alone() -> None:
    described = replace(Schema.from_dict(FULL), reading=None, unit=None)
    protocol = ct.local.design(described, epsilon=1, people=1000, ways=1)
    assert protocol.document["schema"] == {"attributes": CELLS["attributes"]}
    assert protocol.schema.identity() == protocol.schema.bare().identity() == {"attributes": CELLS["attributes"]}
    with pytest.raises(SchemaError, match="every device gives the labels themselves"):
        ct.local.design(Schema.from_dict({**FULL, "unit": None}), epsilon=1, people=1000, ways=1)
