"""A draft schema fits the data, leaves out what cannot be an attribute, and says so."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from crosstally.errors import SourceError
from crosstally.schema import Attribute
from crosstally.sources import check, count, draft
from crosstally.sources.drafts import round_edges

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
    Attribute("age", edges=[10, 20, 30, 40, 50, 60, 70, 80, 90]),
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
        ("name", "it has more than 50 different texts, like a name or an id"),
        ("number", "every row has another number, like an id"),
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


def test_a_few_words_among_numbers_are_counted_as_other() -> None:
    ages = [str(16 + i % 70) for i in range(200)]
    columns = {"age": ["n/a", "unknown", *ages], "code": [*"abcdef", *ages[4:]], "grade": ["none", *"123" * 67]}
    drafted = draft(pa.table(columns))
    assert drafted.schema["age"].edges == (10, 20, 30, 40, 50, 60, 70, 80, 90)
    assert drafted.schema["age"].labels[-1] == "(other)"
    assert drafted.schema["grade"].labels == ("1", "2", "3", "none")
    assert drafted.left_out == (("code", "it has more than 50 different texts, like a name or an id"),)


def test_labels_beyond_those_that_are_tracked_are_never_taken() -> None:
    """A column of 150,000 words made a schema's error, with its name and its exact number of words."""
    rows = pa.table({"sex": ["F", "M"] * 75_000, "word": [f"w{i}" for i in range(150_000)]})
    found = draft(rows, max_values=200_000)
    assert found.schema.names == ("sex",)
    assert dict(found.left_out) == {"word": "it has more than 10000 different texts, like a name or an id"}
