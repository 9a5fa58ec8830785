"""The arrays that numerical code passes around, by one name each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Interval(NamedTuple):
    """The ends of the interval of each number: arrays, or two numbers where there is one.

    >>> Interval(np.asarray(120.0), np.asarray(260.0))
    (120.0, 260.0)
    """

    low: Floats
    high: Floats

    def __repr__(self) -> str:
        return repr((self.low.tolist(), self.high.tolist()) if np.ndim(self.low) == 0 else tuple(self))
