"""Tables in files of SQLite and DuckDB, opened for reading alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from crosstally.checks import optional
from crosstally.errors import SourceError
from crosstally.schema import canonical_text
from crosstally.sources.guard import how_to_say
from crosstally.sources.reading_options import Reading

__all__ = ["column_of", "connect_sqlite", "open_duckdb", "open_sqlite", "quoted"]


# Columns of Python's values, of one kind or of several, as Arrow arrays.


_KINDS: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    Decimal: pa.decimal256(76, 38),  # as text it might be meant in two ways
    str: pa.large_string(),
    bytes: pa.large_binary(),  # no attribute takes it, and the error names the column
    date: pa.date32(),
    datetime: pa.timestamp("us"),
}


def column_of(values: Sequence[object]) -> pa.Array:
    """The values as an array. Where they are of several kinds each becomes its canonical text.

    What becomes of a value depends on no other: a number and its canonical text fall into the same cells.

    >>> column_of([1, None, 2]).type, column_of([1, "a", 2.5]).to_pylist()
    (DataType(int64), ['1', 'a', '2.5'])
    """
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) == 1:
        (kind,) = kinds
        if kind in _KINDS:
            return pa.array(values, _KINDS[kind])
    if bytes in kinds:
        return pa.array([None] * len(values), pa.large_binary())
    return pa.array([canonical_text(value) for value in values], pa.large_string())


Read = Callable[[Sequence[str]], Iterator[tuple[pa.RecordBatch, int]]]
_CHUNK_ROWS = 65_536  # rows of a batch: limits memory, as in ``rows``. Counts do not depend on it


def open_sqlite(path: Path, reading: Reading) -> tuple[list[str], Read]:
    """The names of a table's columns, and a function that reads some of them."""
    with closing(connect_sqlite(path)) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        table = _table(path, [name for (name,) in tables], reading.table)
        names = [name for _, name, *_ in database.execute(f"PRAGMA table_info({quoted(table)})")]

    def read(chosen: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        # One statement sees one state of the file, whatever others write meanwhile.
        with closing(connect_sqlite(path)) as database:
            cursor = database.execute(f"SELECT {', '.join(map(quoted, chosen))} FROM {quoted(table)}")
            while rows := cursor.fetchmany(_CHUNK_ROWS):
                columns = [column_of(values) for values in zip(*rows, strict=True)]
                yield pa.record_batch(columns, names=list(chosen)), 0

    return names, read


def connect_sqlite(path: Path) -> sqlite3.Connection:
    """A connection that reads alone."""
    path.stat()  # the system's own error, when it is not there
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)


def open_duckdb(path: Path, reading: Reading) -> tuple[list[str], Read]:
    """The names of a table's columns, and a function that reads some of them."""
    path.stat()
    duckdb = optional("duckdb", extra="frames")
    with closing(duckdb.connect(str(path), read_only=True)) as database:
        found = database.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' "
            "AND table_schema = current_schema()"
        ).fetchall()
        table = _table(path, [name for (name,) in found], reading.table)
        names = list(database.sql(f"SELECT * FROM {quoted(table)}").columns)

    def read(chosen: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        with closing(duckdb.connect(str(path), read_only=True)) as database:
            query = database.sql(f"SELECT {', '.join(map(quoted, chosen))} FROM {quoted(table)}")
            for batch in pa.RecordBatchReader.from_stream(query):
                yield batch, 0

    return names, read


def _table(path: Path, names: Sequence[str], wanted: str | None) -> str:
    if wanted is not None and wanted not in names:
        raise SourceError(f"{str(path)!r} has no table {wanted!r} among its {len(names)}; views are not read")
    if wanted is None and len(names) != 1:
        raise SourceError(f"{str(path)!r} has {len(names)} tables: say {how_to_say('table')}")
    return names[0] if wanted is None else wanted


def quoted(name: str) -> str:
    """A name as SQL writes it, whatever its letters."""
    return '"' + name.replace('"', '""') + '"'
