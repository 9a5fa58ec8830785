"""Work of Spark's tasks on the rows of a partition: cells of rows, contribution bounds, counts, and their sums.

A task reports only through the rows that it returns. Spark takes those of one successful attempt for each partition, so
a task that was killed and ran again, or ran twice, changes nothing. Failures in Python become a note in those rows too,
in our own words: an exception that leaves a task is logged, with everything that it quotes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crosstally.errors import CrosstallyError, OutsideValueError, SourceError
from crosstally.query.unit_table import CountedTable
from crosstally.sources.counts import Bound, CodedRows, Tally, bounded_columns
from crosstally.sources.guard import guarded
from crosstally.sources.parts import id_hashes, text_bytes
from crosstally.sources.reading_options import NumbersSeen
from crosstally.sources.source import RowEncoding

# How rows and counts travel between Spark's tasks. Rows travel as *chunks*: the cells of a few rows packed together,
# with the ids of their units while those are needed. The units are spread over *places* by a hash of their ids, and no
# chunk holds rows of two places. Counts travel as *blocks*, stretches of one long vector in which all cells stand one
# after another. Notes travel with both.


PLACES = 1_024
"""One place at a time is bounded: its rows, after thinning, must fit into a worker's memory. A power of two."""
_CHUNK_ROWS = 64
"""Spark hands over 10,000 chunks at once: with 64 rows of 200 bytes they are 128 MB."""
BLOCK_CELLS = 65_536  # cells of a block of counts, 512 kB: tasks hand over blocks, and the driver adds them up
_NOTE = -1
"""Stands for the place of a chunk, and for the number of a block, that holds a note and nothing else."""

CHUNKS = "place int, lengths binary, ids binary, codes binary, note string"
BLOCKS = "block int, counts binary, note string"
_KINDS = {"int": pa.int32(), "binary": pa.binary(), "string": pa.string()}


def _arrow_schema(columns: str) -> pa.Schema:
    return pa.schema([(name, _KINDS[kind]) for name, kind in (column.split() for column in columns.split(", "))])


_CHUNK_SCHEMA, _BLOCK_SCHEMA = _arrow_schema(CHUNKS), _arrow_schema(BLOCKS)


@dataclass(frozen=True, slots=True, eq=False)
class PlacedRows(CodedRows):
    """Rows, and the places whose first rows they are."""

    places: Sequence[int] = ()


# Chunks


def chunks(rows: PlacedRows, record: np.dtype[Any]) -> pa.RecordBatch:
    """Rows packed; ``record`` is how the cells of one row are."""
    return _without_ids(rows, record) if rows.ids is None else _with_ids(rows, record, rows.ids)


def _with_ids(rows: PlacedRows, record: np.dtype[Any], ids: pa.Array) -> pa.RecordBatch:
    places = (id_hashes(ids) >> np.uint64(65 - PLACES.bit_length())).astype(np.int32)
    order = np.argsort(places, kind="stable")
    places = places[order]
    is_first = np.append(True, places[1:] != places[:-1])
    is_first[::_CHUNK_ROWS] = True
    ends = np.append(np.flatnonzero(is_first), rows.size)
    offsets, data = text_bytes(ids.take(pa.array(order)))
    columns = [
        pa.array(places[ends[:-1]]),
        _cut(ends * 4, np.diff(offsets).astype(np.int32)),
        _cut(offsets[ends], data),
        _cut(ends * record.itemsize, _records([codes[order] for codes in rows.codes], rows.size, record)),
        pa.nulls(len(ends) - 1, pa.string()),
    ]
    return pa.record_batch(columns, schema=_CHUNK_SCHEMA)


def _without_ids(rows: PlacedRows, record: np.dtype[Any]) -> pa.RecordBatch:
    """Chunks whose places are past the last one, except the first, which names the place whose first rows it holds."""
    ends = np.append(np.arange(0, rows.size, _CHUNK_ROWS), rows.size)
    places = np.full(len(ends) - 1, PLACES, np.int32)
    places[: len(rows.places)] = rows.places
    empty = pa.array([b""] * len(places), pa.binary())
    codes = _cut(ends * record.itemsize, _records(rows.codes, rows.size, record))
    return pa.record_batch(
        [pa.array(places), empty, empty, codes, pa.nulls(len(places), pa.string())], schema=_CHUNK_SCHEMA
    )


def _records(cells: Sequence[NDArray[Any]], rows: int, record: np.dtype[Any]) -> NDArray[Any]:
    records = np.empty(rows, record)
    for field, codes in zip(record.names or (), cells, strict=True):
        records[field] = codes
    return records


def _cut(ends: NDArray[np.int64], data: NDArray[Any]) -> pa.Array:
    """Bytes cut at these places, from the first to the last of them."""
    offsets = pa.py_buffer(ends.astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, offsets, pa.py_buffer(data)])


