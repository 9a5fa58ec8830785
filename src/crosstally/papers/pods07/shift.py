"""Coefficients that a non-negative table has, by adding a constant to the total (Barak et al. 2007, section 4.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from crosstally.errors import QueryError
from crosstally.questions.queries import Contrast
from crosstally.residuals import Estimate, combine
from crosstally.schema import Schema
from crosstally.tables import Measurement

__all__ = ["gamma_shift", "paper_shift", "shift_for_scales", "shifted_estimate"]


def gamma_shift(number: int, scale: float, *, failure: float) -> float:
    """What to add to the total so that a non-negative table has all noisy coefficients, but for a small probability.

    The sum of the sizes of this many Laplace variables has a Gamma distribution (the paper takes it as exponential).
    This is its quantile times the scale; the realised sum would disclose the noise and is never used. Noise on whole
    numbers is larger by at most one half.
    """
    from scipy.stats import gamma

    _check_failure(failure)
    return float(gamma.isf(failure, number)) * scale + number / 2


def paper_shift(number: int, epsilon: float, t: float) -> float:
    """The paper's constant, 4 t |B|^2 / epsilon, said to fail with probability exp(-t): to reproduce, not to use."""
    return 4 * t * number**2 / epsilon


def shift_for_scales(scales: ArrayLike, *, failure: float) -> float:
    """The same for coefficients with different scales: Chernoff's bound on the quantile, a little above it."""
    from scipy.optimize import minimize_scalar

    _check_failure(failure)
    sizes = np.asarray(scales, float)
    if np.ptp(sizes) <= 1e-12 * sizes.max():
        return gamma_shift(len(sizes), float(sizes.max()), failure=failure)

    def quantile(part: float) -> float:
        theta = part / float(sizes.max())
        return float(-math.log(failure) - np.log1p(-theta * sizes).sum()) / theta

    found = minimize_scalar(quantile, bounds=(1e-9, 1 - 1e-9), method="bounded")
    return float(found.fun) + len(sizes) / 2


def _check_failure(failure: float) -> None:
    if not 0 < failure < 1:
        raise QueryError(f"failure must be a probability between 0 and 1, got {failure!r}")


def shifted_estimate(schema: Schema, measurements: Sequence[Measurement], *, failure: float = 0.05) -> Estimate:
    """The coefficients as they were measured, the total large enough for a non-negative table to have them all.

    Args:
        schema: Attributes of two values.
        measurements: The total and contrasts, each measured once with Laplace noise.
        failure: The probability with which there is no such table after all.
    """
    if set(schema.shape) != {2}:
        raise QueryError("a constant makes Fourier coefficients non-negative: all attributes must have two values")
    scales = []
    for measurement in measurements:
        fits = isinstance(measurement.query, Contrast) or not measurement.query.attributes
        if not fits or measurement.noise is None or measurement.noise.kind.value != "laplace":
            raise QueryError("a constant makes Fourier coefficients non-negative: give contrasts with Laplace noise")
        scales.append(measurement.noise.scale)
    sets = {frozenset(measurement.query.attributes) for measurement in measurements}
    if frozenset() not in sets or len(sets) < len(scales):
        raise QueryError("give the total, and each coefficient once")
    found = combine(schema, measurements)
    coefficients = found.coefficients.copy()
    coefficients[found.places([()])[0]] += shift_for_scales(scales, failure=failure)
    return replace(found, coefficients=coefficients, corrected="shift")
