"""Workloads: which tables, how much each matters, JSON both ways."""

import pytest

from crosstally.errors import QueryError, WorkloadError
from crosstally.schema import Attribute, Schema
from crosstally.workload import Workload

SCHEMA = Schema([Attribute("a", ["0", "1"]), Attribute("b", ["0", "1", "2"]), Attribute("c", ["0", "1"])])


def test_exactly_k_and_up_to_k() -> None:
    assert Workload.all_ways(SCHEMA, 2).tables == (("a", "b"), ("a", "c"), ("b", "c"))
    assert Workload.up_to(SCHEMA, 2).tables == (("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c"))
    assert Workload.all_ways(SCHEMA, 2).cells(SCHEMA) == 6 + 4 + 6


def test_tables_take_the_order_of_the_schema() -> None:
    assert Workload([("c", "a")], [2]).for_schema(SCHEMA) == Workload([("a", "c")], [2])
    with pytest.raises(QueryError, match="unknown attribute 'z'"):
        Workload([("z",)]).for_schema(SCHEMA)


def test_json_both_ways() -> None:
    for workload in (Workload.up_to(SCHEMA, 2), Workload([("a",), ("b",)], [1, 0.5])):
        assert Workload.from_dict(workload.to_dict()) == workload


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tables": []}, "tables must not be empty"),
        ({"tables": "ab"}, "tables must be a list, got str"),
        ({"tables": ["ab"]}, "each table must be a list of attribute names, got 'ab'"),
        ({"tables": [[1]]}, "each table must be a list of attribute names, got 1 in one"),
        ({"tables": [["a", "a"]]}, "a table must name each attribute once, got a x a"),
        ({"tables": [["a", "b"], ["b", "a"]]}, "tables must differ, got b x a twice"),
        ({"tables": [["a"]], "weights": [1, 2]}, "weights must be one for each table, got 2 for 1"),
        ({"tables": [["a"]], "weights": [0]}, "each weight must be a positive number, got 0"),
        ({"tables": [["a"]], "weights": [-1]}, "each weight must be a positive number, got -1"),
        ({"tables": [["a"]], "weights": ["1"]}, "each weight must be a positive number, got '1'"),
        ({"table": [["a"]]}, "workload: unknown field 'table'; did you mean 'tables'?"),
        (3, "workload must be an object, got int"),
    ],
)
def test_errors_name_the_field(given, message) -> None:
    with pytest.raises(WorkloadError) as error:
        Workload.from_dict(given)
    assert str(error.value) == message


@pytest.mark.parametrize("k", [0, 4, True, 1.5])
def test_k_out_of_range(k) -> None:
    with pytest.raises(WorkloadError, match="k must be a whole number from 1 to 3"):
        Workload.all_ways(SCHEMA, k)


def test_too_many_tables() -> None:
    large = Schema([Attribute(f"a{i}", ["0", "1"]) for i in range(100)])
    with pytest.raises(WorkloadError, match="at most 2,000,000 tables, got 3,921,225"):
        Workload.all_ways(large, 4)
