"""A draft schema fits the data, leaves out what cannot be an attribute, and says so."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from crosstally.errors import SourceError
from crosstally.schema import About, Attribute, Unit
from crosstally.sources import check, count, draft
from crosstally.sources.drafting.edges import round_edges

ROWS = 400
FRAME = pa.table(
    {
        "name": [f"person {i}" for i in range(ROWS)],
        "number": list(range(1_000, 1_000 + ROWS)),
        "sex": ["Female", "Male"] * (ROWS // 2),
        "age": [17 + i % 74 for i in range(ROWS)],
        "children": [i % 11 for i in range(ROWS)],
        "weight": [50 + i / 8 for i in range(ROWS)],
        "owner": [True, False, None, True] * (ROWS // 4),
        "country": ["here"] * ROWS,
        "only": ["yes", None] * (ROWS // 2),
        "nothing": pa.nulls(ROWS, pa.string()),
        "raw": [b"x"] * ROWS,
    }
)
EXPECTED = (
    Attribute("sex", ["Female", "Male"]),
    Attribute(
        "age",
        edges=[0, 18, 25, 35, 45, 55, 65, 75, 120],
        bins=["0-17", "18-24", "25-34", "35-44", "45-54", "55-64", "65-74", "75+"],
        measured_in="years",
    ),
    Attribute("children", [str(i) for i in range(11)]),
    Attribute("weight", edges=[50, 60, 70, 80, 90, 100]),
    Attribute("owner", ["false", "true"], missing=True),
    Attribute("only", ["yes"], missing=True),
)


def test_a_draft_of_each_kind_of_column() -> None:
    drafted = draft(FRAME)
    assert drafted.schema.draft
    assert drafted.schema.attributes == EXPECTED
    assert drafted.left_out == (
        ("name", "most of its values occur in one row, like a name or an id"),
        ("number", "every row has a different number, like an id"),
        ("country", "it has a single value"),
        ("nothing", "it has no values"),
        ("raw", "its type is binary"),
    )
    assert repr(drafted) == "Draft(6 attributes, 5 left out)"


def test_a_draft_refuses_nothing_of_its_own_data(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    FRAME.drop_columns(["raw"]).to_pandas().to_csv(path, index=False)
    drafted = draft(path)
    assert drafted.schema.names == tuple(attribute.name for attribute in EXPECTED)
    assert drafted.schema["age"] == EXPECTED[1]
    assert check(path, drafted.schema).ok
    assert count(path, drafted.schema, [()])[0].counts == ROWS


def test_how_many_values_are_labels() -> None:
    frame = pa.table({"town": [f"t{i % 30}" for i in range(90)]})
    assert draft(frame).schema["town"].size == 30
    with pytest.raises(SourceError, match="no column can be an attribute"):
        draft(frame, max_values=29)


def test_51_states_are_labels_and_no_ids() -> None:
    """They were left out as "like a name or an id", since they are more than fifty."""
    states, streets = ([f"S {i % number}" for i in range(1_000)] for number in (51, 300))
    drafted = draft(pa.table({"state": states, "street": streets}))
    assert drafted.schema["state"].size == 51
    assert drafted.left_out == (("street", "it has more than 100 different values: group them, or raise --max-values"),)


def test_spellings_and_missing_tokens_become_a_reading() -> None:
    frame = pa.table(
        {"sex": ["Female", "female", " Female", "Male", "Male", "?", None], "age": ["17", "n/a", *"34567"]}
    )
    drafted = draft(frame)
    assert drafted.schema["sex"] == Attribute("sex", ["Female", "Male"], missing=True)
    assert drafted.schema["age"] == Attribute("age", ["3", "4", "5", "6", "7", "17"], missing=True)
    assert drafted.schema.steward_dict()["reading"] == {
        "columns": {
            "sex": {"groups": {"Female": [" Female", "female"]}, "missing": ["?"]},
            "age": {"missing": ["n/a"]},
        }
    }
    assert drafted.columns[0].frequencies == (("Female", 3), ("Male", 2))
    assert count(frame, drafted.schema, [("sex",)])[0].counts.tolist() == [3, 2, 2]


def test_labels_of_few_rows_are_flagged() -> None:
    frame = pa.table({"answer": ["yes"] * 50 + ["no"] * 10 + ["maybe"] * 9 + ["perhaps"]})
    (column,) = draft(frame).columns
    assert dict(column.frequencies) == {"yes": 50, "no": 10, "maybe": 9, "perhaps": 1}
    assert column.rare() == (("maybe", 9), ("perhaps", 1))
    assert repr(column) == "DraftedColumn('answer')"


def test_a_survey_weight_is_left_out_and_said() -> None:
    weights = {"pwgtp": [50 + i * 7 % 90 for i in range(100)], "weight": [50 + i % 40 for i in range(100)]}
    drafted = draft(pa.table({"sex": ["F", "M"] * 50, **weights}))
    assert drafted.schema.names == ("sex", "weight")  # a person's, in kilograms
    assert drafted.schema.about == About(counts="records")
    assert drafted.left_out == (
        ("pwgtp", "it looks like the weights of a survey: tables count records, not the population"),
    )


def test_ids_that_come_again_are_the_unit() -> None:
    """100 people: 90 with one row, 9 with three, one with 40.

    A bound of 1, 2, 3, 5 leaves out 57, 47, 37, 35 rows: 28.5, 23.5, 18.5, 17.5 in each cell of sex, and noise has a
    deviation of 1.4, 2.8, 4.2, 7.1. The sum is least for 3.
    """
    ids = list(range(90)) + [i for i in range(90, 99) for _ in range(3)] + [99] * 40
    frame = pa.table({"person_id": ids, "household_id": [i // 2 for i in ids], "sex": [("F", "M")[i % 2] for i in ids]})
    drafted = draft(frame, max_values=40)
    assert drafted.schema.unit == Unit("person_id", 3)
    assert drafted.schema.unit.from_data
    assert drafted.schema.names == ("sex",)
    assert drafted.units is not None
    units = drafted.units
    assert (len(units.each), units.each.sum(), units.median, units.most) == (100, 157, 1, 40)
    assert drafted.ids == {}
    assert [name for name, _ in drafted.left_out] == ["person_id", "household_id"]
    alone = draft(pa.table({"id": list(range(100)), "sex": ["F", "M"] * 50}))
    assert (alone.schema.unit, alone.units, alone.ids) == (None, None, {"id": False})
    assert alone.left_out == (("id", "every row has a different number, like an id"),)


def test_people_of_a_panel_are_the_unit() -> None:
    """Few ids, each eight times or at most twenty: they are people, not places with hundreds of rows."""
    sex = pa.array(["F", "M"] * 400)
    eight = draft(pa.table({"person_id": [i for i in range(100) for _ in range(8)], "sex": sex}))
    assert (eight.schema.unit, eight.schema.names) == (Unit("person_id", 8), ("sex",))
    some = draft(pa.table({"id": [i % 41 for i in range(800)], "sex": sex}))
    assert some.schema.unit is not None
    places = [f"d{i % (30 + i % 7)}" for i in range(4000)]
    many = draft(pa.table({"district_id": places, "sex": ["F", "M"] * 2000}))
    assert (many.schema.unit, many.schema.names, many.ids) == (None, ("district_id", "sex"), {"district_id": True})
    kinds = draft(pa.table({"person_id_type": ["driver", "rider"] * 2000, "sex": ["F", "M"] * 2000}))
    assert kinds.ids == {}  # nobody is asked whether each of two values is a person


def test_a_bound_weighs_what_it_leaves_out_against_noise() -> None:
    """Two attributes of two values: pairs have four cells, and noise has a deviation of 2.83 times the bound.

    With n people of two rows a bound of 1 leaves out n rows, n / 4 a cell: worth a noise of 2.83 for n above 11.
    """
    for people, bound in ((30, 2), (8, 1)):
        ids = [i for i in range(people) for _ in range(2)] + list(range(people, 100))
        own = {"id": ids, "a": [("x", "y")[i % 2] for i in ids], "b": [("u", "v")[i // 2 % 2] for i in ids]}
        drafted = draft(pa.table(own))
        assert drafted.schema.unit == Unit("id", bound), people


def test_codes_are_labels_and_amounts_are_bins() -> None:
    rows = 2_000
    codes = [0, 1, 100, 101, 102, 103, *range(200, 215), 301, 302, 303, 996, 997, 999]
    frame = pa.table(
        {
            "plz": [f"{3000 + 7 * (i % 40)}" for i in range(rows)],
            "county": [f"{i % 40:03d}" for i in range(rows)],
            "drug": [codes[i % len(codes)] for i in range(rows)],
            "loss": [0 if i % 20 else 37 * (i % 97) + 100 for i in range(rows)],
        }
    )
    schema = draft(frame).schema
    assert schema["plz"].values[:2] == ("3000", "3007")
    assert schema["county"].values[:2] == ("000", "001")
    assert schema["drug"].values == tuple(map(str, codes))
    assert schema["loss"].edges == (0, 1, 500, 1000, 2000, 5000)
    assert schema["loss"].bins == ("0", "1-499", "500-999", "1000-1999", "2000-5000")
    assert schema["loss"].from_data


def test_numbers_that_stand_apart_are_told() -> None:
    frame = pa.table({"hours": [*range(61), 96, 97, 99] * 3})
    (column,) = draft(frame).columns
    assert column.attribute.bins[:2] == ("0-19", "20-39")
    assert any("standing apart: 96, 97, 99;" in remark for remark in column.remarks)


def test_ages_with_codes_for_what_is_missing() -> None:
    frame = pa.table({"age": [*range(91), 998, 999] * 3})
    drafted = draft(frame)
    assert drafted.schema["age"].labels[-2:] == ("75+", "(missing)")
    assert drafted.schema.steward_dict()["reading"] == {"columns": {"age": {"missing": ["998", "999"]}}}
    assert drafted.columns[0].remarks == ("counted as missing: 998, 999",)
    assert count(frame, drafted.schema, [("age",)])[0].counts.tolist()[-2:] == [48, 6]


def test_codes_below_zero_are_no_amounts() -> None:
    pay, degrees = [1000.5 + 10 * i for i in range(30)], [-9.0, -3.5, *range(1, 29)]
    ages = [*range(18, 46), -9, -1]
    drafted = draft(pa.table({"pay": [*pay[2:], -99, -8] * 2, "degrees": degrees * 2, "age": ages * 2}))
    assert drafted.schema["pay"].edges == (1000, 1050, 1100, 1150, 1200, 1250, 1300)
    assert drafted.schema["degrees"].edges == (-10, -5, 0, 5, 10, 15, 20, 25, 30)
    assert drafted.schema["age"].bins[0] == "0-17"
    assert drafted.schema.steward_dict()["reading"] == {
        "columns": {"pay": {"missing": ["-8", "-99"]}, "age": {"missing": ["-1", "-9"]}}
    }


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["2020-01-31", "2024-06-01"], {"values": ["2020", "2021", "2022", "2023", "2024"]}),
        (["31.1.2023", "1.12.2023"], {"values": ["2023-Q1", "2023-Q2", "2023-Q3", "2023-Q4"]}),
        (["12/31/2023", "1/2/2024"], {"values": ["2023-12", "2024-01"]}),
        (
            ["1950-01-01", "2001-12-31T10:00"],
            {
                "edges": [1950, 1960, 1970, 1980, 1990, 2000, 2010],
                "bins": ["1950-1959", "1960-1969", "1970-1979", "1980-1989", "1990-1999", "2000-2010"],
            },
        ),
    ],
)
def test_dates_become_years_quarters_or_months(texts: list[str], expected: dict[str, object]) -> None:
    frame = pa.table({"day": texts * 20, "sex": ["F", "M"] * 20})
    drafted = draft(frame)
    found = drafted.schema["day"].to_dict()
    assert found == {"name": "day", **expected}
    assert check(frame, drafted.schema).ok


def test_dates_that_can_be_read_in_two_ways_are_left_out() -> None:
    drafted = draft(pa.table({"day": ["1/2/2024", "3/4/2024"] * 20, "sex": ["F", "M"] * 20}))
    assert drafted.left_out == (("day", "its dates can be read in two ways: say which in the schema's reading"),)


def test_reserved_labels_and_nameless_columns_are_left_out() -> None:
    frame = pa.table([["(other)", "x"], ["a", "b"], ["a", "b"]], names=["c", "", "d"])
    assert draft(frame).left_out == (
        ("c", "it holds (other) or (missing), which are reserved"),
        ("", "it has no name"),
    )


def test_many_batches_and_many_values() -> None:
    numbers = np.arange(30_000) % 12_000
    texts = [f"x{i % 5_000}" for i in range(30_000)]
    frame = pa.table({"n": numbers, "t": texts})
    drafted = draft(frame.to_reader(max_chunksize=5_000))
    assert drafted.schema["n"].edges == (0, 2_000, 4_000, 6_000, 8_000, 10_000, 12_000)
    assert [name for name, _ in drafted.left_out] == ["t"]


@pytest.mark.parametrize(
    ("low", "high", "edges"),
    [
        (0, 1, (0, 0.2, 0.4, 0.6, 0.8, 1)),
        (-3, 21, (-5, 0, 5, 10, 15, 20, 25)),
        (0, 99_999, (0, 20_000, 40_000, 60_000, 80_000, 100_000)),
        (1, 200, (0, 25, 50, 75, 100, 125, 150, 175, 200)),
        (1e-9, 5e-9, (1e-9, 1.5e-9, 2e-9, 2.5e-9, 3e-9, 3.5e-9, 4e-9, 4.5e-9, 5e-9)),
    ],
)
def test_edges_are_round_and_cover(low: float, high: float, edges: tuple[float, ...]) -> None:
    assert round_edges(Decimal(repr(low)), Decimal(repr(high))) == edges


def test_a_few_words_among_numbers_are_counted_as_other_or_missing() -> None:
    ages = [str(16 + i % 70) for i in range(200)]
    columns = {"size": ["n/a", "unknown", *ages], "mix": [*"abcdef", *ages[4:]], "grade": ["none", *"123" * 67]}
    drafted = draft(pa.table(columns))
    assert drafted.schema["size"].edges == (10, 20, 30, 40, 50, 60, 70, 80, 90)
    assert drafted.schema["size"].labels[-2:] == ("(other)", "(missing)")
    assert drafted.schema["grade"].labels == ("1", "2", "3", "none")
    assert drafted.schema["mix"].size == 76


def test_labels_beyond_those_that_are_tracked_are_never_taken() -> None:
    """A column of 150,000 words made a schema's error, with its name and its exact number of words."""
    rows = pa.table({"sex": ["F", "M"] * 75_000, "word": [f"w{i}" for i in range(150_000)]})
    found = draft(rows, max_values=200_000)
    assert found.schema.names == ("sex",)
    assert dict(found.left_out) == {"word": "it has more than 10,000 different values, like a name or an id"}


