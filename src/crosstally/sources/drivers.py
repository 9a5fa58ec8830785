"""Drivers of databases: what their errors say without a value of a row, connections that read alone, and their rows."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from crosstally.checks import optional
from crosstally.errors import SourceError
from crosstally.schema import canonical_text
from crosstally.sources.guard import how_to_say
from crosstally.sources.reading_options import Reading
from crosstally.sources.source import OpenedFile

# What a database's error is about, in our words: its own text may quote a person's values, its SQLSTATE does not.


# Classes of the SQL standard and of PostgreSQL's appendix A; a state of no class listed here is not shown.
_CLASSES = {
    "08": "the connection failed",
    "0A": "the query asks for what the database cannot do",
    "22": "a value does not fit what the query does with it",
    "25": "the query tries to change data, or the transaction is not one for reading",
    "28": "the login was refused",
    "3D": "there is no such database",
    "3F": "there is no such schema in the database",
    "40": "the transaction was rolled back; try again",
    "42": "the query does not fit the database",
    "53": "the server has not enough memory, disk or connections",
    "54": "the query is too long or too deep for the server",
    "55": "a table is locked or not ready",
    "57": "the server stopped the query or closed the connection",
    "58": "the server's system failed",
    "HY": "the driver failed, or the server took too long",
    "IM": "ODBC knows no such data source or driver",
    "XX": "the server has an error of its own",
}
_STATES = {
    "42501": "you may not read a table that the query names",
    "42601": "the query is not the database's SQL",
    "42703": "the query names a column that is not there",
    "42883": "the query calls a function that is not there",
    "42P01": "the query names a table that is not there",
}
_STATE = re.compile(r"[0-9A-Z]{5}")
_ODBC_STATE = re.compile(r"^State: ([0-9A-Z]{5}), Native error: ", re.MULTILINE)
_TOO_LONG = "without truncation"
_SQLITE = re.compile(r"SQLITE_[A-Z_]+")


def reason_of(error: Exception) -> str | None:
    """What can be said of a driver's error without its text; None where that is nothing.

    >>> class Wrong(Exception):
    ...     sqlstate = "22P02"
    >>> reason_of(Wrong("invalid input syntax for type integer: 'Smith'"))
    'a value does not fit what the query does with it (SQLSTATE 22P02)'
    """
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if type(error).__module__.partition(".")[0] == "arrow_odbc":
        return _reason_of_odbc(str(error))
    reason = reason_of_state(state) if isinstance(state, str) else None
    if reason is not None:
        return f"{reason} (SQLSTATE {state})"
    name = getattr(error, "sqlite_errorname", None)
    if isinstance(name, str) and _SQLITE.fullmatch(name):
        return f"SQLite refuses the query ({name})"
    if type(error).__module__.partition(".")[0] in ("duckdb", "_duckdb"):
        return f"DuckDB refuses the query ({type(error).__name__})"
    return None


def _reason_of_odbc(message: str) -> str | None:
    """The first state in a message of the driver manager, which stands before the driver's own text."""
    if _TOO_LONG in message:
        return "a value is longer than the driver says that its column holds; cast it in the query to a longer type"
    found = _ODBC_STATE.search(message)
    reason = None if found is None else reason_of_state(found[1])
    return None if reason is None or found is None else f"{reason} (SQLSTATE {found[1]})"


def reason_of_state(state: str) -> str | None:
    """What a SQLSTATE stands for; None where its class is not listed here."""
    return _STATES.get(state) or _CLASSES.get(state[:2]) if _STATE.fullmatch(state) else None


Rows = tuple[list[str], Iterator[pa.RecordBatch]]
"""The names of a query's columns, and its batches."""
_BATCH_ROWS = 65_535  # rows of a batch, the most that ODBC takes: limits memory. Counts do not depend on it


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


# Connections that read alone, and the rows of a query through each


def connect_sqlite(path: Path) -> sqlite3.Connection:
    """A file of SQLite."""
    path.stat()  # the system's own error, when it is not there
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)


def connect_duckdb(path: Path) -> Any:
    """A file of DuckDB."""
    path.stat()
    return optional("duckdb", extra="databases").connect(str(path), read_only=True)


def closed_by(stack: ExitStack, resource: Any) -> Any:
    """The resource, which the stack closes."""
    stack.callback(_close, resource)
    return resource


def _close(resource: Any) -> None:
    with suppress(Exception):  # a connection that is lost cannot be closed either, and its error quotes the server
        resource.close()


def adbc_rows(cursor: Any, query: str) -> Rows:
    """The rows of a query through a cursor of ADBC."""
    cursor.execute(query)
    # The reader that is public raises Arrow's errors, which have lost the SQLSTATE; the one inside keeps it.
    reader = getattr(getattr(cursor, "_results", None), "reader", None) or cursor.fetch_record_batch()
    return list(reader.schema.names), iter(reader)


def duckdb_rows(connection: Any, query: str) -> Rows:
    """The rows of a query of DuckDB."""
    reader = pa.RecordBatchReader.from_stream(connection.sql(query))
    return list(reader.schema.names), iter(reader)


