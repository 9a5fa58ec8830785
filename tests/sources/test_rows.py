"""Sources that cannot be read: a clear error each, and never a word of a row in it."""

from __future__ import annotations

import gzip
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import crosstally as ct
from crosstally.errors import CrosstallyError, SourceError
from crosstally.schema import Attribute, Schema, Unit
from crosstally.sources import Reading, check, count, draft, source_of
from crosstally.sources.source import Scan

CANARY = "CANARY-7f3a"
SCHEMA = Schema((Attribute("sex", ["F", "M"]), Attribute("note", ["x", "y"], outside="other")))
TABLES = [("sex",), ()]
LETTERS = "names must be the same letter by letter"
HEADER = "a text file must begin with a line of names, else say --header (in Python: Reading(header=...))"


def failure(rows: Any, schema: Schema = SCHEMA, work: Callable[..., Any] = count) -> str:
    """The message of the error, after a look at everything that is printed with it."""
    with pytest.raises(SourceError) as caught:
        work(rows, schema, [(schema.names[0],), ()]) if work is count else work(rows, schema)
    error: BaseException | None = caught.value
    assert CANARY not in "".join(traceback.format_exception(caught.value))
    while error is not None:
        assert CANARY not in str(error)
        assert CANARY not in repr(error)
        error = error.__cause__ or error.__context__
    assert caught.value.__context__ is None
    return str(caught.value)


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


GOOD_LINES = b"sex,note\n" + b"F,x\n" * 50
CSV_CASES = {
    "more fields": (GOOD_LINES + b"F,%s,1\n", "the row at line 52 has 3 fields, the names have 2"),
    "fewer fields": (GOOD_LINES + b"%s\n", "the row at line 52 has 1 field, the names have 2"),
    "open quote": (GOOD_LINES + b'"%s,x\n', "a quote in the row at line 52 does not end where its field ends"),
    "stray quotes": (GOOD_LINES + b'F,"%s\n' * 2, "a quote in the row at line 53 does not end where its field ends"),
    "not utf-8": (GOOD_LINES + b"F,%s\xff\n", "it is not UTF-8 text"),
    "late and long": (GOOD_LINES * 1 + b"F,x\n" * 3_000_000 + b"F,%s,1\n", "the row at line 3000052 has 3 fields"),
    "a row without end": (GOOD_LINES + b"F,%s" + b"a" * (9 << 20), "a row is too long, or a quote is never closed"),
}


@pytest.mark.parametrize("name", CSV_CASES)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_malformed_csv(name: str, packed: bool, tmp_path: Path) -> None:
    content, reason = CSV_CASES[name]
    content = content.replace(b"%s", CANARY.encode())
    path = written(tmp_path / f"people.csv{'.gz' * packed}", gzip.compress(content, 1) if packed else content)
    message = failure(path)
    assert message.startswith(f"cannot read {str(path)!r}: ")
    assert reason in message


def test_csv_cut_short_in_its_compression(tmp_path: Path) -> None:
    whole = gzip.compress(b"sex,note\n" + f"F,{CANARY}\n".encode() * 9_000)
    for size in (5, len(whole) // 2, len(whole) - 12):
        path = written(tmp_path / "people.csv.gz", whole[:size])
        assert failure(path).startswith(f"cannot read {str(path)!r}: ")
    assert "cannot read" in failure(written(tmp_path / "plain.csv.gz", GOOD_LINES))


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "it is empty, without even a header"), (b"\n\n", "it is empty, without even a header")],
)
def test_empty_csv(content: bytes, reason: str, tmp_path: Path) -> None:
    path = written(tmp_path / "people.csv", content)
    assert failure(path) == f"cannot read {str(path)!r}: {reason}"


def big_table() -> pa.Table:
    return pa.table({"sex": ["F"] * 40_000, "note": [f"{CANARY}{i}" for i in range(40_000)]})


