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

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crosstally.answers.changes import Change
from crosstally.answers.uncertainty import Spread
from crosstally.inference.joint_correction import view_orders
from crosstally.inference.nonnegativity import clip_and_keep_total
from crosstally.inference.repeats import Repeats
from crosstally.residuals import Estimate, rebuild
from crosstally.residuals.combining import mean_squares
from crosstally.typing import Floats

__all__ = ["Covered", "squares_shared"]

_POOLED = 20.0
"""What near cells say together counts like this many replicates. Chosen with ``_NEAR`` on Adult and FARS-16: without
it 91% of their cells above 20 were covered, with it 92 to 96%."""

_NEAR = 5
"""Near cells are so many of the next smaller and so many of the next larger ones."""

_ALIKE = 2.0
"""The most by which near cells of tables nobody measured may differ in size, as a factor. Chosen on FARS-16, where 1.5
to 3 hold as often within 0.2 points in each class of cells and are as wide. Without it small cells of binary tables
share the errors of much larger ones: intervals of 1 to 20 people on Kosarak become up to twice as wide."""


@dataclass(frozen=True, slots=True, eq=False)
class Covered:
    """A corrected covered table; nothing is worked out before its first interval is asked for."""

    repeats: Callable[[], Repeats]
    estimate: Estimate
    names: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the table."""
        return self.estimate.schema.sizes(self.names)

    def draws(self) -> Floats:
        """A stack of tables: E(t), then E(x*r) of each replicate."""
        stack, ndim = self.repeats().at(self.estimate.places([self.names])[0][0]), len(self.shape)
        return clip_and_keep_total(rebuild(stack.reshape(-1, *self.shape), ndim), ndim)

    def spread(self, change: Change | None) -> Spread:
        """Of the cells, or of sums of them; where nothing is added up the count is zero for certain."""
        stack = self.draws()
        if change is None:
            squares = squares_shared(stack, self.expected())
            return Spread(stack[0], squares, squares, len(stack) - 1)
        stack = change(stack)
        squares = squares_shared(stack)
        return Spread(stack[0], squares, squares, len(stack) - 1, inside=change.table(np.ones(self.shape)) > 0)

    def expected(self) -> float:
        """The variance to expect of a cell."""
        orders = np.rint(view_orders(self.shape)).astype(np.intp)
        places = self.estimate.places([self.names])[0][0]
        left = self.estimate.variances[places] * self.repeats().left[orders]
        return float(left @ mean_squares(self.shape))


def squares_shared(stack: Floats, expected: float | None = None, *, answer: Floats | None = None) -> Floats:
    """s^2 of each cell of a stack of tables: E(t), then E(x*r) of each replicate.

    With an ``answer`` near cells differ in size by a factor of ``_ALIKE`` at most, one person added to each cell. The
    size of a cell is then the larger one of the answer and E(t). Where E(t) is small and the answer is not, replicates
    show an error that is too small: they draw the cell around E(t).
    """
    own, number = np.asarray(((stack[1:] - stack[0]) ** 2).mean(axis=0)), len(stack) - 1
    sizes = stack[0] if answer is None else np.maximum(stack[0], answer) + 1
    near = _near_means(own, sizes, expected, most=None if answer is None else _ALIKE)
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
