"""All attribute sets inside some tables, numbered, and what each weighs in the tables' variances: arrays, no loops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import TooManyCellsError
from crosstally.query.queries import MAX_CELLS
from crosstally.residuals.axes import Axes
from crosstally.residuals.layout import Layout, find
from crosstally.schema import Schema
from crosstally.typing import Floats

__all__ = ["Closure", "TableBlock", "blocks_of", "closure_of", "interleaved", "subset_shares"]

_BITS = 63  # bits of an int64 beside its sign: sets of fewer attributes are masks, wider ones numbers to a base
# Subsets for each table of very many: tables over four attributes have sixteen. A few tables may have MAX_CELLS
# subsets together, as the requests of a plan may; a short list of wide tables would otherwise fill the memory.
_MANY_SUBSETS = 16


@dataclass(frozen=True, slots=True, eq=False)
class TableBlock:
    """Tables of one number of attributes: their places in a list, and their attributes' positions, a row each."""

    places: NDArray[np.intp]
    positions: NDArray[np.intp]


def blocks_of(schema: Schema, tables: Sequence[Sequence[str]]) -> tuple[TableBlock, ...]:
    """The tables by their number of attributes, fewest first."""
    known = schema.positions
    flat = np.fromiter((known[name] for table in tables for name in table), np.intp)
    lengths = np.fromiter(map(len, tables), np.intp, len(tables))
    starts = np.cumsum(lengths) - lengths
    out = []
    for length in np.unique(lengths):
        places = np.flatnonzero(lengths == length)
        out.append(TableBlock(places, flat[starts[places][:, None] + np.arange(length)]))
    return tuple(out)


