"""Exact errors of tables that follow from one linear law: attributes measured by a matrix, or in more than one way.

Let f be the weights of a sum of cells over attributes A, of which a may be measured in more than one way
(``residuals.mixed``), and F the same in the bases [u K] along the others (``residuals.axes``) and in Helmert's along a.
The part of F that belongs to the set B is a matrix F_B with a row for each coefficient of B and a column for T and each
of c. With C_B the covariance of (T, c), the same for all coefficients of B,

    variance  =  sum over sets B inside A without a  of  tr(F_B C_B F_B'),

exact for the least squares estimate. Where no attribute is measured in more than one way, C_B is one number, the
variance of the coefficients of B. The weight of one noisy number of a measurement follows from how coefficients are
read from it: F_B C_B, for all B that it is about, times A = S [u K] along each of its attributes, over its variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.marginal import ErrorKind
from crosstally.answers.noise_sums import ChosenSums, NoiseTerm, half_width
from crosstally.budget import NoiseKind
from crosstally.measurements import Measurement
from crosstally.residuals import Variances
from crosstally.residuals.axes import basis_along, map_axis
from crosstally.residuals.mixed import MeasuredWay, MixedAxes
from crosstally.schema import Schema
from crosstally.typing import Floats

_MOST_LAWS = 400
"""Cells of one table whose quantiles are worked out one by one under Laplace noise, a few milliseconds each; those of
larger tables count as normal, which many numbers added up nearly are."""

_DENSE_SCALE = 5.0  # discrete Gaussian noise from this scale on is normal to fifteen digits
_LEAST_WEIGHT = 1e-12  # of the largest: noise that counts for less is left out


class LinearErrors:
    """How every sum of cells depends on independent noises: C_B of each set, and the weight of each noisy number."""

    def __init__(self, schema: Schema, measurements: Sequence[Measurement], rows: int | None = None) -> None:
        self.schema, self._rows = schema, rows
        self._measured = [m for m in measurements if m.query.is_product]
        self._axes = MixedAxes(schema, [(m.query, m.variance) for m in self._measured])
        self._known: dict[tuple[str, ...], Floats] = {}

    @property
    def mixed(self) -> Collection[str]:
        """The attributes measured in more than one way."""
        return self._axes.mixed

    @cached_property
    def is_normal(self) -> bool:
        """Whether all noise is normal, so that no quantiles of sums need be worked out."""
        noises = [m.noise for m in self._measured if m.noise is not None]
        return all(noise.kind is NoiseKind.GAUSSIAN and noise.whole.scale >= _DENSE_SCALE for noise in noises)

    def basis(self, name: str) -> Floats:
        """[u K] along an attribute; Helmert's where it has no matrix, or several."""
        return basis_along(self._axes.linear.get(name), self.schema[name].size)

    def in_bases(self, weights: Floats, names: Sequence[str]) -> Floats:
        """Weights of the cells of some attributes in their bases."""
        for axis, name in enumerate(names):
            weights = map_axis(self.basis(name).T, weights, axis)
        return weights

    def covariance(self, part: Sequence[str], first: str | None, second: str | None) -> Floats:
        """C_B between (T, c) of two mixed attributes, which may be the same; T alone where one is None."""
        block = self._axes.blocks.get(self.schema.ordered(part))
        if block is None:
            return self._of_set(part)
        rows, columns = (np.array([0]) if name is None else block.at(name) for name in (first, second))
        return np.asarray(self._of_set(part)[np.ix_(rows, columns)])

    def drawn(self, part: Sequence[str], mixed: str | None, normals: Callable[..., Floats]) -> Floats:
        """Errors of (T, c) of a set, the last axis, or of T alone, from standard normal numbers.

        All unknowns of a block are drawn together, so that tables with and without the attribute agree.
        """
        block = self._axes.blocks.get(self.schema.ordered(part))
        if block is None:
            return np.asarray(math.sqrt(self._of_set(part).item()) * normals())
        values, vectors = np.linalg.eigh(self._of_set(part))
        found = normals((block.size,)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        return np.asarray(found[..., 0] if mixed is None else found[..., block.at(mixed)])

    def variances(
        self, names: Sequence[str], summed: Sequence[str], mask: Floats, kept: Sequence[NDArray[np.intp]]
    ) -> Floats:
        """The variance of a sum over ``summed`` with the weights of a mask, for each cell of ``names``: over sets B.

        ``kept`` are the values of each of ``names``.
        """
        mask, out = self.in_bases(mask, summed), np.zeros(tuple(map(len, kept)))
        for outer in self._sets(summed):
            weights = self._part(mask, summed, outer)
            for inner in self._sets(names):
                table, part = np.ones(()), (*inner, *outer)
                for name, values in zip(names, kept, strict=True):
                    table = np.multiply.outer(table, self._squares(name, values, part))
                out += table * self._squares_of_sum(weights, names, summed, part)
        return out

    def terms(self, names: Sequence[str], weights: Floats) -> Iterator[NoiseTerm]:
        """The noise in a sum with these weights in the bases of some attributes: each noisy number with its weight."""
        ordered = self.schema.ordered(names)
        weights = weights.transpose([list(names).index(name) for name in ordered])
        mixed = next((name for name in ordered if name in self.mixed), None)
        known = {part: self._part(weights, ordered, part) @ self._rows_of(part, mixed) for part in self._sets(ordered)}
        found = []
        for measurement, reading in zip(self._measured, self._readings, strict=True):
            own = {
                part: known[part][:, [0] if not reading.mixed else self._axes.blocks[part].at(*reading.mixed)]
                for part in reading.parts
                if part in known
            }
            if own:
                found.append((measurement, np.abs(reading.noise_weights(own)).ravel()))
        largest = max(float(sizes.max()) * math.sqrt(m.variance) for m, sizes in found)
        for m, sizes in found:
            kept = sizes[sizes * math.sqrt(m.variance) > _LEAST_WEIGHT * largest].round(12)
            for weight, count in zip(*(each.tolist() for each in np.unique(kept, return_counts=True)), strict=True):
                yield NoiseTerm(m.noise, weight, count=float(count), variance=m.variance)

    @cached_property
    def _readings(self) -> list[MeasuredWay]:
        return [self._axes.reading(m.query, m.variance) for m in self._measured]

    @cached_property
    def _others(self) -> Variances:
        """What measurements without a mixed attribute say."""
        alone = [m for i, m in enumerate(self._measured) if i not in self._axes.readings]
        return Variances.of_queries(self.schema, [(m.query, m.variance) for m in alone])

    def _of_set(self, part: Sequence[str]) -> Floats:
        """C_B of all unknowns of a set, which is covered; T alone where nothing mixed is measured with it."""
        key = self.schema.ordered(part)
        if key not in self._known:
            variance = float(self._others.of_subsets(key)[-1])
            block = self._axes.blocks.get(key)
            if block is None:
                self._known[key] = np.full((1, 1), 0.0 if not key and self._rows is not None else variance)
            else:
                precision = 0.0 if math.isnan(variance) else 1 / variance
                found = self._axes.covariance(block, precision, total_known=self._rows is not None)
                assert found is not None  # what is not measured is not covered
                self._known[key] = found
        return self._known[key]

    def _rows_of(self, part: tuple[str, ...], mixed: str | None) -> Floats:
        """The rows of C_B for (T, c) of a mixed attribute, or for T alone."""
        block = self._axes.blocks.get(part)
        return self._of_set(part)[[0] if block is None or mixed is None else block.at(mixed)]

    def _sets(self, names: Sequence[str]) -> list[tuple[str, ...]]:
        """The sets B inside some attributes."""
        others = [name for name in names if name not in self.mixed]
        return [part for order in range(len(others) + 1) for part in combinations(others, order)]

    def _part(self, weights: Floats, names: Sequence[str], part: Sequence[str]) -> Floats:
        """Of weights in the bases those that belong to a set: (coefficients, values of a mixed attribute or 1)."""
        at = tuple(
            slice(None) if name in self.mixed else slice(1, None) if name in part else slice(0, 1) for name in names
        )
        own, mixed = weights[at], [axis for axis, name in enumerate(names) if name in self.mixed]
        return np.moveaxis(own, mixed, [-1] * len(mixed)).reshape(-1, own.shape[mixed[0]] if mixed else 1)

    def _squares_of_sum(
        self, weights: Floats, names: Sequence[str], summed: Sequence[str], part: Sequence[str]
    ) -> float:
        """What the summed attributes add: tr(F_B C_B F_B') if one of them is mixed, else sums of squares."""
        mixed = next((name for name in summed if name in self.mixed), None)
        if mixed is None and any(name in self.mixed for name in names):
            return float((weights**2).sum())  # the covariance belongs to the one among these (``_squares``)
        return float(((weights @ self.covariance(part, mixed, mixed)) * weights).sum())

    def _squares(self, name: str, values: NDArray[np.intp], part: Sequence[str]) -> Floats:
        """Along an attribute asked for: (u'w)^2 or |K'w|^2 of each value, or w'H C_B H'w if it is mixed."""
        rows = self.basis(name)[values]
        if name in self.mixed:
            return np.asarray(((rows @ self.covariance(part, name, name)) * rows).sum(axis=1))
        return np.asarray((rows[:, 1:] ** 2).sum(axis=1) if name in part else rows[:, 0] ** 2)


class NestedError:
    """Standard errors, exact for the linear estimate; noise of many tables is in them and counts as normal."""

    kind = ErrorKind.ESTIMATED

    def __init__(self, std_error: float | NDArray[np.float64]) -> None:
        self.std_error = std_error

    def half_width(self, level: float) -> float | NDArray[np.float64]:
        """The h such that normal noise stays within plus or minus h with this probability."""
        from scipy.special import ndtri

        return float(ndtri((1 + level) / 2)) * self.std_error


class MatrixError(ChosenSums):
    """Such errors along an attribute that is measured by a matrix: they differ from cell to cell.

    ``kept`` are the values of each of ``names``; ``kind`` says how well quantiles of single noises are known.
    """

    def __init__(
        self,
        law: LinearErrors,
        names: Sequence[str],
        summed: Sequence[str],
        *,
        kind: ErrorKind,
        kept: Sequence[NDArray[np.intp]] | None = None,
        chosen: NDArray[np.bool_] | None = None,
    ) -> None:
        super().__init__(names, summed, chosen)
        self._law = law
        self._kept = [np.arange(n) for n in law.schema.sizes(names)] if kept is None else kept
        self._places = np.broadcast_to(self._places, tuple(map(len, self._kept)))
        exact = law.is_normal or self._places.size <= _MOST_LAWS
        self.kind = kind if exact else ErrorKind.ESTIMATED

    @cached_property
    def std_error(self) -> Floats:
        """The standard deviation of the noise in each cell."""
        out = np.zeros(self._places.shape)
        for number, mask in enumerate(self._masks):
            table = self._law.variances(self._names, self._summed, mask.astype(np.float64), self._kept)
            out = np.where(self._places == number, table, out)
        return np.sqrt(np.maximum(out, 0.0))

    def _half_width(self, level: float) -> Floats:
        if self._law.is_normal or self.std_error.size > _MOST_LAWS:
            return np.asarray(NestedError(self.std_error).half_width(level))
        out = np.empty(self.std_error.shape)
        for cell in product(*map(range, out.shape)):
            out[cell] = half_width(tuple(self.terms(cell)), level)
        return out

    def terms(self, cell: Sequence[int]) -> Iterator[NoiseTerm]:
        """The noise in a cell: each noisy number with its weight."""
        weights = np.ones(())
        for name, values, value in zip(self._names, self._kept, cell, strict=True):
            weights = np.multiply.outer(weights, self._law.basis(name)[values[value]])
        mask = self._masks[self._places[tuple(cell)]].astype(np.float64)
        weights = np.multiply.outer(weights, self._law.in_bases(mask, self._summed))
        return self._law.terms((*self._names, *self._summed), weights)