def file_bytes(path: Path) -> bytes:
    table = big_table()
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=1_000)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=1_000)
    else:
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=1_000)
    return path.read_bytes()


@pytest.mark.parametrize("end", ["parquet", "arrow", "arrows"])
def test_binary_files_cut_short_or_overwritten(end: str, tmp_path: Path) -> None:
    path = tmp_path / f"people.{end}"
    whole = file_bytes(path)
    middle = len(whole) // 2
    cut = [whole[:size] for size in (0, 3, 7, middle, len(whole) - 30)]
    for damaged in (*cut, CANARY.encode() * 50, whole[:8] + whole[200:]):
        assert failure(written(path, damaged)).startswith(f"cannot read {str(path)!r}: ")


@pytest.mark.parametrize("end", ["parquet", "arrow", "arrows"])
def test_texts_that_are_not_utf8_in_binary_files(end: str, tmp_path: Path) -> None:
    bad = pa.array([b"F", CANARY.encode() + b"\xff\xfe"]).view(pa.string())
    table = pa.table({"sex": bad, "note": ["x", "x"]})
    path = tmp_path / f"people.{end}"
    if end == "parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        with (pa.ipc.new_file if end == "arrow" else pa.ipc.new_stream)(path, table.schema) as writer:
            writer.write_table(table)
    assert "cannot read" in failure(path)
    bounded = Schema((Attribute("note", ["x", "y"]),), Unit("sex", 1))
    assert "cannot read" in failure(path, bounded)
    assert "cannot read" in failure(path, bounded, check)


def test_files_that_are_not_there_or_not_files(tmp_path: Path) -> None:
    assert failure(tmp_path / "none.csv") == f"cannot read {str(tmp_path / 'none.csv')!r}: No such file or directory"
    assert failure(tmp_path / "none.parquet").endswith("No such file or directory")
    assert failure(tmp_path / "none.arrow").endswith("No such file or directory")
    assert failure(str(tmp_path / "no*.csv")) == f"no file matches {str(tmp_path / 'no*.csv')!r}"
    assert "holds no file of a known kind; name the files, for example" in failure(tmp_path)
    assert failure("x" * 5_000 + "*.csv").endswith("File name too long")
    (tmp_path / "folder.csv").mkdir()
    assert "holds no file of a known kind" in failure(tmp_path / "folder.csv")
    assert failure(tmp_path / "folder.csv" / "*") == f"no file matches {str(tmp_path / 'folder.csv' / '*')!r}"
    letter = written(tmp_path / "people.doc", GOOD_LINES)
    assert failure(letter).startswith(f"{str(letter)!r} must end in one of .csv, .tsv, .tab, .txt, .parquet, .pq, ")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "people.csv", GOOD_LINES)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, CANARY, CANARY)

    monkeypatch.setattr(pa, "input_stream", refuse)
    assert failure(path) == f"cannot read {str(path)!r}: Permission denied"


@pytest.mark.parametrize(
    "rows", [[], [{"sex": "F"}], {"sex": ["F"]}, 7, None, pa.chunked_array([["F"]]), pd.Series(["F"])]
)
def test_what_is_not_a_source(rows: Any) -> None:
    assert "rows must be a path, a folder, a glob, a list of them, or a table" in failure(
        rows
    ) or "cannot read" in failure(rows)


