"""The variance of every coefficient and cell after combining, from what is measured and with how much noise: no values.

All coefficients of one attribute set B share a variance, and precisions add. A view over V whose cells have variance v
tells the coefficients of each B inside V with variance v x prod(n_i, i in V but not B); a contrast over B tells those
of B alone, with v over its squared scale. Attributes that are measured by a matrix have other numbers in place of 1/n
and of the scale (``axes``). What is not measured is NaN, and so is all that needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import QueryError
from crosstally.query.along import AskedAlong
from crosstally.query.queries import Query
from crosstally.query.ways import full_part, matrices_of
from crosstally.residuals.axes import Axes, LinearAxis, basis_along, linear_axes
from crosstally.residuals.closure import Closure, blocks_of, interleaved, subset_shares
from crosstally.residuals.layout import find
from crosstally.residuals.mixed import MixedAxes
from crosstally.schema import Schema
from crosstally.typing import Floats

__all__ = [
    "MOST_PRECISION",
    "MeasuredAlike",
    "Variances",
    "bounded",
    "cell_variance",
    "inverse_cells_outside",
]

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
        linear = linear_axes(matrices_of([query for query, _ in measured]))
        mixed = MixedAxes.of(schema, measured)
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
