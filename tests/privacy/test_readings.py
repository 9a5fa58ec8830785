"""Sensitivity with a reading, by brute force: every table of raw rows, every unit, counted by the code itself.

What the raw rows mean is said by hand beside them; the reference knows no rule and no date.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product

import pyarrow as pa
import pytest

from crosstally.errors import SourceError
from crosstally.schema import Schema
from crosstally.sources import check, count

TABLES = [(), ("sex",), ("quarter",), ("sex", "quarter"), ("sex", "year", "quarter")]
SCHEMA = {
    "crosstally-schema": 1,
    "attributes": [
        {"name": "sex", "values": ["Female", "Male"], "missing": True},
        {"name": "year", "values": ["2023", "2024"], "outside": "other"},
        {"name": "quarter", "values": ["2023-Q4", "2024-Q1"], "outside": "drop"},
    ],
    "reading": {
        "trim": True,
        "missing": ["NA"],
        "columns": {
            "sex": {"column": "S", "groups": {"Female": ["F", "w"]}, "ignore_case": True},
            "year": {"column": "BORN", "date": {"into": "year"}},
            "quarter": {"column": "BORN", "date": {"into": "quarter"}},
            "person": {"column": "ID"},
        },
    },
}
SEXES = {" f": 0, "FEMALE": 0, "W": 0, "Male": 1, "NA": 2, "": 2}  # what is written, and its cell
BORN = {
    "2023-12-31": (0, 0),
    "2024-01-01": (1, 1),
    " 2024-03-31T12:00": (1, 1),
    "2025-01-01": (2, None),
}  # None: dropped

RawRow = tuple[str, str]
RAW = [(sex, born) for sex, born in product(SEXES, BORN) if sex in (" f", "NA") or born == "2024-01-01"]


def schema_of(max_rows: int | None) -> Schema:
    """The schema, with a unit where a bound is given."""
    given = dict(SCHEMA)
    if max_rows is None:
        columns = {name: rule for name, rule in SCHEMA["reading"]["columns"].items() if name != "person"}  # type: ignore[index]
        given["reading"] = {**SCHEMA["reading"], "columns": columns}
    else:
        given["unit"] = {"id": "person", "max_rows": max_rows}
    return Schema.from_dict(given)


def counts_of(schema: Schema, units: list[tuple[RawRow, ...]]) -> list[list[int]]:
    """The counts of every table, by the code under test."""
    rows = [(f" {number}", *row) for number, unit in enumerate(units) for row in unit]
    names = ("ID", "S", "BORN")
    frame = pa.table({name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(names)})
    return [table.counts.ravel().tolist() for table in count(frame, schema, TABLES)]


def cells_of(row: RawRow) -> tuple[int, ...] | None:
    """The cells of one raw row, by hand; None when it is dropped."""
    year, quarter = BORN[row[1]]
    return None if quarter is None else (SEXES[row[0]], year, quarter)


def test_the_cell_of_a_row_depends_on_that_row_alone() -> None:
    """Counts of any three rows are the sum of what each would be counted as by hand."""
    schema = schema_of(None)
    for rows in combinations_with_replacement(RAW, 3):
        found = counts_of(schema, [(row,) for row in rows])
        expected = [[0] * len(table) for table in found]
        for cell in filter(None, map(cells_of, rows)):
            sex, year, quarter = cell
            places = (0, sex, quarter, sex * 2 + quarter, (sex * 3 + year) * 2 + quarter)
            for table, place in zip(expected, places, strict=True):
                table[place] += 1
        assert found == expected, rows


def neighbours(max_rows: int) -> Iterator[tuple[list[tuple[RawRow, ...]], tuple[RawRow, ...]]]:
    """Some other units, and every unit of up to one row more than count."""
    some = RAW[::3]
    others: list[list[tuple[RawRow, ...]]] = [[], [(RAW[0], RAW[5])], [(RAW[1],), tuple(RAW[:4])]]
    for crowd in others:
        for rows in range(max_rows + 2):
            for unit in combinations_with_replacement(some, rows):
                yield crowd, unit


@pytest.mark.parametrize("max_rows", [1, 2])
def test_one_unit_moves_each_table_by_its_bound_and_no_more(max_rows: int) -> None:
    schema, reached = schema_of(max_rows), 0
    for crowd, unit in neighbours(max_rows):
        without, with_unit = counts_of(schema, crowd), counts_of(schema, [*crowd, unit])
        for before, after in zip(without, with_unit, strict=True):
            moved = [b - a for a, b in zip(before, after, strict=True)]
            assert min(moved, default=0) >= 0, "adding a unit takes no other row away"
            assert sum(moved) <= max_rows
            reached = max(reached, sum(moved))
    assert reached == max_rows


def test_ids_are_read_by_the_same_rules() -> None:
    """Blanks around an id make no other person, and a missing token is no person at all."""
    frame = pa.table({"ID": ["1", " 1", "1 ", "NA"], "S": ["F"] * 4, "BORN": ["2024-01-01"] * 4})
    assert count(frame, schema_of(2), [()])[0].counts == 2
    report = check(frame, schema_of(2))
    assert (report.without_id, report.beyond_bound, report.units_over_bound) == (1, 1, 1)


@pytest.mark.parametrize(
    "born",
    [
        pa.array(["2024-01-01", None, "2023-12-31"]).dictionary_encode(),
        pa.array([19_723, None, 19_722], pa.int32()).cast(pa.date32()),
        pa.array(["2024-01-01", None, "2023-12-31"], pa.string_view()),
        pa.array([1_704_067_200, None, 1_704_067_199], pa.int64()).cast(pa.timestamp("s")),
    ],
    ids=["dictionary", "date", "view", "timestamp"],
)
def test_every_type_of_column_is_read_alike(born: pa.Array) -> None:
    frame = pa.table({"S": pa.array(["F", "W", "male"]), "BORN": born})
    assert count(frame, schema_of(None), [("quarter",)])[0].counts.tolist() == [1, 1]


def test_no_error_names_a_column_of_the_file() -> None:
    frame = pa.table({"x": ["F"]})
    with pytest.raises(SourceError) as error:
        count(frame, schema_of(1), [()])
    assert "for 'sex', for 'year', for 'person'" in str(error.value)
    assert not any(name in str(error.value) for name in ("BORN", "ID"))
