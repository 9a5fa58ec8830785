"""Quantiles of weighted sums of independent noise, from its characteristic function.

All noise here is symmetric and its characteristic function real and positive, so everything is done in logarithms.

Which noise is in a sum over chosen cells of some attributes follows from its parts in the residual basis. A function f
on the cells has a part for each subset B of the attributes: its mean along those outside B, centred along those inside.
The parts add up to f and are orthogonal. Here f is 1 on the chosen cells and 0 elsewhere; values of an attribute that
cannot be told apart by f are kept once, with their number. So a range of 30 bins out of 100 is two kinds of values, and
a condition in product form costs 2 numbers for each attribute.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Noise, NoiseKind
from crosstally.residuals.axes import outer_product
from crosstally.typing import Floats

# Limits memory: 4 MB of complex numbers. Wider sums of equal draws go through the integral, as mixed ones do.
_MOST_LATTICE_POINTS = 2**18
# Frequencies of the integral. Twice as many halve the blur, which is 0.0003 of the reach at most, and the time doubles.
_POINTS = 2**16
_BLOCK = 2**16  # numbers that are worked on at once: 512 kB, so that they stay in the processor's cache
# Kaiser's shape parameter: beyond the band its transform is below e^-30. Less leaves a tail, more widens the blur.
_BAND = 30.0
_MARGIN = 1e-10  # added to the level: far above the rounding of the sum, so that intervals are never too short
_ROUNDING = 1e-6  # of a standard error, added to half widths: estimates and widths are doubles, and none may be short
_NEGLIGIBLE = -37.0  # of logarithms: e^-37 is below 1e-16, what a double adds nothing from


@dataclass(frozen=True, slots=True)
class NoiseTerm:
    """A number of independent draws of one noise, each times the same weight; ``noise`` None is a normal one."""

    noise: Noise | None
    weight: float
    _: KW_ONLY
    count: float
    variance: float

    def __post_init__(self) -> None:
        if self.noise is not None and self.noise.parts > 1:  # the same in whole numbers of parts
            parts = self.noise.parts
            whole = {"noise": self.noise.whole, "weight": self.weight / parts, "variance": self.variance * parts**2}
            for name, value in whole.items():
                object.__setattr__(self, name, value)

    @property
    def share(self) -> float:
        """What it adds to the variance of the sum."""
        return self.count * self.variance * self.weight**2


def half_width(terms: Sequence[NoiseTerm], level: float) -> float:
    """The least h with P(|sum| <= h) >= level.

    Exact when all draws are alike. Otherwise never less than that, and more by at most 0.0003 times how far the noise
    can reach: about 1% of the standard error, for scales well below 1 about 1% of the largest weight.
    """
    if not any(term.share for term in terms) or _log_probability_of_zero(terms) >= math.log(level):
        return 0.0
    if len(terms) == 1:
        (term,) = terms
        if term.noise is not None and term.noise.kind is NoiseKind.LAPLACE and term.count == 1:
            return abs(term.weight) * _laplace_quantile(term.noise.scale, level)
        points = 2 ** math.ceil(math.log2(2 * _reach(terms) / abs(term.weight) + 2))
        if term.noise is not None and points <= _MOST_LATTICE_POINTS:
            return abs(term.weight) * _lattice_quantile(term.noise, term.count, level, points)
    return _quantile(terms, level)


def _laplace_quantile(scale: float, level: float) -> int:
    """The least k for one discrete Laplace: with a = e^(-1/scale), P(|X| > k) = 2 a^(k+1) / (1 + a)."""
    ratio = math.exp(-1 / scale)
    return max(0, math.ceil(-scale * math.log((1 - level) * (1 + ratio) / 2)) - 1)


def _lattice_quantile(noise: Noise, count: float, level: float, points: int) -> int:
    """The least k for a sum of equal draws: its probabilities are a Fourier transform around a circle of points."""
    angles = np.linspace(0.0, math.pi, points // 2 + 1)
    probabilities = np.fft.irfft(np.exp(count * _log_characteristic(noise, 0.0, angles)), points)[: points // 2]
    probabilities[1:] *= 2
    return min(int(np.searchsorted(np.cumsum(probabilities), level)), points // 2)


def _quantile(terms: Sequence[NoiseTerm], level: float) -> float:
    """An upper bound of the quantile of |E| by inversion of the characteristic function.

    A little noise U within plus or minus ``blur`` is added, so that the integral ends: P(|E| <= q + blur) is at least
    P(|E + U| <= q). U has Kaiser's density, whose transform vanishes (to e^-30) beyond ``_BAND / blur``. A sum over
    multiples of pi / reach stands for the integral: exact but for what lies beyond ``reach``.
    """
    reach = _reach(terms)
    blur = _BAND * reach / (math.pi * _POINTS)
    frequencies, weights = _blurred_characteristic(terms, math.pi / reach)
    weights *= 2 / (reach * frequencies)
    low, high = 0.0, reach
    while high - low > blur / 8:
        middle = (low + high) / 2
        inside = middle / reach + float(weights @ np.sin(middle * frequencies))
        low, high = (low, middle) if inside >= level + _MARGIN else (middle, high)
    return high + blur


def _reach(terms: Sequence[NoiseTerm]) -> float:
    """A distance that the sum passes with a probability below 1e-15."""
    return 12 * math.sqrt(sum(term.share for term in terms)) + max(map(_tail, terms))


def _tail(term: NoiseTerm) -> float:
    """A distance that one draw passes with a probability below e^-40."""
    if term.noise is None:
        return 9 * abs(term.weight) * math.sqrt(term.variance)
    scales = 40 if term.noise.kind is NoiseKind.LAPLACE else 9
    return abs(term.weight) * (scales * term.noise.scale + 1)


def _blurred_characteristic(terms: Sequence[NoiseTerm], step: float) -> tuple[Floats, Floats]:
    """The frequencies (multiples of the step) at which the characteristic function of E + U is not negligible.

    Every factor is at most 1, so a frequency is dropped as soon as the product so far is negligible: the terms that
    matter most come first, one by one; once few frequencies are left, terms of the same noise go together.
    """
    ordered = sorted(terms, key=lambda term: -term.share)
    logs, frequencies = _log_kaiser(), step * np.arange(1.0, _POINTS)
    while ordered:
        together = min(len(ordered), max(1, _BLOCK // max(1, len(frequencies))))
        logs = logs + _log_characteristic_of_sum(ordered[:together], frequencies)
        kept = logs > _NEGLIGIBLE
        logs, frequencies, ordered = logs[kept], frequencies[kept], ordered[together:]
    return frequencies, np.exp(logs)


def _log_characteristic_of_sum(terms: Sequence[NoiseTerm], frequencies: Floats) -> Floats:
    """The logarithm of the characteristic function of a sum, without blur."""
    alike: dict[tuple[Noise | None, float], list[NoiseTerm]] = defaultdict(list)
    for term in terms:
        alike[term.noise, term.variance].append(term)
    total = np.zeros(len(frequencies))
    for (noise, variance), group in alike.items():
        angles = np.multiply.outer([abs(term.weight) for term in group], frequencies)
        total += np.array([term.count for term in group]) @ _log_characteristic(noise, variance, angles)
    return total


@cache
def _log_kaiser() -> Floats:
    """The logarithm of (sinh r / r) / (sinh b / b), r^2 = b^2 - x^2, for b the band and x in equal steps up to b."""
    root = np.sqrt(_BAND**2 - (_BAND / _POINTS * np.arange(1.0, _POINTS)) ** 2)
    return np.asarray(_log_sinh_ratio(root) - _log_sinh_ratio(np.array(_BAND)))


def _log_sinh_ratio(root: Floats) -> Floats:
    return np.asarray(root + np.log(-np.expm1(-2 * root) / (2 * root)))


def _log_characteristic(noise: Noise | None, variance: float, angles: Floats) -> Floats:
    """The logarithm of the characteristic function of one draw."""
    if noise is None:
        return np.asarray(-variance / 2 * angles**2)
    if noise.kind is NoiseKind.LAPLACE:  # (1 - a)^2 / (1 - 2 a cos t + a^2) with 2 a / (1 - a)^2 = variance
        return np.asarray(-np.log1p(2 * noise.variance * np.sin(angles / 2) ** 2))
    return _log_gaussian_characteristic(noise.scale, angles)


def _log_gaussian_characteristic(scale: float, angles: Floats) -> Floats:
    """The logarithm of the discrete Gaussian's: sum of e^(-k^2 / 2 s^2) cos(k t), normalised.

    For all but small scales by Poisson's summation: the continuous one, added up over t + 2 pi m. Five terms on each
    side are exact to the last bit for scales above 0.4; from 1 on, one is.
    """
    if scale < 0.4:
        weights = [math.exp(-(k**2) / (2 * scale**2)) for k in range(1, 7)]
        above = [w * np.cos(k * angles) for k, w in enumerate(weights, 1)]
        return np.asarray(np.log1p(2 * sum(above)) - math.log1p(2 * sum(weights)))
    turns = [m for m in range(-5, 6) if m] if scale < 1 else [-1, 1]
    reduced = np.abs(angles - 2 * math.pi * np.round(angles / (2 * math.pi)))
    half = scale**2 / 2
    others = [np.exp(half * (reduced**2 - (reduced + 2 * math.pi * m) ** 2)) for m in turns]
    norm = sum(math.exp(-half * (2 * math.pi * m) ** 2) for m in turns)
    return np.asarray(-half * reduced**2 + np.log1p(sum(others)) - math.log1p(norm))


def _log_probability_of_zero(terms: Sequence[NoiseTerm]) -> float:
    """The logarithm of the probability that all draws are zero."""
    return sum(term.count * _log_zero(term.noise) for term in terms)


@cache
def _log_zero(noise: Noise | None) -> float:
    if noise is None:
        return -math.inf
    if noise.kind is NoiseKind.LAPLACE:
        return math.log(math.tanh(1 / (2 * noise.scale)))
    if noise.scale > 5:  # the sum is the integral to the last bit
        return -math.log(noise.scale * math.sqrt(2 * math.pi))
    return -math.log1p(2 * sum(math.exp(-(k**2) / (2 * noise.scale**2)) for k in range(1, 46)))


@dataclass(frozen=True, eq=False)
class CellSums:
    """The cells of ``names`` that are summed.

    ``kinds`` holds for each attribute how many of its values are of each kind; ``cells`` is 1 where a combination of
    kinds is chosen, otherwise 0.
    """

    names: tuple[str, ...]
    kinds: tuple[Floats, ...]
    cells: Floats

    @classmethod
    def of(cls, names: Sequence[str], chosen: NDArray[np.bool_]) -> CellSums:
        """From what is chosen among the cells of all values: an axis for each attribute."""
        cells, kinds = chosen, []
        for axis, n in enumerate(chosen.shape):
            slices = np.moveaxis(cells, axis, 0).reshape(n, -1)
            _, first, times = np.unique(slices, axis=0, return_index=True, return_counts=True)
            cells = cells.take(first, axis)
            kinds.append(times.astype(float))
        return cls(tuple(names), tuple(kinds), cells.astype(float))

    def in_each_cell(self, names: Sequence[str], sizes: Sequence[int]) -> CellSums:
        """The sum in one cell of further attributes: along each of them its own value is chosen, and no other."""
        cells = np.zeros((2,) * len(sizes) + self.cells.shape)
        cells[(1,) * len(sizes)] = self.cells
        kinds = (np.array([n - 1.0, 1.0]) for n in sizes)
        return CellSums((*names, *self.names), (*kinds, *self.kinds), cells)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many values each attribute has."""
        return tuple(int(kinds.sum()) for kinds in self.kinds)

    @cached_property
    def counts(self) -> Floats:
        """How many cells are of each combination of kinds."""
        return outer_product([kinds.tolist() for kinds in self.kinds])

    def squares(self) -> Floats:
        """The sum of squares of each part along its own attributes, for all subsets, the last attribute fastest."""
        out = self._coefficients**2
        for n in self.sizes:  # the axis that is done becomes the last one
            out = np.stack([out[0] / n, out[1:].sum(axis=0)], axis=-1)
        return out.ravel()

    def mean(self, axes: Sequence[int]) -> CellSums:
        """The mean along all attributes but those of some axes (increasing); not 0 or 1 any more."""
        cells = self.cells
        for axis, kinds in enumerate(self.kinds):  # each axis becomes the last one, or goes
            cells = cells.reshape(len(kinds), -1)
            cells = cells.T if axis in axes else kinds / kinds.sum() @ cells
        own = tuple(self.kinds[axis] for axis in axes)
        return CellSums(tuple(self.names[axis] for axis in axes), own, cells.reshape([len(kinds) for kinds in own]))

    def weighted(self, shares: Floats) -> Floats:
        """The sum over all parts of share times part; ``shares`` has an axis of two for each attribute."""
        for axis, kinds in enumerate(self.kinds):
            if len(kinds) != 2:
                shares = shares.take([0, *[1] * (len(kinds) - 1)], axis)
        return self._turned(self._coefficients * shares) / self._roots

    def contrast(self) -> tuple[Floats, Floats]:
        """What a contrast of all attributes adds for each of its noisy numbers, and how often each occurs.

        Along an attribute of n > 2 values a noisy number stands for a cell times n. Along one of two values there is
        a single number, half of which is added to one cell and taken from the other: the centred value of the first.
        """
        cells, times = self.cells, []
        for axis, (kinds, n) in enumerate(zip(self.kinds, self.sizes, strict=True)):
            mean = np.tensordot(cells, kinds / n, axes=(axis, 0))
            cells = cells - np.expand_dims(mean, axis)
            cells = cells.take([0], axis) if n == 2 else cells / n
            times.append([1.0] if n == 2 else kinds.tolist())
        return cells.ravel(), outer_product(times)

    @cached_property
    def _roots(self) -> Floats:
        """The square root of the number of cells of each combination of kinds."""
        return np.sqrt(self.counts).reshape(self.cells.shape)

    @cached_property
    def _coefficients(self) -> Floats:
        """All cells in an orthonormal basis whose first vector along each attribute is the constant one."""
        return self._turned(self.cells * self._roots)

    def _turned(self, cells: Floats) -> Floats:
        """Into that basis by Householder's reflections, so that the way back is the same."""
        for kinds in self.kinds:  # each axis becomes the last one
            normal = np.sqrt(kinds / kinds.sum())
            normal[0] += 1.0
            cells = cells.reshape(len(normal), -1)
            cells = (cells - np.multiply.outer(normal, normal * (2 / (normal @ normal)) @ cells)).T
        return cells.reshape(self.cells.shape)


