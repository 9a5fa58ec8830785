"""Strategy matrices, grouping, budgets and recovery: the check values of ICDE 2013 and optimality by other means."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosstally.budget import NoiseKind
from crosstally.errors import PlanError, TooManyCellsError
from crosstally.strategies import matrices
from crosstally.strategies.clustered import Grouping, greedy_groups, has_grouping_property, is_consistent
from crosstally.strategies.recovery import (
    demands,
    gaussian_constant,
    group_budgets,
    least_objective,
    plan_matrix,
    program_budgets,
    recover,
    uniform_budgets,
)
from reference_fourier import coefficient_matrix, marginal_matrix

LAPLACE, GAUSSIAN = NoiseKind.LAPLACE, NoiseKind.GAUSSIAN

A_AND_AB = marginal_matrix((2, 2, 2), [(0,), (0, 1)])
"""The paper's figure 1(b): the marginals A and AB of three binary attributes."""


# The example of the introduction


def test_equal_budgets_cost_48() -> None:
    budgets = uniform_budgets(A_AND_AB, amount=1, kind=LAPLACE)
    assert (2 / budgets**2).sum() == pytest.approx(48)


def test_optimal_budgets_cost_46_168() -> None:
    grouping = greedy_groups(A_AND_AB)
    assert grouping.groups.tolist() == [0, 0, 1, 1, 1, 1]
    needed = demands(np.eye(6), kind=LAPLACE)
    assert needed.tolist() == [2.0] * 6
    budgets = group_budgets(grouping.sums(needed), grouping.constants, amount=1, kind=LAPLACE)
    assert (2 / budgets[grouping.groups] ** 2).sum() == pytest.approx(46.168, abs=5e-4)
    assert least_objective([4, 8], [1, 1], amount=1, kind=LAPLACE) == pytest.approx((4 ** (1 / 3) + 2) ** 3)


def test_half_and_half_recovery_costs_34_6() -> None:
    """Half of A's own answer, half of the sum of AB's, and the same the other way round, with scales 9/4 and 9/5."""
    half = np.zeros((6, 6))
    half[0, [0, 2, 3]] = half[1, [1, 4, 5]] = 0.5
    for cell, sibling, parent in ((2, 3, 0), (3, 2, 0), (4, 5, 1), (5, 4, 1)):
        half[cell, [cell, parent]], half[cell, sibling] = 0.5, -0.5
    assert np.allclose(half @ A_AND_AB, A_AND_AB)
    budgets = np.array([4 / 9] * 2 + [5 / 9] * 4)
    assert (demands(half, kind=LAPLACE) / budgets**2).sum() == pytest.approx(34.6, abs=0.03)


def test_least_squares_recovery_costs_30_0126() -> None:
    variances = np.array([2 * (9 / 4) ** 2] * 2 + [2 * (9 / 5) ** 2] * 4)
    found = recover(A_AND_AB, A_AND_AB, variances) ** 2 @ variances
    assert found == pytest.approx([5.684] * 2 + [4.661] * 4, abs=5e-4)
    assert found.sum() == pytest.approx(30.0126, abs=5e-5)


def test_the_table_ab_alone_costs_16() -> None:
    plan = plan_matrix(A_AND_AB, marginal_matrix((2, 2, 2), [(0, 1)]), amount=1)
    assert plan.query_variances.sum() == pytest.approx(16)
    assert plan.query_variances == pytest.approx([4] * 2 + [2] * 4)


def test_budgets_for_the_recovery_that_is_used_approach_16() -> None:
    """Alternating budgets and recovery moves all budget to AB."""
    sums = [plan_matrix(A_AND_AB, A_AND_AB, amount=1, rounds=n).query_variances.sum() for n in (1, 2, 10, 60)]
    assert sums == sorted(sums, reverse=True)
    assert 16 <= sums[-1] < 16.5


# Corollary 3.3, both noises, unequal sizes


def lagrange(s, c, amount, kind) -> float:
    """The optimum by a fine search over the split between two groups."""
    split = np.linspace(1e-4, 1 - 1e-4, 200_001)
    if kind is LAPLACE:
        first, second = split * amount / c[0], (1 - split) * amount / c[1]
    else:
        first, second = np.sqrt(split) * amount / c[0], np.sqrt(1 - split) * amount / c[1]
    return float((s[0] / first**2 + s[1] / second**2).min())


