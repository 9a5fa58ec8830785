"""Rows as the cells they count in, after every attribute's rule and the contribution bounds.

Of each unit the rows with the smallest hashes are kept, at most so many. Which ones depends on nothing but the unit's
own rows: not on their order, on the size of batches, or on other units. Equal rows are kept as often as they occur,
within the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.errors import SourceError
from crosstally.schema import Attribute, RowReading, Schema, Unit
from crosstally.sources.codes.encode import Encoder, canonical_texts, read_texts
from crosstally.sources.reading_options import Numbers, Reading, numeric_columns
from crosstally.sources.source import BATCH_ROWS, WEIGHT, Scan, Source
from crosstally.threads import in_order

__all__ = ["Bound", "Columns", "Counting", "Kept", "cells_of", "id_hashes", "kept_rows", "text_bytes", "unit_column"]

# Limits memory: a million rows wait before they are thinned to the bound. The rows kept do not depend on it.
_PENDING_ROWS = 1 << 20


class Bound:
    """The rows kept so far of each unit; confidential.

    Only as many rows are held as are kept, and as many again before they are thinned out.
    """

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self._ids = pa.array([], pa.large_string())
        self._units = np.empty(0, np.int64)
        self._hashes = np.empty(0, np.uint64)
        self._cells: list[NDArray[Any]] | None = None
        self._pending: list[tuple[pa.Array, NDArray[np.uint64], list[NDArray[Any]]]] = []
        self._pending_rows = 0

    def add(self, ids: pa.Array, kept: NDArray[np.bool_] | None, cells: Sequence[NDArray[Any]]) -> None:
        """Take in a batch: the units' ids, which rows no rule dropped (None: all), and the cells of each attribute."""
        texts = canonical_texts(self.unit.id, ids)
        known = texts.is_valid().to_numpy(zero_copy_only=False)
        wanted = known if kept is None else known & kept
        chosen = [codes[wanted] for codes in cells]
        self._pending.append((texts.filter(pa.array(wanted)), row_hashes(chosen, int(wanted.sum())), chosen))
        self._pending_rows += len(self._pending[-1][1])
        if self._pending_rows > max(_PENDING_ROWS, len(self._units)):
            self._thin()

    def kept(self, batch_rows: int) -> Iterator[tuple[int, list[NDArray[Any]]]]:
        """The rows kept, a batch at a time: how many, and the cells of each attribute."""
        self._thin()
        for start in range(0, len(self._units), batch_rows):
            size = min(batch_rows, len(self._units) - start)
            yield size, [codes[start : start + size] for codes in self._cells or ()]

    def _thin(self) -> None:
        if not self._pending:
            return
        ids, hashes, cells = zip(*self._pending, strict=True)
        # The units known so far come first and differ, so that their numbers stay what they are.
        encoded = pa.concat_arrays([self._ids, *ids]).dictionary_encode()
        new_units = encoded.indices.to_numpy()[len(self._ids) :]
        units = np.concatenate([self._units, new_units])
        all_hashes = np.concatenate([self._hashes, *hashes])
        before = self._cells or [column[:0] for column in cells[0]]
        columns = [np.concatenate(parts) for parts in zip(before, *cells, strict=True)]
        rows = smallest(units, all_hashes, columns, self.unit.max_rows)
        self._ids, self._units, self._hashes = encoded.dictionary, units[rows], all_hashes[rows]
        self._cells = [column[rows] for column in columns]
        self._pending, self._pending_rows = [], 0


def row_hashes(columns: Sequence[NDArray[Any]], rows: int) -> NDArray[np.uint64]:
    """A hash of each row's cells; equal rows have equal hashes, whatever the width of the codes."""
    hashes = np.full(rows, 0x9E3779B97F4A7C15, np.uint64)
    for column in columns:
        hashes ^= column
        hashes *= np.uint64(0xBF58476D1CE4E5B9)
        hashes ^= hashes >> np.uint64(29)
    hashes *= np.uint64(0x94D049BB133111EB)
    hashes ^= hashes >> np.uint64(32)
    return hashes


def smallest(
    units: NDArray[np.int64], hashes: NDArray[np.uint64], columns: Sequence[NDArray[Any]], most: int
) -> NDArray[np.int64]:
    """Which rows to keep: of each unit those with the smallest hashes, and of equal hashes the smallest cells."""
    order = np.lexsort((hashes, units))
    same = (units[order][1:] == units[order][:-1]) & (hashes[order][1:] == hashes[order][:-1])
    if any((column[order][1:] != column[order][:-1])[same].any() for column in columns):
        order = np.lexsort((*reversed(columns), hashes, units))
    sorted_units = units[order]
    begins = np.flatnonzero(np.append(True, sorted_units[1:] != sorted_units[:-1]))
    rank = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
    return order[rank < most]


# Units that are spread over tasks: all rows of one go to the same


def id_hashes(ids: pa.Array) -> NDArray[np.uint64]:
    """A hash of each id, given as canonical texts (large_string) without nulls: equal texts have equal hashes.

    It depends on the bytes of the text alone: not on the machine, the process or the other ids.
    """
    offsets, data = text_bytes(ids)
    lengths = np.diff(offsets)
    powers = np.cumprod(np.full(lengths.max(initial=0), 0xBF58476D1CE4E5B9, np.uint64))
    terms = (data.astype(np.uint64) + np.uint64(1)) * powers[np.arange(len(data)) - np.repeat(offsets[:-1], lengths)]
    # The sum over each text's bytes; sums over all that comes before wrap around, and so do their differences.
    sums = np.append(np.uint64(0), np.cumsum(terms, dtype=np.uint64))
    hashes: NDArray[np.uint64] = sums[offsets[1:]] - sums[offsets[:-1]]
    hashes ^= hashes >> np.uint64(31)
    hashes *= np.uint64(0x94D049BB133111EB)
    hashes ^= hashes >> np.uint64(29)
    hashes *= np.uint64(0xBF58476D1CE4E5B9)
    return hashes


def text_bytes(texts: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Where the texts of a large_string array without nulls begin and end, and the bytes of all of them."""
    _, offsets, data = texts.buffers()
    if not len(texts):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    whole = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return ends - ends[0], whole[ends[0] : ends[-1]]


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
