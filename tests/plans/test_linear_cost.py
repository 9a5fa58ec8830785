"""The joint cost of linear queries against brute force over every pair of neighbours, and by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from conftest import schema_of
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.plans.joint_cost import privacy_cost
from crosstally.plans.linear_cost import linear_cost
from crosstally.plans.request import Request
from crosstally.query.linear import Linear, Term
from crosstally.query.queries import Cells
from crosstally.schema import Outside, Schema, Unit
from crosstally.strategies.strategy import requests_with_shares
from reference_privacy import brute_force_cost

SCHEMAS = {
    "2x3": schema_of(2, 3),
    "2x3, drop": schema_of(2, 3, outside=Outside.DROP),
    "2x2x2": schema_of(2, 2, 2),
    "3x2, units of 2": schema_of(3, 2, unit=Unit("id", 2)),
}


def random_query(schema: Schema, rng: np.random.Generator) -> Linear:
    terms = []
    for _ in range(rng.integers(1, 3)):
        names = rng.permutation(schema.names)[: rng.integers(0, len(schema.names) + 1)].tolist()
        factors = tuple((name, tuple(rng.integers(-2, 3, schema[name].size).tolist())) for name in names)
        terms.append(Term(int(rng.integers(-3, 4)), factors))
    return Linear(tuple(terms))


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("kind", [NoiseKind.LAPLACE, NoiseKind.GAUSSIAN])
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
@pytest.mark.parametrize("seed", range(4))
def test_the_cost_is_the_largest_over_all_neighbours(schema, kind, neighbours, seed) -> None:
    rng = np.random.default_rng(seed)
    scales = np.full(6, 7.5) if seed == 0 else rng.uniform(1, 40, 6)
    requests = [Request(random_query(schema, rng), Noise(kind, float(scale))) for scale in scales]
    epsilon, rho = brute_force_cost(schema, requests, neighbours)
    for currency, truth in (("epsilon", epsilon), ("rho", rho)):
        if truth is not None:
            assert privacy_cost(requests, schema, neighbours, currency=currency) == truth


def test_disjoint_counts_cost_as_much_as_one() -> None:
    """Five counts of one value each, noise of scale 10: a row is in one of them; replaced, it moves two."""
    schema = schema_of(5, 4)
    noise = Noise(NoiseKind.LAPLACE, 10)
    asked = [(Linear((Term(1, (("a0", tuple(int(i == v) for v in range(5))),)),)), noise) for i in range(5)]
    assert linear_cost(asked, schema, Neighbours.ADD_REMOVE, currency="epsilon") == Fraction(1, 10)
    assert linear_cost(asked, schema, Neighbours.REPLACE, currency="epsilon") == Fraction(2, 10)


def test_a_batch_is_drawn_with_the_noise_that_it_needs_together() -> None:
    """Five disjoint counts at epsilon 1 get noise of scale 1, not 5; the number of rows beside them costs its share."""
    schema = schema_of(5, 4)
    queries = [Linear((Term(1, (("a0", tuple(int(i == v) for v in range(5))),)),)) for i in range(5)]
    budget = Budget(epsilon=1)
    requests = requests_with_shares(queries, [1.0] * 5, schema, budget, Neighbours.ADD_REMOVE)
    assert [round(r.noise.scale, 6) for r in requests] == [1.0] * 5
    assert privacy_cost(requests, schema, Neighbours.ADD_REMOVE, currency="epsilon") <= 1
    mixed = [*requests, Request(Cells(()), Noise(NoiseKind.LAPLACE, 2))]
    assert float(privacy_cost(mixed, schema, Neighbours.ADD_REMOVE, currency="epsilon")) == pytest.approx(1.5, abs=1e-6)


def test_values_that_no_query_tells_apart_are_looked_at_once() -> None:
    """Nine attributes of 50 values have 2e15 combinations, their halves 512: a row in all halves is in all counts."""
    schema = schema_of(*[50] * 9)
    half = tuple(int(v < 25) for v in range(50))
    asked = [
        (Linear((Term(1, ((f"a{i}", half), (f"a{i + 1}", half))),)), Noise(NoiseKind.LAPLACE, 4)) for i in range(8)
    ]
    other = tuple(1 - v for v in half)
    apart = [
        (Linear((Term(1, ((f"a{i}", half if i % 2 else other), (f"a{i + 1}", half))),)), Noise(NoiseKind.LAPLACE, 4))
        for i in range(8)
    ]
    for neighbours in Neighbours:
        assert linear_cost(asked, schema, neighbours, currency="epsilon") == Fraction(8, 4)
    # the first and the last count may hold together, and one of each two between them, which differ in a2, a4 or a6
    assert linear_cost(apart, schema, Neighbours.ADD_REMOVE, currency="epsilon") == Fraction(5, 4)
    assert linear_cost([], schema, Neighbours.REPLACE, currency="rho") == 0


def test_too_many_values_are_taken_in_groups_that_never_cost_too_little() -> None:
    """Sums of products of nine attributes of 50 numbers, all told apart: the largest of all moves each most."""
    schema = schema_of(*[50] * 9)
    numbers = tuple(range(50))
    asked = [
        (Linear((Term(1, ((f"a{i}", numbers), (f"a{i + 1}", numbers))),)), Noise(NoiseKind.LAPLACE, 4))
        for i in range(8)
    ]
    for neighbours in Neighbours:
        assert linear_cost(asked, schema, neighbours, currency="epsilon") == Fraction(8 * 49 * 49, 4)
