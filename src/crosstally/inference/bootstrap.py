"""The parametric bootstrap: draw a release's measurements again around a smooth truth, and infer again.

Noise is drawn with the distribution of the measurements' noise. It gives no privacy protection: it is public and
computed from what is already published. Its seed is the SHA-256 of the sizes of attributes and the measurements, so
that the same release gives the same numbers in memory, from its file and after a refit. Random words come from Philox
(a counter-based generator whose raw output numpy keeps stable) and pass through the inverse distribution functions
below, because a library's ready-made distributions may change between its versions.

t is the smoothed estimate (``shrink.smoothed``), l are the combined coefficients, v their variances, x the estimate.
For each replicate r,

    l*r = t + noise like that measured,        x*r = the same inference of l*r,

with the mixture and the blends that the release's own measurements chose. The deviations x*r - t have the distribution
of the error of x if t is like the truth. But t is smoother than the truth, so the real error of shrinkage is larger.
How much larger is estimated without the truth, for each order, by the risk estimate of ``risk``,

    E sum (x - truth)^2 / v  =  E [ sum (x - l)^2 / v  +  2 sum cov(x - l, l) / v  +  n ],

n the number of coefficients: x - truth is x - l plus l - truth, and the latter has the mean square v. (With cov(x, l)
instead, which is larger by v, the last term is -n, as in ``risk``.) The covariance comes from the replicates. This risk
is itself uncertain: its excess over the mean square of the deviations is replaced by its mean under a normal law about
the estimate, cut off below zero (``_beyond``), and the deviations are stretched accordingly.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosstally.budget import Noise, NoiseKind
from crosstally.inference.cell_errors import SquaredErrors
from crosstally.inference.joint_correction import LEAST_VARIANCE, last_of_set, view_orders, with_total_above_zero
from crosstally.measurements import Measurement
from crosstally.residuals import Estimate
from crosstally.residuals.combining import Averages, by_shape
from crosstally.schema import Schema
from crosstally.typing import Floats

if TYPE_CHECKING:
    from crosstally.inference.estimates import Inference


_DENSE_SCALE = 50.0
"""From this scale on discrete Gaussian noise is drawn as continuous: values differ by less than half a cell, 1% of a
standard deviation, and variances by nothing that doubles can show. Below, the inverse is exact, from a table."""

_TAIL = 10
"""The table of the discrete Gaussian ends after this many scales (and one more cell), where a tail of 1e-23 is left."""


DRAWS = 400
"""Draws of a table around its answer: 400 give a standard error to 3.5%."""
_LEAST_DRAWS = 20  # draws even of the largest tables: 20 give a standard error to 16%
_MOST_DRAWN = 10_000_000
"""Cells of all draws of a table: large tables have fewer draws, the first of them."""

_KINDS = {NoiseKind.LAPLACE: 1, NoiseKind.GAUSSIAN: 2}  # 0 where only the variance is known


def seed_of(schema: Schema, measurements: Sequence[Measurement]) -> int:
    """128 bits of the SHA-256 of the sizes of attributes and of each measurement's operators, noise and values.

    Only numbers are hashed: names and the file format of a query do not affect the draws. Each list of numbers begins
    with its length, so that no two sequences of lists have the same bytes.
    """
    digest = hashlib.sha256()
    _add(digest, schema.shape)
    for m in measurements:
        _add(digest, [schema.positions[name] for name in m.query.attributes])
        _add(digest, [number for each in m.query.along for number in each.code])
        kind, scale = (0, m.variance) if m.noise is None else (_KINDS[m.noise.kind], m.noise.scale)
        whole = np.issubdtype(m.values.dtype, np.integer)
        _add(digest, [kind, int(whole), *m.values.shape])
        _add(digest, [scale], "<f8")
        _add(digest, m.values.ravel(), "<i8" if whole else "<f8")
    return int.from_bytes(digest.digest()[:16], "big")


def stream_seed(seed: int, stream: str, names: Sequence[str]) -> int:
    """A separate seed for some attributes: the same numbers in every table that contains them."""
    text = json.dumps([seed, stream, list(names)]).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:16], "big")


def number_of_draws(cells: int) -> int:
    """The number of draws of a table with this many cells."""
    return int(np.clip(_MOST_DRAWN // max(cells, 1), _LEAST_DRAWS, DRAWS))


def _add(digest: hashlib._Hash, numbers: ArrayLike, kind: str = "<i8") -> None:
    """Add a list of numbers in a fixed byte order, so that all machines have the same seed."""
    listed = np.ascontiguousarray(numbers, kind)
    digest.update(np.array([listed.size], "<i8").tobytes() + listed.tobytes())


def noise_of_coefficients(
    averages: Averages, measurements: Sequence[Measurement], *, seed: int, number: int
) -> Iterator[Floats]:
    """New noise of the combined coefficients, drawn ``number`` times with the distribution of the measured noise."""
    from numpy.random import Philox

    words = Philox(key=seed)
    shapes = [m.values.shape for m in measurements]
    alike = by_shape([m.noise if m.noise is not None else m.variance for m in measurements])
    for _ in range(number):
        values: list[Floats] = [np.empty(0)] * len(measurements)
        for kind, group in alike.items():  # measurements with the same noise are drawn at once, then split
            stops = np.cumsum([math.prod(shapes[i]) for i in group])
            drawn = inverse_noise(kind, _uniform(words.random_raw(int(stops[-1]))))
            for i, part in zip(group, np.split(drawn, stops[:-1]), strict=True):
                values[i] = part.reshape(shapes[i])
        yield averages.of_values(values)


class Normals:
    """Standard normal numbers and choices, from a seed, in the same way as noise: one stream, read once."""

    def __init__(self, seed: int) -> None:
        from numpy.random import Philox

        self._words = Philox(key=seed % 2**128)

    def uniform(self, number: int) -> Floats:
        """Numbers in (0, 1)."""
        return _uniform(np.asarray(self._words.random_raw(number), np.uint64))

    def draw(self, shape: Sequence[int]) -> Floats:
        """Standard normal numbers."""
        from scipy.special import ndtri

        return np.asarray(ndtri(self.uniform(math.prod(shape)))).reshape(tuple(shape))


def _uniform(words: NDArray[np.uint64]) -> Floats:
    """The upper 53 bits of each word as the middle of one of 2^53 equal parts of (0, 1)."""
    return np.asarray(((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)


def inverse_noise(noise: Noise | float, probabilities: Floats) -> Floats:
    """The noise quantiles of uniform numbers: the least value whose distribution function reaches them.

    A number instead of noise is the variance of a measurement whose noise is not known: it counts as normal.

    >>> inverse_noise(Noise(NoiseKind.LAPLACE, 2.0), np.array([0.01, 0.3, 0.5, 0.7, 0.99])).tolist()
    [-8.0, -1.0, 0.0, 1.0, 8.0]
    """
    if isinstance(noise, Noise) and noise.parts > 1:
        return inverse_noise(noise.whole, probabilities) / noise.parts
    if isinstance(noise, Noise) and noise.kind is NoiseKind.LAPLACE:
        return _inverse_laplace(noise.scale, probabilities)
    if isinstance(noise, Noise) and noise.scale < _DENSE_SCALE:
        return _inverse_gaussian(noise.scale, probabilities)
    from scipy.special import ndtri

    scale = noise.scale if isinstance(noise, Noise) else math.sqrt(noise)
    return np.asarray(scale * ndtri(probabilities))


def _inverse_laplace(scale: float, probabilities: Floats) -> Floats:
    """P(|x| >= k) = 2 a^k / (1 + a) for k >= 1, a = e^(-1/scale): solved for k, on either side of one half."""
    ratio = math.exp(-1 / scale)
    tails = 2 * np.minimum(probabilities, 1 - probabilities)  # uniform in (0, 1)
    sizes = np.ceil(-scale * np.log(tails * (1 + ratio) / 2)) - 1
    return np.asarray(np.copysign(np.maximum(sizes, 0.0), probabilities - 0.5) + 0.0)


def _inverse_gaussian(scale: float, probabilities: Floats) -> Floats:
    most = math.ceil(_TAIL * scale) + 1
    values = np.arange(-most, most + 1)
    weights = np.exp(-(values.astype(np.float64) ** 2) / (2 * scale**2))
    # The table is the distribution function at whole numbers: the least one that reaches a probability is its inverse.
    places = np.searchsorted(np.cumsum(weights / weights.sum()), probabilities)
    return values[np.minimum(places, 2 * most)].astype(np.float64)


REPLICATES = 20
"""The least number of replicates: the root of a mean of 20 squares is known to about 16%, and neighbouring cells share
theirs."""

_MOST_REPLICATES = 100
"""Replicates of small releases, which are cheap: 100 give the root of a mean square to 7%. Figures do not pool
variances as cells do. With 20 their 95% intervals were 7% too wide, because of Student's quantile."""

