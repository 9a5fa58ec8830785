"""The page about a second year and a second table: its Python is run, and its sums are those that it says."""

from __future__ import annotations

import re
import shlex
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import crosstally as ct
from cli_runs import ran_well, run

PAGE = (Path(__file__).parent.parent / "docs/how-to/second-year.md").read_text(encoding="utf-8")


def write(path: Path, *rows: str) -> None:
    """The rows, over and over."""
    path.write_text("\n".join(["sex,ward", *rows * 40]) + "\n", encoding="utf-8")


@pytest.fixture
def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "2026.csv", "f,north", "m,south", "m,north")
    write(tmp_path / "2027.csv", "f,north", "m,south", "m,harbour")
    return tmp_path


def test_the_page_in_python(town: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """1 + 1 of 3 for the years; 1 + 3 x 0.5 for patients and at most three visits of each."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, names)
    printed = capsys.readouterr().out
    assert printed.startswith("2 1\n")
    assert printed.endswith("5/2\n")
    low, high = names["change"].interval(0.95)
    assert (low < high).all()
    # each year's noise alone is smaller than that of the difference
    assert (names["change"].std_error > names["first"].marginal("ward").std_error).all()
    for name, spent in (("town", 2), ("patients", Fraction(5, 2))):
        opened = ct.Ledger.open(town / f"{name}.ledger", read_only=True)
        opened.verify()
        assert opened.spent == spent


def test_the_page_at_the_terminal(town: Path) -> None:
    sex = {"name": "sex", "values": ["f", "m"]}
    for year, wards in (("2026", ["north", "south"]), ("2027", ["north", "south", "harbour"])):
        schema = ct.Schema.from_dict({"attributes": [sex, {"name": "ward", "values": wards}]})
        schema.save(town / f"{year}.schema.json")
    commands = re.findall(r"^crosstally (.+)$", PAGE, re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        shown = ran_well(*shlex.split(command))
    assert "ε = 2" in shown.out
    assert "at most 1 row for each person, as was asserted" in shown.out
    files = ("2026.release.parquet", "2027.release.parquet")
    said = ran_well("statement", *files, "--ledger", "town.ledger").out
    assert "in all releases and answers together: ε = 2, of at most ε = 3." in said
    assert "In table 2 of the account one person is at most 1 row: that was asserted" in said
    again = run(
        "release", "2027.csv", "--schema", "2027.schema.json", "--epsilon", "1.5", "--ledger", "town.ledger", "--force"
    )
    assert (again.code, "only ε = 1 is left" in again.err) == (2, True)
