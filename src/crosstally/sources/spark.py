"""Spark as a source of rows: a DataFrame, a table by its name, or files.

Spark's errors and its query logger may quote a person's values. They are replaced by messages of ours.
"""

from __future__ import annotations

import logging
import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from crosstally.checks import optional
from crosstally.errors import SourceError
from crosstally.measurements import ExactTable
from crosstally.query.unit_table import CountedTable
from crosstally.sources.counts import EncodedRows
from crosstally.sources.drivers import reason_of_state
from crosstally.sources.guard import guarded
from crosstally.sources.source import RowEncoding, RowStream, Scan, Source, chosen_columns
from crosstally.sources.spark_tasks import (
    BLOCK_CELLS,
    BLOCKS,
    CHUNKS,
    PLACES,
    added_blocks,
    bounded_chunks,
    counted_chunks,
    counted_rows,
    encoded_chunks,
    numbers_seen,
    problem_in,
    send_batches,
)
from crosstally.sources.table_objects import check_spark_plan
from crosstally.sources.table_parts import tables_in

_SOURCE = "the Spark table"
_FAILED = "Spark failed; its own log says more, and may quote rows"
_SETTINGS = {
    "spark.io.encryption.enabled": "true",  # what tasks write to disks, or keep between stages, is confidential
    "spark.log.level": "OFF",  # its log quotes values
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # a folder sex=01 holds "01", not 1
}
"""Settings of our own session, which override the machine's configuration."""
_LOGGER = "SQLQueryContextLogger"  # PySpark's own: it prints every error with its text
_LOGS = ("_delta_log", ".hoodie", "metadata/version-hint.text")
"""What a folder of Delta Lake, Hudi or Iceberg holds: its files alone have rows that were deleted."""
_WORKERS = "a Python worker failed; each of them needs this version of Python and of crosstally"
_CONDITION = re.compile(r"[A-Z0-9_]+(\.[A-Z0-9_]+)?")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SparkTable(Source):
    """A table of Spark's catalogue, or Parquet or ORC files that Spark can reach, as a source.

    It is read in the active session or, if there is none, in one that crosstally starts with the machine's settings,
    with I/O encryption.

    Args:
        name: The table, such as ``catalog.schema.people``; or a path, which holds a slash or ends in .parquet or .orc;
            or a DataFrame of yours.
        rows_are_units: You assert that adding or removing a person changes one row of the table, or, if the schema has
            a unit, that unit's rows alone, although a view or DataFrame has a limit, a join, an aggregation or the
            like. The release's statement records this assertion.

    >>> SparkTable("warehouse.people")
    SparkTable(name='warehouse.people', rows_are_units=False)
    """

    name: Any
    rows_are_units: bool = False

    def __post_init__(self) -> None:
        if not is_frame(self.name) and (not isinstance(self.name, str) or not self.name.strip()):
            raise SourceError(f"a Spark table must be named by a text, got {type(self.name).__name__}")

    def streams(self, scan: Scan) -> Iterator[RowStream]:
        """The rows of all partitions, one after another, here."""
        yield RowStream("the DataFrame", None, _read(self, scan.columns))

    def shared(self, number: int, of: int, *, by_unit: bool) -> tuple[Source, str, list[tuple[str, int]]]:  # noqa: ARG002
        """Raise: its tasks share the rows out."""
        raise SourceError("Spark's own tasks share the rows out: give it to a release whole")

    def count(self, encoding: RowEncoding, tables: Sequence[CountedTable]) -> tuple[ExactTable, ...]:
        """The exact counts of each table, made by Spark's tasks.

        Where the schema has a unit, the rows of each unit are brought together by a shuffle before they are bounded.
        """
        _check_no_measures(encoding)
        frame, _ = _selected(self, encoding.columns)
        if encoding.schema.unit is None:
            blocks = in_spark(lambda: frame.mapInArrow(partial(counted_rows, encoding, tuple(tables)), BLOCKS))
        else:
            chunks = partial(counted_chunks, encoding, tuple(tables), bounded=False)
            blocks = in_spark(lambda: _by_place(frame, encoding).mapInArrow(chunks, BLOCKS))
        return _tables(blocks, encoding, tables)

    def keep(self, encoding: RowEncoding) -> KeptInSpark:
        """The rows, encoded by Spark's tasks and kept by its executors."""
        _check_no_measures(encoding)
        return KeptInSpark(self, encoding)


