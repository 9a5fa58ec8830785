"""Rows that Spark holds, as a source: a DataFrame, a table by its name, or files.

What Spark raises, and what its own query logger writes, may quote a person's values. It becomes a line of ours.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from crosstally.checks import optional
from crosstally.errors import SourceError
from crosstally.sources.guard import guarded
from crosstally.sources.lazy_plans import check_spark_plan
from crosstally.sources.spark_chunks import send_batches
from crosstally.sources.sqlstates import reason_of_state

__all__ = ["SparkTable", "frame_of", "in_spark", "is_spark", "names_in", "open_session", "read_frame", "selected"]

_SOURCE = "the Spark table"
_FAILED = "Spark failed; its own log says more, and may quote rows"
_SETTINGS = {
    "spark.io.encryption.enabled": "true",  # what tasks write to disks, or keep between stages, is confidential
    "spark.log.level": "OFF",  # its log quotes values
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # a folder sex=01 holds "01", not 1
}
"""Of a session of our own, before what the machine's configuration says."""
_LOGGER = "SQLQueryContextLogger"  # PySpark's own: it prints every error with its text
_LOGS = ("_delta_log", ".hoodie", "metadata/version-hint.text")
"""What a folder of Delta Lake, Hudi or Iceberg holds: its files alone have rows that were deleted."""
_WORKERS = "a Python worker failed; each of them needs this version of Python and of crosstally"
_CONDITION = re.compile(r"[A-Z0-9_]+(\.[A-Z0-9_]+)?")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SparkTable:
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
        if not _is_frame(self.name) and (not isinstance(self.name, str) or not self.name.strip()):
            raise SourceError(f"a Spark table must be named by a text, got {type(self.name).__name__}")


def is_spark(rows: Any) -> bool:
    """Whether rows are Spark's; it need not be installed."""
    return isinstance(rows, SparkTable) or _is_frame(rows)


def _is_frame(rows: Any) -> bool:
    return any(k.__module__.startswith("pyspark.sql") and k.__name__ == "DataFrame" for k in type(rows).__mro__)


def in_spark(action: Callable[[], T]) -> T:
    """What the action returns; whatever Spark raises becomes a line of our own, and its query logger says nothing."""
    with _silent():
        return guarded(_SOURCE, action, otherwise=_FAILED, reason_of=_reason)


@contextmanager
def _silent() -> Iterator[None]:
    logger = logging.getLogger(_LOGGER)
    before, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings():
            # PySpark 4 warns of pandas 3, of which nothing is used here.
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        logger.disabled = before


def _reason(error: Exception) -> str | None:
    """What can be said of Spark's error without its text: the name of its condition, and its SQLSTATE."""
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


def frame_of(rows: Any) -> Any:
    """The DataFrame that is meant; raises when rows depend on others, or on chance, since a task may run twice.

    The plan of a session that is a remote one cannot be seen from here.
    """
    named, asserted = (rows.name, rows.rows_are_units) if isinstance(rows, SparkTable) else (rows, False)
    frame = in_spark(partial(_opened, named)) if isinstance(named, str) else named
    plan = getattr(frame, "_jdf", None)  # not there when the session is a remote one
    if plan is not None and not in_spark(lambda: plan.queryExecution().analyzed().deterministic()):
        raise SourceError(
            "the DataFrame holds random functions, or ones that are not deterministic, so that a task that runs again "
            "finds other rows: write it to a table first"
        )
    if plan is not None and not asserted:
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
    """The session that is active, or a new one of our own."""
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


def names_in(frame: Any) -> list[str]:
    """The names of a DataFrame's columns."""
    return in_spark(lambda: list(frame.columns))


def selected(frame: Any, names: Sequence[str], chosen: Sequence[str]) -> Any:
    """The columns chosen, by their places: in a name Spark overlooks case, and takes a point for a field's.

    The columns are called c0, c1 and so on.
    """
    places = [names.index(name) for name in chosen]
    return in_spark(lambda: frame.toDF(*(f"c{i}" for i in range(len(names)))).select(*(f"c{i}" for i in places)))


def read_frame(frame: Any, names: Sequence[str], chosen: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a DataFrame, a partition at a time, here; for what must look at them and not at counts."""
    part = selected(frame, names, chosen)
    sent = in_spark(lambda: part.mapInArrow(send_batches, "batch binary").toLocalIterator(prefetchPartitions=True))
    while (row := in_spark(partial(next, sent, None))) is not None:
        for batch in pa.ipc.open_stream(row["batch"]):
            yield batch.rename_columns(list(chosen))
