"""Files as a source: Arrow record batches, each file by the end of its name. No error is worded by its content."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from glob import glob, has_magic
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa

from crosstally.errors import SourceError
from crosstally.plans.plan import Plan
from crosstally.sources.guard import DAMAGED, guarded
from crosstally.sources.parts import merge_parts
from crosstally.sources.reading_options import Reading
from crosstally.sources.source import OpenedFile, RowStream, Scan, Source, chosen_columns
from crosstally.sources.text_files import COMPRESSIONS, open_text

_Batches = Generator[tuple[pa.RecordBatch, int]]
_READ_ROWS = 65_536  # rows of a batch: limits memory, as in ``rows``. Counts do not depend on it
# What a Parquet file may claim. No table of people comes near: more rows take days, a larger row group fits no memory.
MOST_COLUMNS, MOST_ROWS, MOST_GROUP_BYTES = 100_000, 10**11, 2**38
_TITLE_LINES = 5  # lines that may stand before the names and are looked past for an error to say so
_ENDINGS = {
    "text": (".csv", ".tsv", ".tab", ".txt"),
    "parquet": (".parquet", ".pq"),
    "ipc": (".arrow", ".arrows", ".feather", ".ipc"),
    "sheet": (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"),
    "statistics": (".sav", ".zsav", ".por", ".sas7bdat", ".xpt", ".dta"),
    "sqlite": (".sqlite", ".sqlite3", ".db"),
    "duckdb": (".duckdb",),
}
"""The ends of files' names by which they are read."""
_KINDS = {ending: kind for kind, endings in _ENDINGS.items() for ending in endings}


