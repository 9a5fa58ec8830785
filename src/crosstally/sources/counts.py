"""Rows into exact counts of many tables: in one pass, or encoded once and counted as often as stages ask."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import pyarrow as pa

from crosstally.errors import CrosstallyError, TooManyCellsError
from crosstally.measurements import ExactTable
from crosstally.query.queries import MAX_CELLS, Cells, Product
from crosstally.schema import Attribute, Outside, Schema
from crosstally.sources.codes.kept import KeptCodes
from crosstally.sources.columns import Columns, Counting
from crosstally.sources.reading import NO_OPTIONS, Reading
from crosstally.sources.row_cells import kept_rows
from crosstally.sources.shares import RowsOfShare, Share
from crosstally.sources.source import BATCH_ROWS, KeptRows, Source
from crosstally.sources.tally import tallied

__all__ = ["EncodedRows", "count", "count_share"]


def count(
    source: Source,
    schema: Schema,
    tables: Sequence[Product | Sequence[str]],
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
        source: The rows, of any kind (``sources.count`` takes whatever ``source_of`` knows).
        schema: The attributes and the unit of protection.
        tables: Names of attributes, or cells, which may count groups of values.
        reading: How the rows are written, where the schema's reading does not say it.
        refuse_unclear: Whether numbers that may be meant in two ways are refused; else they have a decimal point.
        progress: Called with the number of bytes read so far of all files; never for a table in memory.
        batch_rows: How many rows are counted at once.
    """
    columns, asked, needed = _prepared(schema, tables)
    by_itself = source.count(
        Counting(
            columns=columns,
            attributes=tuple(needed),
            reading=columns.written(reading),
            refuse_unclear=refuse_unclear,
            batch_rows=batch_rows,
        ),
        asked,
    )
    if by_itself is not None:
        return by_itself
    read = columns.batches(
        source, reading=reading, refuse_unclear=refuse_unclear, progress=progress, batch_rows=batch_rows, may_group=True
    )
    with closing(read):
        return _counted(read, columns, needed, asked, batch_rows)


def count_share(
    source: Source,
    schema: Schema,
    tables: Sequence[Product | Sequence[str]],
    share: Share,
    *,
    reading: Reading = NO_OPTIONS,
    progress: Callable[[int], None] | None = None,
    batch_rows: int = BATCH_ROWS,
) -> tuple[tuple[ExactTable, ...], str]:
    """The exact counts of one share of the rows, and a digest of what all shares must have seen alike.

    The counts of all shares add up to those of ``count``, whose arguments these are.
    """
    columns, asked, needed = _prepared(schema, tables)
    ours = RowsOfShare(source, columns, share)
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
        source: Source,
        schema: Schema,
        *,
        reading: Reading = NO_OPTIONS,
        work_dir: str | Path | None = None,
        progress: Callable[[int], None] | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        """Read the rows of a source, all attributes of the schema; arguments as for ``count``.

        ``work_dir`` is where codes go that do not fit into memory (``KeptCodes``).
        """
        columns, schema = Columns.of(schema), schema.public()
        self._schema = schema
        written = columns.written(reading)
        counting = Counting(columns=columns, attributes=schema.attributes, reading=written, batch_rows=batch_rows)
        self._kept = source.keep(counting) or _KeptHere(source, counting, work_dir=work_dir, progress=progress)

    def close(self) -> None:
        """Let go of the rows."""
        self._kept.close()

    def __reduce__(self) -> NoReturn:
        raise CrosstallyError("encoded rows are confidential and cannot be pickled or copied to another process")

    def count(self, tables: Sequence[Product | Sequence[str]]) -> tuple[ExactTable, ...]:
        """The exact counts of each table, in order, as ``count`` gives them for the same rows."""
        return self._kept.count(_asked(self._schema, tables))


class _KeptHere(KeptRows):
    """The rows of a source encoded in memory and, where they do not fit, in a file; confidential."""

    def __init__(
        self,
        source: Source,
        counting: Counting,
        *,
        work_dir: str | Path | None,
        progress: Callable[[int], None] | None,
    ) -> None:
        columns, size = counting.columns, counting.batch_rows
        self._schema, self._batch_rows = columns.schema.public(), size
        read = columns.batches(source, reading=counting.reading, progress=progress, batch_rows=size, may_group=True)
        self._codes = KeptCodes(self._schema.shape, work_dir=work_dir)
        try:
            with closing(read), closing(kept_rows(read, columns, counting.attributes, size)) as kept:
                for rows, cells, weights in kept:
                    self._codes.add(rows, cells, weights)
        except BaseException:
            self.close()
            raise

    def count(self, tables: Sequence[Product]) -> tuple[ExactTable, ...]:
        return tallied(self._codes.batches(), self._schema.names, self._schema, tables, self._batch_rows)

    def close(self) -> None:
        self._codes.close()


def _asked(schema: Schema, tables: Sequence[Product | Sequence[str]]) -> list[Product]:
    """The tables as queries, once they are known to fit into memory together."""
    asked = [table if isinstance(table, Product) else Cells(table) for table in tables]
    cells = sum(math.prod(table.shape(schema)) for table in asked)
    if cells > MAX_CELLS:
        raise TooManyCellsError(f"at most {MAX_CELLS:,} cells can be counted at once, got {cells:,}; count in parts")
    return asked