def _check_no_measures(encoding: RowEncoding) -> None:
    if encoding.measures:
        raise SourceError("Spark's tasks count rows and add up no measures: give a file, or leave the measures out")


def is_frame(rows: Any) -> bool:
    """Whether rows are a DataFrame of Spark's; it need not be installed."""
    return any(k.__module__.startswith("pyspark.sql") and k.__name__ == "DataFrame" for k in type(rows).__mro__)


def in_spark(action: Callable[[], T]) -> T:
    """The result of the action; Spark's errors become messages of ours, and its query logger is silenced."""
    with _silent():
        return guarded(_SOURCE, action, otherwise=_FAILED, reason_of=_reason)


@contextmanager
def _silent() -> Iterator[None]:
    logger = logging.getLogger(_LOGGER)
    before, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings():
            # PySpark 4 warns about pandas 3, which is not used here.
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        logger.disabled = before


def _reason(error: Exception) -> str | None:
    """A description of Spark's error without its text: the name of its condition, and its SQLSTATE."""
    condition = _said(error, "getCondition") or _said(error, "getErrorClass")
    state = _said(error, "getSqlState")
    if condition is None or not _CONDITION.fullmatch(condition):
        return None
    about = _WORKERS if condition == "PYTHON_EXCEPTION" else None if state is None else reason_of_state(state)
    return f"{about or 'Spark refuses'} (Spark's {condition})"


def _said(error: Exception, method: str) -> str | None:
    ask = getattr(error, method, None)
    said = ask() if callable(ask) else None
    return said if isinstance(said, str) else None


# Where it is


def _frame_of(table: SparkTable) -> Any:
    """The DataFrame that is meant; raises when rows depend on others, or on chance, since a task may run twice.

    The plan of a session that is a remote one cannot be seen from here.
    """
    frame = in_spark(partial(_opened, table.name)) if isinstance(table.name, str) else table.name
    plan = getattr(frame, "_jdf", None)  # not there when the session is a remote one
    if plan is not None and not in_spark(lambda: plan.queryExecution().analyzed().deterministic()):
        raise SourceError(
            "the DataFrame holds random functions, or ones that are not deterministic, so that a task that runs again "
            "finds other rows: write it to a table first"
        )
    if plan is not None and not table.rows_are_units:
        in_spark(lambda: check_spark_plan(plan.queryExecution().analyzed()))
    return frame


def _opened(name: str) -> Any:
    session = open_session()
    if not _is_path(name):
        return session.table(name)
    files = session.sparkContext._jvm.org.apache.hadoop.fs
    folder = files.Path(name)
    system = folder.getFileSystem(session.sparkContext._jsc.hadoopConfiguration())
    if any(system.exists(files.Path(folder, log)) for log in _LOGS):
        raise SourceError(
            f"{name!r} is a table with a log, whose files hold rows that were deleted: name it as a table, "
            "with the package that reads it"
        )
    return session.read.orc(name) if name.endswith(".orc") else session.read.parquet(name)


def _is_path(name: str) -> bool:
    return "/" in name or name.endswith((".parquet", ".orc"))


def open_session() -> Any:
    """The active session, or a new one."""
    optional("pyspark", extra="spark")
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers must be this Python, not the first on the path
    builder = SparkSession.builder.appName("crosstally")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


# Its columns and rows


def _selected(table: SparkTable, needed: Sequence[str] | None) -> tuple[Any, list[str]]:
    """The columns needed, called c0, c1 and so on, and their names.

    They are found by position: in names, Spark ignores case and takes a point for access to a field.
    """
    frame = _frame_of(table)
    names = in_spark(lambda: list(frame.columns))
    chosen = chosen_columns("the DataFrame", names, needed)
    numbered = [f"c{i}" for i in range(len(names))]
    places = [numbered[names.index(name)] for name in chosen]
    return in_spark(lambda: frame.toDF(*numbered).select(*places)), chosen


