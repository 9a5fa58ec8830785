"""The demo tells its story in six blocks, leaves its files, and starts afresh."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli_runs import ran_well, run
from crosstally.cli import demo as demo_command
from crosstally.errors import MissingExtraError

HEADINGS = (
    "1  A private table",
    "2  A plan, before anything is spent",
    "3  The release",
    "4  Three tables from it, beside the truth",
    "5  The promise",
    "6  Now your own file",
)
FILES = (
    ".crosstally-demo",
    "age-by-sex.svg",
    "people.csv",
    "people.ledger",
    "people.release.parquet",
    "people.schema.json",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "files"


@pytest.fixture(scope="module")
def told(folder: Path) -> str:
    ran = ran_well("demo", "--directory", folder)
    assert ran.err == ""
    return ran.out


def test_six_blocks_in_order(told: str) -> None:
    lines = told.splitlines()
    places = [lines.index(heading) for heading in HEADINGS]
    assert places == sorted(places)
    assert 60 <= len(lines) <= 100
    assert all(line == line.rstrip() for line in lines)
    assert "\x1b" not in told


def test_no_line_is_wider_than_a_page(told: str, folder: Path) -> None:
    """Paths are not broken apart, so the folder's name is made short first."""
    assert max(len(line.replace(str(folder), "crosstally-demo")) for line in told.splitlines()) <= 96


def test_who_is_in_the_data_and_that_they_are_generated(told: str) -> None:
    assert "48,842 people, all of them generated" in told
    assert "336,000 combinations" in told


def numbers(told: str) -> list[list[int]]:
    """The count, the ends of its interval and the truth, of each cell."""
    cells = re.findall(r"([\d,]+) \(([\d,]+) to ([\d,]+)\) +([\d,]+)", told)
    return [[int(text.replace(",", "")) for text in cell] for cell in cells]


def test_three_tables_stand_beside_the_truth(told: str) -> None:
    health, ages, households = numbers(told)[:4], numbers(told)[4:18], numbers(told)[18:28]
    assert sum(truth for *_, truth in health) == 48_842
    assert sum(truth for *_, truth in ages) == 48_842
    assert sum(truth for *_, truth in households) == 48_842


def test_published_counts_are_as_near_the_truth_as_they_say(told: str) -> None:
    """A cell is off by more than 12 standard errors with probability below 1e-7, Laplace noise at worst.

    An interval is about four of them wide.
    """
    for value, low, high, truth in numbers(told)[:28]:
        assert abs(value - truth) <= 3 * (high - low) + 1


def test_the_promise_the_ledger_and_three_commands(told: str) -> None:
    assert "a factor of at most e^1 = 2.72" in " ".join(told.split())
    assert re.search("entry 2, [a-z-]+, delivered: ε = 1 of 3 spent, ε = 2 left for these people", told)
    assert re.findall(r"^      (crosstally \w+)", told, re.MULTILINE) == [
        "crosstally schema",
        "crosstally plan",
        "crosstally release",
    ]


def test_the_files_it_speaks_of_are_there(told: str, folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert (folder / "people.csv").read_text(encoding="utf-8").count("\n") == 48_843
    assert ran_well("ledger", "verify", folder / "people.ledger").code == 0
    assert "health" in ran_well("table", folder / "people.release.parquet", "health").out


def test_a_second_run_starts_afresh_and_leaves_other_files_alone(
    told: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "mine.txt").write_text("keep", encoding="utf-8")
    before = (folder / "people.release.parquet").read_bytes()

    def no_chart(*_: object) -> tuple[str, str]:
        return "picture", "none today"

    monkeypatch.setattr(demo_command, "_picture", no_chart)
    again = ran_well("demo", "--directory", folder).out
    assert re.search("entry 2, [a-z-]+, delivered: ε = 1 of 3 spent", again)
    assert (folder / "people.release.parquet").read_bytes() != before
    assert (folder / "mine.txt").read_text(encoding="utf-8") == "keep"
    assert not (folder / "age-by-sex.svg").exists()


def test_without_the_charts_extra_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from crosstally import charts

    def missing(*_: object, **__: object) -> None:
        raise MissingExtraError("altair", "charts")

    class release:
        @staticmethod
        def marginal(*_: str) -> object:
            return type("M", (), {"plot": staticmethod(missing)})

    monkeypatch.setattr(charts, "save", missing)
    assert demo_command._picture(release, Path()) == (
        "no picture",
        "altair is not installed: pip install 'crosstally[charts]'",
    )


def test_files_that_no_demo_wrote_are_never_touched(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("mine", encoding="utf-8")
    ran = run("demo", "--directory", tmp_path)
    assert ran.code == 2
    assert ran.err == f"crosstally: '{tmp_path}' holds people.csv, which no demo wrote: choose another --directory\n"
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]
    assert (tmp_path / "people.csv").read_text(encoding="utf-8") == "mine"
