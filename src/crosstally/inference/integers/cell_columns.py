"""Single cells of the full table as columns of a linear program, found without enumerating the table.

A target is a query (cells or a contrast) with the values that its answer should have. One person in a cell of the full
table adds a column to the answers of all targets; a program over all cells is solved with a few columns, and
``pricing`` finds the missing ones: the cells with the largest sum of multipliers.

Cells with values that the schema calls impossible together are no columns: a penalty leads searches away from them, and
what is found is checked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import QueryError, TooManyCellsError
from crosstally.query.queries import Query
from crosstally.schema import Impossible, Schema
from crosstally.typing import Floats

_LISTED_ZEROS = 1_000_000
"""Limits memory: structural zeros over more cells than these have no penalty, and searches may find fewer cells."""
MAX_NUMBERS = 20_000  # limits time and memory: each number is a row of the linear program. More are refused


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A query and its target values."""

    query: Query
    values: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", np.asarray(self.values, float))


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTable:
    """The contribution of some attributes' values, by position, to the score of a cell."""

    positions: tuple[int, ...]
    values: Floats


class CellColumns:
    """The columns of all cells of a schema's full table for some targets, and sums over them."""

    def __init__(self, schema: Schema, targets: Sequence[Target]) -> None:
        for target in targets:
            if not target.query.is_product or target.query.matrices:
                raise QueryError(f"a table can be fitted to cells and contrasts, got {target.query.kind.title()}")
            shape = target.query.shape(schema)
            if target.values.shape != shape or not np.isfinite(target.values).all():
                raise QueryError(f"a target must have finite values of shape {shape}, got {target.values.shape}")
        numbers = sum(target.values.size for target in targets)
        if numbers > MAX_NUMBERS:
            raise TooManyCellsError(
                f"a table can be fitted to at most {MAX_NUMBERS:,} numbers, got {numbers:,}; name fewer tables"
            )
        self.schema = schema
        self.targets = tuple(targets)
        self.positions = [tuple(schema.positions[name] for name in t.query.attributes) for t in targets]
        self.values = np.concatenate([target.values.ravel() for target in targets] or [np.empty(0)])
        self._ends = np.cumsum([target.values.size for target in targets])
        self._zeros = [
            {schema.positions[name]: np.isin(schema[name].labels, labels) for name, labels in fact.values.items()}
            for fact in schema.facts
            if isinstance(fact, Impossible)
        ]

    def possible(self, cells: NDArray[np.intp]) -> NDArray[np.intp]:
        """Those of some cells that are not structural zeros."""
        kept = np.ones(len(cells), np.bool_)
        for zero in self._zeros:
            kept &= ~np.all([inside[cells[:, place]] for place, inside in zero.items()], axis=0)
        return cells[kept]

    def of(self, cells: NDArray[np.intp]) -> Floats:
        """The columns of some cells (one a row, a value for each attribute), side by side: (numbers, cells)."""
        parts = [
            target.query.columns(cells[:, list(positions)], self.schema).astype(float)
            for target, positions in zip(self.targets, self.positions, strict=True)
        ]
        return np.vstack(parts) if parts else np.empty((0, len(cells)))

    def score_tables(self, multipliers: Floats) -> list[ScoreTable]:
        """Tables whose sum over a cell's own values is its column times the multipliers; none contains another."""
        sums: dict[tuple[int, ...], Floats] = {}
        for target, positions, part in zip(self.targets, self.positions, self._split(multipliers), strict=True):
            order = np.argsort(positions, kind="stable")
            table = target.query.adjoint(part.reshape(target.values.shape), self.schema).transpose(order)
            key = tuple(sorted(positions))
            sums[key] = sums[key] + table if key in sums else table
        self._add_penalties(sums)
        merged: list[ScoreTable] = []
        for key in sorted(sums, key=len, reverse=True):
            holder = next((each for each in merged if set(key) <= set(each.positions)), None)
            if holder is None:
                merged.append(ScoreTable(key, sums[key].copy()))
            else:
                holder.values[...] += _spread(sums[key], key, holder.positions)
        return merged

    def _add_penalties(self, sums: dict[tuple[int, ...], Floats]) -> None:
        """Take more from the score of each structural zero than all tables together give."""
        most = 1 + 2 * sum(float(np.abs(table).max(initial=0.0)) for table in sums.values())
        for zero in self._zeros:
            key = tuple(sorted(zero))
            if math.prod(len(zero[place]) for place in key) <= _LISTED_ZEROS:
                inside = reduce(np.multiply.outer, [zero[place] for place in key])
                sums[key] = sums.get(key, np.zeros(inside.shape)) - most * inside

    def _split(self, numbers: Floats) -> list[Floats]:
        return np.split(numbers, self._ends[:-1])


def _spread(table: Floats, positions: tuple[int, ...], wanted: tuple[int, ...]) -> Floats:
    """A table with axes of length one where an attribute is not its own; both position lists increase."""
    sizes = dict(zip(positions, table.shape, strict=True))
    return table.reshape([sizes.get(position, 1) for position in wanted])
