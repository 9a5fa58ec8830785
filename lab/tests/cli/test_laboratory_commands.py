"""The four commands of the laboratory: their help, what they write, and mistakes, which get one line."""

from __future__ import annotations

import re
import shlex
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

import crosstally
from cli_runs import ran_well, run, write_people, write_schema
from crosstally.cli.app import _of_laboratory
from crosstally.cli.laboratory import COMMANDS

LAB = Path(__file__).parents[2]
PROJECT = tomllib.loads((LAB / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MISTAKES = {
    "an unknown experiment": ("reproduce nothing", "unknown experiment 'nothing'"),
    "no experiment": ("reproduce", "--list"),
    "a list with a name": ("reproduce priview-crossover --list", "leave out the name"),
    "a calibration on rows not said to be public": (
        "calibrate people.csv --schema people.schema.json --epsilon 1",
        "if these rows are public, say so with --public",
    ),
    "public rows without a schema": ("calibrate people.csv --public --epsilon 1", "say their schema with --schema"),
    "a number of public rows": (
        "calibrate people.csv --schema people.schema.json --public --rows 10 --epsilon 1",
        "all rows of PUBLIC_DATA are counted",
    ),
    "a calibration without a budget": ("calibrate people.schema.json", "--epsilon"),
}


def test_the_entry_points_are_the_commands_that_the_product_lists() -> None:
    declared = PROJECT["entry-points"]["crosstally.commands"]
    assert declared == {name: f"crosstally_lab.commands.{name}" for name in COMMANDS}
    assert {each.name: each.value for each in entry_points(group="crosstally.commands")} == declared


def test_the_laboratory_has_the_version_of_the_product_and_asks_for_it() -> None:
    assert PROJECT["version"] == crosstally.__version__
    assert PROJECT["dependencies"] == [f"crosstally=={crosstally.__version__}"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples_that_begins_as_it_is_listed(name: str) -> None:
    out = ran_well(name, "--help").out
    assert f"Usage: crosstally {name}" in out
    assert f" crosstally {name}" in out.split("Example")[1]
    assert _of_laboratory(name).help.split("\n\n")[0] == COMMANDS[name]


def options(name: str) -> dict[str, Any]:
    return {word: option for option in _of_laboratory(name).params for word in option.opts}


def test_every_output_is_known() -> None:
    """They call the writer that the product's commands call, as a test of the source says."""
    found = {(name, word) for name in COMMANDS for word in options(name) if word in ("--output", "--kept", "--plot")}
    assert found == {("audit", "--output"), ("audit", "--kept"), ("reproduce", "--output")}


def test_numbers_are_plain_digits() -> None:
    ran = run("audit", "--draws", "1_000")
    assert (ran.code, "'1_000' is not a number; see crosstally audit --help" in ran.err) == (2, True)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_clear_line(mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_people(tmp_path / "people.csv")
    write_schema(tmp_path / "people.schema.json")
    monkeypatch.chdir(tmp_path)
    command, words = MISTAKES[mistake]
    ran = run(*shlex.split(command))
    assert (ran.code, ran.out) == (2, "")
    assert re.fullmatch(r"crosstally: .*\n", ran.err)
    assert words in ran.err
    assert {path.name for path in tmp_path.iterdir()} == {"people.csv", "people.schema.json"}
