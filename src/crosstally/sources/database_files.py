"""Tables in files of SQLite and DuckDB, opened for reading alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa

from crosstally.checks import optional
from crosstally.errors import SourceError
from crosstally.sources.option_words import how_to_say
from crosstally.sources.python_values import column_of
from crosstally.sources.reading import Reading

__all__ = ["open_duckdb", "open_sqlite"]

Read = Callable[[Sequence[str]], Iterator[tuple[pa.RecordBatch, int]]]
_CHUNK_ROWS = 65_536  # rows of a batch: limits memory, as in ``rows``. Counts do not depend on it


def open_sqlite(path: Path, reading: Reading) -> tuple[list[str], Read]:
    """The names of a table's columns, and a function that reads some of them."""
    with closing(_connect(path)) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        table = _table(path, [name for (name,) in tables], reading.table)
        names = [name for _, name, *_ in database.execute(f"PRAGMA table_info({_quoted(table)})")]

    def read(chosen: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        # One statement sees one state of the file, whatever others write meanwhile.
        with closing(_connect(path)) as database:
            cursor = database.execute(f"SELECT {', '.join(map(_quoted, chosen))} FROM {_quoted(table)}")
            while rows := cursor.fetchmany(_CHUNK_ROWS):
                columns = [column_of(values) for values in zip(*rows, strict=True)]
                yield pa.record_batch(columns, names=list(chosen)), 0

    return names, read


def _connect(path: Path) -> sqlite3.Connection:
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
        names = list(database.sql(f"SELECT * FROM {_quoted(table)}").columns)

    def read(chosen: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        with closing(duckdb.connect(str(path), read_only=True)) as database:
            query = database.sql(f"SELECT {', '.join(map(_quoted, chosen))} FROM {_quoted(table)}")
            for batch in pa.RecordBatchReader.from_stream(query):
                yield batch, 0

    return names, read


def _table(path: Path, names: Sequence[str], wanted: str | None) -> str:
    if wanted is not None and wanted not in names:
        raise SourceError(f"{str(path)!r} has no table {wanted!r} among its {len(names)}; views are not read")
    if wanted is None and len(names) != 1:
        raise SourceError(f"{str(path)!r} has {len(names)} tables: say {how_to_say('table')}")
    return names[0] if wanted is None else wanted


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
