"""Rows from anywhere as one stream of Arrow record batches: files, folders, globs, queries, and tables in memory."""

from __future__ import annotations

import contextlib
import os
import stat
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import pyarrow as pa

from crosstally.errors import SourceError
from crosstally.sources.databases import Database, plain_columns, read_query
from crosstally.sources.files import ending_of, has_lines, is_text_file, open_file
from crosstally.sources.grouped_query import WEIGHT
from crosstally.sources.guard import DAMAGED, guarded
from crosstally.sources.numbers import Numbers
from crosstally.sources.one_select import AnyUnit
from crosstally.sources.option_words import how_to_say
from crosstally.sources.reading import Reading
from crosstally.sources.spark import frame_of, is_spark, names_in, read_frame
from crosstally.sources.table_objects import NOT_ARROW, check_rows, is_table, names_of, reader_of

__all__ = ["AS_IT_IS", "BATCH_ROWS", "batches", "bytes_of", "chosen_columns", "paths_of"]

# Rows of a batch: limits memory, large enough for the time of a batch to be that of its rows. Counts do not depend
# on it.
BATCH_ROWS = 65_536
Stream = Generator[tuple[pa.RecordBatch, int]]
"""Batches, each with the bytes of the file that were read by then; closing it closes the source."""
_CUT_SHORT = "its rows ended in an error"
_TITLE_LINES = 5  # lines that may stand before the names and are looked past for an error to say so
_MOST_NAMES = 8  # names of columns in one error: more do not fit a line
AS_IT_IS = Reading()
"""Nothing is said of how a source is written."""


def batches(
    rows: Any,
    needed: Sequence[str] | None,
    *,
    reading: Reading = AS_IT_IS,
    numeric: Sequence[str] = (),
    verbatim: Sequence[str] = (),
    batch_rows: int = BATCH_ROWS,
    progress: Callable[[int], None] | None = None,
    may_group: bool = False,
    unit: str | AnyUnit | None = None,
) -> Generator[pa.RecordBatch]:
    """The rows, a batch at a time, each with the needed columns in the order named; all columns when None.

    Texts in the ``numeric`` columns must be numbers in one way alone, or ``reading`` must say in which: after the last
    batch an error says so. The ``verbatim`` columns stay as they are written: two ids that a style would make one
    number belong to two people. ``progress`` is called with the bytes read so far of all files; for a table in memory
    never, since its bytes would tell how many rows there are. With ``may_group`` a database may send equal rows once,
    with a column more, ``WEIGHT``, that says how many they are. ``unit`` is the column of the unit's id, if any.
    """
    before = 0
    numbers = Numbers(reading, numeric, verbatim)
    for source, size, stream in _streams(rows, needed, reading, may_group=may_group, unit=unit):
        otherwise = DAMAGED if size is not None else _CUT_SHORT
        with contextlib.closing(stream):  # also when whoever counts the rows refuses one
            while (read := guarded(source, partial(next, stream, None), otherwise=otherwise)) is not None:
                batch, position = read
                batch = guarded(source, partial(numbers.plain, batch))
                for start in range(0, batch.num_rows, batch_rows):
                    yield batch.slice(start, batch_rows)
                if progress is not None and size is not None:
                    progress(before + min(position, size))
        if size is not None:
            before += size
            if progress is not None:
                progress(before)
    numbers.check()


def bytes_of(rows: Any) -> int | None:
    """The size of all files together; None where the rows are in memory, or a file cannot be found."""
    if is_spark(rows) or is_table(rows) or isinstance(rows, Database):
        return None
    try:
        return sum(path.stat().st_size for path in paths_of(rows))
    except (OSError, SourceError):  # whoever reads the rows says what is wrong
        return None


def _streams(
    rows: Any, needed: Sequence[str] | None, reading: Reading, *, may_group: bool, unit: str | AnyUnit | None
) -> Iterator[tuple[str, int | None, Stream]]:
    """The name of each source, its size in bytes if it is a file, and its batches with the bytes read by then."""
    if is_spark(rows):  # it speaks Arrow too, and would bring all rows here at once
        yield "the DataFrame", None, _from_spark(rows, needed)
        return
    if is_table(rows):
        source = f"the {type(rows).__name__}"
        check_rows(rows, unit)
        yield source, None, _from_table(source, rows, needed)
        return
    if isinstance(rows, Database):
        yield "the database", None, _from_database(rows, needed, may_group=may_group, unit=unit)
        return
    for path in paths_of(rows):
        source = repr(str(path))
        before = guarded(source, path.stat)
        names, read = guarded(source, partial(open_file, path, reading, needed))
        if needed is not None and not set(needed) <= set(names):
            _check_title(path, reading, needed)
        chosen = chosen_columns(source, names, needed, is_text=is_text_file(path))
        yield source, before.st_size, _unchanged(path, before, read(chosen))


