"""Water filling: how precisely to measure each set under Gaussian noise, where sizes of interactions are uncertain.

Let e_B(p) be the posterior variance of B after it is measured with precision p (``Belief.errors``). A unit
of p_B costs c_B, and sum_B c_B p_B must stay within rho. The goal is the least sum_k share_k log E_k. With weights W_B
= sum_k share_k W_kB / E_k for given E_k, the best precisions solve -W_B e_B'(p_B) = mu c_B, or are zero where even the
first unit is not worth its cost: inverted water filling. The logarithm is concave, so computing the weights again from
the reached E_k never makes the goal worse.

This assumes that inference shrinks the noise of each set as well as the prior allows, which requires knowing the size
of that set. But inference shrinks cells, and where cells are larger than their noise, the noise of a small interaction
remains: a release of MSNBC (epsilon 1, delta 1e-9) planned by e_B(p) alone has at four attributes 1.6 times the error
that was expected. So the belief says which sets may be worth measuring; how precisely, and whether, follows from noise
that nothing shrinks: e_B = 1 / p_B for a measured set, and one with more noise than the belief's own variance, which is
the error of predicting it, is not measured.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from crosstally.residuals.variances import Closure
from crosstally.strategies.goal import Goal
from crosstally.strategies.view_shares import Belief
from crosstally.typing import Floats

# Weights of the largest errors and precisions in turn. Chosen to limit time, without proof that 10 are enough.
_ROUNDS = 10
_MOST_ERROR = 1e200  # of a set without any information: above any other, and a double when times ``MOST_PRECISION``
_LEAST_GAIN = 0.05
"""A set is measured if that takes away at least this part of its expected error. Without a limit the tail of the belief
would buy thousands of answers that inference then shrinks to nothing."""
_DROPS = 8
"""How often sets that are not worth their noise are left out and the rest is planned again. Chosen: limits time, no
proof that 8 are enough. With fewer, some sets are measured whose noise is about the error of predicting them."""


def best_precisions(
    goal: Goal, belief: Belief, costs: Floats, amount: float, *, already: Floats, most_cells: float
) -> Floats:
    """The precision to buy for each set of the goal's closure; zero for those that are better predicted.

    Args:
        goal: What matters.
        belief: How large the coefficients of each set are likely to be.
        costs: What a unit of precision costs for each set, in rho.
        amount: The rho to spend.
        already: The precision that each set has before.
        most_cells: How many cells may be measured together.
    """
    bought = believed_precisions(goal, belief, costs, amount, already=already, most_cells=most_cells)
    predicted = np.minimum(belief.errors(already), _MOST_ERROR)
    kept = bought > 0
    for _ in range(_DROPS):
        unshrunk = replace(belief, scale=np.where(kept, np.inf, belief.scale))
        bought = _filled(goal, unshrunk, costs, amount, already=already, allowed=kept)
        worth = _with_subsets(goal.closure, (bought > 0) & ((already + bought) * predicted >= 1), already)
        if (worth == (bought > 0)).all():
            break
        kept = worth
    return bought


def believed_precisions(
    goal: Goal, belief: Belief, costs: Floats, amount: float, *, already: Floats, most_cells: float
) -> Floats:
    """The same for an inference that shrinks the noise of each set as well as the belief allows."""
    allowed = ~goal.sampled
    for _ in range(4):
        bought = _filled(goal, belief, costs, amount, already=already, allowed=allowed)
        kept = _worth_it(goal.closure, belief, bought, already, most_cells)
        if (kept == (bought > 0)).all():
            break
        allowed = allowed & kept
    return np.where(kept, bought, 0.0)


def _filled(
    goal: Goal, belief: Belief, costs: Floats, amount: float, *, already: Floats, allowed: NDArray[np.bool_]
) -> Floats:
    free = costs <= 0  # what no unit can move: any precision costs nothing
    prices = np.where(free, 1.0, costs)
    bought = np.zeros(len(costs))
    errors = goal.errors(np.minimum(belief.errors(already), 1 / (already + amount / prices.sum() / prices)))
    for _ in range(_ROUNDS):
        weights = np.where(allowed & ~free, (goal.shares / errors) @ goal.weights, 0.0)
        bought = _spent(belief, prices, weights, amount, already)
        errors, before = goal.errors(np.minimum(belief.errors(already + bought), 1e300)), errors
        if np.abs(np.log(errors / before)).max() < 1e-3:
            break
    return bought


def _spent(belief: Belief, costs: Floats, weights: Floats, amount: float, already: Floats) -> Floats:
    """The precisions whose slopes are proportional to their costs and which cost the amount."""
    seen = weights > 0
    part = Belief(belief.scale[seen], belief.factors)
    ratio, before, price = costs[seen] / weights[seen], already[seen], costs[seen]

    def at(log_slope: float) -> Floats:
        with np.errstate(over="ignore"):  # no precision at all is worth such a slope
            return np.maximum(part.precision_at(math.exp(log_slope) * ratio) - before, 0.0)

    def excess(log_slope: float) -> float:
        return math.log(max(float(at(log_slope) @ price), 1e-300) / amount)

    low, high = -200.0, 200.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        if high - low < 1e-6:
            break
    out = np.zeros(len(weights))
    out[seen] = at(high)
    return out


def _worth_it(
    closure: Closure, belief: Belief, bought: Floats, already: Floats, most_cells: float
) -> NDArray[np.bool_]:
    """Which sets to measure: those worth their cost, within the allowed number of cells, with all their subsets."""
    before = np.minimum(belief.errors(already), 1e300)
    gain = 1 - belief.errors(already + bought) / before
    kept = (bought > 0) & (gain >= _LEAST_GAIN)
    cells = closure.product(closure.sizes)
    order = np.argsort(-gain / cells, kind="stable")
    kept[order[np.cumsum(np.where(kept, cells, 0.0)[order]) > most_cells]] = False
    return _with_subsets(closure, kept, already)


def _with_subsets(closure: Closure, wanted: NDArray[np.bool_], already: Floats) -> NDArray[np.bool_]:
    """Those of the wanted sets all of whose subsets are wanted or known: a table is known only if all its sets are."""
    kept, known = wanted.copy(), wanted | (already > 0)
    for places, positions in closure.members:  # fewest attributes first, so that one attribute less is enough to see
        inside = np.ones(len(places), np.bool_)
        for axis in range(positions.shape[1]):
            inside &= known[closure.places_of(np.delete(positions, axis, axis=1))]
        kept[places] &= inside
        known[places] &= inside
    return kept
