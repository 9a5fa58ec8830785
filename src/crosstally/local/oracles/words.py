"""Random words for drawing many answers at once, with the exact probabilities of a protocol.

Words come from OpenSSL's generator (``ssl.RAND_bytes``), a deterministic generator keyed and rekeyed by the operating
system's secure source.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import CrosstallyError
from crosstally.local.oracles.answers import Answers
from crosstally.local.oracles.odds import RESOLUTION

__all__ = ["filled", "threshold"]


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
