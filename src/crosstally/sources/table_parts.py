"""Growing counts and sums of some tables, to which batches of coded rows are added; confidential."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import CrosstallyError
from crosstally.measurements import ExactTable
from crosstally.query.queries import Product
from crosstally.query.unit_table import CountedTable, UnitTable
from crosstally.schema import Measure, Schema

Column = str | Measure
"""What a row has a code of: an attribute; or a measure, of which it is the steps above the least value, the last code
standing for no value."""
_LIMIT = 2**62  # sums stay below it, as noise needs (``privacy.noise``)


def check_codes(name: str, codes: NDArray[Any], rows: int, size: int) -> None:
    """Raise unless each row has one of so many codes."""
    if len(codes) != rows or (rows and codes.max() >= size):
        raise CrosstallyError(f"the codes of {name!r} are not those of its cells; nothing was counted")


def tables_in(counts: NDArray[np.int64], schema: Schema, tables: Sequence[CountedTable]) -> tuple[ExactTable, ...]:
    """The tables whose cells follow each other in a vector, which may be longer."""
    schemas = {names: schema.subset(*names) for names in dict.fromkeys(table.attributes for table in tables)}
    out, start = [], 0
    for table in tables:
        shape = table.shape(schema)
        end = start + math.prod(shape)
        units = table if isinstance(table, UnitTable) else None
        exact = counts[start:end].reshape(shape)
        out.append(ExactTable(schemas[table.attributes], exact, table.groups, units, table.summed))
        start = end
    return tuple(out)


class TablePart:
    """Tables that one kernel counts.

    A line of codes is an attribute, or the groups of one: two tables may have both.
    """

    def __init__(
        self,
        schema: Schema,
        tables: Sequence[Product],
        empty: NDArray[Any],
        kernel: Callable[..., None],
        counts: NDArray[np.int64],
    ) -> None:
        sizes: dict[tuple[str, tuple[int, ...] | None], int] = {}
        members = []
        shapes = [table.shape(schema) for table in tables]
        for table, shape in zip(tables, shapes, strict=True):
            maps = dict(table.groups)
            for name, size in zip(table.attributes, shape, strict=True):
                members.append((name, maps.get(name)))
                sizes[members[-1]] = size
        lines = {line: number for number, line in enumerate(sizes)}
        self._kernel, self._counts = kernel, counts
        self._lines = [(name, None if maps is None else np.array(maps, empty.dtype)) for name, maps in sizes]
        self._codes = np.empty((len(sizes), empty.shape[1]), empty.dtype)
        self._sizes = np.array(list(sizes.values()), np.int64)
        self._members = np.array([lines[each] for each in members], np.int64)
        self._starts = np.array([0, *accumulate(map(len, shapes))], np.int64)
        self._offsets = np.array([0, *accumulate(map(math.prod, shapes))], np.int64)

    def add(self, rows: int, cells: Mapping[str, NDArray[Any]], weights: NDArray[np.int64] | None = None) -> None:
        """Count a batch."""
        if not self._lines or not rows:
            return
        for line, (name, groups) in enumerate(self._lines):
            self._codes[line, :rows] = cells[name] if groups is None else groups[cells[name]]
        number = rows if weights is None else np.array(weights, np.int64)  # a copy, since Arrow's arrays are read-only
        self._kernel(self._codes, number, self._sizes, self._members, self._starts, self._offsets, self._counts)


class SumsPart:
    """Tables that add up the same of a measure, in one vector; the last number is the sum over all rows."""

    def __init__(self, schema: Schema, tables: Sequence[Product], batch_rows: int) -> None:
        from crosstally.kernels.counting import count_weighted

        assert tables[0].summed.measure is not None  # sums of rows are counts
        self._schema, self._tables, self._summed = schema, tables, tables[0].summed
        self._measure = schema.measure(tables[0].summed.measure)
        self._wide = [table for table in tables if table.attributes]
        cells = sum(math.prod(table.shape(schema)) for table in self._wide)
        self.sums = np.zeros(cells + 1, np.int64)
        empty = np.empty((0, batch_rows), np.uint32)
        self._part = TablePart(schema, self._wide, empty, count_weighted, self.sums[:-1])

    def add(
        self,
        rows: int,
        cells: Mapping[str, NDArray[Any]],
        codes: Mapping[Column, NDArray[Any]],
        weights: NDArray[np.int64] | None,
    ) -> None:
        """Add a batch."""
        check_codes(self._measure.name, codes[self._measure], rows, self._measure.size)
        steps = codes[self._measure].astype(np.int64)
        has_value = steps < self._measure.size - 1
        added = np.where(has_value, steps + self._measure.low if self._summed.values else 1, 0)
        added = added if weights is None else added * weights
        self.sums[-1] += added.sum()
        self._part.add(rows, cells, added)

    def tables(self, rows: int) -> dict[CountedTable, ExactTable]:
        """The sums so far; refused where there are so many rows that they might have left 64 bits."""
        if rows * max(abs(self._measure.low), abs(self._measure.high)) >= _LIMIT:
            raise CrosstallyError("exact sums must be below 2^62; widen the step of the measure")
        total = ExactTable(self._schema.subset(), np.array(self.sums[-1]), summed=self._summed)
        found = zip(self._wide, tables_in(self.sums, self._schema, self._wide), strict=True)
        return {**dict(found), **{table: total for table in self._tables if not table.attributes}}
