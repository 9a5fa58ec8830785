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
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crosstally.notebook.history.chain import Chain
from crosstally.notebook.history.constraints import Constraints
from crosstally.typing import Floats

__all__ = ["MOST_QUERIES", "Newton"]

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
