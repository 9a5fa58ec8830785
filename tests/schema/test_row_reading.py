"""A reading: what values mean, column by column; errors say where a mistake is and never what stands there."""

from __future__ import annotations

from typing import Any

import pytest

from crosstally.errors import SchemaError
from crosstally.schema import Attribute, ColumnName, DateReading, RowReading, Schema

SEX = Attribute("sex", ["Female", "Male"])
AGE = Attribute("age", edges=[0, 18, 65, 120])
PERIODS = {"columns": {"sex": {"date": {"into": ["2020-01-01", "2021-01-01", "2022-01-01"]}}}}
MONDAY = {"columns": {"sex": {"date": {"into": "weekday"}, "groups": {"Male": ["Monday"]}}}}
CODE = Attribute("code", ["1", "2"])


def meaning(given: dict[str, Any], attribute: Attribute, text: str) -> str | None:
    """What a text means by a reading's JSON; the text itself where it has no rule."""
    rule = RowReading.from_dict(given).rule(attribute.name, attribute)
    return text if rule is None else rule.text(text)


@pytest.mark.parametrize(
    ("given", "attribute", "text", "expected"),
    [
        ({}, SEX, " female", " female"),
        ({"columns": {"sex": {"column": "SEX"}}}, SEX, " female", " female"),
        ({"trim": True}, SEX, "  Female \t", "Female"),
        ({"trim": True}, SEX, "not  known", "not known"),
        ({"trim": True}, SEX, "\u00a0Male", "Male"),  # a blank that does not break lines
        ({"trim": True}, SEX, "   ", None),
        ({"trim": True}, CODE, " 1.0 ", "1"),
        ({"ignore_case": True}, SEX, "FEMALE", "Female"),
        ({"ignore_case": True}, SEX, "other", "other"),
        ({"ignore_case": True}, Attribute("s", ["Straße", "Weg"]), "STRASSE", "Straße"),
        ({"missing": ["NA", "n/a", "-", ""]}, SEX, "NA", None),
        ({"missing": ["NA"]}, SEX, "na", "na"),
        ({"missing": ["NA"], "ignore_case": True}, SEX, "na", None),
        ({"missing": [999]}, AGE, "999", None),
        ({"missing": ["999"]}, AGE, "99", "99"),
        ({"missing": ["NA"], "columns": {"sex": {"missing": [9]}}}, SEX, "NA", None),
        ({"missing": ["NA"], "columns": {"sex": {"missing": [9]}}}, SEX, "9", None),
        ({"missing": ["NA"], "columns": {"sex": {"missing": [9]}}}, AGE, "9", "9"),
        ({"columns": {"sex": {"groups": {"Female": ["F", 2, True]}}}}, SEX, "F", "Female"),
        ({"columns": {"sex": {"groups": {"Female": ["F", 2, True]}}}}, SEX, "2", "Female"),
        ({"columns": {"sex": {"groups": {"Female": ["F", 2, True]}}}}, SEX, "true", "Female"),
        ({"columns": {"sex": {"groups": {"Female": ["F"]}}}}, SEX, "Female", "Female"),
        ({"columns": {"sex": {"groups": {"Female": ["F"]}}}}, SEX, "f", "f"),
        ({"columns": {"sex": {"groups": {"Female": ["F"]}, "ignore_case": True}}}, SEX, "f", "Female"),
        ({"trim": True, "columns": {"sex": {"trim": False}}}, SEX, " Female", " Female"),
        (MONDAY, SEX, "2024-06-03", "Male"),
        ({"columns": {"sex": {"date": {"into": "year"}}}}, SEX, "June", "(other)"),
        ({"columns": {"age": {"date": {"into": "year"}}}}, AGE, "2024-06-03", "2024"),
        (PERIODS, SEX, "2020-12-31", "Female"),
        (PERIODS, SEX, "2021-01-01", "Male"),
        (PERIODS, SEX, "2022-01-01", "Male"),
        (PERIODS, SEX, "2022-01-02", "(other)"),
        (PERIODS, SEX, "2019-12-31", "(other)"),
    ],
)  # fmt: skip
def test_what_a_text_means(given: dict[str, Any], attribute: Attribute, text: str, expected: str | None) -> None:
    assert meaning(given, attribute, text) == expected


