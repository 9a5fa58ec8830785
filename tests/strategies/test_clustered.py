"""Clustered: greedy merging against its plain twin, by hand, at its cost, and fast."""

import math
import time
from fractions import Fraction

import numpy as np
import pytest

from conftest import schema_of
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.errors import PlanError
from crosstally.query.queries import Cells
from crosstally.schema import Outside, Schema, Unit
from crosstally.strategies import Direct
from crosstally.strategies.clustered import GreedyMerge, clusters
from crosstally.workload import Workload
from reference_clusters import greedy_clusters
from reference_privacy import brute_force_cost

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
ADULT = (9, 16, 7, 15, 6, 5, 2, 2)


def names(clusters_found, schema: Schema) -> list[tuple[int, ...]]:
    return sorted(each.positions for each in clusters_found)


def test_the_icde_example_by_hand() -> None:
    """A and AB of three binary attributes: together 4 cells for weight 2, cube root 2, against 2^(1/3) + 4^(1/3).

    AB alone then has the whole budget: six cells of variance 2, and A sums two of them: 4 x 2 + 2 x 4 = 16.
    """
    schema = schema_of(2, 2, 2)
    plan = GreedyMerge().plan(schema, Workload([("a0",), ("a0", "a1")]), Budget(epsilon=1))
    assert [r.query for r in plan.requests] == [Cells(("a0", "a1"))]
    assert plan.requests[0].noise == Noise(NoiseKind.LAPLACE, 1.0)
    continuous = 2 * plan.requests[0].noise.scale ** 2
    assert 4 * continuous + 2 * 2 * continuous == 16


@pytest.mark.parametrize("root", [1, 2, 3])
def test_merging_is_that_of_the_plain_twin(root) -> None:
    rng = np.random.default_rng(root)
    for trial in range(25):
        sizes = rng.integers(2, 7, rng.integers(3, 9)).tolist()
        schema = schema_of(*sizes)
        drawn = {tuple(sorted(rng.choice(len(sizes), rng.integers(1, 4), replace=False).tolist())) for _ in range(14)}
        tables = sorted(drawn)
        weights = rng.uniform(0.2, 3, len(tables)).tolist()
        workload = Workload([tuple(schema.names[i] for i in t) for t in tables], weights)
        _, expected = greedy_clusters(tables, weights, sizes, root)
        assert names(clusters(schema, workload, root), schema) == expected, trial


def test_every_table_lies_in_a_cluster_and_weights_add_up() -> None:
    """Also with more tables than are merged all with all, and more attributes than one word holds."""
    for schema, k in ((schema_of(*[2] * 20), 3), (schema_of(*[3] * 70), 2)):
        workload = Workload.all_ways(schema, k)
        found = clusters(schema, workload, 3)
        sets = [frozenset(schema.names[i] for i in each.positions) for each in found]
        assert all(any(each >= set(table) for each in sets) for table in workload.tables)
        assert math.fsum(each.weight for each in found) == pytest.approx(len(workload))


def own_error(schema: Schema, workload: Workload, root: int) -> float:
    """The RMS error when each table is read from its own cluster, with the papers' variance 2 b^2 and epsilon 1."""
    cells = [
        each.weight * math.prod(schema.shape[i] for i in each.positions) for each in clusters(schema, workload, root)
    ]
    total = 2 * sum(c ** (1 / 3) for c in cells) ** 3 if root == 3 else 2 * len(cells) ** 2 * sum(cells)
    return math.sqrt(total / workload.cells(schema))


def test_pairs_of_sixteen_binary_attributes() -> None:
    """No worse than what is known of greedy clustering: 81.4 by itself, 45.3 with least squares; direct has 170."""
    schema = schema_of(*[2] * 16)
    workload = Workload.all_ways(schema, 2)
    assert own_error(schema, workload, 3) == pytest.approx(68.41, abs=0.01)
    assert own_error(schema, workload, 1) == pytest.approx(71.96, abs=0.01)
    plan = GreedyMerge().plan(schema, workload, Budget(epsilon=1))
    assert plan.rms_error < 45.3
    assert plan.covers


def test_pairs_of_adult() -> None:
    plan = GreedyMerge().plan(schema_of(*ADULT), Workload.all_ways(schema_of(*ADULT), 2), Budget(epsilon=1))
    assert plan.rms_error < 26.3


def test_a_data_cube() -> None:
    """Every table of six attributes, the total too: one cluster, the full table, once cells are few."""
    schema = schema_of(*[2] * 6)
    workload = Workload([(), *Workload.up_to(schema, 6).tables])
    plan = GreedyMerge().plan(schema, workload, Budget(epsilon=1))
    assert plan.covers
    assert plan.rms_error <= Direct().plan(schema, workload, Budget(epsilon=1)).rms_error
    assert [r.query.attributes for r in plan.requests] == [schema.names]


def test_pairs_of_thirty_two_attributes_in_a_second() -> None:
    schema = schema_of(*[2] * 32)
    workload = Workload.all_ways(schema, 2)
    clusters(schema_of(2, 2), Workload([("a0",)]), 3)  # the kernel is compiled
    start = time.process_time()
    GreedyMerge().plan(schema, workload, Budget(epsilon=1))
    assert time.process_time() - start < 1


@pytest.mark.parametrize("budgets", ["uniform", "optimal"])
@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
@pytest.mark.parametrize(
    "schema",
    [
        schema_of(2, 2, 2),
        schema_of(3, 2, 2),
        schema_of(3, 2, unit=Unit("id", 2)),
        schema_of(3, 2, outside=Outside.DROP),
    ],
    ids=str,
)
def test_the_cost_is_that_of_the_worst_neighbours(schema, neighbours, budgets) -> None:
    workload = Workload.up_to(schema, 2)
    for budget in (Budget(epsilon="1/3"), Budget(rho="1/3")):
        plan = GreedyMerge(budgets).plan(schema, workload, budget, neighbours=neighbours)
        epsilon, rho = brute_force_cost(schema, plan.requests, neighbours)
        assert plan.cost == (epsilon if budget.pure else rho)
        assert budget.amount * Fraction("0.999999") < plan.cost <= budget.amount


def test_names_and_refusals() -> None:
    assert [GreedyMerge().name, GreedyMerge("uniform").name] == ["clustered", "clustered-uniform"]
    with pytest.raises(PlanError, match="budgets must be uniform or optimal, got 'best'"):
        GreedyMerge("best")
    schema = schema_of(*[2] * 51)
    with pytest.raises(PlanError, match="at most 20,000 tables can be clustered, got 20,825"):
        GreedyMerge().plan(schema, Workload.all_ways(schema, 3), Budget(epsilon=1))
