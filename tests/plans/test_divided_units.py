"""Units that are divided over their rows: the joint cost against brute force, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from conftest import schema_of
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind, Sensitivity
from crosstally.errors import BudgetError, PlanError, SchemaError
from crosstally.plans.joint_cost import privacy_cost
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request
from crosstally.privacy.noise import mechanism
from crosstally.query.choice import Choice
from crosstally.query.linear import Linear, Term
from crosstally.query.queries import Cells, Contrast, Product
from crosstally.query.unit_table import UnitTable
from crosstally.schema import Schema, Unit
from crosstally.strategies import NAMED
from crosstally.workload import Workload
from reference_privacy import brute_force_cost

PARTS = 720_720
ONCE = Unit.counted_once("id")


def plan_of(schema: Schema, queries: list[Product], noise: Noise, budget: Budget) -> Plan:
    requests = tuple(Request(query, noise) for query in queries)
    tables = Workload([schema.names])
    return Plan(schema, requests, strategy="test", workload=tables, budget=budget, neighbours=Neighbours.REPLACE)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("kind", [NoiseKind.LAPLACE, NoiseKind.GAUSSIAN])
@pytest.mark.parametrize("sizes", [(2, 2), (2, 3), (5,)], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_no_unit_of_up_to_three_rows_moves_cells_and_contrasts_further_than_is_charged(
    sizes: tuple[int, ...], kind: NoiseKind, neighbours: Neighbours, seed: int
) -> None:
    """Every pair of multisets of rows. With one scale (seed 0) the worst of them costs exactly the charge."""
    rng = np.random.default_rng(seed)
    schema = schema_of(*sizes, unit=ONCE)
    sets = [names for k in range(len(sizes) + 1) for names in combinations(schema.names, k)]
    queries = [Contrast(names) for names in sets if names and rng.random() < 0.8]
    queries += [Cells(names) for names in sets if rng.random() < 0.5] + [Cells(())]
    scales = np.full(len(queries), 7.5) if seed == 0 else rng.uniform(1, 40, len(queries))
    requests = [Request(q, Noise(kind, float(s), PARTS)) for q, s in zip(queries, scales, strict=True)]
    epsilon, rho = brute_force_cost(schema, requests, neighbours)
    for currency, truth in (("epsilon", epsilon), ("rho", rho)):
        if truth is not None:
            cost = privacy_cost(requests, schema, neighbours, currency=currency)
            assert truth <= cost <= truth * (1 + Fraction(1, 10**9))
            assert cost == truth or seed


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("kind", [NoiseKind.LAPLACE, NoiseKind.GAUSSIAN])
def test_linear_queries_too(kind: NoiseKind, neighbours: Neighbours) -> None:
    schema = schema_of(2, 3, unit=ONCE)
    first = Linear((Term(1, (("a0", (1, -1)), ("a1", (1, -1, 2)))),))
    second = Linear((Term(1, (("a1", (0, 1, 1)),)),))
    requests = [Request(query, Noise(kind, 4.0, PARTS)) for query in (first, second)]
    epsilon, rho = brute_force_cost(schema, requests, neighbours)
    assert privacy_cost(requests, schema, neighbours, currency="rho") >= rho
    if epsilon is not None:
        assert privacy_cost(requests, schema, neighbours, currency="epsilon") >= epsilon


def test_a_unit_costs_what_one_row_costs() -> None:
    """The same plan as for people of one row, where two rows of a unit cost twice as much."""
    queries = [Cells(("a0",)), Contrast(("a0", "a1"))]
    requests = [Request(query, Noise(NoiseKind.LAPLACE, 10.0)) for query in queries]
    costs = [
        privacy_cost(requests, schema_of(2, 3, unit=unit), Neighbours.ADD_REMOVE, currency="epsilon")
        for unit in (None, ONCE, Unit("id", 2))
    ]
    # cells 1, and the contrast: 4/1 (2 x 2 numbers of the larger attribute: |2| + |1| + |1|) in size
    assert costs == [Fraction(1, 2), Fraction(1, 2), 1]


def test_noise_in_parts_is_whole_and_never_cheaper_than_the_charge() -> None:
    for scale in (1 / 3, 0.7, 14.54, 1e6 / 7):
        for kind in (NoiseKind.LAPLACE, NoiseKind.GAUSSIAN):
            noise = Noise(kind, scale, PARTS)
            assert Fraction(noise.whole.scale) >= Fraction(scale) * PARTS
            moved = Sensitivity(3, 5)
            in_parts = Sensitivity(3 * PARTS, 5 * PARTS**2)
            assert noise.whole.cost(in_parts) <= noise.cost(moved)
            assert noise.whole.unit_cost("mu2") * PARTS**2 <= noise.unit_cost("mu2")
            continuous = 2 * scale**2 if kind is NoiseKind.LAPLACE else scale**2
            assert noise.variance == pytest.approx(continuous, rel=1e-9)
    with pytest.raises(BudgetError, match="in 720,720 parts must be below"):
        Noise(NoiseKind.LAPLACE, 2.0**40, PARTS)


@pytest.mark.parametrize("kind", [NoiseKind.LAPLACE, NoiseKind.GAUSSIAN])
def test_noise_that_is_drawn_has_its_variance_in_units(kind: NoiseKind) -> None:
    """2 b^2 = 18 and s^2 = 9. The mean square of 40,000 numbers: six of its standard deviations, not 0.7 of it."""
    drawn = mechanism(Noise(kind, 3.0, PARTS), [Sensitivity(1, 1)]).draw(np.zeros(40_000, np.int64)) / PARTS
    variance, fourth = (18.0, 24 * 3.0**4) if kind is NoiseKind.LAPLACE else (9.0, 3 * 3.0**4)
    limit = 6 * np.sqrt((fourth - variance**2) / 40_000)
    found = float((drawn**2).mean())
    assert abs(found - variance) < limit < 0.3 * variance
    assert len(set((drawn * PARTS % PARTS).round().astype(int).tolist())) > 1_000  # not whole units


def test_plans_hold_noise_in_parts_and_files_do_not_repeat_it() -> None:
    schema = schema_of(2, 3, unit=ONCE)
    plan = plan_of(schema, [Cells(("a0", "a1"))], Noise(NoiseKind.LAPLACE, 2.0), Budget(epsilon=1))
    assert [each.noise.parts for each in plan.requests] == [PARTS]
    assert plan.to_dict()["requests"][0]["noise"] == {"kind": "laplace", "scale": 2.0}
    assert Plan.from_dict(plan.to_dict()).requests == plan.requests
    assert plan.cost == 1


def test_contrasts_that_would_leave_64_bits_are_refused_when_they_are_planned() -> None:
    """One row moves a contrast of 90 x 90 values by (2 x 89)^2 = 31,684; 2^62 / (720,720 x 2^28) = 23,837."""
    noise, budget = Noise(NoiseKind.LAPLACE, 1e6), Budget(epsilon=1)
    plan_of(schema_of(70, 70, unit=ONCE), [Contrast(("a0", "a1"))], noise, budget)
    with pytest.raises(PlanError, match="contrast over a0 x a1 would leave 64 bits where a unit is divided"):
        plan_of(schema_of(90, 90, unit=ONCE), [Contrast(("a0", "a1"))], noise, budget)


def test_what_has_no_meaning_for_divided_units_is_refused_in_a_line() -> None:
    schema = schema_of(2, 3, unit=ONCE)
    with pytest.raises(ct.CrosstallyError, match="these tables count each unit once"):
        UnitTable((1, 2)).shape(schema)
    with pytest.raises(SchemaError, match="public counts are of all rows, and this schema leaves out rows without id"):
        ct.release({}, schema, epsilon=1, rows=100)
    for wrong in ({"max_rows": 2}, {"from": "data"}, {"divided": False}, {"divided": 1}):
        with pytest.raises(SchemaError, match="unit: "):
            Unit.from_dict({"id": "id", "divided": True, **wrong})
    with pytest.raises(SchemaError, match="no max_rows"):
        Unit("id", 2, divided=True)


def test_a_plan_buys_no_table_of_units_beside_tables_that_count_them() -> None:
    for once, bought in ((True, False), (False, True)):
        schema = schema_of(2, 3, unit=ONCE if once else Unit("id", 1))
        assert any(each.query.of_units for each in ct.plan(schema, epsilon=1).chosen.groups) is bought


def test_a_choice_asks_the_same_of_parts() -> None:
    """Distances from (3, 4) and (5, 0, 2), less penalties 1 and 0, times whole weights 3 and 2; then in parts."""
    choice = Choice([("a0",), ("a1",)], [[3, 4], [5, 0, 2]], weights=["1/2", "1/3"], penalties=[1, 0])
    counts = np.array([5, 5, 1, 6, 3])
    assert choice.answer(counts).tolist() == [3 * (3 - 1), 2 * (4 + 6 + 1)]
    assert choice.in_parts(PARTS).answer(counts * PARTS).tolist() == [6 * PARTS, 22 * PARTS]


@pytest.mark.parametrize("strategy", sorted(NAMED.keys() - {"uniform"}))  # that one needs a public number of rows
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_every_strategy_counts_units(strategy: str, neighbours: Neighbours) -> None:
    """400 units of 1 to 4 rows: the total is within 12 standard errors or 10 of that, and far from the 1,000 rows."""
    rows = [(str(i), str(i % 2), str((i + j) % 3)) for i in range(400) for j in range(1 + i % 4)]
    ids, first, second = zip(*rows, strict=True)
    schema = schema_of(2, 3, unit=ONCE)
    table = pa.table({"id": ids, "a0": first, "a1": second})
    release = ct.release(table, schema, rho=50, strategy=strategy, neighbours=neighbours)
    values, errors = release.marginal("a0").values, np.ravel(release.marginal("a0").std_error)
    assert abs(float(values.sum()) - 400) < max(12 * float(errors.sum()), 10) < 300