def test_columns_that_are_missing_or_twice(tmp_path: Path) -> None:
    path = written(tmp_path / "people.csv", b"Sex,note,other\nF,x,1\n")
    assert failure(path) == f"{str(path)!r} has no column 'sex' among its 3; {LETTERS}; {HEADER}"
    twice = written(tmp_path / "twice.csv", b"sex,note,sex\nF,x,M\n")
    assert failure(twice) == f"{str(twice)!r} has more than one column 'sex'; rename one of them"
    unused = written(tmp_path / "unused.csv", b"sex,note,a,a,,\nF,x,1,2,,\n")
    assert [table.counts.tolist() for table in count(unused, SCHEMA, TABLES)] == [[1, 0], 1]
    with pytest.raises(SourceError) as error:
        draft(unused)
    assert str(error.value) == f"{str(unused)!r}: columns 3 and 4 have the same name; rename one; {HEADER}"
    frame = pa.table([["F"], ["M"], ["x"]], names=["sex", "sex", "note"])
    assert failure(frame) == "the Table has more than one column 'sex'; rename one of them"
    assert "more than one column 'sex'" in failure(pd.DataFrame([["F", "M", "x"]], columns=["sex", "sex", "note"]))
    assert failure(pd.DataFrame({"sex": ["F"]})) == f"the DataFrame has no column 'note' among its 1; {LETTERS}"
    assert failure(pd.DataFrame({"notes": ["x"]})).startswith("the DataFrame has no columns 'sex', 'note' among its 1;")
    bounded = Schema(SCHEMA.attributes, Unit("person", 1))
    assert failure(pa.table({"sex": ["F"], "note": ["x"]}), bounded).startswith("the Table has no column 'person'")


def test_a_row_in_place_of_a_header_is_never_quoted(tmp_path: Path) -> None:
    """Near misses and repeats included: 'sexe' for 'sex' was suggested, and 'a' twice was named."""
    first_rows = [f"{CANARY},sexe,Sex,3", f"notes,{CANARY}", f"{CANARY}", f"sex,{CANARY},{CANARY}", f'"{CANARY}\n",x']
    wide = Schema(tuple(Attribute(f"a{i}", ["0", "1"]) for i in range(20)))
    for row in first_rows:
        path = written(tmp_path / "people.csv", f"{row}\nF,x,1\n".encode())
        message = failure(path)
        assert "'note'" in message
        assert not any(found in message for found in ("sexe", "Sex", "notes"))
        assert failure(path, wide).startswith(
            f"{str(path)!r} has no columns 'a0', 'a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7', ..."
        )
        frame = pd.DataFrame([["F"] * (row.count(",") + 1)], columns=row.split(","))
        assert CANARY not in failure(frame)
    twice = written(tmp_path / "twice.csv", f"{CANARY},x,{CANARY}\nF,x,1\n".encode())
    with pytest.raises(SourceError) as error:
        draft(twice)
    assert CANARY not in str(error.value)


def test_an_error_of_a_draft_says_where_the_column_stands() -> None:
    late = pa.array([2**62], pa.timestamp("s"))  # no calendar goes that far
    with pytest.raises(SourceError) as error:
        draft(pa.table({"sex": ["F"], CANARY: late}))
    assert str(error.value) == "cannot read column 'number 2': it holds dates beyond the calendar"


def test_frames_whose_columns_cannot_be_converted() -> None:
    mixed = pd.DataFrame({"sex": ["F", "M"], "note": [1, CANARY], "unused": [{1}, object()]})
    assert "is not a table whose columns each hold one kind of value" in failure(mixed)
    unused = pd.DataFrame({"sex": ["F", "M"], "note": ["x", CANARY], "unused": [1, "a"]})
    assert count(unused, SCHEMA, [()])[0].counts == 2
    with duckdb.connect() as connection:
        connection.execute("create table numbers as select i from range(9) t(i)")
        failing = connection.sql(f"select 'F' as sex, cast(concat('{CANARY}', i) as integer) as note from numbers")
        assert "cannot read the DuckDBPyRelation" in failure(failing)


def test_a_stream_that_fails_half_way() -> None:
    good = pa.record_batch({"sex": ["F"], "note": [CANARY]})

    def stream() -> Iterator[pa.RecordBatch]:
        yield good
        raise RuntimeError(CANARY)

    message = failure(pa.RecordBatchReader.from_batches(good.schema, stream()))
    assert message == "cannot read the RecordBatchReader: its rows ended in an error"