def _read(table: SparkTable, needed: Sequence[str] | None) -> Generator[tuple[pa.RecordBatch, int]]:
    """The rows of a DataFrame, a partition at a time, here; for what must look at them and not at counts."""
    frame, names = _selected(table, needed)
    sent = in_spark(lambda: frame.mapInArrow(send_batches, "batch binary").toLocalIterator(prefetchPartitions=True))
    while (row := in_spark(partial(next, sent, None))) is not None:
        for batch in pa.ipc.open_stream(row["batch"]):
            yield batch.rename_columns(names), 0


# Counts of rows that Spark holds, made by its tasks: only the counts come here, once they are summed.


class KeptInSpark(EncodedRows):
    """The rows that count, encoded once and kept by Spark's executors for all stages of a plan; confidential.

    They are a checkpoint of Spark's, in its executors' memory and on their disks. Nothing is read from the source
    again: where an executor is lost with its part, the next count fails.
    """

    def __init__(self, table: SparkTable, encoding: RowEncoding) -> None:
        """Read and encode the rows."""
        self._schema, self._encoding = encoding.schema.public(), encoding
        frame, _ = _selected(table, encoding.columns)
        if encoding.schema.unit is None:
            chunks = in_spark(lambda: frame.mapInArrow(partial(encoded_chunks, encoding), CHUNKS))
        else:
            chunks = in_spark(lambda: _by_place(frame, encoding).mapInArrow(partial(bounded_chunks, encoding), CHUNKS))
        self._chunks = in_spark(lambda: chunks.localCheckpoint(eager=True))

    def _counted(self, tables: Sequence[CountedTable]) -> tuple[ExactTable, ...]:
        counting = partial(counted_chunks, self._encoding, tuple(tables), bounded=True)
        return _tables(in_spark(lambda: self._chunks.mapInArrow(counting, BLOCKS)), self._encoding, tables)

    def close(self) -> None:
        """Release the rows."""
        with suppress(Exception):  # the session may have ended, and the rows with it
            self._chunks._jdf.queryExecution().analyzed().rdd().unpersist(False)


def _by_place(frame: Any, encoding: RowEncoding) -> Any:
    """Chunks partitioned by place, so that all rows of one unit come to one task, one place after another."""
    return (
        frame.mapInArrow(partial(encoded_chunks, encoding), CHUNKS).repartition("place").sortWithinPartitions("place")
    )


def _tables(blocks: Any, encoding: RowEncoding, tables: Sequence[CountedTable]) -> tuple[ExactTable, ...]:
    """The tables whose blocks all tasks have made."""
    rows = in_spark(lambda: blocks.repartition("block").mapInArrow(added_blocks, BLOCKS).collect())
    return add_up(rows, encoding, tables)


def add_up(rows: Sequence[Any], encoding: RowEncoding, tables: Sequence[CountedTable]) -> tuple[ExactTable, ...]:
    """The tables from rows with blocks and notes; raises the errors in the notes."""
    schema = encoding.schema.public()
    cells = sum(math.prod(table.shape(schema)) for table in tables)
    vector = np.zeros(cells + (0 if schema.unit is None else PLACES), np.int64)
    _check_notes([row["note"] for row in rows if row["note"] is not None], encoding)
    for row in rows:
        if row["counts"] is not None:
            start = row["block"] * BLOCK_CELLS
            vector[start : start + BLOCK_CELLS] += np.frombuffer(row["counts"], np.int64)
    if (vector[cells:] > 1).any():  # else a unit might count beyond its bound
        raise SourceError("Spark gave rows of one unit to several tasks; nothing was spent")
    return tables_in(vector, schema, tables)


def _check_notes(notes: Sequence[str], encoding: RowEncoding) -> None:
    """Raise a task's error, and what only all tasks together show: numbers with two readings."""
    for note in sorted(notes):
        problem = problem_in(note)
        if problem is not None:
            raise problem
    numbers = encoding.scan().numbers()
    for note in notes:
        seen = numbers_seen(note)
        if seen:
            numbers.add_seen(seen)
    numbers.check()
