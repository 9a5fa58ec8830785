"""Numbers with the ends of their intervals, and arithmetic on them.

Ends are combined as the operation's least and greatest values over the intervals of its operands. For a sum, a
difference or a ratio this is never too narrow: the deviation of a sum is at most the sum of the deviations, whatever
the correlation. It is too wide where errors cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosstally.typing import Floats

__all__ = ["Numbers"]


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """A column: a value for each row, and the ends of its interval; NaN is NULL, or an end that is not known."""

    value: Floats
    low: Floats
    high: Floats

    @classmethod
    def exactly(cls, value: float | Floats, rows: int) -> Numbers:
        """Numbers that are known."""
        column = np.broadcast_to(np.asarray(value, np.float64), (rows,))
        return cls(column, column, column)

    def take(self, rows: NDArray[np.intp]) -> Numbers:
        """Some of the rows."""
        return Numbers(self.value[rows], self.low[rows], self.high[rows])

    def holding_value(self) -> Numbers:
        """Intervals stretched to hold the value."""
        return Numbers(self.value, np.minimum(self.low, self.value), np.maximum(self.high, self.value))

    def within(self, least: float, most: float) -> Numbers:
        """The same where it is known that no true number is below or above these; ends not known become these."""
        low, high = np.nan_to_num(self.low, nan=least), np.nan_to_num(self.high, nan=most)
        return Numbers(self.value, np.clip(low, least, most), np.clip(high, least, most))

    def __neg__(self) -> Numbers:
        return Numbers(-self.value, -self.high, -self.low)

    def __add__(self, other: Numbers) -> Numbers:
        return Numbers(self.value + other.value, self.low + other.low, self.high + other.high)

    def __sub__(self, other: Numbers) -> Numbers:
        return self + -other

    def __mul__(self, other: Numbers) -> Numbers:
        return self._extremes(other, np.multiply)

    def __truediv__(self, other: Numbers) -> Numbers:
        """The ratio; NULL where the divisor is zero, and without an end where it may be."""
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(other.value == 0, np.nan, self.value / other.value)
            out = self._extremes(other, np.divide)
        may_be_zero = (other.low <= 0) & (other.high >= 0)
        # a count over what may be nobody: at least its least value over the most, and nobody knows how much more
        least = np.where(
            (self.low >= 0) & (other.low >= 0) & (other.high > 0), self.low / _positive(other.high), np.nan
        )
        return Numbers(value, np.where(may_be_zero, least, out.low), np.where(may_be_zero, np.nan, out.high))

    def changed(self, function: Callable[[Floats], Floats]) -> Numbers:
        """Each number changed by a function that never falls."""
        return Numbers(function(self.value), function(self.low), function(self.high))

    def _extremes(self, other: Numbers, operation: Callable[[Floats, Floats], Floats]) -> Numbers:
        corners = [operation(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        return Numbers(operation(self.value, other.value), np.min(corners, axis=0), np.max(corners, axis=0))


def _positive(numbers: Floats) -> Floats:
    return np.where(numbers > 0, numbers, np.nan)
