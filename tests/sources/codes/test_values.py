"""Values match labels by their canonical text, the same from every Arrow type."""

from __future__ import annotations

import math
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosstally.errors import SourceError
from crosstally.schema import Attribute
from crosstally.sources.codes.encode import canonical_texts, encode, matcher_of
from reference_sources import text_of

LABELS = ("1", "0", "-7", "2.5", "0.1", "true", "false", "é", "01", "2024-02-29", "10000000000000000000000", "inf")
OUTSIDE, MISSING = 12, 13
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]

CASES: list[tuple[Any, pa.DataType, int]] = [
    *((1, kind, 0) for kind in INTEGERS),
    *((0, kind, 1) for kind in INTEGERS),
    *((9, kind, OUTSIDE) for kind in INTEGERS),
    *((-7, kind, 2) for kind in INTEGERS[:4]),
    *((None, kind, MISSING) for kind in [*INTEGERS, *FLOATS, *TEXTS, pa.bool_(), pa.null(), pa.date32()]),
    *((1.0, kind, 0) for kind in FLOATS),
    *((-0.0, kind, 1) for kind in FLOATS),
    *((2.5, kind, 3) for kind in FLOATS),
    *((0.1, kind, 4) for kind in FLOATS),
    *((math.inf, kind, 11) for kind in FLOATS),
    *((-math.inf, kind, OUTSIDE) for kind in FLOATS),
    *((math.nan, kind, MISSING) for kind in FLOATS),
    *((0.3, kind, OUTSIDE) for kind in FLOATS),
    (1e22, pa.float64(), 10),
    (2**63 + 1, pa.uint64(), OUTSIDE),
    (2**64 - 7, pa.uint64(), OUTSIDE),  # the bits of -7
    (-(2**63), pa.int64(), OUTSIDE),
    (2**63 - 1, pa.int64(), OUTSIDE),
    *(("1", kind, 0) for kind in TEXTS),
    *(("1.0", kind, 0) for kind in TEXTS),
    *(("1.000", kind, 0) for kind in TEXTS),
    *(("-0", kind, 1) for kind in TEXTS),
    *(("01", kind, 8) for kind in TEXTS),
    *((" 1", kind, OUTSIDE) for kind in TEXTS),
    *(("+1", kind, OUTSIDE) for kind in TEXTS),
    *(("1e0", kind, OUTSIDE) for kind in TEXTS),
    *(("", kind, MISSING) for kind in TEXTS),
    *(("True", kind, 5) for kind in TEXTS),
    *(("false", kind, 6) for kind in TEXTS),
    *(("TRUE", kind, OUTSIDE) for kind in TEXTS),
    *(("\u00e9", kind, 7) for kind in TEXTS),
    *(("e\u0301", kind, 7) for kind in TEXTS),
    *(("nan", kind, OUTSIDE) for kind in TEXTS),
    (True, pa.bool_(), 5),
    (False, pa.bool_(), 6),
    (Decimal("1.00"), pa.decimal128(5, 2), 0),
    (Decimal("2.50"), pa.decimal256(40, 2), 3),
    (Decimal(10000000000000000000000), pa.decimal128(38, 0), 10),
    (Decimal("3.00"), pa.decimal128(5, 2), OUTSIDE),
    (date(2024, 2, 29), pa.date32(), 9),
    (date(2024, 2, 29), pa.date64(), 9),
    (datetime(2024, 2, 29), pa.timestamp("us"), OUTSIDE),
]


def codes(values: list[Any], kind: pa.DataType, labels: tuple[Any, ...] = LABELS) -> list[int]:
    if pa.types.is_float16(kind):
        values = [None if value is None else np.float16(value) for value in values]
    column = pa.array(values, kind, from_pandas=False)
    return encode("c", column, matcher_of(Attribute("c", labels))).tolist()


@pytest.mark.parametrize(("value", "kind", "code"), CASES, ids=str)
def test_value_of_each_type(value: Any, kind: pa.DataType, code: int) -> None:
    assert codes([value], kind) == [code]
    assert codes([None, value, value, None], kind) == [MISSING, code, code, MISSING]
    if not pa.types.is_float16(kind) and not pa.types.is_null(kind):
        column = pa.array([None, value, "skipped"][:2], kind)
        indices = pa.array([1, None, 0, 1], pa.int8())
        column = pa.DictionaryArray.from_arrays(indices, column)
        assert encode("c", column, matcher_of(Attribute("c", LABELS))).tolist() == [code, MISSING, MISSING, code]
        assert encode("c", column[1:3], matcher_of(Attribute("c", LABELS))).tolist() == [MISSING, MISSING]


def test_one_and_true_differ() -> None:
    assert codes([1], pa.int64(), ("true", "x")) == [2]
    assert codes([True], pa.bool_(), ("1", "x")) == [2]
    assert codes(["1", "1.0", "true"], pa.string(), (1.0, True)) == [0, 0, 1]


def test_labels_themselves_are_matched_by_canonical_text() -> None:
    labels = ("1.50", "e\u0301", "True", 2)
    assert codes(["1.5", "\u00e9", "true", "2.0"], pa.string(), labels) == [0, 1, 2, 3]
    assert codes([1.5, 2.0], pa.float32(), labels) == [0, 3]


