"""Bounds for tables with attributes that were never measured together: everything that the measured margins allow.

Fix a cell. n(S) is the number of people who agree with it in the set S of attributes. For any sets A and B

    n(A)  >=  n(A u B)  >=  n(A) + n(B) - n(A n B),

since whoever agrees with the cell in A, or in B, agrees with it in A n B (Fréchet's bounds, where A and B are single
attributes and A n B is everyone). The upper bound of a cell is the least upper end of a covered margin. The lower bound
joins the largest covered margins one after another, with lower ends for what is added and upper ends for what is
subtracted. The ends are those of the margins' own intervals, at a level at which all of them together contain the truth
with the requested probability.

No assumption is made about how the attributes depend on each other. So the bounds are wide, and hold for any truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, reduce

import numpy as np

from crosstally.answers.changes import Change
from crosstally.answers.marginal import Marginal
from crosstally.answers.uncertainty import Ends, whole_ends
from crosstally.typing import Floats

_MOST_NUMBERS = 20_000_000
"""Margins larger than this, times the cells of the table, do not bound sums of cells: each cell's own bounds do."""


def margin_bounds(  # noqa: PLR0917 (the first ones are bound by the answer)
    marginal: Callable[[Sequence[str]], Marginal],
    names: tuple[str, ...],
    shape: tuple[int, ...],
    subsets: tuple[int, ...],
    change: Change | None,
    values: Floats,
    level: float,
) -> Ends:
    """The bounds of each cell of a table, or of sums of them, widened to contain values found by other means.

    Args:
        marginal: Answers covered tables over attributes, in the order named.
        names: Of the table.
        shape: Of the table.
        subsets: The largest covered sets of axes, as bits (``Known``).
        change: Adds up chosen cells of a stack of tables.
        values: Of the table, or of its sums.
        level: With this probability the margins together contain the truth.
    """
    # Of two margins one is too short above with a probability of at most twice that of each: (1 - level) / 2.
    of_each = 1 - 2 * (1 - level) / max(len(subsets), 2)

    @cache
    def ends(bits: int) -> Ends:
        inside = [axis for axis in range(len(shape)) if bits >> axis & 1]
        low, high = marginal([names[axis] for axis in inside]).interval(of_each)
        sizes = _sizes(shape, bits)
        return low.reshape(sizes), high.reshape(sizes)

    low, high = _cells(ends, shape, subsets)
    if change is not None:
        low, high = _sums(ends, subsets, change, low, high)
    return whole_ends(np.minimum(low, values), np.maximum(high, values))


Margins = Callable[[int], Ends]
"""The ends of a covered margin, a set of axes as bits; with an axis of length one in the place of others."""


def _sizes(shape: Sequence[int], bits: int) -> list[int]:
    return [n if bits >> axis & 1 else 1 for axis, n in enumerate(shape)]


def _cells(ends: Margins, shape: tuple[int, ...], subsets: Sequence[int]) -> Ends:
    """The bounds of every cell of the table."""
    everything = (1 << len(shape)) - 1
    low, high = np.zeros(shape), np.broadcast_to(_upper(ends, subsets, everything), shape)
    for first in subsets:
        union, lower = first, ends(first)[0]
        rest = [bits for bits in subsets if bits != first]
        while rest:
            bits = max(rest, key=lambda each: (each & union).bit_count())
            rest.remove(bits)
            lower = np.maximum(lower + ends(bits)[0] - _upper(ends, subsets, union & bits), 0.0)
            union |= bits
        if union == everything:
            low = np.maximum(low, lower)
    return np.minimum(low, high), high


def _upper(ends: Margins, subsets: Sequence[int], bits: int) -> Floats:
    """The least upper end of the covered margins within some attributes."""
    parts = {bits & each for each in subsets}
    largest = [part for part in parts if not any(part != other and part & other == part for other in parts)]
    return reduce(np.minimum, [ends(part)[1] for part in largest])


def _sums(ends: Margins, subsets: Sequence[int], change: Change, low: Floats, high: Floats) -> Ends:
    """The bounds of sums: those of their cells, or of the cells of a margin that they touch, or fill."""
    shape = low.shape
    low, high = change(np.stack([low, high]))
    for bits in subsets:
        least, most = (end.ravel() for end in ends(bits))
        if len(least) * math.prod(shape) > _MOST_NUMBERS:
            continue
        one = np.eye(len(least)).reshape(len(least), *_sizes(shape, bits))
        inside = change(np.broadcast_to(one, (len(least), *shape)))
        filled = inside >= math.prod(shape) / len(least)
        low = np.maximum(low, np.tensordot(least, filled, 1))
        high = np.minimum(high, np.tensordot(most, inside > 0, 1))
    return low, high
