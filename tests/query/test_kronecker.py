"""Kronecker queries: what they answer, how far one unit moves them, and what is refused."""

import numpy as np
import pytest

import crosstally as ct
from conftest import schema_of
from crosstally.errors import PlanError, QueryError
from crosstally.query.queries import Cells, Kronecker
from crosstally.query.query_json import query_from_dict
from crosstally.query.ways import matrices_of
from crosstally.strategies import LinearStrategies
from reference_linear import numbered, widest_move

FIVE = [[2, 1, 0, 0, -1], [0, 3, 1, 0, 0], [0, 0, 1, 1, 5], [1, 0, 0, -2, 0]]  # with the total it has rank 5
FULL = [[1, 1, 0], [0, 1, 1], [0, 0, 2], [1, 1, 1]]


def test_the_answer_is_the_product_of_matrices_and_contrasts() -> None:
    """By hand: first minus second along a0, then the rows of the matrix."""
    query = Kronecker(("a0", "a1"), {"a1": [[1, 2, 0], [0, 1, 1]]})
    table = np.array([[5, 1, 2], [3, 0, 7]])
    assert query.answer(table).tolist() == [[(5 - 3) + 2 * (1 - 0), (1 - 0) + (2 - 7)]]
    assert query.shape(numbered(2, 3)) == (1, 2)
    full = Kronecker(("a0", "a1"), {"a1": FULL})
    assert full.answer(table).tolist() == [[6, 3, 4, 8], [3, 7, 14, 10]]


@pytest.mark.parametrize("replace", [False, True], ids=["add-remove", "replace"])
@pytest.mark.parametrize(
    ("sizes", "query"),
    [
        ((5,), Kronecker(("a0",), {"a0": FIVE})),
        ((2, 5), Kronecker(("a0", "a1"), {"a1": FIVE})),
        ((3, 5), Kronecker(("a1", "a0"), {"a1": FIVE})),
        ((3, 3, 2), Kronecker(("a0", "a1", "a2"), {"a0": FULL, "a1": FULL})),
        ((5, 5), Kronecker(("a0", "a1"), {"a0": FIVE, "a1": FIVE[::-1]})),
    ],
)
def test_sensitivity_is_that_of_every_row_tried(sizes, query, replace) -> None:
    schema = numbered(*sizes)
    neighbours = ct.Neighbours.REPLACE if replace else ct.Neighbours.ADD_REMOVE
    found = query.sensitivity(schema, neighbours)
    assert (found.l1, found.l2_squared) == widest_move(query, schema, replace=replace)


@pytest.mark.parametrize("replace", [False, True], ids=["add-remove", "replace"])
@pytest.mark.parametrize("budget", [ct.Budget(epsilon=1), ct.Budget(rho=0.5)], ids=["pure", "rho"])
@pytest.mark.parametrize("along", ["optimal", "hierarchy", "wavelet", "prefixes", "cells"])
def test_every_linear_strategy_claims_the_sensitivity_it_has(along, budget, replace) -> None:
    schema = numbered(8, 3)
    neighbours = ct.Neighbours.REPLACE if replace else ct.Neighbours.ADD_REMOVE
    workload = ct.Workload.up_to(schema, 2).asking(a0="ranges")
    plan = LinearStrategies(along=along).plan(schema, workload, budget, neighbours=neighbours)
    queries = [request.query for request in plan.requests if request.query.matrices]
    assert len(queries) == 2
    for query in queries:
        found = query.sensitivity(schema, neighbours)
        assert (found.l1, found.l2_squared) == widest_move(query, schema, replace=replace)
    assert plan.cost <= plan.budget.amount


def test_units_of_several_rows_and_rows_that_may_be_dropped() -> None:
    query = Kronecker(("a0",), {"a0": [[9, 8]]})
    schema = numbered(2, unit={"id": "id", "max_rows": 3})
    alone, replaced = (query.sensitivity(schema, each) for each in ct.Neighbours)
    assert (alone.l1, alone.l2_squared) == (27, 9 * 81)
    assert (replaced.l1, replaced.l2_squared) == (27, 9 * 81)  # all three rows may vanish
    always_counted = query.sensitivity(numbered(2), ct.Neighbours.REPLACE)
    assert (always_counted.l1, always_counted.l2_squared) == (1, 1)


