"""The counts of many tables, to which batches of rows are added."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.measurements import ExactTable
from crosstally.query.queries import Product
from crosstally.schema import Schema
from crosstally.threads import in_order, most_threads

__all__ = ["Tally", "tallied"]

# Bytes of counts that all threads together may hold, since each has its own. Chosen to limit memory: with the most
# cells that may be counted at once, 40 MB of them, six threads count.
_COUNTS_BYTES = 256 * 2**20

Kept = tuple[int, Sequence[NDArray[Any]], NDArray[np.int64] | None]
"""How many rows, the cells of each by attribute, and how many rows each stands for (None: one)."""


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
