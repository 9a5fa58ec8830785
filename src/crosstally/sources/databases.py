"""Rows that one SELECT finds in a database, each batch once: PostgreSQL, SQLite, DuckDB, ODBC, or a connection given.

What a driver raises may quote a person's values. It becomes a line of our own, with the SQLSTATE.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from crosstally.checks import optional
from crosstally.errors import SourceError
from crosstally.sources.drivers import (
    NUMERIC,
    Rows,
    adbc_rows,
    check_odbc,
    closed_by,
    connect_duckdb,
    connect_odbc,
    connect_sqlite,
    dbapi_rows,
    duckdb_rows,
    odbc_rows,
    quoted,
    reason_of,
)
from crosstally.sources.guard import guarded
from crosstally.sources.one_select import CheckedQuery, check_columns, checked_query
from crosstally.sources.source import ANY_UNIT, WEIGHT, AnyUnit, RowStream, Scan, Source, chosen_columns

# Rows that a database groups before they travel: equal rows once, with how many there are. A group must hold rows of
# equal cells, whatever a column's collation says. So rows are grouped only where the database's equality implies equal
# canonical texts: by whole numbers, booleans, dates, and texts compared byte by byte. Under a collation that overlooks
# case, one person's 'ABC' could else move a thousand others out of the cell of 'abc'.


_SAMPLE = 1_000_000
"""Of so many rows it is seen whether grouping is worth its while."""
_INTEGERS = {"SMALLINT", "INTEGER", "BIGINT", "TINYINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
_AS_THEY_ARE = _INTEGERS | {"BOOLEAN", "DATE"}
_TEXTS = {"TEXT", "CHARACTER VARYING", "VARCHAR"}  # not CHARACTER, whose blanks a cast takes away, nor an enumeration


def all_of(query: str) -> str:
    """The rows of a query once more, to which a clause may be added."""
    return f"SELECT * FROM {_inside(query)}"


def types_query(query: str, names: Sequence[str]) -> str:
    """PostgreSQL's own names of the types of a query's columns, in one row."""
    kinds = ", ".join(f"CAST(pg_typeof({quoted(name)}) AS text)" for name in names)
    return f"SELECT {kinds} FROM (SELECT 1) AS crosstally_one LEFT JOIN {_inside(query)} ON false"


def sample_query(query: str, names: Sequence[str], kinds: Sequence[str] | None) -> str | None:
    """Whether the first rows are mostly the same: how many there are, and how many different ones."""
    grouped = grouped_query(f"{all_of(query)} LIMIT {_SAMPLE}", names, kinds)
    if grouped is None:
        return None
    weight = quoted(WEIGHT)
    return f"SELECT CAST(COALESCE(SUM({weight}), 0) AS bigint), COUNT(*) FROM {_inside(grouped)}"


def grouped_query(query: str, names: Sequence[str], kinds: Sequence[str] | None) -> str | None:
    """The query whose rows are the different ones, with their number; None where equality may not be of texts.

    ``kinds`` are the types of the columns; None stands for SQLite, where every value has its own.
    """
    if len({name.lower() for name in names}) < len(names):
        return None  # to some databases they are one
    if kinds is None:
        chosen = [quoted(name) for name in names]
        keys = [key for name in chosen for key in (f"typeof({name})", f"{name} COLLATE BINARY")]
    else:
        keys = [_key(quoted(name), kind.upper()) for name, kind in zip(names, kinds, strict=True)]
        chosen = [f"{key} AS {quoted(name)}" for key, name in zip(keys, names, strict=True)]
    if not all(keys):
        return None
    return f"SELECT {', '.join(chosen)}, COUNT(*) AS {quoted(WEIGHT)} FROM {_inside(query)} GROUP BY {', '.join(keys)}"


def _key(name: str, kind: str) -> str:
    if kind in _AS_THEY_ARE:
        return name
    return f'CAST({name} AS text) COLLATE "C"' if kind in _TEXTS else ""


def _inside(query: str) -> str:
    return f"(\n{query}\n) AS crosstally_query"


_SOURCE = "the database"
_DECIMAL = pa.decimal256(76, 38)
"""Holds a numeric of at most 38 digits on each side of the point exactly."""
_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
_FAILED = "the query failed"
_ENDED = "the connection ended, or the query failed, before all rows had come"
_NOT_OPENED = "it cannot be opened; see that it runs, that host, port and name are right, and that you may log in"
_SCHEMES = {"postgresql": "postgres", "postgres": "postgres", "sqlite": "sqlite", "duckdb": "duckdb"}
_DIALECTS = {"adbc_driver_postgresql": "postgres", "psycopg": "postgres", "psycopg2": "postgres", "_duckdb": "duckdb"}
_DIALECTS |= {"duckdb": "duckdb", "sqlite3": "sqlite", "adbc_driver_sqlite": "sqlite", "postgresql": "postgres"}

Execute = Callable[[str], Rows]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Database(Source):
    """The rows of a query as a source: one SELECT, run in one snapshot of the database when the rows are counted.

    Give exactly one of ``url``, ``dsn_env`` and ``connection``. No password is held here: the
    URL has none, and the variable is read when the database is opened.

    Args:
        query: One SELECT; each of its rows must come from one row of a table.
        url: ``postgresql://host/name``, ``sqlite:///people.db`` or ``duckdb:///people.duckdb`` (four slashes before a
            path from the root). What PostgreSQL's own variables and files say is used too: PGSERVICE, PGPASSFILE.
            ``odbc://name`` is a data source of ODBC, ``odbc:Driver=...;Server=...`` a connection string.
        dsn_env: The name of an environment variable that holds such a URL, with a password if needed.
        connection: A connection of ADBC or of Python's DB-API. It stays open, and you control its transaction.
        public_tables: Tables of the query that are public and may be joined: people who appear only in them are not
            protected, and the release's statement says so. Other tables may be joined by the id of the schema's unit.
        rows_are_units: You assert that adding or removing a person changes one row of the result, or, if the schema has
            a unit, that unit's rows alone, although the query has LIMIT, DISTINCT, GROUP BY, a window function, a set
            operation, a random function or the like. The release's statement records this assertion.

    >>> Database(query="SELECT sex, age FROM people", url="postgresql://db.example/people")
    Database(postgres)
    """

    query: str
    url: str | None = field(default=None, repr=False)
    dsn_env: str | None = None
    connection: Any = field(default=None, repr=False)
    public_tables: Sequence[str] = ()
    rows_are_units: bool = False

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.url, self.dsn_env, self.connection)) != 1:
            raise SourceError("say in one way where the database is: a URL, a variable or a connection")
        if not isinstance(self.query, str):
            raise SourceError(f"query must be a text, got {type(self.query).__name__}")
        if self.url is not None:
            _check_url(self.url)
        if self.connection is not None and not hasattr(self.connection, "cursor"):
            raise SourceError(f"connection must be one of ADBC or DB-API, got {type(self.connection).__name__}")
        if isinstance(self.public_tables, str) or not all(isinstance(each, str) for each in self.public_tables):
            raise SourceError("public_tables must be a list of names")
        object.__setattr__(self, "public_tables", tuple(self.public_tables))
        if self.public_tables and self.rows_are_units:
            raise SourceError("say either which tables are public, or that rows are units, which is about all tables")
        if self.dsn_env is None:
            self._checked(ANY_UNIT)

    def streams(self, scan: Scan) -> Iterator[RowStream]:
        """The query as one stream, of equal rows once where that is allowed and saves time."""
        yield RowStream(_SOURCE, None, self._read(scan))

    def _read(self, scan: Scan) -> Generator[tuple[pa.RecordBatch, int]]:
        choose = partial(chosen_columns, "the query", needed=scan.columns)
        with read_query(self, choose if scan.may_group else None, unit=scan.unit) as (names, found):
            chosen = [*choose([name for name in names if name != WEIGHT]), *(name for name in names if name == WEIGHT)]
            for batch in found:
                yield _plain_columns(batch.select(chosen)), 0

    def joins(self, unit: str | None) -> Mapping[str, str]:
        """How each table was joined that the query joins."""
        return self._checked(unit).joins

    def leaves_rows_out(self, unit: str | None) -> bool:
        """Whether the query may leave rows of its tables out."""
        return self._checked(unit).filters

    def _checked(self, unit: str | AnyUnit | None) -> CheckedQuery:
        asserted, public = self.rows_are_units, self.public_tables
        return checked_query(self.query, self._dialect(), rows_are_units=asserted, public_tables=public, unit=unit)

    def __repr__(self) -> str:
        if self.connection is not None:
            return f"Database({self._dialect() or type(self.connection).__name__})"
        return f"Database({self.dsn_env or self._dialect() or 'odbc'})"

    def _dialect(self) -> str | None:
        if self.connection is not None:
            return _dialect_of(self.connection)
        if _is_odbc(self._address()):  # whatever its driver speaks: plain SQL, and nothing is grouped
            return None
        return _SCHEMES.get(self._address().partition(":")[0].lower(), "postgres")

    def _address(self) -> str:
        if self.url is not None:
            return self.url
        address = os.environ.get(self.dsn_env or "", "")
        if not address:
            raise SourceError(f"the environment variable {self.dsn_env!r} is not set; it must hold a database's URL")
        return address


@contextmanager
def read_query(
    database: Database,
    chosen: Callable[[list[str]], Sequence[str]] | None = None,
    *,
    unit: str | AnyUnit | None = None,
) -> Iterator[Rows]:
    """The names of the query's columns, and its batches, once; the connection is closed afterwards.

    Where ``chosen`` says which of the columns are needed, equal rows may come once, with a column of their number.
    ``unit`` is the column of the unit's id, by which tables may be joined.
    """
    checked = database._checked(unit)
    query = checked.text
    with ExitStack() as stack:
        execute = partial(_executed, _guarded(partial(_connected, database, stack), _NOT_OPENED))
        _check_in_database(checked, database._dialect(), execute)
        grouped = None if chosen is None else _grouped(query, database._dialect(), execute, chosen)
        yield execute(grouped or query)


def _executed(execute: Execute, query: str) -> Rows:
    """The names of a query's columns, and its batches; what a driver raises of either becomes a line of our own."""
    names, found = _guarded(partial(execute, query), _FAILED)
    return names, iter(partial(_guarded, partial(next, found, None), _ENDED), None)


