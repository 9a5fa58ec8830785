"""Each unit counts with at most its bound of rows, chosen by their content alone."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosstally.schema import Attribute, Schema, Unit
from crosstally.sources import count, counts
from crosstally.sources.counts import row_hashes, smallest
from reference_sources import hash_of

ATTRIBUTES = (Attribute("a", ["0", "1", "2"], outside="drop"), Attribute("b", [0, 1]))


def table_of(rows: list[tuple[object, object, object]]) -> pa.Table:
    who, a, b = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table({"who": pa.array(who), "a": pa.array(a, pa.string()), "b": pa.array(b, pa.int8())})


def total(rows: list[tuple[object, object, object]], max_rows: int) -> int:
    (table,) = count(table_of(rows), Schema(ATTRIBUTES, Unit("who", max_rows)), [()])
    return int(table.counts)


def test_at_most_the_bound_of_each_unit() -> None:
    rows = [("p", "0", 0)] * 5 + [("q", "1", 1)] * 2 + [("r", "2", 0)]
    assert [total(rows, bound) for bound in (1, 2, 3, 9)] == [3, 5, 6, 8]


def test_equal_rows_keep_their_multiplicity() -> None:
    rows = [("p", "0", 0)] * 3 + [("q", "0", 0)] * 2
    (table,) = count(table_of(rows), Schema(ATTRIBUTES, Unit("who", 4)), [("a", "b")])
    assert table.counts.tolist() == [[5, 0], [0, 0], [0, 0]]


def test_dropped_rows_do_not_use_up_the_bound() -> None:
    assert total([("p", "x", 0)] * 50 + [("p", "1", 0)], 1) == 1


def test_rows_without_an_id_are_left_out() -> None:
    assert total([(None, "0", 0), ("", "0", 0), ("p", "0", 0)], 5) == 1


def test_ids_are_one_person_when_their_texts_are_equal() -> None:
    rows = [("1", "0", 0), ("1.0", "0", 0), ("e\u0301", "0", 0), ("\u00e9", "0", 0)]
    assert total(rows, 1) == 2


def test_ids_are_one_person_across_files_of_other_types(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table({"who": [7, 7], "a": ["0", "1"], "b": [0, 1]}), tmp_path / "a.parquet")
    pyarrow.parquet.write_table(pa.table({"who": [7.0], "a": ["0"], "b": [0]}), tmp_path / "b.parquet")
    (tmp_path / "c.csv").write_text("who,a,b\n7,0,0\n8,1,1\n", encoding="utf-8")
    (table,) = count(str(tmp_path / "*"), Schema(ATTRIBUTES, Unit("who", 1)), [()])
    assert table.counts == 2


def test_the_choice_is_by_hash() -> None:
    contents = [(a, b) for a in range(3) for b in range(2)]
    least = min(contents, key=hash_of)
    rows = [("p", str(a), b) for a, b in contents]
    (table,) = count(table_of(rows), Schema(ATTRIBUTES, Unit("who", 1)), [("a", "b")])
    assert [tuple(cell) for cell in np.argwhere(table.counts).tolist()] == [least]


def test_tables_asked_for_do_not_change_the_choice() -> None:
    rows = [("p", str(i % 3), i % 2) for i in range(6)]
    schema = Schema(ATTRIBUTES, Unit("who", 2))
    (both,) = count(table_of(rows), schema, [("a", "b")])
    (one,) = count(table_of(rows), schema, [("b",)])
    assert one.counts.tolist() == both.counts.sum(axis=0).tolist()


def test_hashes_do_not_depend_on_the_width_of_codes() -> None:
    narrow = np.array([[3, 1, 2], [0, 1, 5]], np.uint8)
    expected = [hash_of((3, 0)), hash_of((1, 1)), hash_of((2, 5))]
    for dtype in (np.uint8, np.uint16, np.uint32):
        assert row_hashes(list(narrow.astype(dtype)), 3).tolist() == expected


def test_equal_hashes_of_different_rows_are_ordered_by_content() -> None:
    hashes = np.full(6, 9, np.uint64)
    units_ = np.array([0, 0, 0, 1, 1, 1])
    first, second = np.array([2, 1, 1, 0, 0, 3], np.uint8), np.array([0, 7, 5, 1, 0, 0], np.uint16)
    for order in (np.arange(6), np.array([5, 2, 0, 4, 1, 3])):
        rows = order[smallest(units_[order], hashes[order], [first[order], second[order]], 2)]
        assert sorted((first[i], second[i], units_[i]) for i in rows) == [(0, 0, 1), (0, 1, 1), (1, 5, 0), (1, 7, 0)]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 1)), max_size=60),
    st.integers(1, 4),
    st.integers(0, 99),
)
def test_thinning_out_early_changes_nothing(rows: list[tuple[int, int, int]], bound: int, seed: int) -> None:
    """With almost no room for rows that wait, the kept ones are the same; each is one of its unit's own."""
    texts = [(str(who), str(a), b) for who, a, b in rows]
    random.Random(seed).shuffle(texts)
    schema = Schema(ATTRIBUTES, Unit("who", bound))
    (plain,) = count(table_of(texts), schema, [("a", "b")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts, "_PENDING_ROWS", 3)
        (early,) = count(table_of(texts), schema, [("a", "b")], batch_rows=2)
    assert early.counts.tolist() == plain.counts.tolist()
    assert plain.counts.sum() == sum(min(bound, times) for times in Counter(who for who, _, _ in rows).values())


def test_a_schema_with_no_attribute_in_its_tables_still_bounds() -> None:
    assert total([], 3) == 0
    assert total([("p", "0", 0)] * 4, 3) == 3


# Units that are divided over their rows


def parts_of(rows: list[tuple[object, object, object]], **options: int) -> list[list[int]]:
    (table,) = count(table_of(rows), Schema(ATTRIBUTES, Unit.counted_once("who")), [("a", "b")], **options)
    return [[int(number) for number in line] for line in table.counts]


def test_a_divided_unit_counts_once_over_all_its_rows() -> None:
    """720,720 parts of each unit: p has 3 rows of 240,240, q one, and the row of r without a value of a is none."""
    rows = [("p", "0", 0)] * 2 + [("p", "2", 1), ("q", "0", 0), ("r", "x", 0), (None, "0", 0)]
    assert parts_of(rows) == [[2 * 240_240 + 720_720, 0], [0, 0], [0, 240_240]]


def test_no_number_of_rows_counts_more_than_once() -> None:
    """With 17 rows 42,395 parts each, 720,715 in all; with 800,000 none, since they are more than the parts."""
    assert parts_of([("p", "0", 0)] * 17) == [[720_715, 0], [0, 0], [0, 0]]
    assert parts_of([("p", "0", 0)] * 800_000) == [[0, 0], [0, 0], [0, 0]]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 1)), max_size=60), st.integers(0, 99))
def test_the_order_and_the_batches_of_rows_change_no_part(rows: list[tuple[int, int, int]], seed: int) -> None:
    texts = [(str(who), str(a), b) for who, a, b in rows]
    times = Counter(who for who, _, _ in texts)
    expected = [[0, 0], [0, 0], [0, 0]]
    for who, a, b in texts:
        expected[int(a)][b] += 720_720 // times[who]
    random.Random(seed).shuffle(texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts, "_PENDING_ROWS", 3)
        assert parts_of(texts, batch_rows=2) == expected
