"""How sure the cells of a table are: an exact linear law, joint draws, or bounds.

Each of the three has a ``std_error`` (NaN where there is none), a ``half_width``, an ``interval`` around values, and
says what becomes of it: ``picked`` for some of the cells, ``summed`` for counts of a condition, ``map`` for anything
else. Where a function of a linear law is linear, so is the law of what comes out; otherwise it has draws.

Counts have intervals by a ``Spread``: for each cell t, below and above it the variances v- and v+, and

    min(x - q sqrt(v-), t)   to   max(x + q sqrt(v+), t),      q the quantile of Student's law,

not above what margins allow, cut at zero and rounded outwards. Other figures have theirs from draws: with f the
function, x the answers, t the truth of the replicates, x*r those of each replicate (``joint``),

    s^2  =  mean over r of (g(f(x*r)) - g(f(t)))^2,

g being the logarithm for odds ratios and relative risks, otherwise nothing. Of more than 200 draws s is instead the
distance that 95% of them keep, over 1.96: a ratio whose denominator comes near zero in a few draws has no mean square,
and where interactions of unmeasured tables are of very different sizes 95% lie nearer than 1.96 root mean squares.
The interval is g(f(x)) plus or minus q s, q the quantile of Student's law with as many degrees of freedom as there are
replicates, stretched to hold g(f(t)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.changes import Change, emptied
from crosstally.answers.joint import Joint, root_mean_square
from crosstally.typing import Floats

__all__ = ["Bounds", "CellError", "Counts", "Draws", "LinearLaw", "Spread", "Uncertainty", "computed", "whole_ends"]

_RANGES = {
    "count": (0.0, np.inf),
    "share": (0.0, 1.0),
    "ratio": (0.0, np.inf),
    "odds ratio": (0.0, np.inf),
    "relative risk": (0.0, np.inf),
    "Cramér's V": (0.0, 1.0),
    "mutual information": (0.0, np.inf),
}
"""Where the truth of a quantity can be, before anything is measured; of all others, nothing is known."""

_BY_FACTORS = ("odds ratio", "relative risk")  # they err by factors rather than by differences

_MANY = 200
"""Draws beyond which s comes from a quantile. It is known to 0.95 / sqrt(draws), the root mean square of normal draws
to 0.71 / sqrt(draws): of 100 replicates, which are near normal, to 9.5% and 7%. 400 draws know it to 5%."""

# The share of draws that the quantile holds: that of the intervals people ask for most. And half their width if normal.
_HELD, _NORMAL = 0.95, 1.959964

_ROUNDING = 1e-6
"""Ends are moved inwards by this share of their interval before they become whole, so that machines agree."""

Ends = tuple[Floats, Floats]


class CellError(Protocol):
    """The error of the cells of one table: one number where all have the same, otherwise one for each cell."""

    @property
    def std_error(self) -> float | Floats:
        """The standard deviation of the noise in a cell."""

    def half_width(self, level: float) -> float | Floats:
        """The least h such that noise stays within plus or minus h with this probability, or more."""


class Counts(Protocol):
    """Counts with intervals of their own, and of sums of them."""

    def spread(self, change: Change | None) -> Spread:
        """Of the table, or of what a change makes of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """What the intervals of counts need, cell by cell.

    ``truth`` is always inside, where it is known; ``below`` and ``above`` are variances, ``freedom`` the degrees of
    freedom (infinite: normal), ``most`` what margins allow; ``inside`` is False where a count is zero for certain.
    """

    truth: Floats | None
    below: Floats
    above: Floats
    freedom: float
    most: Floats | float = math.inf
    inside: NDArray[np.bool_] | bool = True

    def interval_around(self, values: Floats, level: float) -> Ends:
        """The ends of the interval around each value."""
        quantile = _student(self.freedom, level)
        low, high = values - quantile * np.sqrt(self.below), values + quantile * np.sqrt(self.above)
        if self.truth is not None:
            low, high = np.minimum(low, self.truth), np.maximum(high, self.truth)
        low, high = whole_ends(low, np.minimum(high, np.maximum(self.most, values)))
        return low * self.inside, high * self.inside

    def picked(self, change: Change) -> Spread:
        """Of some of the cells."""
        shape = np.shape(self.below)
        most = change.table(np.broadcast_to(self.most, shape))
        inside = change.table(np.broadcast_to(np.asarray(self.inside, np.float64), shape)) > 0
        truth = None if self.truth is None else change.table(self.truth)
        below, above = change.table(self.below), change.table(self.above)
        return Spread(truth, below, above, self.freedom, most=most, inside=inside)


