from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_runs import ran_well, run, write_small_schema


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    return write_small_schema(tmp_path)


def test_words_come_first_and_then_a_table(schema: Path) -> None:
    """Independence has some 60 times our error here: that three releases hide it is out of the question."""
    ran = ran_well("compare", schema, "--epsilon", "10", "--rows", "20000", "--releases", "3", "--peer-minutes", "0")
    words, _, table = ran.out.partition("\n\n")
    assert "times that of independence" in words
    lines = table.splitlines()
    assert lines[0].split()[:2] == ["method", "what"]
    assert [line.split()[0] for line in lines[1:4]] == ["crosstally", "nothing", "noisy"]
    assert "3 releases of 20,000 generated rows" in ran.err
    assert "Nothing is charged, and no ledger was touched." in ran.err
    assert [path.name for path in schema.parent.iterdir()] == ["s.json"]


def test_public_rows_as_json_and_peers_that_are_absent(schema: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crosstally_lab.papers.side_by_side.peers_python", lambda: None)
    rows = schema.with_name("rows.csv")
    rows.write_text("sex,age\n" + "f,20\n" * 40 + "m,50\n" * 40)
    given = ("compare", schema, "--public", rows, "--epsilon", "1", "--releases", "1")
    out = json.loads(ran_well(*given, "--json").out)
    assert (out["public_data"], out["tables"], out["budget"]) == (True, [["sex", "age"]], {"epsilon": "1"})
    methods = {each["name"]: each for each in out["methods"]}
    assert methods["crosstally"]["our_error_over_it"] is None
    assert methods["AIM"]["cannot"].startswith("not installed")
    ran = ran_well(*given)
    assert "which you assert to be public" in ran.err
    assert "Cannot be done here: AIM (not installed" in ran.out
    assert ran.out.startswith("One release tells no difference from chance: make more, with --releases.")


def test_what_contradicts_itself_is_refused(schema: Path) -> None:
    ran = run("compare", schema, "--public", "rows.csv", "--epsilon", "1", "--rows", "5")
    assert (ran.code, "--rows is about generated rows" in ran.err) == (2, True)
