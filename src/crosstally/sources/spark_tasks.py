"""What Spark's tasks do with the rows of a partition: cells of rows, contribution bounds, counts, and their sums.

Everything that a task has to say is in the rows that it returns. Spark takes those of one successful attempt for each
partition, so that a task that was killed and ran again, or ran twice, changes nothing. Whatever fails in Python becomes
a note there too, in our own words: an exception that leaves a task is logged, with all that it quotes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.errors import CrosstallyError, OutsideValueError, SourceError
from crosstally.query.queries import Product
from crosstally.sources.columns import Counting
from crosstally.sources.guard import guarded
from crosstally.sources.number_texts import NumbersSeen
from crosstally.sources.row_cells import cells_of
from crosstally.sources.spark_chunks import (
    BLOCK_CELLS,
    PLACES,
    Rows,
    block,
    block_note,
    by_place,
    chunk_note,
    chunks,
    in_utc,
    notes_of,
    unpacked,
)
from crosstally.sources.tally import Tally
from crosstally.sources.units import Bound

__all__ = [
    "AddBlocks",
    "BoundChunks",
    "CountChunks",
    "CountRows",
    "EncodeRows",
    "Task",
    "numbers_seen",
    "problem_in",
]

Batches = Iterator[pa.RecordBatch]
Found = Iterator[Rows | str]
"""Rows, and notes among them."""


@dataclass(frozen=True, slots=True)
class Task:
    """What all tasks must know. It goes to the workers, which see the rows too.

    ``names`` are those of the columns in the batches that come.
    """

    counting: Counting
    names: tuple[str, ...]

    @property
    def record(self) -> np.dtype[Any]:
        """How the cells of one row are packed."""
        kinds = (np.min_scalar_type(attribute.size - 1) for attribute in self.counting.attributes)
        return np.dtype([(f"a{place}", kind) for place, kind in enumerate(kinds)])


@dataclass(frozen=True, slots=True)
class EncodeRows:
    """Rows into chunks of those that no rule drops, each of one place where the schema has a unit."""

    task: Task

    def __call__(self, batches: Batches) -> Batches:
        """The chunks of a partition."""
        return _as_chunks(_encoded(self.task, batches), self.task)


@dataclass(frozen=True, slots=True)
class BoundChunks:
    """Chunks of whole places, in the order of places, into chunks with at most so many rows of each unit."""

    task: Task

    def __call__(self, batches: Batches) -> Batches:
        """The bounded chunks of a partition."""
        return _as_chunks(_bounded(self.task, batches), self.task)


@dataclass(frozen=True, slots=True)
class CountRows:
    """Rows into blocks of counts, where the schema has no unit."""

    task: Task
    tables: tuple[Product, ...]

    def __call__(self, batches: Batches) -> Batches:
        """The blocks of a partition."""
        return _as_blocks(_encoded(self.task, batches), self.task, self.tables)


@dataclass(frozen=True, slots=True)
class CountChunks:
    """Chunks into blocks of counts; where they are not bounded yet, that comes first."""

    task: Task
    tables: tuple[Product, ...]
    _: KW_ONLY
    bounded: bool

    def __call__(self, batches: Batches) -> Batches:
        """The blocks of a partition."""
        read = _unpacked(self.task, batches) if self.bounded else _bounded(self.task, batches)
        return _as_blocks(read, self.task, self.tables)


@dataclass(frozen=True, slots=True)
class AddBlocks:
    """Blocks of all partitions into one of each number."""

    def __call__(self, batches: Batches) -> Batches:
        """The sums of the blocks that came here, and the notes, each once."""
        sums: dict[int, NDArray[np.int64]] = {}
        notes: dict[str, None] = {}
        for batch in batches:
            notes.update(dict.fromkeys(notes_of(batch)))
            for number, counts in zip(batch.column("block").to_pylist(), batch.column("counts"), strict=True):
                if counts.is_valid:
                    part = np.frombuffer(counts.as_buffer(), np.int64)
                    sums[number] = sums[number] + part if number in sums else part.copy()
        yield from map(block_note, notes)
        yield from (block(number, counts) for number, counts in sums.items())


# Notes


def problem_in(note: str) -> CrosstallyError | None:
    """The error that a note tells of, None where it is of something else."""
    found = json.loads(note)
    if "outside" in found:
        return OutsideValueError(found["outside"])
    return SourceError(found["problem"]) if "problem" in found else None


def numbers_seen(note: str) -> list[NumbersSeen]:
    """How the numbers of each numeric column were written in a partition; nothing where a note is of something else."""
    return [
        NumbersSeen(point, comma, set(unclear), set(groups))
        for point, comma, unclear, groups in json.loads(note).get("numbers", ())
    ]


def _numbers_note(seen: Sequence[NumbersSeen]) -> str:
    return json.dumps({"numbers": [[s.point, s.comma, sorted(s.unclear), sorted(s.groups)] for s in seen]})


def _told(made: Batches, note: Callable[[str], pa.RecordBatch]) -> Batches:
    """What is made; an error becomes a note and its end."""
    try:
        yield from made
    except CrosstallyError as error:
        kind = "outside" if isinstance(error, OutsideValueError) else "problem"
        yield note(json.dumps({kind: str(error)}))
    except Exception as error:  # noqa: BLE001 (it may quote rows, and Spark would log it)
        yield note(json.dumps({"problem": f"cannot count the DataFrame: a task failed ({type(error).__name__})"}))


def _as_chunks(found: Found, task: Task) -> Batches:
    some = (each for each in found if isinstance(each, str) or each.size)
    made = (chunk_note(each) if isinstance(each, str) else chunks(each, task.record) for each in some)
    return _told(made, chunk_note)


def _as_blocks(found: Found, task: Task, tables: Sequence[Product]) -> Batches:
    return _told(_counted(found, task, tables), block_note)


# Rows


def _encoded(task: Task, batches: Batches) -> Found:
    """The rows that no rule drops and, where there are units, whose unit is known; at the end how numbers look."""
    numbers = task.counting.columns.numbers(task.counting.reading, refuse_unclear=task.counting.refuse_unclear)
    encoders = [task.counting.columns.encoder(attribute) for attribute in task.counting.attributes]
    has_unit = task.counting.columns.schema.unit is not None
    for batch in batches:
        named = in_utc(batch).rename_columns(list(task.names))
        plain = guarded("the DataFrame", partial(numbers.plain, named))
        for start in range(0, plain.num_rows, task.counting.batch_rows):
            part = plain.slice(start, task.counting.batch_rows)
            kept, cells = cells_of(part, encoders)
            yield _kept(Rows(part.num_rows, cells, ids=task.counting.columns.ids(part) if has_unit else None), kept)
    if any(seen != NumbersSeen() for seen in numbers.seen.values()):
        yield _numbers_note([*numbers.seen.values()])


def _kept(rows: Rows, kept: NDArray[np.bool_] | None) -> Rows:
    ids = rows.ids
    if ids is not None and ids.null_count:
        known = ids.is_valid().to_numpy(zero_copy_only=False)
        kept = known if kept is None else kept & known
    if kept is None:
        return rows
    chosen = None if ids is None else ids.filter(pa.array(kept))
    return Rows(int(kept.sum()), [codes[kept] for codes in rows.cells], ids=chosen)


def _unpacked(task: Task, batches: Batches) -> Found:
    for batch in batches:
        yield from notes_of(batch)
        rows = unpacked(batch, task.record)
        for start in range(0, rows.size, task.counting.batch_rows):
            cells = [codes[start : start + task.counting.batch_rows] for codes in rows.cells]
            yield Rows(min(task.counting.batch_rows, rows.size - start), cells, places=() if start else rows.places)


def _bounded(task: Task, batches: Batches) -> Found:
    """Of each unit at most so many rows. All chunks of a place must come, one after another."""
    unit = task.counting.columns.schema.unit
    assert unit is not None
    notes: list[str] = []

    def parts() -> Iterator[tuple[int, pa.RecordBatch]]:
        for batch in batches:
            notes.extend(notes_of(batch))
            yield from by_place(batch)

    for place, chunks_there in groupby(parts(), key=lambda part: part[0]):
        bound = Bound(unit)
        for _, chunk in chunks_there:
            rows = unpacked(chunk, task.record)
            bound.add(rows.ids, None, rows.cells)
        places = [place]
        for size, cells in bound.kept(task.counting.batch_rows):
            yield Rows(size, cells, places=places)
            places = []
    yield from notes


# Counts


def _counted(found: Found, task: Task, tables: Sequence[Product]) -> Batches:
    """The counts of all tables and, where there are units, how often each place was begun, in blocks."""
    schema, names = task.counting.columns.schema.public(), [attribute.name for attribute in task.counting.attributes]
    tally = Tally(schema, tables, task.counting.batch_rows)
    begun = np.zeros(0 if schema.unit is None else PLACES, np.int64)
    for each in found:
        if isinstance(each, str):
            yield block_note(each)
            continue
        tally.add(each.size, dict(zip(names, each.cells, strict=True)))
        np.add.at(begun, np.array(each.places, np.int64), 1)
    counts = np.concatenate([*(table.counts.ravel() for table in tally.tables()), begun])
    for number, start in enumerate(range(0, len(counts), BLOCK_CELLS)):
        part = counts[start : start + BLOCK_CELLS]
        if part.any():
            yield block(number, part)
