"""Workloads: which tables, how much each matters, JSON both ways."""

import pytest

from crosstally.errors import QueryError, TooManyCellsError, WorkloadError
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
    with pytest.raises(WorkloadError, match="the number of attributes of a table must be a whole number from 1 to 3"):
        Workload.all_ways(SCHEMA, k)


def test_too_many_tables() -> None:
    large = Schema([Attribute(f"a{i}", ["0", "1"]) for i in range(100)])
    with pytest.raises(WorkloadError, match="at most 2,000,000 tables, got 3,921,225"):
        Workload.all_ways(large, 4)


def test_half_of_the_next_larger_tables() -> None:
    """Q_1*: all of one attribute, and every second pair in the schema's order: (ab), ac, (bc)."""
    assert Workload.half_more(SCHEMA, 1).tables == (("a",), ("b",), ("c",), ("a", "c"))
    eight = Schema([Attribute(f"a{i}", ["0", "1"]) for i in range(8)])
    assert [len(Workload.half_more(eight, k)) for k in (1, 2)] == [8 + 14, 28 + 28]


def test_next_larger_tables_through_one_attribute() -> None:
    """Q_1^a: all of one attribute, and the pairs with the fixed one."""
    assert Workload.through(SCHEMA, 1, "b").tables == (("a",), ("b",), ("c",), ("a", "b"), ("b", "c"))
    eight = Schema([Attribute(f"a{i}", ["0", "1"]) for i in range(8)])
    assert [len(Workload.through(eight, k, "a3")) for k in (1, 2)] == [8 + 7, 28 + 21]
    with pytest.raises(QueryError, match="unknown attribute 'z'"):
        Workload.through(SCHEMA, 1, "z")


@pytest.mark.parametrize("make", [Workload.half_more, lambda schema, k: Workload.through(schema, k, "a")])
def test_there_must_be_a_next_larger_table(make) -> None:
    with pytest.raises(WorkloadError, match="the number of attributes of a table must be a whole number from 1 to 3"):
        make(SCHEMA, 0)
    with pytest.raises(WorkloadError, match="from 1 to 3, got 4"):
        make(SCHEMA, 3)


def test_workloads_that_stand_in_order_are_left_alone() -> None:
    """The total, tables in order and tables of any lengths side by side."""
    for tables in ([()], [(), ("b",)], [("b",), ()], [("b", "c"), (), ("a", "c"), ("a",)]):
        workload = Workload(tables)
        assert workload.for_schema(SCHEMA) is workload
    mixed = Workload([("c", "a"), (), ("b",)]).for_schema(SCHEMA)
    assert mixed.tables == (("a", "c"), (), ("b",))


def test_a_table_that_is_too_large_is_named_by_its_size() -> None:
    wide = Schema([Attribute(n, [str(i) for i in range(3000)]) for n in "ab"])
    with pytest.raises(TooManyCellsError, match="the table of a x b would have 9,000,000 cells, at most 5,000,000 fit"):
        Workload([("a",), (), ("a", "b")]).for_schema(wide)


def test_tables_that_nobody_can_hold_are_left_out_of_all_ways() -> None:
    """3,000 x 3,000 cells do not fit; 3,000 x 1,000 do, and so does each pair with two values."""
    sizes = {"a": 3000, "b": 3000, "c": 1000, "d": 2}
    wide = Schema([Attribute(n, [str(i) for i in range(size)]) for n, size in sizes.items()])
    assert Workload.all_ways(wide, 2).tables == (("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d"))
    assert len(Workload.up_to(wide, 2)) == 4 + 5
    assert Workload.small_tables(wide) == Workload.up_to(wide, 2)
    with pytest.raises(TooManyCellsError, match="no table over 4 attributes has at most 5,000,000 cells"):
        Workload.all_ways(wide, 4)


def test_a_workload_is_checked_for_each_schema_that_it_is_used_with() -> None:
    made = Workload.all_ways(SCHEMA, 2)
    turned = Schema([SCHEMA[name] for name in "cba"])
    assert made.for_schema(SCHEMA) is made
    assert made.for_schema(turned).tables == (("b", "a"), ("c", "a"), ("c", "b"))
    with pytest.raises(QueryError, match="unknown attribute"):
        made.for_schema(Schema([SCHEMA["a"], SCHEMA["b"]]))


def test_attributes_of_a_workload_stand_in_the_schema_s_order() -> None:
    assert Workload([("c", "a"), ()]).attributes(SCHEMA) == ("a", "c")
    assert Workload.all_ways(SCHEMA, 1).attributes(SCHEMA) == ("a", "b", "c")