@pytest.mark.parametrize("kind", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize("c", [(1, 1), (1, 3), (0.25, 2)])
@pytest.mark.parametrize("s", [(4, 8), (1, 100)])
def test_the_closed_form_is_the_optimum(kind, c, s) -> None:
    budgets = group_budgets(s, c, amount=0.7, kind=kind)
    spent = np.array(c) @ budgets if kind is LAPLACE else math.sqrt(np.array(c) ** 2 @ budgets**2)
    assert spent == pytest.approx(0.7)
    objective = (np.array(s) / budgets**2).sum()
    assert objective == pytest.approx(least_objective(s, c, amount=0.7, kind=kind))
    assert objective == pytest.approx(lagrange(s, c, 0.7, kind), rel=1e-6)


def test_the_corollary_by_hand() -> None:
    """s = (8, 27), C = (1, 8): (8^(1/3) + (64 x 27)^(1/3))^3 = 14^3; s = (4, 9), C = (1, 2): (2 + 2 x 3)^2 = 64."""
    assert least_objective([8, 27], [1, 8], amount=2, kind=LAPLACE) == pytest.approx(14**3 / 4)
    assert least_objective([4, 9], [1, 2], amount=2, kind=GAUSSIAN) == pytest.approx(16)
    assert gaussian_constant(0.02) == pytest.approx(2 * math.log(100))
    # b_r with Gaussian noise has no factor 2: two queries that read one row each with weights 1 and 3
    assert demands(np.diag([1.0, 2.0]), [1, 3], kind=GAUSSIAN).tolist() == [1.0, 12.0]
    assert demands(np.diag([1.0, 2.0]), [1, 3], kind=LAPLACE).tolist() == [2.0, 24.0]


# Grouping


def test_grouping_numbers_of_the_papers_strategies() -> None:
    sets = [s for k in range(4) for s in combinations(range(3), k)]
    cases = {
        "base counts": (matrices.identity(8), 1),
        "marginals": (A_AND_AB, 2),
        "Fourier": (matrices.fourier(3, sets), 8),
        "tree": (matrices.hierarchy(8), 4),
        "wavelet": (matrices.wavelet(8), 4),
        "sketch": (matrices.sketch(8, buckets=3, repetitions=5, random=np.random.default_rng(1)), 5),
    }
    for strategy, number in cases.values():
        grouping = greedy_groups(strategy)
        assert len(grouping) == number
        assert has_grouping_property(strategy, grouping.groups)
        assert grouping.constants.tolist() == [1.0] * number


def test_what_cannot_be_grouped_is_refused() -> None:
    with pytest.raises(PlanError, match="row 1 of the strategy must have entries of one size"):
        greedy_groups([[1, 1], [1, 2]])
    with pytest.raises(PlanError, match="1 of 2 groups of the strategy do not reach all cells"):
        greedy_groups([[1, 1], [1, 0]])
    assert not has_grouping_property([[1, 0], [1, 1]], [0, 0])
    assert not has_grouping_property([[1, 2]], [0])
    assert not has_grouping_property([[0, 0]], [0])


def test_a_recovery_is_consistent_when_rows_of_a_group_count_alike() -> None:
    grouping = Grouping(np.array([0, 0, 1]), np.ones(2))
    assert is_consistent(grouping, [2.0, 2.0, 5.0])
    assert not is_consistent(grouping, [2.0, 3.0, 5.0])


# Ready matrices


def test_ready_matrices_against_their_definitions() -> None:
    sets = [(), (0,), (2,), (0, 1, 2)]
    assert np.array_equal(matrices.fourier(3, sets), coefficient_matrix(3, sets))
    tables = [(0,), (2, 1), ()]
    assert np.array_equal(matrices.marginals((2, 3, 2), tables), marginal_matrix((2, 3, 2), tables))
    drawn = matrices.sketch(16, buckets=4, repetitions=3, random=np.random.default_rng(7))
    assert set(np.unique(drawn)) == {-1.0, 0.0, 1.0}
    assert np.array_equal(np.abs(drawn).sum(axis=0), np.full(16, 3))
    assert np.array_equal(drawn, matrices.sketch(16, buckets=4, repetitions=3, random=np.random.default_rng(7)))
    assert matrices.hierarchy(5, branches=3).sum(axis=1).tolist() == [5, 3, 2, 1, 1, 1, 1, 1]
    assert np.allclose(matrices.wavelet(8) @ matrices.wavelet(8).T, np.diag([8, 8, 4, 4, 2, 2, 2, 2]))


def test_matrices_that_cannot_be_are_refused() -> None:
    with pytest.raises(TooManyCellsError, match="at most 16,777,216 entries, got 8,192 x 8,192"):
        matrices.identity(8192)
    with pytest.raises(PlanError, match="power of two of cells, got 6"):
        matrices.wavelet(6)
    with pytest.raises(PlanError, match="at least 2 branches, got 4 and 1"):
        matrices.hierarchy(4, branches=1)
    with pytest.raises(PlanError, match="buckets and repetitions"):
        matrices.sketch(4, buckets=0, repetitions=1, random=np.random.default_rng(0))
    with pytest.raises(TooManyCellsError):
        matrices.fourier(24, [(0,), (1,)])


# Recovery and the convex program


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_recovery_has_the_least_variance_and_is_unbiased(seed) -> None:
    """Adding anything that leaves R S unchanged makes the variance of no query smaller."""
    rng = np.random.default_rng(seed)
    strategy = np.vstack([marginal_matrix((2, 2, 2), [(0,), (0, 1), (1, 2)]), rng.integers(-1, 2, (2, 8))])
    queries = rng.normal(size=(3, len(strategy))) @ strategy
    variances = rng.uniform(0.5, 20, len(strategy))
    found = recover(queries, strategy, variances)
    assert np.allclose(found @ strategy, queries, atol=1e-8)
    kernel = rng.normal(size=(3, len(strategy)))
    kernel -= kernel @ strategy @ np.linalg.pinv(strategy)
    other = found + 0.1 * kernel
    assert np.allclose(other @ strategy, queries, atol=1e-8)
    assert ((other**2 @ variances) >= (found**2 @ variances) - 1e-9).all()


def test_a_query_outside_the_row_space_is_refused() -> None:
    with pytest.raises(PlanError, match=r"1 of 2 queries lie outside the row space of the strategy \(the first is 1\)"):
        recover([[1, 1, 0, 0], [1, 0, 1, 0]], marginal_matrix((2, 2), [(0,)]), [1, 1])
    with pytest.raises(PlanError, match="outside the row space"):
        recover(np.eye(2), np.eye(2), [1, math.inf])
    with pytest.raises(PlanError, match="a column for each cell"):
        recover(np.eye(2), np.eye(3), [1, 1, 1])
    with pytest.raises(PlanError, match="variances must be"):
        recover(np.eye(2), np.eye(2), [1, 0])
    with pytest.raises(PlanError, match="weights must be one number of at least 0"):
        demands(np.eye(2), [1, -1], kind=LAPLACE)
    with pytest.raises(PlanError, match="budgets must be uniform or optimal"):
        plan_matrix(np.eye(2), np.eye(2), amount=1, budgets="best")
    with pytest.raises(PlanError, match="no row of the strategy is needed"):
        program_budgets(np.eye(2), [0, 0], amount=1, kind=LAPLACE)


@pytest.mark.parametrize("kind", [LAPLACE, GAUSSIAN])
def test_the_convex_program_finds_the_closed_form_where_there_is_one(kind) -> None:
    needed = demands(np.eye(6), [5, 5, 1, 1, 1, 1], kind=kind)
    grouping = greedy_groups(A_AND_AB)
    closed = group_budgets(grouping.sums(needed), grouping.constants, amount=1.5, kind=kind)[grouping.groups]
    assert program_budgets(A_AND_AB, needed, amount=1.5, kind=kind) == pytest.approx(closed, rel=1e-3)


@pytest.mark.parametrize("kind", [LAPLACE, GAUSSIAN])
def test_the_convex_program_against_another_solver(kind) -> None:
    """Unequal demands inside groups, entries of several sizes; SciPy's SLSQP on the logarithm of the objective."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(4)
    strategy = rng.integers(-2, 3, (6, 8)).astype(float)
    needed = rng.uniform(0.1, 5, 6)
    power = 1 if kind is LAPLACE else 2
    found = program_budgets(strategy, needed, amount=1, kind=kind)
    spent = np.abs(strategy.T) ** power @ found**power
    assert spent.max() <= 1 + 1e-9
    other = minimize(
        lambda e: math.log((needed / e**2).sum()),
        np.full(6, 0.05),
        method="SLSQP",
        bounds=[(1e-3, None)] * 6,
        constraints={"type": "ineq", "fun": lambda e: 1 - np.abs(strategy.T) ** power @ e**power},
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    assert math.log((needed / found**2).sum()) == pytest.approx(other.fun, abs=1e-4)


def test_rows_that_nobody_needs_get_no_budget() -> None:
    strategy = np.array([[1.0, 1], [1, 0], [0, 1]])
    plan = plan_matrix([[1.0, 1]], strategy, amount=1, recovery=[[1.0, 0, 0]])
    assert plan.budgets.tolist() == [1.0, 0.0, 0.0]
    assert plan.query_variances == pytest.approx([2])


@pytest.mark.parametrize("kind", [LAPLACE, GAUSSIAN])
def test_optimal_budgets_are_never_worse_than_equal_ones(kind) -> None:
    """Ranges of 16 cells from a tree, a wavelet, and single cells."""
    ranges = np.array([[float(a <= j < b) for j in range(16)] for a in range(16) for b in range(a + 1, 17)])
    for strategy in (matrices.hierarchy(16), matrices.wavelet(16), matrices.identity(16)):
        equal = plan_matrix(ranges, strategy, amount=1, kind=kind, budgets="uniform").query_variances.sum()
        best = plan_matrix(ranges, strategy, amount=1, kind=kind).query_variances.sum()
        assert best <= equal * (1 + 1e-6)
