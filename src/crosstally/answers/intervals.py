"""Two-sided intervals for corrected cells and for unmeasured tables, from the repeated inference.

For a table, E turns coefficients into cells as the answer does (negative ones become zero, the total stays), x is the
answer, t the truth of the replicates and x*r their estimates (``inference.bootstrap``). For each cell

    own^2  =  mean over r of (E(x*r) - E(t))^2,      s^2  =  (R own^2 + 20 near^2) / (R + 20),

where near^2 is the mean of own^2 over the ten cells of the table that are nearest in size, five larger and five
smaller. Cells of similar size have similar errors, and 20 squares alone determine a scale only to 16%. Tables of fewer
than 11 cells have too few neighbours; for them near^2 is the variance of least squares, times the fraction of variance
that correction leaves at each order, over the whole release.

The interval is x plus or minus q s, where q is the quantile of Student's t with R degrees of freedom. It is extended to
contain E(t), which is as plausible as x, it is cut at zero, and its ends are rounded outwards, since counts are whole.
A large covered table has s^2 from its own cells instead (``inference.cell_errors``), with q the normal quantile. The
error of a sum of its cells is that of the replicates, times the mean s^2 of the cells over what replicates say of them.

Of an unmeasured table q is the answer, the maximum entropy table with the covered margins or the one nearest to a
``reference``. The noise part is as above, with the answer computed again for each replicate; a reference stays. For the
model part each uncovered set of attributes, pairs that were left out among them, gets a random interaction of a size
that measured sets like it have (``interactions``). q times the exponential of the sum of interactions is raked back to
the covered margins of q. The mean square of the changes of those draws that raise a
cell is added to its noise above, of those that lower it below, and the variance of sampling people (q times the share
of coefficients that no covered margin has) on both sides. Cells of nearly the same size share their noise, and the
noise of a cell is at least its share of the noise of each covered margin that contains it.

This assumes that unmeasured interactions are as large as measured ones. The intervals fail for a table that violates
the assumption, such as C = A xor B with only its pairs measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from crosstally.answers.changes import Change
from crosstally.answers.interactions import (
    SIZES,
    Sizes,
    centred,
    drawn_sizes,
    interaction_factors,
    unknown_sets,
)
from crosstally.answers.uncertainty import Spread
from crosstally.answers.unmeasured.known import Known
from crosstally.answers.unmeasured.proportional_fitting import greatest_entropy_again, raked
from crosstally.inference.bootstrap import DRAWS, Bootstrap, Normals, stream_seed
from crosstally.inference.joint_correction import clip_and_keep_total, view_orders
from crosstally.residuals import Estimate, rebuild
from crosstally.residuals.axes import placed
from crosstally.residuals.combining import mean_squares
from crosstally.typing import Floats

_POOLED = 20.0
"""What near cells say together counts like this many replicates. Chosen with ``_NEAR`` on Adult and FARS-16: without
it 91% of their cells above 20 were covered, with it 92 to 96%."""

_NEAR = 5
"""Near cells are so many of the next smaller and so many of the next larger ones."""

_SAME_SIZE = 2.0**-20
"""Cells whose sizes differ by less than about a millionth of a person are equally large, and stay in their order. The
rounding of doubles, which a file and its release do not share, would otherwise decide which of many empty cells are
near: ends of intervals of a release of 110 attributes differed by up to 187 people between the two."""

_ALIKE = 2.0
"""The most by which near cells of tables nobody measured may differ in size, as a factor. Chosen on FARS-16, where 1.5
to 3 hold as often within 0.2 points in each class of cells and are as wide. Without it small cells of binary tables
share the errors of much larger ones: intervals of 1 to 20 people on Kosarak become up to twice as wide."""


@dataclass(frozen=True, slots=True, eq=False)
class Covered:
    """A corrected covered table; nothing is worked out before its first interval is asked for."""

    bootstrap: Callable[[], Bootstrap]
    estimate: Estimate
    names: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the table."""
        return self.estimate.schema.sizes(self.names)

    def draws(self) -> Floats:
        """A stack of tables: E(t), then E(x*r) of each replicate."""
        stack, ndim = self.bootstrap().at(self.estimate.places([self.names])[0][0]), len(self.shape)
        return clip_and_keep_total(rebuild(stack.reshape(-1, *self.shape), ndim), ndim)

    def spread(self, change: Change | None) -> Spread:
        """Of the cells, or of sums of them; where nothing is added up the count is zero for certain."""
        own = own_squares(self.bootstrap(), self.estimate, self.names)
        if own is not None and change is None:
            return Spread(None, own, own, math.inf)
        stack = self.draws()
        squares = squares_shared(stack, self.expected())
        if change is None:
            return Spread(stack[0], squares, squares, len(stack) - 1)
        # sums of cells err as replicates say, by as much more as the cells that are added up do
        beyond = 1.0 if own is None else np.divide(*change(np.stack([own, np.maximum(squares, LEAST)])))
        stack = change(stack)
        squares = squares_shared(stack) * beyond
        inside = (change.table(np.ones(self.shape)) > 0).astype(np.float64)
        return Spread(stack[0], squares, squares, len(stack) - 1, inside=inside)

    def expected(self) -> float:
        """The variance to expect of a cell."""
        places = self.estimate.places([self.names])[0][0]
        left = self.estimate.variances[places] * self.bootstrap().replicates.left[view_orders(self.shape)]
        return float(left @ mean_squares(self.shape))