@dataclass(frozen=True, eq=False)
class LinearLaw:
    """The cells are linear in what was measured: noise has a known law, before negative cells are corrected.

    ``error`` knows it; None where it is normal with the variance of the linear form. ``whole`` says that counts cannot
    be negative, so that ends are whole numbers from zero on. ``part`` says which cells these are of a table of a shape.
    """

    joint: Joint | None
    error: CellError | None = None
    whole: bool = False
    part: tuple[Change, tuple[int, ...]] | None = None

    @cached_property
    def std_error(self) -> float | Floats:
        """The standard error of each cell."""
        if self.error is None:
            assert self.joint is not None  # then it is linear
            return self.joint.std_error
        return self._in_part(self.error.std_error)

    def half_width(self, level: float) -> float | Floats:
        """The h such that noise stays within plus or minus h with this probability."""
        return _normal(level) * self.std_error if self.error is None else self._in_part(self.error.half_width(level))

    def interval(self, values: Floats, level: float) -> Ends:
        """The ends of the interval of each cell."""
        half = self.half_width(level)
        return whole_ends(values - half, values + half) if self.whole else (values - half, values + half)

    def _in_part(self, number: float | Floats) -> float | Floats:
        return number if self.part is None else self.part[0].table(np.full(self.part[1], number))

    def picked(self, change: Change, values: Floats) -> LinearLaw:
        """Of some cells of the table."""
        return LinearLaw(_changed(self.joint, change), self, self.whole, (change, values.shape))

    def summed(self, change: Change, error: CellError | None) -> LinearLaw:
        """Of sums of cells with an error that is known."""
        return replace(self, joint=_changed(self.joint, change), error=error, part=None)

    def map(self, change: Change, quantity: str, *, counts: bool) -> Uncertainty | None:  # noqa: ARG002
        """Of what becomes of the table."""
        return computed([self], _changed(self.joint, change), quantity)


@dataclass(frozen=True, eq=False)
class Draws:
    """Joint draws of the cells, from which anything computed from them has its error.

    Counts of a release have a spread of their own (``cells``), and so have sums of covered ones (``additive``);
    ``change`` says what sums of the table these cells are, ``possible`` which cells of it are not zero for certain.
    ``error`` is the standard error before negative cells are corrected; ``modelled`` cells have none.
    """

    joint: Joint | None
    quantity: str = "count"
    error: CellError | None = None
    modelled: bool = False
    cells: Counts | None = None
    additive: bool = False
    change: Change | None = None
    possible: NDArray[np.bool_] | None = None
    part: tuple[Draws, Change] | None = None

    @property
    def std_error(self) -> float | Floats:
        """The standard error of each cell."""
        if self.modelled:
            return math.nan
        if self.error is not None:
            return self.error.std_error
        return math.nan if self.joint is None else self.joint.std_error

    def half_width(self, level: float) -> float | Floats:
        """The h such that noise stays within plus or minus h with this probability, before correction."""
        exact = None if self.modelled else self.error
        return _normal(level) * self.std_error if exact is None else exact.half_width(level)

    def interval(self, values: Floats, level: float) -> Ends:
        """The ends of the interval of each cell."""
        if self.cells is not None:
            return self._spread.interval_around(values, level)
        assert self.joint is not None  # figures have draws
        return _drawn_ends(self.joint.draws, values, level, self.quantity)

    @cached_property
    def _spread(self) -> Spread:
        assert self.cells is not None  # the caller has looked
        if self.part is not None:
            return self.part[0]._spread.picked(self.part[1])
        if self.possible is None:
            return self.cells.spread(self.change)
        if self.change is None:
            return replace(self.cells.spread(None), inside=self.possible)
        return self.cells.spread(self.change.after(emptied(self.possible)))

    def picked(self, change: Change, values: Floats) -> Draws:
        """Of some cells of the table."""
        error = LinearLaw(None, self, part=(change, values.shape))
        own = {"joint": _changed(self.joint, change), "change": change.after(self.change), "error": error}
        return replace(self, **own, part=(self, change))  # type: ignore[arg-type]

    def summed(self, change: Change, error: CellError | None) -> Draws:
        """Of the counts of a condition, whose standard error before correction is given."""
        own = {"joint": _changed(self.joint, change), "change": change.after(self.change), "error": error}
        return replace(self, **own, part=None)  # type: ignore[arg-type]

    def map(self, change: Change, quantity: str, *, counts: bool) -> Uncertainty | None:
        """Of what becomes of the table; ``counts`` says that cells are still counts of people."""
        if counts and self.additive:
            return self.summed(change, None)
        return computed([self], _changed(self.joint, change), quantity)