def dbapi_rows(connection: Any, stack: ExitStack, query: str) -> Rows:
    """The rows of a query through a cursor of Python's DB-API, which the stack closes."""
    cursor = closed_by(stack, connection.cursor())
    cursor.execute(query)
    names = [column[0] for column in cursor.description]

    def batches() -> Iterator[pa.RecordBatch]:
        while rows := cursor.fetchmany(_BATCH_ROWS):
            yield pa.record_batch([column_of(values) for values in zip(*rows, strict=True)], names=names)

    return names, batches()


def quoted(name: str) -> str:
    """A name as SQL writes it, whatever its letters."""
    return '"' + name.replace('"', '""') + '"'


# Rows of a query through ODBC: SQL Server, Oracle, and whatever else has a driver. They are streamed, never grouped.
# What a driver says of a column's type may be less than its values hold. So numbers with a point are fetched as texts
# or doubles, and a value that is longer than its buffer is an error: nothing is rounded or cut.


NUMERIC = b"crosstally:numeric"
"""In the metadata of a column of texts: it is a numeric in the database."""
# Bytes of the buffers of one batch, chosen to limit memory: a batch has fewer rows where a driver says that texts
# are long. Counts do not depend on it.
_BATCH_BYTES = 16 * 2**20
_PASSWORD = re.compile(r"(^|[;{])\s*(pwd|password)\s*=", re.IGNORECASE)
_NAME = re.compile(r"[^;={}\x00-\x1f]+")


def check_odbc(address: str) -> None:
    """Raise unless an address, which others may see, is that of a data source and holds no password."""
    if _PASSWORD.search(_connection_string(address)):
        raise SourceError(
            "a connection string must hold no password, since command lines and logs are read by others: put it into "
            "an environment variable and name that (--dsn-env NAME, dsn_env=...)"
        )


def connect_odbc(address: str) -> Any:
    """A connection to a data source, by its name or by a connection string."""
    driver = optional("arrow_odbc", extra="odbc", package="arrow-odbc")
    return driver.connect(_connection_string(address))


def _connection_string(address: str) -> str:
    """What ODBC is given; the address is not quoted in errors, since it may hold a password."""
    given = address[len("odbc:") :]
    if not given.startswith("//"):
        return given
    name = unquote(given[2:])
    if not _NAME.fullmatch(name):
        raise SourceError(
            "odbc:// must be followed by the name of a data source alone (odbc.ini); a connection string stands after "
            "odbc: without slashes"
        )
    return f"DSN={name}"


def odbc_rows(connection: Any, query: str) -> Rows:
    """The rows of a query, in which numerics are texts whose columns are marked so."""
    numeric: set[int] = set()

    def fetched_as(schema: pa.Schema) -> pa.Schema:
        numeric.update(place for place, each in enumerate(schema) if pa.types.is_decimal(each.type))
        return pa.schema([_fetched_as(each) for each in schema])

    reader = connection.read_arrow_batches(
        query=query, batch_size=_BATCH_ROWS, max_bytes_per_batch=_BATCH_BYTES, map_schema=fetched_as
    )
    fields = [
        each.with_metadata({NUMERIC: b""}) if place in numeric else each for place, each in enumerate(reader.schema)
    ]
    marked = pa.schema(fields)
    return list(marked.names), (pa.record_batch(batch.columns, schema=marked) for batch in reader)


def _fetched_as(column: pa.Field) -> pa.Field:
    if pa.types.is_decimal(column.type):  # a driver may make up the digits after the point
        return column.with_type(pa.string())
    return column.with_type(pa.float64()) if pa.types.is_floating(column.type) else column


# Tables in files of SQLite and DuckDB


_LISTED = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
    "duckdb": (
        "SELECT table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' "
        "AND table_schema = current_schema()"
    ),
}
"""How each says which tables it has."""


def open_tables(kind: str, path: Path, reading: Reading) -> OpenedFile:
    """The names of a table's columns, and a function that reads some of them."""

    def rows(stack: ExitStack, query: str) -> Rows:
        if kind == "duckdb":
            return duckdb_rows(stack.enter_context(closing(connect_duckdb(path))), query)
        return dbapi_rows(stack.enter_context(closing(connect_sqlite(path))), stack, query)

    with ExitStack() as stack:
        _, found = rows(stack, _LISTED[kind])
        table = _table(path, [name for batch in found for name in batch.column(0).to_pylist()], reading.table)
        names, _ = rows(stack, f"SELECT * FROM {quoted(table)} LIMIT 0")

    def read(chosen: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        with ExitStack() as stack:
            # One statement sees one state of the file, whatever others write meanwhile.
            _, batches = rows(stack, f"SELECT {', '.join(map(quoted, chosen))} FROM {quoted(table)}")
            for batch in batches:
                yield batch.rename_columns(list(chosen)), 0

    return names, read


def _table(path: Path, names: Sequence[str], wanted: str | None) -> str:
    if wanted is not None and wanted not in names:
        raise SourceError(f"{str(path)!r} has no table {wanted!r} among its {len(names)}; views are not read")
    if wanted is None and len(names) != 1:
        raise SourceError(f"{str(path)!r} has {len(names)} tables: say {how_to_say('table')}")
    return names[0] if wanted is None else wanted