def own_squares(bootstrap: Bootstrap, estimate: Estimate, names: Sequence[str]) -> Floats | None:
    """The mean squared errors that a large table learned from its own cells; None of other tables."""
    ordered = estimate.schema.ordered(names)
    found = None if bootstrap.squares is None else bootstrap.squares.of(ordered)
    return None if found is None else found.transpose([ordered.index(name) for name in names])


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
    sizes = np.rint(sizes / _SAME_SIZE) * _SAME_SIZE
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


_MOST_RAKED = 400_000
"""Cells of all draws of an unmeasured table, a guard of time: tables of up to 1,000 cells have all draws, larger ones
fewer, but one for each replicate. Each draw has interactions of its own; replicates serve several draws."""

_MOST_LOG = 8.0
"""Interactions of a cell, in logs: a factor of 3,000, as in ``interactions``."""


MARGIN = 3.0
"""The upper end of a covered margin, in its standard errors: no cell of it is larger, at any level asked for."""

LEAST = 1e-300  # stands for zero under a fraction line


def modelled_spread(
    again: Floats, drawn: Floats, margins: tuple[Floats, Floats], free: Floats | float, change: Change | None
) -> Spread:
    """Of a table that was not measured, or of what a change makes of it.

    Args:
        again: The table of the truth of the replicates, then of each of their estimates: (1 + replicates, *shape).
        drawn: The answer, then what random interactions make of it: (1 + draws, *shape).
        margins: For each cell the least variance and the greatest count that the measured sums that hold it allow.
        free: What part of the sampling variance of a cell, its count, measured sums do not take away.
        change: Adds up cells.
    """
    least, most = margins
    people = free * np.maximum(drawn[0], 0.0)
    if change is not None:
        again, drawn = change(again), change(drawn)
        least, most, people = change(np.stack([least, most, people]))
    values = drawn[0]
    noise, moved = np.maximum(squares_shared(again, answer=values), least) + people, drawn[1:] - values
    below, above = (
        noise + np.where(side, moved**2, 0.0).sum(axis=0) / np.maximum(side.sum(axis=0), 1)
        for side in (moved < 0, moved > 0)
    )
    return Spread(again[0], below, above, len(again) - 1, most=most)


