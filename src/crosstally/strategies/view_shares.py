"""How to divide a budget among views when the sizes of interactions are uncertain.

A table with the part e of epsilon and sensitivity s has cells of precision e^2 / (2 s^2); with the part r of rho it is
2 r / s^2. A view measures each set inside it with that precision divided by the number of cells outside the set. The
error of the goal has no closed form in the shares: shares are moved in proportion to their marginal gains until these
are equal. The shares of views that gain nothing go to zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from crosstally.plans.goal import Goal
from crosstally.questions.queries import sensitivity_of_tables
from crosstally.residuals.variances import inverse_cells_outside
from crosstally.strategies.base import Task
from crosstally.strategies.belief import Belief
from crosstally.typing import Floats

__all__ = ["TableBudget", "ViewShares", "best_shares", "unshrunk_score"]

_STEPS = 60  # limits time: steps end when shares stand still (below). The best shares seen are kept
_STILL = 1e-4
"""Steps end when none moves a share by this part of a mean share."""
_LEAST = 0.02
"""A view with less than this part of a mean share is left out: its noise would be fifty times the others'."""


@dataclass(frozen=True, slots=True, eq=False)
class ViewShares:
    """Views, the part of the budget that each gets, and the score that is expected of them."""

    views: tuple[tuple[int, ...], ...]
    shares: tuple[float, ...]
    score: float


@dataclass(frozen=True, slots=True)
class TableBudget:
    """The precision of the cells of a table that has the whole budget, and the power of its share in that of others."""

    whole: float
    power: int

    @classmethod
    def of(cls, task: Task) -> TableBudget:
        """What a task's budget buys."""
        sensitivity = sensitivity_of_tables(1, task.schema, task.neighbours)
        if task.budget.pure:
            return cls(float(task.budget.amount / sensitivity.l1) ** 2 / 2, 2)
        return cls(2 * float(task.budget.amount) / float(sensitivity.l2_squared), 1)


def best_shares(
    goal: Goal,
    belief: Belief,
    views: Sequence[tuple[int, ...]],
    budget: TableBudget,
    *,
    already: Floats,
) -> ViewShares:
    """The best shares of some views that proportional steps find; views that gain too little are left out.

    ``already`` is the precision that each set has before.
    """
    while True:  # each time with fewer views
        found = _tuned(goal, belief, views, budget, already)
        kept = [view for view, share in zip(found.views, found.shares, strict=True) if share * len(views) >= _LEAST]
        if len(kept) == len(views):
            return found
        views = kept


def unshrunk_score(goal: Goal, belief: Belief, found: ViewShares, budget: TableBudget, *, already: Floats) -> float:
    """The score of views if nothing shrinks the noise of what they measure: 1 / p for a set known with precision p."""
    holders, sets, parts = _inside(goal, found.views)
    cells = budget.whole * np.array(found.shares) ** budget.power
    bought = np.bincount(sets, parts * cells[holders], len(already))
    unshrunk = replace(belief, scale=np.where(bought > 0, np.inf, belief.scale))
    return goal.score(goal.errors(np.minimum(unshrunk.errors(already + bought), 1e300)))


def _tuned(
    goal: Goal, belief: Belief, views: Sequence[tuple[int, ...]], budget: TableBudget, already: Floats
) -> ViewShares:
    holders, sets, parts = _inside(goal, views)
    number = len(views)
    shares, best = np.full(number, 1 / number), ViewShares((), (), np.inf)
    for _ in range(_STEPS):
        cells = budget.whole * shares**budget.power
        precision = already + np.bincount(sets, parts * cells[holders], len(already))
        errors = goal.errors(np.minimum(belief.errors(precision), 1e300))
        score = goal.score(errors)
        if score < best.score * (1 - 1e-7):
            best = ViewShares(tuple(views), tuple(shares.tolist()), score)
        slopes = (goal.shares / errors) @ goal.weights * belief.slopes(precision)
        brought = np.bincount(holders, parts * slopes[sets], number) * shares ** (budget.power - 1)
        # This power solves unrelated tables at once: there the error is a constant over the power of the share
        before = shares
        shares = shares * (np.maximum(brought, 1e-300) / (brought @ shares)) ** (1 / (1 + budget.power))
        shares = shares / shares.sum()
        if np.abs(shares - before).max() < _STILL / number:
            break
    return best


def _inside(goal: Goal, views: Sequence[tuple[int, ...]]) -> tuple[Floats, Floats, Floats]:
    """For each set inside each view: the view, the set, and one over the number of cells outside."""
    by_size: dict[int, list[int]] = {}
    for i, view in enumerate(views):
        by_size.setdefault(len(view), []).append(i)
    holders, sets, parts = [], [], []
    for size, members in by_size.items():
        positions = np.array([sorted(views[i]) for i in members], np.intp).reshape(len(members), size)
        places, found = goal.closure.find(positions)
        holders.append(np.broadcast_to(np.array(members)[:, None], places.shape)[found])
        sets.append(places[found])
        parts.append(inverse_cells_outside(goal.closure.sizes[positions])[found])
    return np.concatenate(holders), np.concatenate(sets), np.concatenate(parts)
