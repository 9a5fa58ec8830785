"""Two-stage: its belief, and its two solvers against a general optimiser."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import scipy.optimize

from crosstally.budget import Budget, Neighbours
from crosstally.strategies.goal import Goal, goal_of
from crosstally.strategies.strategy import Task
from crosstally.strategies.view_shares import Belief, TableBudget, ViewShares, best_shares, inferred_score
from crosstally.strategies.water_filling import believed_precisions, best_precisions
from simulated import schema_of


def test_a_belief_inverts_its_own_slopes_and_knows_nothing_of_one_way_tables() -> None:
    closure = goal_of(schema_of(3, 4, 5), None).closure
    belief = Belief.of_one_ways(closure, [np.full(n, 1 / n) for n in (3, 4, 5)], 10_000)
    orders = closure.product(np.full(3, 2.0))
    assert np.isinf(belief.scale[orders <= 2]).all()
    assert np.isfinite(belief.scale[orders > 2]).all()
    precision = np.random.default_rng(1).lognormal(-8, 3, len(closure))
    assert belief.precision_at(belief.slopes(precision)) == pytest.approx(precision, rel=1e-3)
    pair = np.flatnonzero(closure.product(np.array([2.0, 3.0, 100.0])) == 6)[0]
    # median 0.06 of N sqrt((1 - 1/3)(1 - 1/4)), squared, over (3 - 1)(4 - 1) coefficients
    assert belief.scale[pair] == pytest.approx(0.06**2 * 1e8 * (2 / 3) * (3 / 4) / 6)


def three_skewed() -> tuple[Goal, Belief]:
    """All tables over three attributes, whose values 300 people have seldom or often."""
    goal = goal_of(schema_of(2, 3, 4), None)
    shares = [np.array(p) for p in ([0.9, 0.1], [0.5, 0.3, 0.2], [0.7, 0.1, 0.1, 0.1])]
    return goal, Belief.of_one_ways(goal.closure, shares, 300)


def test_what_the_whole_budget_buys_for_one_table() -> None:
    """Epsilon 1/2: Laplace noise of scale 2, variance 8. Rho 1/8: Gaussian noise of variance 4."""
    for budget, whole, power in ((Budget(epsilon="1/2"), 1 / 8, 2), (Budget(rho="1/8"), 1 / 4, 1)):
        task = Task(schema_of(2, 2), None, budget=budget, neighbours=Neighbours.ADD_REMOVE)
        assert TableBudget.of(task) == TableBudget(whole, power)


def test_water_filling_is_the_optimum() -> None:
    """Against SciPy's constrained minimiser over the logarithms of precisions, from several starts."""
    goal, belief = three_skewed()
    closure = goal.closure
    costs = closure.product(1 - 1 / closure.sizes) / 2
    already = np.where(closure.product(np.full(3, 2.0)) <= 2, 1e-3, 0.0)
    amount = 0.02

    def value(precision: np.ndarray) -> float:
        return goal.score(goal.errors(belief.errors(already + precision)))

    found = believed_precisions(goal, belief, costs, amount, already=already, most_cells=1e9)
    assert float(costs @ found) <= amount * (1 + 1e-6)
    least = math.inf
    for seed in range(6):
        start = np.random.default_rng(seed).lognormal(-6, 1, len(costs))
        start *= amount / (costs @ start)
        best = scipy.optimize.minimize(
            lambda p: math.log(value(p)),
            start,
            bounds=[(0, None)] * len(costs),
            constraints={"type": "ineq", "fun": lambda p: (amount - costs @ p) / amount},
            options={"maxiter": 500, "ftol": 1e-12},
        )
        if costs @ best.x <= amount * (1 + 1e-6):
            least = min(least, value(best.x))
    assert value(found) <= least * 1.01  # a set whose gain is below 5% is left out
    assert value(np.full(len(costs), amount / costs.sum())) > value(found) * 1.02  # and equal precisions are worse


