"""Errors of a release in which some attribute is measured in more than one way (``residuals.mixed``).

Let f be the weights of a sum of cells over attributes A, of which a may be mixed, and F the same in the bases along the
others and in Helmert's along a. The part of F that belongs to the set B is a matrix F_B with a row for each coefficient
of B and a column for T and each of c. With C_B the covariance of (T, c), the same for all coefficients of B,

    variance  =  sum over sets B inside A without a  of  tr(F_B C_B F_B'),

exact for the least squares estimate. The weight of one noisy number of a measurement follows from how coefficients are
read from it: F_B C_B, for all B that it is about, times A = S [u K] along each of its attributes, over its variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.error_bars import ErrorBars
from crosstally.answers.marginal import ErrorKind
from crosstally.answers.nested_errors import NestedError
from crosstally.answers.noise_sums import NoiseTerm, half_width
from crosstally.answers.uncertainty import CellError
from crosstally.budget import NoiseKind
from crosstally.residuals import Variances
from crosstally.residuals.axes import basis_along, map_axis
from crosstally.residuals.mixed import MixedAxes, Reading
from crosstally.typing import Floats

__all__ = ["MixedError", "MixedErrorBars"]

_DENSE_SCALE = 5.0  # discrete Gaussian noise from this scale on is normal to fifteen digits, as for other errors
_ROUNDING = 1e-6  # of a standard error, as for other errors: an answer's rounding must not put the truth outside
# Cells of one table whose quantiles are worked out one by one, as for other errors; more count as normal, and say so.
_MOST_LAWS = 400
_LEAST_WEIGHT = 1e-12  # of the largest: noise that counts for less is left out


class MixedError(NestedError):
    """Standard errors, cell by cell, and the law of the noise of each: ``terms`` are None where it is normal."""

    def __init__(
        self, std_error: Floats, kind: ErrorKind, terms: Callable[[tuple[int, ...]], Sequence[NoiseTerm]] | None
    ) -> None:
        super().__init__(std_error)
        self._cells, self._terms = std_error, terms
        self.kind = kind

    def half_width(self, level: float) -> float | NDArray[np.float64]:
        """For each cell the least h such that noise stays within plus or minus h with this probability, or more."""
        if self._terms is None:
            return np.asarray(super().half_width(level)) + _ROUNDING * self._cells
        out = np.empty(self._cells.shape)
        for cell in product(*map(range, out.shape)):
            out[cell] = half_width(self._terms(cell), level)
        return out + _ROUNDING * self._cells


class MixedErrorBars(ErrorBars):
    """The errors of all tables of an estimate with a mixed attribute."""

    def covered_law(self, names: Sequence[str]) -> NestedError:
        """The error of each cell of a table that is known to be covered."""
        kept = [np.arange(n) for n in self.schema.sizes(names)]
        return self._error(names, (), np.ones((1,) * len(names), np.bool_), kept)

    def sums(
        self,
        names: Sequence[str],
        summed: Sequence[str],
        chosen: NDArray[np.bool_],
        kept: Sequence[NDArray[np.intp]] | None = None,
    ) -> CellError:
        """As in ``ErrorBars``."""
        every = [np.arange(n) for n in self.schema.sizes(names)]
        return self._error(names, summed, chosen, every if kept is None else kept)

    def _error(
        self,
        names: Sequence[str],
        summed: Sequence[str],
        chosen: NDArray[np.bool_],
        kept: Sequence[NDArray[np.intp]],
    ) -> MixedError:
        shape, inside = chosen.shape[: len(names)], chosen.shape[len(names) :]
        masks, places = np.unique(chosen.reshape(math.prod(shape), -1), axis=0, return_inverse=True)
        places = np.broadcast_to(places.reshape(shape), tuple(map(len, kept)))
        out = np.zeros(places.shape)
        for number, mask in enumerate(masks):
            table = self._variances_of(names, summed, mask.reshape(inside).astype(np.float64), kept)
            out = np.where(places == number, table, out)
        found = np.sqrt(np.maximum(out, 0.0))
        if self._is_normal or out.size > _MOST_LAWS:
            return MixedError(found, self.kind if self._is_normal else ErrorKind.ESTIMATED, None)

        def terms(cell: tuple[int, ...]) -> list[NoiseTerm]:
            weights = np.ones(())
            for name, values, value in zip(names, kept, cell, strict=True):
                weights = np.multiply.outer(weights, self._basis(name)[values[value]])
            mask = masks[places[cell]].reshape(inside).astype(np.float64)
            return list(self._terms((*names, *summed), np.multiply.outer(weights, self._in_bases(mask, summed))))

        return MixedError(found, self.kind, terms)

    @property
    def joint(self) -> MixedErrorBars:
        """See ErrorBars."""
        return self

    @property
    def mixed(self) -> Collection[str]:
        """The attributes measured in more than one way."""
        return self._mixed.mixed

    def basis(self, name: str) -> Floats | None:
        """[u K] along an attribute that is measured by a matrix; Helmert's along mixed ones, None along others."""
        return self._basis(name) if name in self.mixed else super().basis(name)

    def covariance(self, part: Sequence[str], first: str | None, second: str | None) -> Floats:
        """C_B between (T, c) of two mixed attributes, which may be the same; T alone where one is None."""
        if first is None and second is None:
            return np.full((1, 1), self._total_variance(part))
        block = self._mixed.blocks[self.schema.ordered(part)]
        rows, columns = (np.array([0]) if name is None else block.at(name) for name in (first, second))
        return np.asarray(self._covariance(part)[np.ix_(rows, columns)])

    def drawn(self, part: Sequence[str], mixed: str | None, normals: Callable[..., Floats]) -> Floats:
        """Errors of (T, c) of a set, the last axis, or of T alone, from standard normal numbers.

        All unknowns of a block are drawn together, so that tables with and without the attribute agree.
        """
        block = self._mixed.blocks.get(self.schema.ordered(part))
        if block is None:
            return np.asarray(math.sqrt(self._total_variance(part)) * normals())
        values, vectors = np.linalg.eigh(self._covariance(part))
        found = normals((block.size,)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        return np.asarray(found[..., 0] if mixed is None else found[..., block.at(mixed)])

    @cached_property
    def _is_normal(self) -> bool:
        noises = [m.noise for m in self.measurements if m.noise is not None]
        return all(noise.kind is NoiseKind.GAUSSIAN and noise.scale >= _DENSE_SCALE for noise in noises)

    def _in_bases(self, mask: Floats, summed: Sequence[str]) -> Floats:
        for axis, name in enumerate(summed):
            mask = map_axis(self._basis(name).T, mask, axis)
        return mask

    def _terms(self, names: Sequence[str], weights: Floats) -> Iterator[NoiseTerm]:
        """The noise in a sum with these weights in the bases of some attributes: each noisy number with its weight."""
        ordered = self.schema.ordered(names)
        weights = weights.transpose([list(names).index(name) for name in ordered])
        known = {
            part: self._of_block(self._part(weights, ordered, part), ordered, part)
            for part in _subsets([name for name in ordered if not self._mixed.holds([name])])
        }
        found = []
        for measurement, reading in zip(self.measurements, self._readings, strict=True):
            own = {
                part: known[part][:, [0] if not reading.mixed else self._mixed.blocks[part].at(*reading.mixed)]
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
    def _readings(self) -> list[Reading]:
        return [self._mixed.reading(m.query, m.variance) for m in self.measurements if m.query.is_product]

    def _of_block(self, weights: Floats, names: Sequence[str], part: tuple[str, ...]) -> Floats:
        """F_B C_B: the weights of all that is known about a set, T first; from (coefficients, values of a or 1)."""
        block = self._mixed.blocks.get(part)
        if block is None:
            return weights * self._total_variance(part)
        mixed = [name for name in names if self._mixed.holds([name])]
        at = block.at(*mixed) if mixed else np.array([0])
        return np.asarray(weights @ self._covariance(part)[at])

    def _variances_of(
        self, names: Sequence[str], summed: Sequence[str], mask: Floats, kept: Sequence[NDArray[np.intp]]
    ) -> Floats:
        """The variance of a sum over the cells of a mask, for each cell of ``names``: the sum over sets B."""
        mask = self._in_bases(mask, summed)
        out = np.zeros(tuple(map(len, kept)))
        for outer in _subsets([name for name in summed if not self._mixed.holds([name])]):
            weights = self._part(mask, summed, outer)
            for inner in _subsets([name for name in names if not self._mixed.holds([name])]):
                table = np.ones(())
                for name, values in zip(names, kept, strict=True):
                    table = np.multiply.outer(table, self._squares(name, values, (*inner, *outer)))
                out += table * self._squares_of_sum(weights, names, summed, (*inner, *outer))
        return out

    def _part(self, mask: Floats, summed: Sequence[str], part: Sequence[str]) -> Floats:
        """Of weights in the bases those that belong to a set: (coefficients, values of a mixed attribute or 1)."""
        at = tuple(
            slice(None) if self._mixed.holds([name]) else slice(1, None) if name in part else slice(0, 1)
            for name in summed
        )
        own, mixed = mask[at], [axis for axis, name in enumerate(summed) if self._mixed.holds([name])]
        return np.moveaxis(own, mixed, [-1] * len(mixed)).reshape(-1, own.shape[mixed[0]] if mixed else 1)

    def _squares_of_sum(
        self, weights: Floats, names: Sequence[str], summed: Sequence[str], part: Sequence[str]
    ) -> float:
        """What the summed attributes add: tr(F_B C_B F_B') if one of them is mixed, else sums of squares."""
        mixed = [name for name in summed if self._mixed.holds([name])]
        if mixed:
            return float(((weights @ self._covariance_of(part, mixed[0])) * weights).sum())
        # The covariance belongs to the mixed attribute among the others (``_squares``), or to T alone.
        return float((weights**2).sum()) * (1.0 if self._mixed.holds(names) else self._total_variance(part))

    def _squares(self, name: str, values: NDArray[np.intp], part: Sequence[str]) -> Floats:
        """Along an attribute asked for: (u'w)^2 or |K'w|^2 of each value, or w'H C_B H'w if it is mixed."""
        rows = self._basis(name)[values]
        if self._mixed.holds([name]):
            return np.asarray(((rows @ self._covariance_of(part, name)) * rows).sum(axis=1))
        return np.asarray((rows[:, 1:] ** 2).sum(axis=1) if name in part else rows[:, 0] ** 2)

    def _basis(self, name: str) -> Floats:
        return basis_along(self.linear.get(name), self.schema[name].size)

    @cached_property
    def _mixed(self) -> MixedAxes:
        return MixedAxes(self.schema, [(m.query, m.variance) for m in self.measurements])

    @cached_property
    def _others(self) -> Variances:
        """What measurements without a mixed attribute say."""
        alone = [m for i, m in enumerate(self.measurements) if i not in self._mixed.readings]
        return Variances.of_queries(self.schema, [(m.query, m.variance) for m in alone])

    def _precision(self, part: Sequence[str]) -> float:
        variance = float(self._others.of_subsets(part)[-1])
        return 0.0 if math.isnan(variance) else 1 / variance

    def _covariance(self, part: Sequence[str]) -> Floats:
        """The covariance of all unknowns of a block, which are covered."""
        block = self._mixed.blocks[self.schema.ordered(part)]
        found = self._mixed.covariance(block, self._precision(part), total_known=self.rows is not None)
        assert found is not None  # what is not measured is not covered
        return found

    def _covariance_of(self, part: Sequence[str], name: str) -> Floats:
        """The covariance of (T, c) of a set with a mixed attribute."""
        at = self._mixed.blocks[self.schema.ordered(part)].at(name)
        return self._covariance(part)[np.ix_(at, at)]

    def _total_variance(self, part: Sequence[str]) -> float:
        """The variance of the coefficients of a set without mixed attributes."""
        if not part and self.rows is not None:
            return 0.0
        if self.schema.ordered(part) in self._mixed.blocks:
            return float(self._covariance(part)[0, 0])
        return 1 / self._precision(part)


def _subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return (part for order in range(len(names) + 1) for part in combinations(names, order))
