"""How far an answer is from the truth, and how sure one can be of an average.

Errors take the estimated table and the true one, as arrays of one shape. They need the truth, so they are for generated
or public data only.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosstally.errors import CrosstallyError

FALSE_ALARMS = 1e-3
"""The probability that noise decides any claim wrongly in a run of all experiments; noise cannot be seeded."""
_MOST_INTERVALS = 2_000  # of all experiments together: an estimate from above (some 900 were reckoned by hand)
VERDICT_LEVEL = 1 - FALSE_ALARMS / _MOST_INTERVALS
"""Of every interval that decides a claim: by Bonferroni's rule all of them hold at once, but for ``FALSE_ALARMS``."""

_NO_LIMIT = (
    1e9  # a ratio of errors beyond it, or below its inverse, is none that a run could show: no digits are printed
)
_BOOTSTRAP_BLOCK = 4_000_000  # limits memory: numbers drawn at once, 32 MB of places

# Errors


def sum_of_squared_errors(estimate: ArrayLike, truth: ArrayLike) -> float:
    """The squared L2 distance; its expectation is PriView's ESE (section 2).

    >>> sum_of_squared_errors([1, 4], [2, 2])
    5.0
    """
    estimate, truth = _pair(estimate, truth)
    return float(np.sum((estimate - truth) ** 2))


def normalised_l2(estimate: ArrayLike, truth: ArrayLike, *, rows: float) -> float:
    """The L2 distance divided by the number of rows, N (PriView section 5).

    >>> normalised_l2([1, 4], [4, 0], rows=10)
    0.5
    """
    if not rows > 0:
        raise CrosstallyError(f"rows must be positive, got {rows}")
    return math.sqrt(sum_of_squared_errors(estimate, truth)) / rows


def jensen_shannon(estimate: ArrayLike, truth: ArrayLike) -> float:
    """The Jensen-Shannon divergence of the two tables as distributions, in nats (PriView equation 1).

    Negative cells are set to zero and each table is divided by its sum first; a table with nothing left is taken as
    uniform.

    >>> round(jensen_shannon([5, -1], [0, 3]), 6)  # nothing in common: the natural logarithm of 2
    0.693147
    """
    first, second = map(_distribution, _pair(estimate, truth))
    middle = (first + second) / 2
    return (_relative_entropy(first, middle) + _relative_entropy(second, middle)) / 2


def mean_relative_error(estimate: ArrayLike, truth: ArrayLike) -> float:
    """The mean absolute error of an entry divided by the mean true entry (ICDE 2013, section V).

    >>> mean_relative_error([8, 14], [10, 10])
    0.3
    """
    estimate, truth = _pair(estimate, truth)
    if not truth.mean() > 0:
        raise CrosstallyError("a relative error needs a true table whose mean is positive")
    return float(np.abs(estimate - truth).mean() / truth.mean())


