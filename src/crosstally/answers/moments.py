"""Intervals for a shrunk estimate (the local model): a variance for each cell.

The estimate shrinks the central moments k_B of sets B of attributes towards their expected values. Their posterior
variance is known as an average m_B over the cells of a set, and the variance L_B of the measured moments is the same
for all its cells. The errors differ between cells: with p_i the frequencies of a cell's values,

    s(b)  =  product over i in B of p_i (1 - p_i)                      is how far moments can go, and
    V_B(b)  =  1 / (1 / L_B + 1 / (t_B s(b))),                         t_B such that the mean of V_B is m_B:

this is the posterior variance for a prior variance of t_B s(b) and one noisy observation. If the estimate moved further
from the measurements than this model allows, E (k - measured)^2 = L - V, the excess is added in proportion to s. It is
multiplied by excess^2 / (excess^2 + its squared standard error), since few coefficients say little.

An error of k_B moves a cell c of a larger table by the share that c has of b. So the variance of a cell is the sum over
the sets B inside its table of (share)^2 V_B. A set of three that nobody measured has a quarter of the mean square of
measured pairs times s, one of four a sixteenth, and people are sampled: their free share of the count is added.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from crosstally.answers.changes import Change
from crosstally.answers.uncertainty import Spread
from crosstally.inference.bootstrap import Normals, number_of_draws, seed_of, stream_seed
from crosstally.inference.joint_correction import clip_and_keep_total
from crosstally.measurements import Measurement
from crosstally.residuals import Estimate, combine, rebuild
from crosstally.residuals.axes import placed
from crosstally.typing import Floats

_EVEN = 0.1
"""The share of independence in tables from which shares are read, so that none is exactly zero. Chosen on FARS-16."""

_LEAST = 1e-9
"""The least frequency of a value."""

_MOST_NUMBERS = 20_000_000
"""Cells of a set times those of a table up to which errors of sums are added up exactly."""

_ONE_MORE = 0.5
"""The size of an interaction that nobody measured over the size of interactions of one attribute fewer: half, as the
central model supposes before it sees any (``interactions``). In the units of this module real ones of three attributes
are 0.04 to 0.10 of those of pairs on Adult, ACS, census-9, Kosarak and FARS-16, and 0.58 on MSNBC."""

_STEPS = 60  # halvings of an interval of length 200: what is left is 2e-16, the rounding of a double

Names = tuple[str, ...]


class Moments:
    """The errors of the central moments of an estimate, of which ``left`` are the variances of coefficients left."""

    def __init__(
        self, estimate: Estimate, measurements: Sequence[Measurement], left: Mapping[Names, float], total: float
    ) -> None:
        self.estimate, self.total = estimate, max(total, 1.0)
        self._measurements, self._left = measurements, left
        self._variances: dict[Names, Floats] = {}

    @cached_property
    def frequencies(self) -> dict[str, Floats]:
        """How often each value of each measured attribute occurs."""
        names = {name for one in self._left for name in one}
        return {name: np.maximum(self.estimate.table((name,)) / self.total, _LEAST) for name in names}

    @cached_property
    def digest(self) -> int:
        """What tells these measurements from others."""
        return seed_of(self.estimate.schema, self._measurements)

    @cached_property
    def _linear(self) -> Estimate:
        return combine(self.estimate.schema, self._measurements)

    @cached_property
    def _cells_left(self) -> dict[Names, float]:
        """m_B: by ``pair_shrinkage`` coefficients have the errors of all moments inside, taken off here."""
        squares = {name: float(((p - 1 / len(p)) ** 2).mean()) for name, p in self.frequencies.items()}
        out: dict[Names, float] = {}
        for names in sorted(self._left, key=len):
            own = self._left[names] * self._scale(names)
            for part in (part for size in range(1, len(names)) for part in combinations(names, size) if part in out):
                own -= out[part] * math.prod(squares[name] for name in names if name not in part)
            out[names] = max(own, 0.0)
        return out

    def _scale(self, names: Names) -> float:
        """What the variance of a coefficient, in counts, is in a cell of the centred table, in frequencies."""
        return math.prod(1 - 1 / n for n in self.estimate.schema.sizes(names)) / self.total**2

    def _reach(self, names: Names) -> Floats:
        """s, for each cell of a set."""
        out: Floats = np.ones(())
        for name in names:
            p = self.frequencies[name]
            out = np.multiply.outer(out, p * (1 - p) + _LEAST)
        return out

    def measured(self, names: Names) -> bool:
        """Whether something is known about the moment of a set."""
        return names in self._left

    def variances(self, names: Names) -> Floats:
        """V of each cell of a set, in frequencies."""
        if names not in self._variances:
            reach = self._reach(names)
            supposed = self._square * _ONE_MORE ** (2 * max(len(names) - 2, 0))
            self._variances[names] = self._posterior(names, reach) if names in self._left else supposed * reach
        return self._variances[names]

    def _posterior(self, names: Names, reach: Floats) -> Floats:
        places = self._linear.places([names])[0][0]
        noise = float(self._linear.variances[places[-1]]) * self._scale(names)
        out = _shared_out(noise, self._cells_left[names], reach)
        moved = self._moment(self.estimate, names) - self._moment(self._linear, names)
        weights = reach / reach.sum()
        beyond = float((weights * (moved**2 + out - noise)).sum())
        coefficients = math.prod(n - 1 for n in reach.shape)
        own_error = noise * math.sqrt(2 * max(float((weights**2).sum()), 1 / coefficients))
        if beyond > 0:
            beyond *= beyond**2 / (beyond**2 + own_error**2)
            out = out + beyond * reach / float((weights * reach).sum())
        return out

    def _moment(self, estimate: Estimate, names: Names) -> Floats:
        """The part of a table that belongs to all its attributes together, in frequencies."""
        shape = estimate.schema.sizes(names)
        inner, own = (slice(1, None),) * len(shape), estimate.coefficients[estimate.places([names])[0][0]]
        block = np.zeros(shape)
        block[inner] = own.reshape(shape)[inner]
        return np.asarray(rebuild(block, len(shape)) / self.total)

    @cached_property
    def _square(self) -> float:
        """The mean square of the moments of pairs, in units of s: what is expected of pairs that nobody measured."""
        squares = reaches = 0.0
        for names in (names for names in self._left if len(names) == 2):
            first, second = (self.frequencies[name] for name in names)
            moved = self.estimate.table(names) / self.total - np.multiply.outer(first, second)
            squares += float((moved**2).sum()) + self._cells_left[names] * moved.size
            reaches += float(self._reach(names).sum())
        return squares / reaches if reaches else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class MomentTable:
    """A table of the local model: its values, and the errors of the moments of its attributes."""

    moments: Moments
    names: Names
    values: Floats

    def spread(self, change: Change | None) -> Spread:
        """Of the cells, or of sums of them, in counts; no count is larger than the total."""
        out: Floats = np.zeros(())
        for names, axes, shares in self._shares():
            wide = placed(self.moments.variances(names)[None], axes, self.values.ndim)[0]
            out = out + _variances_moved(wide, shares, change)
        people = self.values if change is None else change.table(self.values)
        squares = out * self.moments.total**2 + self._free * np.maximum(people, 0.0)
        return Spread(None, squares, squares, math.inf, most=np.full(squares.shape, self.moments.total))

    def draws(self) -> Floats:
        """A stack of tables: the answer, then answers with errors drawn anew.

        The errors of a moment are centred along each attribute, as moments are. Tables are corrected as answers are: no
        cell is below zero and the total stays; otherwise shares of small groups would be anything. The errors of some
        attributes are the same in every table that holds them.
        """
        shape = self.values.shape
        moved = np.zeros((1, *shape))
        for names, axes, shares in self._shares():
            variances = self.moments.variances(names)
            errors = self._normals("moment", names, variances.shape) * np.sqrt(variances)
            for axis, n in enumerate(variances.shape, start=1):
                errors = (errors - errors.mean(axis=axis, keepdims=True)) / math.sqrt(1 - 1 / n)
            moved = moved + self.moments.total * placed(errors, axes, len(shape)) * shares
        if self._free:
            people = np.sqrt(self._free * np.maximum(self.values, 0.0))
            moved = moved + people * self._normals("people", self.names, shape)
        drawn = clip_and_keep_total(self.values + moved, len(shape))
        return np.concatenate([self.values[None], drawn])

    @property
    def _free(self) -> float:
        """What part of the sampling variance of a cell no measured moment takes away."""
        schema = self.moments.estimate.schema
        sets = (schema.ordered(names) for n in range(1, len(self.names) + 1) for names in combinations(self.names, n))
        free = [math.prod(n - 1 for n in schema.sizes(each)) for each in sets if not self.moments.measured(each)]
        return sum(free) / self.values.size

    def _normals(self, stream: str, names: Names, shape: Sequence[int]) -> Floats:
        number = number_of_draws(self.values.size)
        return Normals(stream_seed(self.moments.digest, stream, names)).draw((number, *shape))

    def _shares(self) -> Iterator[tuple[Names, list[int], Floats]]:
        """The sets, their axes, and the share that each cell of the table has of the cell of the set that it is in."""
        ndim, even = self.values.ndim, np.ones(())
        for name in self.names:
            even = np.multiply.outer(even, self.moments.frequencies[name])
        table = (1 - _EVEN) * np.maximum(self.values, 0.0) / self.moments.total + _EVEN * even
        for size in range(1, ndim + 1):
            for names in combinations(self.names, size):
                ordered = self.moments.estimate.schema.ordered(names)
                others = tuple(axis for axis in range(ndim) if self.names[axis] not in names)
                yield (
                    ordered,
                    [self.names.index(name) for name in ordered],
                    table / table.sum(axis=others, keepdims=True),
                )


def _variances_moved(variances: Floats, shares: Floats, change: Change | None) -> Floats:
    """What the errors of the cells of a set add to the variances of cells, or of their sums."""
    if change is None:
        return np.asarray(variances * shares**2)
    if variances.size * shares.size > _MOST_NUMBERS:  # as if all its cells erred together, which is the most
        return np.asarray(change.table(np.sqrt(variances) * shares) ** 2)
    each = np.eye(variances.size).reshape(-1, *variances.shape) * np.sqrt(variances)
    return np.asarray((change(each * shares) ** 2).sum(axis=0))


def _shared_out(noise: float, mean: float, reach: Floats) -> Floats:
    """Variances 1 / (1 / noise + 1 / (t reach)), with t such that this is their mean; at most the noise."""
    if mean >= noise * (1 - 1e-6):
        return np.full(reach.shape, mean)
    low, high = -100.0, 100.0  # of the logarithm of t noise / (largest reach)
    scaled = reach / reach.max()
    for _ in range(_STEPS):
        middle = (low + high) / 2
        law = math.exp(middle) * scaled
        low, high = (middle, high) if float((law / (1 + law)).mean()) * noise < mean else (low, middle)
    law = math.exp(low) * scaled
    return np.asarray(noise * law / (1 + law))
