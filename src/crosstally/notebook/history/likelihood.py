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

Replace answers with Laplace noise by equivalent normal ones: expectation propagation.

Many answers with Laplace noise contain more information than their variance shows: outliers should count less, as in a
median. For each answer, the estimate from all other answers and its variance (in closed form) is the prior of the true
value. With the exact distribution of the noise this gives a posterior mean and variance. The normal answer that gives
the same two replaces the Laplace answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from crosstally.notebook.history.bundles import Positions
from crosstally.notebook.history.components import CovarianceModel, NoisyAnswers, Posterior
from crosstally.notebook.history.loadings import Mixture, moved
from crosstally.typing import Floats

_DAMPING = 0.7  # the part of a step of expectation propagation that is taken. Chosen: whole steps may swing to and fro
# The widest normal answer in place of a Laplace one, in squared scales: one that says nothing, and stays finite.
_WIDEST = 1e8
# Below this many standard deviations the tail of the normal law is taken from its series: the quotient underflows.
_FAR = -50.0


def tilted(distance: Floats, variance: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of u under a normal law (mean ``distance``, ``variance``) times exp(-|u| / ``scale``)."""
    from scipy.special import log_ndtr

    root = np.sqrt(variance)
    shift = variance / scale
    above, below = (distance - shift) / root, (-distance - shift) / root
    log_above, log_below = log_ndtr(above), log_ndtr(below)
    share = 1 / (1 + np.exp(np.clip((log_below - log_above) + 2 * distance / scale, -700, 700)))
    mean_above, variance_above = _half(above, log_above)
    mean_below, variance_below = _half(below, log_below)
    mean = root * (share * mean_above - (1 - share) * mean_below)
    within = share * variance_above + (1 - share) * variance_below
    return mean, variance * (within + share * (1 - share) * (mean_above + mean_below) ** 2)


def _half(z: Floats, log_share: Floats) -> tuple[Floats, Floats]:
    """The mean and the variance of the positive half of a normal law with mean z and variance 1.

    Far below zero both are what is left of large numbers that cancel, and come from a series in 1 / z^2.
    """
    far = z < _FAR
    near = np.where(far, _FAR, z)
    hazard = np.exp(-0.5 * near**2 - 0.5 * math.log(2 * math.pi) - np.where(far, 0.0, log_share))
    mean = near + hazard
    t = np.where(far, 1 / np.minimum(z, _FAR) ** 2, 0.0)
    below = 1 - t + 3 * t**2
    far_mean = np.sqrt(t) * (1 - 3 * t + 15 * t**2) / below
    far_square = 2 * t * (1 - 6 * t + 45 * t**2) / below
    return np.where(far, far_mean, mean), np.where(far, far_square - far_mean**2, 1 - hazard * mean)


def replaced(solution: Posterior, answers: Floats, scales: Floats) -> NoisyAnswers:
    """The normal answers that replace those with Laplace noise (scale above 0), after one more step; others stay.

    Args:
        solution: Of the normal answers so far.
        answers: As they were drawn, less what is known of them.
        scales: The scale of each answer's Laplace noise; 0 where the noise is normal.
    """
    past = solution.past
    laplace = scales > 0
    inverse = solution.inverse_diagonal
    without = past.answers - solution.weights / inverse
    variance = np.maximum(1 / inverse - past.noise, 1e-9 * past.noise)
    scale = np.where(laplace, scales, 1.0)
    mean, spread = tilted(answers - without, variance, scale)
    precision = np.maximum(1 / spread - 1 / variance, 1 / (_WIDEST * scale**2))
    site = ((answers - mean) / spread - without / variance) / precision
    kept = (1 - _DAMPING) / past.noise
    mixed = _DAMPING * precision + kept
    value = (_DAMPING * precision * site + kept * past.answers) / mixed
    return NoisyAnswers(np.where(laplace, value, past.answers), noise=np.where(laplace, 1 / mixed, past.noise))


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
