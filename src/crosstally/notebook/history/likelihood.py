"""How far the rows differ from the prior: a variance for each set of attributes, by marginal likelihood times a prior.

Each step multiplies every variance by a power of the ratio shown / expected. With the power 1/2 the likelihood never
falls (the minorise-maximise step for variance components); with a larger one, 0.8, it rises faster but may fall. The
prior of each variance, at a scale that is natural for counts, keeps short histories from being too certain; what is
found is the mode in log v_S.

In the symbols of ``components``, with K_S = F_S F_S' and r = A^-1 a, the log-likelihood is -(log det A + a' r) / 2, and

    d / d v_S  =  (shown_S - expected_S) / 2,      shown_S = r' K_S r,      expected_S = trace(A^-1 K_S)

so at the maximum both are equal, and the step is v_S <- v_S (shown_S / expected_S)^power. The belief log v_S ~
N(log v_0, spread^2) adds -2 log(v_S / v_0) / (spread^2 v_S) to the difference: a negative pull is added to what is
expected, a positive one to what is shown, so that neither side becomes negative. A variance of 9 that is believed to
be 1 with a spread of 3 is expected to be smaller by 2 log(9) / 9 / 9:

>>> shown, expected = VariancePrior(1.0).pulls(9.0)
>>> shown, round(expected, 4)
(0.0, 0.0543)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from crosstally.notebook.history.bundles import Positions
from crosstally.notebook.history.components import CovarianceModel, NoisyAnswers, Posterior
from crosstally.notebook.history.laplace import replaced
from crosstally.notebook.history.loadings import Mixture, moved
from crosstally.typing import Floats

__all__ = ["LikelihoodFit", "VariancePrior", "fit", "information", "statistics"]

_STEPS = 100  # limits time: steps end at the tolerance below. If they end here, ``converged`` is False
# Steps of variances alone, and then of shares and of matrices: a set number, since the fit goes on afterwards. Chosen.
_WARM, _SHAPING = 4, 5
# Between 1/2, with which the likelihood never falls, and 1, which may overshoot (see above). Chosen for speed.
_POWER = 0.8
# Added on both sides of each ratio, over the variance: as if a hundredth of an answer agreed with the model.
_REST = 0.01
_TOLERANCE = 0.02  # in standard errors of past queries: the fit has ended when no step moves an estimate by more


@dataclass(frozen=True, slots=True)
class VariancePrior:
    """The prior of every variance: log-normal around ``variance``.

    ``spread`` is the standard deviation of its logarithm.
    """

    variance: float
    spread: float = 3.0

    def pulls(self, variance: float) -> tuple[float, float]:
        """What the belief adds to what answers show and to what the model expects."""
        pull = 2 * math.log(variance / self.variance) / self.spread**2 / variance
        return max(-pull, 0.0), max(pull, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class LikelihoodFit:
    """The result of the fit: the attributes' matrices, the variances, and normal answers in place of Laplace ones.

    ``converged`` is True if the last step moved no estimate of a past query by over 2% of its standard error.
    """

    solution: Posterior
    converged: bool


class _Learner:
    """Past answers and what is learned of them so far."""

    def __init__(
        self, past: NoisyAnswers, *, scales: Floats, fixed: Mapping[Positions, float], belief: VariancePrior
    ) -> None:
        self.past, self.answers = past, past.answers
        self.scales, self.fixed, self.belief = scales, fixed, belief
        self.variances: dict[Positions, float] = {}

    def step(self, solution: Posterior) -> None:
        """One step of variances and of the normal answers."""
        self.variances = _step(solution, self.fixed, self.belief)
        self.past = replaced(solution, self.answers, self.scales)

    def solve(self, structure: CovarianceModel) -> Posterior:
        return structure.solve(self.past, self.variances)


def fit(
    structure: CovarianceModel,
    past: NoisyAnswers,
    *,
    scales: Floats,
    fixed: Mapping[Positions, float],
    belief: VariancePrior,
) -> LikelihoodFit:
    """The variances with the highest marginal likelihood; those in ``fixed`` stay as they are.

    The attributes' matrices (``loadings``) are learned as well, in a fixed number of steps.
    ``scales`` is the scale of each answer's Laplace noise, 0 where the noise is normal.
    """
    learner = _Learner(past, scales=scales, fixed=fixed, belief=belief)
    # All variances start at what is believed of them
    learner.variances = {part: fixed.get(part, belief.variance) for part in structure.parts}
    mixture = Mixture(structure)
    if mixture.matrices:
        structure = _shaped(structure, learner, mixture)
    solution = learner.solve(structure)
    for _ in range(_STEPS):
        learner.step(solution)
        before, solution = solution, learner.solve(structure)
        # Judged by the estimates: a variance that no estimate depends on may drift for long
        gaps = np.abs(solution.fitted - before.fitted)
        if np.all(gaps <= _TOLERANCE * solution.fitted_errors):
            return LikelihoodFit(solution, True)
    return LikelihoodFit(solution, False)


def _shaped(structure: CovarianceModel, learner: _Learner, mixture: Mixture) -> CovarianceModel:
    """The structure with a learned matrix for each attribute."""
    structure = structure.with_matrices(mixture.matrices)
    # Variances first, with the mixture as it is; then the shares of the mixture; then the matrices themselves
    for _ in range(_WARM):
        learner.step(learner.solve(structure))
    for _ in range(_SHAPING):
        solution = learner.solve(structure)
        mixture.learn(solution)
        learner.step(solution)
        structure = structure.with_matrices(mixture.matrices)
    for _ in range(_SHAPING):
        solution = learner.solve(structure)
        learner.step(solution)
        structure = structure.with_matrices(moved(solution, mixture.matrices))
    return structure


def _step(solution: Posterior, fixed: Mapping[Positions, float], belief: VariancePrior) -> dict[Positions, float]:
    found = dict(solution.variances)
    for part, (shown, expected) in statistics(solution).items():
        if part not in fixed:
            more, less = belief.pulls(found[part])
            rest = _REST / found[part]  # the same on both sides: where nothing is shown or expected nothing moves far
            found[part] *= ((shown + more + rest) / (expected + less + rest)) ** _POWER
    return found


def statistics(solution: Posterior) -> dict[Positions, tuple[float, float]]:
    """For each part what the answers show, r' K r, and what the model expects, trace(A^-1 K)."""
    structure, weights = solution.structure, solution.weights
    out: dict[Positions, tuple[float, float]] = {}
    slices = structure.columns[1]
    if slices:
        from scipy.linalg import solve_triangular

        # L' A^-1 L = L' D^-1 L M^-1 = (M - I) M^-1 = I - M^-1; over the columns of S its trace is v trace(A^-1 K_S).
        # With M = R R' the diagonal of M^-1 is the sum of squares of each column of R^-1.
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
            out[each.part] = shown, float((inverse[np.ix_(where, where)] * product).sum())  # both are symmetric
    return out


def information(solution: Posterior) -> dict[Positions, float]:
    """For each part how much the answers say about its variance, as an equivalent number of exactly known numbers.

    Half of it is the Fisher information of the logarithm of the variance, trace((A^-1 K v)^2) / 2.
    """
    structure = solution.structure
    out: dict[Positions, float] = {}
    slices = structure.columns[1]
    if slices:
        from scipy.linalg import cho_solve

        # As in ``statistics``: v F_S' A^-1 F_S is the square of S in I - M^-1, and trace(X^2) = sum of its squares
        inside = np.eye(len(solution.middle)) - cho_solve((solution.middle, True), np.eye(len(solution.middle)))
        for each, columns in zip(structure.shared, slices, strict=True):
            out[each.part] = float((inside[columns, columns] ** 2).sum())
    for number, parts in enumerate(structure.inside):
        for each in parts:
            where = structure.places[each.rows]
            product = solution.inverse_blocks[number][np.ix_(where, where)] @ structure.product(each)
            out[each.part] = float((product * product.T).sum()) * solution.variances[each.part] ** 2
    return out
