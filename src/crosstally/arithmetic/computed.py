"""Errors and intervals of numbers that were computed from answers.

f is the function, x the answers, t the truth of the replicates, x*r those of each replicate (``origin``). For a cell

    s^2  =  mean over r of (g(f(x*r)) - g(f(t)))^2,

g being the logarithm for odds ratios and relative risks, otherwise nothing. Of more than 200 draws s is instead the
distance that 95% of them keep, over 1.96: a ratio whose denominator comes near zero in a few draws has no mean square,
and where interactions of unmeasured tables are of very different sizes 95% lie nearer than 1.96 root mean squares.
The interval is g(f(x)) plus or minus q s, q the quantile of Student's law with as many degrees of freedom as there are
replicates, stretched to hold g(f(t)).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from crosstally.arithmetic.changes import Change
from crosstally.arithmetic.origin import Origin
from crosstally.typing import Floats

__all__ = ["ComputedEnds", "ComputedError", "PickedEnds", "PickedError", "spread"]


@dataclass(frozen=True, slots=True)
class Range:
    """Where the truth of a number can be, and whether it errs by factors rather than by differences."""

    low: float = -np.inf
    high: float = np.inf
    by_factors: bool = False


_RANGES = {
    "count": Range(0.0),
    "share": Range(0.0, 1.0),
    "ratio": Range(0.0),
    "odds ratio": Range(0.0, by_factors=True),
    "relative risk": Range(0.0, by_factors=True),
    "Cramér's V": Range(0.0, 1.0),
    "mutual information": Range(0.0),
}
"""What is known of a quantity before anything is measured; of all others, nothing."""


_MANY = 200
"""Draws beyond which s comes from a quantile. It is known to 0.95 / sqrt(draws), the root mean square of normal draws
to 0.71 / sqrt(draws): of 100 replicates, which are near normal, to 9.5% and 7%. 400 draws know it to 5%."""

# The share of draws that the quantile holds: that of the intervals people ask for most. And half their width if normal.
_HELD, _NORMAL = 0.95, 1.959964


class ComputedError:
    """Standard errors of computed numbers: exact where the number is linear, otherwise from replicates."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin

    @cached_property
    def std_error(self) -> Floats:
        """The standard error of each cell."""
        if self._origin.linear is not None:
            return np.sqrt(self._origin.linear.variance)
        return spread(self._origin.draws)

    def half_width(self, level: float) -> Floats:
        """The h such that normal noise stays within plus or minus h with this probability."""
        from scipy.special import ndtri

        return float(ndtri((1 + level) / 2)) * self.std_error


class ComputedEnds:
    """Intervals of computed numbers from replicates."""

    def __init__(self, origin: Origin, quantity: str) -> None:
        self._origin, self._within = origin, _RANGES.get(quantity, Range())

    def interval(self, values: Floats, level: float) -> tuple[Floats, Floats]:
        """The ends of the interval of each cell; all of its range where nothing can be said."""
        from scipy.special import stdtrit

        draws, within = self._origin.draws, self._within
        to, back = (_log, np.exp) if within.by_factors else (_same, _same)
        truth, centre = to(draws[0]), to(values)
        with np.errstate(invalid="ignore", over="ignore"):
            half = float(stdtrit(len(draws) - 1, (1 + level) / 2)) * _scale(to(draws))
            low, high = back(np.fmin(centre - half, truth)), back(np.fmax(centre + half, truth))
        unknown = ~np.isfinite(half)
        low = np.where(unknown, within.low, np.clip(low, within.low, within.high))
        return low, np.where(unknown, within.high, np.clip(high, within.low, within.high))


class _Whole(Protocol):
    """The table that cells were picked from."""

    @property
    def values(self) -> Floats:
        """Its cells."""

    @property
    def std_error(self) -> Floats:
        """Their standard errors."""

    def half_width(self, level: float) -> Floats:
        """Half the widths of their intervals."""

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Their intervals."""


class PickedError:
    """The standard errors of cells picked from a table: those that they have there."""

    def __init__(self, whole: _Whole, change: Change) -> None:
        self._whole, self._change = whole, change

    @property
    def std_error(self) -> Floats:
        """The standard error of each cell."""
        return self._change.table(self._whole.std_error)

    def half_width(self, level: float) -> Floats:
        """Half the width of the interval of each cell."""
        return self._change.table(self._whole.half_width(level))


class PickedEnds:
    """The intervals of cells picked from a table: those that they have there."""

    def __init__(self, whole: _Whole, change: Change) -> None:
        self._whole, self._change = whole, change

    def interval(self, values: Floats, level: float) -> tuple[Floats, Floats]:  # noqa: ARG002
        """The ends of the interval of each cell."""
        low, high = self._whole.interval(level)
        return self._change.table(low), self._change.table(high)


def spread(draws: Floats) -> Floats:
    """The root mean square of the distance from the first of a stack of tables to the others."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.sqrt(((draws[1:] - draws[0]) ** 2).mean(axis=0)))


def _scale(draws: Floats) -> Floats:
    """The s of each cell: of many draws by their quantile, which a few of them far out do not move."""
    if len(draws) <= _MANY:
        return spread(draws)
    with np.errstate(invalid="ignore"):
        apart = np.abs(draws[1:] - draws[0])
    apart = np.where(np.isnan(apart), np.inf, apart)
    # A further draw is below the k-th of n with probability k / (n + 1): the 381st of 400 holds 95%, the 380th 94.8%.
    place = math.ceil(_HELD * (len(apart) + 1)) - 1
    return np.asarray(np.partition(apart, place, axis=0)[place] / _NORMAL)


def _log(values: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(values))


_same: Callable[[Floats], Floats] = np.asarray
