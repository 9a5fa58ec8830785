"""Newton steps towards the maximum entropy weights, with the Hessian estimated from a sample of the rows.

Rows have the law p(row) = prior(row) exp(sum_i w_i f_i(row)) / Z(w), with a weight w_i for each of m queries f_i, all
constraints side by side; pi_i is the target of f_i, its noisy answer over the number of people. Maximised is the dual

    w . pi - ln Z(w) - sum_i k_i w_i^2 / 2      over |w_i| <= beta_i      (k_i the softness, ``constraints``).

Its gradient is g = pi - p[f] - k w, p[f] the means of the queries over the sampled rows; its Hessian is -(C + K), with
C (m, m) the covariance of the queries over the rows and K = diag(k). Overlapping questions make C badly conditioned,
and steps along the gradient need as many sweeps as its condition number. A step d here maximises g . d - d' H d / 2
within the box |w + d| <= beta, |d_i| <= 2 (``_LONGEST``), nearly, by L-BFGS-B from zero, where

    H = C + K + 0.01 diag(C_ii + b_i),      C from a few thousand of the rows,      b_i the noise scale of pi_i.

d' C d is about twice the divergence between the distributions before and after the step. After a small step the sampled
rows adapt within a sweep or two, so steps are shortened so that the root of d' C d is at most ``_TRUST`` times the root
of the number of attributes (each attribute moves separately).

Stochastic ascent to the maximum entropy weights: sample rows under the weights, update the weights from the rows.

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
from crosstally.typing import Floats

# A guard of time: queries up to which C, (m, m), is computed. 1,500 take about a second for each fresh C.
MOST_QUERIES = 1_500
# Rows that C is computed from, at least, and for each query: fewer make C singular, more cost their number.
_ROWS, _ROWS_EACH = 4_000, 10
_AGAIN = 2  # steps for which C is kept: a fresh one costs as much as a few sweeps; if C is kept for 4, weights swing
_SWEEPS = 2  # sweeps before each step: rows follow the weights, and means are over both. Chosen; 1 is less steady
# The largest root of d' C d, over that of the number of attributes. Chosen on the census, where 600 ranges do not
# settle with twice as much.
_TRUST = 0.08
_RIDGE = 0.01  # of diag(C_ii + b_i), added to C: as much as C's own sample is unsure of
# The longest step of one weight: cells that no row of the sample is in have no curvature to hold them. Chosen.
_LONGEST = 2.0
_ARRIVED = 0.9  # the part of a bound from which on a weight that goes there is there
_SOLVER_STEPS = 60  # of the inner program: it need not be solved to the end, the next step goes on from it


class Newton:
    """Steps for all queries of a problem together."""

    def __init__(self, constraints: Sequence[Constraints], chain: Chain) -> None:
        self.constraints, self._chain = constraints, chain
        self._tables = [np.eye(each.targets.size) if each.tables is None else each.tables for each in constraints]
        self._targets, self._noise = (
            np.concatenate([getattr(each, name) for each in constraints]) for name in ("targets", "noise")
        )
        self._ends = np.cumsum([each.targets.size for each in constraints])[:-1]
        self._covariance = np.empty((0, 0))
        self._sums, self._sweeps, self._steps = np.zeros(len(self._targets)), 0, 0

    @property
    def ready(self) -> bool:
        """Whether a step was taken, so that the curvature is known."""
        return self._steps > 0

    def moved(self, weights: Sequence[Floats], means: Sequence[Floats], part: float) -> list[Floats]:
        """The weights after one more sweep: every second one ends with a step, of which this part is taken."""
        self._sums += np.concatenate(means)
        self._sweeps += 1
        if self._sweeps < _SWEEPS:
            return list(weights)
        gradient = self._targets - self._sums / self._sweeps - self._softness * np.concatenate(weights)
        self._sums, self._sweeps = np.zeros_like(self._sums), 0
        if self._steps % _AGAIN == 0:
            self._covariance = self._covariance_of_rows()
            self._chain.adapt()
        self._steps += 1
        before, bounds = np.concatenate(weights), np.concatenate([each.bounds for each in self.constraints])
        low, high = np.maximum(-bounds - before, -_LONGEST), np.minimum(bounds - before, _LONGEST)
        step = self._step(gradient, low, high, self._softness)
        scale = self._cut(step, part)
        after = np.clip(before + scale * step, -bounds, bounds)
        # A weight that is meant to be at its bound and nearly there is put there: parts of steps would never arrive
        ended = np.abs(before + step) >= bounds * (1 - 1e-9)
        after = np.where(ended & (np.abs(after) >= _ARRIVED * bounds), np.sign(after) * bounds, after)
        return np.split(after, self._ends)

    @property
    def _softness(self) -> Floats:
        """K, the diagonal that softness adds to the curvature."""
        return np.concatenate([each.softness for each in self.constraints])

    def freedom(self, weights: Sequence[Floats]) -> list[Floats]:
        """How far the mean of each query follows its own target: the diagonal of C (C + K)^-1, 0 at a bound.

        K is the diagonal matrix of softness; C (C + K)^-1 = I - K (C + K)^-1 is over the queries inside their bounds.
        """
        free = self._free(weights)
        softness = self._softness[free]
        inverse = np.linalg.inv(self._covariance[np.ix_(free, free)] + np.diag(softness))
        out = np.zeros(len(self._targets))
        out[free] = 1 - np.diag(inverse) * softness
        return np.split(out, self._ends)

    def inside(self, weights: Sequence[Floats]) -> list[NDArray[np.bool_]]:
        """Which weights are inside their bounds."""
        return np.split(self._free(weights), self._ends)

    def _free(self, weights: Sequence[Floats]) -> NDArray[np.bool_]:
        bounds = np.concatenate([each.bounds for each in self.constraints])
        return np.asarray(np.abs(np.concatenate(weights)) < bounds * (1 - 1e-9))

    def correction(self, weights: Sequence[Floats], means: Sequence[Floats], now: Sequence[Floats]) -> list[Floats]:
        """A step of the weights that moves rows back to the means of the optimum, from where they are now.

        Inside its bounds a query is at its target less its softness times its weight; at a bound it is at ``means``.
        Solved with C + 0.01 diag(C_ii + b_i), without K: a step d moves the means of the rows by about C d. The box is
        part of the problem and not put on afterwards: cells that no row is in have steps without end, and cutting these
        alone would turn the others away from where they lead together.
        """
        meant = self._targets - self._softness * np.concatenate(weights)
        gap = np.where(self._free(weights), meant, np.concatenate(means)) - np.concatenate(now)
        ends = np.full(len(gap), _LONGEST)
        step = self._step(gap, -ends, ends, np.zeros_like(gap))
        return np.split(step * self._cut(step, 1.0), self._ends)

    def _cut(self, step: Floats, part: float) -> float:
        """By what a step is multiplied, so that the rows can follow it."""
        divergence = part * math.sqrt(max(float(step @ self._covariance @ step), 0.0))
        most = _TRUST * math.sqrt(self._chain.codes.shape[1])
        return part * min(1.0, most / divergence) if divergence else part

    def _covariance_of_rows(self) -> Floats:
        chain = self._chain
        number = min(max(_ROWS, _ROWS_EACH * len(self._targets)), len(chain.codes))
        rows = chain.codes[chain.random.choice(len(chain.codes), number, replace=False)]
        values = np.empty((number, len(self._targets)), np.float32)  # half the time, and exact enough beside the sample
        for table, cells, own in zip(
            self._tables, chain.tables, np.split(np.arange(len(self._targets)), self._ends), strict=False
        ):
            values[:, own] = table.T[cells.of(rows)]
        values -= values.mean(axis=0)
        return np.asarray(values.T @ values / number, np.float64)

    def _step(self, gradient: Floats, low: Floats, high: Floats, softness: Floats) -> Floats:
        """The maximum of the quadratic model within the box, nearly; variables are scaled to a diagonal of ones."""
        from scipy.optimize import minimize

        diagonal = np.diag(self._covariance) * (1 + _RIDGE) + _RIDGE * self._noise + softness
        scale = 1 / np.sqrt(diagonal)
        hessian = self._covariance * scale * scale[:, None]
        np.fill_diagonal(hessian, 1.0)
        right = gradient * scale

        def objective(step: Floats) -> tuple[float, Floats]:
            image = hessian @ step
            return float(step @ (image / 2 - right)), image - right

        bounds = np.column_stack([low / scale, high / scale])
        options = {"maxiter": _SOLVER_STEPS, "maxcor": 20}
        found = minimize(objective, np.zeros_like(right), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return np.asarray(np.clip(found.x * scale, low, high))


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