class Closure:
    """The subsets of some tables: ``keys`` in order, and for each block of tables where their subsets stand.

    The variance of a cell of table A is the sum over B in A of the variance of the coefficients of B times
    prod(1 - 1/n_i, i in B) prod(1/n_i^2, i in A but not B).
    """

    def __init__(self, schema: Schema, tables: Sequence[Sequence[str]]) -> None:
        self.schema = schema
        self.sizes = np.array(schema.shape, np.float64)
        self.blocks = blocks_of(schema, tables)
        self.tables = len(tables)
        subsets, most = sum(2 ** len(table) for table in tables), max(MAX_CELLS, _MANY_SUBSETS * len(tables))
        if subsets > most:
            raise TooManyCellsError(f"tables must have at most {most:,} sets of attributes together, got {subsets:,}")
        self._widest = max((block.positions.shape[1] for block in self.blocks), default=0)
        self._base = len(schema.names) + 1
        self._fits = len(schema.names) < _BITS or self._base**self._widest < 2**_BITS
        keys = [self.keys_of(block.positions) for block in self.blocks]
        self.keys, places = np.unique(np.concatenate([key.ravel() for key in keys]), return_inverse=True)
        ends = np.cumsum([key.size for key in keys])[:-1]
        self.subsets = [part.reshape(key.shape) for part, key in zip(np.split(places, ends), keys, strict=True)]

    def __len__(self) -> int:
        return len(self.keys)

    def keys_of(self, positions: NDArray[np.intp]) -> NDArray[Any]:
        """The key of each subset of each table, the last attribute fastest: (tables, subsets).

        A bit for each attribute; with more than 62 attributes a digit for each one of the subset, where that fits.
        """
        tables = len(positions)
        if not self._fits:
            return Layout.of((2,) * len(self.sizes)).keys(positions.tolist())
        keys = np.zeros((tables, 1), np.int64)
        for column in np.sort(positions, axis=1).T:
            keys = interleaved(keys, self._with(keys, column[:, None]))
        if positions.shape[1] > self._widest:  # sets of too many attributes are not here, and may not fit 63 bits
            keys[:, np.bitwise_count(np.arange(keys.shape[1])) > self._widest] = -1
        return keys

    def _with(self, keys: NDArray[np.int64], positions: NDArray[np.intp]) -> NDArray[np.int64]:
        """The keys of sets that have one attribute more, which comes after all others."""
        return keys | 1 << positions if len(self.sizes) < _BITS else keys * self._base + (positions + 1)

    def whole_keys(self, positions: NDArray[np.intp]) -> NDArray[Any]:
        """The key of each table's own set: (tables, 1)."""
        if not self._fits or positions.shape[1] > self._widest:
            return self.keys_of(positions)[:, -1:]
        return reduce(self._with, np.sort(positions, axis=1).T, np.zeros(len(positions), np.int64))[:, None]

    def find(self, positions: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Where the subsets of other tables stand, and whether they are there."""
        return find(self.keys, self.keys_of(positions))

    def places_of(self, positions: NDArray[np.intp]) -> NDArray[np.intp]:
        """Where sets that are here stand, given by their positions, a row each."""
        return find(self.keys, self.whole_keys(positions))[0][:, 0]

    @cached_property
    def members(self) -> tuple[tuple[NDArray[np.intp], NDArray[np.intp]], ...]:
        """The sets by their number of attributes, fewest first: where they stand, and their positions, a row each."""
        found = np.zeros(len(self), np.bool_)
        parts: dict[int, list[tuple[NDArray[np.intp], NDArray[np.intp]]]] = {}
        for block, subsets in zip(self.blocks, self.subsets, strict=True):
            width = block.positions.shape[1]
            for number in range(width + 1):
                chosen = np.array(list(combinations(range(width), number)), np.intp).reshape(
                    math.comb(width, number), number
                )
                columns = subsets[:, (1 << (width - 1 - chosen)).sum(axis=1)]
                sets, first = np.unique(columns, return_index=True)
                fresh = ~found[sets]
                sets, (table, which) = sets[fresh], np.unravel_index(first[fresh], columns.shape)
                if len(sets):
                    found[sets] = True
                    positions = block.positions[table[:, None], chosen[which]]
                    parts.setdefault(number, []).append((sets, positions))
        out = []
        for _, pieces in sorted(parts.items()):
            sets, positions = (np.concatenate([piece[i] for piece in pieces]) for i in (0, 1))
            order = np.lexsort(positions.T[::-1]) if positions.size else np.zeros(1, np.intp)
            out.append((sets[order], positions[order]))
        return tuple(out)

    def product(self, factors: Floats) -> Floats:
        """For each set the product of one factor for each of its attributes."""
        out = np.ones(len(self))
        for places, positions in self.members:
            out[places] = factors[positions].prod(axis=1)
        return out

    def cells(self, axes: Axes | None = None) -> Floats:
        """How many cells each table has; with axes, how many numbers are asked of it."""
        sizes = self.sizes if axes is None else axes.asked
        out = np.empty(self.tables)
        for block in self.blocks:
            out[block.places] = sizes[block.positions].prod(axis=1)
        return out

    def weights(self, tables: Floats, axes: Axes | None = None) -> Floats:
        """What the variance of each set counts for in a weighted sum of the tables' mean variances."""
        out = np.zeros(len(self))
        for block, subsets in zip(self.blocks, self.subsets, strict=True):
            parts = self._shares(block, axes) * tables[block.places][:, None]
            out += np.bincount(subsets.ravel(), parts.ravel(), len(self))
        return out

    def table_variances(self, variances: Floats, axes: Axes | None = None) -> Floats:
        """The mean variance of what is asked of each table, from the variance of the coefficients of each set.

        Without axes that is the variance of a cell, which all cells of a table share.
        """
        out = np.empty(self.tables)
        for block, subsets in zip(self.blocks, self.subsets, strict=True):
            out[block.places] = np.einsum("ij,ij->i", variances[subsets], self._shares(block, axes))
        return out

    def _shares(self, block: TableBlock, axes: Axes | None) -> Floats:
        return subset_shares(self.sizes[block.positions]) if axes is None else axes.shares(block.positions)


def interleaved(without: NDArray[Any], within: NDArray[Any]) -> NDArray[Any]:
    """For twice as many subsets: each one without a further attribute and with it, which becomes the fastest."""
    out = np.empty((len(without), 2 * without.shape[1]), without.dtype)
    out[:, ::2], out[:, 1::2] = without, within
    return out


def subset_shares(sizes: Floats) -> Floats:
    """What the variance of each subset counts for in a cell, for tables of these sizes (a row each): (tables, subsets).

    >>> subset_shares(np.array([[2.0, 3.0]])).round(4)
    array([[0.0278, 0.1667, 0.0556, 0.3333]])
    """
    out, squares, rest = np.ones((len(sizes), 1)), sizes**2, 1 - 1 / sizes
    for axis in range(sizes.shape[1]):
        out = interleaved(out / squares[:, axis, None], out * rest[:, axis, None])
    return out


@lru_cache(maxsize=2)
def closure_of(schema: Schema, tables: tuple[tuple[str, ...], ...]) -> Closure:
    """The closure of some tables, remembered: every strategy asks for that of the same workload."""
    return Closure(schema, tables)
