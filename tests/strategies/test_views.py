"""Views: the numbers of PriView's sections 3.2, 4.1 and 4.5 as literals, and the plans that follow from the rule."""

import math
from fractions import Fraction
from itertools import combinations

import pytest

import crosstally as ct
from crosstally.errors import PlanError
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells
from crosstally.strategies import Views
from crosstally.strategies.views import choose_cover, noise_error, size_score


def binary(d: int) -> ct.Schema:
    return ct.Schema([ct.Attribute(f"a{i}", ["0", "1"]) for i in range(d)])


@pytest.mark.parametrize(
    ("attributes", "views", "rows", "error"),
    [
        (32, 20, 900_000, 0.000473), (32, 106, 900_000, 0.001089), (32, 620, 900_000, 0.002635),
        (45, 42, 647_377, 0.00135), (45, 326, 647_377, 0.00375), (64, 72, 1_000_000, 0.00163),
    ],
)  # fmt: skip
def test_equation_5(attributes, views, rows, error) -> None:
    found = noise_error(attributes=attributes, size=8, views=views, rows=rows, epsilon=1)
    assert found == pytest.approx(error, abs=5e-6)


@pytest.mark.parametrize(
    ("attributes", "rows", "epsilon", "sizes", "cover"),
    [
        (32, 900_000, 1.0, {2: 20, 3: 106, 4: 620}, 3),
        (32, 900_000, 0.1, {2: 20, 3: 106, 4: 620}, 2),
        (45, 647_377, 1.0, {2: 42, 3: 326}, 2),
        (64, 1_000_000, 1.0, {2: 72}, 2),
    ],
)
def test_the_choice_of_cover_in_the_papers_four_cases(attributes, rows, epsilon, sizes, cover) -> None:
    def error(t: int) -> float:
        return noise_error(attributes=attributes, size=8, views=sizes[t], rows=rows, epsilon=epsilon)

    assert choose_cover(list(sizes), error) == cover


def test_the_choice_when_no_error_lies_in_the_range() -> None:
    assert choose_cover([2, 3, 4], {2: 0.0001, 3: 0.0005, 4: 0.02}.__getitem__) == 3
    assert choose_cover([2, 3, 4], {2: 0.0001, 3: 0.0005, 4: 0.0009}.__getitem__) == 4
    assert choose_cover([2, 3, 4], {2: 0.01, 3: 0.05, 4: 0.09}.__getitem__) == 2


def test_the_two_tables_of_view_sizes() -> None:
    """Section 4.5, for sizes 5 to 12."""
    pairs = [0.283, 0.267, 0.269, 0.286, 0.314, 0.356, 0.411, 0.485]
    triples = [0.094, 0.067, 0.054, 0.048, 0.045, 0.044, 0.046, 0.048]
    assert [size_score(size, 2) for size in range(5, 13)] == pytest.approx(pairs, abs=1e-3)
    assert [size_score(size, 3) for size in range(5, 13)] == pytest.approx(triples, abs=1e-3)


def test_six_views_of_sixteen_attributes() -> None:
    """Section 4.1: the squared error of a pair read from one of six 8-way views is 2^2 x 6^2 x 2^6 = 9216 V_u."""
    views = [(*range(i, i + 4), *range(j, j + 4)) for i, j in combinations(range(0, 16, 4), 2)]
    assert len(views) == 6
    cells, summed, scale_squared = 4, 2**6, 6**2
    assert cells * summed * scale_squared == 9216
    schema = binary(16)
    design = ct.strategies.covering_design(attributes=16, size=8, cover=2)
    assert len(design) == 6
    plan = Views(cover=2).plan(schema, None, ct.Budget(epsilon=1))
    assert {r.noise.scale for r in plan.requests} == {6.0}


def test_a_plan_measures_every_view_alike() -> None:
    plan = Views(size=8, cover=3).plan(binary(32), None, ct.Budget(epsilon=1))
    number = len(plan.requests)
    assert number <= 108
    assert {r.noise.scale for r in plan.requests} == {float(number)}
    assert plan.cost <= 1
    covered = {triple for r in plan.requests for triple in combinations(r.query.attributes, 3)}
    assert len(covered) == math.comb(32, 3)


