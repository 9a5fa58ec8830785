"""Counts and sums of measures together: the joint cost against every pair of neighbours, and what it is by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

from conftest import schema_of
from crosstally.budget import Budget, Currency, Neighbours, Noise, NoiseKind, Sensitivity
from crosstally.errors import PlanError, QueryError
from crosstally.plans.joint_cost import privacy_cost
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request
from crosstally.query.queries import Cells, Contrast, Kronecker, Product
from crosstally.query.query_json import query_from_dict
from crosstally.query.summed import Summed
from crosstally.schema import Measure, Outside, Schema, Unit
from crosstally.workload import Workload

Row = tuple[tuple[int, ...], tuple[int | None, ...]]
"""The value of each attribute, and of each measure what it adds in steps; None where it is left out."""


# By brute force, from the definitions: a row adds its value to its cell, and a unit is some rows


def all_units(schema: Schema) -> list[list[Row]]:
    """All that one unit may put into the table, of values at the bounds and one inside."""
    inside = [[each.low, (each.low + each.high) // 2, each.high] for each in schema.measures]
    values = [[*own, None] if m.leaves_out else own for own, m in zip(inside, schema.measures, strict=True)]
    rows = list(product(product(*(range(n) for n in schema.shape)), product(*values)))
    may_drop = any(attribute.outside is Outside.DROP for attribute in schema.attributes)
    counts = range(schema.unit.max_rows + 1) if schema.unit else range(2) if may_drop else range(1, 2)
    return [list(rows_of) for count in counts for rows_of in combinations_with_replacement(rows, count)]


def answer_of(query: dict[str, Any], schema: Schema, rows: Sequence[Row]) -> list[int]:
    """Cell by cell the sum of what rows in it add; contrasts by the product of n [same value] - 1, or of signs."""
    names = query.get("cells", query.get("contrast"))
    places = [schema.names.index(name) for name in names]
    measures = [each.name for each in schema.measures]
    out = []
    for cell in product(*(range(schema.shape[place]) for place in places)):
        number = 0
        for codes, values in rows:
            same = [codes[place] == value for place, value in zip(places, cell, strict=True)]
            entry = int(all(same))
            if "contrast" in query:
                entry = 1
                for place, alike in zip(places, same, strict=True):
                    n = schema.shape[place]
                    entry *= (1 if alike else -1) if n == 2 else (n - 1 if alike else -1)
            if "of" in query:
                entry *= values[measures.index(query["of"])] or 0
            if "having" in query:
                entry *= int(values[measures.index(query["having"])] is not None)
            number += entry
        if "cells" in query or all(v == 0 or schema.shape[p] > 2 for p, v in zip(places, cell, strict=True)):
            out.append(number)
    return out


@dataclass(frozen=True)
class Neighbouring:
    """The distances of every pair of neighbours, for each query: in L1 and in squared L2."""

    l1: np.ndarray
    l2_squared: np.ndarray

    @classmethod
    def of(cls, schema: Schema, queries: Sequence[Product], neighbours: Neighbours) -> Neighbouring:
        units = all_units(schema)
        l1, l2_squared = [], []
        for query in queries:
            answers = np.array([answer_of(query.to_dict(), schema, rows) for rows in units])
            others = np.zeros_like(answers[:1]) if neighbours is Neighbours.ADD_REMOVE else answers
            apart = answers[:, None] - others[None]
            l1.append(np.abs(apart).sum(axis=2).ravel())
            l2_squared.append((apart**2).sum(axis=2).ravel())
        return cls(np.array(l1), np.array(l2_squared))

    def cost(self, noises: Sequence[Noise], currency: Currency) -> Fraction:
        """The largest cost of one pair, exactly."""
        weights = [noise.unit_cost(currency) for noise in noises]
        moved = np.array(
            [
                l2 if noise.kind is NoiseKind.GAUSSIAN else l1 if currency == "epsilon" else l1**2
                for noise, l1, l2 in zip(noises, self.l1, self.l2_squared, strict=True)
            ]
        )
        rough = np.array([float(weight) for weight in weights]) @ moved
        near = np.unique(moved[:, rough >= rough.max() * (1 - 1e-9)], axis=1)
        sums = (sum(w * int(n) for w, n in zip(weights, own, strict=True)) for own in near.T)
        return max((Fraction(each) for each in sums), default=Fraction(0))


def random_measure(rng: np.random.Generator, name: str) -> Measure:
    lower = int(rng.integers(-4, 5))
    upper = lower + int(rng.integers(1, 7))
    centre = int(rng.choice([0, 0, lower, (lower + upper) // 2, upper]))
    return Measure(name, lower, upper, centre=centre, missing=rng.choice(["zero", "leave out"]))


def random_schema(rng: np.random.Generator) -> Schema:
    sizes = [(2,), (3,), (2, 2)][rng.integers(3)]
    measures = [random_measure(rng, "pay")]
    unit = [None, None, Unit("id", 1), Unit("id", 2)][rng.integers(4)]
    if len(sizes) < 2 and (unit is None or unit.max_rows == 1) and rng.random() < 0.6:
        measures.append(random_measure(rng, "hours"))
    outside = Outside.DROP if unit is None and rng.random() < 0.3 else Outside.REFUSE
    attributes = schema_of(*sizes, outside=outside).attributes
    return Schema(attributes, unit, measures=measures)


def random_queries(rng: np.random.Generator, schema: Schema) -> list[Product]:
    sets = [names for k in range(len(schema.names) + 1) for names in combinations(schema.names, k)]
    out = [Cells(names) for names in sets if rng.random() < 0.4]
    out += [Contrast(names) for names in sets if names and rng.random() < 0.3]
    for measure in schema.measures:
        out += [Cells(names, summed=Summed(measure.name)) for names in sets if rng.random() < 0.5]
        if measure.leaves_out:
            out += [Cells(names, summed=Summed(measure.name, values=False)) for names in sets if rng.random() < 0.3]
    return out or [Cells((), summed=Summed("pay"))]


def check_random_plan(seed: int) -> None:
    """No pair of neighbours costs more than is charged, and the worst costs as much, in every currency."""
    rng = np.random.default_rng(seed)
    schema = random_schema(rng)
    queries = random_queries(rng, schema)
    neighbours = list(Neighbours)[rng.integers(2)]
    laplace = rng.random() < 0.4
    kinds = [NoiseKind.LAPLACE if laplace or rng.random() < 0.3 else NoiseKind.GAUSSIAN for _ in queries]
    scales = rng.uniform(1, 30, len(queries)) if rng.random() < 0.7 else np.full(len(queries), 7.5)
    noises = [Noise(kind, float(scale)) for kind, scale in zip(kinds, scales, strict=True)]
    requests = [Request(query, noise) for query, noise in zip(queries, noises, strict=True)]
    pairs = Neighbouring.of(schema, queries, neighbours)
    for currency in ("epsilon", "rho", "mu2"):
        if currency == "epsilon" and NoiseKind.GAUSSIAN in kinds:
            continue
        truth = pairs.cost(noises, currency)
        cost = privacy_cost(requests, schema, neighbours, currency=currency)
        assert truth <= cost <= truth * (1 + Fraction(1, 10**9)), (seed, currency)


@pytest.mark.parametrize("part", range(4))
def test_random_plans_of_counts_and_sums_cost_what_the_worst_neighbours_do(part: int) -> None:
    for seed in range(50 * part, 50 * (part + 1)):
        check_random_plan(seed)


@pytest.mark.verify
@pytest.mark.parametrize("part", range(20))
def test_ten_thousand_random_plans(part: int) -> None:
    for seed in range(1_000 + 500 * part, 1_000 + 500 * (part + 1)):
        check_random_plan(seed)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("sizes", [(2,), (2, 2)], ids=str)
def test_the_sensitivity_of_each_table_is_that_of_the_worst_neighbours(
    sizes: tuple[int, ...], neighbours: Neighbours
) -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        schema = Schema(schema_of(*sizes).attributes, Unit("id", 1 + seed % 2), measures=[random_measure(rng, "pay")])
        for names in ((), ("a0",), schema.names):
            query = Cells(names, summed=Summed("pay"))
            pairs = Neighbouring.of(schema, [query], neighbours)
            expected = Sensitivity(int(pairs.l1.max()), int(pairs.l2_squared.max()))
            assert query.sensitivity(schema, neighbours) == expected


# By hand


def with_measure(*args: Any, unit: Unit | None = None, **more: Any) -> Schema:
    return Schema(schema_of(2, 3).attributes, unit, measures=[Measure("pay", *args, **more)])


def test_sensitivities_by_hand() -> None:
    """Values of 0 to 20 in steps of 2: ten steps. A replaced row may take them from one cell to another."""
    schema, over = with_measure(0, 20, step=2), Cells(("a0",), summed=Summed("pay"))
    assert over.sensitivity(schema, "add-remove") == Sensitivity(10, 100)
    assert over.sensitivity(schema, "replace") == Sensitivity(20, 200)
    assert Cells((), summed=Summed("pay")).sensitivity(schema, "replace") == Sensitivity(10, 100)
    # around 10 a value is 5 steps away at most; in one cell it may go from one end to the other: 10^2 > 2 x 5^2
    centred = with_measure(0, 20, step=2, centre=10)
    assert over.sensitivity(centred, "add-remove") == Sensitivity(5, 25)
    assert over.sensitivity(centred, "replace") == Sensitivity(10, 100)
    # of 10 to 30, where a row may also not be there: from nothing to 30 in the total
    above = with_measure(10, 30, unit=Unit("id", 3))
    assert Cells((), summed=Summed("pay")).sensitivity(above, "replace") == Sensitivity(90, 8100)
    assert over.sensitivity(above, "replace") == Sensitivity(180, 9 * 2 * 900)
    having = Cells(("a0",), summed=Summed("pay", values=False))
    assert having.sensitivity(above, "replace") == Sensitivity(6, 18)


def test_the_joint_cost_of_a_count_and_a_sum_by_hand() -> None:
    """m^2 / 2 max(2 / s_n^2 + 2 B^2 / s_v^2, (b - a)^2 / s_v^2), s_n = 2, s_v = 10, values of -5 to 5."""
    schema = with_measure(0, 10, centre=5)
    requests = [
        Request(Cells(("a0",)), Noise(NoiseKind.GAUSSIAN, 2.0)),
        Request(Cells(("a0",), summed=Summed("pay")), Noise(NoiseKind.GAUSSIAN, 10.0)),
    ]
    assert privacy_cost(requests, schema, "add-remove", currency="rho") == Fraction(1, 2) * (
        Fraction(1, 4) + Fraction(1, 4)
    )
    # both cells: 2/4 + 50/100 = 1; only the value: 100/100 = 1; one by one: 2/4 + 100/100
    assert privacy_cost(requests, schema, "replace", currency="rho") == Fraction(1, 2)
    requests[1] = Request(requests[1].query, Noise(NoiseKind.GAUSSIAN, 5.0))
    assert privacy_cost(requests, schema, "replace", currency="rho") == Fraction(1, 2) * Fraction(100, 25)


def test_only_the_value_changes_all_tables_of_a_measure_under_replacement() -> None:
    """Three tables of values of 0 to 4 at scale 8: 4/8 each if only the value changes, (4 + 4)/8 if all cells do."""
    schema = with_measure(0, 4)
    noise = Noise(NoiseKind.LAPLACE, 8.0)
    requests = [Request(Cells(names, summed=Summed("pay")), noise) for names in (("a0",), ("a1",), ())]
    assert privacy_cost(requests, schema, "replace", currency="epsilon") == 1 + 1 + Fraction(1, 2) - Fraction(1, 2)


# Plans


def test_plans_hold_sums_in_their_json_and_refuse_others() -> None:
    schema = with_measure(0, 20, missing="leave out")
    queries = [Cells(("a0",)), Cells(("a0",), summed=Summed("pay")), Cells((), summed=Summed("pay", values=False))]
    grouped = Cells(("a1",), {"a1": [0, 0, 1]}, Summed("pay"))
    for query in (*queries, grouped):
        assert query_from_dict(query.to_dict()) == query
    assert queries[1].to_dict() == {"cells": ["a0"], "of": "pay"}
    assert queries[2].to_dict() == {"cells": [], "having": "pay"}
    noise = Noise(NoiseKind.LAPLACE, 100.0)
    requests = tuple(Request(query, noise) for query in queries)
    tables, budget = Workload([("a0",)]), Budget(epsilon=1)
    plan = Plan(schema, requests, strategy="x", workload=tables, budget=budget, neighbours=Neighbours.ADD_REMOVE)
    assert Plan.from_dict(plan.to_dict()).requests == requests
    assert plan.cost == Fraction(1 + 20 + 1, 100)
    assert [group.query for group in plan.measuring] == [queries[0]]
    for wrong in ({"contrast": ["a0"], "of": "pay"}, {"cells": [], "of": 1}, {"cells": [], "of": "x", "having": "x"}):
        with pytest.raises(QueryError):
            query_from_dict(wrong)
    with pytest.raises(QueryError, match="only cells can sum a measure"):
        Product(("a0",), Contrast(("a0",)).along, Summed("pay"))
    with pytest.raises(QueryError, match="unknown measure 'hours'"):
        Plan(
            schema,
            (Request(Cells((), summed=Summed("hours")), noise),),
            strategy="x",
            workload=tables,
            budget=budget,
            neighbours=Neighbours.REPLACE,
        )


def test_a_sum_is_not_charged_as_a_count_of_the_same_table() -> None:
    """Requests are grouped by what they sum: the same table and noise, twenty times the cost."""
    schema, noise = with_measure(0, 20), Noise(NoiseKind.LAPLACE, 20.0)
    asked = [Request(Cells(("a0",), summed=summed), noise) for summed in (Summed(), Summed("pay"))]
    costs = [privacy_cost([each], schema, "add-remove", currency="epsilon") for each in asked]
    assert costs == [Fraction(1, 20), 1]
    assert privacy_cost(asked, schema, "add-remove", currency="epsilon") == Fraction(21, 20)


def test_matrices_beside_sums_are_never_under_charged() -> None:
    schema = with_measure(0, 3, centre=1)
    noise = Noise(NoiseKind.LAPLACE, 5.0)
    sums = [Request(Cells((), summed=Summed("pay")), noise), Request(Cells(("a1",), summed=Summed("pay")), noise)]
    matrix = Request(Kronecker(("a1",), {"a1": [[1, 0, 0], [1, 1, 0], [1, 1, 1]]}), noise)
    cost = privacy_cost([*sums, matrix], schema, "replace", currency="epsilon")
    apart = [privacy_cost(each, schema, "replace", currency="epsilon") for each in (sums, [matrix])]
    assert cost == sum(apart)


def test_a_wide_schema_is_charged_one_by_one() -> None:
    """Beyond twelve attributes in use: the sum of single costs, which is never too low."""
    schema = Schema(schema_of(*(2,) * 14).attributes, measures=[Measure("pay", 0, 10, centre=5)])
    noise = Noise(NoiseKind.GAUSSIAN, 10.0)
    requests = [Request(Cells((name,), summed=Summed("pay")), noise) for name in schema.names]
    assert privacy_cost(requests, schema, "replace", currency="rho") == 14 * Fraction(100, 200)


def test_a_budget_that_is_exceeded_is_refused() -> None:
    request = Request(Cells((), summed=Summed("pay")), Noise(NoiseKind.LAPLACE, 1.0))
    with pytest.raises(PlanError, match="costs more than its budget"):
        Plan(
            with_measure(0, 20),
            (request,),
            strategy="x",
            workload=Workload([("a0",)]),
            budget=Budget(epsilon=1),
            neighbours=Neighbours.ADD_REMOVE,
        )
