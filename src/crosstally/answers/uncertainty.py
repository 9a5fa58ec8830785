"""How sure the cells of a table are: an exact linear law, joint draws, or bounds.

Each of the three is an ``Uncertainty``. It has a ``std_error``, the root mean square error of the number shown (NaN for
bounds), a ``half_width`` and an ``interval`` around values, all of the same error; the error of the noise alone is
``noise_std_error``. It says what becomes of it: ``summed`` for some of the cells and for sums of them, ``map`` for
anything else. A sum of one cell has the error of that cell (``SingleCells``), so a number is as sure at every door.
Where a function of a linear law is linear, so is the law of what comes out; otherwise it has draws.

Counts have intervals by a ``Spread``: for each cell t, below and above it the variances v- and v+, and

    min(x - q sqrt(v-), t)   to   max(x + q sqrt(v+), t),      q the quantile of Student's law,

not above what margins allow, cut at zero and rounded outwards. Other figures have theirs from draws: with f the
function, x the answers, t the truth of the replicates, x*r those of each replicate (``joint_draws``),

    s^2  =  mean over r of (g(f(x*r)) - g(f(t)))^2,

g being the logarithm for odds ratios and relative risks, otherwise nothing. Of more than 200 draws s is instead the
distance that 95% of them keep, over 1.96: a ratio whose denominator comes near zero in a few draws has no mean square,
and where interactions of unmeasured tables are of very different sizes 95% lie nearer than 1.96 root mean squares.
The interval is g(f(x)) plus or minus q s, q the quantile of Student's law with as many degrees of freedom as there are
replicates, stretched to hold g(f(t)).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.changes import Change, emptied, scaled
from crosstally.answers.joint_draws import Joint, root_mean_square
from crosstally.typing import Floats

_RANGES = {
    "count": (0.0, np.inf),
    "share": (0.0, 1.0),
    "rate": (0.0, np.inf),
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
    """A table of counts with intervals of its own, and of sums of cells."""

    def spread(self, change: Change | None) -> Spread:
        """Of the table, or of what a change makes of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """What the intervals of counts need, cell by cell.

    ``truth`` is always inside, where it is known; ``below`` and ``above`` are variances, ``freedom`` the degrees of
    freedom (infinite: normal), ``most`` what margins allow; ``inside`` is zero where a count is zero for certain.
    """

    truth: Floats | None
    below: Floats
    above: Floats
    freedom: float
    most: Floats | None = None
    inside: Floats | None = None

    @property
    def std_error(self) -> Floats:
        """The root mean square of the error on both sides; zero where a count is zero for certain."""
        return np.sqrt((self.below + self.above) / 2) * (1.0 if self.inside is None else self.inside)

    def interval_around(self, values: Floats, level: float) -> Ends:
        """The ends of the interval around each value."""
        quantile = _student(self.freedom, level)
        below = quantile * np.sqrt(self.below)
        low, high = values - below, values + (below if self.above is self.below else quantile * np.sqrt(self.above))
        if self.truth is not None:
            low, high = np.minimum(low, self.truth), np.maximum(high, self.truth)
        if self.most is not None:
            high = np.minimum(high, np.maximum(self.most, values))
        low, high = whole_ends(low, high)
        return (low, high) if self.inside is None else (low * self.inside, high * self.inside)


@dataclass(frozen=True, slots=True, eq=False)
class SingleCells:
    """Which cells are single cells of another table, ``whole``, with some values: they are as sure as they are there.

    ``alone`` marks them, ``numbers`` are those of their cells in the flat table, ``factor`` is what they are times,
    positive numbers: a count over a public number is as sure as the count.
    """

    whole: Uncertainty
    values: Floats
    alone: NDArray[np.bool_]
    numbers: NDArray[np.intp]
    factor: float | Floats = 1.0

    @classmethod
    def of(cls, whole: Uncertainty, change: Change, values: Floats) -> SingleCells | None:
        """Those of what a change makes of a table by adding up cells; None where no sum is of one cell."""
        alone = change.table(np.ones(values.shape)) == 1
        numbers = change.table(np.arange(values.size, dtype=np.float64).reshape(values.shape))
        return cls(whole, values, alone, np.where(alone, numbers, 0).astype(np.intp)) if alone.any() else None

    def put(self, there: float | Floats, own: Callable[[], float | Floats]) -> Floats:
        """What the other table says about its cells, and what these say of their own about the rest."""
        found = np.broadcast_to(there, self.values.shape).ravel()[self.numbers] * self.factor
        return found if self.alone.all() else np.where(self.alone, found, own())


