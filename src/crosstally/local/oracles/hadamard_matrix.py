"""Hadamard's matrix by Sylvester: the sign of row r at cell x is the parity of the bits of r AND x."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["hadamard_order", "hadamard_transform"]


def hadamard_order(cells: int) -> int:
    """The order of the smallest matrix with a column for each cell: a power of two.

    >>> hadamard_order(5)
    8
    """
    return 1 << (cells - 1).bit_length()


def hadamard_transform(values: NDArray[Any]) -> NDArray[Any]:
    """The inner products with all rows of Hadamard's matrix; as many as a power of two.

    >>> hadamard_transform(np.array([1, 0, 0, 2]))
    array([ 3, -1, -1,  3])
    """
    out = values.copy()
    step = 1
    while step < len(out):
        pairs = out.reshape(-1, 2, step)
        out = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        step *= 2
    return out
