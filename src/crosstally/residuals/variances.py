"""The variance of every coefficient and cell after combining, from what is measured and with how much noise: no values.

All coefficients of one attribute set B share a variance, and precisions add. A view over V whose cells have variance v
tells the coefficients of each B inside V with variance v x prod(n_i, i in V but not B); a contrast over B tells those
of B alone, with v over its squared scale. Attributes that are measured by a matrix have other numbers in place of 1/n
and of the scale (``axes``). What is not measured is NaN, and so is all that needs it.

All attribute sets inside some tables, numbered, and what each weighs in the tables' variances: arrays, no loops.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, reduce
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import QueryError, TooManyCellsError
from crosstally.query.along import AskedAlong
from crosstally.query.queries import MAX_CELLS, Query
from crosstally.query.ways import full_part, matrices_of, mixed_of
from crosstally.residuals.axes import Axes, Layout, LinearAxis, basis_along, find, linear_axes
from crosstally.residuals.mixed import MixedAxes
from crosstally.schema import Schema
from crosstally.typing import Floats

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


MOST_PRECISION = 1e30
"""What is known with this precision, a standard error of 1e-15, is exact for planning: counts are whole numbers. Huge
budgets buy more, up to 1e300, whose squares and products are no doubles: planning would divide by zero."""
_TINY = 1e-300  # in place of a precision of zero, whose inverse is not used


MeasuredAlike = tuple[bool, NDArray[np.intp], float]
"""Queries over so many attributes: whether they are residual, the attributes' positions (a row each), the variance."""


class Variances:
    """The variance of the coefficients of each set of a closure, after all measurements are combined."""

    def __init__(
        self,
        closure: Closure,
        measured: Sequence[MeasuredAlike],
        linear: Mapping[str, LinearAxis] | None = None,
        asked: Mapping[str, AskedAlong] | None = None,
        mixed: MixedAxes | None = None,
    ) -> None:
        """From what is measured, with the bases of attributes that have a matrix, and what is asked along some.

        ``mixed`` are those measurements that hold an attribute measured in more than one way; they are not among the
        others.
        """
        self.closure = closure
        self.linear = bool(linear)
        self.axes = Axes.of(closure.schema, linear, asked)
        precision = _precision(closure, measured, self.axes)
        self.of_sets = np.where(precision > 0, 1 / np.maximum(precision, _TINY), np.nan)
        if mixed is not None:
            self._put(mixed, precision, asked or {})

    def _put(self, mixed: MixedAxes, precision: Floats, asked: Mapping[str, AskedAlong]) -> None:
        """The variances of sets with and without a mixed attribute: such that the means of what is asked are exact.

        A set B with the attribute a has no one variance: coefficients differ, and depend on those of B. What is asked
        along a has the mean variance q = tr(W'W H C H') / number, where C is the covariance of (T, c). The set has the
        variance for which its share in the mean and that of B add up to q.
        """
        for block in mixed.blocks.values():
            place = self._place(block.part)
            if place is None:
                continue
            covariance = mixed.covariance(block, float(precision[place]))
            self.of_sets[place] = np.nan if covariance is None else covariance[0, 0]
            for name, n in block.sizes.items():
                with_it = self._place((*block.part, name))
                if with_it is None:
                    continue
                self.of_sets[with_it] = np.nan
                if covariance is not None:
                    i, at, basis = self.closure.schema.positions[name], block.at(name), basis_along(None, n)
                    own = asked.get(name) or AskedAlong(np.eye(n), n)
                    of_cells = basis @ covariance[np.ix_(at, at)] @ basis.T
                    mean = float((own.gram * of_cells).sum()) / own.number
                    rest = mean - float(self.axes.outside[i] * covariance[0, 0])
                    self.of_sets[with_it] = rest / float(self.axes.inside[i])

    def _place(self, names: Sequence[str]) -> int | None:
        """Where a set stands in the closure, if it is there."""
        positions = self.closure.schema.positions
        keys = self.closure.whole_keys(np.array([[positions[name] for name in names]], np.intp))
        places, found = find(self.closure.keys, keys)
        return int(places[0, 0]) if found.all() else None

    @classmethod
    def of_queries(cls, schema: Schema, measured: Sequence[tuple[Query, float]]) -> Variances:
        """From queries and the variance of the noise of each, for all sets inside their tables.

        Of cells in groups it counts what they say about tables in full.
        """
        alike: dict[tuple[bool, int, float], list[tuple[str, ...]]] = {}
        queries = [query for query, _ in measured]
        linear = linear_axes(matrices_of(queries))
        mixed = MixedAxes(schema, measured) if mixed_of(queries) else None
        in_full = [(*full_part(query), variance) for query, variance in measured]
        for i, (query, cells, variance) in enumerate(in_full):
            names = query.attributes
            if mixed is not None and i in mixed.readings:
                continue
            if not query.is_product:
                raise QueryError(f"only cells, contrasts and Kronecker queries combine, got {type(query).__name__}")
            alike.setdefault((query.is_residual, len(names), variance * cells), []).append(names)
        known = schema.positions
        groups = [
            (residual, np.array([[known[name] for name in names] for names in tables], np.intp), variance)
            for (residual, _, variance), tables in alike.items()
        ]
        tables = dict.fromkeys([(), *(query.attributes for query, _, _ in in_full)])
        return cls(Closure(schema, tuple(tables)), groups, linear, mixed=mixed)

    def replacing(self, known: Mapping[tuple[str, ...], float]) -> Variances:
        """The same with other variances for the coefficients of some sets, as far as these are measured at all."""
        out = copy(self)
        out.of_sets = self.of_sets.copy()
        for names, variance in known.items():
            place = self._place(names)
            if place is not None and not np.isnan(out.of_sets[place]):
                out.of_sets[place] = variance
        return out

    @property
    def precisions(self) -> Floats:
        """One over the variance of the coefficients of each set of the closure; zero where it is not known.

        At most ``MOST_PRECISION``.
        """
        return np.where(np.isnan(self.of_sets), 0.0, 1 / np.maximum(self.of_sets, 1 / MOST_PRECISION))

    @property
    def of_tables(self) -> Floats:
        """The mean variance of what is asked of each table of the closure: its cells, unless rows of a matrix are."""
        return self.closure.table_variances(self.of_sets, self.axes)

    def of_subsets(self, names: Sequence[str]) -> Floats:
        """The variance of the coefficients of each subset of some attributes, the last attribute fastest."""
        positions = [self.closure.schema.positions[name] for name in names]
        found, ordered = self._of_subsets(np.array([positions], np.intp))[0], sorted(positions)
        if positions != ordered:
            found = found.reshape((2,) * len(ordered)).transpose([ordered.index(i) for i in positions]).ravel()
        return np.asarray(found)

    def _of_subsets(self, positions: NDArray[np.intp]) -> Floats:
        """For each table the variances of its subsets, attributes in the schema's order: (tables, subsets)."""
        places, found = self.closure.find(positions)
        return np.where(found, self.of_sets[places], np.nan)

    def of(self, names: Sequence[str]) -> float:
        """The variance of each cell of a table."""
        return self.of_all([names])[0]

    def of_all(self, tables: Sequence[Sequence[str]]) -> list[float]:
        """The mean variance of a cell of many tables, whether the closure knows them or not; NaN where not covered."""
        out = np.empty(len(tables))
        for block in blocks_of(self.closure.schema, tables):
            positions = np.sort(block.positions, axis=1)
            shares = self.axes.shares(positions)
            out[block.places] = np.einsum("ij,ij->i", self._of_subsets(positions), shares)
        return out.tolist()


