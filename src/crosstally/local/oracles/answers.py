"""Answers as the collector sees them: which whole numbers an oracle can give, and where each of them is counted.

Random words for drawing many answers at once, with the exact probabilities of a protocol.

Words come from OpenSSL's generator (``ssl.RAND_bytes``), a deterministic generator keyed and rekeyed by the operating
system's secure source.

Probabilities as fractions that stay just below what epsilon allows, found in exact arithmetic.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import fraction_of_text
from crosstally.errors import BudgetError, CrosstallyError, PlanError

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


# Answers


MASK_CELLS = 64
"""A report holds its answer in 64 bits, so that a mask has at most so many cells."""

MOST_SLOTS = 2**20
"""The collector keeps 8 bytes for each slot of each group: 8 MB for the largest residual."""

Answers = NDArray[np.uint64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSpace:
    """The answers of an oracle: whole numbers from ``least`` to ``limit - 1``.

    A plain answer is the number of the slot in which it is counted. A mask is counted in one slot for each bit that is
    set; ``bits`` says how many are, where that is the same for every report.

    >>> AnswerSpace(limit=2**6, masked=True).slots
    6
    """

    limit: int
    least: int = 0
    masked: bool = False
    bits: int | None = None

    @property
    def slots(self) -> int:
        """How many whole numbers the collector keeps for it."""
        return self.limit.bit_length() - 1 if self.masked else self.limit


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReportTally:
    """The answers of many groups, each in its own space, checked and counted in one array of slots.

    All arrays have an entry for each group but ``starts``, which has the end of the last group as well: group g is
    counted in the slots from starts[g] to starts[g + 1].
    """

    starts: NDArray[np.int64]
    least: Answers
    most: Answers
    bits: NDArray[np.int64]
    masked: NDArray[np.bool_]

    @classmethod
    def of(cls, spaces: Sequence[AnswerSpace]) -> ReportTally:
        """The tally of groups with these answers."""
        return cls(
            starts=np.concatenate([[0], np.cumsum([space.slots for space in spaces])]).astype(np.int64),
            least=np.array([space.least for space in spaces], np.uint64),
            most=np.array([min(space.limit, 2**64) - 1 for space in spaces], np.uint64),
            bits=np.array([-1 if space.bits is None else space.bits for space in spaces], np.int64),
            masked=np.array([space.masked for space in spaces], np.bool_),
        )

    @property
    def slots(self) -> int:
        """How many slots there are."""
        return int(self.starts[-1])

    def impossible(self, groups: NDArray[Any], answers: Answers) -> NDArray[np.bool_]:
        """For each answer whether the group that it came from cannot give it."""
        bits = self.bits[groups]
        outside = (answers < self.least[groups]) | (answers > self.most[groups])
        return np.asarray(outside | ((bits >= 0) & (np.bitwise_count(answers) != bits)))

    def counts(self, groups: NDArray[np.int64], answers: Answers) -> Counts:
        """What answers that are possible add to each slot."""
        masked = self.masked[groups]
        plain = ~masked
        places = self.starts[groups[plain]] + answers[plain].astype(np.int64)
        out = np.bincount(places, minlength=self.slots).astype(np.int64, copy=False)
        if masked.any():
            from crosstally.kernels.local import count_masks

            sizes = np.minimum(np.diff(self.starts), MASK_CELLS)
            order = np.flatnonzero(masked)[np.argsort(groups[masked], kind="stable")]
            count_masks(groups[order], np.ascontiguousarray(answers[order]), self.starts, sizes, out)
        return out

    def split(self, counts: Counts) -> list[Counts]:
        """The slots of each group."""
        return [counts[start:end] for start, end in zip(self.starts[:-1], self.starts[1:], strict=True)]


def threshold(probability: Fraction, resolution: int = RESOLUTION) -> int:
    """The number of words, of all there are, that mean yes."""
    if resolution % probability.denominator:
        raise CrosstallyError(f"in bulk, probabilities must be multiples of 1/{resolution}, got {probability}")
    return int(probability * resolution)


def filled(people: int, words_each: float, draw: Callable[[NDArray[np.uint32], Answers], int]) -> Answers:
    """The answers of a kernel, with about as many words as it needs.

    Where they run out it starts again with the same words and more of them: drawing new ones would keep only answers
    that need few words, which is another law.
    """
    out = np.empty(people, np.uint64)
    number = 2 * math.ceil(people * words_each * 0.505 + 32)
    words = bytearray(ssl.RAND_bytes(4 * number))
    while draw(np.frombuffer(words, np.uint32), out) < 0:
        words = words + ssl.RAND_bytes(4 * number)
    return out
