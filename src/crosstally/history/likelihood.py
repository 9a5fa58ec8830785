"""How far rows stray from the prior: one variance for each set of attributes, chosen by marginal likelihood.

Each step multiplies every variance by a power of what the answers show over what the model expects of it: with 1/2 the
likelihood never falls (the minorise-maximise step for variance components), with a little more it rises faster.
A belief at a scale that is natural for counts keeps short histories from being certain of what they never saw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosstally.history.bundles import Positions
from crosstally.history.components import Past, Solution, Structure
from crosstally.history.laplace import replaced

__all__ = ["Belief", "Fit", "fit", "single_variance"]

_STEPS = 30
_POWER = 0.8
_REST = 0.01
_TOLERANCE = 0.02
_GRID = 25


@dataclass(frozen=True, slots=True)
class Belief:
    """What is believed of every variance before an answer is seen: log-normal about ``variance``.

    ``spread`` is the standard deviation of its logarithm.
    """

    variance: float
    spread: float = 3.0

    def pulls(self, variance: float) -> tuple[float, float]:
        """What the belief adds to what answers show and to what the model expects."""
        pull = 2 * math.log(variance / self.variance) / self.spread**2 / variance
        return max(-pull, 0.0), max(pull, 0.0)


def single_variance(structure: Structure, past: Past, *, fixed: Mapping[Positions, float]) -> float:
    """The variance, the same for all sets of attributes (alpha^2), with the highest marginal likelihood."""
    free = [part for part in structure.parts if part not in fixed]
    scale = float(np.mean(past.answers**2))

    def likelihood(log_variance: float) -> float:
        variance = math.exp(log_variance)
        return structure.solve(past, {**fixed, **dict.fromkeys(free, variance)}).log_likelihood

    high = math.log(max(scale, 1e-12)) + 9
    return math.exp(_highest(likelihood, high - _GRID, high))


def _highest(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one peak is highest: golden section to a tenth."""
    golden = (math.sqrt(5) - 1) / 2
    a, b = high - golden * (high - low), low + golden * (high - low)
    at_a, at_b = function(a), function(b)
    while high - low > 0.1:
        if at_a > at_b:
            high, b, at_b = b, a, at_a
            a = high - golden * (high - low)
            at_a = function(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + golden * (high - low)
            at_b = function(b)
    return (low + high) / 2


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Variances for each set of attributes, and past answers, those with Laplace noise replaced by normal ones."""

    variances: dict[Positions, float]
    past: Past


def fit(
    structure: Structure,
    past: Past,
    *,
    scales: NDArray[np.float64],
    start: float,
    fixed: Mapping[Positions, float],
    belief: Belief,
) -> Fit:
    """The variances with the highest marginal likelihood; those in ``fixed`` stay as they are.

    ``scales`` is the scale of each answer's Laplace noise, 0 where the noise is normal.
    """
    variances = {part: fixed.get(part, start) for part in structure.parts}
    answers = past.answers
    for _ in range(_STEPS):
        solution = structure.solve(past, variances)
        before, variances = variances, _step(solution, fixed, belief)
        former, past = past, replaced(solution, answers, scales)
        moved = max((abs(math.log(variances[p] / before[p])) for p in variances if p not in fixed), default=0.0)
        changed = float(np.abs(np.log(past.noise / former.noise)).max(initial=0.0))
        if max(moved, changed) < _TOLERANCE:
            break
    return Fit(variances, past)


def _step(solution: Solution, fixed: Mapping[Positions, float], belief: Belief) -> dict[Positions, float]:
    found = dict(solution.variances)
    for part, (shown, expected) in _statistics(solution).items():
        if part not in fixed:
            more, less = belief.pulls(found[part])
            rest = _REST / found[part]  # the same on both sides: where nothing is shown or expected nothing moves far
            found[part] *= ((shown + more + rest) / (expected + less + rest)) ** _POWER
    return found


def _statistics(solution: Solution) -> dict[Positions, tuple[float, float]]:
    """For each part what the answers show of it, r' K r, and what the model expects, trace(A^-1 K)."""
    structure, weights = solution.structure, solution.weights
    out: dict[Positions, tuple[float, float]] = {}
    slices = structure.columns[1]
    if slices:
        from scipy.linalg import solve_triangular

        root = solve_triangular(solution.middle, np.eye(len(solution.middle)), lower=True, check_finite=False)
        inside = 1 - (root**2).sum(axis=0)
        for each, columns in zip(structure.shared, slices, strict=True):
            shown = float(((weights[each.rows] @ each.features) ** 2).sum())
            variance = solution.variances[each.part]
            out[each.part] = shown, max(float(inside[columns].sum()), 0.0) / variance
    for number, parts in enumerate(structure.inside):
        inverse = solution.inverse_blocks[number]
        for each in parts:
            where = structure.places[each.rows]
            product = structure.product(each)
            shown = float(((weights[each.rows] @ each.features) ** 2).sum())
            out[each.part] = shown, float((inverse[np.ix_(where, where)] * product).sum())
    return out