@dataclass(frozen=True, slots=True, eq=False)
class Modelled:
    """A table that is not covered; ``sizes`` are those of interactions, ``known`` what is covered of it."""

    bootstrap: Callable[[], Bootstrap]
    sizes: Callable[[], Sizes]
    estimate: Estimate
    names: tuple[str, ...]
    known: Known
    values: Floats

    def spread(self, change: Change | None) -> Spread:
        """Of the cells, or of sums of them."""
        again = self.again()
        return modelled_spread(again, self.drawn(), self.of_margins(again), self.free, change)

    @property
    def free(self) -> float:
        """The share of coefficients that are not covered."""
        return 1 - float(self.known.covered.mean())

    def again(self) -> Floats:
        """Tables of greatest entropy, or nearest to the reference: of the truth of the replicates, then of each."""
        stack = np.where(self.known.covered, self.bootstrap().at(self.estimate.places([self.names])[0][0]), 0.0)
        return greatest_entropy_again(replace(self.known, coefficients=np.ascontiguousarray(stack)))

    def drawn(self) -> Floats:
        """The answer, then what random interactions make of it."""
        known, values, sizes = self.known, self.values[None], self.sizes()
        normals = Normals(self.bootstrap().seed + 1)
        own = {axes: sizes.of([self.names[axis] for axis in axes]) for axes in unknown_sets(known)}
        factors = interaction_factors(normals, known.shape, own)
        return np.concatenate([values, raked(values * factors, values, known.subsets, len(known.shape))])

    def draws(self) -> Floats:
        """The table of the truth of the replicates, then tables of each of them, moved by what is not known.

        Each is moved by random interactions of the sizes that measured ones have, and by the sampling of people, then
        raked back to its covered margins. An interaction of a set of attributes is the same in every table that holds
        the set.
        """
        again, known, sizes, seed = self.again(), self.known, self.sizes(), self.bootstrap().seed
        shape, ndim = known.shape, len(known.shape)
        number = int(np.clip(_MOST_RAKED // math.prod(shape), len(again) - 1, DRAWS))
        truth, tables = again[:1], again[1 + np.arange(number) % (len(again) - 1)]
        covered, logs = known.covered.reshape(shape), np.zeros((number, *shape))
        for order in range(1, ndim + 1):
            for axes in combinations(range(ndim), order):
                if not covered[tuple(int(axis in axes) for axis in range(ndim))]:
                    law = sizes.of([self.names[axis] for axis in axes]) if order > 1 else None
                    logs += _interaction(seed, self.names, shape, axes, law=law, number=number)
        people = Normals(stream_seed(seed, "people", self.names)).draw((number, *shape))
        moved = tables * np.exp(np.clip(logs, -_MOST_LOG, _MOST_LOG)) + np.sqrt(np.maximum(tables, 0.0)) * people
        least = math.exp(-_MOST_LOG) * tables  # with zeros, some margins could not be reached
        return np.concatenate([truth, raked(np.maximum(moved, least), tables, known.subsets, ndim)])

    def of_margins(self, again: Floats) -> tuple[Floats, Floats]:
        """For each cell the least variance and the greatest count that the covered margins allow.

        A cell has at least its share of the noise of a margin. Where both are zero in all replicates this says what
        they cannot: near cells of the margin tell its noise.
        """
        ndim, truth = len(self.known.shape), again[0]
        least, most = np.zeros(self.known.shape), np.full(self.known.shape, np.inf)
        for bits in self.known.subsets:
            out = tuple(axis - ndim for axis in range(ndim) if not bits >> axis & 1)
            value, stack = self.values.sum(axis=out, keepdims=True), again.sum(axis=out, keepdims=True)
            noise, share = squares_shared(stack), truth / np.maximum(stack[0], LEAST)
            own = own_squares(
                self.bootstrap(), self.estimate, [self.names[axis] for axis in range(ndim) if bits >> axis & 1]
            )
            if own is not None:  # a large margin has learned its errors from itself, around the answer
                noise, share = own.reshape(noise.shape), self.values / np.maximum(value, LEAST)
            least = np.maximum(least, share**2 * noise)
            most = np.minimum(most, np.maximum(value, stack[0]) + MARGIN * np.sqrt(noise))
        return least, most


def _interaction(
    seed: int,
    names: Sequence[str],
    shape: Sequence[int],
    axes: Sequence[int],
    *,
    law: Floats | None,
    number: int,
) -> Floats:
    """Random interactions of some axes, in logs; without a law of their sizes they may be anything.

    Sizes and signs have a stream each, so that the first draws are the same however many there are.
    """
    ordered = sorted(axes, key=lambda axis: names[axis])
    own_names = [names[axis] for axis in ordered]
    chosen = Normals(stream_seed(seed, "size", own_names)).uniform(number)
    normals = Normals(stream_seed(seed, "interaction", own_names))
    size = np.full(number, SIZES[-1]) if law is None else drawn_sizes(law, chosen)
    own = centred(normals, number, [shape[axis] for axis in ordered]) * size.reshape(-1, *[1] * len(ordered))
    return placed(own, ordered, len(shape))
