"""Probabilities as fractions that stay just below what epsilon allows, found in exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from crosstally.budget import fraction_of_text
from crosstally.errors import BudgetError, PlanError

__all__ = [
    "LARGEST_EPSILON",
    "RESOLUTION",
    "SMALLEST_EPSILON",
    "odds_below",
    "read_probability",
    "rounded_down",
    "rounded_up",
]

# Probabilities are whole numbers of 2^-32: a device draws 32 bits for each. Coarser ones lose accuracy, never privacy.
RESOLUTION = 2**32
# Chosen. Below it a report says next to nothing (odds of 1.001 to 1); above it hardly any answer is hidden (nine
# million to one). Probabilities of 2^-32 resolve all between.
SMALLEST_EPSILON, LARGEST_EPSILON = Fraction(1, 1000), Fraction(16)
_STEPS = 2**48  # e^epsilon is held to this, rounded down: finer than the 2^-32 of probabilities by 16 bits


@lru_cache(maxsize=256)
def odds_below(epsilon: Fraction) -> Fraction:
    """The largest multiple of 2^-48, nearly, that is not above e^epsilon.

    Every partial sum of the series of e^x lies below it for positive x; enough terms leave less than a step.

    >>> odds = odds_below(Fraction(1))
    >>> 0 <= math.e - float(odds) < 2**-45
    True
    """
    if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise BudgetError(
            f"epsilon must be from {float(SMALLEST_EPSILON):g} to {float(LARGEST_EPSILON):g} in the local model, "
            f"got {float(epsilon):g}"
        )
    total, term, number = Fraction(1), Fraction(1), 0
    while term * _STEPS * 4 > 1 or number < 2 * epsilon:
        number += 1
        term = Fraction(math.floor(term * epsilon / number * _STEPS * 2**20), _STEPS * 2**20)
        total += term
    return Fraction(math.floor(total * _STEPS), _STEPS)


def rounded_down(probability: Fraction, resolution: int = RESOLUTION) -> Fraction:
    """The largest multiple of 1 / resolution that is not above a probability."""
    return Fraction(math.floor(probability * resolution), resolution)


def rounded_up(probability: Fraction, resolution: int = RESOLUTION) -> Fraction:
    """The smallest multiple of 1 / resolution that is not below a probability."""
    return Fraction(math.ceil(probability * resolution), resolution)


def read_probability(given: object) -> Fraction:
    """A probability from its text in a protocol."""
    found = fraction_of_text(given)
    if found is None or not 0 <= found <= 1:
        raise PlanError("each probability of a protocol must be the text of a fraction from 0 to 1")
    return found
