"""Which kind of source it is that a user gave as rows. Nobody else asks."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from functools import partial, wraps
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

import pyarrow as pa

from crosstally.errors import SourceError
from crosstally.sources import counts
from crosstally.sources.files import Files, paths_of
from crosstally.sources.guard import guarded
from crosstally.sources.parts import PartFiles, Parts
from crosstally.sources.source import RowStream, Scan, Source, YieldsBatches, chosen_columns
from crosstally.sources.spark import SparkTable, is_frame
from crosstally.sources.table_objects import TableRows, is_table

__all__ = ["count", "count_share", "encode_rows", "source_of"]

P = ParamSpec("P")
T = TypeVar("T")


def source_of(rows: Any) -> Source:
    """The source that a user means by rows.

    Args:
        rows: A path, a folder, a glob, a list of them; a table of pandas, Polars, DuckDB, PyArrow or Spark; a
            ``Database``, a ``SparkTable``, ``Parts``; any object with the methods of ``YieldsBatches``; or a source.
    """
    if isinstance(rows, Source):  # a Database or SparkTable is one
        return rows
    if is_frame(rows):  # it speaks Arrow too, and would bring all rows here at once
        return SparkTable(rows)
    if is_table(rows):
        return TableRows(rows)
    if isinstance(rows, Parts):
        return PartFiles(partial(paths_of, rows.paths))
    if isinstance(rows, str | os.PathLike):
        return Files(rows)
    if isinstance(rows, Sequence) and rows and all(isinstance(each, str | os.PathLike) for each in rows):
        return Files(rows)
    if callable(getattr(rows, "names", None)) and callable(getattr(rows, "batches", None)):
        return YieldedRows(rows)
    return NoRows(rows)


class NoRows(Source):
    """What a user gave and is no source: an error says so when rows are asked for, which an old key never does."""

    is_read_again = True

    def __init__(self, given: object) -> None:
        self._kind = type(given).__name__

    def streams(self, scan: Scan | None = None) -> NoReturn:  # noqa: ARG002
        """Raise: there are no rows."""
        raise SourceError(
            "rows must be a path, a folder, a glob, a list of them, or a table of pandas, Polars, DuckDB or PyArrow, "
            f"got {self._kind}"
        )

    def shared(self, number: int, of: int, *, by_unit: bool) -> NoReturn:  # noqa: ARG002
        """Raise: there are no rows."""
        self.streams()


class YieldedRows(Source):
    """Rows of an object of the user's own, which yields batches."""

    def __init__(self, rows: YieldsBatches) -> None:
        self._rows = rows
        self._name = f"the {type(rows).__name__}"

    def streams(self, scan: Scan) -> Generator[RowStream]:
        """All batches as one stream."""
        names = guarded(self._name, lambda: list(map(str, self._rows.names())), otherwise="its names cannot be had")
        yield RowStream(self._name, None, self._read(chosen_columns(self._name, names, scan.columns)))

    def _read(self, chosen: Sequence[str]) -> Generator[tuple[pa.RecordBatch, int]]:
        for batch in self._rows.batches(chosen):
            if not isinstance(batch, pa.RecordBatch):
                raise SourceError(f"{self._name} must yield Arrow record batches, got {type(batch).__name__}")
            batch.validate(full=True)  # lengths and indices are its own, and a wrong one would read foreign memory
            yield batch.select(chosen), 0


def _of_anything(function: Callable[Concatenate[Source, P], T]) -> Callable[Concatenate[Any, P], T]:
    """The same function, of whatever a user may give as rows."""

    @wraps(function)
    def opened(rows: Any, /, *args: P.args, **options: P.kwargs) -> T:
        return function(source_of(rows), *args, **options)

    return opened


count = _of_anything(counts.count)
count_share = _of_anything(counts.count_share)
encode_rows = _of_anything(counts.EncodedRows)
