"""Errors of a release in which some attribute is measured in more than one way (``residuals.mixed``).

Let f be the weights of a sum of cells over attributes A, of which a may be mixed, and F the same in the bases along the
others and in Helmert's along a. The part of F that belongs to the set B is a matrix F_B with a row for each coefficient
of B and a column for T and each of c. With C_B the covariance of (T, c), the same for all coefficients of B,

    variance  =  sum over sets B inside A without a  of  tr(F_B C_B F_B'),

exact for the least squares estimate. Under Gaussian noise so are intervals; Laplace noise counts as normal in them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.error_bars import ErrorBars
from crosstally.answers.nested_errors import NestedError
from crosstally.budget import NoiseKind
from crosstally.residuals import Variances
from crosstally.residuals.axes import basis_along, map_axis
from crosstally.residuals.mixed import MixedAxes
from crosstally.tables import CellError, ErrorKind
from crosstally.typing import Floats

__all__ = ["MixedError", "MixedErrorBars"]

_DENSE_SCALE = 5.0  # discrete Gaussian noise from this scale on is normal to fifteen digits, as for other errors


class MixedError(NestedError):
    """Standard errors, cell by cell, of noise that is normal or counts as such."""

    def __init__(self, std_error: Floats, kind: ErrorKind) -> None:
        super().__init__(std_error)
        self.kind = kind


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
        return MixedError(np.sqrt(np.maximum(out, 0.0)), self._law_kind)

    @cached_property
    def _law_kind(self) -> ErrorKind:
        noises = [m.noise for m in self.measurements if m.noise is not None]
        normal = all(noise.kind is NoiseKind.GAUSSIAN and noise.scale >= _DENSE_SCALE for noise in noises)
        return self.kind if normal else ErrorKind.ESTIMATED

    def _variances_of(
        self, names: Sequence[str], summed: Sequence[str], mask: Floats, kept: Sequence[NDArray[np.intp]]
    ) -> Floats:
        """The variance of a sum over the cells of a mask, for each cell of ``names``: the sum over sets B."""
        for axis, name in enumerate(summed):
            mask = map_axis(self._basis(name).T, mask, axis)
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
            return float(((weights @ self._covariance(part, mixed[0])) * weights).sum())
        # The covariance belongs to the mixed attribute among the others (``_squares``), or to T alone.
        return float((weights**2).sum()) * (1.0 if self._mixed.holds(names) else self._total_variance(part))

    def _squares(self, name: str, values: NDArray[np.intp], part: Sequence[str]) -> Floats:
        """Along an attribute asked for: (u'w)^2 or |K'w|^2 of each value, or w'H C_B H'w if it is mixed."""
        rows = self._basis(name)[values]
        if self._mixed.holds([name]):
            return np.asarray(((rows @ self._covariance(part, name)) * rows).sum(axis=1))
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

    def _covariance(self, part: Sequence[str], name: str) -> Floats:
        """The covariance of (T, c) of a set with a mixed attribute, which are covered."""
        block = self._mixed.blocks[self.schema.ordered(part)]
        found = self._mixed.covariance(block, self._precision(part), total_known=self.rows is not None)
        assert found is not None  # what is not measured is not covered
        at = block.at(name)
        return found[np.ix_(at, at)]

    def _total_variance(self, part: Sequence[str]) -> float:
        """The variance of the coefficients of a set without mixed attributes."""
        if not part and self.rows is not None:
            return 0.0
        block = self._mixed.blocks.get(self.schema.ordered(part))
        precision = self._precision(part)
        if block is None:
            return 1 / precision
        found = self._mixed.covariance(block, precision)
        assert found is not None  # what is not measured is not covered
        return float(found[0, 0])


def _subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return (part for order in range(len(names) + 1) for part in combinations(names, order))
