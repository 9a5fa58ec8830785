"""Rows from anywhere as one stream of Arrow record batches: files, globs, and anything that speaks Arrow's C stream."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import pyarrow as pa

from crosstally.errors import SourceError
from crosstally.sources.files import open_file
from crosstally.sources.guard import DAMAGED, guarded

__all__ = ["BATCH_ROWS", "batches", "bytes_of"]

BATCH_ROWS = 65_536
_CUT_SHORT = "its rows ended in an error"
_NOT_ARROW = "it is not a table whose columns each hold one kind of value"
_MOST_NAMES = 8


def batches(
    rows: Any,
    needed: Sequence[str] | None,
    *,
    batch_rows: int = BATCH_ROWS,
    progress: Callable[[int], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows, a batch at a time, each with the needed columns in the order named; all columns when None.

    ``progress`` is called with the bytes read so far of all files; for a table in memory never, since its bytes would
    tell how many rows there are.
    """
    before = 0
    for source, size, stream in _streams(rows, needed):
        otherwise = DAMAGED if size is not None else _CUT_SHORT
        while (read := guarded(source, partial(next, stream, None), otherwise=otherwise)) is not None:
            batch, position = read
            for start in range(0, batch.num_rows, batch_rows):
                yield batch.slice(start, batch_rows)
            if progress is not None and size is not None:
                progress(before + min(position, size))
        if size is not None:
            before += size
            if progress is not None:
                progress(before)


def bytes_of(rows: Any) -> int | None:
    """The size of all files together; None where the rows are in memory, or a file cannot be found."""
    if _speaks_arrow(rows):
        return None
    try:
        return sum(path.stat().st_size for path in _paths(rows))
    except (OSError, SourceError):  # whoever reads the rows says what is wrong
        return None


def _speaks_arrow(rows: Any) -> bool:
    return hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__")


def _streams(
    rows: Any, needed: Sequence[str] | None
) -> Iterator[tuple[str, int | None, Iterator[tuple[pa.RecordBatch, int]]]]:
    """The name of each source, its size in bytes if it is a file, and its batches with the bytes read by then."""
    if _speaks_arrow(rows):
        source = f"the {type(rows).__name__}"
        yield source, None, _from_object(source, rows, needed)
        return
    for path in _paths(rows):
        source = repr(str(path))
        names, read = guarded(source, partial(open_file, path))
        yield source, guarded(source, path.stat).st_size, read(_chosen(source, names, needed, is_file=True))


def _from_object(source: str, rows: Any, needed: Sequence[str] | None) -> Iterator[tuple[pa.RecordBatch, int]]:
    if needed is not None and type(rows).__module__.split(".")[0] == "pandas" and hasattr(rows, "columns"):
        # Conversion goes column by column, and one that is not needed may not convert at all.
        names = [str(name) for name in rows.columns]
        chosen = _chosen(source, names, needed)
        rows = rows.loc[:, [name in chosen for name in names]]
    reader = guarded(source, lambda: _reader(rows), otherwise=_NOT_ARROW)
    chosen = _chosen(source, reader.schema.names, needed)
    return ((batch.select(chosen), 0) for batch in reader)


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


def _chosen(source: str, names: Sequence[str], needed: Sequence[str] | None, *, is_file: bool = False) -> list[str]:
    """The needed columns, all of them there and once.

    An error says no name that was found: without a header, the names are the values of the first person.
    """
    header = "; a CSV file must begin with a line of names" if is_file else ""
    if needed is None:
        first = {name: place for place, name in reversed(list(enumerate(names, 1)))}
        twice = next(((first[name], place) for place, name in enumerate(names, 1) if first[name] < place), None)
        if twice is not None:
            raise SourceError(f"{source}: columns {twice[0]} and {twice[1]} have the same name; rename one{header}")
        return list(names)
    times = Counter(names)
    missing = [name for name in needed if name not in times]
    if missing:
        listed = ", ".join(map(repr, missing[:_MOST_NAMES])) + ", ..." * (len(missing) > _MOST_NAMES)
        which = f"{listed} among its {len(names)}; names must be the same letter by letter{header}"
        raise SourceError(f"{source} has no column{'s' * (len(missing) > 1)} {which}")
    for name in needed:
        if times[name] > 1:
            raise SourceError(f"{source} has more than one column {name!r}; rename one of them")
    return list(needed)
