"""Tables that other packages hold, as Arrow readers: frames, queries, datasets, and all that speaks Arrow."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from crosstally.errors import SourceError
from crosstally.sources.guard import guarded
from crosstally.sources.lazy_plans import check_lazy_frame
from crosstally.sources.one_select import CheckedQuery, checked_query
from crosstally.sources.source import AnyUnit, RowStream, Scan, Source, chosen_columns

__all__ = ["TableRows", "is_table"]

_NOT_ARROW = "it is not a table whose columns each hold one kind of value"
# Known by name: none of these packages needs to be installed.
_FRAMES = {("pandas", "DataFrame"), ("polars", "DataFrame")}
_PANDAS, _LAZY = ("pandas", "DataFrame"), ("polars", "LazyFrame")
_DATASET, _SCANNER = ("pyarrow", "Dataset"), ("pyarrow", "Scanner")
_RELATION = "DuckDBPyRelation"
_CONVERTED = {_LAZY, _DATASET, _SCANNER}


def is_table(rows: Any) -> bool:
    """Whether rows are a table, in memory or behind a query, and not the name of a file."""
    return hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__") or bool(_kinds(rows) & _CONVERTED)


class TableRows(Source):
    """Rows of a table in memory, or of a query of DuckDB or Polars."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        self._name = f"the {type(rows).__name__}"
        kinds = _kinds(rows)
        in_files = _DATASET in kinds and ("pyarrow", "InMemoryDataset") not in kinds
        # Of anything else that speaks Arrow nothing is known, and nothing can be tried: a reader or a database's cursor
        # is empty after the first time, a query is run again and may have another answer.
        self.is_read_again = in_files or bool(kinds & _FRAMES) or isinstance(rows, pa.Table | pa.RecordBatch)

    def streams(self, scan: Scan) -> Iterator[RowStream]:
        """See Source."""
        _check_rows(self._rows, scan.unit)
        yield RowStream(self._name, None, self._read(scan.columns))

    def _read(self, needed: Sequence[str] | None) -> Generator[tuple[pa.RecordBatch, int]]:
        names = guarded(self._name, partial(_names_of, self._rows), otherwise=_NOT_ARROW)
        chosen = None if names is None else chosen_columns(self._name, names, needed)
        reader = guarded(self._name, partial(_reader_of, self._rows, chosen), otherwise=_NOT_ARROW)
        chosen = chosen_columns(self._name, reader.schema.names, needed)
        return ((batch.select(chosen), 0) for batch in reader)

    def joins(self, unit: str | None) -> Mapping[str, str]:
        """See Source."""
        return _checked_relation(self._rows, unit).joins if _is_relation(self._rows) else {}

    def leaves_rows_out(self, unit: str | None) -> bool:
        """See Source."""
        return _is_relation(self._rows) and _checked_relation(self._rows, unit).filters


def _names_of(rows: Any) -> list[str] | None:
    """The names of a table's columns, where they are known before it is converted."""
    kinds = _kinds(rows)
    if _PANDAS in kinds:
        return [str(name) for name in rows.columns]
    if _LAZY in kinds:
        return list(rows.collect_schema().names())
    return list(rows.schema.names) if _DATASET in kinds else None


def _reader_of(rows: Any, chosen: Sequence[str] | None) -> pa.RecordBatchReader:
    """The rows as a reader; of the columns chosen alone, where a table can leave the others out."""
    kinds = _kinds(rows)
    if chosen is not None and _PANDAS in kinds:
        # Conversion goes column by column, and one that is not needed may not convert at all.
        rows = rows.loc[:, [str(name) in chosen for name in rows.columns]]
    elif _LAZY in kinds:
        return _lazy_reader(rows if chosen is None else rows.select(chosen))
    elif _DATASET in kinds:
        return rows.scanner(columns=chosen).to_reader()
    elif _SCANNER in kinds:
        return rows.to_reader()
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(rows)
    batch = pa.record_batch(rows)
    return pa.RecordBatchReader.from_batches(batch.schema, [batch])


def _is_relation(rows: Any) -> bool:
    """Whether rows are a query of DuckDB."""
    return any(name == _RELATION for _, name in _kinds(rows))


def _checked_relation(rows: Any, unit: str | None) -> CheckedQuery:
    """The query of a DuckDB relation; raises unless each of its rows comes of rows of one unit."""
    try:
        return checked_query(rows.sql_query(), "duckdb", unit=unit, reading_files=True)
    except SourceError as error:
        reason = str(error).partition(": ")[0]
    raise SourceError(
        f"the DuckDB relation: {reason}: leave it out, give its query as a Database with rows_are_units=True, or fetch "
        "its rows first: you are responsible for what a table in memory holds"
    )


def _check_rows(rows: Any, unit: str | AnyUnit | None) -> None:
    """Raise where a table is a query, and its plan says that rows depend on other rows."""
    if isinstance(unit, AnyUnit):
        return
    if _is_relation(rows):
        _checked_relation(rows, unit)
    elif _LAZY in _kinds(rows):
        check_lazy_frame(rows)


def _lazy_reader(query: Any) -> pa.RecordBatchReader:
    """The rows of a Polars query as they come, so that not all of them need be in memory."""
    if not hasattr(query, "collect_batches"):  # Polars before 1.34
        return pa.RecordBatchReader.from_stream(query.collect())
    schema = pa.RecordBatchReader.from_stream(query.head(0).collect()).schema
    parts = (batch for frame in query.collect_batches() for batch in pa.RecordBatchReader.from_stream(frame))
    return pa.RecordBatchReader.from_batches(schema, parts)


def _kinds(rows: Any) -> set[tuple[str, str]]:
    return {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(rows).__mro__}