def _pair(estimate: ArrayLike, truth: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first, second = np.asarray(estimate, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if first.shape != second.shape or first.size == 0:
        raise CrosstallyError(f"the two tables must have one shape and a cell, got {first.shape} and {second.shape}")
    return first, second


def _distribution(table: NDArray[np.float64]) -> NDArray[np.float64]:
    clipped = np.maximum(table, 0)
    total = clipped.sum()
    return clipped / total if total > 0 else np.full(table.shape, 1 / table.size)


def _relative_entropy(p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
    there = (p > 0) & (q > 0)  # the least numbers above zero have no half
    return float(np.sum(p[there] * np.log(p[there] / q[there])))


# Summaries


def candlestick(errors: ArrayLike) -> dict[str, float]:
    """PriView's summary of errors: the 25th, 50th, 75th and 95th percentile, interpolated linearly, and the mean.

    >>> candlestick([0, 10, 20, 30, 40])
    {'p25': 10.0, 'p50': 20.0, 'p75': 30.0, 'p95': 38.0, 'mean': 20.0}
    """
    values = _sample(errors, least=1)
    places = (25, 50, 75, 95)
    percentiles = zip(places, np.percentile(values, places), strict=True)
    return {**{f"p{place}": float(number) for place, number in percentiles}, "mean": float(values.mean())}


def band(errors: ArrayLike) -> float:
    """How wide errors spread: their 95th percentile over their 25th."""
    stick = candlestick(errors)
    return stick["p95"] / stick["p25"]


# Intervals


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A number estimated from repetitions, between two ends that hold the true one with probability ``level``.

    >>> 1.0 in Interval(estimate=1.1, low=0.9, high=1.3, level=0.95)
    True
    """

    estimate: float
    low: float
    high: float
    level: float

    def __contains__(self, number: float) -> bool:
        return self.low <= number <= self.high


def decided(*, holds: bool, fails: bool) -> bool | None:
    """The one rule for verdicts: True where whole intervals bear a claim out, False where a whole one contradicts it.

    Where an interval has the limit inside, the run leaves the claim open: None.

    >>> ratio = Interval(estimate=1.1, low=0.9, high=1.3, level=VERDICT_LEVEL)
    >>> decided(holds=ratio.high < 2, fails=ratio.low >= 2), decided(holds=ratio.high < 1, fails=ratio.low >= 1)
    (True, None)
    """
    return True if holds else False if fails else None


def above(found: Collection[Interval], limit: float) -> bool | None:
    """Whether all of some numbers are above a limit."""
    return decided(holds=all(each.low > limit for each in found), fails=any(each.high <= limit for each in found))


def below(found: Collection[Interval], limit: float) -> bool | None:
    """Whether all of some numbers are below a limit."""
    return decided(holds=all(each.high < limit for each in found), fails=any(each.low >= limit for each in found))


def within(found: Collection[Interval], low: float = -math.inf, high: float = math.inf) -> bool | None:
    """Whether all of some numbers are at least and at most so large.

    >>> within([Interval(estimate=1.1, low=0.9, high=1.3, level=VERDICT_LEVEL)], high=1.5)
    True
    """
    return decided(
        holds=all(low <= each.low and each.high <= high for each in found),
        fails=any(each.high < low or each.low > high for each in found),
    )


def mean_interval(values: ArrayLike, *, level: float) -> Interval:
    """The mean of independent values, between the ends of Student's t.

    For levels so high that a bootstrap cannot reach their tail.

    >>> mean_interval([1, 3, 5], level=0.95)
    Interval(estimate=3.0, low=-1.96..., high=7.96..., level=0.95)
    """
    from scipy.special import stdtrit

    sample = _sample(values, least=2)
    quantile = -stdtrit(sample.size - 1, (1 - _probability(level)) / 2)
    half = float(quantile * sample.std(ddof=1) / math.sqrt(sample.size))
    mean = float(sample.mean())
    return Interval(estimate=mean, low=mean - half, high=mean + half, level=level)


def share_interval(held: int, draws: int, *, level: float) -> Interval:
    """The probability of an event that held in some of independent draws, between the ends of Clopper and Pearson.

    >>> share_interval(0, 10, level=0.95)  # high: 1 - 0.025 ** (1 / 10)
    Interval(estimate=0.0, low=0.0, high=0.3084..., level=0.95)
    """
    from scipy.special import betaincinv

    if not 0 <= held <= draws or draws < 1:
        raise CrosstallyError(f"an event holds in 0 to all of at least 1 draw, got {held} of {draws}")
    tail = (1 - _probability(level)) / 2
    low = float(betaincinv(held, draws - held + 1, tail)) if held else 0.0
    high = float(betaincinv(held + 1, draws - held, 1 - tail)) if held < draws else 1.0
    return Interval(estimate=held / draws, low=low, high=high, level=level)


def ratio_interval(values: ArrayLike, baseline: ArrayLike, *, level: float = VERDICT_LEVEL) -> Interval:
    """The mean of values over the mean of a baseline, where the i-th of both come from the same repetition.

    The logarithm of the ratio is nearly linear in both means, so its error is that of the mean of
    values / their mean - baseline / its mean; Student's t then reaches levels that a bootstrap cannot.

    >>> ratio_interval([2, 4, 6], [1, 2, 3])
    Interval(estimate=2.0, low=2.0, high=2.0, level=0.9999995)
    """
    upper, lower = _sample(values, least=2), _sample(baseline, least=2)
    if upper.shape != lower.shape:
        raise CrosstallyError(f"values must be paired with a baseline, got {upper.size} and {lower.size} of them")
    if not (upper.min() > 0 and lower.min() > 0):
        raise CrosstallyError("a ratio needs positive values")
    off = mean_interval(upper / upper.mean() - lower / lower.mean(), level=level)
    return _around(float(upper.mean() / lower.mean()), (off.high - off.low) / 2, level)


def grid_ratio_interval(values: ArrayLike, baseline: ArrayLike, *, level: float = VERDICT_LEVEL) -> Interval:
    """The same for grids with a row for each repetition and a column for each item; both vary from run to run.

    A repetition shares its noise among all items and an item its difficulty among all repetitions, so the variances of
    the means of rows and of columns add up, which makes the interval rather too wide. Degrees of freedom are
    Satterthwaite's.
    """
    upper, lower = np.asarray(values, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    if upper.shape != lower.shape or upper.ndim != 2:
        raise CrosstallyError(f"values and baseline must be grids of one shape, got {upper.shape} and {lower.shape}")
    _sample(upper, least=2)
    if not (upper.min() > 0 and _sample(lower, least=2).min() > 0):
        raise CrosstallyError("a ratio needs positive values")
    off = upper / upper.mean() - lower / lower.mean()
    parts = [(off.mean(axis=1 - axis), number) for axis, number in enumerate(off.shape) if number > 1]
    squares = [(float(means.var(ddof=1)) / number, number - 1) for means, number in parts]
    return _satterthwaite(float(upper.mean() / lower.mean()), squares, level)


def unpaired_ratio_interval(
    values: tuple[float, float, int], baseline: tuple[float, float, int], *, level: float = VERDICT_LEVEL
) -> Interval:
    """The ratio of two means whose repetitions have nothing in common; each is (mean, its standard error, repetitions).

    The errors of both logarithms add up in squares, with Satterthwaite's degrees of freedom. A mean of one value has no
    error: it is known.

    >>> unpaired_ratio_interval((6.0, 0.0, 1), (3.0, 0.0, 1))
    Interval(estimate=2.0, low=2.0, high=2.0, level=0.9999995)
    """
    if not (values[0] > 0 and baseline[0] > 0):
        raise CrosstallyError("a ratio needs positive values")
    squares = [((error / mean) ** 2, number - 1) for mean, error, number in (values, baseline) if error > 0]
    return _satterthwaite(values[0] / baseline[0], squares, level)


def _satterthwaite(ratio: float, squares: Sequence[tuple[float, int]], level: float) -> Interval:
    """A ratio whose logarithm errs by a sum: the variance of each part, and its degrees of freedom."""
    from scipy.special import stdtrit

    variance = sum(square for square, _ in squares)
    if variance == 0:
        return _around(ratio, 0.0, level)
    freedom = variance**2 / sum(square**2 / free for square, free in squares)
    quantile = -float(stdtrit(freedom, (1 - _probability(level)) / 2))
    return _around(ratio, quantile * math.sqrt(variance), level)


def mean_and_error(values: Sequence[float]) -> tuple[float, float, int]:
    """The mean of some runs, its standard error, and how many there are: what ``unpaired_ratio_interval`` takes."""
    error = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0
    return float(np.mean(values)), error, len(values)


def _around(ratio: float, off: float, level: float) -> Interval:
    """A ratio whose logarithm is within plus or minus ``off``; beyond e^700 there are no numbers."""
    times = math.exp(min(off, 700.0))
    return Interval(estimate=ratio, low=ratio / times, high=ratio * times, level=level)


def bootstrap_mean(
    values: ArrayLike, random: np.random.Generator, *, level: float = 0.95, draws: int = 2000
) -> Interval:
    """The mean of independent values, between percentiles of the means of resamples."""
    sample = _sample(values, least=2)
    step = max(1, _BOOTSTRAP_BLOCK // sample.size)
    means = np.empty(draws)
    for start in range(0, draws, step):
        block = means[start : start + step]
        block[:] = sample[random.integers(sample.size, size=(len(block), sample.size))].mean(axis=1)
    tail = (1 - _probability(level)) / 2
    low, high = (float(q) for q in np.quantile(means, [tail, 1 - tail]))
    return Interval(estimate=float(sample.mean()), low=low, high=high, level=level)


def _sample(values: ArrayLike, *, least: int) -> NDArray[np.float64]:
    sample = np.asarray(values, dtype=np.float64).ravel()
    if sample.size < least or not np.isfinite(sample).all():
        raise CrosstallyError(f"values must be at least {least}, all finite, got {sample.size} of them")
    return sample


def _probability(level: float) -> float:
    if not 0 < level < 1:
        raise CrosstallyError(f"level must be between 0 and 1, got {level}")
    return level


# Words


def ratio_words(interval: Interval) -> str:
    """A ratio and its interval.

    >>> ratio_words(Interval(estimate=41.234, low=38.9, high=43.5, level=0.95))
    '41.2 x (38.9 to 43.5)'
    """
    return f"{_digits(interval.estimate)} x ({_digits(interval.low)} to {_digits(interval.high)})"


def _digits(number: float) -> str:
    """Three digits, large numbers in full; the ends of intervals of two runs, which say nothing, in words.

    >>> [_digits(number) for number in (0.12345, 12_345.6, 9.2e303, 1e-304)]
    ['0.123', '12,346', 'no limit', '0']
    """
    if not 1 / _NO_LIMIT < abs(number) < _NO_LIMIT:
        return "no limit" if number > 1 else "0"
    return f"{number:.3g}" if abs(number) < 999.5 else f"{number:,.0f}"


def span_words(intervals: Sequence[Interval]) -> str:
    """The least and the greatest of some ratios, and the ends between which all their intervals lie.

    >>> span_words([Interval(estimate=4, low=3, high=5, level=0.95), Interval(estimate=9, low=8, high=12, level=0.95)])
    'from 4 x to 9 x (intervals from 3 to 12)'
    """
    least, most = (end(each.estimate for each in intervals) for end in (min, max))
    low, high = min(each.low for each in intervals), max(each.high for each in intervals)
    return f"from {_digits(least)} x to {_digits(most)} x (intervals from {_digits(low)} to {_digits(high)})"