class Files(Source):
    """Rows in files: a path, a folder, a glob, or a list of them."""

    is_read_again = True

    def __init__(self, rows: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> None:
        self._rows = rows

    def streams(self, scan: Scan) -> Iterator[RowStream]:
        """The files in their order; raises where one changes while it is read."""
        for path in paths_of(self._rows):
            source = repr(str(path))
            before = guarded(source, path.stat)
            names, read = guarded(source, partial(open_file, path, scan.reading, scan.columns))
            if scan.columns is not None and not set(scan.columns) <= set(names):
                _check_title(path, scan.reading, scan.columns)
            chosen = chosen_columns(source, names, scan.columns, is_text=kind_of(path) == "text")
            yield RowStream(source, before.st_size, _unchanged(path, before, read(chosen)))

    def size(self) -> int | None:
        """The bytes of all files together; None where one cannot be found."""
        try:
            return sum(path.stat().st_size for path in paths_of(self._rows))
        except (OSError, SourceError):  # whoever reads the rows says what is wrong
            return None

    def text_files(self) -> list[Path]:
        """The text files among them."""
        return [path for path in paths_of(self._rows) if kind_of(path) == "text"]

    def shared(self, number: int, of: int, *, by_unit: bool) -> tuple[Source, str, list[tuple[str, int]]]:
        """Whole files where there is one for every share, and otherwise rows by their number, or by their unit."""
        paths = paths_of(self._rows)
        files = [(path.name, guarded(repr(str(path)), path.stat).st_size) for path in paths]
        by_file = not by_unit and len(paths) >= of > 1
        mine = paths[number - 1 :: of] if by_file else paths
        return Files(mine), "file" if by_file else "unit" if by_unit else "row", files


class Parts(Source):
    """The files of all parts of one source. A release takes them as its source, with the plan they were counted for.

    They have no rows, and their counts once the plan is known for which they were made.

    Args:
        paths: A path, a glob, or a list of them; all n parts, in any order.

    >>> Parts("part-*.counts")
    Parts('part-*.counts')
    """

    needs_plan = True

    def __init__(self, paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> None:
        self.paths = paths

    def __repr__(self) -> str:
        return f"Parts({self.paths!r})"

    def streams(self, scan: Scan) -> Iterator[RowStream]:  # noqa: ARG002
        """Raise: there are no rows."""
        raise SourceError("Parts hold counts and no rows: give them to a release, with the plan they were counted for")

    def for_plan(self, plan: Plan) -> Parts:
        """The same parts with the sum of all of them."""
        summed = Parts(self.paths)
        summed.merged = merge_parts(paths_of(self.paths), plan)
        summed.rows_are_units = summed.merged.origin.rows_are_units
        return summed

    def joins(self, unit: str | None) -> Mapping[str, str]:  # noqa: ARG002
        """As they were when the parts were counted."""
        return {} if self.merged is None else self.merged.origin.joins


def paths_of(rows: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """The files that rows are in."""
    given = [rows] if isinstance(rows, str | os.PathLike) else rows
    return [path for each in given for path in _expanded(str(each))]


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


def _check_title(path: Path, reading: Reading, needed: Sequence[str]) -> None:
    """Raise where a title stands before the names: one of the next lines has all that are needed."""
    if reading.header is not None or kind_of(path) not in ("text", "sheet"):
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


def _unchanged(path: Path, before: os.stat_result, stream: Iterator[tuple[pa.RecordBatch, int]]) -> _Batches:
    """The stream of a file; raises after the last batch where the file is not what it was before the first."""
    yield from stream
    after = path.stat()
    same = [(each.st_ino, each.st_size, each.st_mtime_ns) for each in (before, after)]
    if stat.S_ISREG(before.st_mode) and same[0] != same[1]:
        raise SourceError(
            f"{str(path)!r} changed while it was read, so that no one moment's rows were counted; nothing was spent: "
            "try again when nobody writes to it"
        )


def open_file(path: Path, reading: Reading, needed: Sequence[str] | None) -> OpenedFile:
    """The names of a file's columns, and a function that reads some of them.

    The names may be a person's: a text file without a header has a row in their place. The needed ones are looked for
    in a text file's first lines, to see how it is separated.
    """
    if path.exists() and not path.is_file():  # its format is looked at first, and then its rows are read
        raise SourceError(f"{str(path)!r} is a pipe or a device, which can be read once; save it as a file first")
    kind = kind_of(path)
    if kind is None:
        packed = ", ".join(COMPRESSIONS)
        raise SourceError(f"{str(path)!r} must end in one of {', '.join(_KINDS)}; texts may be packed ({packed})")
    if kind == "text":
        return open_text(path, reading, needed)
    if kind in ("sheet", "statistics"):
        from crosstally.sources.apart import open_apart

        return open_apart(kind, path, reading)
    if kind in ("sqlite", "duckdb"):
        from crosstally.sources.drivers import open_tables

        return open_tables(kind, path, reading)
    return _open_parquet(path) if kind == "parquet" else _open_ipc(path)


def ending_of(path: Path) -> str | None:
    """The end of a file's name by which it is read, in small letters and without that of a compression, if any is."""
    name = path.name.lower()
    packed = next((end for end in COMPRESSIONS if name.endswith(end)), "")
    return next(
        (
            ending
            for ending, kind in _KINDS.items()
            if name.endswith(ending) or (kind == "text" and name.endswith(ending + packed))
        ),
        None,
    )


def kind_of(path: Path) -> str | None:
    """What kind of file it is by the end of its name; None for any other."""
    return _KINDS.get(ending_of(path) or "")


def _open_parquet(path: Path) -> OpenedFile:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        metadata = file.metadata
        _check_extent(path, metadata)
        schema = file.schema_arrow
    texts = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]

    def read(chosen: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        # Texts that repeat are stored once in the file: reading them so is several times faster.
        repeated = [name for name in texts if name in chosen]
        rows, ends = 0, _ends_of_groups(metadata, path.stat().st_size)
        # Without pre_buffer: it would keep the bytes of all row groups until the last batch has come.
        with parquet.ParquetFile(path, read_dictionary=repeated, pre_buffer=False) as file:
            for batch in file.iter_batches(_READ_ROWS, columns=list(chosen)):
                rows += batch.num_rows
                yield batch.select(chosen), max((end for last, end in ends if last <= rows), default=0)

    return schema.names, read


def _check_extent(path: Path, metadata: Any) -> None:
    """Raise where a Parquet file says that it has more than is read; a few bytes can say any number."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    said = (
        ("columns", metadata.num_columns, MOST_COLUMNS),
        ("rows", max(metadata.num_rows, sum(group.num_rows for group in groups)), MOST_ROWS),
        ("bytes in a row group", max((group.total_byte_size for group in groups), default=0), MOST_GROUP_BYTES),
    )
    for what, number, most in said:
        if number > most:
            raise SourceError(f"cannot read {str(path)!r}: it claims more than the {most:,} {what} that are read")
    if any(group.num_rows < 0 or group.total_byte_size < 0 for group in groups):
        raise SourceError(f"cannot read {str(path)!r}: {DAMAGED}")


def _ends_of_groups(metadata: Any, size: int) -> list[tuple[int, int]]:
    """Where each row group of a Parquet file of this size ends: in rows, and in bytes as if all groups were alike.

    In proportion to the rows of a batch or of a group, bytes would tell how many rows the file has. The columns of a
    group are not asked for their sizes: where their metadata is damaged, pyarrow ends the process.
    """
    number = metadata.num_row_groups
    rows = accumulate(metadata.row_group(i).num_rows for i in range(number))
    return [(last, size * (i + 1) // number) for i, last in enumerate(rows)]


def _open_ipc(path: Path) -> OpenedFile:
    with pa.OSFile(str(path)) as file:
        is_stream = file.read(6) != b"ARROW1"
    opened = pa.ipc.open_stream if is_stream else pa.ipc.open_file
    with pa.OSFile(str(path)) as file:
        names = opened(file).schema.names

    def read(chosen: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        options = pa.ipc.IpcReadOptions(included_fields=[names.index(name) for name in chosen])
        with pa.OSFile(str(path)) as file:
            reader = opened(file, options=options)
            number = 0 if is_stream else reader.num_record_batches
            for i, batch in enumerate(reader if is_stream else map(reader.get_batch, range(number)), 1):
                batch.validate(
                    full=True
                )  # lengths and indices are the file's, and a wrong one would read foreign memory
                yield batch.select(chosen), file.tell() if is_stream else file.size() * i // number

    return names, read
