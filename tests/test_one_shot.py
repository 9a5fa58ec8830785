"""Rows are read once, whatever the plan; between stages they are kept encoded, and nobody else can see them."""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import crosstally as ct
from crosstally.cli import main
from crosstally.errors import SourceError
from crosstally.sources import counts, encode_rows
from crosstally.sources.counts import CodedRows, KeptCodes
from crosstally.strategies.rules import next_stage

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
IN_MEMORY: dict[str, Callable[[], Any]] = {
    "a table": people,
    "a batch": lambda: people().combine_chunks().to_batches()[0],
    "pandas": lambda: people().to_pandas(),
    "a kind of pandas' frame": lambda: type("Frame", (pd.DataFrame,), {})(people().to_pandas()),
    "polars": lambda: pl.from_arrow(people()),
}


def ledger() -> ct.Ledger:
    return ct.Ledger.in_memory(schema=SCHEMA, budget=ct.Budget(epsilon=3 * GENEROUS))


@pytest.mark.parametrize("name", ONE_SHOT | IN_MEMORY)
def test_a_plan_in_stages_reads_them_once(name) -> None:
    paid, source = ledger(), (ONE_SHOT | IN_MEMORY)[name]()
    release = ct.release(source, SCHEMA, epsilon=GENEROUS, ledger=paid)
    assert len(paid.entries()) == 2
    assert release.marginal("a3").values == pytest.approx([ROWS / 3, 2 * ROWS / 3], abs=100)


class Restless:
    """A source that has other rows each time it is read, and counts how often that is."""

    def __init__(self) -> None:
        self.times = 0

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        self.times += 1
        rows = people() if self.times == 1 else people().slice(0, 0)
        return rows.__arrow_c_stream__(requested_schema)


def test_no_stage_sees_other_rows() -> None:
    source = Restless()
    release = ct.release(source, SCHEMA, epsilon=GENEROUS)
    assert source.times == 1
    assert len(release.measurements) > 1
    for measured in release.measurements:
        assert measured.values.sum() == pytest.approx(ROWS, abs=200)


def test_a_file_that_changes_between_stages_is_not_read_again(tmp_path: Path, monkeypatch) -> None:
    pyarrow.parquet.write_table(people(), tmp_path / "people.parquet")
    planned = next_stage

    def gone(*given: Any) -> Any:
        (tmp_path / "people.parquet").unlink()
        return planned(*given)

    monkeypatch.setattr("crosstally.pipeline.next_stage", gone)
    release = ct.release(tmp_path / "people.parquet", SCHEMA, epsilon=GENEROUS)
    assert release.marginal("a3").values == pytest.approx([ROWS / 3, 2 * ROWS / 3], abs=100)


@pytest.mark.parametrize("name", ONE_SHOT)
def test_where_once_is_enough_they_are_counted(name) -> None:
    for options in ({"rows": ROWS}, {"workload": ct.Workload([("a0", "a1"), ("a3",)])}):
        release = ct.release(ONE_SHOT[name](), SCHEMA, epsilon=GENEROUS, **options)
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


# What does not fit into memory


FILE_BYTES = len(NAMES) * ROWS  # one byte for each attribute and row


def in_a_file(monkeypatch: pytest.MonkeyPatch, memory_bytes: int) -> None:
    """Let so few bytes of codes stay in memory, in batches of 500 rows."""
    monkeypatch.setattr(counts, "KeptCodes", partial(KeptCodes, memory_bytes=memory_bytes))


@pytest.mark.parametrize("memory_bytes", [0, 1, 8_000, FILE_BYTES])
def test_codes_in_a_file_count_alike(memory_bytes: int) -> None:
    kept = KeptCodes([2, 256, 257, 70_000], memory_bytes=memory_bytes)
    draw = np.random.default_rng(1)
    given = [
        [draw.integers(0, size, rows, dtype=np.uint32) for size in (2, 256, 257, 70_000)] for rows in (300, 0, 999)
    ]
    for codes in given:
        kept.add(CodedRows(len(codes[0]), codes))
    for _ in range(2):  # as often as asked
        for codes, again in zip(given, kept.batches(), strict=True):
            assert (again.size, again.weights) == (len(codes[0]), None)
            assert [column.itemsize for column in again.codes] == [1, 1, 2, 4]
            for a, b in zip(codes, again.codes, strict=True):
                assert np.array_equal(a, b)
    kept.close()


@pytest.mark.parametrize("fails", [False, True])
def test_the_file_has_no_name_is_for_the_owner_alone_and_goes_away(fails: bool, tmp_path: Path, monkeypatch) -> None:
    """Looked at between the stages, when all rows are in it; an interrupt there is as good an end as any."""
    in_a_file(monkeypatch, 0)
    seen: list[os.stat_result] = []
    planned = next_stage

    def looked(*given: Any) -> Any:
        assert not list(tmp_path.iterdir())
        seen.extend(our_files(tmp_path))
        if fails:
            raise KeyboardInterrupt
        return planned(*given)

    monkeypatch.setattr("crosstally.pipeline.next_stage", looked)
    with pytest.raises(KeyboardInterrupt) if fails else contextlib.nullcontext():
        ct.release(people(), SCHEMA, epsilon=GENEROUS, work_dir=tmp_path)
    assert [(stat.S_IMODE(each.st_mode), each.st_nlink, each.st_size) for each in seen] == [(0o600, 0, FILE_BYTES)]
    assert not our_files(tmp_path)


def our_files(folder: Path) -> list[os.stat_result]:
    """The files of a folder that this process has open, whether they have a name or not."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if each.readlink().parent == folder:
                found.append(each.stat())
    return found


def test_a_full_disk_is_an_error_before_any_charge(tmp_path: Path, monkeypatch) -> None:
    in_a_file(monkeypatch, 0)
    paid = ledger()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES - 1, before[1]))  # the last byte has no room
    try:
        with pytest.raises(SourceError) as error:
            ct.release(people(), SCHEMA, epsilon=GENEROUS, ledger=paid, work_dir=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(error.value) == (
        f"cannot keep the codes of rows in {str(tmp_path)!r}: File too large; "
        "give a folder with more room (work_dir, --work-dir)"
    )
    assert not paid.entries()
    assert not our_files(tmp_path)
    ct.release(people(), SCHEMA, epsilon=GENEROUS, ledger=paid, work_dir=tmp_path)
    assert len(paid.entries()) == 2


def test_a_folder_that_is_not_there(tmp_path: Path, monkeypatch, capsys) -> None:
    in_a_file(monkeypatch, 0)
    pyarrow.parquet.write_table(people(), tmp_path / "people.parquet")
    SCHEMA.save(tmp_path / "people.schema.json")
    arguments = ["release", str(tmp_path / "people.parquet"), "--schema", str(tmp_path / "people.schema.json")]
    assert main([*arguments, "--epsilon", "1", "--work-dir", str(tmp_path / "nowhere")]) == 2
    assert "nowhere': No such file or directory" in capsys.readouterr().err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["people.parquet", "people.schema.json"]


def test_a_plan_of_one_stage_keeps_nothing(monkeypatch) -> None:
    monkeypatch.delattr(counts, "KeptCodes")
    release = ct.release(people(), SCHEMA, epsilon=GENEROUS, rows=ROWS, strategy="views")
    assert release.marginal("a3").values == pytest.approx([ROWS / 3, 2 * ROWS / 3], abs=100)


def test_encoded_rows_cannot_be_pickled() -> None:
    rows = encode_rows(people(), SCHEMA)
    with pytest.raises(ct.CrosstallyError, match="encoded rows are confidential"):
        pickle.dumps(rows)
    rows.close()