@pytest.mark.parametrize(
    ("into", "form", "text", "expected"),
    [
        ("year", None, "2024-02-29", "2024"),
        ("year", None, "2023-02-29", None),
        ("year", None, "2024-13-01", None),
        ("year", None, "24-02-29", None),
        ("year", None, "2024-02-291", None),
        ("year", None, "2024-02-29 and more", None),
        ("quarter", None, "2024-03-31", "2024-Q1"),
        ("quarter", None, "2024-04-01T23:59:59.5+02:00", "2024-Q2"),
        ("quarter", None, "2024-12-31 23:59", "2024-Q4"),
        ("month", None, "2024-1-5", "2024-01"),
        ("quarter of year", None, "2024-09-30", "Q3"),
        ("month of year", None, "2024-09-30", "September"),
        ("weekday", None, "2024-06-02", "Sunday"),
        ("month", "%d.%m.%Y", "31.12.1999", "1999-12"),
        ("month", "%d.%m.%Y", "1.2.1999", "1999-02"),
        ("month", "%d.%m.%Y", "1999-02-01", None),
        ("month", "%d.%m.%Y", "1.2.1999 ", None),
        ("month", "%m/%d/%Y", "1/2/1999", "1999-01"),
        ("month", "%Y%m%d", "19990201", "1999-02"),
        ("month", "%Y%m%d", "1999021", None),
        ("month", "%d.%m.%Y %H:%M:%S", "1.2.1999 23:59:59", "1999-02"),
    ],
)
def test_dates(into: str, form: str | None, text: str, expected: str | None) -> None:
    rule = DateReading(into) if form is None else DateReading(into, form)
    assert rule.text(text) == expected
    assert DateReading.from_dict(rule.to_dict()) == rule


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "must be an object, got list"),
        ({"Secret": 1}, "field 1 is unknown; there are columns, file, ignore_case, missing, trim"),
        ({"trim": "yes"}, "trim must be true or false"),
        ({"missing": "Secret"}, "missing must be a list of texts, got str"),
        ({"missing": ["NA", None]}, "missing: entry 2 must be a text, number or boolean"),
        ({"file": {"delimiter": 3}}, "file: delimiter must be a text"),
        ({"file": {"decimal": {"Secret": 1}}}, "file: decimal must be a text, or an object of texts by column"),
        ({"file": {"header": "Secret"}}, "file: header must be a whole number from 0"),
        ({"file": {"header": True}}, "file: header must be a whole number from 0"),
        ({"file": {"sheet": -1}}, "file: sheet must be a text or a whole number from 0"),
        (
            {"file": {"Secret": ";"}},
            "field 1 is unknown; there are decimal, delimiter, encoding, header, quote, sheet, table, thousands",
        ),
        ({"columns": ["Secret"]}, "columns must be an object, got list"),
        ({"columns": {"Secret": {}}}, "columns: entry 1 must be the name of an attribute, or the id of the unit"),
        ({"columns": {"sex": {"Secret": 1}}}, "columns: entry 1: field 1 is unknown; there are column, date, groups, "),
        ({"columns": {"sex": {"column": ""}}}, "columns: entry 1: column must be a non-empty text"),
        ({"columns": {"sex": {"groups": ["Secret"]}}}, "columns: entry 1: groups must be an object, got list"),
        ({"columns": {"sex": {"groups": {"Male": "Secret"}}}}, "entry 1: groups: group 1 must be a list of texts"),
        ({"columns": {"sex": {"groups": {"Secret": ["x"]}}}}, "'sex': groups: group 1 must bear the name of one"),
        ({"columns": {"sex": {"groups": {"Male": ["Secret"], "Female": ["Secret"]}}}}, "have a spelling in common"),
        ({"columns": {"sex": {"groups": {"Male": ["Female"]}}}}, "'sex': two labels have a spelling in common"),
        ({"columns": {"sex": {"groups": {"Male": [""]}}}}, "a spelling must be a text with more than blanks"),
        ({"missing": ["Male"]}, "'sex': a label, or a spelling of one, stands for a missing value too"),
        ({"columns": {"age": {"groups": {"Secret": ["x"]}}}}, "groups are of labels, and the attribute has edges"),
        ({"columns": {"sex": {"date": {"into": "Secret"}}}}, "entry 1: date: into must be one of year, quarter, month"),
        ({"columns": {"sex": {"date": {"Secret": 1}}}}, "entry 1: date: field 1 is unknown; there are format, into"),
        ({"columns": {"sex": {"date": {}}}}, "columns: entry 1: date: the field 'into' is missing"),
        ({"columns": {"sex": {"date": {"into": ["Secret"]}}}}, "into must be a list of days such as 2020-01-31"),
        ({"columns": {"sex": {"date": {"into": ["2020-01-01"]}}}}, "into must be a list of at least two days that"),
        ({"columns": {"sex": {"date": {"into": 3}}}}, "into must be a list of at least two days that increase"),
        (
            {"columns": {"sex": {"date": {"into": ["2020-01-01", "2020-01-02"]}}}},
            "'sex': date: 2 days bound 1 periods, and the attribute has 2 values",
        ),
        ({"columns": {"sex": {"date": {"into": "year", "format": "Secret"}}}}, "format must be a text with %Y, %m"),
        ({"columns": {"sex": {"date": {"into": "year", "format": "%Y%Y%m%d"}}}}, "each once"),
        ({"columns": {"sex": {"date": {"into": "year", "format": "%d %B %Y"}}}}, "format must be a text with %Y"),
        ({"columns": {"sex": {"date": {"into": "year", "format": 3}}}}, "format must be a text with %Y"),
        ({"columns": {"person": {"groups": {"Secret": ["x"]}}}}, "the id of the unit has neither groups nor date"),
    ],
)  # fmt: skip
def test_errors_say_where_and_never_what(given: object, message: str) -> None:
    schema = {
        "crosstally-schema": 1,
        "unit": {"id": "person", "max_rows": 1},
        "attributes": [SEX.to_dict(), AGE.to_dict()],
        "reading": given,
    }
    with pytest.raises(SchemaError) as error:
        Schema.from_dict(schema)
    assert str(error.value).startswith("reading: ")
    assert message in str(error.value)
    assert "Secret" not in str(error.value)


