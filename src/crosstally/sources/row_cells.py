"""Rows as the cells they count in, after every attribute's rule and the contribution bounds."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.errors import SourceError
from crosstally.schema import Attribute, RowReading, Schema
from crosstally.sources.codes.encode import Encoder, canonical_texts, read_texts
from crosstally.sources.reading_options import Numbers, Reading, numeric_columns
from crosstally.sources.source import BATCH_ROWS, WEIGHT, Scan, Source
from crosstally.sources.units import Bound
from crosstally.threads import in_order

__all__ = ["Columns", "Counting", "Kept", "cells_of", "kept_rows", "unit_column"]


# The columns of a source that a schema needs, by their names there, and how each of them is read.


@dataclass(frozen=True, slots=True)
class Columns:
    """A schema and its reading, ready for batches of rows."""

    schema: Schema
    reading: RowReading

    @classmethod
    def of(cls, schema: Schema) -> Columns:
        """The columns of a schema; raises when its reading was left behind, since values would be misread."""
        if schema.reading is None or isinstance(schema.reading, RowReading):
            return cls(schema, schema.reading or RowReading())
        raise SourceError(
            "the schema does not say how its rows are read: its reading is in the steward's own file; "
            "give the schema from that file too (--schema FILE, or schema=...)"
        )

    @property
    def needed(self) -> list[str]:
        """The names of the columns in the source, each once; two attributes may come from one column."""
        unit = () if self.schema.unit is None else (self.schema.unit.id,)
        return list(dict.fromkeys(self.reading.column(name) for name in (*self.schema.names, *unit)))

    @property
    def _numeric(self) -> list[str]:
        """The columns whose texts are read as numbers, by their names in the source."""
        names = (name for name in numeric_columns(self.schema) if not self._holds_dates(name))
        return list(dict.fromkeys(self.reading.column(name) for name in names))

    @property
    def _verbatim(self) -> list[str]:
        """The columns that stay as they are written: the ids of units, and dates."""
        unit = () if self.schema.unit is None else (self.schema.unit.id,)
        return [
            self.reading.column(name) for name in (*self.schema.names, *unit) if name in unit or self._holds_dates(name)
        ]

    def _holds_dates(self, name: str) -> bool:
        return name in self.reading.columns and self.reading.columns[name].date is not None

    def batches(
        self,
        source: Source,
        *,
        reading: Reading,
        refuse_unclear: bool = True,
        progress: Callable[[int], None] | None = None,
        batch_rows: int = BATCH_ROWS,
        may_group: bool = False,
    ) -> Generator[pa.RecordBatch]:
        """The rows of a source with the columns needed; arguments as for ``count``.

        Where there are units no rows are grouped: each must come with its id.
        """
        may_group = may_group and self.schema.unit is None
        return source.batches(
            Scan(self.needed, self.written(reading), unit_column(self.schema), may_group),
            numeric=self._numeric if refuse_unclear else (),
            verbatim=self._verbatim,
            progress=progress,
            batch_rows=batch_rows,
        )

    def numbers(self, reading: Reading, *, refuse_unclear: bool) -> Numbers:
        """The numbers in the columns of a source that is written as ``reading`` says."""
        return Numbers(reading, self._numeric if refuse_unclear else (), self._verbatim)

    def written(self, given: Reading) -> Reading:
        """How the source is written: as is given, and else as the schema's reading says."""
        try:
            remembered = Reading.from_dict(self.reading.file)
        except SourceError as error:
            raise SourceError(f"the schema's reading: file: {error}") from None
        return given.or_else(remembered)

    def encoder(self, attribute: Attribute) -> Encoder:
        """What makes cells of an attribute's column."""
        rule = self.reading.rule(attribute.name, attribute)
        return Encoder.of(attribute, column=self.reading.column(attribute.name), rule=rule)

    def ids(self, batch: pa.RecordBatch) -> pa.Array:
        """The id of each row's unit as text (large_string); null where there is none."""
        assert self.schema.unit is not None
        name = self.schema.unit.id
        column, rule = batch.column(self.reading.column(name)), self.reading.rule(name)
        return canonical_texts(name, column) if rule is None else read_texts(name, column, rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """What a source must know that counts by itself: columns, attributes whose cells are needed, and how to read.

    ``reading`` is all that is said of how the source is written. ``attributes`` are all where the schema has a unit.
    """

    columns: Columns
    attributes: tuple[Attribute, ...]
    reading: Reading
    refuse_unclear: bool = True
    batch_rows: int = BATCH_ROWS


def unit_column(schema: Schema) -> str | None:
    """The column of the unit's id, where the schema has a unit."""
    if schema.unit is None or not isinstance(schema.reading, RowReading):
        return None if schema.unit is None else schema.unit.id
    return schema.reading.column(schema.unit.id)


Kept = tuple[int, Sequence[NDArray[Any]], NDArray[np.int64] | None]
"""How many rows, the cells of each by attribute, and how many rows each stands for (None: one)."""


def kept_rows(
    read: Iterable[pa.RecordBatch], columns: Columns, attributes: Sequence[Attribute], batch_rows: int
) -> Generator[Kept]:
    """The rows that count, after rules and contribution bounds, a batch at a time: how many, and each one's cells.

    The third are the numbers of rows that each of them stands for, None where that is one. Batches are encoded in
    threads and come in the order in which they were read.
    """
    encoders = list(map(columns.encoder, attributes))
    unit = columns.schema.unit
    if unit is None:
        yield from in_order(partial(_encoded, encoders=encoders), read)
        return
    bound = Bound(unit)
    for ids, kept, cells in in_order(lambda batch: (columns.ids(batch), *cells_of(batch, encoders)), read):
        bound.add(ids, kept, cells)
    for size, cells in bound.kept(batch_rows):
        yield size, cells, None


def _encoded(batch: pa.RecordBatch, encoders: Sequence[Encoder]) -> Kept:
    kept, cells = cells_of(batch, encoders)
    weights = batch.column(WEIGHT).to_numpy() if WEIGHT in batch.schema.names else None
    if kept is None:
        return batch.num_rows, cells, weights
    return int(kept.sum()), [codes[kept] for codes in cells], None if weights is None else weights[kept]


def cells_of(batch: pa.RecordBatch, encoders: Sequence[Encoder]) -> tuple[NDArray[np.bool_] | None, list[NDArray[Any]]]:
    """Which rows no rule drops (None: all of them), and the cells of each attribute."""
    dropped: NDArray[np.bool_] | None = None
    cells = []
    for encoder in encoders:
        codes, lost = encoder.cells(batch)
        cells.append(codes)
        if lost is not None:
            dropped = lost if dropped is None else dropped | lost
    return None if dropped is None else ~dropped, cells
