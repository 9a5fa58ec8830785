"""Claimed sensitivities against brute force over every pair of neighbouring small tables."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest

from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request
from crosstally.query.linear import Linear, Term
from crosstally.query.queries import Cells, Contrast, Query, sensitivity_of_tables
from crosstally.schema import Attribute, Outside, Schema, Unit
from crosstally.workload import Workload
from reference_privacy import answer, brute_force_cost, brute_force_sensitivity, units


def small(shape: tuple[int, ...], max_rows: int | None, outside: Outside = Outside.REFUSE) -> Schema:
    names = "abc"[: len(shape)]
    attributes = [
        Attribute(name, [f"{name}{i}" for i in range(n)], outside=outside if name == "a" else Outside.REFUSE)
        for name, n in zip(names, shape, strict=True)
    ]
    return Schema(attributes, None if max_rows is None else Unit("id", max_rows))


SCHEMAS = {
    "2x2, rows": small((2, 2), None),
    "2x2, rows, drop": small((2, 2), None, Outside.DROP),
    "2x2, units of 2": small((2, 2), 2),
    "2x2, units of 2, drop": small((2, 2), 2, Outside.DROP),
    "2x3, rows": small((2, 3), None),
    "2x3, rows, drop": small((2, 3), None, Outside.DROP),
    "2x3, units of 1": small((2, 3), 1),
    "2x3, units of 2": small((2, 3), 2),
    "2x3, units of 2, drop": small((2, 3), 2, Outside.DROP),
    "3x3, rows": small((3, 3), None),
    "2x2x3, rows": small((2, 2, 3), None),
}


def queries_of(schema: Schema) -> list[Query]:
    names = schema.names
    sets = [table for k in range(len(names) + 1) for table in combinations(names, k)]
    rising = {name: tuple(range(size)) for name, size in zip(names, schema.shape, strict=True)}
    linear = [
        Linear((Term(3, ()),)),
        Linear((Term(1, (("b", (1, *[0] * (schema["b"].size - 1))),)),)),
        Linear((Term(2, (("a", tuple(1 + i for i in rising["a"])), ("b", tuple(4 + i for i in rising["b"])))),)),
        Linear((Term(1, (("a", rising["a"]),)), Term(-2, (("b", tuple(i - 1 for i in rising["b"])),)))),
    ]
    grouped = [Cells(names, {name: (0, 1, 0)}) for name, size in zip(names, schema.shape, strict=True) if size == 3]
    return [*grouped, *map(Cells, sets), Cells(names[::-1]), *(Contrast(table) for table in sets if table), *linear]


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_every_query_moves_exactly_as_far_as_it_claims(schema: Schema, neighbours: Neighbours) -> None:
    for query in queries_of(schema):
        claimed = query.sensitivity(schema, neighbours)
        found = brute_force_sensitivity([query.to_dict()], schema.to_dict(), neighbours.value)
        assert (claimed.l1, claimed.l2_squared) == found, query


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_other_people_in_the_table_do_not_matter(neighbours: Neighbours) -> None:
    for schema in (SCHEMAS["2x2, units of 2"], SCHEMAS["2x3, rows, drop"]):
        for query in (Cells(("a", "b")), Contrast(("a", "b")), Linear((Term(2, (("a", (1, -3)),)),))):
            alone = brute_force_sensitivity([query.to_dict()], schema.to_dict(), neighbours.value)
            among = brute_force_sensitivity([query.to_dict()], schema.to_dict(), neighbours.value, others=2)
            assert alone == among


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_tables_together_move_exactly_as_far_as_claimed(schema: Schema, neighbours: Neighbours) -> None:
    sets = [table for k in range(1, len(schema.names) + 1) for table in combinations(schema.names, k)]
    for count in range(1, len(sets) + 1):
        for tables in combinations(sets, count):
            claimed = sensitivity_of_tables(len(tables), schema, neighbours)
            queries = [Cells(table).to_dict() for table in tables]
            found = brute_force_sensitivity(queries, schema.to_dict(), neighbours.value)
            assert (claimed.l1, claimed.l2_squared) == found, tables


def test_scales_of_the_design() -> None:
    """One unit, up to m rows, w tables: add-remove m w and m sqrt(w); replace 2 m w and m sqrt(2 w)."""
    schema = small((2, 3), 5)
    claims = [sensitivity_of_tables(7, schema, neighbours) for neighbours in Neighbours]
    assert [(claim.l1, claim.l2_squared) for claim in claims] == [(35, 175), (70, 350)]


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("name", ["2x2, rows", "2x3, units of 2", "2x3, rows, drop"])
@pytest.mark.parametrize("kind", [NoiseKind.LAPLACE, NoiseKind.GAUSSIAN])
def test_the_cost_of_a_plan_of_tables_is_attained(name: str, neighbours: Neighbours, kind: NoiseKind) -> None:
    schema = SCHEMAS[name]
    requests = (
        Request(Cells(("a", "b")), Noise(kind, 10.0)),
        Request(Cells(("a",)), Noise(kind, 7.5)),
        Request(Cells(("b",)), Noise(kind, 30.25)),
    )
    epsilon, rho = brute_force_cost(schema, requests, neighbours)
    if kind is NoiseKind.LAPLACE:
        assert _plan(schema, requests, neighbours, Budget(epsilon=99)).cost == epsilon
    assert _plan(schema, requests, neighbours, Budget(rho=99)).cost == rho


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("name", ["2x3, rows", "2x3, units of 2", "2x3, rows, drop", "3x3, rows"])
@pytest.mark.parametrize("kind", [NoiseKind.LAPLACE, NoiseKind.GAUSSIAN])
def test_the_cost_of_a_plan_with_groups_is_attained(name: str, neighbours: Neighbours, kind: NoiseKind) -> None:
    """Tables of groups beside tables in full, and beside a contrast: whoever changes groups changes values."""
    schema = SCHEMAS[name]
    requests = (
        Request(Cells(("a", "b"), {"b": (0, 1, 1)}), Noise(kind, 10.0)),
        Request(Cells(("b",), {"b": (0, 1, 1)}), Noise(kind, 6.5)),
        Request(Cells(("b",)), Noise(kind, 7.5)),
        Request(Cells(("a",)), Noise(kind, 30.25)),
    )
    for asked in (requests, (*requests, Request(Contrast(("b",)), Noise(kind, 20.0)))):
        epsilon, rho = brute_force_cost(schema, asked, neighbours)
        if kind is NoiseKind.LAPLACE:
            assert _plan(schema, asked, neighbours, Budget(epsilon=99)).cost == epsilon
        assert _plan(schema, asked, neighbours, Budget(rho=99)).cost == rho


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("name", ["2x3, rows", "2x3, units of 2", "3x3, rows"])
def test_the_cost_of_a_plan_of_contrasts_is_never_below_what_is_attained(name: str, neighbours: Neighbours) -> None:
    schema = SCHEMAS[name]
    sets = [("a",), ("b",), ("a", "b")]
    requests = tuple(Request(Contrast(table), Noise(NoiseKind.GAUSSIAN, 5.0 + i)) for i, table in enumerate(sets))
    epsilon, rho = brute_force_cost(schema, requests, neighbours)
    cost = _plan(schema, requests, neighbours, Budget(rho=999)).cost
    assert epsilon is None
    assert cost == rho if neighbours is Neighbours.ADD_REMOVE else cost >= rho


def test_brute_force_on_a_case_done_by_hand() -> None:
    """A binary attribute, epsilon 1/2 + 1/4 from two Laplace requests; replaced rows move two cells."""
    schema = small((2,), None)
    requests = (
        Request(Cells(("a",)), Noise(NoiseKind.LAPLACE, 2.0)),
        Request(Contrast(("a",)), Noise(NoiseKind.LAPLACE, 4.0)),
    )
    both = brute_force_cost(schema, requests, Neighbours.ADD_REMOVE)
    assert both == (Fraction(3, 4), Fraction(1, 8) + Fraction(1, 32))
    assert brute_force_cost(schema, requests, Neighbours.REPLACE) == (Fraction(3, 2), Fraction(1, 2) + Fraction(1, 8))
    assert len(units(schema.to_dict())) == 2
    assert len(units(small((2, 2), 2).to_dict())) == 1 + 4 + 10
    assert answer({"contrast": ["b"]}, small((2, 3), None).to_dict(), ((0, 0), (1, 2))) == [1, -2, 1]


def _plan(schema: Schema, requests: tuple[Request, ...], neighbours: Neighbours, budget: Budget) -> Plan:
    return Plan(schema, requests, strategy="test", workload=Workload([("a",)]), budget=budget, neighbours=neighbours)
