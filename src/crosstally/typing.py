"""The arrays that numerical code passes around, by one name each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Integers"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
