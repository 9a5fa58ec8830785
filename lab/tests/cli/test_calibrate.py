from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_runs import ran_well, write_small_schema


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    return write_small_schema(tmp_path)


def test_words_come_first_and_then_a_table(schema: Path) -> None:
    ran = ran_well("calibrate", schema, "--epsilon", "1", "--rows", "900", "--releases", "2")
    first, blank, heading, *lines = ran.out.splitlines()
    assert first.startswith("95% intervals held ")
    assert " of all cells of tables covered by what was measured (93 to 98.5% expected): " in first
    assert (blank, heading.split()[:2]) == ("", ["attributes", "error"])
    assert [line.split()[:2] for line in lines] == [["1", "corrected"], ["2", "corrected"]]
    assert "2 releases of 900 generated rows" in ran.err
    assert "Nothing is charged, and no ledger was touched." in ran.err
    assert [path.name for path in schema.parent.iterdir()] == ["s.json"]


def test_public_rows_as_json(schema: Path) -> None:
    rows = schema.with_name("rows.csv")
    rows.write_text("sex,age\n" + "f,20\n" * 40 + "m,50\n" * 40)
    given = ("--schema", schema, "--public", "--epsilon", "100", "--releases", "1")
    out = json.loads(ran_well("calibrate", rows, *given, "--json").out)
    assert (out["public_data"], out["releases"], out["level"]) == (True, 1, 0.95)
    keys = ("order", "cell_size", "cells", "held", "std_error")
    assert [tuple(each[key] for key in keys) for each in out["coverage"]] == [
        (1, "all", 5, 1.0, None),
        (1, "0", 1, 1.0, None),
        (1, ">20", 4, 1.0, None),
        (2, "all", 6, 1.0, None),
        (2, "0", 4, 1.0, None),
        (2, ">20", 2, 1.0, None),
    ]
    assert "which you assert to be public" in ran_well("calibrate", rows, *given).err
    assert {path.name for path in schema.parent.iterdir()} == {"s.json", "rows.csv"}
