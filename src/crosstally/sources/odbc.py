"""Rows of a query through ODBC: SQL Server, Oracle, and whatever else has a driver. They are streamed, never grouped.

What a driver says of a column's type may be less than its values hold. So numbers with a point are fetched as texts or
doubles, and a value that is longer than its buffer is an error: nothing is rounded or cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from crosstally.checks import optional
from crosstally.errors import SourceError

__all__ = ["NUMERIC", "check_odbc", "connect_odbc", "odbc_rows"]

NUMERIC = b"crosstally:numeric"
"""In the metadata of a column of texts: it is a numeric in the database."""
_BATCH_ROWS = 65_535  # rows of a batch: limits memory, as in ``rows``. Counts do not depend on it
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


def odbc_rows(connection: Any, query: str) -> tuple[list[str], Iterator[pa.RecordBatch]]:
    """The names of a query's columns and its batches, in which numerics are texts whose columns are marked so."""
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