_NUMBERS = 100_000
"""Replicates times coefficients up to which there are more than ``REPLICATES``: releases of 1,000 coefficients have
100, those of 5,000 have 20. Twice as many would take up to twice the time of a first interval."""

# Replicates even of the largest releases: with 6 a standard deviation is known to about 29%. Fewer would say little.
LEAST_REPLICATES = 6
_MOST_NUMBERS = 40_000_000
"""Deviations are kept in four bytes each; releases of more than 2,000,000 coefficients get fewer replicates."""

_MOST_STRETCH = 3.0
"""Deviations are stretched at most by this; 1.00 to 1.35 was seen on real tables."""

# An estimate this many standard errors below zero has a posterior mean of a thirtieth of one; less would overflow.
_FAR_BELOW = -30.0

_STREAM = 0x696E74657276616C
"""Added to the seed, so that these replicates are not those that chose the blends: the blend was fitted to those."""


KEPT_FROM = _NUMBERS // REPLICATES
"""Coefficients from which a release's file keeps the replicates, and they are rounded to fit. Below, there are more
replicates for each number in the file, and finding them again takes well below a second."""

_PARTS_OF_ONE_WAYS, _PARTS = 32.0, 5.0
"""Deviations are rounded to about this part of their root mean square over a set of attributes; a rounding of a fifth
adds 1/300 to the variance. One-ways are few, and shares are made of them: they are rounded finer. Larger numbers make
files larger: with 5 and 8 those of Adult (pure) grow to 1.8 and 2.0 times their size."""

