"""Numbers fall into bins exactly at the edges, the same from every source."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosstally.schema import Attribute
from crosstally.sources.codes.encode import encode, matcher_of
from reference_sources import cell_of

EDGES = (-2, 0, 0.1, 18, 64.5, 120)
OUTSIDE, MISSING = 5, 6


def codes(values: list[Any], kind: pa.DataType, edges: tuple[float, ...] = EDGES) -> list[int]:
    column = pa.array(values, kind, from_pandas=False)
    return encode("c", column, matcher_of(Attribute("c", edges=edges, outside="other"))).tolist()


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()])
def test_integers(kind: pa.DataType) -> None:
    values = [-3, -2, -1, 0, 1, 17, 18, 64, 65, 120, 121, None]
    assert codes(values, kind) == [5, 0, 0, 1, 2, 2, 3, 3, 4, 4, 5, 6]


@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()])
def test_unsigned_integers(kind: pa.DataType) -> None:
    assert codes([0, 17, 18, 120, 121, None], kind) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_floats(kind: pa.DataType) -> None:
    values = [-2.0, -0.0, 0.0, 0.0999, 0.1, 64.4, 64.5, 120.0, 120.1, math.inf, -math.inf, math.nan]
    given_values = [np.dtype(kind.to_pandas_dtype()).type(value) for value in values]
    assert codes(given_values, kind) == [0, 1, 1, 1, 2, 3, 4, 4, 5, 5, 5, 6]


def test_texts() -> None:
    values = ["-2", "-2.0", "0", "0.1", ".1", "1e-1", "0.09999999999999999999999999", "0.1000000000000000000000001"]
    values += ["1.8e1", " 18 ", "018", "120.", "120.000", "120.00000000000000000001", "12O", "", "nan", "inf", "1,5"]
    values += ["٣", "1_0", "0x10", "true", "1e99999", "--1"]
    expected = [0, 0, 1, 2, 2, 2, 1, 2, 3, 3, 3, 4, 4, 5, 5, 6, 5, 5, 5, 5, 5, 5, 5, 5, 5]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        assert codes(values, kind) == expected
        assert codes([*values, None], kind) == [*expected, MISSING]


def test_decimals_booleans_and_dates() -> None:
    assert codes([Decimal("0.10"), Decimal("0.09"), Decimal("120.00"), None], pa.decimal128(6, 2)) == [2, 1, 4, 6]
    assert codes([True, False, None], pa.bool_()) == [OUTSIDE, OUTSIDE, MISSING]  # true is not 1
    assert codes([date(2000, 1, 1)], pa.date32()) == [OUTSIDE]
    assert codes([None], pa.null()) == [MISSING]
    column = pa.array([17, 18, None, 17]).dictionary_encode()
    assert encode("c", column, matcher_of(Attribute("c", edges=EDGES))).tolist() == [2, 3, 6, 2]


def test_large_edges_are_exact() -> None:
    edges = (2**53, 2**53 + 1, 2**63)
    assert codes([2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1], pa.int64(), edges) == [2, 0, 1, 1]
    assert codes([2**63, 2**63 + 1, 2**53], pa.uint64(), edges) == [1, 2, 0]
    texts = [str(2**53), str(2**53 + 1), str(2**63), str(2**63 + 1)]
    assert codes(texts, pa.string(), edges) == [0, 1, 1, 2]
    assert codes([2.0**53, 2.0**53 + 2], pa.float64(), edges) == [0, 1]


def test_edges_beyond_the_type_of_the_column() -> None:
    edges = (-1e299, -1e6, 0, 1e6, 1e299)
    assert codes([-128, 0, 127], pa.int8(), edges) == [1, 2, 2]
    assert codes([-(2**63), 2**63 - 1, 0], pa.int64(), edges) == [0, 3, 2]
    assert codes([np.float16(-65504), np.float16(1), np.float16(math.inf)], pa.float16(), edges) == [1, 2, 4]
    assert codes([-3e38, 3e38, math.inf, -math.inf], pa.float32(), edges) == [0, 3, 4, 4]
    assert codes([1e299, math.nextafter(1e299, math.inf), -1e299], pa.float64(), edges) == [3, 4, 0]
    assert codes([np.float16(65504), np.float16(math.inf)], pa.float16(), (0, 65504)) == [0, 1]


NUMBERS = st.one_of(st.integers(-5, 130), st.floats(-3, 130, width=64), st.sampled_from([*EDGES, None, math.nan]))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(NUMBERS, max_size=20),
    st.lists(st.one_of(st.integers(-3, 130), st.floats(-3, 130)), min_size=2, max_size=6, unique=True).map(sorted),
)
def test_any_numbers_as_in_the_reference(values: list[float | None], edges: list[float]) -> None:
    if any(a >= b for a, b in pairwise(edges)):
        return
    attribute = {"name": "c", "edges": edges, "outside": "other", "missing": True}
    expected = [cell_of(attribute, value) for value in values]
    floats = [None if value is None else float(value) for value in values]
    texts = ["" if value is None or math.isnan(value) else repr(value) for value in values]
    assert codes(floats, pa.float64(), tuple(edges)) == expected
    assert codes(texts, pa.string(), tuple(edges)) == expected
    near = [math.nextafter(edge, side) for edge in edges for side in (-math.inf, math.inf)]
    assert codes(near, pa.float64(), tuple(edges)) == [cell_of(attribute, value) for value in near]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1, width=32), min_size=2, max_size=5, unique=True).map(sorted))
def test_narrow_floats_fall_where_their_text_falls(edges: list[float]) -> None:
    written = tuple(float(str(np.float32(edge))) for edge in edges)
    if any(a >= b for a, b in pairwise(written)):
        return
    narrow = np.array(edges, np.float32)
    near = np.concatenate([narrow, np.nextafter(narrow, np.float32(-9)), np.nextafter(narrow, np.float32(9))])
    attribute = {"name": "c", "edges": written, "outside": "other"}
    assert codes(near, pa.float32(), written) == [cell_of(attribute, float(str(value))) for value in near]
