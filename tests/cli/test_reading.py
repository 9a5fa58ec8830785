"""How a source is written: said, found out and shown, asked about, or refused with the option that mends it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from cli_runs import ran_well, run
from crosstally.cli.source_options import ReadingOptions, settled
from crosstally.errors import AmbiguousNumbersError, SourceError
from crosstally.sources.reading_options import Reading

GERMAN = "Sex;Town;Pay\r\n" + "w;Köln;1.234,50\r\nm;Zürich;980,00\r\nm;Münster;21.740,00\r\n" * 10
SCHEMA = """{"attributes": [
  {"name": "Sex", "values": ["w", "m"]},
  {"name": "Town", "values": ["Köln", "Zürich", "Münster"]},
  {"name": "Pay", "edges": [0, 1000, 10000, 100000]}
]}"""
OPTIONS = ("--encoding", "cp1252", "--decimal", "Pay=,")
ENCODING = "it is not UTF-8 text; if it is Windows' text say --encoding cp1252"
DECIMAL = "column 'Pay' holds decimal commas; say --decimal Pay=,"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_bytes(GERMAN.encode("cp1252"))
    (tmp_path / "either.csv").write_text("town,pay\nA,21.740\nB,3.500\n", encoding="utf-8")
    (tmp_path / "people.schema.json").write_text(SCHEMA, encoding="utf-8")
    return tmp_path


def test_a_draft_says_in_one_line_what_it_found(folder: Path) -> None:
    drafted = ran_well("schema", "draft", folder / "people.csv")
    first, second, *_ = drafted.err.splitlines()
    assert first == "3 columns, separator ';', cp1252, decimal comma in 1."
    assert second == "cp1252 is a guess. If letters are wrong, say --encoding."  # no text of a row: not a terminal
    assert f"Next: crosstally schema check {folder / 'people.csv'} people.schema.json\n" in drafted.err
    assert '"file": {"encoding": "cp1252", "decimal": {"Pay": ","}}' in drafted.out
    assert '"1234.5"' in drafted.out
    assert '"Münster"' in drafted.out
    said = ran_well("schema", "draft", folder / "people.csv", "--encoding", "latin-1", "--decimal", ",")
    assert said.err.splitlines()[0] == "3 columns, separator ';', iso8859-1, decimal comma."
    assert said.out.partition('"reading"')[0] == drafted.out.partition('"reading"')[0]


def test_what_was_found_is_said_again_to_every_command(folder: Path) -> None:
    files = folder / "people.csv", folder / "people.schema.json"
    plain = run("schema", "check", *files)
    assert (plain.code, ENCODING in plain.err) == (2, True)
    halfway = run("schema", "check", *files, "--encoding", "cp1252")
    assert (halfway.code, DECIMAL in halfway.err) == (2, True)
    checked = ran_well("schema", "check", *files, *OPTIONS)
    assert "read as   3 columns, separator ';', cp1252, decimal comma in 1\n" in checked.out
    release = ("release", folder / "people.csv", "--schema", files[1], "--epsilon", "1", "--tables", "Pay")
    refused = run(*release)
    assert (refused.code, ENCODING in refused.err) == (2, True)
    assert not (folder / "people.ledger").exists()  # nothing was spent
    ran_well(*release, *OPTIONS)
    ledger = ("--ledger", folder / "people.ledger")
    spent = run("ask", folder / "people.csv", *ledger, "Town = Köln", "--epsilon", "1", *OPTIONS)
    assert (spent.code, "the cap" in spent.err) == (2, True)


def test_numbers_that_fit_two_readings_end_with_2_and_name_the_option(folder: Path) -> None:
    drafted = run("schema", "draft", folder / "either.csv")
    assert drafted.code == 2
    assert drafted.err.startswith("crosstally: column number 2: every number fits two readings")
    assert "say --decimal NAME=. or --decimal NAME=," in drafted.err
    assert '"21740"' in ran_well("schema", "draft", folder / "either.csv", "--decimal", "pay=,").out
    assert '"21.74"' in ran_well("schema", "draft", folder / "either.csv", "--decimal", ".").out


class Terminal:
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_steward_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["what?", "Comma", "p"])
    asked: list[str] = []

    def prompt(question: str, *, err: bool) -> str:
        asked.append(question)
        assert err  # stdout is for data
        return next(answers)

    def action(reading: Reading) -> Reading:
        if reading.decimal is None:
            raise AmbiguousNumbersError(["pay", "rent"], "column 'pay'", "--decimal")
        return reading

    with pytest.raises(AmbiguousNumbersError):
        settled(action, Reading(), quiet=False)
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(typer, "prompt", prompt)
    with pytest.raises(AmbiguousNumbersError):
        settled(action, Reading(), quiet=True)
    assert settled(action, Reading(encoding="cp1252"), quiet=False).to_dict() == {
        "encoding": "cp1252",
        "decimal": {"pay": ",", "rent": "."},
    }
    assert [question.partition(":")[0] for question in asked] == ["pay", "pay", "rent"]


def test_options_are_read() -> None:
    given: dict[str, Any] = {
        "delimiter": "tab",
        "quote": "none",
        "decimal": [",", "a=b=."],
        "thousands": ["a=b=none"],
        "header": 2,
        "sheet": "My sheet",
    }
    read = ReadingOptions(**given).reading()
    assert read.to_dict() == {
        "delimiter": "\t",
        "quote": "",
        "decimal": {"": ",", "a=b": "."},
        "thousands": {"a=b": ""},
        "header": 2,
        "sheet": "My sheet",
    }
    assert ReadingOptions().reading() == Reading()
    with pytest.raises(SourceError, match="--decimal says two things of all columns"):
        ReadingOptions(decimal=[",", "."]).reading()
    with pytest.raises(SourceError, match="decimal must be one of"):
        ReadingOptions(decimal=["pay"]).reading()