_TRUTH = 2.0**-14
"""The smooth truth is then a multiple of this. An estimate read from a file differs by the rounding of doubles from the
one that was saved; which cells are equally large would depend on that. Coarser would still do: nobody is a ten
thousandth of a person."""

_MOST_LEVEL = 127  # a level has eight bits, one of them a sign
MOST_EXPONENT = 60  # of two, up and down: far beyond any count


@dataclass(frozen=True, slots=True, eq=False)
class Replicates:
    """What replicates of an inference came to: for each its deviations, which are levels times powers of two.

    ``levels`` has a row for each replicate, ``exponents`` an entry for each coefficient. Where deviations are not
    rounded they are the levels, and exponents are zero. ``stretches`` says by what the deviations of each order were
    multiplied, and ``left`` how large their mean square is after that, in units of the variances of least squares.
    """

    levels: NDArray[Any]
    exponents: NDArray[np.int8]
    stretches: Floats
    left: Floats

    def at(self, places: NDArray[np.intp] | slice = slice(None)) -> NDArray[np.float32]:
        """The deviations of coefficients at some places, a row for each replicate."""
        levels = np.asarray(self.levels[:, places], np.float32)
        return np.asarray(np.ldexp(levels, self.exponents[places].astype(np.int32)))


@dataclass(frozen=True, slots=True, eq=False)
class Bootstrap:
    """The smooth truth and, for each replicate, the deviation of its estimate from that truth.

    Both are coefficients in the places of the estimate. ``linear`` are the combined coefficients of the release itself,
    ``views`` the attributes of its measurements, and ``seed`` is for further draws. ``squares`` are the mean squared
    errors of cells of large covered tables, where replicates around a smooth truth say too little (``cell_errors``).
    """

    truth: Floats
    replicates: Replicates
    _: KW_ONLY
    linear: Floats
    views: tuple[tuple[str, ...], ...]
    seed: int
    squares: SquaredErrors | None

    def at(self, places: NDArray[np.intp]) -> Floats:
        """Coefficients at some places: the truth first, then those of each replicate."""
        truth = self.truth[places]
        return np.concatenate([truth[None], truth + self.replicates.at(places)])


def bootstrapped(inference: Inference, *, number: int | None = None, kept: Replicates | None = None) -> Bootstrap:
    """The inference repeated ``number`` times, or less often for a very large release.

    Args:
        inference: The inference of the release.
        number: Replicates; by default 20 to 100, the more the smaller the release is.
        kept: What they came to, if that is known. The inference is then not repeated, and needs no ``correct``.
    """
    linear, truth = inference.linear, inference.smooth()
    if len(truth) >= KEPT_FROM:
        truth = np.rint(truth / _TRUTH) * _TRUTH
    return Bootstrap(
        truth,
        _replicates(inference, truth, number) if kept is None else kept,
        linear=linear.coefficients,
        views=tuple(sorted({m.query.attributes for m in inference.measurements})),
        seed=seed_of(linear.schema, inference.measurements) + 2 * _STREAM,
        squares=inference.squared_errors(),
    )


