"""Intervals for unmeasured tables: noise from replicates, and random interactions for what was not measured.

q is the answer, the maximum entropy table with the covered margins or the one nearest to a ``reference``. The noise
part is that of ``intervals``, with the answer computed again for each replicate; a reference stays as it is. For the
model part each uncovered set of attributes gets a random interaction of a size that measured sets of its order have
(``interactions``). All pairs were measured; otherwise there are ``bounds`` instead. q times the exponential of the sum
of interactions is raked back to the covered margins of q. The mean square of the changes of those draws that raise a
cell is added to its noise above, of those that lower it below, and the variance of sampling people (q times the share
of coefficients that no covered margin has) on both sides. Cells of nearly the same size share their noise, and the
noise of a cell is at least its share of the noise of each covered margin that contains it.

This assumes that unmeasured interactions are as large as measured ones. The intervals fail for a table that violates
the assumption, such as C = A xor B with only its pairs measured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np

from crosstally.answers.interactions import interaction_factors, unknown_sets
from crosstally.answers.intervals import squares_of_alike, squares_shared, whole_ends
from crosstally.answers.reconstruct.raking import greatest_entropy_again, raked
from crosstally.answers.reconstruct.reconstruction import Known
from crosstally.inference.repeats import Repeats
from crosstally.inference.replicates import Normals
from crosstally.residuals import Estimate
from crosstally.typing import Floats

__all__ = ["LEAST", "MARGIN", "DrawnEnds", "ModelledEnds"]

MARGIN = 3.0
"""The upper end of a covered margin, in its standard errors: no cell of it is larger, at any level asked for."""

LEAST = 1e-300  # stands for zero under a fraction line


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
        """See DrawnEnds: tables of greatest entropy, or nearest to the reference."""
        covered = self._known.covered
        stack = np.where(covered, self._repeats().at(self._estimate.places([self._names])[0][0]), 0.0)
        return greatest_entropy_again(replace(self._known, coefficients=np.ascontiguousarray(stack)))

    def drawn(self) -> Floats:
        """See DrawnEnds."""
        known, values = self._known, self._values[None]
        normals = Normals(self._repeats().seed + 1)
        factors = interaction_factors(normals, self._sizes(), known.shape, unknown_sets(known))
        return np.concatenate([values, raked(values * factors, values, known.subsets, len(known.shape))])

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
