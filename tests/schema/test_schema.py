"""Schemas: labels, cells, JSON both ways, and errors that name the field."""

import datetime
import json
from dataclasses import fields, replace
from decimal import Decimal

import numpy as np
import pytest

from crosstally.errors import QueryError, SchemaError
from crosstally.schema import Attribute, Outside, RowReading, Schema, Unit, canonical_text
from crosstally.schema.facts import About

ADULT = {
    "unit": {"id": "person", "max_rows": 3},
    "attributes": [
        {"name": "sex", "values": ["Female", "Male"]},
        {"name": "age", "edges": [0, 18, 30, 45, 65, 120], "missing": True},
        {"name": "née", "values": ["Zürich", "São Paulo"], "outside": "other"},
    ],
}


def test_labels_of_values_bins_other_and_missing() -> None:
    schema = Schema.from_dict(ADULT)
    assert schema["sex"].labels == ("Female", "Male")
    assert schema["age"].labels == ("[0, 18)", "[18, 30)", "[30, 45)", "[45, 65)", "[65, 120]", "(missing)")
    assert schema["née"].labels == ("Zürich", "São Paulo", "(other)")
    assert schema.shape == (2, 6, 3)
    assert schema.cells == 36
    assert str(schema) == "sex:2 age:6 née:3"


def test_codes_of_other_and_missing() -> None:
    both = Attribute("a", ["x", "y"], outside=Outside.OTHER, missing=True)
    assert (both.other_code, both.missing_code, both.size) == (2, 3, 4)
    only_other = Attribute("a", ["x", "y"], outside=Outside.OTHER)
    assert (only_other.other_code, only_other.missing_code) == (2, 2)
    neither = Attribute("a", ["x", "y"], outside=Outside.DROP)
    assert (neither.other_code, neither.missing_code) == (None, None)


def test_json_both_ways(tmp_path) -> None:
    schema = Schema.from_dict(ADULT)
    assert schema.to_dict() == {"crosstally-schema": 1, **ADULT}
    schema.save(tmp_path / "a.json")
    assert Schema.load(tmp_path / "a.json") == schema
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == schema.to_dict()


def test_cells_are_counted_exactly_however_many() -> None:
    schema = Schema([Attribute(f"a{i}", [str(v) for v in range(10)]) for i in range(60)])
    assert schema.cells == 10**60


def test_parts() -> None:
    schema = Schema.from_dict(ADULT)
    assert schema.subset("née", "sex").names == ("née", "sex")
    assert schema.subset("née").unit == Unit("person", 3)
    assert schema.ordered(["née", "sex"]) == ("sex", "née")
    assert schema.sizes(["age", "sex"]) == (6, 2)


@pytest.mark.parametrize("reading", [None, RowReading(trim=True)])
def test_a_part_is_the_schema_that_would_be_made_of_its_attributes(reading) -> None:
    schema = replace(Schema.from_dict(ADULT), draft=True, about=About(title="t"), reading=reading)
    for names in ((), ("age",), ("née", "sex"), ("age", "née", "sex")):
        part = schema.subset(*names)
        made = Schema(
            [schema[name] for name in names],
            schema.unit,
            draft=True,
            about=About(title="t"),
            reading=None if reading is None else "withheld",
        )
        assert part == made
        assert hash(part) == hash(made)
        assert (part.names, part.shape, part.positions) == (made.names, made.shape, made.positions)
        assert (part.reading, part.to_dict()) == (made.reading, made.to_dict())
        assert {each.name for each in fields(Schema)} <= set(vars(part))


