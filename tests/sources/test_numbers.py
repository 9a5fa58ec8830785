"""Numbers written as texts: what a style makes of them, and what can be known of a column's style."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosstally.errors import AmbiguousNumbersError, SourceError
from crosstally.schema import Attribute, Schema, Unit
from crosstally.sources import Reading, check, count
from crosstally.sources.reading_options import NumbersSeen, NumberStyle, is_any_number

STYLES = [(".", ","), (".", "'"), (".", " "), (".", ""), (",", "."), (",", " "), (",", "'"), (",", "")]


def said(number: Decimal, decimal: str, thousands: str) -> str:
    """A number as people write it in a style: digits in threes from the point on."""
    whole, _, part = format(abs(number), "f").partition(".")
    groups = []
    while len(whole) > 3:
        whole, last = whole[:-3], whole[-3:]
        groups.append(last)
    text = thousands.join([whole, *reversed(groups)]) + (decimal + part if part else "")
    return "-" + text if number < 0 else text


@given(st.decimals(-(10**12), 10**12, places=4), st.sampled_from(STYLES))
def test_a_style_reads_what_was_written_in_it(number: Decimal, style: tuple[str, str]) -> None:
    text = said(number, *style)
    (plain,) = NumberStyle(*style).plain(pa.array([text])).to_pylist()
    assert Decimal(plain) == number
    assert is_any_number(pa.array([text])).to_pylist() == [True]


def reading_of(text: str, decimal: str, thousands: str) -> Decimal | None:
    """The number that a text is in a style, slowly: None when it is none."""
    body = text.strip(" ").removeprefix("-").removeprefix("+")
    whole, *rest = body.split(decimal)
    groups = whole.split(thousands)
    if len(rest) > 1 or not all(re.fullmatch("[0-9]*", part) for part in (*groups, *rest)) or body in ("", decimal):
        return None
    if len(groups) > 1 and (not re.fullmatch("[1-9][0-9]{0,2}", groups[0]) or any(len(g) != 3 for g in groups[1:])):
        return None
    return Decimal(f"{'-' * text.strip(' ').startswith('-')}{''.join(groups) or 0}.{''.join(rest) or 0}")


DIGITS = st.text("0123456789.,-", min_size=1, max_size=9)


@given(DIGITS, st.sampled_from([(".", ","), (",", ".")]))
def test_what_is_no_number_in_a_style_stays_as_it_is(text: str, style: tuple[str, str]) -> None:
    (plain,) = NumberStyle(*style).plain(pa.array([text])).to_pylist()
    expected = reading_of(text, *style)
    assert plain == text if expected is None else Decimal(plain.strip()) == expected


@given(st.lists(DIGITS, min_size=1, max_size=5))
def test_a_column_is_unclear_only_when_both_readings_fit(texts: list[str]) -> None:
    seen = NumbersSeen()
    seen.add(pa.array(texts))
    marked = [text for text in texts if re.search("[.,]", text)]
    fits = {d: [reading_of(t, d, "," if d == "." else ".") is not None for t in marked] for d in ".,"}
    numbers = [point or comma for point, comma in zip(fits["."], fits[","], strict=True)]
    both = [point and comma for point, comma in zip(fits["."], fits[","], strict=True)]
    assert seen.is_unclear == (any(both) and numbers == both)
    if seen.style is not None:
        found = [reading_of(t, seen.style.decimal, seen.style.thousands) is not None for t in marked]
        assert [f for f, is_number in zip(found, numbers, strict=True) if is_number] == [True] * sum(numbers)


@pytest.mark.parametrize(
    ("texts", "style"),
    [
        (["1", "22", "words", ""], None),
        (["1.5", "1500"], None),
        (["0.125"], None),
        (["1234.567"], None),
        (["2020-01-01", "10:30", "1.2.3", "C50.911"], None),
        (["1,5"], (",", ".")),
        (["1.234.567"], (",", ".")),
        (["1,234,567"], (".", ",")),
        (["21,740", "1.5"], (".", ",")),
        (["21.740", "1,5"], (",", ".")),
        (["12 500"], (".", " ")),
        (["12\u00a0500", "21,740"], (",", " ")),
        (["12’500", "21.740"], (".", "'")),
    ],
)
def test_the_style_of_a_column(texts: list[str], style: tuple[str, str] | None) -> None:
    for column in (pa.array(texts), pa.array(texts).dictionary_encode(), pa.array([None, *texts]).slice(1)):
        seen = NumbersSeen()
        seen.add(column.cast(pa.large_string()) if column.type == pa.string() else column)
        assert seen.style == (None if style is None else NumberStyle(*style))
        assert not seen.is_unclear
        assert not seen.is_mixed


@pytest.mark.parametrize("texts", [["1.5", "1,5"], ["1.234.567", "1,234,567"], ["12 500", "12'500"]])
def test_styles_that_do_not_go_together(texts: list[str]) -> None:
    seen = NumbersSeen()
    for text in texts:  # one batch each
        seen.add(pa.array([text]))
    assert seen.is_mixed
    assert seen.style is None


SCHEMA = Schema([Attribute("pay", edges=[0, 100, 10_000, 50_000], outside="other"), Attribute("code", [1, 2, 3])])


def frame(*pays: Any) -> pd.DataFrame:
    return pd.DataFrame({"pay": list(pays), "code": ["1"] * len(pays)})


def counted(rows: Any, **options: Any) -> list[int]:
    return count(rows, SCHEMA, [("pay",)], reading=Reading(**options))[0].counts.tolist()


def test_frames_of_texts_are_held_to_the_same() -> None:
    assert counted(frame(21.74, 3.5)) == [2, 0, 0, 0]  # numbers are numbers
    assert counted(frame("21.74", "3.5")) == [2, 0, 0, 0]
    with pytest.raises(AmbiguousNumbersError) as caught:
        counted(frame("21.740", "3"))
    assert caught.value.columns == ("pay",)
    assert counted(frame("21.740", "3"), decimal=",") == [1, 0, 1, 0]
    assert counted(frame("21.740", "3"), decimal={"pay": "."}) == [2, 0, 0, 0]
    assert counted(frame("21.740", "3"), decimal={"pay": "."}, thousands={"code": "'"}) == [2, 0, 0, 0]
    categories = frame("21.740", "3").astype({"pay": "category"})
    assert counted(categories, thousands=".") == [1, 0, 1, 0]
    with pytest.raises(AmbiguousNumbersError):
        check(categories, SCHEMA)


def test_labels_that_are_numbers_are_held_to_it_too() -> None:
    with pytest.raises(AmbiguousNumbersError) as caught:
        counted(pd.DataFrame({"pay": ["1"], "code": ["1.000"]}))  # 1, or a thousand
    assert caught.value.columns == ("code",)


def test_one_person_cannot_change_how_others_are_read() -> None:
    """What is read follows from what is said: a further row is refused, or counted beside the same cells."""
    rows = ["21,5", "99,5", "300"]
    assert counted(frame(*rows), decimal=",") == [2, 1, 0, 0]
    assert counted(frame(*rows, "words"), decimal=",") == [2, 1, 0, 1]
    assert counted(frame(*rows, "1.2.3"), decimal=",") == [2, 1, 0, 1]
    with pytest.raises(SourceError, match="column 'pay' holds decimal points beside decimal commas"):
        counted(frame(*rows, "21.5"), decimal=",")


def test_ids_stay_as_they_are_written() -> None:
    """Two ids that a style makes the same number belong to two people: one must not displace the other's rows."""
    schema = Schema(SCHEMA.attributes, Unit("id", 1))
    rows = frame("1,5", "200").assign(id=["1.234", "1234"])
    for reading in (Reading(decimal=","), Reading(decimal={"pay": ",", "id": ","})):
        (table,) = count(rows, schema, [("pay",)], reading=reading)
        assert table.counts.tolist() == [1, 1, 0, 0]
        assert check(rows, schema, reading=reading).kept == 2