def test_names_with_dots_and_accents(tmp_path: Path) -> None:
    table = pa.table({"capital.gain": ["a", "b"], "größe, cm": [1, 1], "capital": [{"gain": 1}, {"gain": 2}]})
    pyarrow.parquet.write_table(table, tmp_path / "people.parquet")
    (tmp_path / "people.csv").write_text('"größe, cm",capital.gain\n1,a\n1,b\n', encoding="utf-8")
    schema = Schema((Attribute("capital.gain", ["a", "b"]), Attribute("größe, cm", [1, 2])))
    for name in ("people.parquet", "people.csv"):
        (table,) = count(tmp_path / name, schema, [("größe, cm", "capital.gain")])
        assert table.counts.tolist() == [[1, 1], [0, 0]]


def test_only_the_columns_needed_are_read(tmp_path: Path) -> None:
    for name in ("people.parquet", "people.csv"):
        content = pa.table({"sex": ["F"], "note": ["x"], "unused": [CANARY]})
        path = tmp_path / name
        if name.endswith("parquet"):
            pyarrow.parquet.write_table(content, path)
        else:
            path.write_text(f"unused,sex,note\n{CANARY},F,x\n", encoding="utf-8")
        assert [table.counts.tolist() for table in count(path, SCHEMA, TABLES)] == [[1, 0], 1]


def test_interrupts_pass(tmp_path: Path) -> None:
    good = written(tmp_path / "people.csv", GOOD_LINES)

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        count(good, SCHEMA, TABLES, progress=stop)


def test_source_errors_are_for_users() -> None:
    assert issubclass(SourceError, CrosstallyError)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_that_changes_while_it_is_read_spends_nothing(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"people.{kind}"
    if kind == "csv":
        path.write_bytes(GOOD_LINES)
    else:
        pyarrow.parquet.write_table(pa.table({"sex": ["F"] * 50, "note": ["x"] * 50}), path)
    ledger = ct.Ledger.create(
        tmp_path / "people.ledger", schema=SCHEMA, budget=ct.Budget(epsilon=1), neighbours="add-remove"
    )

    def somebody_writes(_: int) -> None:
        with path.open("ab") as file:
            file.write(b"M,x\n")

    before = sorted(tmp_path.iterdir())
    for strategy in ("direct", "two-stage"):  # in one stage and in several
        with pytest.raises(SourceError, match=r"people\..*' changed while it was read, .* nothing was spent") as caught:
            ct.release(path, SCHEMA, epsilon=1, strategy=strategy, ledger=ledger, progress=somebody_writes)
        assert caught.value.__context__ is None
        if kind == "parquet":
            break  # its end was written over, and it is no longer one
    assert ledger.spent == 0
    assert sorted(tmp_path.iterdir()) == before


def test_row_groups_that_were_read_are_not_kept(tmp_path: Path) -> None:
    """Forty row groups of 400 kB: at no time are a quarter of the 16 MB held."""
    numbers = np.random.default_rng(5).integers(0, 2**31, 100_000, dtype=np.int32)
    table = pa.table({"a": numbers})
    with pyarrow.parquet.ParquetWriter(tmp_path / "p.parquet", table.schema) as writer:
        for _ in range(40):
            writer.write_table(table)
    before, held, rows = pa.total_allocated_bytes(), 0, 0
    for batch in source_of(tmp_path / "p.parquet").batches(Scan(["a"])):
        held, rows = max(held, pa.total_allocated_bytes() - before), rows + batch.num_rows
    assert rows == 4_000_000
    assert 0 < held < 4_000_000


def test_a_recoded_text_longer_than_a_block_is_read_whole(tmp_path: Path) -> None:
    """One letter of two bytes makes the first block of 4 MB a byte longer than Arrow asked for."""
    row = b"f,some text that fills a row\n"
    path = tmp_path / "p.csv"
    path.write_bytes(b"sex,note\nf,\xe9\n" + 170_000 * row)
    found = list(source_of(str(path)).batches(Scan(["sex"], Reading(encoding="cp1252"))))
    assert sum(batch.num_rows for batch in found) == 170_001
