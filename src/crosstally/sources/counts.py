"""Rows into exact counts of many tables, in one pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.errors import TooManyCellsError
from crosstally.questions.queries import MAX_CELLS
from crosstally.schema import Outside, Schema
from crosstally.sources.codes.encode import Encoder
from crosstally.sources.numbers import numeric_columns
from crosstally.sources.reading import Reading
from crosstally.sources.rows import AS_IT_IS, BATCH_ROWS, batches
from crosstally.sources.tally import Tally
from crosstally.sources.units import Bound
from crosstally.tables import ExactTable

__all__ = ["count"]


def count(
    rows: Any,
    schema: Schema,
    tables: Sequence[tuple[str, ...]],
    *,
    reading: Reading = AS_IT_IS,
    refuse_unclear: bool = True,
    progress: Callable[[int], None] | None = None,
    batch_rows: int = BATCH_ROWS,
) -> tuple[ExactTable, ...]:
    """The exact counts of each table, in order; the table over no attributes is the number of rows.

    All tables are of the same rows: a row that one attribute's rule drops is in none of them. Where the schema has a
    unit, each unit counts with at most ``max_rows`` of its rows, and rows without an id are left out.

    Args:
        rows: A path, a folder, a glob, a list of them, or a table of pandas, Polars, DuckDB or PyArrow.
        schema: The attributes and the unit of protection.
        tables: Tuples of attribute names.
        reading: How the rows are written.
        refuse_unclear: Whether numbers that may be meant in two ways are refused; else they have a decimal point.
        progress: Called with the number of bytes read so far of all files; never for a table in memory.
        batch_rows: How many rows are counted at once.
    """
    _check_cells(schema, tables)
    tally = Tally(schema, tables, batch_rows)
    bound = None if schema.unit is None else Bound(schema.unit)
    used = {name for table in tables for name in table}
    encoders = [
        Encoder.of(attribute)
        for attribute in schema.attributes
        if bound is not None or attribute.name in used or attribute.outside is not Outside.OTHER
    ]
    names = [encoder.attribute.name for encoder in encoders]
    numeric = numeric_columns(schema) if refuse_unclear else ()
    for batch in batches(
        rows,
        [*schema.names, *_ids(schema)],
        reading=reading,
        numeric=numeric,
        verbatim=_ids(schema),
        batch_rows=batch_rows,
        progress=progress,
    ):
        kept, cells = _cells(batch, encoders)
        if bound is not None:
            bound.add(batch.column(bound.unit.id), kept, cells)
        else:
            size, chosen = _chosen(kept, cells, batch.num_rows)
            tally.add(size, dict(zip(names, chosen, strict=True)))
    if bound is not None:
        for size, cells in bound.kept(batch_rows):
            tally.add(size, dict(zip(names, cells, strict=True)))
    return tally.tables()


def _check_cells(schema: Schema, tables: Sequence[tuple[str, ...]]) -> None:
    cells = sum(math.prod(schema.sizes(table)) for table in tables)
    if cells > MAX_CELLS:
        raise TooManyCellsError(f"at most {MAX_CELLS:,} cells can be counted at once, got {cells:,}")


def _ids(schema: Schema) -> tuple[str, ...]:
    return () if schema.unit is None else (schema.unit.id,)


def _cells(batch: pa.RecordBatch, encoders: Sequence[Encoder]) -> tuple[NDArray[np.bool_] | None, list[NDArray[Any]]]:
    """Which rows no rule drops (None: all of them), and the cells of each attribute."""
    dropped: NDArray[np.bool_] | None = None
    cells = []
    for encoder in encoders:
        codes, lost = encoder.cells(batch)
        cells.append(codes)
        if lost is not None:
            dropped = lost if dropped is None else dropped | lost
    return None if dropped is None else ~dropped, cells


def _chosen(
    kept: NDArray[np.bool_] | None, cells: Sequence[NDArray[Any]], rows: int
) -> tuple[int, Sequence[NDArray[Any]]]:
    if kept is None:
        return rows, cells
    return int(kept.sum()), [codes[kept] for codes in cells]
