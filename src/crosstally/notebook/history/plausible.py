"""Uncertainty about the variances: error bars average over all variances that are plausible given the past answers.

A few answers do not determine how far the rows differ from the prior. The prior of a set's variance is centred at a
level that all sets with the same number of attributes share, and the prior of the level at a scale that is natural for
counts. Levels are integrated on a grid, each point weighted by the likelihood of the answers; each single variance is
replaced by its posterior mean. With many answers one grid point dominates, and the error bars are those of the best
fit.

Real attributes often have one dominant value, and levels learned from attributes without one do not allow for it. So
one more model joins the grid, with a fixed weight: in it single attributes may deviate by nearly all rows, sets of s
attributes by 1 / s of that. It also uses the past answers, so it matters only where nothing similar was asked. Its
weight is 0.7; the grid points share the rest. The expected squared error is the weighted mean, over all models, of the
model's own expected squared error plus its squared distance from the best fit (``record.History``).

In symbols, v_S the variance of the set S of s attributes (``components``), all logarithms natural:

    log v_S = log level_s + log own_S,    log own_S ~ N(0, 1.2^2),    log level_s ~ N(log scale, 2^2), cut at ``most``

The mode of levels and own factors comes first (``_Pool.settle``). Then a grid in log level_s of step 1.5, a point being
a whole number for each s (shift = exp(1.5 x point)), weighed by p(answers | variances) p(levels). Within a point
log v_S is normal with the posterior variance ``left`` (at most 1.2^2), so the mean of v_S is exp(left / 2) times its
median.

>>> scale = Scale(4.0, most=100.0)
>>> scale.log_density(4.0 * math.e**2), scale.log_density(101.0)  # one standard deviation above the scale
(-0.5, -inf)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass

import numpy as np

from crosstally.notebook.history.bundles import MOST_ASKED_TOGETHER, Positions
from crosstally.notebook.history.components import NoisyAnswers, Posterior, Variances
from crosstally.notebook.history.likelihood import information, replaced, statistics
from crosstally.typing import Floats

# Standard deviation of the logarithm of a variance about its level. This, the next and the grid were chosen on
# generated rows of the kinds in lab/evidence/history.md (other draws): less makes bars of short histories too narrow.
_OWN = 1.2
_LEVEL = 2.0  # standard deviation of the logarithm of a level about the natural scale of counts
_STEPS = 20  # limits time: steps end when they have settled (below)
_SETTLED = 0.05  # in logarithms of variances: 5% of a variance changes an error bar by less than 3%
# The step of the grid of levels, in logarithms. Smaller steps change little beside a spread of 2, and take longer.
_GRID = 1.5
_LEAST = 0.02  # points this much less likely than the best one are left out, and nothing beyond them is looked at
_MOST_POINTS = 60  # limits time: each point is a fit of all answers
# If this many answers inform a level, it is known to about 14%, far less than a step of the grid, and is not varied.
_CERTAIN = 100.0
_REPLACEMENTS = 2  # steps of expectation propagation after the variances were moved. Chosen: answers start near
_DOMINANT, _DOMINANT_SPREAD = 0.7, 3.0
"""How likely it is that values dominate, and how far rows then deviate, in roots of the scale of levels.

