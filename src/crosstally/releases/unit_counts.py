"""How many units a release has and how many of their rows its bound left out, from the measured table of units.

Rows left out are the sum over units of the rows beyond the bound. A bin of several numbers of rows gives a range, the
open last bin only a least number. Both ends of an interval are those of a weighted sum of the noise.

With c the noisy numbers of units, each of variance v, and w the rows that a unit of each bin has within the bound, w'c
estimates the number of counted rows, which the other measurements know much better, as t of variance u. Least squares
moves c to c - k w (w'c - t), k = v / (v w'w + u): with a bound of 3 the number of units has a quarter of the error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from crosstally.answers.noise_sums import NoiseTerm, half_width
from crosstally.errors import ReleaseError
from crosstally.measurements import PUBLIC, Measurement
from crosstally.query.unit_table import UnitTable
from crosstally.schema import Schema


@dataclass(frozen=True, slots=True)
class UnitCounts:
    """The numbers of units by number of rows, with noise: ``measured`` answers a ``UnitTable`` query.

    ``total`` is the number of counted rows and its standard error, as other measurements say them. Intervals are pairs
    of ends, each with a chance of at most (1 - level) / 2 to be wrong.
    """

    measured: Measurement
    max_rows: int
    total: tuple[float, float] | None = None

    @property
    def units(self) -> float:
        """The number of units."""
        return max(0.0, self._sum([1] * len(self._first)))

    def units_interval(self, level: float = 0.95) -> tuple[float, float]:
        """An interval for the number of units."""
        ones = [1] * len(self._first)
        return max(0.0, self._sum(ones) - self._width(ones, level)), self._sum(ones) + self._width(ones, level)

    @property
    def left_out(self) -> float:
        """The number of rows beyond the bound, by the middles of bins and the least number of the open one."""
        low, high = self._excess()
        return max(0.0, self._sum([(a + b) / 2 for a, b in zip(low, [*high, low[-1]], strict=True)]))

    def left_out_interval(self, level: float = 0.95) -> tuple[float, float]:
        """An interval for it; its upper end is infinite unless noise leaves no room for a unit in the open bin."""
        low, high = self._excess()
        last = [0] * len(high) + [1]
        is_empty = self._sum(last) + self._width(last, level) < 1
        least = max(0.0, self._sum(low) - self._width(low, level))
        return least, self.most_within(level) if is_empty else math.inf

    def most_within(self, level: float = 0.95) -> float:
        """The upper end for units below the open bin alone: the whole interval ends there if no unit is in that bin."""
        most = [*self._excess()[1], 0]
        return max(0.0, self._sum(most) + self._width(most, level))

    def sentence(self, schema: Schema, level: float = 0.95) -> str:
        """Both numbers in words."""
        low, high = (f"{round(end):,}" for end in self.units_interval(level))
        least, most = self.left_out_interval(level)
        ends = f"at least {round(least):,}" if math.isinf(most) else f"{round(least):,} to {round(most):,}"
        last = [0] * (len(self._first) - 1) + [1]
        if math.isinf(most) and self._sum(last) - self._width(last, level) < 1:  # perhaps nobody is in the open bin
            within = max(round(least), round(self.most_within(level)))
            ends += f"; at most {within:,} if none has {self._first[-1]:,} or more"
        beyond = f"{schema.row_word} beyond {self.max_rows:,} of one {schema.unit_word}"
        units = f"About {round(self.units):,} {schema.units_word} ({low} to {high})"
        return f"{units}. About {round(self.left_out):,} {beyond} ({ends}) are in no count."

    @property
    def _first(self) -> tuple[int, ...]:
        query = self.measured.query
        assert isinstance(query, UnitTable)
        return query.first

    def _excess(self) -> tuple[list[int], list[int]]:
        """For each bin the least number of rows beyond the bound; for all but the last also the largest."""
        low = [max(0, first - self.max_rows) for first in self._first]
        return low, [max(0, after - 1 - self.max_rows) for _, after in pairwise(self._first)]

    @property
    def _within(self) -> list[int]:
        """The rows within the bound of a unit in each bin; none where bins have several numbers of them."""
        single = all(after == first + 1 for first, after in pairwise(self._first) if after <= self.max_rows + 1)
        return [min(first, self.max_rows) for first in self._first] if single and self.total else []

    def _moved(self, weights: Sequence[float]) -> tuple[list[float], float]:
        """The weights of the noisy numbers and of the number of rows in the least squares estimate of a sum."""
        within, (_, error) = self._within, self.total or (0.0, 0.0)
        if not within:
            return list(weights), 0.0
        variance, size = self.measured.variance, sum(each**2 for each in within)
        shared = sum(a * w for a, w in zip(weights, within, strict=True))
        share = variance * shared / (variance * size + error**2)
        return [a - share * w for a, w in zip(weights, within, strict=True)], share

    def _sum(self, weights: Sequence[float]) -> float:
        own, share = self._moved(weights)
        total = 0.0 if self.total is None else share * self.total[0]
        return total + math.fsum(
            weight * value for weight, value in zip(own, self.measured.values.tolist(), strict=True)
        )

    def _width(self, weights: Sequence[float], level: float) -> float:
        """How far noise moves such a sum, with this probability."""
        own, share = self._moved(weights)
        noise, variance = self.measured.noise, self.measured.variance
        terms = [NoiseTerm(noise, weight, count=1, variance=variance) for weight in own if weight]
        if self.total is not None and share:
            terms.append(NoiseTerm(None, share, count=1, variance=self.total[1] ** 2))
        return half_width(terms, level) if terms else 0.0


def unit_rows_of(schema: Schema, measurements: Sequence[Measurement]) -> Measurement | None:
    """The units by number of rows among measurements, if they were measured."""
    measured = [each for each in measurements if each.query.of_units]
    if len(measured) > 1:
        raise ReleaseError("a release holds units by number of rows once")
    for each in measured:
        each.query.shape(schema)
    return measured[0] if measured else None


def noisy_total(measurements: Sequence[Measurement]) -> tuple[float, float] | None:
    """The number of rows estimated from the noisy measurements alone, with its standard error; None without a total.

    The n cells of a measured table have independent noise of variance v: their sum has the variance n v. Sums of
    several tables are averaged with weights 1 / (n v).
    """
    sums = [
        (float(each.values.sum()), each.variance * each.values.size)
        for each in measurements
        if each.query.is_table and each.origin != PUBLIC and each.noise is not None
    ]
    if not sums:
        return None
    precision = sum(1 / variance for _, variance in sums)
    return sum(total / variance for total, variance in sums) / precision, 1 / math.sqrt(precision)
