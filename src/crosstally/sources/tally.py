"""The counts of many tables, to which batches of rows are added."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.schema import Schema
from crosstally.tables import ExactTable

__all__ = ["Tally"]


class Tally:
    """Growing counts of many tables; confidential, like the tables that come of it."""

    def __init__(self, schema: Schema, tables: Sequence[tuple[str, ...]], batch_rows: int) -> None:
        from crosstally.kernels import counting

        self._tables = [schema.subset(*table) for table in tables]
        groups: tuple[list[Schema], list[Schema]] = ([], [])
        for table in self._tables:
            is_small = table.cells <= counting.SMALL_CELLS and max(table.shape, default=0) <= counting.SMALL_SIZE
            if table.names:
                groups[0 if is_small else 1].append(table)
        self._rows = 0
        self._small = _Group(groups[0], np.empty((0, batch_rows), np.uint8), counting.count_small)
        self._large = _Group(groups[1], np.empty((0, batch_rows), np.uint32), counting.count_large)

    def add(self, rows: int, cells: Mapping[str, NDArray[Any]]) -> None:
        """Count a batch of at most ``batch_rows`` rows, given the cell of each by attribute."""
        self._rows += rows
        self._small.add(rows, cells)
        self._large.add(rows, cells)

    def tables(self) -> tuple[ExactTable, ...]:
        """The counts so far, in the order of the tables asked for."""
        counts = {**self._small.counts_by_table(), **self._large.counts_by_table()}
        total = np.array(self._rows, np.int64)
        return tuple(ExactTable(table, counts.get(table.names, total)) for table in self._tables)


class _Group:
    """Tables that one kernel counts, and their cells one after another."""

    def __init__(self, tables: Sequence[Schema], empty: NDArray[Any], kernel: Callable[..., None]) -> None:
        attributes = {attribute.name: attribute.size for table in tables for attribute in table.attributes}
        lines = {name: line for line, name in enumerate(attributes)}
        self._kernel = kernel
        self._tables = tables
        self._names = tuple(attributes)
        self._codes = np.empty((len(attributes), empty.shape[1]), empty.dtype)
        self._sizes = np.array(list(attributes.values()), np.int64)
        self._members = np.array([lines[name] for table in tables for name in table.names], np.int64)
        self._starts = np.array([0, *accumulate(len(table.names) for table in tables)], np.int64)
        self._offsets = np.array([0, *accumulate(math.prod(table.shape) for table in tables)], np.int64)
        self.counts = np.zeros(self._offsets[-1], np.int64)

    def add(self, rows: int, cells: Mapping[str, NDArray[Any]]) -> None:
        """Count a batch."""
        if not self._tables or not rows:
            return
        for line, name in enumerate(self._names):
            self._codes[line, :rows] = cells[name]
        self._kernel(self._codes, rows, self._sizes, self._members, self._starts, self._offsets, self.counts)

    def counts_by_table(self) -> dict[tuple[str, ...], NDArray[np.int64]]:
        """The counts of each table."""
        parts = zip(self._tables, self._offsets[:-1], self._offsets[1:], strict=True)
        return {table.names: self.counts[start:end].reshape(table.shape) for table, start, end in parts}
