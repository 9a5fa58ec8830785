"""Counts are those of the plain reference, whatever the source, the batch size and the order of rows."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosstally.errors import CrosstallyError, OutsideValueError, QueryError, SourceError, TooManyCellsError
from crosstally.query.queries import Cells
from crosstally.schema import Schema
from crosstally.sources import count, encode_rows, source_of
from crosstally.sources.counts import CodedRows
from crosstally.sources.counts import counted as counted_rows
from reference_sources import Refused
from reference_sources import count as plain_count

SCHEMA: dict[str, Any] = {
    "attributes": [
        {"name": "sex", "values": ["Female", "Male"], "outside": "drop"},
        {"name": "age", "edges": [0, 18, 30.5, 65, 120], "missing": True, "outside": "other"},
        {"name": "town", "values": ["Köln", "Łódź", "Paris"], "outside": "other"},
        {"name": "children", "values": [0, 1, 2, "3"], "missing": True, "outside": "drop"},
        {"name": "owner", "values": [False, True], "missing": True},
    ]
}
BOUNDED = {**SCHEMA, "unit": {"id": "person", "max_rows": 2}}
DIVIDED = {**SCHEMA, "unit": {"id": "person", "divided": True}}
TABLES = [(), ("sex",), ("age", "sex"), ("owner", "children", "town"), ("sex", "age", "town", "children", "owner")]


def people(number: int, seed: int = 1) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        {
            "person": draw.choice([None, *range(number // 3 + 1)]),
            "sex": draw.choice(["Female", "Male", "Male", "x", None]),
            "age": draw.choice([None, 0, 17, 18, 30, 31, 64, 65, 119, 120, 121, -1]),
            "town": draw.choice(["Köln", "Ko\u0308ln", "Łódź", "Paris", "Rome", None]),
            "children": draw.choice([0, 1, 2, 3, 4, None]),
            "owner": draw.choice([True, False, None]),
            "unused": draw.choice(["a", "b"]),
        }
        for _ in range(number)
    ]


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    kinds = {"person": pa.int64(), "sex": pa.string(), "age": pa.int64(), "town": pa.string()}
    kinds |= {"children": pa.int8(), "owner": pa.bool_(), "unused": pa.string()}
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})


def csv_text(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def counted(rows: Any, schema: dict[str, Any], tables: list[tuple[str, ...]], **options: Any) -> list[Any]:
    return [table.counts.tolist() for table in count(rows, Schema.from_dict(schema), tables, **options)]


def counted_again(rows: Any, schema: dict[str, Any], tables: list[tuple[str, ...]], **options: Any) -> list[Any]:
    """The same from rows that are encoded once: some tables first, then all of them."""
    with contextlib.closing(encode_rows(rows, Schema.from_dict(schema), **options)) as encoded:
        encoded.count(tables[1:2])
        return [table.counts.tolist() for table in encoded.count(tables)]


def sources(rows: list[dict[str, Any]], folder: Path) -> Iterator[tuple[str, Any]]:
    table = table_of(rows)
    (folder / "people.csv").write_text(csv_text(rows), encoding="utf-8")
    yield "csv", folder / "people.csv"
    (folder / "people.CSV.gz").write_bytes(gzip.compress(csv_text(rows).encode()))
    yield "gzipped csv", str(folder / "people.CSV.gz")
    pyarrow.parquet.write_table(table, folder / "people.parquet", row_group_size=70)
    yield "parquet", folder / "people.parquet"
    pyarrow.parquet.write_table(table, folder / "plain.pq", use_dictionary=False)
    yield "parquet without dictionaries", folder / "plain.pq"
    pyarrow.feather.write_feather(table, folder / "people.feather")
    yield "feather", folder / "people.feather"
    with pa.ipc.new_file(folder / "people.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=50)
    yield "arrow file", folder / "people.arrow"
    with pa.ipc.new_stream(folder / "people.arrows", table.schema) as writer:
        writer.write_table(table, max_chunksize=50)
    yield "arrow stream", folder / "people.arrows"
    yield "pyarrow table", table
    yield "pyarrow chunks", pa.concat_tables([table.slice(0, 31), table.slice(31, 0), table.slice(31)])
    yield "pyarrow reader", table.to_reader(max_chunksize=13)
    yield "one batch", table.combine_chunks().to_batches()[0]
    yield "array only", ArrayOnly(table.combine_chunks().to_batches()[0])
    yield "dictionaries", pa.table({name: table[name].dictionary_encode() for name in table.column_names})
    yield "pandas", table.to_pandas()
    yield "pandas objects", pd.DataFrame(rows, dtype=object)
    yield "polars", pl.from_arrow(table)
    yield "polars categories", pl.from_arrow(table).with_columns(pl.col("sex", "town").cast(pl.Categorical))
    yield "duckdb", duckdb.from_arrow(table)
    strings = table.schema.set(1, pa.field("sex", pa.large_string())).set(3, pa.field("town", pa.string_view()))
    yield "other texts", table.cast(strings)


class ArrayOnly:
    """An object that hands out one Arrow array and no stream."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self.batch.__arrow_c_array__(requested_schema)


