"""Groups of options: a command gets one object for each, and the command line shows their options in its place."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typer

import crosstally.cli.app as frame
from crosstally.cli.options import BudgetOptions, PlanOptions, WorkloadOptions, with_groups
from crosstally.cli.source_options import DatabaseOptions, SourceOptions
from crosstally.errors import SourceError


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    width: Annotated[int, typer.Option(help="How wide.")]
    height: Annotated[int, typer.Option(help="How high.")] = 3


def area(name: str, *, size: Size, loud: bool = False) -> None:
    print(name, size.width * size.height, loud)


def test_options_stand_where_their_group_stood() -> None:
    shown = inspect.signature(with_groups(area)).parameters
    assert list(shown) == ["name", "width", "height", "loud"]
    assert (shown["width"].default, shown["height"].default) == (inspect.Parameter.empty, 3)


def test_a_command_gets_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    with_groups(area)("a", width=2, height=5, loud=True)
    assert capsys.readouterr().out == "a 10 True\n"


def test_a_command_without_groups_stays_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    def plain(name: str, *, times: int = 2) -> None:
        print(name * times)

    with_groups(plain)("ab")
    assert capsys.readouterr().out == "abab\n"


def commands(command: Any) -> list[Any]:
    inner = getattr(command, "commands", {}).values()
    return [each for below in inner for each in commands(below)] if inner else [command]


def test_commands_that_share_a_group_share_every_option_of_it() -> None:
    """What one of them says of an option all say; ``part`` alone takes no Spark table, ``review`` no whole workload."""
    helps: dict[str, set[str]] = {}
    for command in commands(typer.main.get_command(frame.app)):
        for option in command.params:
            helps.setdefault(option.name, set()).add(option.help or "")
    for name in ("rho", "public_table", "rows_are_units", "dsn_env", "decimal", "sheet", "ranges", "strategy"):
        texts = helps[name] - {"Repeat this assertion if the release was made with it; the ledger does not keep it."}
        assert len(texts) == 1, name


def test_what_was_given_is_spelled_as_it_was() -> None:
    given = PlanOptions(ways=2, tables=["a,b", "c"], ranges=["d"], strategy="flat")
    assert given.given() == [
        "--ways", "2", "--strategy", "flat", "--tables", "a,b", "--tables", "c", "--ranges", "d"
    ]  # fmt: skip
    assert PlanOptions().given() == []
    assert SourceOptions(database="sqlite:///x", query="SELECT 1", rows_are_units=True, public_table=["t"]).words() == [
        "--database", "sqlite:///x", "--query", "SELECT 1", "--rows-are-units", "--public-table", "t"
    ]  # fmt: skip


def test_groups_are_values() -> None:
    assert BudgetOptions(epsilon="0.10").budget().to_dict() == {"epsilon": "0.1"}
    assert WorkloadOptions() == WorkloadOptions(tables=None)
    with pytest.raises(SourceError, match="say which rows to read"):
        DatabaseOptions().source([])
    assert DatabaseOptions().source(["a.csv"]) == "a.csv"
    assert SourceOptions(spark="s").named
    assert not SourceOptions().named
