"""The searched optimum: the papers' examples, the targets under Laplace noise, exact costs, and limits."""

import math
import time
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from conftest import schema_of
from crosstally.budget import Budget, Neighbours
from crosstally.errors import PlanError
from crosstally.query.queries import Cells
from crosstally.residuals import Variances
from crosstally.schema import Outside, Unit
from crosstally.strategies import Direct, Residual, Views
from crosstally.strategies.clustered import GreedyMerge, clusters
from crosstally.strategies.optimum import ViewSearch, best_views
from crosstally.workload import Workload
from reference_privacy import brute_force_cost
from reference_views import least_squares_variances

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
ADULT = (9, 16, 7, 15, 6, 5, 2, 2)


def continuous(plan) -> Variances:
    """What least squares gives with the papers' variance 2 b^2 in place of that of the discrete noise."""
    return Variances.of_queries(plan.schema, [(r.query, 2 * r.noise.scale**2) for r in plan.requests])


def continuous_rms(plan) -> float:
    schema, workload = plan.schema, plan.workload
    cells = [math.prod(schema.sizes(table)) for table in workload.tables]
    variances = continuous(plan).of_all(workload.tables)
    return math.sqrt(sum(n * v for n, v in zip(cells, variances, strict=True)) / sum(cells))


# The example of ICDE 2013: A and AB of three binary attributes, epsilon 1

A_AND_AB = Workload([("a0",), ("a0", "a1")])


def test_least_squares_with_the_papers_scales() -> None:
    """Scales 9/4 and 9/5: 5.684 for each cell of A, 4.661 for each of AB, 30.0126 in all."""
    scales = {("a0",): 9 / 4, ("a0", "a1"): 9 / 5}
    measured = [(Cells(table), 2 * scale**2) for table, scale in scales.items()]
    of_a, of_ab = Variances.of_queries(schema_of(2, 2, 2), measured).of_all(A_AND_AB.tables)
    assert (of_a, of_ab) == pytest.approx((5.684, 4.661), abs=5e-4)
    assert 2 * of_a + 4 * of_ab == pytest.approx(30.0126, abs=5e-5)
    views, variances = [(0,), (0, 1)], [variance for _, variance in measured]
    assert least_squares_variances(views, variances, (0,), (2, 2, 2)) == pytest.approx([of_a] * 2)
    assert least_squares_variances(views, variances, (0, 1), (2, 2, 2)) == pytest.approx([of_ab] * 4)


def test_the_planner_finds_sixteen() -> None:
    """AB alone with the whole budget: 4 cells of variance 2 and 2 sums of two of them: 16, the minimum."""
    plan = ViewSearch().plan(schema_of(2, 2, 2), A_AND_AB, Budget(epsilon=1))
    assert [(r.query, r.noise.scale) for r in plan.requests] == [(Cells(("a0", "a1")), 1.0)]
    of_a, of_ab = continuous(plan).of_all(A_AND_AB.tables)
    assert 2 * of_a + 4 * of_ab == pytest.approx(16)


# Targets, papers' variance 2 b^2, epsilon 1


def test_pairs_of_sixteen_binary_attributes() -> None:
    """34.06 = sqrt(1160): the twenty lines of AG(2, 4), each with noise of scale 20; by hand below."""
    schema = schema_of(*[2] * 16)
    plan = ViewSearch().plan(schema, Workload.all_ways(schema, 2), Budget(epsilon=1))
    view = 2 * 20**2
    # a coefficient of B has variance view x cells outside B over the number of lines through B: 1, 5 and 20; in a cell
    # of a pair the interaction counts 1/4, each main effect 1/8, the total 1/16
    assert view * 4 / 1 / 4 + 2 * view * 8 / 5 / 8 + view * 16 / 20 / 16 == 1160
    assert continuous_rms(plan) <= math.sqrt(1160) * (1 + 1e-6)


def test_pairs_and_half_the_triples_of_adult() -> None:
    schema = schema_of(*ADULT)
    assert continuous_rms(ViewSearch().plan(schema, Workload.all_ways(schema, 2), Budget(epsilon=1))) <= 26.0
    assert continuous_rms(ViewSearch().plan(schema, Workload.half_more(schema, 2), Budget(epsilon=1))) <= 25.6


# What it rests on


def test_predicted_variances_are_those_of_matrices() -> None:
    schema, sizes = schema_of(2, 3, 2, 2), (2, 3, 2, 2)
    workload = Workload([("a0", "a1"), ("a1", "a2"), ("a0", "a3"), ("a2",)], [1, 2, 0.5, 3])
    for budget in (Budget(epsilon=0.3), Budget(rho=0.01)):
        plan = ViewSearch().plan(schema, workload, budget)
        views = [[schema.positions[name] for name in r.query.attributes] for r in plan.requests]
        variances = [r.noise.variance for r in plan.requests]
        for table, error in plan.errors.items():
            found = least_squares_variances(views, variances, [schema.positions[name] for name in table], sizes)
            assert found == pytest.approx([error**2] * len(found))


def objective(logs, views, sizes, tables, exponent) -> float:
    """The sum of variances over the tables' cells, shares being the soft maximum of the logs; by matrices."""
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    variances = 1 / shares**exponent
    return sum(least_squares_variances(views, variances, table, sizes).sum() for table in tables)


