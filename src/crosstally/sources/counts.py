"""From coded rows to exact counts of many tables: contribution bounds, codes kept for later stages, and counting.

The reader of a source passes its rows as ``CodedRows``; how values become codes is not known here.

The contribution bound keeps the rows of each unit with the smallest hashes. Which rows are kept depends only on the
unit's own rows, not on their order, the size of batches, or other units. Equal rows are kept as often as they occur,
within the bound.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
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
from crosstally.query.summed import ROWS
from crosstally.query.unit_table import CountedTable, UnitTable
from crosstally.schema import Schema, Unit
from crosstally.sources.table_parts import Column, SumsPart, TablePart, check_codes, tables_in
from crosstally.threads import in_order, most_threads

UNIT_ROWS = ""  # no attribute has this name
"""The last column of rows that count, where there are units: on one row of each how many rows the unit has in all, and
0 on its others. Where each unit is divided over its rows, the number is on all of them, and says how they count."""
BATCH_ROWS = 65_536
"""Rows of a batch: limits memory, and is large enough for a batch's time to be that of its rows. No count depends on
it."""


@dataclass(frozen=True, slots=True, eq=False)
class CodedRows:
    """Some rows of a source, each as the code of its cell in each attribute; confidential.

    A row stands for as many rows as its weight says, for one without ``weights``. ``ids`` are those of the rows' units
    as texts (large_string): equal for rows of one unit, null where the unit is not known.
    """

    size: int
    codes: Sequence[NDArray[Any]]
    _: KW_ONLY
    weights: NDArray[np.int64] | None = None
    ids: pa.Array | None = None

    def where(self, kept: NDArray[np.bool_]) -> CodedRows:
        """Some of the rows."""
        return CodedRows(
            int(kept.sum()),
            [codes[kept] for codes in self.codes],
            weights=None if self.weights is None else self.weights[kept],
            ids=None if self.ids is None else self.ids.filter(pa.array(kept)),
        )


# Limits memory: a million rows wait before they are thinned to the bound. The rows kept do not depend on it.
_PENDING_ROWS = 1 << 20
_MOST_SHOWN = 2**32 - 1  # rows of one unit, in 32 bits; with so many each counts nothing where units are divided
_ALL_ROWS = 2**62  # of a unit that is divided over all its rows: how each counts is known only when all are there


class Bound:
    """The rows of each unit kept so far; confidential.

    It holds only the rows that are kept, and as many again before they are thinned out. Where units are divided over
    their rows, all are kept: how a row counts is known only when all rows of its unit are there.
    """

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self._ids = pa.array([], pa.large_string())
        self._rows_of_units = np.empty(0, np.int64)
        self._units = np.empty(0, np.int64)
        self._hashes = np.empty(0, np.uint64)
        self._cells: list[NDArray[Any]] | None = None
        self._pending: list[tuple[pa.Array, NDArray[np.uint64], Sequence[NDArray[Any]]]] = []
        self._pending_rows = 0

    def add(self, rows: CodedRows) -> None:
        """Add a batch; rows whose unit is not known are dropped."""
        assert rows.ids is not None  # otherwise the unit of a row is unknown
        assert rows.weights is None  # a unit's rows come one by one
        if rows.ids.null_count:
            rows = rows.where(rows.ids.is_valid().to_numpy(zero_copy_only=False))
        self._pending.append((rows.ids, row_hashes(rows.codes, rows.size), rows.codes))
        self._pending_rows += rows.size
        if self._pending_rows > max(_PENDING_ROWS, len(self._units)):
            self._thin()

    def kept(self, batch_rows: int) -> Iterator[CodedRows]:
        """The rows kept, a batch at a time, with the column ``UNIT_ROWS`` behind their codes."""
        self._thin()
        is_first = np.append(True, self._units[1:] != self._units[:-1])[: len(self._units)]  # rows are sorted by unit
        shown = is_first | self.unit.divided
        rows = np.where(shown, np.minimum(self._rows_of_units[self._units], _MOST_SHOWN), 0).astype(np.uint32)
        for start in range(0, len(self._units), batch_rows):
            size = min(batch_rows, len(self._units) - start)
            yield CodedRows(size, [codes[start : start + size] for codes in (*(self._cells or ()), rows)])

    def _thin(self) -> None:
        if not self._pending:
            return
        ids, hashes, cells = zip(*self._pending, strict=True)
        # The units known so far come first and differ, so that their numbers stay what they are.
        encoded = pa.concat_arrays([self._ids, *ids]).dictionary_encode()
        new_units = encoded.indices.to_numpy()[len(self._ids) :]
        counted = np.bincount(new_units, minlength=len(encoded.dictionary))
        counted[: len(self._rows_of_units)] += self._rows_of_units
        self._rows_of_units = counted
        units = np.concatenate([self._units, new_units])
        all_hashes = np.concatenate([self._hashes, *hashes])
        before = self._cells or [column[:0] for column in cells[0]]
        columns = [np.concatenate(parts) for parts in zip(before, *cells, strict=True)]
        rows = smallest(units, all_hashes, columns, _ALL_ROWS if self.unit.divided else self.unit.max_rows)
        self._ids, self._units, self._hashes = encoded.dictionary, units[rows], all_hashes[rows]
        self._cells = [column[rows] for column in columns]
        self._pending, self._pending_rows = [], 0


def bounded(rows: Iterable[CodedRows], unit: Unit | None, batch_rows: int) -> Iterator[CodedRows]:
    """The rows that count: all of them or, under a contribution bound, some of each unit (see ``Bound.kept``)."""
    if unit is None:
        yield from rows
        return
    bound = Bound(unit)
    for each in rows:
        bound.add(each)
    yield from bound.kept(batch_rows)


def row_hashes(columns: Sequence[NDArray[Any]], rows: int) -> NDArray[np.uint64]:
    """A hash of each row's cells; equal rows have equal hashes, whatever the width of the codes."""
    hashes = np.full(rows, 0x9E3779B97F4A7C15, np.uint64)
    for column in columns:
        hashes ^= column
        hashes *= np.uint64(0xBF58476D1CE4E5B9)
        hashes ^= hashes >> np.uint64(29)
    hashes *= np.uint64(0x94D049BB133111EB)
    hashes ^= hashes >> np.uint64(32)
    return hashes


