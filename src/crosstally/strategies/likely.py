"""The lower end of what is likely: rare values; small interactions are in ``Belief.at_low_sizes``.

Before anything is measured nobody knows how often values occur. Where all are equally frequent, interactions can be
largest, and cells are alike. Where the k-th most frequent has 1 / k of the rows of the first (Zipf's law), most cells
are small, and inference keeps the error of a cell below its own count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crosstally.plans.goal import Goal
from crosstally.typing import Floats

__all__ = ["corrected_errors", "zipf_shares"]

_CELLS = 4_096
"""Cells drawn of each order to stand for all: the root mean square of their errors is then within 2% of that of all."""


def zipf_shares(size: int) -> Floats:
    """The shares of values of which the k-th has 1 / k of the rows of the first.

    >>> (11 * zipf_shares(3)).round(6).tolist()
    [6.0, 3.0, 2.0]
    """
    shares = 1 / np.arange(1.0, size + 1)
    return np.asarray(shares / shares.sum())


def corrected_errors(goal: Goal, errors: Floats, shares: Sequence[Floats], rows: float) -> Floats:
    """The mean squared error of each order if cells are shrunk towards zero, for independent values with these shares.

    A cell of x people is measured as y with the variance v. Of all multiples of y the best, x^2 / (v + x^2) times y,
    has the mean squared error v x^2 / (v + x^2), below v and below x^2. It takes x to be known: without x, shrinking
    towards zero does worse; shrinking towards a good guess may do better. So this is an optimistic figure, no bound.

    Args:
        goal: Its orders, and the tables of each.
        errors: v, the mean squared error of a cell before it is shrunk, for each order.
        shares: Those of the values of each attribute.
        rows: How many people there are.
    """
    rng = np.random.default_rng(0)
    out = []
    for order, variance in zip(goal.orders, errors.tolist(), strict=True):
        tables = goal.closure.members[order][1]
        drawn = tables[rng.integers(0, len(tables), _CELLS)]
        cells = np.full(_CELLS, float(rows))
        for i, own in enumerate(shares):
            with_it = np.flatnonzero((drawn == i).any(axis=1))
            cells[with_it] *= rng.choice(own, len(with_it))
        out.append(float(np.mean(variance * cells**2 / (variance + cells**2))))
    return np.array(out)