@pytest.mark.parametrize("schema", [SCHEMA, BOUNDED, DIVIDED], ids=["rows", "units", "divided"])
def test_every_source_gives_the_counts_of_the_reference(schema: dict[str, Any], tmp_path: Path) -> None:
    rows = people(300)
    expected = plain_count(rows, schema, TABLES)
    assert 30 < expected[0] / (720_720 if schema is DIVIDED else 1) < 200  # many rows count and many do not
    for name, source in sources(rows, tmp_path):
        assert counted(source, schema, TABLES) == expected, name
    assert counted_again(table_of(rows), schema, TABLES) == expected


@pytest.mark.parametrize("schema", [SCHEMA, BOUNDED, DIVIDED], ids=["rows", "units", "divided"])
@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_the_number_of_threads_does_not_matter(threads: int, schema: dict[str, Any], end: str, tmp_path: Path) -> None:
    rows = people(1_000, seed=6)
    written = dict(sources(rows, tmp_path))[end]
    expected = plain_count(rows, schema, TABLES)
    assert counted(written, schema, TABLES, batch_rows=64) == expected, threads
    assert counted_again(written, schema, TABLES, batch_rows=64) == expected, threads


def test_of_several_batches_that_are_refused_the_first_is_told_of(threads: int) -> None:
    """The town is refused from row 300 on, the sex from row 500 on, later in the table and sooner in the schema."""
    strict = {"attributes": [{"name": name, "values": ["yes", "maybe"]} for name in ("sex", "town")]}
    rows = pa.table({"sex": ["yes"] * 500 + ["no"] * 300, "town": ["yes"] * 300 + ["no"] * 500})
    with pytest.raises(OutsideValueError, match="column 'town'"):
        counted(rows, strict, [("sex",)], batch_rows=100)
    assert threads == pa.cpu_count()


