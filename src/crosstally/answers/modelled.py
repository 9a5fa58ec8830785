"""Intervals for unmeasured tables: noise from replicates, and random interactions for what was not measured.

q is the answer, the maximum entropy table with the covered margins. The noise part is that of ``intervals``, with the
answer computed again for each replicate. For the model part each uncovered set of attributes gets a random interaction
of a size that measured sets of its order have (``interactions``). All pairs were measured; otherwise there are
``bounds`` instead. q times the exponential of the sum of interactions is raked back to the covered margins of q. The
mean square of the changes of those draws that raise a cell is added to its noise above, of those that lower it below,
and the variance of sampling people (q times the share of coefficients that no covered margin has) on both sides. Cells
of nearly the same size share their noise, and the noise of a cell is at least its share of the noise of each covered
margin that contains it.

This assumes that unmeasured interactions are as large as measured ones. The intervals fail for a table that violates
the assumption, such as C = A xor B with only its pairs measured.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import combinations

import numpy as np

from crosstally.answers.interactions import SIZES, centred
from crosstally.answers.intervals import squares_of_alike, squares_shared, whole_ends
from crosstally.answers.reconstruct.raking import greatest_entropy_again, raked
from crosstally.answers.reconstruct.reconstruction import Known
from crosstally.inference.repeats import Repeats
from crosstally.inference.replicates import Normals
from crosstally.residuals import Estimate
from crosstally.typing import Floats

__all__ = ["LEAST", "MARGIN", "STRETCH_DOUBT", "DrawnEnds", "ModelledEnds", "interaction_factors"]

_CELLS_DRAWN = 100_000  # cells of all draws together: limits time. See below; fewer draws make ends less steady
_LEAST_DRAWS, _MOST_DRAWS = 12, 100
"""Draws come in pairs of both signs: as many pairs as keep all their cells within the work."""

MARGIN = 3.0
"""The upper end of a covered margin, in its standard errors: no cell of it is larger, at any level asked for."""

STRETCH_DOUBT = 0.45
"""The standard deviation of the logarithm of a set's size inside groups over what its size between groups says.