def cell_variance(of_subsets: Floats, sizes: Sequence[int]) -> float:
    """The variance of each cell of a table of these sizes, from that of the coefficients of each subset.

    >>> cell_variance(np.array([12.0, 4.0]), [2])  # total / 4 + effect x (1 - 1/2)
    5.0
    """
    return float(of_subsets @ subset_shares(np.array([sizes], float))[0])


def _precision(closure: Closure, measured: Sequence[MeasuredAlike], axes: Axes) -> Floats:
    """The sum over all measurements of one over the variance of each set's coefficients."""
    alike: dict[tuple[bool, int], list[tuple[NDArray[np.intp], float]]] = {}
    for residual, rows, variance in measured:
        alike.setdefault((residual, rows.shape[1]), []).append((rows, variance))
    precision = np.zeros(len(closure))
    for (residual, _), groups in alike.items():
        positions = np.sort(np.concatenate([rows for rows, _ in groups]), axis=1)
        variances = np.concatenate([np.full((len(rows), 1), variance) for rows, variance in groups])
        if residual:
            keys, parts = closure.whole_keys(positions), axes.of_contrast[positions].prod(axis=1)[:, None]
        else:
            keys, parts = closure.keys_of(positions), axes.totals_outside(positions)
        places, found = find(closure.keys, keys)
        precision += np.bincount(places[found], (parts / variances)[found], len(closure))
    return precision


def bounded(amount: Fraction, *, power: int = 1) -> float:
    """A budget as a double, at most as large as buys ``MOST_PRECISION``, which grows with this power of it.

    >>> bounded(Fraction(1, 2)), bounded(Fraction(10) ** 300, power=2)
    (0.5, 1000000000000000.0)
    """
    return float(min(amount, Fraction(MOST_PRECISION ** (1 / power))))


def inverse_cells_outside(sizes: Floats) -> Floats:
    """One over the number of cells outside each subset, for tables of these sizes (a row each): (tables, subsets)."""
    out = np.ones((len(sizes), 1))
    for column in sizes.T:
        out = interleaved(out / column[:, None], out)
    return out
