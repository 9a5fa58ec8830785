"""How reliable a number is: one scale, for numbers that were published and for errors that are to be expected.

A number is judged by its coefficient of variation, its error over itself; an expected error by its share of an average
count. The limits are those of Statistics Canada: estimates are published up to 16.5%, with a warning up to 33.3% (E),
and not at all above (F). Above 100% the noise is larger than the count.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Reliability(StrEnum):
    """What a number is good for. ``key`` is its word in templates and in the catalogue of texts."""

    GOOD = "good"
    CARE = "usable with care"
    POOR = "poor"
    NOISE = "mostly noise"
    UNKNOWN = "unknown"

    @property
    def key(self) -> str:
        """A plain word for it."""
        return self.name.lower()


LIMITS: Mapping[Reliability, float] = {Reliability.GOOD: 0.165, Reliability.CARE: 0.333, Reliability.POOR: 1.0}
"""The largest coefficient of variation of each."""

THRESHOLDS = (LIMITS[Reliability.GOOD], LIMITS[Reliability.CARE])
"""The limits of published numbers, of which the poor ones are not told from noise: neither is to be used."""

PUBLISHED = (Reliability.GOOD, Reliability.CARE, Reliability.POOR, Reliability.UNKNOWN)
"""What published numbers can be: by how many thresholds they are above; the last where the error is not known."""

SIGNS: Mapping[Reliability, str] = dict(zip(PUBLISHED, ("", "E", "F", "?"), strict=True))
"""The letters by which official statistics mark them."""


def reliability_of(variation: float) -> Reliability:
    """The reliability of a coefficient of variation, which is not NaN.

    >>> reliability_of(0.2), reliability_of(3)
    (<Reliability.CARE: 'usable with care'>, <Reliability.NOISE: 'mostly noise'>)
    """
    return next((each for each, most in LIMITS.items() if variation <= most), Reliability.NOISE)