def _names(execute: Execute, query: str) -> list[str]:
    """The names of the columns of a query without rows."""
    names, found = execute(query)
    deque(found, maxlen=0)
    return names


def _check_in_database(checked: CheckedQuery, dialect: str | None, execute: Execute) -> None:
    """Ask the database what the query alone does not say: its names of columns, and what is unique in public tables."""
    for asked in checked.columns:
        check_columns(asked, _names(execute, asked.query), dialect)
    for table, repeats in checked.repeats.items():
        if _only_row(execute, repeats)[0] != 0:
            raise SourceError(
                f"several rows of the public table {table!r} belong to one row of the query, so that one person would "
                "count several times: join by columns that are unique in it, or give the schema a unit"
            )


def _grouped(
    query: str, dialect: str | None, execute: Execute, chosen: Callable[[list[str]], Sequence[str]]
) -> str | None:
    """The query by which the database groups equal rows, where that is safe and saves nine rows in ten."""
    if dialect is None:
        return None
    needed = list(chosen(_names(execute, f"{all_of(query)} LIMIT 0")))
    kinds = None if dialect == "sqlite" else _types(query, dialect, execute, needed)
    sampling = sample_query(query, needed, kinds)
    if sampling is None:
        return None
    rows, different = _only_row(execute, sampling)
    return grouped_query(query, needed, kinds) if 10 * different <= rows else None


