"""Stochastic ascent to the maximum entropy weights: sample rows under the weights, update the weights from the rows.

With pi_i the target of query f_i, beta_i the bound on its weight w_i and k_i its softness (``constraints``),

    primal   min over p of  KL(p | prior) + sum_i penalty_i(pi_i - p[f_i])      (Huber's penalty: ``_judged``),
    dual     max over |w_i| <= beta_i of  w . pi - ln Z(w) - sum_i k_i w_i^2 / 2,

and the optimum is p(row) = prior(row) exp(sum_i w_i f_i(row)) / Z(w). Every sweep over the rows gives the means p[f_i],
and so the gradient pi - p[f] - k w. Linear answers overlap, so Newton's method (``newton``) updates their weights,
together with those of tables if there are any, up to ``MOST_QUERIES`` numbers. The cells of tables hardly overlap: if
there are only tables, and for longer histories, each weight moves by its own gradient, divided by the largest of the
variance of its query, its target (cells of tables) and its noise scale plus one row, and by the overlap of all queries
(``_overlap``). The penalty is then the paper's, beta_i |difference|: all k_i are 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from crosstally.notebook.history.chain import Chain
from crosstally.notebook.history.constraints import Constraints, Problem
from crosstally.notebook.history.newton import MOST_QUERIES, Newton
from crosstally.typing import Floats

__all__ = ["WINDOW", "Ascent", "AscentFit"]

# Sweeps over which means are averaged before they are judged: single sweeps differ by the noise of the sample.
WINDOW = 10
# Parts of the sweeps that are spent with narrower bounds first, and these as parts of the bounds: weights that may be
# large from the start swing. Chosen on the census.
_WIDENED = ((0.15, 0.1), (0.15, 0.3))
_PARTS = 20  # of the rows that move one after the other at the end. More come nearer to the means
# How strongly a twentieth of the rows makes up for what all of them miss. 20 would be all of it; chosen below that.
_GAIN = 10.0


class Ascent:
    """Weights during the ascent: each sweep of the rows gives a gradient, each gradient a step."""

    def __init__(self, posed: Problem, rows: int, tolerance: float, random: np.random.Generator) -> None:
        self.constraints, self.tolerance = posed.constraints, tolerance
        few = sum(each.targets.size for each in posed.constraints) <= MOST_QUERIES
        few = few and any(each.tables is not None for each in posed.constraints)
        self.chain = Chain(posed, rows, random, adaptive=few)
        self.weights = [np.zeros(each.targets.size) for each in posed.constraints]
        self._newton = Newton(posed.constraints, self.chain) if few else None
        self._step = 1.0 if few else 1 / _overlap(posed)
        self.sweeps, self.taken = 0, 0.0
        self.fit = AscentFit((), violation=math.inf, gap=math.inf)

    def bound(self, constraints: Sequence[Constraints]) -> None:
        """Continue from the weights so far, with the same constraints and new bounds."""
        self.constraints = tuple(constraints)
        self.weights = [np.clip(w, -e.bounds, e.bounds) for w, e in zip(self.weights, self.constraints, strict=True)]
        if self._newton is not None:
            self._newton.constraints = self.constraints

    def _sweep(self) -> None:
        self.taken = self.chain.sweep(self._log_weights(self.weights))
        self.sweeps += 1

    def _log_weights(self, weights: Sequence[Floats]) -> list[Floats]:
        return [each.log_weights(w) for each, w in zip(self.constraints, weights, strict=True)]

    def _means(self) -> list[Floats]:
        return [each.means(own) for each, own in zip(self.constraints, self.chain.shares(), strict=True)]

    def climb(self, sweeps: int) -> None:
        """Run up to this many sweeps, fewer if the constraints are met earlier; wide bounds are widened gradually."""
        if self._newton is None or sweeps < WINDOW:
            self.run(sweeps)
            return
        wide, before = self.constraints, self.sweeps
        for part, bounds in _WIDENED:
            self.bound([replace(each, bounds=bounds * each.bounds) for each in wide])
            self.run(math.ceil(part * sweeps))
        self.bound(wide)
        if sweeps > self.sweeps - before:
            self.run(sweeps - (self.sweeps - before))

    def settle(self) -> None:
        """Move the rows once more, a few at a time, each time so that the means of all rows come nearer to the optimum.

        Rows that are drawn each by itself miss the means by the error of a sample. Here those that move next make up
        for what the others miss.
        """
        if self._newton is None or not self._newton.ready:
            return
        rows = np.arange(len(self.chain.codes))
        for part in np.array_split(rows, min(_PARTS, len(rows))):
            tilt = self._newton.correction(self.weights, self.fit.means, self._means())
            tilted = [w + _GAIN * each for w, each in zip(self.weights, tilt, strict=True)]
            self.chain.sweep(self._log_weights(tilted), part)

    def past_error(self) -> float:
        """The mean squared error of the linear answers that were used, over the variance of their noise (Stein).

        For normal noise E (estimate - truth)^2 = E (estimate - answer)^2 - variance + 2 variance x E freedom, where
        freedom = d estimate / d answer. For Laplace noise this holds as far as the estimate is linear in the answer.
        The estimates are those of the optimum: inside its bounds a query differs from its target by k w. The means of
        a small sample differ more, as its rows are few, and would count its error as that of the distribution.
        """
        assert self._newton is not None
        found = []
        learned = zip(self._newton.inside(self.weights), self._newton.freedom(self.weights), strict=True)
        for each, means, weights, (inside, freedom) in zip(
            self.constraints, self.fit.means, self.weights, learned, strict=True
        ):
            if len(each.rows):
                gaps = np.where(inside, each.softness * weights, each.targets - means)
                found.append(gaps**2 / (2 * each.noise**2) - 1 + 2 * freedom)
        return float(np.mean(np.concatenate(found)))

    def walk(self, sweeps: int) -> Iterator[NDArray[np.int32]]:
        """The rows after each of some sweeps with the weights as they are."""
        for _ in range(sweeps):
            self._sweep()
            yield self.chain.codes

    def run(self, sweeps: int, *, least: int = 1) -> None:
        """Run up to this many sweeps; stop early if the constraints are met after the least number of sweeps.

        Steps are whole in the first half of the sweeps and then fall as 1 / sweep, to a half at the last: less noise
        of the last samples stays in the weights.
        """
        sums = [np.zeros(each.targets.size) for each in self.constraints]
        for done in range(1, sweeps + 1):
            self._sweep()
            means = self._move(min(1.0, sweeps / (2 * done)))
            sums = [total + mean for total, mean in zip(sums, means, strict=True)]
            since = done % WINDOW or WINDOW
            if since == WINDOW or done == sweeps:
                self.fit = self._judged([total / since for total in sums])
                sums = [np.zeros_like(total) for total in sums]
                if done >= least and self.fit.violation <= self.tolerance:
                    return

    def _move(self, part: float) -> list[Floats]:
        """Take a part of a step towards the targets of the queries; return their current means."""
        shares, least = self.chain.shares(), 1 / len(self.chain.codes)
        found = self._means()
        if self._newton is not None:
            self.weights = self._newton.moved(self.weights, found, part)
            return found
        for i, (each, own, means) in enumerate(zip(self.constraints, shares, found, strict=True)):
            wanted = np.clip(each.targets, 0, 1) if each.tables is None else 0.0
            spreads = np.maximum(np.maximum(each.spreads(own), wanted), each.noise + least)
            moved = self.weights[i] + part * self._step * (each.targets - means) / spreads
            self.weights[i] = np.clip(moved, -each.bounds, each.bounds)
        return found

    def _judged(self, means: Sequence[Floats]) -> AscentFit:
        """How far from the optimum: the gradient must be 0, or the weight at the bound that the gradient points to.

        With difference = target - mean the gradient is difference - k w, k the softness. ``violation`` is the largest
        |gradient| over noise scale + standard error of the mean. ``gap`` is the primal minus the dual objective at the
        same weights, the sum of penalty(difference) + k w^2 / 2 - w difference: the partition function cancels. The
        penalty is beta |difference| - k beta^2 / 2 where |difference| is above k beta, else difference^2 / (2 k).
        """
        violation = gap = 0.0
        for each, shares, weights, mean in zip(self.constraints, self.chain.shares(), self.weights, means, strict=True):
            differences = each.targets - mean
            softness = each.softness if self._newton is not None else np.zeros_like(weights)
            gradient = differences - softness * weights
            explained = weights * np.sign(gradient) >= each.bounds * (1 - 1e-9)
            unit = each.noise + np.sqrt(each.spreads(shares) / len(self.chain.codes))
            violation = max(
                violation,
                float(np.where(explained, 0.0, np.abs(gradient) / unit).max(initial=0.0)),
            )
            slope = np.minimum(np.abs(differences) / np.maximum(softness, 1e-300), each.bounds)
            penalty = slope * np.abs(differences) - softness * slope**2 / 2
            gap += float(np.sum(penalty + softness * weights**2 / 2 - weights * differences))
        return AscentFit(tuple(means), violation=violation, gap=gap)


@dataclass(frozen=True, slots=True, eq=False)
class AscentFit:
    """The means of the queries over some sweeps, and how far they and the weights are from the optimum: ``_judged``."""

    means: tuple[Floats, ...]
    _: KW_ONLY
    violation: float
    gap: float


def _overlap(posed: Problem) -> float:
    """A bound on the largest eigenvalue of the queries' correlations at the prior, where attributes are independent.

    A query is there a sum of orthogonal parts, one for each set of attributes, and only constraints that hold all
    attributes of a part have it. So the bound is the sum of the stiffness of all constraints that hold an attribute, at
    the attribute where that is largest.
    """
    stiff = [each.stiffness(each.prior_shares(posed.prior)) for each in posed.constraints]
    holders = [
        sum(value for each, value in zip(posed.constraints, stiff, strict=True) if k in each.positions)
        for k in range(len(posed.schema.shape))
    ]
    return max([1.0, *holders])