def test_the_number_of_rows_is_bought_with_a_stated_share() -> None:
    schema, budget = binary(32), ct.Budget(epsilon=1)
    first = Views().plan(schema, None, budget)
    assert [r.query for r in first.requests] == [Cells(())]
    assert (first.budget, first.own_budget) == (budget, ct.Budget(epsilon=Fraction(1, 100)))
    seen = Measurement(Cells(()), 900_123, variance=2e4, noise=first.requests[0].noise, origin="test")
    second = Views().next(first, [seen])
    assert (second.budget, second.later) == (ct.Budget(epsilon=Fraction(99, 100)), ())
    assert len(second.requests) == len(ct.strategies.covering_design(attributes=32, size=8, cover=3))
    with pytest.raises(PlanError, match="the number of rows, which was not measured"):
        Views().next(first, [])


def test_a_public_number_of_rows_is_not_bought() -> None:
    plan = Views(rows=900_000).plan(binary(32), None, ct.Budget(epsilon=0.1))
    assert len(plan.requests) == 20
    assert plan.budget == ct.Budget(epsilon=0.1)


def test_a_workload_is_covered_without_the_number_of_rows() -> None:
    schema = binary(32)
    plan = Views().plan(schema, ct.Workload.all_ways(schema, 2), ct.Budget(rho=0.5))
    assert len(plan.requests) == 20
    assert plan.covers


@pytest.mark.parametrize("ways", [4, 6])
def test_wide_named_tables_get_the_views_that_serve_all_tables(ways: int) -> None:
    """Section 4.1: not the 620 views that cover four attributes; 900,000 rows and epsilon 1 allow triples (4.5)."""
    schema, budget = binary(32), ct.Budget(epsilon=1)
    workload = ct.Workload.all_ways(schema, ways) if ways == 4 else ct.Workload([schema.names[:6], schema.names[9:15]])
    first = Views().plan(schema, workload, budget)
    assert [r.query for r in first.requests] == [Cells(())]
    seen = Measurement(Cells(()), 900_123, variance=2e4, noise=first.requests[0].noise, origin="test")
    second = Views().next(first, [seen])
    assert len(second.requests) == len(ct.strategies.covering_design(attributes=32, size=8, cover=3))
    assert len(Views(rows=900_000).plan(schema, workload, ct.Budget(epsilon="0.1")).requests) == 20


@pytest.mark.parametrize("d", [3, 8, 9])
def test_flat_where_it_wins(d) -> None:
    plan = Views().plan(binary(d), None, ct.Budget(epsilon=1))
    assert [r.query for r in plan.requests] == [Cells(binary(d).names)]


def test_flat_where_noise_is_negligible() -> None:
    """2^16 cells: with a hundred million rows their noise is below 0.001 of them, so nothing needs to be guessed."""
    schema = binary(16)
    many = Views(rows=100_000_000).plan(schema, None, ct.Budget(epsilon=1))
    few = Views(rows=100_000).plan(schema, None, ct.Budget(epsilon=1))
    assert (len(many.requests), len(few.requests)) == (1, 6)


def test_mixed_cardinalities_are_limited_by_cells() -> None:
    sizes = (9, 16, 7, 15, 6, 5, 2, 2, 3, 4, 12, 2)
    schema = ct.Schema([ct.Attribute(f"a{i}", [str(v) for v in range(n)]) for i, n in enumerate(sizes)])
    plan = Views().plan(schema, None, ct.Budget(epsilon=1))
    assert plan.covers
    assert all(math.prod(schema.sizes(r.query.attributes)) <= 5000 for r in plan.requests)
    small = Views(max_cells=300).plan(schema, None, ct.Budget(epsilon=1))
    assert all(math.prod(schema.sizes(r.query.attributes)) <= 300 for r in small.requests)
    assert small.covers


@pytest.mark.parametrize(
    "options", [{"size": 1}, {"cover": 0}, {"cover": True}, {"rows_share": 1}, {"max_cells": 2}, {"rows": -1}]
)
def test_options_that_make_no_sense(options) -> None:
    with pytest.raises(PlanError, match=next(iter(options))):
        Views(**options)


def test_too_many_views_are_refused() -> None:
    with pytest.raises(PlanError, match="views"):
        Views(cover=4).plan(binary(200), None, ct.Budget(epsilon=1))