def shapes(seed: int) -> np.ndarray:
    """A column of numbers, of a shape that real tables have: a settlement that few loans ever had, a rounded rate."""
    rng = np.random.default_rng(seed)
    size = int(rng.choice([30, 400, 1500]))
    usual = float(rng.choice([0, 0, 1, -7.5, 100.25, 1e12, 0.1]))
    rare = rng.random(size) > rng.choice([0.5, 0.9, 0.99])
    amounts = rng.lognormal(3, rng.choice([0.01, 1, 3]), size) * rng.choice([-1, 1])
    column = np.where(rare, rng.choice([np.round(amounts), np.round(amounts, 2), amounts]), usual)
    column[rng.random(size) > 0.9] = rng.choice([np.nan, usual])
    return column


def test_a_draft_never_fails_on_a_column() -> None:
    """Of 300 columns of numbers, each beside another; all that become attributes have two cells and hold the rows."""
    bins = 0
    for seed in range(300):
        column = shapes(seed)
        table = pa.table({"v": column, "sex": ["Female", "Male"] * (len(column) // 2)})
        drafted = draft(table)
        for attribute in drafted.schema.attributes:
            bins += bool(attribute.edges)
            assert attribute.size >= 2
        assert check(table, drafted.schema).ok, seed
    assert bins > 100


def test_zeros_and_amounts_that_are_nearly_always_the_largest_have_more_than_one_bin() -> None:
    """The shape of a settlement: of what is not zero nearly all is one amount, and the ladder ends there."""
    amounts = [0.0] * 6000 + [100.0] * 1500 + [i / 4 for i in range(1, 26)]
    (attribute,) = draft(pa.table({"settlement": amounts})).schema.attributes
    assert attribute.edges == (0, 20, 40, 60, 80, 100)


def test_a_column_of_which_no_attribute_can_be_made_is_left_out() -> None:
    """All dates are of one month: that would be one cell, and it must not end the draft of the other columns."""
    days = pa.array([datetime(2020, 2, 1 + i % 28) for i in range(400)])
    drafted = draft(pa.table({"sex": ["Female", "Male"] * 200, "day": days}))
    assert drafted.schema.names == ("sex",)
    assert drafted.left_out == (("day", "its values fall into a single cell, or into cells that no schema may have"),)
