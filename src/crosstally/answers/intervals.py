"""Two-sided intervals for corrected cells, from the repeated inference.

For a table, E turns coefficients into cells as the answer does (negative ones become zero, the total stays), x is the
answer, t the truth of the replicates and x*r their estimates (``inference.repeats``). For each cell

    own^2  =  mean over r of (E(x*r) - E(t))^2,      s^2  =  (R own^2 + 20 near^2) / (R + 20),

where near^2 is the mean of own^2 over the ten cells of the table that are nearest in size, five larger and five
smaller. Cells of similar size have similar errors, and 20 squares alone determine a scale only to 16%. Tables of fewer
than 11 cells have too few neighbours; for them near^2 is the variance of least squares, times the fraction of variance
that correction leaves at each order, over the whole release.

The interval is x plus or minus q s, where q is the quantile of Student's t with R degrees of freedom. It is extended to
contain E(t), which is as plausible as x, it is cut at zero, and its ends are rounded outwards, since counts are whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from crosstally.inference.joint import view_orders
from crosstally.inference.nonnegativity import clip_and_keep_total
from crosstally.inference.repeats import Repeats
from crosstally.residuals import Estimate, rebuild
from crosstally.residuals.combine import mean_squares
from crosstally.tables import CellEnds
from crosstally.typing import Floats

__all__ = ["CoveredEnds", "MappedEnds", "RepeatedEnds", "TotalEnds", "squares_of_alike", "squares_shared", "whole_ends"]

_POOLED = 20.0
"""What near cells say together counts like this many replicates. Chosen with ``_NEAR`` on Adult and FARS-16: without
it 91% of their cells above 20 were covered, with it 92 to 96%."""

_NEAR = 5
"""Near cells are so many of the next smaller and so many of the next larger ones."""

_ALIKE = 2.0
"""The most by which near cells of tables nobody measured may differ in size, as a factor. Chosen on FARS-16, where 1.5
to 3 hold as often within 0.2 points in each class of cells and are as wide. Without it small cells of binary tables
share the errors of much larger ones: intervals of 1 to 20 people on Kosarak become up to twice as wide."""

_ROUNDING = 1e-6
"""Ends are moved inwards by this share of their interval before they become whole, so that machines agree."""


class MappedEnds(CellEnds, Protocol):
    """Intervals of a table that are known of sums of its cells too."""

    def mapped(self, change: Callable[[Floats], Floats]) -> CellEnds:
        """The intervals of what becomes of the table: ``change`` turns a stack of tables into a stack of others."""


class RepeatedEnds(ABC):
    """The intervals of the cells of one table; nothing is worked out before the first one is asked for."""

    @abstractmethod
    def tables(self) -> Floats:
        """A stack of tables: E(t), then E(x*r) of each replicate."""

    def expected(self) -> float | None:
        """The variance to expect of a cell, where the release says so."""
        return None

    @cached_property
    def _truth_and_scale(self) -> tuple[Floats, Floats, int]:
        """E(t), s, and the number of replicates."""
        stack = self.tables()
        return stack[0], np.sqrt(squares_shared(stack, self.expected())), len(stack) - 1

    def interval(self, values: Floats, level: float) -> tuple[Floats, Floats]:
        """The ends of the interval of each cell."""
        from scipy.special import stdtrit

        truth, scale, number = self._truth_and_scale
        half = float(stdtrit(number, (1 + level) / 2)) * scale
        return whole_ends(np.minimum(values - half, truth), np.maximum(values + half, truth))


class CoveredEnds(RepeatedEnds):
    """The intervals of a covered table."""

    def __init__(self, repeats: Callable[[], Repeats], estimate: Estimate, names: tuple[str, ...]) -> None:
        self._repeats, self._estimate, self._names = repeats, estimate, names
        self.shape = estimate.schema.sizes(names)

    def mapped(self, change: Callable[[Floats], Floats]) -> ChangedEnds:
        """The intervals of what becomes of the table: ``change`` turns a stack of tables into a stack of others."""
        return ChangedEnds(self, change)

    def tables(self) -> Floats:
        """See RepeatedEnds."""
        stack, ndim = self._repeats().at(self._places()), len(self.shape)
        return clip_and_keep_total(rebuild(stack.reshape(-1, *self.shape), ndim), ndim)

    def expected(self) -> float:
        """See RepeatedEnds."""
        orders = np.rint(view_orders(self.shape)).astype(np.intp)
        left = self._estimate.variances[self._places()] * self._repeats().left[orders]
        return float(left @ mean_squares(self.shape))

    def _places(self) -> NDArray[np.intp]:
        return np.asarray(self._estimate.places([self._names])[0][0])


class TotalEnds(CoveredEnds):
    """The interval of the number of rows: no correction moves it but at zero, so the law of its noise is exact."""

    def __init__(
        self, repeats: Callable[[], Repeats], estimate: Estimate, half_width: Callable[[float], float]
    ) -> None:
        super().__init__(repeats, estimate, ())
        self._half_width = half_width

    def interval(self, values: Floats, level: float) -> tuple[Floats, Floats]:
        """See RepeatedEnds."""
        half = self._half_width(level)
        return whole_ends(values - half, values + half)


class ChangedEnds(RepeatedEnds):
    """The intervals of sums of cells, or of a part of them."""

    def __init__(self, whole: CoveredEnds, change: Callable[[Floats], Floats]) -> None:
        self._whole, self._change = whole, change

    def tables(self) -> Floats:
        """See RepeatedEnds."""
        return self._change(self._whole.tables())

    def interval(self, values: Floats, level: float) -> tuple[Floats, Floats]:
        """See RepeatedEnds; where nothing is added up the count is zero for certain."""
        low, high = super().interval(values, level)
        added = self._change(np.ones((1, *self._whole.shape)))[0] > 0
        return low * added, high * added


def whole_ends(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Ends rounded outwards to whole numbers, not below zero."""
    slack = _ROUNDING * np.maximum(high - low, 1e-3)
    low = np.floor(np.maximum(low, 0.0) + slack)
    return low, np.maximum(np.ceil(high - slack), low)