def test_many_cells_are_counted_by_fewer_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for the counts of two threads alone: 8 bytes for each of three cells and the total."""
    used = []

    def noted(work: Any, rows: Any, *, threads: int) -> Any:
        used.append(threads)
        return map(work, rows)

    monkeypatch.setattr("crosstally.sources.counts.in_order", noted)
    monkeypatch.setattr("crosstally.sources.counts._COUNTS_BYTES", 2 * 4 * 8 + 1)
    schema = {"attributes": [{"name": "town", "values": ["a", "b", "c"]}]}
    assert counted(pa.table({"town": ["a", "c", "a"]}), schema, [(), ("town",)]) == [3, [2, 0, 1]]
    assert used == [min(threads, 2)]


@pytest.mark.parametrize("codes", [[0, 2], [0, 1, 1], [0]])
def test_codes_of_other_cells_are_not_counted(codes: list[int]) -> None:
    """Whoever encodes wrongly finds no cell of another table, and no memory beyond them."""
    schema = Schema.from_dict({"attributes": [{"name": "a", "values": ["x", "y"]}]})
    rows = CodedRows(2, [np.array(codes, np.uint8)])
    with pytest.raises(CrosstallyError, match="the codes of 'a' are not those of its cells; nothing was counted"):
        counted_rows([rows], ["a"], schema, [Cells(["a"]), Cells(())], 10)


@pytest.mark.parametrize("schema", [SCHEMA, BOUNDED, DIVIDED], ids=["rows", "units", "divided"])
@settings(max_examples=30, deadline=None)
@given(batch_rows=st.integers(1, 320), seed=st.integers(0, 10**6))
def test_neither_batch_size_nor_order_matters(schema: dict[str, Any], batch_rows: int, seed: int) -> None:
    rows = people(150)
    shuffled = list(rows)
    random.Random(seed).shuffle(shuffled)
    expected = plain_count(rows, schema, TABLES)
    assert counted(table_of(shuffled), schema, TABLES, batch_rows=batch_rows) == expected
    assert counted_again(table_of(shuffled), schema, TABLES, batch_rows=batch_rows) == expected


VALUES = st.one_of(
    st.none(),
    st.sampled_from(["", "1", "1.0", "01", "-0", "0", "True", "true", "1e0", " 1", "é", "e\u0301", "x", "2.50"]),
)


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=40),
    outside=st.sampled_from(["other", "drop", "refuse"]),
    missing=st.booleans(),
    max_rows=st.sampled_from([None, 1, 3]),
)
def test_any_texts_under_any_rule(
    values: list[tuple[str | None, ...]], outside: str, missing: bool, max_rows: int | None
) -> None:
    schema: dict[str, Any] = {
        "attributes": [
            {"name": "label", "values": ["1", "0", "é", "true", "2.5"], "outside": outside, "missing": missing},
            {"name": "number", "edges": [0, 1, 2.5], "outside": outside, "missing": missing},
        ]
    }
    if max_rows is not None:
        schema["unit"] = {"id": "who", "max_rows": max_rows}
    rows = [dict(zip(("label", "number", "who"), each, strict=True)) for each in values]
    table = pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in ("label", "number", "who")})
    tables = [(), ("number", "label")]
    try:
        expected = plain_count(rows, schema, tables)
    except Refused:
        with pytest.raises(OutsideValueError, match="column '(label|number)' holds"):
            counted(table, schema, tables)
    else:
        assert counted(table, schema, tables, batch_rows=7) == expected


def test_several_files_are_one_source(tmp_path: Path) -> None:
    rows = people(90)
    expected = plain_count(rows, BOUNDED, TABLES)
    (tmp_path / "a1.csv").write_text(csv_text(rows[:30]), encoding="utf-8")
    (tmp_path / "a2.csv").write_text(csv_text(rows[30:60]), encoding="utf-8")
    pyarrow.parquet.write_table(table_of(rows[60:]), tmp_path / "b.parquet")
    assert counted([tmp_path / "b.parquet", str(tmp_path / "a*.csv")], BOUNDED, TABLES) == expected
    assert counted(str(tmp_path / "*.*"), BOUNDED, TABLES) == expected
    (tmp_path / "[odd].csv").write_text(csv_text(rows), encoding="utf-8")
    assert counted(tmp_path / "[odd].csv", BOUNDED, TABLES) == expected


@pytest.mark.parametrize("text", ["sex,age\n", "sex,age", "\ufeffsex,age\r\n", "sex,age\n\n\n"])
def test_a_header_alone_counts_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text(text, encoding="utf-8")
    schema = {"attributes": SCHEMA["attributes"][:2]}
    assert counted(tmp_path / "empty.csv", schema, [(), ("sex",)]) == [0, [0, 0]]


@pytest.mark.parametrize("schema", [SCHEMA, BOUNDED, DIVIDED], ids=["rows", "units", "divided"])
def test_no_rows_count_as_nothing(schema: dict[str, Any]) -> None:
    empty = table_of([])
    for source in (empty, empty.to_pandas(), pl.from_arrow(empty), empty.to_reader()):
        assert counted(source, schema, [(), ("sex", "owner")]) == [0, [[0, 0, 0], [0, 0, 0]]]


def test_csv_fields_are_texts(tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text('code,note\n01,"a, b"\n1,"two\nlines"\n1.0,"say ""no"""\n', encoding="utf-8")
    schema = {"attributes": [{"name": "code", "values": ["01", "1"]}]}
    assert counted(tmp_path / "codes.csv", schema, [("code",)]) == [[1, 2]]
    notes = {"attributes": [{"name": "note", "values": ["a, b", "two\nlines", 'say "no"']}]}
    assert counted(tmp_path / "codes.csv", notes, [("note",)]) == [[1, 1, 1]]


@pytest.mark.parametrize(
    ("outside", "missing", "expected"),
    [
        ("other", False, [2, 1, 3]),
        ("other", True, [2, 1, 1, 2]),
        ("drop", False, [2, 1]),
        ("drop", True, [2, 1, 2]),
    ],
)
def test_each_rule_for_outside_and_missing(outside: str, missing: bool, expected: list[int]) -> None:
    schema = {"attributes": [{"name": "c", "values": ["a", "b"], "outside": outside, "missing": missing}]}
    assert counted(pa.table({"c": ["a", "b", "z", None, "a", ""]}), schema, [("c",), ()]) == [expected, sum(expected)]


