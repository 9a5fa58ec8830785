"""Rows into exact counts of many tables: in one pass, or encoded once and counted as often as stages ask."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from crosstally.errors import CrosstallyError, TooManyCellsError
from crosstally.measurements import ExactTable
from crosstally.query.queries import MAX_CELLS, Cells, Product
from crosstally.schema import Attribute, Outside, Schema
from crosstally.sources.codes.kept import KeptCodes
from crosstally.sources.columns import Columns
from crosstally.sources.reading import Reading
from crosstally.sources.row_cells import kept_rows
from crosstally.sources.rows import AS_IT_IS, BATCH_ROWS
from crosstally.sources.shares import RowsOfShare, Share
from crosstally.sources.spark import is_spark
from crosstally.sources.spark_counts import KeptInSpark, count_in_spark
from crosstally.sources.tally import tallied

__all__ = ["EncodedRows", "count", "count_share"]


def count(
    rows: Any,
    schema: Schema,
    tables: Sequence[Product | Sequence[str]],
    *,
    reading: Reading = AS_IT_IS,
    refuse_unclear: bool = True,
    progress: Callable[[int], None] | None = None,
    batch_rows: int = BATCH_ROWS,
) -> tuple[ExactTable, ...]:
    """The exact counts of each table, in order; the table over no attributes is the number of rows.

    All tables are of the same rows: a row that one attribute's rule drops is in none of them. Where the schema has a
    unit, each unit counts with at most ``max_rows`` of its rows, and rows without an id are left out. Where it has a
    reading, columns are found and values are read by it; the tables hold the schema without it.

    Args:
        rows: A path, a folder, a glob, a list of them, a table of pandas, Polars, DuckDB, PyArrow or
            Spark, or a query.
        schema: The attributes and the unit of protection.
        tables: Names of attributes, or cells, which may count groups of values.
        reading: How the rows are written, where the schema's reading does not say it.
        refuse_unclear: Whether numbers that may be meant in two ways are refused; else they have a decimal point.
        progress: Called with the number of bytes read so far of all files; never for a table in memory.
        batch_rows: How many rows are counted at once.
    """
    columns, asked, needed = _prepared(schema, tables)
    if is_spark(rows):
        return count_in_spark(
            rows, columns, needed, asked, reading=reading, refuse_unclear=refuse_unclear, batch_rows=batch_rows
        )
    read = columns.batches(
        rows, reading=reading, refuse_unclear=refuse_unclear, progress=progress, batch_rows=batch_rows, may_group=True
    )
    with closing(read):
        return _counted(read, columns, needed, asked, batch_rows)


def count_share(
    rows: Any,
    schema: Schema,
    tables: Sequence[Product | Sequence[str]],
    share: Share,
    *,
    reading: Reading = AS_IT_IS,
    progress: Callable[[int], None] | None = None,
    batch_rows: int = BATCH_ROWS,
) -> tuple[tuple[ExactTable, ...], str]:
    """The exact counts of one share of the rows, and a digest of what all shares must have seen alike.

    The counts of all shares add up to those of ``count``, whose arguments these are.
    """
    columns, asked, needed = _prepared(schema, tables)
    ours = RowsOfShare(rows, columns, share)
    read = columns.batches(ours.source, reading=reading, progress=progress, batch_rows=batch_rows)
    with closing(read):
        return _counted(ours.chosen(read), columns, needed, asked, batch_rows), ours.digest


def _prepared(
    schema: Schema, tables: Sequence[Product | Sequence[str]]
) -> tuple[Columns, list[Product], list[Attribute]]:
    """The columns of a schema, the tables as queries, and the attributes whose cells must be known to count them."""
    columns, schema = Columns.of(schema), schema.public()
    asked = _asked(schema, tables)
    used = {name for table in asked for name in table.attributes}
    needed = [
        attribute
        for attribute in schema.attributes
        if schema.unit is not None or attribute.name in used or attribute.outside is not Outside.OTHER
    ]
    return columns, asked, needed


def _counted(
    read: Iterable[pa.RecordBatch],
    columns: Columns,
    needed: Sequence[Attribute],
    asked: Sequence[Product],
    batch_rows: int,
) -> tuple[ExactTable, ...]:
    names = [attribute.name for attribute in needed]
    with closing(kept_rows(read, columns, needed, batch_rows)) as kept:
        return tallied(kept, names, columns.schema.public(), asked, batch_rows)


class EncodedRows:
    """The rows of a source as they count, read once and encoded; confidential.

    Every stage of a plan counts from these: a source that has other rows the second time, or none, is not asked again.
    """

    def __init__(
        self,
        rows: Any,
        schema: Schema,
        *,
        reading: Reading = AS_IT_IS,
        work_dir: str | Path | None = None,
        progress: Callable[[int], None] | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        """Read the rows of a source, all attributes of the schema; arguments as for ``count``.

        ``work_dir`` is where codes go that do not fit into memory (``KeptCodes``).
        """
        columns, schema = Columns.of(schema), schema.public()
        self._schema, self._batch_rows = schema, batch_rows
        self._in_spark: KeptInSpark | None = None
        if is_spark(rows):
            self._in_spark = KeptInSpark(rows, columns, reading=reading, batch_rows=batch_rows)
            return
        read = columns.batches(rows, reading=reading, progress=progress, batch_rows=batch_rows, may_group=True)
        self._codes = KeptCodes(schema.shape, work_dir=work_dir)
        try:
            with closing(read), closing(kept_rows(read, columns, schema.attributes, batch_rows)) as kept:
                for size, cells, weights in kept:
                    self._codes.add(size, cells, weights)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the rows."""
        if self._in_spark is None:
            self._codes.close()
        else:
            self._in_spark.close()

    def __reduce__(self) -> NoReturn:
        raise CrosstallyError("encoded rows are confidential and cannot be pickled or copied to another process")

    def count(self, tables: Sequence[Product | Sequence[str]]) -> tuple[ExactTable, ...]:
        """The exact counts of each table, in order, as ``count`` gives them for the same rows."""
        asked = _asked(self._schema, tables)
        if self._in_spark is not None:
            return self._in_spark.count(asked)
        return tallied(self._codes.batches(), self._schema.names, self._schema, asked, self._batch_rows)


def _asked(schema: Schema, tables: Sequence[Product | Sequence[str]]) -> list[Product]:
    """The tables as queries, once they are known to fit into memory together."""
    asked = [table if isinstance(table, Product) else Cells(table) for table in tables]
    cells = sum(math.prod(table.shape(schema)) for table in asked)
    if cells > MAX_CELLS:
        raise TooManyCellsError(f"at most {MAX_CELLS:,} cells can be counted at once, got {cells:,}; count in parts")
    return asked
