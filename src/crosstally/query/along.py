"""What is asked along an ordered attribute in place of its cells, as planning sees it.

A table of a workload over several attributes asks all products: along age every range and along sex every cell is for
each sex the count of every range of ages. Only the Gram matrix W'W of what is asked and the number of its rows matter
for planning, and of ranges both are known without writing them down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crosstally.typing import Floats


@dataclass(frozen=True, slots=True, eq=False)
class AskedAlong:
    """What is asked along an attribute: W'W and the number of rows of W."""

    gram: Floats
    number: int


def asked_along(asked: str | Sequence[Sequence[int]], size: int) -> AskedAlong:
    """What is asked along an attribute of this size: ``ranges``, ``prefixes`` or rows.

    A range from a to b holds the values j and k if a <= min(j, k) and b >= max(j, k); a prefix if it ends at or after
    max(j, k).

    >>> asked_along("ranges", 3).gram.astype(int).tolist(), asked_along("ranges", 3).number
    ([[3, 2, 1], [2, 4, 2], [1, 2, 3]], 6)
    """
    if not isinstance(asked, str):
        rows = np.array(asked, np.float64)
        return AskedAlong(rows.T @ rows, len(rows))
    places = np.arange(size)
    least, most = np.minimum.outer(places, places), np.maximum.outer(places, places)
    if asked == "ranges":
        return AskedAlong((least + 1.0) * (size - most), size * (size + 1) // 2)
    return AskedAlong((size - most).astype(np.float64), size)
