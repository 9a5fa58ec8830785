"""Replace answers with Laplace noise by equivalent normal ones: expectation propagation.

Many answers with Laplace noise contain more information than their variance shows: outliers should count less, as in a
median. For each answer, the estimate from all other answers and its variance (in closed form) is the prior of the true
value. With the exact distribution of the noise this gives a posterior mean and variance. The normal answer that gives
the same two replaces the Laplace answer.
"""

from __future__ import annotations

import math

import numpy as np

from crosstally.notebook.history.components import NoisyAnswers, Posterior
from crosstally.typing import Floats

__all__ = ["replaced", "tilted"]

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