@dataclass(frozen=True, eq=False)
class Bounds:
    """The ends of intervals as they are given at each level: all that margins allow, or those of another table.

    ``ends`` gives them for values and a level, after a change that adds up cells. ``joint`` is for other figures.
    """

    ends: Callable[[Change | None, Floats, float], Ends]
    joint: Joint | None = None
    error: CellError | None = None
    change: Change | None = None
    possible: NDArray[np.bool_] | None = None
    part: tuple[Bounds, Change, Floats] | None = None

    @property
    def std_error(self) -> float | Floats:
        """The standard error of each cell, where it is given."""
        return math.nan if self.error is None else self.error.std_error

    def half_width(self, level: float) -> float | Floats:
        """The half width of each cell, where it is given."""
        return math.nan if self.error is None else self.error.half_width(level)

    def interval(self, values: Floats, level: float) -> Ends:
        """The ends at this level."""
        if self.part is not None:
            whole, change, all_values = self.part
            low, high = whole.interval(all_values, level)
            return change.table(low), change.table(high)
        if self.possible is None:
            return self.ends(self.change, values, level)
        if self.change is None:
            low, high = self.ends(None, values, level)
            return low * self.possible, high * self.possible
        return self.ends(self.change.after(emptied(self.possible)), values, level)

    def picked(self, change: Change, values: Floats) -> Bounds:
        """Of some cells of the table."""
        error = LinearLaw(None, self, part=(change, values.shape))
        own = {"joint": _changed(self.joint, change), "change": change.after(self.change), "error": error}
        return replace(self, **own, part=(self, change, values))  # type: ignore[arg-type]

    def summed(self, change: Change, error: CellError | None) -> Bounds:
        """Of sums of cells."""
        own = {"joint": _changed(self.joint, change), "change": change.after(self.change), "error": error}
        return replace(self, **own, part=None)  # type: ignore[arg-type]

    def map(self, change: Change, quantity: str, *, counts: bool) -> Uncertainty | None:
        """Of what becomes of the table; ``counts`` says that cells are still counts of people."""
        if counts and self.joint is not None:
            return self.summed(change, None)
        return computed([self], _changed(self.joint, change), quantity)


Uncertainty = LinearLaw | Draws | Bounds


def computed(inputs: Sequence[Uncertainty], joint: Joint | None, quantity: str) -> Uncertainty | None:
    """Of a figure that was computed from tables: a linear law where all is linear, otherwise draws."""
    if joint is None:
        return None
    if all(isinstance(each, LinearLaw) and not each.whole for each in inputs) and joint.form is not None:
        return LinearLaw(joint)
    modelled = any(isinstance(each, Bounds) or (isinstance(each, Draws) and each.modelled) for each in inputs)
    return Draws(joint, quantity, modelled=modelled)


def whole_ends(low: Floats, high: Floats) -> Ends:
    """Ends rounded outwards to whole numbers, not below zero."""
    slack = _ROUNDING * np.maximum(high - low, 1e-3)
    low = np.floor(np.maximum(low, 0.0) + slack)
    return low, np.maximum(np.ceil(high - slack), low)


def _changed(joint: Joint | None, change: Change) -> Joint | None:
    return None if joint is None else joint.changed(change)


def _drawn_ends(draws: Floats, values: Floats, level: float, quantity: str) -> Ends:
    """The ends of the interval of each figure; all of its range where nothing can be said."""
    least, most = _RANGES.get(quantity, (-np.inf, np.inf))
    to, back = (_log, np.exp) if quantity in _BY_FACTORS else (np.asarray, np.asarray)
    truth, centre = to(draws[0]), to(values)
    with np.errstate(invalid="ignore", over="ignore"):
        half = _student(len(draws) - 1, level) * _scale(to(draws))
        low, high = back(np.fmin(centre - half, truth)), back(np.fmax(centre + half, truth))
    unknown = ~np.isfinite(half)
    low = np.where(unknown, least, np.clip(low, least, most))
    return low, np.where(unknown, most, np.clip(high, least, most))


def _scale(draws: Floats) -> Floats:
    """The s of each cell: of many draws by their quantile, which a few of them far out do not move."""
    if len(draws) <= _MANY:
        return root_mean_square(draws)
    with np.errstate(invalid="ignore"):
        apart = np.abs(draws[1:] - draws[0])
    apart = np.where(np.isnan(apart), np.inf, apart)
    # A further draw is below the k-th of n with probability k / (n + 1): the 381st of 400 holds 95%, the 380th 94.8%.
    place = math.ceil(_HELD * (len(apart) + 1)) - 1
    return np.asarray(np.partition(apart, place, axis=0)[place] / _NORMAL)


def _normal(level: float) -> float:
    from scipy.special import ndtri

    return float(ndtri((1 + level) / 2))


def _student(freedom: float, level: float) -> float:
    from scipy.special import stdtrit

    return _normal(level) if math.isinf(freedom) else float(stdtrit(freedom, (1 + level) / 2))


def _log(values: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(values))