def smallest(
    units: NDArray[np.int64], hashes: NDArray[np.uint64], columns: Sequence[NDArray[Any]], most: int
) -> NDArray[np.int64]:
    """Which rows to keep: of each unit those with the smallest hashes, and of equal hashes the smallest cells."""
    order = np.lexsort((hashes, units))
    same = (units[order][1:] == units[order][:-1]) & (hashes[order][1:] == hashes[order][:-1])
    if any((column[order][1:] != column[order][:-1])[same].any() for column in columns):
        order = np.lexsort((*reversed(columns), hashes, units))
    sorted_units = units[order]
    begins = np.flatnonzero(np.append(True, sorted_units[1:] != sorted_units[:-1]))
    rank = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
    return order[rank < most]


# Codes of rows, kept to be read more than once: in memory first, then in a file without a name.


MEMORY_BYTES = 256 * 2**20
"""The first codes, up to this many bytes, stay in memory; later ones are written to a file. 8 million rows of 32
attributes need no file."""


class KeptCodes:
    """Batches of codes, one to four bytes for each row and attribute; confidential.

    A batch is stored attribute by attribute. The file has no name from the moment it is made (or, where the system
    cannot do that, from the next one), its mode is 0600, and it is gone when it is closed or the process ends in any
    way.
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
        self._batches: list[
            tuple[int, bool, bytes | int]
        ] = []  # rows, are there weights, bytes or how many in the file
        self._file: FileIO | None = None

    def add(self, rows: CodedRows) -> None:
        """Keep a batch: codes and weights."""
        typed = [np.ascontiguousarray(column, kind) for column, kind in zip(rows.codes, self._types, strict=True)]
        if rows.weights is not None:
            typed.append(np.ascontiguousarray(rows.weights, np.int64))
        packed = b"".join([column.data for column in typed])
        stays = self._file is None and len(packed) <= self._memory_left
        if stays:
            self._memory_left -= len(packed)
        else:
            self._write(packed)
        self._batches.append((rows.size, rows.weights is not None, packed if stays else len(packed)))

    def close(self) -> None:
        """Release everything."""
        self._batches.clear()
        if self._file is not None:
            self._file.close()

    def batches(self) -> Iterator[CodedRows]:
        """The batches as they were added."""
        place = 0
        for rows, weighted, held in self._batches:
            packed = held if isinstance(held, bytes) else self._read(place, held)
            place += 0 if isinstance(held, bytes) else held
            ends = [rows * end for end in accumulate((kind.itemsize for kind in self._types), initial=0)]
            codes = [np.frombuffer(packed, kind, rows, start) for kind, start in zip(self._types, ends, strict=False)]
            yield CodedRows(rows, codes, weights=np.frombuffer(packed, np.int64, rows, ends[-1]) if weighted else None)

    def _write(self, packed: bytes) -> None:
        view = memoryview(packed)
        try:
            if self._file is None:
                # Unbuffered: what could not be written is known at once, not when the file is closed.
                self._file = tempfile.TemporaryFile("w+b", buffering=0, dir=self._folder)  # noqa: SIM115 (see close)
            while view:  # a nearly full disk takes a part, and only the next write is an error
                view = view[self._file.write(view) :]
        except OSError as error:
            raise self._lost("keep", error) from None

    def _read(self, start: int, length: int) -> bytearray:
        assert self._file is not None  # something was written to it
        packed = bytearray(length)
        view = memoryview(packed)
        try:
            self._file.seek(start)
            while view:
                read = self._file.readinto(view)
                if not read:
                    raise SourceError(f"cannot read the codes of rows in {self._folder!r}: the file was cut short")
                view = view[read:]
        except OSError as error:
            raise self._lost("read", error) from None
        return packed

    def _lost(self, action: str, error: OSError) -> SourceError:
        reason = os.strerror(error.errno) if error.errno else "the system refuses"
        return SourceError(
            f"cannot {action} the codes of rows in {self._folder!r}: {reason}; "
            "give a folder with more room (work_dir, --work-dir)"
        )


class EncodedRows:
    """The rows of a source as they count, read once and encoded; confidential.

    Every stage of a plan counts from these: a source that has different rows the second time, or none, is read once.
    """

    def __init__(
        self, rows: Iterable[CodedRows], schema: Schema, *, work_dir: str | Path | None = None, batch_rows: int
    ) -> None:
        """Keep all rows that count; they have codes of all attributes of the schema.

        ``work_dir`` is where codes go that do not fit into memory (``KeptCodes``).
        """
        self._schema, self._batch_rows = schema, batch_rows
        sizes = [*schema.shape, *(each.size for each in schema.measures)] + ([] if schema.unit is None else [2**32])
        self._codes = KeptCodes(sizes, work_dir=work_dir)
        try:
            for each in bounded(rows, schema.unit, batch_rows):
                self._codes.add(each)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the rows."""
        self._codes.close()

    def __reduce__(self) -> NoReturn:
        raise CrosstallyError("encoded rows are confidential and cannot be pickled or copied to another process")

    def count(self, tables: Sequence[CountedTable | Sequence[str]]) -> tuple[ExactTable, ...]:
        """The exact counts of each table, in order, as ``sources.count`` gives them for the same rows."""
        return self._counted(asked_tables(self._schema, tables))

    def _counted(self, tables: Sequence[CountedTable]) -> tuple[ExactTable, ...]:
        columns: list[Column] = [*self._schema.names, *self._schema.measures]
        return tallied(self._codes.batches(), columns, self._schema, tables, self._batch_rows)


