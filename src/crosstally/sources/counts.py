"""Rows into exact counts of many tables: in one pass, or encoded once and counted as often as stages ask."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from io import FileIO
from itertools import accumulate
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.errors import CrosstallyError, SourceError, TooManyCellsError
from crosstally.measurements import ExactTable
from crosstally.query.queries import MAX_CELLS, Cells, Product
from crosstally.schema import Attribute, Outside, Schema
from crosstally.sources.parts import RowsOfShare, Share
from crosstally.sources.reading_options import NO_OPTIONS, Reading
from crosstally.sources.row_cells import Columns, Counting, Kept, kept_rows
from crosstally.sources.source import BATCH_ROWS, KeptRows, Source
from crosstally.threads import in_order, most_threads

__all__ = ["EncodedRows", "KeptCodes", "Tally", "count", "count_share"]

# Codes of rows, kept to be read more than once: in memory first, then in a file without a name.


MEMORY_BYTES = 256 * 2**20
"""The codes of so many bytes stay in memory; those that come after are written to a file. 8 million rows of 32
attributes need no file."""


class KeptCodes:
    """Batches of codes, one to four bytes for each row and attribute; confidential.

    A batch is stored attribute by attribute. The file has no name from the moment it is made (or, where the system
    cannot do that, from the next one), its mode is 0600, and it is gone when it is closed or the process ends, however
    that comes about.
    """

    def __init__(
        self, sizes: Sequence[int], *, work_dir: str | Path | None = None, memory_bytes: int = MEMORY_BYTES
    ) -> None:
        """Room for attributes of these numbers of cells.

        Args:
            sizes: How many cells each attribute has.
            work_dir: The folder of the file; the system's folder for temporary files by default.
            memory_bytes: How many bytes stay in memory.
        """
        self._types = [np.min_scalar_type(size - 1) for size in sizes]
        self._folder = tempfile.gettempdir() if work_dir is None else str(work_dir)
        self._memory_left = memory_bytes
        self._in_memory: list[tuple[int, bytes, bool]] = []  # the last says whether there are weights
        self._in_file: list[tuple[int, int, bool]] = []
        self._file: FileIO | None = None

    def add(self, rows: int, codes: Sequence[NDArray[Any]], weights: NDArray[np.int64] | None = None) -> None:
        """Keep a batch: the number of its rows, the codes of each attribute, and what each row counts for, if not 1."""
        typed = [np.ascontiguousarray(column, kind) for column, kind in zip(codes, self._types, strict=True)]
        if weights is not None:
            typed.append(np.ascontiguousarray(weights, np.int64))
        packed = b"".join([column.data for column in typed])
        if self._file is None and len(packed) <= self._memory_left:
            self._in_memory.append((rows, packed, weights is not None))
            self._memory_left -= len(packed)
            return
        try:
            if self._file is None:
                # Unbuffered: what could not be written is known at once, not when the file is closed.
                self._file = tempfile.TemporaryFile("w+b", buffering=0, dir=self._folder)  # noqa: SIM115 (see close)
            _write(self._file, packed)
        except OSError as error:
            raise self._lost("keep", error) from None
        self._in_file.append((rows, len(packed), weights is not None))

    def close(self) -> None:
        """Let go of everything."""
        self._in_memory.clear()
        self._in_file.clear()
        if self._file is not None:
            self._file.close()

    def batches(self) -> Iterator[tuple[int, list[NDArray[Any]], NDArray[np.int64] | None]]:
        """The batches as they were added."""
        for rows, packed, weighted in self._in_memory:
            yield self._batch(rows, packed, weighted=weighted)
        start = 0
        for rows, length, weighted in self._in_file:
            yield self._batch(rows, self._read(start, length), weighted=weighted)
            start += length

    def _read(self, start: int, length: int) -> bytes:
        assert self._file is not None  # something was written to it
        parts, left = [], length
        try:
            self._file.seek(start)
            while left:
                parts.append(self._file.read(left) or b"")
                left -= len(parts[-1])
                if not parts[-1]:
                    raise SourceError(f"cannot read the codes of rows in {self._folder!r}: the file was cut short")
        except OSError as error:
            raise self._lost("read", error) from None
        return b"".join(parts)

    def _batch(
        self, rows: int, packed: bytes, *, weighted: bool
    ) -> tuple[int, list[NDArray[Any]], NDArray[np.int64] | None]:
        columns = self._columns(rows, packed)
        return rows, columns, np.frombuffer(packed[-8 * rows :], np.int64) if weighted and rows else None

    def _columns(self, rows: int, packed: bytes) -> list[NDArray[Any]]:
        out, start = [], 0
        for kind in self._types:
            out.append(np.frombuffer(packed, kind, rows, start))
            start += rows * kind.itemsize
        return out

    def _lost(self, action: str, error: OSError) -> SourceError:
        reason = os.strerror(error.errno) if error.errno else "the system refuses"
        return SourceError(
            f"cannot {action} the codes of rows in {self._folder!r}: {reason}; "
            "give a folder with more room (work_dir, --work-dir)"
        )


def _write(file: FileIO, packed: bytes) -> None:
    """Write everything: a nearly full disk takes a part, and only the next write is an error."""
    view = memoryview(packed)
    while view:
        view = view[file.write(view) :]


# The counts of many tables, to which batches of rows are added.


# Bytes of counts that all threads together may hold, since each has its own. Chosen to limit memory: with the most
# cells that may be counted at once, 40 MB of them, six threads count.
_COUNTS_BYTES = 256 * 2**20


def tallied(
    rows: Iterable[Kept], names: Sequence[str], schema: Schema, tables: Sequence[Product], batch_rows: int
) -> tuple[ExactTable, ...]:
    """The exact counts of each table, in order, counted in threads.

    Whole numbers add up to the same in any order: the counts do not depend on the number of threads.

    Args:
        rows: Batches of at most ``batch_rows`` rows.
        names: The attributes of their cells.
        schema: Of all tables.
        tables: What to count.
        batch_rows: See rows.
    """
    cells = sum(math.prod(table.shape(schema)) for table in tables)
    threads = max(1, min(most_threads(), _COUNTS_BYTES // (8 * max(cells, 1))))
    whole = Tally(schema, tables, batch_rows)
    made, idle = [whole], SimpleQueue[Tally]()
    idle.put(whole)

    def add(kept: Kept) -> None:
        size, codes, weights = kept
        try:
            tally = idle.get_nowait()
        except Empty:  # every one is in another thread's hands
            tally = Tally(schema, tables, batch_rows)
            made.append(tally)
        tally.add(size, dict(zip(names, codes, strict=True)), weights)
        idle.put(tally)

    for _ in in_order(add, rows, threads=threads):
        pass
    for other in made[1:]:
        whole.merge(other)
    return whole.tables()


class Tally:
    """Growing counts of many tables; confidential, like the tables that come of it."""

    def __init__(self, schema: Schema, tables: Sequence[Product], batch_rows: int) -> None:
        from crosstally.kernels import counting

        self._schema, self._tables = schema, tables
        parts: tuple[list[Product], list[Product]] = ([], [])
        for table in tables:
            shape = table.shape(schema)
            is_small = math.prod(shape) <= counting.SMALL_CELLS and max(shape, default=0) <= counting.SMALL_SIZE
            if table.attributes:
                parts[0 if is_small else 1].append(table)
        self._rows, self._batch_rows = 0, batch_rows
        self._weighted: _Part | None = None
        self._small = _Part(schema, parts[0], np.empty((0, batch_rows), np.uint8), counting.count_small)
        self._large = _Part(schema, parts[1], np.empty((0, batch_rows), np.uint32), counting.count_large)

    def add(self, rows: int, cells: Mapping[str, NDArray[Any]], weights: NDArray[np.int64] | None = None) -> None:
        """Count a batch of at most ``batch_rows`` rows, given the cell of each by attribute.

        Each stands for as many rows as ``weights`` say, for one where they are not given.
        """
        if weights is not None:
            self._rows += int(weights.sum())
            self._of_weights().add(rows, cells, weights)
            return
        self._rows += rows
        self._small.add(rows, cells)
        self._large.add(rows, cells)

    def merge(self, other: Tally) -> None:
        """Take in what another counted of the same tables."""
        self._rows += other._rows
        self._small.counts += other._small.counts
        self._large.counts += other._large.counts
        if other._weighted is not None:
            self._of_weights().counts += other._weighted.counts

    def _of_weights(self) -> _Part:
        if self._weighted is None:
            from crosstally.kernels.counting import count_weighted

            tables = [table for table in self._tables if table.attributes]
            empty = np.empty((0, self._batch_rows), np.uint32)
            self._weighted = _Part(self._schema, tables, empty, count_weighted)
        return self._weighted

    def tables(self) -> tuple[ExactTable, ...]:
        """The counts so far, in the order of the tables asked for."""
        counts = {**self._small.counts_by_table(), **self._large.counts_by_table()}
        if self._weighted is not None:
            counts = {table: counts[table] + more for table, more in self._weighted.counts_by_table().items()}
        total = np.array(self._rows, np.int64)
        schemas = {names: self._schema.subset(*names) for names in dict.fromkeys(t.attributes for t in self._tables)}
        return tuple(
            ExactTable(schemas[table.attributes], counts.get(table, total), table.groups) for table in self._tables
        )


class _Part:
    """Tables that one kernel counts, and their cells one after another.

    A line of codes is an attribute, or the groups of one: two tables may have both.
    """

    def __init__(
        self, schema: Schema, tables: Sequence[Product], empty: NDArray[Any], kernel: Callable[..., None]
    ) -> None:
        sizes: dict[tuple[str, tuple[int, ...] | None], int] = {}
        members = []
        for table in tables:
            maps = dict(table.groups)
            for name, size in zip(table.attributes, table.shape(schema), strict=True):
                members.append((name, maps.get(name)))
                sizes[members[-1]] = size
        lines = {line: number for number, line in enumerate(sizes)}
        shapes = [table.shape(schema) for table in tables]
        self._kernel = kernel
        self._tables, self._shapes = tables, shapes
        self._lines = [(name, None if maps is None else np.array(maps, empty.dtype)) for name, maps in sizes]
        self._codes = np.empty((len(sizes), empty.shape[1]), empty.dtype)
        self._sizes = np.array(list(sizes.values()), np.int64)
        self._members = np.array([lines[each] for each in members], np.int64)
        self._starts = np.array([0, *accumulate(map(len, shapes))], np.int64)
        self._offsets = np.array([0, *accumulate(map(math.prod, shapes))], np.int64)
        self.counts = np.zeros(self._offsets[-1], np.int64)

    def add(self, rows: int, cells: Mapping[str, NDArray[Any]], weights: NDArray[np.int64] | None = None) -> None:
        """Count a batch."""
        if not self._tables or not rows:
            return
        for line, (name, groups) in enumerate(self._lines):
            self._codes[line, :rows] = cells[name] if groups is None else groups[cells[name]]
        number = rows if weights is None else np.array(weights, np.int64)  # a copy, since Arrow's arrays are read-only
        self._kernel(self._codes, number, self._sizes, self._members, self._starts, self._offsets, self.counts)

    def counts_by_table(self) -> dict[Product, NDArray[np.int64]]:
        """The counts of each table."""
        parts = zip(self._tables, self._shapes, self._offsets[:-1], self._offsets[1:], strict=True)
        return {table: self.counts[start:end].reshape(shape) for table, shape, start, end in parts}


def count(
    source: Source,
    schema: Schema,
    tables: Sequence[Product | Sequence[str]],
    *,
    reading: Reading = NO_OPTIONS,
    refuse_unclear: bool = True,
    progress: Callable[[int], None] | None = None,
    batch_rows: int = BATCH_ROWS,
) -> tuple[ExactTable, ...]:
    """The exact counts of each table, in order; the table over no attributes is the number of rows.

    All tables are of the same rows: a row that one attribute's rule drops is in none of them. Where the schema has a
    unit, each unit counts with at most ``max_rows`` of its rows, and rows without an id are left out. Where it has a
    reading, columns are found and values are read by it; the tables hold the schema without it.

    Args:
        source: The rows, of any kind (``sources.count`` takes whatever ``source_of`` knows).
        schema: The attributes and the unit of protection.
        tables: Names of attributes, or cells, which may count groups of values.
        reading: How the rows are written, where the schema's reading does not say it.
        refuse_unclear: Whether numbers that may be meant in two ways are refused; else they have a decimal point.
        progress: Called with the number of bytes read so far of all files; never for a table in memory.
        batch_rows: How many rows are counted at once.
    """
    columns, asked, needed = _prepared(schema, tables)
    by_itself = source.count(
        Counting(
            columns=columns,
            attributes=tuple(needed),
            reading=columns.written(reading),
            refuse_unclear=refuse_unclear,
            batch_rows=batch_rows,
        ),
        asked,
    )
    if by_itself is not None:
        return by_itself
    read = columns.batches(
        source, reading=reading, refuse_unclear=refuse_unclear, progress=progress, batch_rows=batch_rows, may_group=True
    )
    with closing(read):
        return _counted(read, columns, needed, asked, batch_rows)


def count_share(
    source: Source,
    schema: Schema,
    tables: Sequence[Product | Sequence[str]],
    share: Share,
    *,
    reading: Reading = NO_OPTIONS,
    progress: Callable[[int], None] | None = None,
    batch_rows: int = BATCH_ROWS,
) -> tuple[tuple[ExactTable, ...], str]:
    """The exact counts of one share of the rows, and a digest of what all shares must have seen alike.

    The counts of all shares add up to those of ``count``, whose arguments these are.
    """
    columns, asked, needed = _prepared(schema, tables)
    ours = RowsOfShare(source, columns, share)
    read = columns.batches(ours.source, reading=reading, progress=progress, batch_rows=batch_rows)
    with closing(read):
        return _counted(ours.chosen(read), columns, needed, asked, batch_rows), ours.digest


def _prepared(
    schema: Schema, tables: Sequence[Product | Sequence[str]]
) -> tuple[Columns, list[Product], list[Attribute]]:
    """The columns of a schema, the tables as queries, and the attributes whose cells must be known to count them."""
    columns, schema = Columns.of(schema), schema.public()
    asked = _asked(schema, tables)
    used = {name for table in asked for name in table.attributes}
    needed = [
        attribute
        for attribute in schema.attributes
        if schema.unit is not None or attribute.name in used or attribute.outside is not Outside.OTHER
    ]
    return columns, asked, needed


def _counted(
    read: Iterable[pa.RecordBatch],
    columns: Columns,
    needed: Sequence[Attribute],
    asked: Sequence[Product],
    batch_rows: int,
) -> tuple[ExactTable, ...]:
    names = [attribute.name for attribute in needed]
    with closing(kept_rows(read, columns, needed, batch_rows)) as kept:
        return tallied(kept, names, columns.schema.public(), asked, batch_rows)


class EncodedRows:
    """The rows of a source as they count, read once and encoded; confidential.

    Every stage of a plan counts from these: a source that has other rows the second time, or none, is not asked again.
    """

    def __init__(
        self,
        source: Source,
        schema: Schema,
        *,
        reading: Reading = NO_OPTIONS,
        work_dir: str | Path | None = None,
        progress: Callable[[int], None] | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        """Read the rows of a source, all attributes of the schema; arguments as for ``count``.

        ``work_dir`` is where codes go that do not fit into memory (``KeptCodes``).
        """
        columns, schema = Columns.of(schema), schema.public()
        self._schema = schema
        written = columns.written(reading)
        counting = Counting(columns=columns, attributes=schema.attributes, reading=written, batch_rows=batch_rows)
        self._kept = source.keep(counting) or _KeptHere(source, counting, work_dir=work_dir, progress=progress)

    def close(self) -> None:
        """Let go of the rows."""
        self._kept.close()

    def __reduce__(self) -> NoReturn:
        raise CrosstallyError("encoded rows are confidential and cannot be pickled or copied to another process")

    def count(self, tables: Sequence[Product | Sequence[str]]) -> tuple[ExactTable, ...]:
        """The exact counts of each table, in order, as ``count`` gives them for the same rows."""
        return self._kept.count(_asked(self._schema, tables))


class _KeptHere(KeptRows):
    """The rows of a source encoded in memory and, where they do not fit, in a file; confidential."""

    def __init__(
        self,
        source: Source,
        counting: Counting,
        *,
        work_dir: str | Path | None,
        progress: Callable[[int], None] | None,
    ) -> None:
        columns, size = counting.columns, counting.batch_rows
        self._schema, self._batch_rows = columns.schema.public(), size
        read = columns.batches(source, reading=counting.reading, progress=progress, batch_rows=size, may_group=True)
        self._codes = KeptCodes(self._schema.shape, work_dir=work_dir)
        try:
            with closing(read), closing(kept_rows(read, columns, counting.attributes, size)) as kept:
                for rows, cells, weights in kept:
                    self._codes.add(rows, cells, weights)
        except BaseException:
            self.close()
            raise

    def count(self, tables: Sequence[Product]) -> tuple[ExactTable, ...]:
        return tallied(self._codes.batches(), self._schema.names, self._schema, tables, self._batch_rows)

    def close(self) -> None:
        self._codes.close()


def _asked(schema: Schema, tables: Sequence[Product | Sequence[str]]) -> list[Product]:
    """The tables as queries, once they are known to fit into memory together."""
    asked = [table if isinstance(table, Product) else Cells(table) for table in tables]
    cells = sum(math.prod(table.shape(schema)) for table in asked)
    if cells > MAX_CELLS:
        raise TooManyCellsError(f"at most {MAX_CELLS:,} cells can be counted at once, got {cells:,}; count in parts")
    return asked