def _types(query: str, dialect: str, execute: Execute, names: Sequence[str]) -> list[str]:
    if dialect == "postgres":
        return [str(kind) for kind in _only_row(execute, types_query(query, names))]
    _, described = execute(f"DESCRIBE {all_of(query)}")
    by_name = {row["column_name"]: row["column_type"] for batch in described for row in batch.to_pylist()}
    return [str(by_name.get(name, "")) for name in names]


def _only_row(execute: Execute, query: str) -> list[Any]:
    _, found = execute(query)
    (row,) = [[column[i].as_py() for column in batch.columns] for batch in found for i in range(batch.num_rows)]
    return row


def _plain_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without types of a database's own: numerics become decimals, UUIDs texts."""
    columns = [_plain(each, batch.column(i)) for i, each in enumerate(batch.schema)]
    return pa.record_batch(columns, names=batch.schema.names)


def _guarded(action: Callable[[], Any], otherwise: str) -> Any:
    return guarded(_SOURCE, action, otherwise=otherwise, reason_of=reason_of)


# Where it is


def _check_url(url: str) -> None:
    """Raise unless the URL is of a known kind and without a password; it is not quoted, since it may hold one."""
    if _is_odbc(url):
        check_odbc(url)
        return
    place, _, options = url.partition("?")
    scheme, separator, rest = place.partition("://")
    keys = {unquote(option.partition("=")[0]).strip().lower() for option in options.split("&")}
    if ("@" in rest and ":" in rest.rpartition("@")[0]) or keys & {"password", "sslpassword"}:
        raise SourceError(
            "a URL must hold no password, since command lines and logs are read by others: put the URL into an "
            "environment variable and name it (--dsn-env NAME, dsn_env=...), or use PGPASSFILE or PGSERVICE"
        )
    is_file = _SCHEMES.get(scheme.lower()) in ("sqlite", "duckdb")
    if not separator or scheme.lower() not in _SCHEMES or (is_file and not rest.startswith("/")):
        known = "postgresql://host/name, sqlite:///file, duckdb:///file or odbc://name"
        raise SourceError(f"a database's URL must be {known}; for others give a connection in Python")


