"""Errors of tables with an attribute that was measured by a matrix (``residuals.axes``): they differ from cell to cell.

A sum of cells with weights f has, in the bases along its axes, the weights F = (product of [u K]') f of independent
coefficients. Its variance is the sum over the sets B of variance_B times the squares of F that belong to B. The weight
of one noisy number of a measurement follows from how the coefficients are read from it: F, times the share that the
measurement has in the average of each set, times the reader along each axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.marginal import ErrorKind
from crosstally.answers.noise_sums import NoiseTerm, half_width
from crosstally.budget import NoiseKind
from crosstally.measurements import Measurement
from crosstally.query.operators import CONTRAST
from crosstally.residuals.axes import LinearAxis, basis_along, map_axis, squares_by_subset
from crosstally.residuals.basis import decompose
from crosstally.schema import Schema
from crosstally.typing import Floats

__all__ = ["MatrixError"]

_MOST_LAWS = 400
"""Cells of one table whose quantiles are worked out one by one under Laplace noise, a few milliseconds each; those of
larger tables count as normal, which many numbers added up nearly are."""

_DENSE_SCALE = 5.0  # discrete Gaussian noise from this scale on is normal to fifteen digits
_ROUNDING = 1e-6  # of a standard error, as for other laws: an answer's rounding must not put the truth outside
_LEAST_WEIGHT = 1e-12  # of the largest: noise that counts for less is left out


class Bars(Protocol):
    """What the errors of a release know."""

    schema: Schema
    kind: ErrorKind

    @property
    def linear(self) -> Mapping[str, LinearAxis]:
        """The bases along attributes that are measured by a matrix."""

    @property
    def measurements(self) -> Sequence[Measurement]:
        """All that was measured."""

    def variances(self, names: Sequence[str]) -> NDArray[np.float64]:
        """The variance of the coefficients of each subset."""


class MatrixError:
    """The errors of sums over chosen cells of ``summed``, for each cell of ``names``.

    ``kept`` are the values of each of ``names``; ``chosen`` has an axis for each of them, of length one where all
    values choose alike, then one for each of ``summed``.
    """

    def __init__(
        self,
        bars: Bars,
        names: Sequence[str],
        summed: Sequence[str],
        *,
        kept: Sequence[NDArray[np.intp]],
        chosen: NDArray[np.bool_],
    ) -> None:
        self._bars = bars
        self._names, self._summed = tuple(names), tuple(summed)
        self._kept = tuple(kept)
        shape = chosen.shape[: len(names)]
        masks = chosen.reshape(math.prod(shape), -1).astype(np.float64)
        self._masks, places = np.unique(masks, axis=0, return_inverse=True)
        self._places = np.broadcast_to(places.reshape(shape), self.shape)
        self._inside = chosen.shape[len(names) :]
        self._half_widths: dict[float, Floats] = {}

    @classmethod
    def of_cells(cls, bars: Bars, names: Sequence[str]) -> MatrixError:
        """The errors of all cells of a table."""
        kept = [np.arange(n) for n in bars.schema.sizes(names)]
        return cls(bars, names, (), kept=kept, chosen=np.ones((1,) * len(kept), np.bool_))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the table."""
        return tuple(map(len, self._kept))

    @property
    def kind(self) -> ErrorKind:
        """How well intervals are known."""
        exact = self._is_normal or math.prod(self.shape) <= _MOST_LAWS
        return self._bars.kind if exact else ErrorKind.ESTIMATED

    @cached_property
    def std_error(self) -> Floats:
        """The standard deviation of the noise in each cell."""
        variances = self._variances.reshape((2,) * len(self._names) + (-1,))
        bases = self._bases(self._summed)
        out = np.zeros(self.shape)
        for number, mask in enumerate(self._masks):
            table = variances @ squares_by_subset(mask.reshape(self._inside), bases)
            for axis, (name, kept) in enumerate(zip(self._names, self._kept, strict=True)):
                table = map_axis(self._squares(name)[kept], table, axis)
            out = np.where(self._places == number, table, out)
        return np.sqrt(np.maximum(out, 0.0))

    def half_width(self, level: float) -> Floats:
        """For each cell the least h such that noise stays within plus or minus h with this probability, or more."""
        if level not in self._half_widths:
            self._half_widths[level] = self._half_width(level) + _ROUNDING * self.std_error
        return self._half_widths[level]

    def _half_width(self, level: float) -> Floats:
        from scipy.special import ndtri

        if self._is_normal or math.prod(self.shape) > _MOST_LAWS:
            return np.asarray(float(ndtri((1 + level) / 2)) * self.std_error)
        out = np.empty(self.shape)
        for cell in product(*map(range, self.shape)):
            out[cell] = half_width(tuple(self.terms(cell)), level)
        return out

    @cached_property
    def _is_normal(self) -> bool:
        noises = [m.noise for m in self._bars.measurements if m.noise is not None]
        return all(noise.kind is NoiseKind.GAUSSIAN and noise.scale >= _DENSE_SCALE for noise in noises)

    @cached_property
    def _variances(self) -> NDArray[np.float64]:
        return self._bars.variances((*self._names, *self._summed))

    def _bases(self, names: Sequence[str]) -> list[Floats]:
        return [basis_along(self._bars.linear.get(name), n) for name, n in zip(names, self._sizes(names), strict=True)]

    def _sizes(self, names: Sequence[str]) -> tuple[int, ...]:
        return self._bars.schema.sizes(names)

    def _squares(self, name: str) -> Floats:
        axis, n = self._bars.linear.get(name), self._bars.schema[name].size
        return np.tile([1 / n**2, 1 - 1 / n], (n, 1)) if axis is None else axis.cell_squares

    # The law of one cell

    def terms(self, cell: Sequence[int]) -> Iterator[NoiseTerm]:
        """The noise in a cell: each noisy number with its weight."""
        weights = self._coordinates(cell)
        names = (*self._names, *self._summed)
        combined = self._variances.reshape((2,) * len(names))
        found = []
        for measurement in self._bars.measurements:
            own = _noise_weights(measurement, names, weights, combined, self._bars)
            if own is not None:
                found.append((measurement, np.abs(own)))
        largest = max((float(own.max()) * math.sqrt(m.variance) for m, own in found), default=0.0)
        for measurement, own in found:
            size = math.sqrt(measurement.variance)
            sizes, counts = np.unique(own[own * size > _LEAST_WEIGHT * largest].round(12), return_counts=True)
            for weight, count in zip(sizes.tolist(), counts.tolist(), strict=True):
                yield NoiseTerm(measurement.noise, weight, count=float(count), variance=measurement.variance)

    def _coordinates(self, cell: Sequence[int]) -> Floats:
        """F: the weights of the coefficients of a cell, an axis for each attribute."""
        out = np.ones(())
        for basis, kept, value in zip(self._bases(self._names), self._kept, cell, strict=True):
            out = np.multiply.outer(out, basis[kept[value]])
        inside = self._masks[self._places[tuple(cell)]].reshape(self._inside)
        for axis, basis in enumerate(self._bases(self._summed)):
            inside = map_axis(basis.T, inside, axis)
        return np.asarray(np.multiply.outer(out, inside))


