"""The joint cost of many requests against brute force over every pair of neighbours, and the literals of the papers."""

from __future__ import annotations

import time
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from conftest import schema_of
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.plans.joint_cost import privacy_cost
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request
from crosstally.query.linear import Linear, Term
from crosstally.query.queries import Cells, Contrast, Product
from crosstally.schema import Outside, Schema, Unit
from crosstally.strategies.strategy import requests_with_shares
from crosstally.workload import Workload
from reference_fourier import largest_odd_weight
from reference_privacy import brute_force_cost


def coefficients(schema: Schema, most: int) -> list[Product]:
    sets = [names for k in range(1, most + 1) for names in combinations(schema.names, k)]
    return [Cells(()), *map(Contrast, sets)]


def requests_of(queries, kind: NoiseKind, scales) -> tuple[Request, ...]:
    return tuple(Request(query, Noise(kind, float(scale))) for query, scale in zip(queries, scales, strict=True))


SMALL = {
    "2x2x2": schema_of(2, 2, 2),
    "2x2x2, units of 2": schema_of(2, 2, unit=Unit("id", 2)),
    "2x2x2, drop": schema_of(2, 2, 2, outside=Outside.DROP),
    "2x3x2": schema_of(2, 3, 2),
    "3x4": schema_of(3, 4),
    "3x3, drop": schema_of(3, 3, outside=Outside.DROP),
    "2x2, other": schema_of(2, 2, outside=Outside.OTHER),
}


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("kind", [NoiseKind.LAPLACE, NoiseKind.GAUSSIAN])
@pytest.mark.parametrize("schema", SMALL.values(), ids=SMALL.keys())
@pytest.mark.parametrize("seed", range(3))
def test_the_cost_of_cells_and_contrasts_is_the_largest_over_all_neighbours(schema, kind, neighbours, seed) -> None:
    """Random requests; one with a single scale, where the cost is exact to the last digit."""
    rng = np.random.default_rng(seed)
    sets = [names for k in range(len(schema.names) + 1) for names in combinations(schema.names, k)]
    queries = [Contrast(names) for names in sets if names and rng.random() < 0.8]
    queries += [Cells(names) for names in sets if rng.random() < 0.4] + [Cells(())]
    scales = np.full(len(queries), 7.5) if seed == 0 else rng.uniform(1, 40, len(queries))
    requests = requests_of(queries, kind, scales)
    epsilon, rho = brute_force_cost(schema, requests, neighbours)
    for currency, truth in (("epsilon", epsilon), ("rho", rho)):
        if truth is not None:
            cost = privacy_cost(requests, schema, neighbours, currency=currency)
            assert truth <= cost <= truth * (1 + Fraction(1, 10**9))
            assert cost == truth or seed


def test_linear_queries_are_charged_by_themselves() -> None:
    schema = schema_of(2, 2)
    linear = Linear((Term(1, (("a0", (1, -1)), ("a1", (1, -1)))),))
    requests = requests_of([Contrast(("a0", "a1")), Contrast(("a0",)), linear], NoiseKind.LAPLACE, [2, 2, 2])
    # a0 alone changes: both contrasts move by 2 and so does the linear query
    assert privacy_cost(requests, schema, Neighbours.REPLACE, currency="epsilon") == 3
    assert brute_force_cost(schema, requests, Neighbours.REPLACE)[0] == 3


@pytest.mark.parametrize(("neighbours", "expected"), [(Neighbours.ADD_REMOVE, 137), (Neighbours.REPLACE, 144)])
def test_fourier_coefficients_of_all_pairs_of_16_attributes(neighbours, expected) -> None:
    """|B| = 137; under replacement 144, where the paper takes 2 |B| = 274."""
    schema = schema_of(*[2] * 16)
    requests = requests_of(coefficients(schema, 2), NoiseKind.LAPLACE, [1.0] * 137)
    assert privacy_cost(requests, schema, neighbours, currency="epsilon") == expected