@pytest.mark.parametrize("values", [["a", "CANARY-7f3a"], ["a", None], ["a", ""]])
def test_refusal_names_the_column_and_nothing_else(values: list[str | None]) -> None:
    schema = {"attributes": [{"name": "c", "values": ["a", "b"]}]}
    with pytest.raises(OutsideValueError) as caught:
        counted(pa.table({"c": values}), schema, [("c",)])
    assert str(caught.value) == (
        "column 'c' holds values, or missing values, that the schema does not list; "
        "add them to it, or set outside to other or drop, or missing to true"
    )


def test_refusal_where_missing_has_a_cell() -> None:
    schema = {"attributes": [{"name": "c", "edges": [0, 1], "missing": True}]}
    assert counted(pa.table({"c": [0.5, None]}), schema, [("c",)]) == [[1, 1]]
    with pytest.raises(OutsideValueError, match="holds values that the schema does not list"):
        counted(pa.table({"c": [0.5, 7.0]}), schema, [("c",)])


def test_a_row_that_one_rule_drops_is_in_no_table() -> None:
    schema = {"attributes": [{"name": "a", "values": ["x", "y"], "outside": "drop"}, {"name": "b", "values": [0, 1]}]}
    assert counted(pa.table({"a": ["x", "?", "y"], "b": [0, 1, 1]}), schema, [("b",), ()]) == [[1, 1], 2]


def test_forty_attributes() -> None:
    draw = np.random.default_rng(5)
    codes = draw.integers(0, 3, (40, 2_000))
    schema = {"attributes": [{"name": f"a{i}", "values": [0, 1, 2]} for i in range(40)]}
    tables = [tuple(f"a{i}" for i in draw.choice(40, 4, replace=False)) for _ in range(30)]
    rows = [{f"a{i}": int(codes[i, j]) for i in range(40)} for j in range(2_000)]
    frame = pa.table({f"a{i}": codes[i] for i in range(40)})
    assert counted(frame, schema, tables, batch_rows=777) == plain_count(rows, schema, tables)


def test_attributes_and_tables_of_many_cells() -> None:
    schema = {
        "attributes": [
            {"name": "big", "values": list(range(70_000))},
            {"name": "mid", "values": list(range(255))},
            {"name": "exact", "values": list(range(256))},
            {"name": "two", "values": ["a", "b"], "outside": "other"},
        ]
    }
    frame = pa.table({"big": [69_999, 0, 69_999], "mid": [254, 0, 254], "exact": [255, 0, 255], "two": ["b", "a", "c"]})
    big, mid, pair, triple = count(
        frame, Schema.from_dict(schema), [("big", "two"), ("mid",), ("mid", "exact"), ("two", "mid", "exact")]
    )
    assert np.argwhere(big.counts).tolist() == [[0, 0], [69_999, 1], [69_999, 2]]
    assert (mid.counts[[0, 254]].tolist(), mid.counts.sum()) == ([1, 2], 3)
    assert (pair.counts[0, 0], pair.counts[254, 255], pair.counts.sum()) == (1, 2, 3)
    assert np.argwhere(triple.counts).tolist() == [[0, 0, 0], [1, 254, 255], [2, 254, 255]]


def test_tables_repeated_and_in_any_order() -> None:
    schema = {"attributes": [{"name": "a", "values": [0, 1]}, {"name": "b", "values": [0, 1, 2]}]}
    frame = pa.table({"a": [0, 1, 1], "b": [2, 2, 0]})
    assert counted(frame, schema, [("b", "a"), ("a", "b"), ("b", "a"), ()]) == [
        [[0, 1], [0, 0], [1, 1]],
        [[0, 0, 1], [1, 0, 1]],
        [[0, 1], [0, 0], [1, 1]],
        3,
    ]


