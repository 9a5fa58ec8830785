"""Queries: answers worked by hand, JSON both ways. Sensitivities are checked by brute force in tests/privacy."""

from dataclasses import dataclass

import numpy as np
import pytest

from crosstally.budget import Neighbours, Sensitivity
from crosstally.errors import QueryError, TooManyCellsError
from crosstally.query.linear import Linear, Term
from crosstally.query.operators import Operator
from crosstally.query.queries import Cells, Contrast, Product, Query
from crosstally.query.query_json import query_from_dict
from crosstally.schema import Attribute, Outside, Schema, Unit
from crosstally.typing import Integers

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
SCHEMA = Schema([Attribute("a", ["0", "1"]), Attribute("b", ["0", "1", "2"])])
COUNTS = np.array([[5, 1, 0], [2, 2, 10]])


def test_cells_are_the_counts() -> None:
    assert Cells(("a", "b")).answer(COUNTS) is COUNTS
    assert Cells(("a", "b")).shape(SCHEMA) == (2, 3)
    assert Cells(()).shape(SCHEMA) == ()


def test_a_contrast_by_hand() -> None:
    """Along a: first minus second (3, -1, -10). Along b: 3 x - sum, with sum -8."""
    assert Contrast(("a", "b")).answer(COUNTS).tolist() == [[17, 5, -22]]
    assert Contrast(("a", "b")).shape(SCHEMA) == (1, 3)
    assert Contrast(("b",)).answer(np.array([7, 3, 10])).tolist() == [1, -11, 10]


def test_sensitivities_by_hand() -> None:
    assert Cells(("a",)).sensitivity(SCHEMA, ADD) == Sensitivity(1, 1)
    assert Cells(("a",)).sensitivity(SCHEMA, REPLACE) == Sensitivity(2, 2)
    assert Cells(()).sensitivity(SCHEMA, REPLACE) == Sensitivity(0, 0)
    assert Contrast(("a",)).sensitivity(SCHEMA, ADD) == Sensitivity(1, 1)
    assert Contrast(("a",)).sensitivity(SCHEMA, REPLACE) == Sensitivity(2, 4)
    assert Contrast(("b",)).sensitivity(SCHEMA, ADD) == Sensitivity(4, 6)  # (2, -1, -1)
    assert Contrast(("b",)).sensitivity(SCHEMA, REPLACE) == Sensitivity(6, 18)  # (3, -3, 0)


def test_rows_of_one_unit_and_rows_that_may_be_dropped() -> None:
    unit = Schema(SCHEMA.attributes, Unit("id", 3))
    assert Cells(("a",)).sensitivity(unit, ADD) == Sensitivity(3, 9)
    assert Cells(("a",)).sensitivity(unit, REPLACE) == Sensitivity(6, 18)
    assert Cells(()).sensitivity(unit, REPLACE) == Sensitivity(3, 9)
    dropping = Schema([Attribute("a", ["0", "1"], outside=Outside.DROP)])
    assert Cells(()).sensitivity(dropping, REPLACE) == Sensitivity(1, 1)


def test_a_linear_query_by_hand() -> None:
    """2 x [a = 1] x (0, 1, 2)[b] - [b = 0]: 2 x (2 + 20) - 7 = 37."""
    query = Linear((Term(2, (("a", (0, 1)), ("b", (0, 1, 2)))), Term(-1, (("b", (1, 0, 0)),))))
    assert query.attributes == ("a", "b")
    assert query.answer(COUNTS) == 37
    assert query.row_values(SCHEMA).tolist() == [[-1, 0, 0], [-1, 2, 4]]
    assert query.sensitivity(SCHEMA, ADD) == Sensitivity(4, 16)
    assert query.sensitivity(SCHEMA, REPLACE) == Sensitivity(5, 25)


def test_json_both_ways() -> None:
    queries: list[Query] = [
        Cells(("a", "b")),
        Cells(()),
        Contrast(("b",)),
        Linear((Term(2, (("a", (0, 1)),)),)),
    ]
    for query in queries:
        assert query_from_dict(query.to_dict()) == query


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "must be an object with one of cells, contrast, linear, kronecker, choice or units"),
        ({"cells": "ab"}, "cells must be a list of attribute names"),
        ({"cells": [1]}, "cells must be a list of attribute names"),
        ({"contrast": []}, "a contrast must be over at least one attribute"),
        ({"linear": []}, "a linear query must have at least one term"),
        ({"linear": [{"weight": 1}]}, "a term must be an object with weight and factors"),
        ({"linear": [{"weight": 0.5, "factors": {}}]}, "weight must be a whole number below 2.31, got 0.5"),
        ({"linear": [{"weight": 1, "factors": {"a": 3}}]}, "the factor of 'a' must be a list of whole numbers"),
        ({"sum": []}, "a query must be cells, contrast, linear, kronecker, choice or units, got 'sum'"),
    ],
)
def test_what_is_not_a_query(given, message) -> None:
    with pytest.raises(QueryError, match=message):
        query_from_dict(given)


def test_a_factor_of_the_wrong_length_and_terms_that_overflow() -> None:
    with pytest.raises(QueryError, match="the factor of 'b' must have 3 numbers, got 2"):
        Linear((Term(1, (("b", (0, 1)),)),)).shape(SCHEMA)
    with pytest.raises(QueryError, match="each term must stay below"):
        Linear((Term(2**30, (("a", (2, 1)),)),)).shape(SCHEMA)
    with pytest.raises(QueryError, match="a term must name each attribute once"):
        Term(1, (("a", (0, 1)), ("a", (1, 0))))


def test_a_linear_query_over_too_many_cells() -> None:
    large = Schema([Attribute(f"a{i}", ["0", "1"]) for i in range(30)])
    query = Linear(tuple(Term(1, ((f"a{i}", (0, 1)),)) for i in range(30)))
    with pytest.raises(TooManyCellsError, match="at most 5,000,000 cells, got 1,073,741,824"):
        query.sensitivity(large, ADD)


def test_an_operator_without_json_is_not_written_as_another() -> None:
    """It would be charged as one query and read again as another."""

    @dataclass(frozen=True, slots=True, kw_only=True, eq=False)
    class Doubled(Operator):
        def matrix(self, size: int) -> Integers:
            return 2 * np.eye(size, dtype=np.int64)

    query = Product(("a",), (Doubled(),))
    with pytest.raises(QueryError, match="the operator along 'a' has no JSON"):
        query.to_dict()