From generated rows (hidden classes, a million people, 344 pairs of attributes and groupings, in runs of values and at
random): 0.44, with a mean of -0.01; 0.26 where more than ten coefficients tell the size between groups. The larger one
is taken, so that a few groups are not trusted too far.
"""

LEAST = 1e-300  # stands for zero under a fraction line

_MOST_LOG = 8.0  # as in ``interactions``: logarithms are clipped at a factor of 3,000


class DrawnEnds(ABC):
    """The intervals of an unmeasured table, or of the result of applying ``change`` to it."""

    def __init__(self, change: Callable[[Floats], Floats] | None) -> None:
        self._change = change

    @abstractmethod
    def again(self) -> Floats:
        """The table of the truth of the replicates, then of each of their estimates: (1 + replicates, *shape)."""

    @abstractmethod
    def drawn(self) -> Floats:
        """The answer, then what random interactions make of it: (1 + draws, *shape)."""

    @abstractmethod
    def of_margins(self, again: Floats) -> tuple[Floats, Floats]:
        """For each cell the least variance and the greatest count that the measured sums that hold it allow."""

    @property
    @abstractmethod
    def free(self) -> Floats | float:
        """What part of the sampling variance of a cell, its count, measured sums do not take away."""

    @cached_property
    def _parts(self) -> tuple[Floats, Floats, Floats, Floats, int]:
        """The truth of the replicates, variances below and above each cell, the most that margins allow, replicates."""
        again, drawn = self.again(), self.drawn()
        least, most = self.of_margins(again)
        people = self.free * np.maximum(drawn[0], 0.0)
        if self._change is not None:
            again, drawn = self._change(again), self._change(drawn)
            least, most, people = self._change(np.stack([least, most, people]))
        values = drawn[0]
        noise, moved = np.maximum(squares_of_alike(again, values), least) + people, drawn[1:] - values
        below, above = (
            noise + np.where(side, moved**2, 0.0).sum(axis=0) / np.maximum(side.sum(axis=0), 1)
            for side in (moved < 0, moved > 0)
        )
        return again[0], below, above, most, len(again) - 1

    def interval(self, values: Floats, level: float) -> tuple[Floats, Floats]:
        """The ends of the interval of each cell: values - t sqrt(below) to values + t sqrt(above).

        t is Student's quantile with as many degrees of freedom as replicates. The truth's table is always inside, and
        no upper end is above what covered margins allow, unless the answer is.
        """
        from scipy.special import stdtrit

        truth, below, above, most, number = self._parts
        quantile = float(stdtrit(number, (1 + level) / 2))
        low = np.minimum(values - quantile * np.sqrt(below), truth)
        high = np.minimum(np.maximum(values + quantile * np.sqrt(above), truth), np.maximum(most, values))
        return whole_ends(low, high)


class ModelledEnds(DrawnEnds):
    """The intervals of the cells of a table that is not covered."""

    def __init__(
        self,
        repeats: Callable[[], Repeats],
        sizes: Callable[[], Mapping[int, Floats]],
        estimate: Estimate,
        names: tuple[str, ...],
        *,
        known: Known,
        values: Floats,
        change: Callable[[Floats], Floats] | None = None,
    ) -> None:
        super().__init__(change)
        self._repeats, self._sizes = repeats, sizes
        self._estimate, self._names, self._known = estimate, names, known
        self._values = values

    def mapped(self, change: Callable[[Floats], Floats]) -> ModelledEnds:
        """The intervals of what becomes of the table: ``change`` turns a stack of tables into a stack of others."""
        model = self._repeats, self._sizes, self._estimate, self._names
        return ModelledEnds(*model, known=self._known, values=self._values, change=change)

    @property
    def free(self) -> float:
        """See DrawnEnds: the share of coefficients that are not covered."""
        return 1 - float(self._known.covered.mean())

    def again(self) -> Floats:
        """See DrawnEnds: tables of greatest entropy."""
        covered = self._known.covered
        stack = np.where(covered, self._repeats().at(self._estimate.places([self._names])[0][0]), 0.0)
        return greatest_entropy_again(Known(self._known.shape, covered, np.ascontiguousarray(stack)))

    def drawn(self) -> Floats:
        """See DrawnEnds."""
        shape, ndim = self._known.shape, len(self._known.shape)
        covered = self._known.covered.reshape(shape)
        free = [
            axes
            for order in range(3, ndim + 1)
            for axes in combinations(range(ndim), order)
            if not covered[tuple(int(axis in axes) for axis in range(ndim))]
        ]
        factors = interaction_factors(Normals(self._repeats().seed + 1), self._sizes(), shape, free)
        values = self._values[None]
        return np.concatenate([values, raked(values * factors, values, self._known.subsets, ndim)])

    def of_margins(self, again: Floats) -> tuple[Floats, Floats]:
        """See DrawnEnds; the sums are the covered margins.

        A cell has at least its share of the noise of a margin. Where both are zero in all replicates this says what
        they cannot: near cells of the margin tell its noise.
        """
        ndim, truth = len(self._known.shape), again[0]
        least, most = np.zeros(self._known.shape), np.full(self._known.shape, np.inf)
        for bits in self._known.subsets:
            out = tuple(axis - ndim for axis in range(ndim) if not bits >> axis & 1)
            value, stack = self._values.sum(axis=out, keepdims=True), again.sum(axis=out, keepdims=True)
            noise = squares_shared(stack)
            least = np.maximum(least, (truth / np.maximum(stack[0], LEAST)) ** 2 * noise)
            most = np.minimum(most, np.maximum(value, stack[0]) + MARGIN * np.sqrt(noise))
        return least, most


def interaction_factors(
    normals: Normals,
    sizes: Mapping[int, Floats],
    shape: tuple[int, ...],
    sets: Sequence[tuple[int, ...]],
    *,
    own: Mapping[tuple[int, ...], Floats] | None = None,
    stretched: Mapping[int, Floats] | None = None,
) -> Floats:
    """What random interactions of sets of axes multiply the cells of a table by: (draws, *shape).

    Draws come in pairs of both signs. The size of each interaction is drawn by the weights of its set in ``own``, else
    by those of its order. ``stretched`` has for some axes a factor for each value, by which interactions are larger, up
    to the largest size; how much larger is known up to ``STRETCH_DOUBT``.
    """
    cells, ndim = math.prod(shape), len(shape)
    pairs = int(np.clip(_CELLS_DRAWN // cells, 2 * _LEAST_DRAWS, 2 * _MOST_DRAWS)) // 2
    logs = np.zeros((pairs, *shape))
    for axes in sets:
        weights = (own or {}).get(axes, sizes.get(len(axes), sizes[max(sizes)]))
        part = tuple(shape[axis] for axis in axes)
        places = np.searchsorted(np.cumsum(weights), normals.uniform(pairs)).clip(max=len(SIZES) - 1)
        size = SIZES[places].reshape(-1, *[1] * len(axes))
        if stretched:
            size = size * np.exp(STRETCH_DOUBT * normals.draw(size.shape))
        for axis, factors in (stretched or {}).items():
            if axis in axes:
                size = np.minimum(size * factors.reshape(-1, *[1] * (len(axes) - 1 - axes.index(axis))), SIZES[-1])
        drawn = centred(normals, pairs, part) * size
        logs += drawn.reshape(pairs, *(shape[axis] if axis in axes else 1 for axis in range(ndim)))
    return np.asarray(np.exp(np.clip(np.concatenate([logs, -logs]), -_MOST_LOG, _MOST_LOG)))
