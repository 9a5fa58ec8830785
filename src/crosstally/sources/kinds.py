"""Dispatch on what a user gave as rows: its kind of source (decided here only), and its rows encoded and counted."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from crosstally.errors import SourceError
from crosstally.measurements import ExactTable
from crosstally.query.unit_table import CountedTable
from crosstally.schema import Schema
from crosstally.sources.counts import BATCH_ROWS, CodedRows, EncodedRows, asked_tables, counted
from crosstally.sources.files import Files
from crosstally.sources.guard import guarded
from crosstally.sources.parts import RowsOfShare, Share
from crosstally.sources.reading_options import NO_OPTIONS, Reading
from crosstally.sources.source import RowEncoding, RowStream, Scan, Source, YieldsBatches, chosen_columns
from crosstally.sources.spark import SparkTable, is_frame
from crosstally.sources.table_objects import TableRows, is_table


def source_of(rows: Any) -> Source:
    """The source that a user means by rows.

    Args:
        rows: A path, a folder, a glob, a list of them; a table of pandas, Polars, DuckDB, PyArrow or Spark; a
            ``Database``, a ``SparkTable``, ``Parts``; any object with the methods of ``YieldsBatches``; or a source.
    """
    if isinstance(rows, Source):  # a Database, a SparkTable or Parts are one
        return rows
    if isinstance(rows, str | os.PathLike):
        return Files(rows)
    if isinstance(rows, Sequence) and rows and all(isinstance(each, str | os.PathLike) for each in rows):
        return Files(rows)
    if is_frame(rows):  # it has an Arrow interface too, which would load all rows here at once
        return SparkTable(rows)
    if is_table(rows):
        return TableRows(rows)
    if callable(getattr(rows, "names", None)) and callable(getattr(rows, "batches", None)):
        return YieldedRows(rows)
    return NoRows(rows)


class NoRows(Source):
    """An argument that is not a source: an error says so when rows are needed, which an old key never does."""

    is_read_again = True

    def __init__(self, given: object) -> None:
        self._kind = type(given).__name__

    def streams(self, scan: Scan | None = None) -> NoReturn:  # noqa: ARG002
        """Raise: there are no rows."""
        raise SourceError(
            "rows must be a path, a folder, a glob, a list of them, or a table of pandas, Polars, DuckDB or PyArrow, "
            f"got {self._kind}"
        )

    def shared(self, number: int, of: int, *, by_unit: bool) -> NoReturn:  # noqa: ARG002
        """Raise: there are no rows."""
        self.streams()


class YieldedRows(Source):
    """Rows of an object of the user's own, which yields batches."""

    def __init__(self, rows: YieldsBatches) -> None:
        self._rows = rows
        self._name = f"the {type(rows).__name__}"

    def streams(self, scan: Scan) -> Generator[RowStream]:
        """All batches as one stream."""
        names = guarded(self._name, lambda: list(map(str, self._rows.names())), otherwise="its names cannot be had")
        yield RowStream(self._name, None, self._read(chosen_columns(self._name, names, scan.columns)))

    def _read(self, chosen: Sequence[str]) -> Generator[tuple[pa.RecordBatch, int]]:
        for batch in self._rows.batches(chosen):
            if not isinstance(batch, pa.RecordBatch):
                raise SourceError(f"{self._name} must yield Arrow record batches, got {type(batch).__name__}")
            batch.validate(full=True)  # lengths and indices are its own, and a wrong one would read foreign memory
            yield batch.select(chosen), 0


# Rows read, encoded and counted


def count(
    rows: Any,
    schema: Schema,
    tables: Sequence[CountedTable | Sequence[str]],
    *,
    reading: Reading = NO_OPTIONS,
    refuse_unclear: bool = True,
    progress: Callable[[int], None] | None = None,
    batch_rows: int = BATCH_ROWS,
) -> tuple[ExactTable, ...]:
    """The exact counts of each table, in order; the table over no attributes is the number of rows.

    All tables are of the same rows: a row that one attribute's rule drops is in none of them. Where the schema has a
    unit, each unit counts with at most ``max_rows`` of its rows, and rows without an id are left out. Where it has a
    reading, columns are found and values are read by it; the tables hold the schema without it.

    Args:
        rows: Whatever ``source_of`` knows.
        schema: The attributes and the unit of protection.
        tables: Names of attributes, or cells, which may count groups of values.
        reading: How the rows are written, where the schema's reading does not say it.
        refuse_unclear: Whether numbers with two readings are refused; otherwise they have a decimal point.
        progress: Called with the number of bytes read so far of all files; never for a table in memory.
        batch_rows: How many rows are counted at once.
    """
    source, asked = source_of(rows), asked_tables(schema.public(), tables)
    encoding = RowEncoding.of(schema, reading, tables=asked, refuse_unclear=refuse_unclear, batch_rows=batch_rows)
    by_itself = source.count(encoding, asked)
    if by_itself is not None:
        return by_itself
    return _counted(encoding.rows(source, progress=progress, may_group=True), encoding, asked)


def count_share(
    rows: Any,
    schema: Schema,
    tables: Sequence[CountedTable | Sequence[str]],
    share: Share,
    *,
    reading: Reading = NO_OPTIONS,
    progress: Callable[[int], None] | None = None,
    batch_rows: int = BATCH_ROWS,
) -> tuple[tuple[ExactTable, ...], str]:
    """The exact counts of one share of the rows, and a digest of what must be the same for all shares.

    The counts of all shares add up to those of ``count``, whose arguments these are.
    """
    asked = asked_tables(schema.public(), tables)
    encoding = RowEncoding.of(schema, reading, tables=asked, batch_rows=batch_rows)
    source, by, files = source_of(rows).shared(share.number, share.of, by_unit=schema.unit is not None)
    ours = RowsOfShare(share, by, files)
    coded = encoding.rows(source, progress=progress, chosen=partial(ours.chosen, ids=encoding.ids))
    return _counted(coded, encoding, asked), ours.digest


def _counted(
    rows: Generator[CodedRows], encoding: RowEncoding, tables: Sequence[CountedTable]
) -> tuple[ExactTable, ...]:
    with closing(rows):
        return counted(rows, encoding.coded_columns, encoding.schema.public(), tables, encoding.batch_rows)


def encode_rows(
    rows: Any,
    schema: Schema,
    *,
    reading: Reading = NO_OPTIONS,
    work_dir: str | Path | None = None,
    progress: Callable[[int], None] | None = None,
    batch_rows: int = BATCH_ROWS,
) -> EncodedRows:
    """The rows as they count, all attributes of the schema, kept to be counted as often as stages ask.

    ``work_dir`` is where codes go that do not fit into memory; the other arguments are those of ``count``.
    """
    source, encoding = source_of(rows), RowEncoding.of(schema, reading, batch_rows=batch_rows)
    kept = source.keep(encoding)
    if kept is not None:
        return kept
    with closing(encoding.rows(source, progress=progress, may_group=True)) as coded:
        return EncodedRows(coded, schema.public(), work_dir=work_dir, batch_rows=batch_rows)
