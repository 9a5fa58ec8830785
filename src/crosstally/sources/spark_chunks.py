"""How rows and counts travel between Spark's tasks.

Rows travel as *chunks*: the cells of a few rows packed together, with the ids of their units while those are needed.
The units are spread over *places* by a hash of their ids, and no chunk holds rows of two places. Counts travel as
*blocks*, stretches of one long vector in which all cells stand one after another. Notes travel with both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crosstally.sources.units import id_hashes, text_bytes

__all__ = [
    "BLOCKS",
    "BLOCK_CELLS",
    "CHUNKS",
    "PLACES",
    "Rows",
    "block",
    "block_note",
    "by_place",
    "chunk_note",
    "chunks",
    "in_utc",
    "notes_of",
    "send_batches",
    "unpacked",
]

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
class Rows:
    """The cells of some rows, one array for each attribute; confidential.

    ``ids`` are those of their units, where they have some that are still needed; ``places`` the places of which these
    are the first rows.
    """

    size: int
    cells: Sequence[NDArray[Any]]
    _: KW_ONLY
    ids: pa.Array | None = None
    places: Sequence[int] = ()


# Chunks


def chunks(rows: Rows, record: np.dtype[Any]) -> pa.RecordBatch:
    """Rows packed; ``record`` is how the cells of one row are."""
    return _without_ids(rows, record) if rows.ids is None else _with_ids(rows, record, rows.ids)


def _with_ids(rows: Rows, record: np.dtype[Any], ids: pa.Array) -> pa.RecordBatch:
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
        _cut(ends * record.itemsize, _records([codes[order] for codes in rows.cells], rows.size, record)),
        pa.nulls(len(ends) - 1, pa.string()),
    ]
    return pa.record_batch(columns, schema=_CHUNK_SCHEMA)


def _without_ids(rows: Rows, record: np.dtype[Any]) -> pa.RecordBatch:
    """Chunks whose places are past the last one, but for the first, which names the place whose first rows it holds."""
    ends = np.append(np.arange(0, rows.size, _CHUNK_ROWS), rows.size)
    places = np.full(len(ends) - 1, PLACES, np.int32)
    places[: len(rows.places)] = rows.places
    empty = pa.array([b""] * len(places), pa.binary())
    codes = _cut(ends * record.itemsize, _records(rows.cells, rows.size, record))
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


def unpacked(batch: pa.RecordBatch, record: np.dtype[Any]) -> Rows:
    """The rows of chunks; notes are left out."""
    kept = batch.filter(pc.not_equal(batch.column("place"), _NOTE))
    records = _joined(kept.column("codes"), record)
    places = kept.column("place").to_numpy()
    return Rows(
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
    """A stretch of counts, the number-th of so many cells."""
    return pa.record_batch([[number], [counts.tobytes()], [None]], schema=_BLOCK_SCHEMA)


def block_note(note: str) -> pa.RecordBatch:
    """A note among blocks."""
    return pa.record_batch([[_NOTE], [None], [note]], schema=_BLOCK_SCHEMA)


def chunk_note(note: str) -> pa.RecordBatch:
    """A note among chunks."""
    return pa.record_batch([[_NOTE], [None], [None], [None], [note]], schema=_CHUNK_SCHEMA)


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
