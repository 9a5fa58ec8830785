"""Rows that can be read once: counted where once is enough, refused before anything is spent where it is not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import crosstally as ct
from crosstally.cli import main
from crosstally.errors import SourceError
from crosstally.sources import is_read_again

NAMES = [f"a{i}" for i in range(16)]
SCHEMA = ct.Schema([ct.Attribute(name, ["0", "1"]) for name in NAMES])  # views ask for the number of rows first
ROWS = 3_000
GENEROUS = 2_000  # an epsilon at which a table is off by more than 100 with probability below 1e-9


def people() -> pa.Table:
    return pa.table({name: ["0", "1", "1"] * (ROWS // 3) for name in NAMES})


def batches() -> Iterator[pa.RecordBatch]:
    yield from people().to_batches(max_chunksize=500)


class Cursor:
    """What a database gives: a stream of Arrow's that is gone when it was read."""

    def __init__(self) -> None:
        self._reader = people().to_reader()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._reader.__arrow_c_stream__(requested_schema)


def duckdb_over_a_reader() -> Any:
    reader = people().to_reader()
    return duckdb.connect().from_arrow(reader)


ONE_SHOT: dict[str, Callable[[], Any]] = {
    "a reader": lambda: people().to_reader(),
    "a reader of a generator": lambda: pa.RecordBatchReader.from_batches(people().schema, batches()),
    "a cursor": Cursor,
    "DuckDB's reader": lambda: duckdb.connect().from_arrow(people()).to_arrow_reader(),
    "a query over a reader": duckdb_over_a_reader,
    "a query, which is run again": lambda: duckdb.connect().from_arrow(people()),
}
AGAIN: dict[str, Callable[[], Any]] = {
    "a table": people,
    "a batch": lambda: people().combine_chunks().to_batches()[0],
    "pandas": lambda: people().to_pandas(),
    "a kind of pandas' frame": lambda: type("Frame", (pd.DataFrame,), {})(people().to_pandas()),
    "polars": lambda: pl.from_arrow(people()),
}


def ledger() -> ct.Ledger:
    return ct.Ledger.in_memory(schema=SCHEMA, budget=ct.Budget(epsilon=3 * GENEROUS))


@pytest.mark.parametrize("name", ONE_SHOT)
def test_a_plan_in_stages_refuses_them_and_spends_nothing(name) -> None:
    paid, source = ledger(), ONE_SHOT[name]()
    assert not is_read_again(source)
    with pytest.raises(SourceError) as error:
        ct.release(source, SCHEMA, epsilon=GENEROUS, ledger=paid)
    assert str(error.value) == (
        f"the plan reads its rows more than once, and the {type(source).__name__} may have them only once; "
        "give pyarrow.table(rows) or a file, or the number of rows if that is public (rows=...)"
    )
    assert not paid.entries()
    # What the message says to do helps, and with the same rows: nothing was read of them.
    release = ct.release(pa.table(source), SCHEMA, epsilon=GENEROUS, ledger=paid)
    assert len(paid.entries()) == 2
    assert release.marginal("a3").values == pytest.approx([ROWS / 3, 2 * ROWS / 3], abs=100)


@pytest.mark.parametrize("name", ONE_SHOT)
def test_where_once_is_enough_they_are_counted(name) -> None:
    for options in ({"rows": ROWS}, {"workload": ct.Workload([("a0", "a1"), ("a3",)])}):
        release = ct.release(ONE_SHOT[name](), SCHEMA, epsilon=GENEROUS, **options)
        assert release.marginal("a3").values == pytest.approx([ROWS / 3, 2 * ROWS / 3], abs=100)


@pytest.mark.parametrize("name", AGAIN)
def test_tables_in_memory_are_read_for_each_stage(name) -> None:
    paid, source = ledger(), AGAIN[name]()
    assert is_read_again(source)
    release = ct.release(source, SCHEMA, epsilon=GENEROUS, ledger=paid)
    assert len(paid.entries()) == 2
    assert release.marginal("a3").values == pytest.approx([ROWS / 3, 2 * ROWS / 3], abs=100)


def test_what_was_bought_is_had_again_without_reading() -> None:
    paid = ledger()
    first = ct.release(people(), SCHEMA, epsilon=GENEROUS, ledger=paid, key="spring")
    again = ct.release(Cursor(), SCHEMA, epsilon=GENEROUS, ledger=paid, key="spring")
    assert [m.values.tolist() for m in again.measurements] == [m.values.tolist() for m in first.measurements]


@pytest.mark.parametrize("end", ["csv", "parquet", "arrow"])
def test_a_pipe_is_refused_and_no_ledger_is_left(end, tmp_path: Path, capsys) -> None:
    pipe = tmp_path / f"people.{end}"
    os.mkfifo(pipe)
    SCHEMA.save(tmp_path / "people.schema.json")
    with pytest.raises(SourceError, match="is a pipe or a device, which can be read once; save it as a file first"):
        ct.release(pipe, SCHEMA, epsilon=1, rows=ROWS)
    arguments = ["release", str(pipe), "--schema", str(tmp_path / "people.schema.json"), "--epsilon", "1"]
    assert main(arguments) == 2
    assert "is a pipe or a device" in capsys.readouterr().err
    assert sorted(each.name for each in tmp_path.iterdir()) == [f"people.{end}", "people.schema.json"]


def test_files_are_read_for_each_stage(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(people(), tmp_path / "people.parquet")
    release = ct.release(tmp_path / "people.parquet", SCHEMA, epsilon=GENEROUS)
    assert release.marginal("a3").values == pytest.approx([ROWS / 3, 2 * ROWS / 3], abs=100)