def test_slices_are_read_from_where_they_begin() -> None:
    matcher = matcher_of(Attribute("c", ["1", "2", "3"]))
    for kind in (pa.int8(), pa.int64(), pa.float64(), pa.string(), pa.string_view(), pa.decimal128(22, 1)):
        column = pa.array([1, 2, None, 3, 1], pa.int64()).cast(kind).slice(1, 3)
        assert encode("c", column, matcher).tolist() == [1, 4, 2]
    column = pa.array([True, False, None, True]).slice(1, 2)
    assert encode("c", column, matcher_of(Attribute("c", [False, True]))).tolist() == [0, 3]


def test_integers_far_apart() -> None:
    labels = (-(2**63), 0, 2**63 - 1, 2**64 - 1, 10**30)
    assert codes([-(2**63), 0, 2**63 - 1, 5], pa.int64(), labels) == [0, 1, 2, 5]
    assert codes([0, 2**63 - 1, 2**64 - 1, 5], pa.uint64(), labels) == [1, 2, 3, 5]
    assert codes([Decimal(10**30)], pa.decimal128(38, 0), labels) == [4]
    assert codes([1e30, -9223372036854775808.0], pa.float64(), labels) == [4, 5]  # as written: -9.223372036854776e18


def test_float32_matches_the_decimal_it_is_written_as() -> None:
    assert codes([0.1, 16_777_217.0, 3.4e38], pa.float32(), ("0.1", "16777216", "34" + "0" * 37)) == [0, 1, 2]
    assert codes([0.1], pa.float64(), ("0.10000000000000001", "x")) == [2]


def test_moments() -> None:
    days = ("2024-02-29T00:00:00", "2024-02-29T12:00:00.000001", "2024-02-29T12:00:00.000001002", "12:30:00")
    labels = (*days, "2024-02-29T00:00:00+00:00", "1969-12-31T23:59:59.999999999")
    noon = datetime(2024, 2, 29, 12, 0, 0, 1)
    for unit in ("s", "ms", "us", "ns"):
        assert codes([datetime(2024, 2, 29)], pa.timestamp(unit), labels) == [0]
        assert codes([datetime(2024, 2, 29)], pa.timestamp(unit, "UTC"), labels) == [4]
    assert codes([noon], pa.timestamp("us"), labels) == [1]
    nanoseconds = pa.array([noon], pa.timestamp("ns")).cast(pa.int64()).to_pylist()[0]
    assert codes([nanoseconds, nanoseconds + 2, -1], pa.timestamp("ns"), labels) == [1, 2, 5]
    for kind in (pa.time32("s"), pa.time64("us"), pa.time64("ns")):
        assert codes([time(12, 30)], kind, labels) == [3]


def test_a_moment_beyond_the_calendar_is_an_error() -> None:
    with pytest.raises(SourceError, match="cannot read column 'c': it holds dates beyond the calendar"):
        codes([2**60], pa.timestamp("s"))


NUMBERS = st.one_of(st.integers(-300, 300), st.floats(allow_nan=True, width=64), st.integers(-(2**63), 2**63 - 1))
ANY_TEXT = st.text(st.characters(codec="utf-8"), max_size=4) | NUMBERS.map(str) | st.decimals(-9, 9, places=2).map(str)


@settings(max_examples=80, deadline=None)
@given(st.lists(ANY_TEXT, max_size=20), st.lists(ANY_TEXT, min_size=2, max_size=5, unique_by=text_of))
def test_any_text_as_in_the_reference(values: list[str], labels: list[str]) -> None:
    kept = tuple(label for label in labels if label not in ("", "(other)", "(missing)"))
    if len(kept) < 2:
        return
    texts = [text_of(label) for label in kept]
    expected = [texts.index(text_of(v)) if text_of(v) in texts else len(kept) + (v == "") for v in values]
    assert codes(values, pa.string(), kept) == expected
    assert canonical_texts("c", pa.array(values, pa.string())).to_pylist() == [text_of(v) for v in values]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.floats(width=64, allow_infinity=False), max_size=20))
def test_any_float_as_in_the_reference(values: list[float]) -> None:
    labels = tuple(dict.fromkeys(["a", *(text_of(v) for v in values[:3] if not math.isnan(v)), "b"]))
    expected = [
        len(labels) + 1 if math.isnan(v) else labels.index(text_of(v)) if text_of(v) in labels else len(labels)
        for v in values
    ]
    assert codes(values, pa.float64(), labels) == expected
    assert canonical_texts("c", pa.array(values, pa.float64())).to_pylist() == [text_of(v) for v in values]


@pytest.mark.parametrize(
    ("values", "kind", "texts"),
    [
        ([1, None, -5], pa.int16(), ["1", None, "-5"]),
        ([2**64 - 1], pa.uint64(), ["18446744073709551615"]),
        ([True, False, None], pa.bool_(), ["true", "false", None]),
        ([0.1, None, math.nan, math.inf, 1.0], pa.float32(), ["0.1", None, None, "inf", "1"]),
        (["1.0", "", None, "e\u0301", "x"], pa.string_view(), ["1", None, None, "\u00e9", "x"]),
        ([Decimal("1.50"), None], pa.decimal128(4, 2), ["1.5", None]),
        ([date(2024, 1, 2), None], pa.date32(), ["2024-01-02", None]),
        ([None, None], pa.null(), [None, None]),
        ([], pa.int64(), []),
    ],
)
def test_canonical_texts_of_each_type(values: list[Any], kind: pa.DataType, texts: list[str | None]) -> None:
    column = pa.array(values, kind, from_pandas=False)
    assert canonical_texts("c", column).to_pylist() == texts
    if not pa.types.is_null(kind):
        assert (
            canonical_texts("c", column.dictionary_encode() if kind != pa.string_view() else column).to_pylist()
            == texts
        )