def test_the_first_batch_does_not_decide(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("pay,code\n" + "21.740,1\n" * 300_000 + "5.5,1\n", encoding="utf-8")
    assert counted(path) == [300_001, 0, 0, 0]  # one number for certain has a decimal point
    path.write_text("pay,code\n" + "21.740,1\n" * 300_000 + "7,1\n", encoding="utf-8")
    with pytest.raises(AmbiguousNumbersError):
        counted(path)


# What can be said


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"delimiter": ";;"}, "delimiter must be a single character of ASCII, got ';;'"),
        ({"delimiter": '"'}, "delimiter and quote must differ"),
        ({"encoding": "klingon"}, "encoding must be one that Python knows, such as utf-8 or cp1252, got 'klingon'"),
        ({"encoding": "base64"}, "encoding must be one that Python knows"),
        ({"decimal": ";"}, "decimal must be one of '.', ',', got ';'"),
        ({"decimal": ["."]}, "decimal must be a separator, or one for each column named, got list"),
        ({"thousands": {"pay": "x"}}, "thousands must be one of"),
        ({"decimal": ".", "thousands": {"pay": "."}}, "decimal and thousands must differ, got '.' for both"),
        ({"header": -1}, "header must be a line number, or 0 for none, got -1"),
        ({"header": True}, "header must be a line number"),
        ({"sheet": 0}, "sheet must be a name, or a number from 1 on, got 0"),
        ({"table": ""}, "table must be a name, got ''"),
    ],
)
def test_what_cannot_be_said(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(SourceError) as caught:
        Reading(**options)
    assert reason in str(caught.value)


def test_a_reading_is_json_both_ways() -> None:
    full = Reading(
        delimiter=";",
        encoding="latin-1",
        quote="'",
        decimal={"pay": ",", "": "."},
        thousands="'",
        header=3,
        sheet=2,
        table="people",
    )
    assert full.to_dict()["encoding"] == "iso8859-1"
    assert Reading.from_dict(full.to_dict()) == full
    assert Reading.from_dict({}) == Reading()
    assert Reading(encoding="UTF8").encoding == "utf-8"
    with pytest.raises(SourceError, match="reading: unknown field 'delimeter'; did you mean 'delimiter'"):
        Reading.from_dict({"delimeter": ";"})
    with pytest.raises(SourceError, match="reading must be an object, got list"):
        Reading.from_dict([])


@pytest.mark.parametrize(
    ("said", "remembered", "together"),
    [
        ({"encoding": "cp1252"}, {"encoding": "utf-8", "delimiter": ";"}, {"delimiter": ";", "encoding": "cp1252"}),
        ({"decimal": {"a": "."}}, {"decimal": {"a": ",", "b": ","}}, {"decimal": {"a": ".", "b": ","}}),
        ({"decimal": {"a": "."}}, {"decimal": ","}, {"decimal": {"": ",", "a": "."}}),
        ({"decimal": "."}, {"decimal": {"a": ","}}, {"decimal": "."}),
        ({"thousands": "'"}, {"header": 0}, {"thousands": "'", "header": 0}),
    ],
)
def test_what_is_said_goes_before_what_is_remembered(
    said: dict[str, Any], remembered: dict[str, Any], together: dict[str, Any]
) -> None:
    assert Reading(**said).or_else(Reading(**remembered)).to_dict() == together
