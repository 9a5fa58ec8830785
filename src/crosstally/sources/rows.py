"""Rows from anywhere as one stream of Arrow record batches: files, globs, and anything that speaks Arrow's C stream."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import pyarrow as pa

from crosstally.errors import SourceError, did_you_mean
from crosstally.sources.files import open_file
from crosstally.sources.guard import DAMAGED, guarded

__all__ = ["BATCH_ROWS", "batches"]

BATCH_ROWS = 65_536
_CUT_SHORT = "its rows ended in an error"
_NOT_ARROW = "it is not a table whose columns each hold one kind of value"


def batches(rows: Any, needed: Sequence[str] | None, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """The rows, a batch at a time, each with the needed columns in the order named; all columns when None."""
    for source, stream in _streams(rows, needed):
        otherwise = _CUT_SHORT if source.startswith("the ") else DAMAGED
        while (batch := guarded(source, partial(next, stream, None), otherwise=otherwise)) is not None:
            for start in range(0, batch.num_rows, batch_rows):
                yield batch.slice(start, batch_rows)


def _streams(rows: Any, needed: Sequence[str] | None) -> Iterator[tuple[str, Iterator[pa.RecordBatch]]]:
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        source = f"the {type(rows).__name__}"
        yield source, _from_object(source, rows, needed)
        return
    for path in _paths(rows):
        source = repr(str(path))
        names, read = guarded(source, partial(open_file, path))
        yield source, read(_chosen(source, names, needed))


def _from_object(source: str, rows: Any, needed: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    if needed is not None and type(rows).__module__.split(".")[0] == "pandas" and hasattr(rows, "columns"):
        # Conversion goes column by column, and one that is not needed may not convert at all.
        names = [str(name) for name in rows.columns]
        chosen = _chosen(source, names, needed)
        rows = rows.loc[:, [name in chosen for name in names]]
    reader = guarded(source, lambda: _reader(rows), otherwise=_NOT_ARROW)
    chosen = _chosen(source, reader.schema.names, needed)
    return (batch.select(chosen) for batch in reader)


def _reader(rows: Any) -> pa.RecordBatchReader:
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(rows)
    batch = pa.record_batch(rows)
    return pa.RecordBatchReader.from_batches(batch.schema, [batch])


def _paths(rows: Any) -> list[Path]:
    if isinstance(rows, str | os.PathLike):
        return _expanded(str(rows))
    if isinstance(rows, Sequence) and rows and all(isinstance(each, str | os.PathLike) for each in rows):
        return [path for each in rows for path in _expanded(str(each))]
    raise SourceError(
        "rows must be a path, a glob, a list of them, or a frame of pandas, Polars, DuckDB or PyArrow, "
        f"got {type(rows).__name__}"
    )


def _expanded(path: str) -> list[Path]:
    if not has_magic(path) or guarded(repr(path), Path(path).exists):
        return [Path(path)]
    found = sorted(glob(path, recursive=True))  # noqa: PTH207 (Path.glob takes no absolute pattern)
    if not found:
        raise SourceError(f"no file matches {path!r}")
    return [Path(each) for each in found]


def _chosen(source: str, names: Sequence[str], needed: Sequence[str] | None) -> list[str]:
    chosen = list(names if needed is None else needed)
    times = Counter(names)
    for name in chosen:
        if name not in times:
            raise SourceError(f"{source} has no column {name!r}{did_you_mean(name, names)}")
        if times[name] > 1:
            raise SourceError(f"{source} has more than one column {name!r}; rename one of them")
    return chosen