def _check_title(path: Path, reading: Reading, needed: Sequence[str]) -> None:
    """Raise where a title stands before the names: one of the next lines has all that are needed."""
    if reading.header is not None or not has_lines(path):
        return
    found = 0
    for line in range(2, _TITLE_LINES + 2):
        names: Sequence[str] = ()
        with contextlib.suppress(SourceError):
            names, _ = guarded(repr(str(path)), partial(open_file, path, replace(reading, header=line), needed))
        if set(needed) <= set(names):
            found = line  # and not the blank lines before it, which a text's reader skips
        elif found:
            break
    if not found:
        return
    raise SourceError(
        f"{str(path)!r} has its names in line {found}, after a title: say --header {found} (in Python: "
        f"Reading(header={found}))"
    )


def _unchanged(path: Path, before: os.stat_result, stream: Iterator[tuple[pa.RecordBatch, int]]) -> Stream:
    """The stream of a file; raises after the last batch where the file is not what it was before the first."""
    yield from stream
    after = path.stat()
    same = [(each.st_ino, each.st_size, each.st_mtime_ns) for each in (before, after)]
    if stat.S_ISREG(before.st_mode) and same[0] != same[1]:
        raise SourceError(
            f"{str(path)!r} changed while it was read, so that no one moment's rows were counted; nothing was spent: "
            "try again when nobody writes to it"
        )


def _from_table(source: str, rows: Any, needed: Sequence[str] | None) -> Stream:
    names = guarded(source, partial(names_of, rows), otherwise=NOT_ARROW)
    chosen = None if names is None else chosen_columns(source, names, needed)
    reader = guarded(source, partial(reader_of, rows, chosen), otherwise=NOT_ARROW)
    chosen = chosen_columns(source, reader.schema.names, needed)
    return ((batch.select(chosen), 0) for batch in reader)


def _from_database(
    rows: Database, needed: Sequence[str] | None, *, may_group: bool, unit: str | AnyUnit | None
) -> Stream:
    choose = partial(chosen_columns, "the query", needed=needed)
    with read_query(rows, choose if may_group else None, unit=unit) as (names, found):
        chosen = [*choose([name for name in names if name != WEIGHT]), *(name for name in names if name == WEIGHT)]
        for batch in found:
            yield plain_columns(batch.select(chosen)), 0


def _from_spark(rows: Any, needed: Sequence[str] | None) -> Stream:
    frame = frame_of(rows)
    names = names_in(frame)
    chosen = chosen_columns("the DataFrame", names, needed)
    return ((batch, 0) for batch in read_frame(frame, names, chosen))


def paths_of(rows: Any) -> list[Path]:
    """The files that rows are in."""
    if isinstance(rows, str | os.PathLike):
        return _expanded(str(rows))
    if isinstance(rows, Sequence) and rows and all(isinstance(each, str | os.PathLike) for each in rows):
        return [path for each in rows for path in _expanded(str(each))]
    raise SourceError(
        "rows must be a path, a folder, a glob, a list of them, or a table of pandas, Polars, DuckDB or PyArrow, "
        f"got {type(rows).__name__}"
    )


def _expanded(path: str) -> list[Path]:
    if guarded(repr(path), Path(path).is_dir):
        return guarded(repr(path), partial(_files_in, Path(path)))
    if not has_magic(path) or guarded(repr(path), Path(path).exists):
        return [Path(path)]
    found = sorted(glob(path, recursive=True))  # noqa: PTH207 (Path.glob takes no absolute pattern)
    if not found:
        raise SourceError(f"no file matches {path!r}")
    return [Path(each) for each in found]


def _files_in(folder: Path) -> list[Path]:
    """The files of a folder, all of one kind, but for those whose names begin with a point or an underscore."""
    inside = [path for path in sorted(folder.iterdir()) if not path.name.startswith((".", "_"))]
    files = [path for path in inside if path.is_file() and ending_of(path) is not None]
    kinds = sorted({str(ending_of(path)) for path in files})
    logs = [path for path in folder.iterdir() if path.is_dir()]
    if len(kinds) == 1 and not logs:
        return files
    # Several kinds may be copies of the same people, and a table with a log keeps files of rows that were deleted.
    what = "folders" if logs else f"files in {', '.join(kinds)}" if kinds else "no file of a known kind"
    raise SourceError(f"{str(folder)!r} holds {what}; name the files, for example {str(folder / '*.parquet')!r}")


def chosen_columns(
    source: str, names: Sequence[str], needed: Sequence[str] | None, *, is_text: bool = False
) -> list[str]:
    """The needed columns, all of them there and once.

    An error says no name that was found: without a header, the names are the values of the first person.
    """
    header = f"; a text file must begin with a line of names, else say {how_to_say('header')}" if is_text else ""
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