def test_coefficients_of_many_attributes_use_their_symmetry() -> None:
    """d=40, up to 2-way: z of 40 attributes change, z + z (40 - z) coefficients move by 2; z = 20 or 21 is worst."""
    schema = schema_of(*[2] * 40)
    queries = coefficients(schema, 2)
    requests = requests_of(queries, NoiseKind.LAPLACE, [1.0] * len(queries))
    assert privacy_cost(requests, schema, Neighbours.REPLACE, currency="epsilon") == 2 * (20 + 20 * 20)
    # one attribute that stands out: its pairs with the others are asked with half the noise
    special = [0.5 if query.attributes[:1] == ("a0",) else 1.0 for query in queries]
    cost = privacy_cost(
        requests_of(queries, NoiseKind.LAPLACE, special), schema, Neighbours.REPLACE, currency="epsilon"
    )
    weights = {(s, z): 2 * s * (1 + 39 - z) + 2 * (1 - s) * z for s in (0, 1) for z in range(40)}
    others = {z: z + z * (39 - z) for z in range(40)}
    assert cost == max(2 * (weight + others[z]) for (_, z), weight in weights.items())


def test_without_symmetry_beyond_24_attributes_the_sum_is_charged() -> None:
    schema = schema_of(*[2] * 30)
    rng = np.random.default_rng(0)
    queries = coefficients(schema, 2)[1:]
    scales = rng.uniform(1, 2, len(queries))
    requests = requests_of(queries, NoiseKind.LAPLACE, scales)
    assert privacy_cost(requests, schema, Neighbours.REPLACE, currency="epsilon") == sum(
        2 / Fraction(s) for s in scales
    )


@pytest.mark.parametrize("d", [5, 9, 13])
def test_weighted_coefficients_against_a_plain_loop_over_all_sets(d) -> None:
    rng = np.random.default_rng(d)
    schema = schema_of(*[2] * d)
    queries = coefficients(schema, 2)[1:]
    scales = rng.uniform(1, 9, len(queries))
    masks = [sum(1 << schema.positions[name] for name in query.attributes) for query in queries]
    truth = 2 * largest_odd_weight(dict(zip(masks, (1 / scales).tolist(), strict=True)), d)
    cost = privacy_cost(
        [Request(q, Noise(NoiseKind.LAPLACE, float(s))) for q, s in zip(queries, scales, strict=True)],
        schema,
        Neighbours.REPLACE,
        currency="epsilon",
    )
    assert float(cost) == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize("budget", [Budget(epsilon=1), Budget(rho="0.1")], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("schema", [SMALL["2x2x2"], SMALL["2x3x2"], SMALL["3x4"]], ids=["2x2x2", "2x3x2", "3x4"])
def test_under_replacement_requests_spend_the_whole_budget_and_no_more(schema, budget) -> None:
    queries = coefficients(schema, len(schema.names))
    requests = requests_with_shares(queries, [1.0] * len(queries), schema, budget, Neighbours.REPLACE)
    plan = Plan(
        schema,
        requests,
        strategy="test",
        workload=Workload([schema.names]),
        budget=budget,
        neighbours=Neighbours.REPLACE,
    )
    epsilon, rho = brute_force_cost(schema, requests, Neighbours.REPLACE)
    truth = epsilon if budget.pure else rho
    assert truth <= plan.cost <= budget.amount
    assert float(truth) == pytest.approx(float(budget.amount), rel=1e-6)


def test_what_cannot_move_needs_no_share() -> None:
    schema = schema_of(2, 2)
    (alone,) = requests_with_shares([Cells(())], [1.0], schema, Budget(epsilon=1), Neighbours.REPLACE)
    assert privacy_cost([alone], schema, Neighbours.REPLACE, currency="epsilon") == 0
    assert alone.noise.variance < 1e-20
    both = requests_with_shares([Cells(()), Cells(("a0",))], [1.0, 1.0], schema, Budget(epsilon=1), Neighbours.REPLACE)
    assert both[1].noise.scale == 2.0


def test_thousands_of_requests_are_costed_in_a_moment() -> None:
    schema = schema_of(*[2] * 30)
    queries = coefficients(schema, 3)
    requests = requests_of(queries, NoiseKind.LAPLACE, [3.0] * len(queries))
    began = time.process_time()
    privacy_cost(requests, schema, Neighbours.REPLACE, currency="epsilon")
    assert len(queries) == 4526
    assert time.process_time() - began < 2
