"""The comparison rule of the accuracy targets, on errors of the same draws; pure functions of numbers.

Errors are compared by the logarithm of their ratio, draw by draw, with Student's t. A line that says "never above a
limit" is missed by a setting only where chance is ruled out: the 99.9% lower bound of its ratio exceeds the limit.
Means over settings are geometric, with 95% intervals; settings are fixed, and only the draws are random.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm, t

DRAWS, PEER_DRAWS = 20, 5
"""The least number of draws of a verdict; of a peer that takes minutes for each."""

SURE, LEVEL = 0.999, 0.95


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of errors: the geometric mean over draws, its 95% interval, and the bound below which it lies rarely."""

    estimate: float
    _: KW_ONLY
    low: float
    high: float
    least: float
    """The 99.9% lower bound."""
    draws: int

    def exceeds(self, limit: float) -> bool:
        """Whether the ratio is above a limit beyond doubt."""
        return self.least > limit

    def __str__(self) -> str:
        return f"{self.estimate:.3g} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of an error over draws, and its standard error."""

    mean: float
    _: KW_ONLY
    error: float
    draws: int


def paired_ratio(ours: ArrayLike, theirs: ArrayLike) -> Ratio:
    """Our error over theirs, the i-th draw of one beside the i-th of the other: as where both saw the same noise."""
    first, second = _errors(ours), _errors(theirs)
    if len(first) != len(second):
        raise ValueError(f"paired draws must be as many on both sides, got {len(first)} and {len(second)}")
    logs = np.log(first) - np.log(second)
    spread = logs.std(ddof=1) / math.sqrt(len(logs))
    return _ratio(float(logs.mean()), float(spread), degrees=len(logs) - 1, draws=len(logs))


def independent_ratio(ours: ArrayLike, theirs: ArrayLike) -> Ratio:
    """Our error over theirs where the draws of the two have nothing in common (Welch); they need not be as many."""
    first, second = np.log(_errors(ours)), np.log(_errors(theirs))
    squares = [float(logs.var(ddof=1)) / len(logs) for logs in (first, second)]
    return _welch(float(first.mean() - second.mean()), squares, [len(first), len(second)])


def ratio_of_means(ours: Mean, theirs: Mean) -> Ratio:
    """Our mean error over theirs, by their standard errors; the draws of the two have nothing in common.

    The standard error of the logarithm of a mean is its relative one, up to terms of second order.
    """
    squares = [(each.error / each.mean) ** 2 for each in (ours, theirs)]
    return _welch(math.log(ours.mean / theirs.mean), squares, [ours.draws, theirs.draws])


def geometric_mean(ratios: Sequence[Ratio]) -> Ratio:
    """The geometric mean over settings; the standard error of each is read from its interval.

    That takes the t interval for a normal one, so the mean's interval is a little too wide (7% at 20 draws).
    """
    if not ratios:
        raise ValueError("a geometric mean needs at least one setting")
    logs = [math.log(each.estimate) for each in ratios]
    spreads = [math.log(each.high / each.low) / 2 / norm.ppf((1 + LEVEL) / 2) for each in ratios]
    spread = math.sqrt(sum(s**2 for s in spreads)) / len(ratios)
    draws = min(each.draws for each in ratios)
    return _ratio(float(np.mean(logs)), spread, degrees=math.inf, draws=draws)


def regret(ours: ArrayLike, references: Mapping[str, ArrayLike]) -> tuple[str, Ratio]:
    """Our error over that of the best reference, each averaged over its draws before the least is taken.

    Taking the least in each draw would make the reference better than any strategy is.
    """
    means = {name: float(_errors(errors).mean()) for name, errors in references.items()}
    best = min(means, key=means.__getitem__)
    return best, paired_ratio(ours, references[best])


def worst(ratios: Mapping[str, Ratio]) -> tuple[str, Ratio]:
    """The setting that is surest to be high: the one with the highest lower bound."""
    name = max(ratios, key=lambda each: ratios[each].least)
    return name, ratios[name]


@lru_cache
def _quantile(probability: float, degrees: float) -> float:
    """Of Student's t; of the normal law where the degrees of freedom are without end."""
    return float(t.ppf(probability, degrees) if math.isfinite(degrees) else norm.ppf(probability))


def _welch(mean: float, squares: Sequence[float], draws: Sequence[int]) -> Ratio:
    """The ratio of a mean difference of logarithms, with the squared standard errors of its two sides."""
    whole = sum(squares)
    parts = sum(square**2 / (number - 1) for square, number in zip(squares, draws, strict=True))
    return _ratio(mean, math.sqrt(whole), degrees=whole**2 / parts if parts else 1.0, draws=min(draws))


def _ratio(mean: float, spread: float, *, degrees: float, draws: int) -> Ratio:
    half = _quantile((1 + LEVEL) / 2, degrees) * spread
    ends = {"low": mean - half, "high": mean + half, "least": mean - _quantile(SURE, degrees) * spread}
    return Ratio(math.exp(mean), draws=draws, **{name: math.exp(end) for name, end in ends.items()})


def _errors(given: ArrayLike) -> NDArray[np.float64]:
    errors = np.asarray(given, float)
    if errors.ndim != 1 or len(errors) < 2:
        raise ValueError(f"errors must be those of at least two draws, got {errors.size}")
    if not (np.isfinite(errors) & (errors > 0)).all():
        raise ValueError("errors must be positive and finite")
    return errors