That root is 0.3 of all rows, or 0.1 where the one-way tables are known (``record``), and three times 0.3 is nearly all;
sets of s attributes get 1 / s of it. Chosen on FARS-16, where 60 past answers and a weight of 0.5 held 91%, 0.7 held
93%, none 85%.
"""

Point = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Scale:
    """What is believed of a level before an answer is seen: log-normal about ``variance``, and never above ``most``."""

    variance: float
    _: KW_ONLY
    most: float

    def log_density(self, level: float) -> float:
        """Up to a constant."""
        return -math.inf if level > self.most else -0.5 * (math.log(level / self.variance) / _LEVEL) ** 2

    def mean(self) -> float:
        """The expected level."""
        # The mean of the cut log-normal law, in steps of 0.05 of its logarithm from four standard deviations below
        grid = np.arange(-4 * _LEVEL, math.log(self.most / self.variance) + 1e-9, 0.05)
        density = np.exp(-0.5 * (grid / _LEVEL) ** 2)
        return float(self.variance * (density @ np.exp(grid)) / density.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Plausible:
    """One choice of all variances: its solution, and its weight among all choices (the weights sum to 1).

    ``unseen`` is the variance of sets of so many attributes that no past answer is about.
    """

    solution: Posterior
    _: KW_ONLY
    unseen: dict[int, float]
    weight: float


class _Pool:
    """Levels, and the factor of each set of attributes on that of its size; moved to the most likely ones."""

    def __init__(self, solution: Posterior, past: NoisyAnswers, fixed: Mapping[Positions, float], scale: Scale) -> None:
        self.structure, self.past, self.fixed, self.scale = solution.structure, past, fixed, scale
        self.free = [part for part in solution.variances if part not in fixed]
        self.sizes = sorted({len(part) for part in self.free})
        self.levels = {size: self._typical(solution, size) for size in self.sizes}
        self.own = {part: self._start(solution.variances[part], self.levels[len(part)]) for part in self.free}
        self.seen: dict[Positions, tuple[float, float]] = {}

    def _typical(self, solution: Posterior, size: int) -> float:
        found = float(np.mean([solution.variances[part] for part in self.free if len(part) == size]))
        return min(found, self.scale.most)

    @staticmethod
    def _start(variance: float, level: float) -> float:
        return min(max(variance / level, math.exp(-2 * _OWN)), math.exp(2 * _OWN))

    def variances(self, shift: Mapping[int, float]) -> dict[Positions, float]:
        found = {part: self.levels[len(part)] * shift.get(len(part), 1.0) * self.own[part] for part in self.free}
        return {**self.fixed, **found}

    def settle(self) -> None:
        for _ in range(_STEPS):
            if self._step() < _SETTLED:
                return

    def _step(self) -> float:
        # The step of ``likelihood`` in logarithms, v (shown, expected): a level sums both sides over its sets
        before = self.variances({})
        found = statistics(self.structure.solve(self.past, before))
        self.seen = {part: (before[part] * found[part][0], before[part] * found[part][1]) for part in self.free}
        for size in self.sizes:
            sides = np.sum([self.seen[part] for part in self.free if len(part) == size], axis=0)
            moved = self.levels[size] * _ratio(sides, math.log(self.levels[size] / self.scale.variance), _LEVEL)
            self.levels[size] = min(moved, self.scale.most)
        # Levels and factors move in the same step, both from the variances as they were before it
        for part in self.free:
            self.own[part] *= _ratio(self.seen[part], math.log(self.own[part]), _OWN)
        after = self.variances({})
        return max((abs(math.log(after[part] / before[part])) for part in self.free), default=0.0)

    def left(self) -> dict[Positions, float]:
        """For each set the variance of the logarithm of its factor that its answers leave."""
        # Precisions add: that of the belief and Fisher's, which is what answers tell on average; where they show less
        # than that, they count for less.
        informed = information(self.structure.solve(self.past, self.variances({})))
        return {part: 1 / (1 / _OWN**2 + 0.5 * min(self.seen[part][0], informed[part])) for part in self.free}


def _ratio(sides: Iterable[float], distance: float, spread: float) -> float:
    """By how much to move: the root of what is shown over what is expected, with the pull of a belief on its side."""
    # 0.01 on both sides: where nothing is shown and nothing expected, nothing moves
    shown, expected = sides
    pull = 2 * distance / spread**2
    return math.sqrt((shown + max(-pull, 0.0) + 0.01) / (expected + max(pull, 0.0) + 0.01))


def plausible(
    best: Posterior, past: NoisyAnswers, *, scales: Floats, fixed: Mapping[Positions, float], scale: Scale
) -> tuple[Plausible, ...]:
    """The ways past answers may be read, with weights that sum to 1.

    Args:
        best: The fit, whose matrices are taken as they are.
        past: The answers as they were drawn, less what is known of them.
        scales: The scale of each answer's Laplace noise, 0 where the noise is normal.
        fixed: Variances that are known.
        scale: What is believed of levels.
    """
    pool = _Pool(best, past, {part: v for part, v in fixed.items() if part in best.variances}, scale)
    pool.settle()
    left = pool.left()
    points = _points(pool)
    total = sum(points.values())
    out = []
    for point, weight in points.items():
        shift = {size: math.exp(_GRID * step) for size, step in zip(pool.sizes, point, strict=True)}
        variances = pool.variances(shift)
        for part in pool.free:
            # The mean of a log-normal law: exp(half its variance) times the median
            variances[part] = min(variances[part] * math.exp(left[part] / 2), scale.most)
        solution = _solved(best, past, variances, scales)
        unseen = {
            size: min(_unseen(pool, left, size) * shift.get(size, 1.0), scale.most)
            for size in range(1, MOST_ASKED_TOGETHER + 1)
        }
        out.append(Plausible(solution, unseen=unseen, weight=(1 - _DOMINANT) * weight / total))
    return (*out, _dominant(best, past, pool, scales=scales))


def _dominant(best: Posterior, past: NoisyAnswers, pool: _Pool, *, scales: Floats) -> Plausible:
    """The way to read answers in which one value of each attribute, or cell of each table, may hold most of the rows.

    The levels of others, and answers to questions that miss it, say nothing about such a value; nor do the matrices
    learned from them, so that here every cell is by itself.
    """
    scale = pool.scale
    dominant = {
        size: min((_DOMINANT_SPREAD / size) ** 2 * scale.variance, scale.most)
        for size in range(1, MOST_ASKED_TOGETHER + 1)
    }
    variances = pool.variances({})
    for part in pool.free:
        variances[part] = max(variances[part], dominant[len(part)])
    even = best.structure.with_matrices({a: np.eye(len(root)) for a, root in best.structure.loadings.items()})
    return Plausible(
        _solved(even.solve(best.past, best.variances), past, variances, scales), unseen=dominant, weight=_DOMINANT
    )


def _solved(best: Posterior, past: NoisyAnswers, variances: Variances, scales: Floats) -> Posterior:
    """With normal answers in the place of Laplace ones that fit these variances, from those of the best fit."""
    laplace = scales > 0
    start = NoisyAnswers(
        np.where(laplace, best.past.answers, past.answers), noise=np.where(laplace, best.past.noise, past.noise)
    )
    solution = best.structure.solve(start, variances)
    if laplace.any():
        for _ in range(_REPLACEMENTS):
            solution = best.structure.solve(replaced(solution, past.answers, scales), variances)
    return solution


def _unseen(pool: _Pool, left: Mapping[Positions, float], size: int) -> float:
    """The mean variance of a set of attributes that no answer is about.

    Where others of as many attributes were asked about, the grid holds their factors as they are; that these may stand
    in for the level comes on top.
    """
    if size not in pool.sizes:
        return pool.scale.mean() * math.exp(_OWN**2 / 2)
    # Precisions of log level: from the answers with the factors held (the grid covers that), and with the factors free.
    # The doubt that the grid lacks is the difference of the two variances; a new set has its own factor besides.
    informed = [1 / left[part] - 1 / _OWN**2 for part in pool.free if len(part) == size]
    shifts = 1 / _LEVEL**2 + sum(informed)
    whole = 1 / _LEVEL**2 + sum(each / (1 + each * _OWN**2) for each in informed)
    return pool.levels[size] * math.exp((_OWN**2 + 1 / whole - 1 / shifts) / 2)


def _points(pool: _Pool) -> dict[Point, float]:
    """Points of the grid of levels about the most likely one that are plausible enough, and how plausible they are."""
    start = (0,) * len(pool.sizes)
    best = _log_weight(pool, start)
    found = {start: 1.0}
    border = [start]  # points whose neighbours are still to be looked at: the region is grown from the best point
    while border and len(found) < _MOST_POINTS:
        point = border.pop(0)
        for axis, size in enumerate(pool.sizes):
            if sum(pool.seen[part][1] for part in pool.free if len(part) == size) > _CERTAIN:
                continue  # so many answers know this level
            for step in (-1, 1):
                near = (*point[:axis], point[axis] + step, *point[axis + 1 :])
                if near in found:
                    continue
                weight = math.exp(min(_log_weight(pool, near) - best, 50.0))
                found[near] = weight
                if weight > _LEAST:
                    border.append(near)
    return {point: weight for point, weight in found.items() if weight > _LEAST}


def _log_weight(pool: _Pool, point: Point) -> float:
    """The sum of log p(answers | variances) and log p(levels), up to a constant; -inf beyond the most rows."""
    shift = {size: math.exp(_GRID * step) for size, step in zip(pool.sizes, point, strict=True)}
    belief = sum(pool.scale.log_density(pool.levels[size] * shift[size]) for size in pool.sizes)
    if belief == -math.inf:
        return belief
    return pool.structure.solve(pool.past, pool.variances(shift)).log_likelihood + belief