def test_precisions_are_the_optimum_for_noise_that_nothing_shrinks() -> None:
    """Every choice of sets with SciPy's best precisions for it: none that is closed has a lower score."""
    goal, belief = three_skewed()
    closure = goal.closure
    costs = closure.product(1 - 1 / closure.sizes) / 2
    orders = np.rint(np.log2(closure.product(np.full(3, 2.0)))).astype(int)
    already = np.where(orders <= 1, 1e-3, 0.0)
    predicted = belief.errors(np.zeros(len(costs)))
    amount = 0.02

    def value(precision: np.ndarray) -> float:
        known = already + precision
        return goal.score(goal.errors(np.where(known > 0, 1 / np.maximum(known, 1e-300), predicted)))

    def best(kept: np.ndarray) -> float:
        def at(logs: np.ndarray) -> float:
            shares = np.exp(logs) / np.exp(logs).sum()
            precision = np.zeros(len(costs))
            precision[kept] = shares * amount / costs[kept]
            return math.log(value(precision))

        return math.exp(scipy.optimize.minimize(at, np.zeros(kept.sum())).fun)

    pairs, triple = np.flatnonzero(orders == 2), orders == 3
    choices = [
        (orders <= 1) | np.isin(np.arange(len(costs)), part) for k in range(4) for part in combinations(pairs, k)
    ]
    least = min(map(best, [*choices, np.ones(len(costs), np.bool_)]))
    found = best_precisions(goal, belief, costs, amount, already=already, most_cells=1e9)
    assert float(costs @ found) == pytest.approx(amount, rel=1e-4)
    assert not found[triple].any()
    assert (
        value(found) <= least * 1.02
    )  # sets are left out one round after another, which need not find the best choice
    trusting = believed_precisions(goal, belief, costs, amount, already=already, most_cells=1e9)
    assert value(trusting) > value(found) * 1.02


def test_shares_of_views_are_near_the_optimum() -> None:
    """Against SciPy's simplex search over the logarithms of shares."""
    schema = schema_of(2, 3, 4)
    goal = goal_of(schema, None)
    belief = Belief.of_one_ways(goal.closure, [np.full(n, 1 / n) for n in (2, 3, 4)], 500)
    already = np.zeros(len(goal.closure))
    views = [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)]
    found = best_shares(goal, belief, views, TableBudget(0.3**2 / 2, 2), already=already)
    assert sum(found.shares) == pytest.approx(1)

    def value(logs: np.ndarray) -> float:
        shares = np.exp(logs) / np.exp(logs).sum()
        precision = np.zeros(len(goal.closure))
        for view, share in zip(views, shares, strict=True):
            for k in range(len(view) + 1):
                for part in combinations(view, k):
                    place, _ = goal.closure.find(np.array([part], np.intp).reshape(1, k))
                    outside = math.prod(schema.shape[i] for i in view if i not in part)
                    precision[place[0, -1]] += (0.3 * share) ** 2 / 2 / outside
        return goal.score(goal.errors(belief.errors(precision)))

    starts = [np.zeros(6), np.array([0, 0, 0, 0, 0, 3.0]), np.array([1, 1, 1, 0, 0, 0.0])]
    least = min(scipy.optimize.minimize(value, s, method="Nelder-Mead", options={"maxiter": 4000}).fun for s in starts)
    assert found.score <= least * 1.01
    assert value(np.zeros(6)) > least * 1.01  # equal shares are not good enough


def test_a_score_after_inference_counts_less_noise_where_cells_are_small() -> None:
    """One pair of two binary attributes, 100 rows, cells of variance 8; independent cells would hold 81, 9, 9 and 1."""
    goal = goal_of(schema_of(2, 2), None)
    belief = Belief.of_one_ways(goal.closure, [np.array([0.9, 0.1])] * 2, 100.0)
    found, already = ViewShares(((0, 1),), (1.0,), 0.0), np.zeros(len(goal.closure))
    score = inferred_score(goal, belief, found, TableBudget(1 / 8, 2), already=already)
    left = 8 * math.sqrt((3 + 1 / math.sqrt(8)) / 4)  # only the last cell is smaller than its noise
    ones = 64 / 3 / 8 * left  # as in the score of noise that nothing shrinks
    scale = (0.06 * 100) ** 2 * (1 - 0.82) ** 2  # the belief's median, squared
    pair = sum(
        weight / (1 / left + 1 / (scale * math.exp(2.5 * node)))
        for weight, node in ((1 / 6, -math.sqrt(3)), (2 / 3, 0.0), (1 / 6, math.sqrt(3)))
    )
    shrunk = ones ** (1 / 8) * ((3 * left + pair) / 4) ** (3 / 8)
    assert score == pytest.approx((ones ** (1 / 8) * left ** (3 / 8)) ** 0.75 * shrunk**0.25)
    one = Belief.of_one_ways(goal.closure, [np.array([0.5, 0.5])] * 2, 1.0)
    assert 0 < inferred_score(goal, one, found, TableBudget(1 / 8, 2), already=already) < score
