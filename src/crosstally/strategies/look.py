"""Look before measuring: a private choice of the pairs of a wide schema that are worth their noise.

Few pairs of many attributes matter: of the 1,128 pairs of a table of loans 20 have 80% of all squared deviations from
independence. Where all are measured, what the budget buys of each is mostly noise. So a small part of it looks first
(``query.choice``), and only what is found is measured; elsewhere the product of the one-way tables is the answer, and
these get what is left. A pair with n cells has the score

    (|counts - product of the noisy one-way tables|_1  -  L1 norm of the noise that measuring would leave) / sqrt(n),

by how much L1 would be smaller if it were measured. Beside others it counts with 1 / sqrt(n): between L1, to which
tables of many cells contribute most, and the RMS error of a cell, by which L1 / n would choose. Squares would tell
more, but one row moves them by as much as there are rows in a cell.

The candidate "nothing" has the score b ln(K / 0.01), b the scale of the Gumbel noise and K the number of pairs: where
no pair is worth its noise, something is picked with a probability of at most 1%. Each pick costs as much as the first,
so with more of them b is larger, and only larger deviations are found: there are as many as keep b ln(K / 0.01) below
a tenth of the rows, at most one for two attributes. Without room for one there is no look, and no pair is measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, combinations

import numpy as np

from crosstally.budget import Budget, Noise, NoiseKind
from crosstally.query.choice import Choice
from crosstally.query.queries import sensitivity_of_tables
from crosstally.strategies.adaptive import MOST_CELLS
from crosstally.strategies.strategy import Task, least_noise
from crosstally.strategies.view_shares import noise_left
from crosstally.typing import Floats

LOOK_SHARES = {True: Fraction(9, 500), False: Fraction(7, 200)}
"""The share of the look, of epsilon (True) and of rho or mu^2: all other noise is 1.8% larger for it. With a tenth of
the budget it would be 11% or 5%, also where nothing is found."""
_CHANCE = (
    0.01  # that something is picked where nothing is worth it: a usual level of a test. 0.1 lowers b ln(K / p) by 20%
)
_FOUND = 0.1
"""Deviations that add up to this part of the rows are to be found. Chosen on the table of loans (epsilon 1 and 0.3):
with 0.15 and 0.2 fewer pairs are picked, since noise on the scores is larger, and pairs have 1.0 to 1.2 times the RMS
error."""
_WEIGHT_STEPS = 100  # weights are whole numbers, at most this: the largest is this many times the least that is counted


def choice_of_pairs(
    task: Task, look: Budget, shares: Mapping[str, Floats], rows: float, groups: Mapping[str, Sequence[int]]
) -> Choice | None:
    """The choice that a part of a task's budget pays for; None where there are too few rows to find anything.

    Args:
        task: What all later stages are for.
        look: What the choice may spend.
        shares: The shares of each attribute's values, or groups of values, by noisy counts.
        rows: Their number.
        groups: The group of each value, for attributes that have groups.
    """
    tables = candidates(task, {name: len(own) for name, own in shares.items()})
    moved, log_odds = sensitivity_of_tables(1, task.schema, task.neighbours), math.log(len(tables) / _CHANCE)

    def least(picks: int) -> float:
        """The least deviation that is found."""
        return Noise.affordable_choice(moved, look.amount / picks, currency=look.currency).scale * log_odds

    ratio = _FOUND * rows / least(1)
    picks = int(
        min(ratio if look.pure else ratio**2, most_picks(len(shares)), len(tables))
    )  # b is as picks, or their root
    if not picks:
        return None
    measuring = task.budget.amount - look.amount
    noise = least_noise(moved, measuring / picks, currency=look.currency)
    expected = [rows * np.multiply.outer(shares[a], shares[b]) for a, b in tables]
    cells = np.array([math.prod(task.schema.sizes(names)) for names in tables], np.float64)
    weights = np.maximum(1, np.rint(_WEIGHT_STEPS * np.sqrt(cells.min() / cells))).astype(int).tolist()
    return Choice(
        [(), *tables],
        [[], *(np.rint(each).astype(np.int64).ravel().tolist() for each in expected)],
        weights=[_WEIGHT_STEPS, *weights],
        penalties=[-math.ceil(least(picks)), *(_noise_of(each, noise) for each in expected)],
        picks=picks,
        groups=groups,
    )


def most_picks(attributes: int) -> int:
    """As many as put each attribute into one pair."""
    return max(1, attributes // 2)


def candidates(task: Task, sizes: Mapping[str, int]) -> list[tuple[str, ...]]:
    """The pairs inside the tables that matter; where they do not fit together in these sizes, the smallest of them."""
    place = task.schema.positions
    inside = {pair for table in task.workload.tables for pair in combinations(task.schema.ordered(table), 2)}
    pairs = sorted(inside, key=lambda pair: (math.prod(sizes[name] for name in pair), *(place[name] for name in pair)))
    together = accumulate(math.prod(sizes[name] for name in pair) for pair in pairs)
    return [pair for pair, cells in zip(pairs, together, strict=True) if cells <= MOST_CELLS]


def _noise_of(expected: Floats, noise: Noise) -> int:
    """The L1 norm that inference is expected to leave of the noise of a table, to a whole number."""
    mean = noise.scale if noise.kind is NoiseKind.LAPLACE else noise.scale * math.sqrt(2 / math.pi)
    return round(expected.size * mean * math.sqrt(noise_left(expected, 1 / noise.variance)))