def test_names_of_a_part_are_those_of_the_schema() -> None:
    assert [type(name) for name in Schema.from_dict(ADULT).subset(*np.array(["age", "sex"])).names] == [str, str]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"), (1.0, "1"), ("1", "1"), ("1.0", "1"), ("-0", "0"), (-0.0, "0"), (0.1, "0.1"), ("0.10", "0.1"),
        (1e22, "10000000000000000000000"), (True, "true"), ("True", "true"), (False, "false"), ("01", "01"),
        ("1e3", "1e3"), ("a", "a"), (" a", " a"), ("", None), (None, None), (float("nan"), None),
        (Decimal("1.50"), "1.5"), (datetime.date(2020, 1, 2), "2020-01-02"), ("e\u0301", "é"), ("-1.50", "-1.5"),
    ],
)  # fmt: skip
def test_canonical_text(value, text) -> None:
    assert canonical_text(value) == text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attributes": 1}, "attributes must be a list, got int"),
        ({"attributes": []}, "attributes must not be empty"),
        ({"atributes": []}, "schema: unknown field 'atributes'; did you mean 'attributes'?"),
        ({"draft": "yes"}, "draft must be true or false, got 'yes'"),
        ({"unit": {"id": "p"}}, "unit: the field 'max_rows' is missing"),
        ({"unit": {"id": "p", "max_rows": 0}}, "unit: max_rows must be a whole number of at least 1, got 0"),
        ({"unit": {"id": "p", "max_rows": True}}, "unit: max_rows must be a whole number of at least 1, got True"),
        ({"unit": {"id": "", "max_rows": 1}}, "unit: id must be the name of a column, got ''"),
        ({"unit": {"id": "sex", "max_rows": 1}}, "unit: id must not be an attribute too, got 'sex'"),
    ],
)
def test_errors_name_the_field(change, message) -> None:
    with pytest.raises(SchemaError) as error:
        Schema.from_dict({"attributes": [{"name": "sex", "values": ["F", "M"]}], **change})
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ({}, "attributes[0]: the field 'name' is missing"),
        ({"name": ""}, "attributes[0]: name must be a non-empty text, got ''"),
        ({"name": "a"}, "attributes[0]: attribute 'a' must have either values or edges, and not both"),
        (
            {"name": "a", "values": ["x", "y"], "edges": [0, 1]},
            "attributes[0]: attribute 'a' must have either values or edges, and not both",
        ),
        (
            {"name": "a", "values": ["x"]},
            "attributes[0]: attribute 'a' must have at least two cells, got 1; leave it out of the schema",
        ),
        ({"name": "a", "values": ["1", 1.0]}, "attributes[0]: attribute 'a': values must differ, got '1' twice"),
        ({"name": "a", "values": "xy"}, "attributes[0]: attribute 'a': values must be a list of labels, got 'xy'"),
        (
            {"name": "a", "values": ["x", ""]},
            "attributes[0]: attribute 'a': each of values must be a non-empty text, number or boolean, got ''",
        ),
        (
            {"name": "a", "values": ["x", "(other)"]},
            "attributes[0]: attribute 'a': the label '(other)' is reserved; use outside or missing instead",
        ),
        ({"name": "a", "edges": [0, 5, 5]}, "attributes[0]: attribute 'a': edges must increase, got [0, 5, 5]"),
        ({"name": "a", "edges": [0]}, "attributes[0]: attribute 'a': edges must be at least two numbers, got 1"),
        (
            {"name": "a", "edges": [0, "1"]},
            "attributes[0]: attribute 'a': each of edges must be a finite number, got '1'",
        ),
        (
            {"name": "a", "edges": [0, 10**400]},
            f"attributes[0]: attribute 'a': each of edges must be a finite number, got '1{'0' * 39}'",
        ),
        (
            {"name": "a", "values": ["x", "\ud800"]},
            "attributes[0]: attribute 'a': each of values must be a non-empty text, number or boolean, got '\\ud800'",
        ),
        ({"name": "a", "edges": 5}, "attributes[0]: attribute 'a': edges must be a list of numbers, got 5"),
        (
            {"name": "a", "values": ["x", "y"], "outside": "ignore"},
            "attributes[0]: attribute 'a': outside must be refuse, other or drop, got 'ignore'",
        ),
        (
            {"name": "a", "values": ["x", "y"], "missing": 1},
            "attributes[0]: attribute 'a': missing must be true or false, got 1",
        ),
        (
            {"name": "a", "value": ["x", "y"]},
            "attributes[0]: unknown field 'value'; did you mean 'values'?",
        ),
        (3, "attributes[0] must be an object, got int"),
    ],
)
def test_errors_of_an_attribute_name_it(attribute, message) -> None:
    with pytest.raises(SchemaError) as error:
        Schema.from_dict({"attributes": [attribute]})
    assert str(error.value) == message


def test_too_many_attributes_and_values() -> None:
    with pytest.raises(SchemaError, match="attributes must be at most 512, got 513"):
        Schema([Attribute(f"a{i}", ["x", "y"]) for i in range(513)])
    with pytest.raises(SchemaError, match="at most 100,000 cells, got"):
        Attribute("a", [str(i) for i in range(100_001)])
    with pytest.raises(SchemaError, match="different names, got 'a' twice"):
        Schema([Attribute("a", ["x", "y"])] * 2)
    with pytest.raises(SchemaError, match="must be Attribute objects, got str"):
        Schema(["a"])


def test_unknown_and_repeated_attributes() -> None:
    schema = Schema.from_dict(ADULT)
    with pytest.raises(QueryError, match="unknown attribute 'sx'; did you mean 'sex'"):
        schema["sx"]
    with pytest.raises(QueryError, match="attribute 'age' is named twice"):
        schema.subset("age", "age")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not JSON: Expecting property name enclosed in double quotes at line 1"),
        (b"\xff\xfe", "it is not UTF-8 text"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"attributes": []}', "attributes must not be empty"),
    ],
)
def test_files_that_are_no_schema(tmp_path, content, message) -> None:
    (tmp_path / "s.json").write_bytes(content)
    with pytest.raises(SchemaError, match=message):
        Schema.load(tmp_path / "s.json")


def test_a_file_that_is_absent(tmp_path) -> None:
    with pytest.raises(SchemaError, match="cannot read the schema .*: No such file or directory"):
        Schema.load(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("about", "counted"),
    [
        (None, "rows, at most 3 of each number"),
        ({"counts": "records"}, "records, at most 3 of each number"),
        ({"rows": "admissions"}, "admissions, at most 3 of each number"),
        ({"rows": "admissions", "units": "patients"}, "admissions, at most 3 of each patient"),
    ],
)
def test_what_is_counted_is_said_with_its_bound(about: dict[str, str] | None, counted: str) -> None:
    given = {"attributes": [{"name": "sex", "values": ["Female", "Male"]}], "unit": {"id": "number", "max_rows": 3}}
    schema = Schema.from_dict({**given, "about": about})
    assert schema.counted == schema.subset("sex").counted == counted
    assert Schema.from_dict(schema.to_dict()) == schema


def test_units_are_named_where_there_is_a_unit() -> None:
    given = {"attributes": [{"name": "sex", "values": ["Female", "Male"]}], "about": {"rows": "admissions"}}
    assert Schema.from_dict(given).counted == "admissions"
    with pytest.raises(SchemaError, match="about: units are those of a unit: name its id and bound"):
        Schema.from_dict({**given, "about": {"units": "patients"}})