def _replicates(inference: Inference, truth: Floats, number: int | None) -> Replicates:
    linear, found = inference.linear, inference.estimate.coefficients
    size = len(found)
    number = int(np.clip(_NUMBERS // max(size, 1), REPLICATES, _MOST_REPLICATES)) if number is None else number
    number = max(min(number, _MOST_NUMBERS // max(size, 1)), min(number, LEAST_REPLICATES))
    total = int(linear.places([()])[0].item())
    variances = np.maximum(linear.variances, LEAST_VARIANCE)
    orders = _orders(inference)
    deviations = np.empty((number, size), np.float32)
    covariances, squares = np.zeros(size), np.zeros(size)
    for row, noise in zip(deviations, _noises(inference, number), strict=True):
        deviation = inference.again(with_total_above_zero(truth + noise, total)) - truth
        row[:] = deviation
        # of x - l with l, not of x: the noise that x keeps would only add error
        covariances += noise * (deviation - noise) / number
        squares += deviation**2 / number
    # coefficient by coefficient what the header's identity has the expectation of
    risks = ((found - linear.coefficients) ** 2 + 2 * covariances) / variances + 1
    own: Floats = np.bincount(orders, squares / variances).astype(np.float64)
    stretches = np.sqrt(1 + _beyond(risks, own, orders) / np.maximum(own, LEAST_VARIANCE)).clip(max=_MOST_STRETCH)
    stretches[0] = 1.0  # the total and coefficients outside all views are as measured
    deviations *= stretches[orders].astype(np.float32)
    left = own * stretches**2 / np.maximum(np.bincount(orders), 1)
    # two numbers for each order that a measured table could have, whatever was found
    padded = [np.pad(each, (0, inference.orders - len(left)), constant_values=1.0) for each in (stretches, left)]
    if size >= KEPT_FROM and inference.correct is not None:
        return Replicates(*_rounded(deviations, inference, orders), *padded)
    return Replicates(deviations, np.zeros(size, np.int8), *padded)


def _rounded(
    deviations: NDArray[np.float32], inference: Inference, orders: NDArray[np.int64]
) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """The levels and the exponents of deviations: all coefficients of a set of attributes have one exponent."""
    last = np.arange(deviations.shape[1])
    for view in inference.views:
        last[view.places] = view.places[:, last_of_set(view.shape)]
    first, sets = np.unique(last, return_inverse=True)
    squares, largest = np.zeros(len(last)), np.zeros(len(last))
    for row in deviations:
        squares += row.astype(np.float64) ** 2 / len(deviations)
        np.maximum(largest, np.abs(row), out=largest)
    usual, most = np.sqrt(np.bincount(sets, squares) / np.bincount(sets)), np.zeros(len(first))
    np.maximum.at(most, sets, largest)
    parts = np.where(orders[first] == 1, _PARTS_OF_ONE_WAYS, _PARTS)
    least = 2.0**-MOST_EXPONENT  # a set without deviations has a logarithm too
    own = np.rint(np.log2(np.maximum(usual / parts, least)))
    needed = np.ceil(np.log2(np.maximum(most / _MOST_LEVEL, least)))
    exponents = np.minimum(np.maximum(own, needed), MOST_EXPONENT).astype(np.int32)[sets]
    levels = np.empty(deviations.shape, np.int8)
    for row, level in zip(deviations, levels, strict=True):
        level[:] = np.rint(np.ldexp(row, -exponents)).clip(-_MOST_LEVEL, _MOST_LEVEL)
    return levels, exponents.astype(np.int8)


def _beyond(risks: Floats, own: Floats, orders: NDArray[np.int64]) -> Floats:
    """For each order the expected excess of its risk over that of the replicates, given that it is not negative.

    The sum of estimated risks is about normal; its variance is the sum of the squares of what each coefficient has
    beyond the mean. d being what it has beyond ``own``, in its standard errors, a normal law cut off below zero has the
    mean d + phi(d) / Phi(d): d where it is large, and about 0.8 where it is zero.
    """
    from scipy.special import log_ndtr

    numbers = np.maximum(np.bincount(orders), 1)
    sums = np.bincount(orders, risks)
    errors = np.sqrt(np.bincount(orders, (risks - (sums / numbers)[orders]) ** 2))
    units = np.maximum(errors, LEAST_VARIANCE)
    apart = np.maximum((sums - own) / units, _FAR_BELOW)
    ratio = np.exp(-0.5 * apart**2 - 0.5 * math.log(2 * math.pi) - log_ndtr(apart))
    return np.asarray(np.maximum(apart + ratio, 0.0) * units)


def _orders(inference: Inference) -> NDArray[np.int64]:
    """The number of attributes of each coefficient; 0 outside all views, where nothing is corrected."""
    orders = np.zeros(len(inference.linear.keys), np.int64)
    for view in inference.views:
        orders[view.places] = view_orders(view.shape)
    return orders


def _noises(inference: Inference, number: int) -> Iterator[Floats]:
    """New noise of the combined coefficients; the total has none if the number of rows is known."""
    linear, averages, measurements = inference.linear, inference.averages, inference.measurements
    seed = (seed_of(linear.schema, measurements) + _STREAM) % 2**128

    for drawn in noise_of_coefficients(averages, measurements, seed=seed, number=number):
        noise = Estimate(linear.schema, averages.keys, coefficients=drawn, variances=averages.variances)
        if not linear.variances[linear.places([()])[0]].any():  # a public number of rows
            noise = averages.with_total(noise, 0.0)
        yield noise.coefficients
