"""Counts of rows that Spark holds, made by its tasks: only the counts come here, once they are summed."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.errors import SourceError
from crosstally.measurements import ExactTable
from crosstally.query.queries import Product
from crosstally.sources.columns import Counting
from crosstally.sources.source import KeptRows, RowStream, Scan, Source, chosen_columns
from crosstally.sources.spark import SparkTable, frame_of, in_spark, names_in, read_frame, selected
from crosstally.sources.spark_chunks import BLOCK_CELLS, BLOCKS, CHUNKS, PLACES
from crosstally.sources.spark_tasks import (
    AddBlocks,
    BoundChunks,
    CountChunks,
    CountRows,
    EncodeRows,
    Task,
    numbers_seen,
    problem_in,
)

__all__ = ["KeptInSpark", "SparkRows", "add_up"]


class SparkRows(Source):
    """Rows that Spark holds. Its tasks count them; only for what must look at rows they come here."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        self.rows_are_units = isinstance(rows, SparkTable) and rows.rows_are_units

    def streams(self, scan: Scan) -> Iterator[RowStream]:
        """See Source."""
        yield RowStream("the DataFrame", None, self._read(scan.columns))

    def _read(self, needed: Sequence[str] | None) -> Generator[tuple[pa.RecordBatch, int]]:
        frame = frame_of(self._rows)
        names = names_in(frame)
        chosen = chosen_columns("the DataFrame", names, needed)
        return ((batch, 0) for batch in read_frame(frame, names, chosen))

    def shared(self, number: int, of: int, *, by_unit: bool) -> tuple[Source, str, list[tuple[str, int]]]:  # noqa: ARG002
        """Raise: its tasks share the rows out."""
        raise SourceError("Spark's own tasks share the rows out: give it to a release whole")

    def count(self, counting: Counting, tables: Sequence[Product]) -> tuple[ExactTable, ...]:
        """The exact counts of each table, made by Spark's tasks.

        Where the schema has a unit, the rows of each unit are brought together by a shuffle before they are bounded.
        """
        frame, task = _prepared(self._rows, counting)
        if counting.columns.schema.unit is None:
            blocks = in_spark(lambda: frame.mapInArrow(CountRows(task, tuple(tables)), BLOCKS))
        else:
            chunks = CountChunks(task, tuple(tables), bounded=False)
            blocks = in_spark(lambda: _by_place(frame, task).mapInArrow(chunks, BLOCKS))
        return _tables(blocks, task, tables)

    def keep(self, counting: Counting) -> KeptInSpark:
        """The rows, encoded by Spark's tasks and kept by its executors."""
        return KeptInSpark(self._rows, counting)


class KeptInSpark(KeptRows):
    """The rows that count, encoded once and kept by Spark's executors for all stages of a plan; confidential.

    They are a checkpoint of Spark's, in its executors' memory and on their disks. Nothing is read from the source
    again: where an executor is lost with its part, the next count fails.
    """

    def __init__(self, rows: Any, counting: Counting) -> None:
        """Read and encode the rows."""
        frame, self._task = _prepared(rows, counting)
        task = self._task
        if counting.columns.schema.unit is None:
            chunks = in_spark(lambda: frame.mapInArrow(EncodeRows(task), CHUNKS))
        else:
            chunks = in_spark(lambda: _by_place(frame, task).mapInArrow(BoundChunks(task), CHUNKS))
        self._chunks = in_spark(lambda: chunks.localCheckpoint(eager=True))

    def count(self, tables: Sequence[Product]) -> tuple[ExactTable, ...]:
        """The exact counts of each table."""
        counting = CountChunks(self._task, tuple(tables), bounded=True)
        return _tables(in_spark(lambda: self._chunks.mapInArrow(counting, BLOCKS)), self._task, tables)

    def close(self) -> None:
        """Let go of the rows."""
        with suppress(Exception):  # the session may have ended, and the rows with it
            self._chunks._jdf.queryExecution().analyzed().rdd().unpersist(False)


def _prepared(rows: Any, counting: Counting) -> tuple[Any, Task]:
    """The columns that are needed of a DataFrame, and what its tasks must know."""
    frame = frame_of(rows)
    names = names_in(frame)
    chosen = chosen_columns("the DataFrame", names, counting.columns.needed)
    return selected(frame, names, chosen), Task(counting, tuple(chosen))


def _by_place(frame: Any, task: Task) -> Any:
    """Chunks of which all of one place, and so all rows of one unit, come to one task, one place after another."""
    return frame.mapInArrow(EncodeRows(task), CHUNKS).repartition("place").sortWithinPartitions("place")


def _tables(blocks: Any, task: Task, tables: Sequence[Product]) -> tuple[ExactTable, ...]:
    """The tables whose blocks all tasks have made."""
    found = in_spark(lambda: blocks.repartition("block").mapInArrow(AddBlocks(), BLOCKS).collect())
    return add_up(found, task, tables)


def add_up(found: Sequence[Any], task: Task, tables: Sequence[Product]) -> tuple[ExactTable, ...]:
    """The tables that rows with blocks and notes make up; raises what the notes tell of."""
    schema = task.counting.columns.schema.public()
    shapes = [table.shape(schema) for table in tables]
    cells = sum(map(math.prod, shapes))
    places = 0 if schema.unit is None else PLACES
    vector = np.zeros(cells + places, np.int64)
    _check_notes([row["note"] for row in found if row["note"] is not None], task)
    for row in found:
        if row["counts"] is not None:
            start = row["block"] * BLOCK_CELLS
            vector[start : start + BLOCK_CELLS] += np.frombuffer(row["counts"], np.int64)
    if (vector[cells:] > 1).any():  # else a unit might count beyond its bound
        raise SourceError("Spark gave rows of one unit to several tasks; nothing was spent")
    ends = [0, *accumulate(map(math.prod, shapes))]
    parts: list[NDArray[np.int64]] = [vector[start:end] for start, end in pairwise(ends)]
    return tuple(
        ExactTable(schema.subset(*table.attributes), counts.reshape(shape), table.groups)
        for table, counts, shape in zip(tables, parts, shapes, strict=True)
    )


def _check_notes(notes: Sequence[str], task: Task) -> None:
    """Raise what a task met, and what only all tasks together can tell: numbers that may be meant in two ways."""
    for note in sorted(notes):
        problem = problem_in(note)
        if problem is not None:
            raise problem
    numbers = task.counting.columns.numbers(task.counting.reading, refuse_unclear=task.counting.refuse_unclear)
    for note in notes:
        seen = numbers_seen(note)
        if seen:
            numbers.add_seen(seen)
    numbers.check()
