"""All attribute sets inside some tables, numbered: what each weighs in the tables' variances. Arrays, no loops over sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.residuals.layout import Layout, find
from crosstally.schema import Schema

__all__ = ["Closure", "TableBlock", "blocks_of"]

_LARGEST = 2**63


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
        self._base = len(schema.names) + 1
        self._exact = self._base ** max((block.positions.shape[1] for block in self.blocks), default=0) < _LARGEST
        keys = [self.keys_of(block.positions) for block in self.blocks]
        self.keys, places = np.unique(np.concatenate([key.ravel() for key in keys]), return_inverse=True)
        ends = np.cumsum([key.size for key in keys])[:-1]
        self.subsets = [part.reshape(key.shape) for part, key in zip(np.split(places, ends), keys, strict=True)]

    def __len__(self) -> int:
        return len(self.keys)

    def keys_of(self, positions: NDArray[np.intp]) -> NDArray[Any]:
        """The key of each subset of each table, the last attribute fastest: (tables, subsets)."""
        if not self._exact:
            return Layout.of((2,) * len(self.sizes)).keys(positions.tolist())
        keys = np.zeros((len(positions), 1), np.int64)
        for column in positions.T:
            keys = np.stack([keys, keys * self._base + (column[:, None] + 1)], axis=-1).reshape(len(positions), -1)
        return keys

    def find(self, positions: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Where the subsets of other tables stand, and whether they are there."""
        return find(self.keys, self.keys_of(positions))

    @cached_property
    def members(self) -> tuple[tuple[NDArray[np.intp], NDArray[np.intp]], ...]:
        """The sets by their number of attributes, fewest first: where they stand, and their positions, a row each."""
        largest: dict[int, tuple[NDArray[np.intp], NDArray[np.intp]]] = {}
        found = np.zeros(len(self), np.bool_)
        parts: dict[int, list[tuple[NDArray[np.intp], NDArray[np.intp]]]] = {}
        for block, subsets in zip(self.blocks, self.subsets, strict=True):
            width = block.positions.shape[1]
            for number in range(subsets.shape[1]):
                chosen = [axis for axis in range(width) if number >> (width - 1 - axis) & 1]
                column = subsets[:, number]
                fresh = np.flatnonzero(~found[column])
                if len(fresh):
                    sets, first = np.unique(column[fresh], return_index=True)
                    found[sets] = True
                    parts.setdefault(len(chosen), []).append((sets, block.positions[fresh[first]][:, chosen]))
        for length in sorted(parts):
            sets, positions = (np.concatenate([part[i] for part in parts[length]]) for i in (0, 1))
            order = np.lexsort(positions.T[::-1]) if length else np.zeros(1, np.intp)
            largest[length] = sets[order], positions[order]
        return tuple(largest[length] for length in sorted(largest))

    def product(self, factors: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each set the product of one factor for each of its attributes."""
        out = np.ones(len(self))
        for places, positions in self.members:
            out[places] = factors[positions].prod(axis=1)
        return out

    def shares(self, block: TableBlock) -> NDArray[np.float64]:
        """What the variance of each subset counts for in a cell of each table: (tables, subsets)."""
        out = np.ones((len(block.positions), 1))
        for column in self.sizes[block.positions].T:
            n = column[:, None]
            out = np.stack([out / n**2, out * (1 - 1 / n)], axis=-1).reshape(len(out), -1)
        return out

    def cells(self) -> NDArray[np.float64]:
        """How many cells each table has."""
        out = np.empty(self.tables)
        for block in self.blocks:
            out[block.places] = self.sizes[block.positions].prod(axis=1)
        return out

    def weights(self, tables: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the variance of each set counts for in a weighted sum of the tables' cell variances."""
        out = np.zeros(len(self))
        for block, subsets in zip(self.blocks, self.subsets, strict=True):
            parts = self.shares(block) * tables[block.places][:, None]
            out += np.bincount(subsets.ravel(), parts.ravel(), len(self))
        return out

    def table_variances(self, variances: NDArray[np.float64]) -> NDArray[np.float64]:
        """The variance of a cell of each table, from the variance of the coefficients of each set."""
        out = np.empty(self.tables)
        for block, subsets in zip(self.blocks, self.subsets, strict=True):
            out[block.places] = np.einsum("ij,ij->i", variances[subsets], self.shares(block))
        return out