def _is_odbc(address: str) -> bool:
    return address.partition(":")[0].lower() == "odbc"


def _dialect_of(connection: Any) -> str | None:
    """The name that sqlglot has for what a connection's database speaks, where that is known."""
    name = type(connection).__module__.partition(".")[0]
    if name not in _DIALECTS and hasattr(connection, "adbc_get_info"):
        name = str(_guarded(connection.adbc_get_info, _NOT_OPENED).get("vendor_name", "")).lower()
    return _DIALECTS.get(name)


# Connections: each gives a function that runs the query


def _connected(database: Database, stack: ExitStack) -> Execute:
    if database.connection is not None:
        return _given(database.connection, stack)
    address = database._address()
    if _is_odbc(address):
        return partial(odbc_rows, closed_by(stack, connect_odbc(address)))
    scheme, _, path = address.partition(":///")
    if scheme.lower() == "sqlite":
        return partial(dbapi_rows, closed_by(stack, connect_sqlite(Path(path))), stack)
    if scheme.lower() == "duckdb":
        return partial(duckdb_rows, closed_by(stack, connect_duckdb(Path(path))))
    return _in_snapshot(address, stack)


def _given(connection: Any, stack: ExitStack) -> Execute:
    if hasattr(connection, "adbc_get_info"):
        return partial(adbc_rows, closed_by(stack, connection.cursor()))
    if _dialect_of(connection) == "duckdb":
        return partial(duckdb_rows, connection)
    return partial(dbapi_rows, connection, stack)


def _in_snapshot(address: str, stack: ExitStack) -> Execute:
    """PostgreSQL, in a transaction that sees one moment and reads alone."""
    optional("adbc_driver_postgresql", extra="databases", package="adbc-driver-postgresql")
    from adbc_driver_postgresql import dbapi

    connection = closed_by(stack, dbapi.connect(address))
    cursor = closed_by(stack, connection.cursor())
    cursor.execute(_SNAPSHOT)
    return partial(adbc_rows, cursor)


# Types of a database's own


def _plain(column: pa.Field, values: pa.Array) -> pa.Array:
    extension = getattr(column.type, "extension_name", None)
    of_database = (column.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
    if extension == "arrow.uuid":
        return pa.array([None if each is None else str(each) for each in values.to_pylist()], pa.large_string())
    if extension == "arrow.opaque" and column.type.type_name == "numeric":
        return _decimals(values.storage)
    if NUMERIC in (column.metadata or {}):
        return _decimals(values)
    if extension is not None or of_database == "money":  # money comes as a number of cents, or of what a locale says
        raise SourceError(
            f"column {column.name!r} has a type of the database's own: cast it in the query, to text or numeric"
        )
    return values


def _decimals(texts: pa.Array) -> pa.Array:
    """Numerics, which come as texts, as decimals: a text may be meant in two ways, a numeric is not."""
    return pc.cast(pc.if_else(pc.equal(texts, "nan"), pa.scalar(None, texts.type), texts), _DECIMAL)
