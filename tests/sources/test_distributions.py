"""Distributions for the steward: the rows of each cell are those that a release would count."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from crosstally.errors import CrosstallyError
from crosstally.schema import Attribute, ColumnReading, RowReading, Schema, Unit
from crosstally.sources import count, inspection
from crosstally.sources.inspection import Distribution, read_distributions
from reviewing import files


def test_rows_texts_and_what_is_outside(tmp_path: Path) -> None:
    rows, path = files(tmp_path)
    schema = Schema.load(path)
    found = read_distributions(rows, schema)
    assert found.rows == 12
    assert found.of(schema, "sex").rows == (1, 3, 2, 3, 2, 1)
    assert found.of(schema, "sex").texts[3] == ("w", "W")
    assert found.of(schema, "age").rows == (1, 7, 3, 1)
    town = found.of(schema, "town")
    assert (town.rows, town.outside, town.missing) == ((6, 1, 4), (("Köln", 1),), 0)


def test_they_are_the_counts_of_a_release(tmp_path: Path) -> None:
    rows, path = files(tmp_path)
    text = path.read_text().replace('"Kiel"]}', '"Kiel"], "outside": "other"}').replace('"draft": true,\n', "")
    path.write_text(text)
    schema = Schema.load(path)
    found = read_distributions(rows, schema)
    for name, table in zip(schema.names, count(rows, schema, [(n,) for n in schema.names]), strict=True):
        assert np.array_equal(found.of(schema, name).rows, table.counts)


def test_too_many_texts_are_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "MOST_TEXTS", 6)
    rows, path = files(tmp_path)
    schema = Schema.load(path)
    found = read_distributions(rows, schema)
    assert found.of(schema, "sex") is None
    assert found.of(schema, "town") is not None


def test_they_tell_nothing_by_themselves(tmp_path: Path) -> None:
    rows, path = files(tmp_path)
    found = read_distributions(rows, Schema.load(path))
    assert repr(found) == "Distributions(3 columns)"
    assert repr(Distribution((7, 7), few=(), texts=(), outside=(("Köln", 1),), missing=0)) == "Distribution(2 cells)"
    with pytest.raises(CrosstallyError, match="confidential"):
        pickle.dumps(found)


def test_few_people_are_told_by_their_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve rows of one person are few people; nine people with a spelling each of two are few, ten are not."""
    lines = ["id,town", *["1,Bonn"] * 12, *(f"{i},Kiel" for i in range(5)), *(f"{i},KIEL" for i in range(5, 9))]
    lines += [f"{i},Mainz" for i in range(10)] * 2
    rows = tmp_path / "rows.csv"
    rows.write_text("\n".join([*lines, ""]))
    reading = RowReading(columns={"town": ColumnReading(groups={"Kiel": ("KIEL",)})})
    schema = Schema([Attribute("town", ["Bonn", "Kiel", "Mainz", "Ulm"])], Unit("id", 2), reading=reading)
    found = read_distributions(rows, schema).of(schema, "town")
    assert (found.rows, found.few) == ((12, 9, 20, 0), (True, True, False, False))
    monkeypatch.setattr(inspection, "MOST_WITH_PEOPLE", 1)
    found = read_distributions(rows, schema).of(schema, "town")
    assert found.few == (False, True, False, False)  # by rows
