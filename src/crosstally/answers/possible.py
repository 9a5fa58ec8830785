"""Set cells to zero that the schema's facts declare impossible.

A covered table that was corrected is (nearly) zero there; the zeros become exact, and the other cells keep the total.
An unmeasured table is q, the maximum entropy table with its covered margins. With m the cells that are possible, raking
q m back to the margins of q gives the table of greatest entropy among those with these zeros: it stays a product of
functions of the margins, on the possible cells. Answers of an estimate that was not corrected stay linear.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crosstally.typing import Floats

__all__ = ["keeping_total", "raked_to_possible"]

_SWEEPS = 200  # limits time: raking ends when margins are close (below), and has no end where no table has them
_CLOSE = 1e-6  # in shares of all rows. Less takes more sweeps for differences that noise hides
"""Raking ends when no margin is off by more than this share of the total, or after so many sweeps."""


def keeping_total(table: Floats, possible: NDArray[np.bool_]) -> Floats:
    """A table without negative cells with zeros where nobody can be; its total is kept."""
    inside = np.where(possible, table, 0.0)
    return np.asarray(inside * (table.sum() / inside.sum()) if inside.sum() > 0 else inside)


def raked_to_possible(table: Floats, possible: NDArray[np.bool_], margins: Sequence[int]) -> Floats:
    """A table with zeros where nobody can be and the same margins over sets of axes (as bits), as nearly as can be."""
    out, axes = np.where(possible, table, 0.0), range(table.ndim)
    wanted = []
    for bits in margins:
        summed = tuple(axis for axis in axes if not bits >> axis & 1)
        wanted.append((summed, table.sum(axis=summed, keepdims=True)))
    for _ in range(_SWEEPS):
        off = 0.0
        for summed, margin in wanted:
            found = out.sum(axis=summed, keepdims=True)
            off = max(off, float(np.abs(found - margin).max()))
            out = out * np.divide(margin, found, out=np.zeros_like(margin), where=found > 0)
        if off <= _CLOSE * table.sum():
            break
    return out