# The counts of many tables, to which batches of rows are added.


_NO_UNITS = np.empty(0, np.uint32)
# Bytes of counts that all threads together may hold, since each has its own. Chosen to limit memory: with the most
# cells that may be counted at once, 40 MB of them, six threads count.
_COUNTS_BYTES = 256 * 2**20


def counted(
    rows: Iterable[CodedRows], names: Sequence[Column], schema: Schema, tables: Sequence[CountedTable], batch_rows: int
) -> tuple[ExactTable, ...]:
    """The exact counts of each table, in order, after contribution bounds.

    Args:
        rows: All rows, in batches of at most ``batch_rows``.
        names: The attributes and measures of their codes: all, where the schema has a unit.
        schema: The schema of all tables.
        tables: What to count.
        batch_rows: See rows.
    """
    return tallied(bounded(rows, schema.unit, batch_rows), names, schema, tables, batch_rows)


def tallied(
    rows: Iterable[CodedRows], names: Sequence[Column], schema: Schema, tables: Sequence[CountedTable], batch_rows: int
) -> tuple[ExactTable, ...]:
    """The exact counts of rows that all count, in threads; arguments as for ``counted``.

    Whole numbers add up to the same in any order: the counts do not depend on the number of threads.
    """
    columns = bounded_columns(names, schema)
    cells = sum(math.prod(table.shape(schema)) for table in tables)
    threads = max(1, min(most_threads(), _COUNTS_BYTES // (8 * max(cells, 1))))
    whole = Tally(schema, tables, batch_rows)
    made, idle = [whole], SimpleQueue[Tally]()
    idle.put(whole)

    def add(each: CodedRows) -> None:
        try:
            tally = idle.get_nowait()
        except Empty:  # all are in use by other threads
            tally = Tally(schema, tables, batch_rows)
            made.append(tally)
        tally.add(each.size, dict(zip(columns, each.codes, strict=True)), each.weights)
        idle.put(tally)

    for _ in in_order(add, rows, threads=threads):
        pass
    for other in made[1:]:
        whole.merge(other)
    return whole.tables()


def bounded_columns(names: Sequence[Column], schema: Schema) -> Sequence[Column]:
    """The columns of rows that count."""
    return names if schema.unit is None else [*names, UNIT_ROWS]


class Tally:
    """Growing counts of many tables; confidential, like the tables that come of it.

    The cells of all tables stand one after another in one vector: first those of the small tables.
    """

    def __init__(self, schema: Schema, tables: Sequence[CountedTable], batch_rows: int) -> None:
        from crosstally.kernels.counting import SMALL_CELLS, SMALL_SIZE, count_large, count_small

        self._schema, self._tables, self._batch_rows = schema, tables, batch_rows
        of_rows = [table for table in tables if isinstance(table, Product)]
        shapes = {table: table.shape(schema) for table in of_rows if table.attributes and table.summed == ROWS}
        kinds = dict.fromkeys(table.summed for table in of_rows if table.summed != ROWS)
        self._sums = [SumsPart(schema, [t for t in of_rows if t.summed == each], batch_rows) for each in kinds]
        self._units = {
            table: np.zeros(table.shape(schema), np.int64) for table in tables if isinstance(table, UnitTable)
        }
        small = [t for t, shape in shapes.items() if math.prod(shape) <= SMALL_CELLS and max(shape) <= SMALL_SIZE]
        large = [table for table in shapes if table not in set(small)]
        self._in_order = [*small, *large]
        self._rows = 0
        self._counts = np.zeros(sum(map(math.prod, shapes.values())), np.int64)
        between = sum(math.prod(shapes[table]) for table in small)
        self._small = TablePart(schema, small, np.empty((0, batch_rows), np.uint8), count_small, self._counts[:between])
        self._large = TablePart(
            schema, large, np.empty((0, batch_rows), np.uint32), count_large, self._counts[between:]
        )

    @cached_property
    def _weighted(self) -> TablePart:
        from crosstally.kernels.counting import count_weighted

        empty = np.empty((0, self._batch_rows), np.uint32)
        return TablePart(self._schema, self._in_order, empty, count_weighted, self._counts)

    def add(self, rows: int, codes: Mapping[Column, NDArray[Any]], weights: NDArray[np.int64] | None = None) -> None:
        """Count a batch of at most ``batch_rows`` rows, given the cell of each by attribute.

        Each stands for as many rows as ``weights`` say, for one where they are not given.
        """
        units = codes.get(UNIT_ROWS, _NO_UNITS)
        cells = {name: own for name, own in codes.items() if isinstance(name, str) and name != UNIT_ROWS}
        for table in self._units:
            self._units[table] += table.counted(units[units > 0])
        for name, own in cells.items():
            check_codes(name, own, rows, self._schema[name].size)
        for each in self._sums:
            each.add(rows, cells, codes, weights)
        if self._schema.divided:
            if len(units) != rows:
                raise CrosstallyError("rows have no number of rows of their unit; nothing was counted")
            weights = self._schema.parts // units.astype(np.int64)  # of a unit never more than all parts
        if weights is not None:
            self._rows += int(weights.sum())
            self._weighted.add(rows, cells, weights)
            return
        self._rows += rows
        self._small.add(rows, cells)
        self._large.add(rows, cells)

    def merge(self, other: Tally) -> None:
        """Add the counts of the same tables from another tally."""
        for mine, others in zip(self._sums, other._sums, strict=True):
            mine.sums += others.sums
        self._rows += other._rows
        self._counts += other._counts
        for table in self._units:
            self._units[table] += other._units[table]

    def tables(self) -> tuple[ExactTable, ...]:
        """The counts so far, in the order of the tables asked for."""
        by_table: dict[CountedTable, ExactTable] = {
            table: ExactTable(self._schema.subset(), each, units=table) for table, each in self._units.items()
        }
        by_table |= dict(zip(self._in_order, tables_in(self._counts, self._schema, self._in_order), strict=True))
        for each in self._sums:
            by_table |= each.tables(self._rows)
        total = ExactTable(self._schema.subset(), np.array(self._rows, np.int64))
        return tuple(by_table.get(table, total) for table in self._tables)


def asked_tables(schema: Schema, tables: Sequence[CountedTable | Sequence[str]]) -> list[CountedTable]:
    """The tables as queries, once they are known to fit into memory together."""
    asked = [table if isinstance(table, CountedTable) else Cells(table) for table in tables]
    cells = sum(math.prod(table.shape(schema)) for table in asked)
    if cells > MAX_CELLS:
        raise TooManyCellsError(f"at most {MAX_CELLS:,} cells can be counted at once, got {cells:,}; count in parts")
    return asked
