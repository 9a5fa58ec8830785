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

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from crosstally.answers.changes import Change
from crosstally.answers.interactions import SIZES, centred, interaction_factors, unknown_sets
from crosstally.answers.intervals import squares_shared
from crosstally.answers.reconstruct.raking import greatest_entropy_again, raked
from crosstally.answers.reconstruct.reconstruction import Known
from crosstally.answers.uncertainty import Spread
from crosstally.inference.repeats import Repeats
from crosstally.inference.replicates import DRAWS, Normals, stream_seed
from crosstally.residuals import Estimate
from crosstally.typing import Floats

_MOST_RAKED = 400_000
"""Cells of all draws of an unmeasured table, a guard of time: tables of up to 1,000 cells have all draws, larger ones
fewer, but one for each replicate. Each draw has interactions of its own; replicates serve several draws."""

_MOST_LOG = 8.0
"""Interactions of a cell, in logs: a factor of 3,000, as in ``interactions``."""

__all__ = ["LEAST", "MARGIN", "Modelled", "modelled_spread"]

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

    repeats: Callable[[], Repeats]
    sizes: Callable[[], Mapping[int, Floats]]
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
        stack = np.where(self.known.covered, self.repeats().at(self.estimate.places([self.names])[0][0]), 0.0)
        return greatest_entropy_again(replace(self.known, coefficients=np.ascontiguousarray(stack)))

    def drawn(self) -> Floats:
        """The answer, then what random interactions make of it."""
        known, values = self.known, self.values[None]
        normals = Normals(self.repeats().seed + 1)
        factors = interaction_factors(normals, self.sizes(), known.shape, unknown_sets(known))
        return np.concatenate([values, raked(values * factors, values, known.subsets, len(known.shape))])

    def draws(self) -> Floats:
        """The table of the truth of the replicates, then tables of each of them, moved by what is not known.

        Each is moved by random interactions of the sizes that measured ones have, and by the sampling of people, then
        raked back to its covered margins. An interaction of a set of attributes is the same in every table that holds
        the set.
        """
        again, known, sizes, seed = self.again(), self.known, self.sizes(), self.repeats().seed
        shape, ndim = known.shape, len(known.shape)
        number = int(np.clip(_MOST_RAKED // math.prod(shape), len(again) - 1, DRAWS))
        truth, tables = again[:1], again[1 + np.arange(number) % (len(again) - 1)]
        covered, logs = known.covered.reshape(shape), np.zeros((number, *shape))
        for order in range(1, ndim + 1):
            weights = sizes.get(order, sizes[max(sizes)]) if order > 2 else None
            for axes in combinations(range(ndim), order):
                if not covered[tuple(int(axis in axes) for axis in range(ndim))]:
                    logs += _interaction(seed, self.names, shape, axes, weights=weights, number=number)
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
            noise = squares_shared(stack)
            least = np.maximum(least, (truth / np.maximum(stack[0], LEAST)) ** 2 * noise)
            most = np.minimum(most, np.maximum(value, stack[0]) + MARGIN * np.sqrt(noise))
        return least, most


def _interaction(
    seed: int,
    names: Sequence[str],
    shape: Sequence[int],
    axes: Sequence[int],
    *,
    weights: Floats | None,
    number: int,
) -> Floats:
    """Random interactions of some axes, in logs; without weights of the sizes they may be anything.

    Sizes and signs have a stream each, so that the first draws are the same however many there are.
    """
    ordered = sorted(axes, key=lambda axis: names[axis])
    own_names = [names[axis] for axis in ordered]
    chosen = Normals(stream_seed(seed, "size", own_names)).uniform(number)
    normals = Normals(stream_seed(seed, "interaction", own_names))
    size = np.full(number, SIZES[-1])
    if weights is not None:
        size = SIZES[np.searchsorted(np.cumsum(weights), chosen).clip(max=len(SIZES) - 1)]
    own = centred(normals, number, [shape[axis] for axis in ordered]) * size.reshape(-1, *[1] * len(ordered))
    own = own.transpose(0, *(i + 1 for i in np.argsort(ordered)))
    return np.asarray(own.reshape(number, *(n if axis in axes else 1 for axis, n in enumerate(shape))))