@pytest.mark.parametrize("end", ["csv", "csv.gz", "parquet", "arrow", "arrows"])
def test_progress_tells_the_bytes_read(end, tmp_path) -> None:
    """A number of rows is confidential: it is told neither as such nor by bytes in proportion to a batch's rows."""
    table, paths = table_of(people(250)), [tmp_path / f"{name}.{end}" for name in ("a", "b")]
    for path in paths:
        if end == "parquet":
            pyarrow.parquet.write_table(table, path, row_group_size=100)
        elif end.startswith("arrow"):
            with (pa.ipc.new_file if end == "arrow" else pa.ipc.new_stream)(path, table.schema) as writer:
                writer.write_table(table, max_chunksize=100)
        else:
            with pa.output_stream(path, compression="detect") as stream:
                pyarrow.csv.write_csv(table, stream)
    told: list[int] = []
    counted(paths, SCHEMA, [()], batch_rows=100, progress=told.append)
    size = paths[0].stat().st_size
    assert told == sorted(told)
    assert told[-1] == 2 * size == source_of(paths).size()
    assert size in told
    assert not {100, 200, 250, 500} & set(told)


def test_parquet_tells_bytes_group_by_group(tmp_path) -> None:
    path = tmp_path / "people.parquet"
    pyarrow.parquet.write_table(pa.table({"a": [0] * 200_000}), path, row_group_size=150_000)
    schema, told = {"attributes": [{"name": "a", "values": [0, 1]}]}, []
    counted(path, schema, [()], progress=told.append)
    size = path.stat().st_size
    # Batches of 65,536 rows end within the first group, within it, and past it; the last one ends the second.
    assert told == [0, 0, size // 2, size, size]


def test_a_parquet_file_whose_columns_contradict_themselves_is_refused(tmp_path) -> None:
    """Asked for the metadata of such a column, pyarrow ends the process: its histogram is that of another kind."""
    path = tmp_path / "people.parquet"
    pyarrow.parquet.write_table(pa.table({"a": [0, 1]}), path)
    data = path.read_bytes()
    optional, required = b"\x25\x02\x18\x01a", b"\x25\x00\x18\x01a"  # repetition, then the name
    assert data.count(optional) == 1
    path.write_bytes(data.replace(optional, required))
    code = (
        "import sys, crosstally as ct\nfrom crosstally.sources import count\n"
        "count(sys.argv[1], ct.Schema([ct.Attribute('a', [0, 1])]), [('a',)])"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "SourceError" in ended.stderr.splitlines()[-1]


def test_a_table_in_memory_tells_nothing() -> None:
    told: list[int] = []
    for rows in (table_of(people(250)), pa.RecordBatchReader.from_batches(table_of([]).schema, [])):
        counted(rows, SCHEMA, [()], batch_rows=100, progress=told.append)
        assert source_of(rows).size() is None
    assert told == []
    assert source_of("no such file.csv").size() is None


def test_unknown_attributes_and_too_many_cells() -> None:
    schema = Schema.from_dict(SCHEMA)
    with pytest.raises(QueryError, match="unknown attribute 'sx'; did you mean 'sex'"):
        count(table_of([]), schema, [("sx",)])
    wide = Schema.from_dict({"attributes": [{"name": n, "values": list(range(3_000))} for n in "ab"]})
    with pytest.raises(TooManyCellsError, match="at most 5,000,000 cells can be counted at once, got 9,000,000"):
        count(pa.table({"a": [1], "b": [1]}), wide, [("a", "b")])


def test_a_type_without_texts_is_refused() -> None:
    schema = {"attributes": [{"name": "c", "values": ["a", "b"]}]}
    for column in (pa.array([b"a"]), pa.array([["a"]]), pa.array([{"x": "a"}]), pa.array([1], pa.duration("s"))):
        with pytest.raises(SourceError, match="column 'c' must hold texts, numbers, booleans, dates or times, got"):
            counted(pa.table({"c": column}), schema, [("c",)])


@pytest.mark.parametrize("batches", [3, pytest.param(2_100, marks=pytest.mark.verify)])
def test_counts_past_two_to_the_31(batches: int) -> None:
    """The full number streams 2.2 thousand million rows; the small one runs the same path."""
    rows = 1 << 20
    codes = pa.record_batch({"c": np.where(np.arange(rows) < 5, 1, 0).astype(np.int8)})
    reader = pa.RecordBatchReader.from_batches(codes.schema, (codes for _ in range(batches)))
    schema = {"attributes": [{"name": "c", "values": [0, 1]}]}
    assert counted(reader, schema, [("c",), ()]) == [[batches * (rows - 5), batches * 5], batches * rows]