@pytest.mark.parametrize("exponent", [1, 2])
def test_shares_are_those_of_a_general_solver(exponent) -> None:
    """For the views it chose, SciPy finds no better shares."""
    sizes = (6, 2, 7)
    schema = schema_of(*sizes)
    tables = [(0, 1), (1, 2), (0,)]
    workload = Workload([tuple(schema.names[i] for i in table) for table in tables])
    found = best_views(schema, workload, exponent)
    assert len(found.views) > 1
    reached = objective(np.log(found.shares), found.views, sizes, tables, exponent)
    start = np.log(found.shares) + np.random.default_rng(1).normal(0, 0.2, len(found.shares))
    best = minimize(objective, start, (found.views, sizes, tables, exponent))
    assert reached == pytest.approx(best.fun, rel=1e-4)


def test_no_worse_than_what_it_starts_from() -> None:
    rng = np.random.default_rng(9)
    for _ in range(12):
        sizes = rng.integers(2, 6, rng.integers(3, 10)).tolist()
        schema = schema_of(*sizes)
        tables = {tuple(sorted(rng.choice(len(sizes), rng.integers(1, 4), replace=False).tolist())) for _ in range(9)}
        workload = Workload([tuple(schema.names[i] for i in t) for t in sorted(tables)])
        for budget in (Budget(epsilon=0.01), Budget(rho=0.001)):
            least = ViewSearch().plan(schema, workload, budget).rms_error
            for strategy in (Direct(), Direct("uniform"), GreedyMerge(), GreedyMerge("uniform")):
                assert least <= strategy.plan(schema, workload, budget).rms_error * (1 + 1e-6)
            if not budget.pure:
                assert Residual().plan(schema, workload, budget).rms_error <= least * (1 + 1e-9)


@pytest.mark.parametrize("cover", [2, 3])
def test_no_worse_than_covering_views_of_many_attributes(cover) -> None:
    schema = schema_of(*[2 + i % 5 for i in range(24)])
    workload = Workload.all_ways(schema, cover)
    views = Views().plan(schema, workload, Budget(epsilon=1))
    assert ViewSearch().plan(schema, workload, Budget(epsilon=1)).rms_error <= views.rms_error * (1 + 1e-6)


def test_every_workload_is_covered() -> None:
    """The total alone, wide tables, tables apart, and more attributes than a mask holds."""
    for schema, tables in (
        (schema_of(2, 2), [()]),
        (schema_of(*[2] * 14), [tuple(range(10)), (0, 12), (13,), ()]),
        (schema_of(*[3] * 8), [(0, 1), (2, 3), (4, 5), (6, 7)]),
        (schema_of(*[2] * 70), [(i, (i + 1) % 70) for i in range(69)]),
        (schema_of(*[2, 3] * 3), list(combinations(range(6), 5))),
    ):
        workload = Workload([tuple(schema.names[i] for i in sorted(table)) for table in tables])
        for budget in (Budget(epsilon=1), Budget(rho=1)):
            plan = ViewSearch().plan(schema, workload, budget)
            assert plan.covers
            assert max(len(r.query.attributes) for r in plan.requests) >= max(map(len, tables))


def test_weights_ask_for_accuracy() -> None:
    schema = schema_of(*[4] * 4)
    tables = [("a0", "a1"), ("a2", "a3")]
    even, heavy = (
        ViewSearch().plan(schema, Workload(tables, weights), Budget(epsilon=1)).errors for weights in ([1, 1], [27, 1])
    )
    assert heavy["a0", "a1"] < even["a0", "a1"]
    assert heavy["a2", "a3"] / heavy["a0", "a1"] == pytest.approx(3, rel=0.02)


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
@pytest.mark.parametrize(
    "schema",
    [
        schema_of(2, 2, 2),
        schema_of(4, 5, 2),
        schema_of(3, 2, unit=Unit("id", 2)),
        schema_of(3, 2, outside=Outside.DROP),
    ],
    ids=str,
)
def test_the_cost_is_that_of_the_worst_neighbours(schema, neighbours) -> None:
    workload = Workload.all_ways(schema, 2 if len(schema.names) > 2 else 1)
    for budget in (Budget(epsilon="1/3"), Budget(rho="1/3")):
        plan = ViewSearch().plan(schema, workload, budget, neighbours=neighbours)
        epsilon, rho = brute_force_cost(schema, plan.requests, neighbours)
        assert plan.cost == (epsilon if budget.pure else rho)
        assert budget.amount * Fraction("0.999999") < plan.cost <= budget.amount


def test_planning_is_deterministic() -> None:
    schema = schema_of(3, 4, 2, 5, 2, 2)
    workload = Workload.all_ways(schema, 2)
    first = ViewSearch().plan(schema, workload, Budget(epsilon=1))
    best_views.cache_clear()
    clusters.cache_clear()
    assert ViewSearch().plan(schema, workload, Budget(epsilon=1)) == first


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("size", [2, 7])
def test_thirty_attributes_in_a_few_seconds(k, size) -> None:
    """About a second alone on a machine; the choice of a strategy has two."""
    schema = schema_of(*[2 + i % (size - 1) for i in range(30)])
    ViewSearch().plan(schema_of(2, 2, 2), None, Budget(epsilon=1))  # kernels are compiled
    start = time.process_time()
    plan = ViewSearch().plan(schema, Workload.all_ways(schema, k), Budget(epsilon=1))
    assert time.process_time() - start < 4
    assert plan.rms_error < Direct().plan(schema, plan.workload, Budget(epsilon=1)).rms_error * 0.8


def test_refusals() -> None:
    schema = schema_of(*[2] * 51)
    with pytest.raises(PlanError, match="at most 20,000 tables, got 20,825"):
        ViewSearch().plan(schema, Workload.all_ways(schema, 3), Budget(epsilon=1))
    wide = schema_of(2000, 2000, 2000)
    with pytest.raises(PlanError, match="no views of at most 5,000,000 cells together hold these tables"):
        ViewSearch().plan(wide, Workload.all_ways(wide, 2), Budget(epsilon=1))