@dataclass(frozen=True, eq=False)
class Uncertainty(ABC):
    """How sure the cells of a table are.

    ``error`` is the law of the noise before negative cells are corrected; without one it is that of the linear form of
    ``joint``, and ``modelled`` cells have none. ``change`` says what sums of the table these cells are, ``possible``
    which cells of it are not zero for certain, ``part`` which of them are single cells of the table. ``additive`` says
    whether sums of them are known as they are.
    """

    joint: Joint | None = None
    error: CellError | None = None
    _: KW_ONLY
    modelled: bool = False
    additive: bool = False
    change: Change | None = None
    possible: NDArray[np.bool_] | None = None
    part: SingleCells | None = None

    @cached_property
    def std_error(self) -> float | Floats:
        """The root mean square error of each number as it is shown, bias included: what its interval is made of."""
        return self._own_error() if self.part is None else self.part.put(self.part.whole.std_error, self._own_error)

    @cached_property
    def noise_std_error(self) -> float | Floats:
        """The standard error of the noise in each cell, before negative cells are corrected; NaN where it has none."""
        part = self.part
        return self._own_noise() if part is None else part.put(part.whole.noise_std_error, self._own_noise)

    def half_width(self, level: float) -> float | Floats:
        """The margin of error: the h such that the error stays within plus or minus h with this probability."""
        own = partial(self._own_half_width, level)
        return own() if self.part is None else self.part.put(self.part.whole.half_width(level), own)

    def interval(self, values: Floats, level: float) -> Ends:
        """The ends of the interval of each cell."""
        if self.part is None:
            return self._own_interval(values, level)
        low, high = self.part.whole.interval(self.part.values, level)
        own = (low, high) if self.part.alone.all() else self._own_interval(values, level)
        return self.part.put(low, lambda: own[0]), self.part.put(high, lambda: own[1])

    def _own_interval(self, values: Floats, level: float) -> Ends:
        low, high = self._ends(values, level)
        if self.possible is None or self.change is not None:
            return low, high
        return low * self.possible, high * self.possible

    def _own_error(self) -> float | Floats:
        own = self._error()
        return own if self.possible is None or self.change is not None else np.asarray(own * self.possible)

    def _own_noise(self) -> float | Floats:
        if self.error is not None:
            return self.error.std_error
        return math.nan if self.modelled or self.joint is None else self.joint.noise_std_error

    def _own_half_width(self, level: float) -> float | Floats:
        return normal_quantile(level) * self._own_error()

    @abstractmethod
    def _error(self) -> float | Floats:
        """The standard error of the table, or of ``_sums`` of it."""

    @abstractmethod
    def _ends(self, values: Floats, level: float) -> Ends:
        """The ends of the intervals of the table, or of ``_sums`` of it."""

    @property
    def _sums(self) -> Change | None:
        """What these cells are of the table before some of its cells became zero."""
        if self.change is None or self.possible is None:
            return self.change
        return self.change.after(emptied(self.possible))

    def summed(self, change: Change, values: Floats, error: CellError | None = None) -> Self:
        """Of sums of cells of the table, which has these values; ``error`` is the law of their noise, where known."""
        joint = None if self.joint is None else self.joint.changed(change)
        part = SingleCells.of(self, change, values)
        return replace(self, joint=joint, change=change.after(self.change), error=error, part=part)

    def scaled(self, factor: float | Floats, values: Floats, quantity: str) -> Uncertainty | None:
        """Of the table, which has these values, times a number, or a number for each cell."""
        mapped = self.map(scaled(factor), values, quantity, counts=False)
        if np.min(factor, initial=1.0) <= 0:
            return mapped
        cells = np.arange(values.size).reshape(values.shape)
        part = SingleCells(self, values, np.ones(values.shape, np.bool_), cells, factor)
        return replace(self if mapped is None else mapped, part=part)

    def map(self, change: Change, values: Floats, quantity: str, *, counts: bool) -> Uncertainty | None:
        """Of what becomes of the table, which has these values; ``counts`` says that its cells still are counts."""
        if counts and self.additive:
            return self.summed(change, values)
        if self.joint is None:
            return None
        found = computed([self], self.joint.changed(change), quantity)
        return replace(found, part=SingleCells.of(self, change, values)) if counts else found