def test_large_products_have_a_bound_that_is_not_too_low() -> None:
    schema = numbered(40, 60)
    rng = np.random.default_rng(5)
    along = {"a0": rng.integers(-9, 9, (39, 40)).tolist(), "a1": rng.integers(-9, 9, (59, 60)).tolist()}
    found = Kronecker(("a0", "a1"), along).sensitivity(schema, ct.Neighbours.REPLACE)
    one = Kronecker(("a0", "a1"), along).sensitivity(schema, ct.Neighbours.ADD_REMOVE)
    assert (found.l1, found.l2_squared) == (2 * one.l1, 4 * one.l2_squared)


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        ([], "must be a list of rows"),
        ([[1, 0], [0]], "equally long"),
        ([[1.5, 0]], "whole numbers"),
        ([[True, False]], "whole numbers"),
        ([[[], 1]], "whole numbers"),
        ([[2**40, 1]], "whole numbers"),
        ([[1, 0, 0]], "at least 2 rows"),
        ([[1, 1, 1], [1, 0, 0]], "must say every cell"),
        ([[1, 0, 0], [0, 1, 0], [1, 1, 0]], "must say every cell"),
    ],
)
def test_a_matrix_that_cannot_be_used_is_refused(matrix, said) -> None:
    with pytest.raises(QueryError, match=said):
        Kronecker(("a0",), {"a0": matrix})


def test_queries_that_do_not_go_together_are_refused() -> None:
    query = Kronecker(("a0",), {"a0": FIVE})
    with pytest.raises(PlanError, match="values in groups"):
        matrices_of([query, Cells(("a1",), {"a1": [0, 0, 1]})])
    with pytest.raises(QueryError, match="one row less than values"):
        Kronecker(("a0", "a1"), {"a0": FIVE, "a1": FULL})
    with pytest.raises(QueryError, match="along at least one"):
        Kronecker(("a0",), {})
    with pytest.raises(QueryError, match="only attributes of the query"):
        Kronecker(("a0",), {"a1": FULL})
    with pytest.raises(QueryError, match="each of its 3 values, got 5"):
        query.shape(numbered(3))


def test_it_is_the_same_after_json() -> None:
    query = Kronecker(("a1", "a0"), {"a0": FIVE})
    assert query_from_dict(query.to_dict()) == query
    named = {"kronecker": ["a1", "a0"], "matrices": ["a0"]}
    assert query_from_dict(named, matrices=dict(query.matrices)) == query
    with pytest.raises(QueryError, match="whose matrices are given"):
        query_from_dict(named)


def by_brute_force(matrices: list[list[list[int]]]) -> tuple[int, int]:
    """The largest L1 and squared L2 distance of two columns of a Kronecker product, in whole numbers of any size."""
    columns = [[1]]
    for matrix in matrices:
        own = [[row[value] for row in matrix] for value in range(len(matrix[0]))]
        columns = [[a * b for a in done for b in column] for done in columns for column in own]
    pairs = [[abs(a - b) for a, b in zip(one, other, strict=True)] for one in columns for other in columns]
    return max(map(sum, pairs)), max(sum(number**2 for number in pair) for pair in pairs)


@pytest.mark.parametrize("attributes", [1, 2, 3])
def test_sensitivities_of_large_entries_are_exact(attributes) -> None:
    """With three matrices L1 is about 2^61, and squared L2 about 2^121, far beyond 64 bits."""
    matrix = [[2**20, 0], [0, 2**20], [3, 5]]
    schema = schema_of(*[2] * attributes)
    query = Kronecker(schema.names, dict.fromkeys(schema.names, matrix))
    found = query.sensitivity(schema, ct.Neighbours.REPLACE)
    assert (found.l1, found.l2_squared) == by_brute_force([matrix] * attributes)


@pytest.mark.parametrize("neighbours", list(ct.Neighbours))
def test_a_product_beyond_64_bits_is_refused(neighbours) -> None:
    """2^80 is 0 in 64 bits: such a query seemed to move by nothing when a row is replaced, and cost nothing."""
    matrix = [[2**20, 0], [0, 2**20]]
    schema = schema_of(2, 2, 2, 2)
    query = Kronecker(schema.names, dict.fromkeys(schema.names, matrix))
    with pytest.raises(QueryError, match="by less than 2\\^62 in all, got 1,208,925,819,614,629,174,706,176"):
        query.sensitivity(schema, neighbours)