def by_place(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The chunks of each place that follow on each other; notes are not among them."""
    places = batch.column("place").to_numpy()
    starts = np.flatnonzero(np.append(True, places[1:] != places[:-1])).tolist() if len(places) else []
    for start, end in zip(starts, [*starts[1:], len(places)], strict=True):
        if places[start] != _NOTE:
            yield int(places[start]), batch.slice(start, end - start)


def unpacked(batch: pa.RecordBatch, record: np.dtype[Any]) -> PlacedRows:
    """The rows of chunks; notes are left out."""
    kept = batch.filter(pc.not_equal(batch.column("place"), _NOTE))
    records = _joined(kept.column("codes"), record)
    places = kept.column("place").to_numpy()
    return PlacedRows(
        len(records),
        [records[field] for field in record.names or ()],
        ids=_ids(kept),
        places=places[places < PLACES].tolist(),
    )


def _ids(kept: pa.RecordBatch) -> pa.Array | None:
    lengths = _joined(kept.column("lengths"), np.dtype(np.int32))
    if not len(lengths):
        return None
    offsets = np.append(0, np.cumsum(lengths, dtype=np.int64))
    data = _joined(kept.column("ids"), np.dtype(np.uint8))
    return pa.Array.from_buffers(pa.large_string(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _joined(column: pa.Array, kind: np.dtype[Any]) -> NDArray[Any]:
    """The bytes of a column's chunks, one after another."""
    _, offsets, data = pc.cast(column, pa.binary()).buffers()
    if not len(column) or data is None:
        return np.empty(0, kind)
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(memoryview(data)[ends[0] : ends[-1]], kind)


# Blocks and notes


def block(number: int, counts: NDArray[np.int64]) -> pa.RecordBatch:
    """A stretch of counts: the block of this number."""
    return pa.record_batch([[number], [counts.tobytes()], [None]], schema=_BLOCK_SCHEMA)


def note_in(schema: pa.Schema, note: str) -> pa.RecordBatch:
    """A note among chunks or blocks."""
    return pa.RecordBatch.from_pylist([{schema.names[0]: _NOTE, "note": note}], schema)


def notes_of(batch: pa.RecordBatch) -> list[str]:
    """The notes among chunks or blocks."""
    return [str(note) for note in batch.column("note").drop_null().to_pylist()]


# Rows as they come


def in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Moments as a Parquet file has them: Spark writes them in the time zone of its session."""
    for place, column in enumerate(batch.columns):
        if pa.types.is_timestamp(column.type) and column.type.tz is not None:
            moved = pc.cast(column, pa.timestamp(column.type.unit, "UTC"))
            batch = batch.set_column(place, batch.schema.names[place], moved)
    return batch


def send_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Iterator[pa.RecordBatch] as bytes, for a reader outside of Spark."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(in_utc(batch))
        yield pa.record_batch([pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=["batch"])


Batches = Iterator[pa.RecordBatch]
RowsAndNotes = Iterator[PlacedRows | str]
"""Rows, and notes among them."""


def record_of(encoding: RowEncoding, *, bounded: bool = False) -> np.dtype[Any]:
    """How the cells of one row are packed; of bounded rows with the column ``UNIT_ROWS``."""
    kinds = [np.min_scalar_type(attribute.size - 1) for attribute in encoding.attributes]
    kinds += [np.dtype(np.uint32)] if bounded else []
    return np.dtype([(f"a{place}", kind) for place, kind in enumerate(kinds)])


def encoded_chunks(encoding: RowEncoding, batches: Batches) -> Batches:
    """The rows of a partition into chunks of those that no rule drops, each of one place where there is a unit."""
    return _as_chunks(_encoded(encoding, batches), record_of(encoding))


def bounded_chunks(encoding: RowEncoding, batches: Batches) -> Batches:
    """Chunks of whole places, in the order of places, into chunks with a bounded number of rows per unit."""
    return _as_chunks(_bounded(encoding, batches), record_of(encoding, bounded=True))


def counted_rows(encoding: RowEncoding, tables: Sequence[CountedTable], batches: Batches) -> Batches:
    """The rows of a partition into blocks of counts, where the schema has no unit."""
    return _told(_counted(_encoded(encoding, batches), encoding, tables), _BLOCK_SCHEMA)


def counted_chunks(
    encoding: RowEncoding, tables: Sequence[CountedTable], batches: Batches, *, bounded: bool
) -> Batches:
    """Chunks into blocks of counts; where they are not bounded yet, that comes first."""
    read = _unpacked(encoding, batches) if bounded else _bounded(encoding, batches)
    return _told(_counted(read, encoding, tables), _BLOCK_SCHEMA)


def added_blocks(batches: Batches) -> Batches:
    """The sums of the blocks of all partitions that came here, one of each number, and the notes, each once."""
    sums: dict[int, NDArray[np.int64]] = {}
    notes: dict[str, None] = {}
    for batch in batches:
        notes.update(dict.fromkeys(notes_of(batch)))
        for number, counts in zip(batch.column("block").to_pylist(), batch.column("counts"), strict=True):
            if counts.is_valid:
                part = np.frombuffer(counts.as_buffer(), np.int64)
                sums[number] = sums[number] + part if number in sums else part.copy()
    yield from (note_in(_BLOCK_SCHEMA, note) for note in notes)
    yield from (block(number, counts) for number, counts in sums.items())


# Notes


def problem_in(note: str) -> CrosstallyError | None:
    """The error in a note; None where the note is about something else."""
    content = json.loads(note)
    if "outside" in content:
        return OutsideValueError(content["outside"])
    return SourceError(content["problem"]) if "problem" in content else None


def numbers_seen(note: str) -> list[NumbersSeen]:
    """How the numbers of each numeric column were written in a partition; nothing where a note is of something else."""
    return [
        NumbersSeen(point, comma, set(unclear), set(groups))
        for point, comma, unclear, groups in json.loads(note).get("numbers", ())
    ]


def _numbers_note(seen: Sequence[NumbersSeen]) -> str:
    return json.dumps({"numbers": [[s.point, s.comma, sorted(s.unclear), sorted(s.groups)] for s in seen]})


def _told(made: Batches, schema: pa.Schema) -> Batches:
    """What is made; an error becomes a note and its end."""
    try:
        yield from made
    except CrosstallyError as error:
        kind = "outside" if isinstance(error, OutsideValueError) else "problem"
        yield note_in(schema, json.dumps({kind: str(error)}))
    except Exception as error:  # noqa: BLE001 (it may quote rows, and Spark would log it)
        yield note_in(
            schema, json.dumps({"problem": f"cannot count the DataFrame: a task failed ({type(error).__name__})"})
        )


def _as_chunks(stream: RowsAndNotes, record: np.dtype[Any]) -> Batches:
    some = (each for each in stream if isinstance(each, str) or each.size)
    made = (note_in(_CHUNK_SCHEMA, each) if isinstance(each, str) else chunks(each, record) for each in some)
    return _told(made, _CHUNK_SCHEMA)


# Rows


def _encoded(encoding: RowEncoding, batches: Batches) -> RowsAndNotes:
    """The rows that no rule drops and, where there are units, whose unit is known; at the end how numbers look."""
    numbers, encoders = encoding.scan().numbers(), encoding.encoders()
    for batch in batches:
        named = in_utc(batch).rename_columns(encoding.columns)
        plain = guarded("the DataFrame", partial(numbers.plain, named))
        for start in range(0, plain.num_rows, encoding.batch_rows):
            rows = encoding.coded(plain.slice(start, encoding.batch_rows), encoders)
            if rows.ids is not None and rows.ids.null_count:
                rows = rows.where(rows.ids.is_valid().to_numpy(zero_copy_only=False))
            yield PlacedRows(rows.size, rows.codes, ids=rows.ids)
    if any(seen != NumbersSeen() for seen in numbers.seen.values()):
        yield _numbers_note([*numbers.seen.values()])


def _unpacked(encoding: RowEncoding, batches: Batches) -> RowsAndNotes:
    for batch in batches:
        yield from notes_of(batch)
        rows = unpacked(batch, record_of(encoding, bounded=encoding.schema.unit is not None))
        for start in range(0, rows.size, encoding.batch_rows):
            codes = [column[start : start + encoding.batch_rows] for column in rows.codes]
            size = min(encoding.batch_rows, rows.size - start)
            yield PlacedRows(size, codes, places=() if start else rows.places)


def _bounded(encoding: RowEncoding, batches: Batches) -> RowsAndNotes:
    """Rows within the contribution bound of each unit. All chunks of a place must come, one after another."""
    unit = encoding.schema.unit
    assert unit is not None
    notes: list[str] = []

    def parts() -> Iterator[tuple[int, pa.RecordBatch]]:
        for batch in batches:
            notes.extend(notes_of(batch))
            yield from by_place(batch)

    for place, chunks_there in groupby(parts(), key=lambda part: part[0]):
        bound = Bound(unit)
        for _, chunk in chunks_there:
            bound.add(unpacked(chunk, record_of(encoding)))
        places = [place]
        for rows in bound.kept(encoding.batch_rows):
            yield PlacedRows(rows.size, rows.codes, places=places)
            places = []
    yield from notes


# Counts


def _counted(stream: RowsAndNotes, encoding: RowEncoding, tables: Sequence[CountedTable]) -> Batches:
    """The counts of all tables and, where there are units, how often each place was begun, in blocks."""
    schema = encoding.schema.public()
    names = bounded_columns([attribute.name for attribute in encoding.attributes], schema)
    tally = Tally(schema, tables, encoding.batch_rows)
    begun = np.zeros(0 if schema.unit is None else PLACES, np.int64)
    for each in stream:
        if isinstance(each, str):
            yield note_in(_BLOCK_SCHEMA, each)
            continue
        tally.add(each.size, dict(zip(names, each.codes, strict=True)))
        np.add.at(begun, np.array(each.places, np.int64), 1)
    counts = np.concatenate([*(table.counts.ravel() for table in tally.tables()), begun])
    for number, start in enumerate(range(0, len(counts), BLOCK_CELLS)):
        part = counts[start : start + BLOCK_CELLS]
        if part.any():
            yield block(number, part)
