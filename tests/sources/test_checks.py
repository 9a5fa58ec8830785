"""The steward's report: what does not fit, how often, with examples; hidden from logs."""

from __future__ import annotations

import pyarrow as pa

from crosstally.schema import Attribute, Schema, Unit
from crosstally.sources import ColumnReport, check

FRAME = pa.table(
    {
        "who": ["p", "p", "p", "q", None, "q", "r"],
        "sex": ["F", "F", "F", "F", "F", "?", None],
        "age": [5, 200, None, 5, 5, 5, 5],
        "town": ["a", "b", "b", "CANARY-7f3a", None, "", "b"],
    }
)
SEX = Attribute("sex", ["F", "M"], outside="drop")
AGE = Attribute("age", edges=[0, 18, 120], outside="other", missing=True)
TOWN = Attribute("town", ["a", "b", "c"])


def test_what_each_column_holds() -> None:
    report = check(FRAME, Schema((SEX, AGE, TOWN)))
    sex, age, town = report.columns
    assert (sex.outside, sex.missing, sex.never, sex.examples, sex.refused) == (1, 1, ("M",), ("?",), False)
    assert (age.outside, age.missing, age.never, age.examples, age.refused) == (1, 1, ("[18, 120]",), ("200",), False)
    assert (town.outside, town.missing, town.never, town.examples) == (1, 2, ("c",), ("CANARY-7f3a",))
    assert town.refused
    assert not report.ok
    assert (report.rows, report.dropped, report.kept) == (7, 2, 5)
    assert (report.without_id, report.beyond_bound, report.units_over_bound) == (0, 0, 0)


def test_missing_values_alone_are_refused_too() -> None:
    frame = pa.table({"town": ["a", None]})
    assert not check(frame, Schema((TOWN,))).ok
    assert check(frame, Schema((Attribute("town", ["a", "b"], missing=True),))).ok


def test_units_over_the_bound() -> None:
    report = check(FRAME, Schema((SEX, AGE), Unit("who", 1)))
    assert report.ok
    assert (report.rows, report.dropped, report.without_id) == (7, 2, 1)
    assert (report.units_over_bound, report.beyond_bound, report.kept) == (1, 2, 2)  # p has three rows, q one left
    assert [(each.max_rows, each.kept, each.lost) for each in report.losses[:3]] == [(1, 2, 2), (2, 3, 1), (3, 4, 0)]
    assert repr(report.losses[0]) == "BoundLoss(1)"
    assert report.losses[0].share == 0.5
    assert check(FRAME, Schema((SEX,), Unit("who", 3))).units_over_bound == 0
    assert [each.max_rows for each in check(FRAME, Schema((SEX,), Unit("who", 4))).losses] == [1, 2, 3, 4, 5, 10, 20]


def test_no_rows() -> None:
    report = check(FRAME.slice(0, 0), Schema((SEX, AGE, TOWN), Unit("who", 1)))
    assert report.ok
    assert (report.rows, report.kept) == (0, 0)
    assert report.columns[2].never == ("a", "b", "c")


def test_a_few_examples_are_enough() -> None:
    report = check(pa.table({"town": [f"t{i}" for i in range(50)]}), Schema((TOWN,)))
    assert report.columns[0].examples == ("t0", "t1", "t2", "t3", "t4")


def test_nothing_found_is_printed_by_accident() -> None:
    report = check(FRAME, Schema((SEX, AGE, TOWN)))
    assert repr(report) == "Report(3 columns)"
    assert repr(report.columns[2]) == str(report.columns[2]) == "ColumnReport('town')"
    assert "confidential" in (ColumnReport.__doc__ or "").lower()