def _noise_weights(
    measurement: Measurement, names: Sequence[str], weights: Floats, combined: Floats, bars: Bars
) -> Floats | None:
    """The weight of each noisy number of a measurement; None where it says nothing about the table."""
    query, own = measurement.query, measurement.query.attributes
    residual = query.is_residual
    if residual and not set(own) <= set(names):
        return None
    mine = tuple(slice(None) if name in own else 0 for name in names)
    weights, shares = weights[mine], combined[mine] / measurement.variance
    for i, (_, precisions) in enumerate(_reading(name, bars, residual=residual) for name in names if name in own):
        shares = shares * precisions.reshape([2 if j == i else 1 for j in range(shares.ndim)])
    for i, n in enumerate(weights.shape):  # shares belong to sets: the first place along an axis is outside of them
        shares = shares.take(np.minimum(np.arange(n), 1), i)
    out = weights * shares
    for i, (reader, _) in enumerate(_reading(name, bars, residual=residual) for name in names if name in own):
        out = map_axis(reader.T, out.take(range(1, out.shape[i]), i) if residual else out, i)
    for reader, precisions in (_reading(name, bars, residual=residual) for name in own if name not in names):
        out = np.multiply.outer(out, precisions[0] * reader[0])
    return out.ravel()


def _reading(name: str, bars: Bars, *, residual: bool) -> tuple[Floats, NDArray[np.float64]]:
    """How coefficients are read along an attribute, and what unit noise tells about the total and about them."""
    axis, n = bars.linear.get(name), bars.schema[name].size
    if axis is not None:
        return axis.reader, np.array([axis.of_total, 1.0])
    helmert = decompose(np.eye(n), 1).T
    if not residual:
        return helmert, np.array([1 / n, 1.0])
    squared_scale = CONTRAST.squared_scale(n)
    reader = np.ones((1, 1)) if CONTRAST.numbers(n) == 1 else helmert[1:]
    return reader / math.sqrt(squared_scale), np.array([0.0, float(squared_scale)])