class ChosenSums(ABC):
    """The errors of sums over chosen cells of ``summed``, for each cell of ``names``.

    ``chosen`` has an axis for each of ``names``, of length one where all values choose alike, then one for each of
    ``summed``; without it nothing is summed. ``_masks`` are the ways to choose, ``_places`` says which each cell has.
    """

    def __init__(self, names: Sequence[str], summed: Sequence[str], chosen: NDArray[np.bool_] | None) -> None:
        self._names, self._summed = tuple(names), tuple(summed)
        self._places = np.zeros((1,) * len(names), np.intp)
        self._masks: Sequence[NDArray[np.bool_]] = [np.ones((), np.bool_)]
        if chosen is not None:
            shape, inside = chosen.shape[: len(names)], chosen.shape[len(names) :]
            masks, places = np.unique(chosen.reshape(math.prod(shape), -1), axis=0, return_inverse=True)
            self._masks, self._places = list(masks.reshape(-1, *inside)), places.reshape(shape)
        self._half_widths: dict[float, float | Floats] = {}

    @property
    @abstractmethod
    def std_error(self) -> float | Floats:
        """The standard deviation of the noise in each cell."""

    def half_width(self, level: float) -> float | Floats:
        """For each cell the least h such that noise stays within plus or minus h with this probability, or more.

        A millionth of the standard error is added: noise is often a whole number, and the rounding of an answer must
        not put the truth just outside the interval that ends on it.
        """
        if level not in self._half_widths:
            self._half_widths[level] = self._half_width(level) + _ROUNDING * self.std_error
        return self._half_widths[level]

    @abstractmethod
    def _half_width(self, level: float) -> float | Floats: ...