def squares_shared(stack: Floats, expected: float | None = None) -> Floats:
    """s^2 of each cell of a stack of tables: E(t), then E(x*r) of each replicate."""
    own = _squares(stack)
    return _shared(own, _near_means(own, stack[0], expected), len(stack) - 1)


def squares_of_alike(stack: Floats, answer: Floats) -> Floats:
    """The same where near cells differ in size by a factor of ``_ALIKE`` at most, one person added to each cell.

    The size of a cell is the larger one of the answer and E(t). Where E(t) is small and the answer is not, replicates
    show an error that is too small: they draw the cell around E(t).
    """
    own = _squares(stack)
    return _shared(own, _near_means(own, np.maximum(stack[0], answer) + 1, None, most=_ALIKE), len(stack) - 1)


def _squares(stack: Floats) -> Floats:
    return np.asarray(((stack[1:] - stack[0]) ** 2).mean(axis=0))


def _shared(own: Floats, near: Floats, number: int) -> Floats:
    return np.asarray((number * own + _POOLED * near) / (number + _POOLED))


def _near_means(own: Floats, sizes: Floats, expected: float | None, *, most: float | None = None) -> Floats:
    """For each cell the mean over the cells next to it in size, itself among them, at most ``most`` times apart."""
    number, window = own.size, 2 * _NEAR + 1
    order = np.argsort(sizes.ravel(), kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(own.ravel()[order])])
    first = np.clip(np.arange(number) - _NEAR, 0, max(number - window, 0))
    last = np.minimum(first + window, number)
    if most is not None:
        sorted_sizes = sizes.ravel()[order]
        first = np.maximum(first, np.searchsorted(sorted_sizes, sorted_sizes / most))
        last = np.minimum(last, np.searchsorted(sorted_sizes, sorted_sizes * most, side="right"))
    means = (sums[last] - sums[first]) / (last - first)
    if expected is not None and number < window:
        means = (number * means + (window - number) * expected) / window
    out = np.empty(number)
    out[order] = means
    return out.reshape(own.shape)
