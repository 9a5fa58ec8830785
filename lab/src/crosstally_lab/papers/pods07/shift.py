"""Coefficients that a non-negative table has, by adding a constant to the total (Barak et al. 2007, section 4.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from crosstally.errors import QueryError
from crosstally.local.oracles.hadamard_response import hadamard_transform
from crosstally.measurements import Measurement
from crosstally.residuals import Estimate, combine
from crosstally.schema import Schema
from crosstally.typing import Floats

_MOST_SIMULATED = 16  # attributes: a draw then transforms 65,536 numbers, which takes milliseconds
_DRAWS = 1_000  # of the noise. Chosen: the 95th of 100 then has 50 draws above it, and takes seconds
_MISTAKEN = 1e-3  # the probability that a simulated quantile is below the true one


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


def needed_shift(noise: Floats) -> float:
    """What must be added to the total so that the noise alone, as a table, has no negative cell.

    Rows only add to its cells, so the noisy coefficients of any table then belong to a non-negative one: this is the
    event of corollary 1. It is minus the smallest sum of +- all noise, hence at most the sum of sizes of theorem 9.

    Args:
        noise: For each set of attributes the noise on its coefficient, 0 where none was measured; the bits of a place
            are the attributes.

    >>> needed_shift(np.array([1.0, -2.0, 0.5, 0.0]))  # the cells times four: -0.5, 3.5, -1.5, 2.5
    1.5
    """
    return -float(hadamard_transform(noise).min())


def simulated_shift(
    places: Sequence[int], scales: ArrayLike, *, attributes: int, failure: float, draws: int = _DRAWS
) -> float | None:
    """A quantile of ``needed_shift`` under discrete Laplace noise, from simulations; None where draws are too few.

    It depends on scales alone, which are public. Of the simulated shifts the one is taken that is below the true
    quantile with probability 1e-3 at most: the number of draws beyond the quantile is binomial.

    Args:
        places: The coefficients measured: the bits of each are its attributes.
        scales: The scale of the noise on each.
        attributes: How many there are.
        failure: The probability with which the shift is too small.
        draws: How many times noise is drawn.
    """
    from scipy.stats import binom

    _check_failure(failure)
    beyond = int(binom.ppf(_MISTAKEN, draws, failure))  # P(fewer draws than this are beyond the quantile) <= 1e-3
    if beyond == 0:
        return None
    random = np.random.default_rng(0)
    ends = -np.expm1(-1 / np.asarray(scales, float))
    shifts = []
    for _ in range(draws):
        noise = np.zeros(2**attributes)
        noise[list(places)] = random.geometric(ends) - random.geometric(ends)
        shifts.append(needed_shift(noise))
    return max(0.0, float(np.sort(shifts)[-beyond]))


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
        fits = measurement.query.is_residual or not measurement.query.attributes
        if not fits or measurement.noise is None or measurement.noise.kind.value != "laplace":
            raise QueryError("a constant makes Fourier coefficients non-negative: give contrasts with Laplace noise")
        scales.append(measurement.noise.scale)
    sets = {frozenset(measurement.query.attributes) for measurement in measurements}
    if frozenset() not in sets or len(sets) < len(scales):
        raise QueryError("give the total, and each coefficient once")
    found = combine(schema, measurements)
    coefficients = found.coefficients.copy()
    coefficients[found.places([()])[0]] += _shift(schema, measurements, scales, failure)
    return replace(found, coefficients=coefficients, corrected="shift")


def _shift(schema: Schema, measurements: Sequence[Measurement], scales: Sequence[float], failure: float) -> float:
    """The simulated quantile where that is possible, else the bound by the sum of sizes."""
    attributes, simulated = len(schema.names), None
    if attributes <= _MOST_SIMULATED:
        places = [sum(1 << schema.positions[name] for name in each.query.attributes) for each in measurements]
        simulated = simulated_shift(places, scales, attributes=attributes, failure=failure)
    return shift_for_scales(scales, failure=failure) if simulated is None else simulated