def test_a_meaning_does_not_rest_on_what_is_kept() -> None:
    """Another thread, which reads by the same rule, may forget all that is kept at any moment."""

    class Forgotten(dict[str, str | None]):
        def __setitem__(self, key: str, value: str | None) -> None:
            super().__setitem__(key, value)
            self.clear()

    rule = RowReading.from_dict({"columns": {"a": {"groups": {"yes": ["Y"]}}}}).rule("a", Attribute("a", ["yes", "no"]))
    assert rule is not None
    rule._seen = Forgotten()
    assert [rule.text(given) for given in ("Y", "no", "Y", "")] == ["yes", "no", "yes", None]


def test_labels_that_case_alone_tells_apart() -> None:
    two = Attribute("a", ["x", "X"])
    with pytest.raises(SchemaError, match="differ in case or blanks alone"):
        Schema([two], reading=RowReading(ignore_case=True))
    Schema([two], reading=RowReading(trim=True))


def test_json_both_ways() -> None:
    given = {
        "file": {"delimiter": ";", "encoding": "cp1252", "decimal": {"income": ","}, "header": 2},
        "missing": ["NA", "-"],
        "trim": True,
        "ignore_case": True,
        "columns": {
            "sex": {"column": "SEX", "groups": {"Female": ["F"]}, "missing": ["9"], "trim": False},
            "age": {"date": {"into": "year", "format": "%d.%m.%Y"}, "ignore_case": False},
        },
    }
    assert RowReading.from_dict(given).to_dict() == given
    assert RowReading.from_dict({}).to_dict() == {}


def test_a_columns_name_prints_as_the_attributes() -> None:
    name = ColumnName("AHV_NR", "person")
    assert name == "AHV_NR"
    assert repr(name) == "for 'person'"
    assert f"no column {name!r}" == "no column for 'person'"
    assert repr(ColumnName("sex", "sex")) == "'sex'"