@dataclass(frozen=True, eq=False)
class LinearLaw(Uncertainty):
    """The cells are linear in what was measured: noise has a known law, before negative cells are corrected.

    It is that of ``error``, otherwise normal with the variance of the linear form. ``whole`` says that counts cannot be
    negative, so that ends are whole numbers from zero on.
    """

    _: KW_ONLY
    whole: bool = False

    def _error(self) -> float | Floats:
        return self._own_noise()

    def _own_half_width(self, level: float) -> float | Floats:
        """Exact where the law of the noise is known."""
        return normal_quantile(level) * self._own_noise() if self.error is None else self.error.half_width(level)

    def _ends(self, values: Floats, level: float) -> Ends:
        half = self._own_half_width(level)
        return whole_ends(values - half, values + half) if self.whole else (values - half, values + half)


@dataclass(frozen=True, eq=False)
class Draws(Uncertainty):
    """Joint draws of the cells, from which anything computed from them has its error.

    Counts of a release have a spread of their own (``cells``); other figures have that of their draws. ``within`` is
    where the truth can be, where that does not follow from the quantity.
    """

    _: KW_ONLY
    quantity: str = "count"
    within: tuple[float, float] | None = None
    cells: Counts | None = None

    def _error(self) -> float | Floats:
        if self.cells is not None:
            return self._spread.std_error
        assert self.joint is not None  # figures have draws
        return _scale(self.joint.draws)

    def _own_half_width(self, level: float) -> float | Floats:
        if self.cells is not None:
            return _student(self._spread.freedom, level) * self._own_error()
        assert self.joint is not None  # figures have draws
        return _student(len(self.joint.draws) - 1, level) * self._own_error()

    def _ends(self, values: Floats, level: float) -> Ends:
        if self.cells is not None:
            return self._spread.interval_around(values, level)
        assert self.joint is not None  # figures have draws
        return drawn_ends(
            self.joint.draws, values, level, within=self.within or _RANGES.get(self.quantity), quantity=self.quantity
        )

    @cached_property
    def _spread(self) -> Spread:
        assert self.cells is not None  # the caller has looked
        return self.cells.spread(self._sums)


@dataclass(frozen=True, eq=False)
class Bounds(Uncertainty):
    """The ends of intervals as they are given at each level: all that margins allow, or those of another table.

    ``ends`` gives them for values and a level, after a change that adds up cells. ``joint`` is for other figures.
    """

    _: KW_ONLY
    ends: Callable[[Change | None, Floats, float], Ends]
    modelled: bool = True

    def _error(self) -> float | Floats:
        return math.nan if self.error is None else self.error.std_error

    def _ends(self, values: Floats, level: float) -> Ends:
        return self.ends(self._sums, values, level)


def computed(inputs: Sequence[Uncertainty], joint: Joint, quantity: str) -> Uncertainty:
    """Of a figure that was computed from tables: a linear law where all is linear, otherwise draws."""
    if all(isinstance(each, LinearLaw) and not each.whole for each in inputs) and joint.form is not None:
        return LinearLaw(joint)
    return Draws(joint, quantity=quantity, modelled=any(each.modelled for each in inputs))


def whole_ends(low: Floats, high: Floats) -> Ends:
    """Ends rounded outwards to whole numbers, not below zero."""
    slack = _ROUNDING * np.maximum(high - low, 1e-3)
    low = np.floor(np.maximum(low, 0.0) + slack)
    return low, np.maximum(np.ceil(high - slack), low)


def drawn_ends(
    draws: Floats, values: Floats, level: float, *, within: tuple[float, float] | None = None, quantity: str = ""
) -> Ends:
    """The ends of the interval of each figure; all of its range where nothing can be said."""
    least, most = within or (-np.inf, np.inf)
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


def normal_quantile(level: float) -> float:
    """Half of an interval of this level in standard errors, if errors are normal."""
    from scipy.special import ndtri

    return float(ndtri((1 + level) / 2))


def _student(freedom: float, level: float) -> float:
    from scipy.special import stdtrit

    return normal_quantile(level) if math.isinf(freedom) else float(stdtrit(freedom, (1 + level) / 2))


def _log(values: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(values))
