"""Commands that spend nothing, on a finished release: ledger show, table, inspect."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet
import pytest

from cli_runs import AGE_BY_SEX, EXACT, ran_well, write_people, write_schema


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a release that nobody changes."""
    folder = tmp_path_factory.mktemp("released")
    write_people(folder / "people.csv")
    write_schema(folder / "people.schema.json")
    ran_well("release", folder / "people.csv", "--schema", folder / "people.schema.json", *EXACT, "--key", "first")
    return folder


# Ledger


def test_ledger_show_verify_export(released: Path, tmp_path: Path) -> None:
    ledger = released / "people.ledger"
    shown = ran_well("ledger", "show", ledger).out
    assert "spent        ε = 40\nremains      ε = 0  ░░░" in shown
    assert "first   direct-uniform   delivered   ε = 40\n" in shown
    found = json.loads(ran_well("ledger", "show", ledger, "--json").out)
    assert (found["spent"], found["remaining"], found["entries"][0]["key"]) == ("40", "0", "first")
    assert ran_well("ledger", "verify", ledger).err == f"{ledger} is sound: 1 entry, nothing was changed.\n"
    assert json.loads(ran_well("ledger", "verify", ledger, "--json").out)["sound"] is True
    ran = ran_well("ledger", "export", ledger, "first", "-o", tmp_path / "again.parquet")
    assert ran.err == f"Written {tmp_path / 'again.parquet'}: 2 tables of first; nothing spent.\n"
    assert (tmp_path / "again.parquet").read_bytes() == (released / "people.release.parquet").read_bytes()


# Table and inspect


def test_table_shows_a_crosstab(released: Path) -> None:
    lines = ran_well("table", released / "people.release.parquet", "sexe", "âge").out.splitlines()
    assert lines[0] == "sexe by âge"
    assert lines[2].split("   ")[0] == "sexe \\ âge"
    assert [part.split("(")[0].strip() for part in lines[3].split("   ") if part.strip()] == ["Femme", "4", "0", "0"]
    assert [part.split("(")[0].strip() for part in lines[4].split("   ") if part.strip()] == ["Homme", "0", "4", "4"]


def test_table_in_long_form_says_what_its_intervals_assume(released: Path) -> None:
    out = ran_well("table", released / "people.release.parquet", "sexe", "âge", "région").out
    assert len(re.findall(r"[\d,]+ \([\d,]+ to [\d,]+\)", out)) == 18
    assert "nobody measured are assumed" in " ".join(out.split())


def test_csv_and_parquet_hold_the_same_cells(released: Path, tmp_path: Path) -> None:
    release = released / "people.release.parquet"
    lines = ran_well("table", release, "sexe", "âge", "--format", "csv").out.splitlines()
    assert lines[0] == "sexe,âge,count,std_error,count_low,count_high"
    assert lines[1].startswith('Femme,"[0, 18)",4.0,')
    ran_well("table", release, "sexe", "âge", "--format", "parquet", "-o", tmp_path / "t.parquet")
    rows = pyarrow.parquet.read_table(tmp_path / "t.parquet").to_pylist()
    assert {(row["sexe"], row["âge"]): round(row["count"]) for row in rows if round(row["count"])} == AGE_BY_SEX


def test_a_condition_keeps_one_value(released: Path) -> None:
    release = released / "people.release.parquet"
    found = json.loads(ran_well("table", release, "âge", "--where", "sexe = Homme", "--format", "json").out)
    assert found["where"] == "sexe = Homme"
    assert [(cell["labels"], round(cell["count"])) for cell in found["cells"]] == [
        (["[0, 18)"], 0),
        (["[18, 40)"], 4),
        (["[40, 99]"], 4),
    ]
    shown = ran_well("table", release, "--where", "sexe=Homme and âge=[40, 99]").out
    assert shown.startswith("number of rows, where sexe=Homme and âge=[40, 99]\n")


def test_a_condition_is_any_condition_of_the_grammar(released: Path) -> None:
    """Those from 18 on, men under 18 aside: sums of cells, and only labels that such people can have."""
    release = released / "people.release.parquet"
    found = json.loads(ran_well("table", release, "âge", "--where", "âge >= 18", "--format", "json").out)
    assert [cell["labels"] for cell in found["cells"]] == [["[18, 40)"], ["[40, 99]"]]
    lines = ran_well("table", release, "sexe", "--where", "sexe = Femme or âge >= 40", "--format", "csv").out
    assert [line.split(",")[:2] for line in lines.splitlines()] == [
        ["sexe", "count"],
        ["Femme", str(float(sum(n for (sex, _), n in AGE_BY_SEX.items() if sex == "Femme")))],
        ["Homme", "4.0"],
    ]


def test_a_table_goes_to_a_file_and_a_chart_beside_it(released: Path, tmp_path: Path) -> None:
    ran = ran_well(
        "table",
        released / "people.release.parquet",
        "sexe",
        "-o",
        tmp_path / "t.txt",
        "--plot",
        tmp_path / "t.svg",
        "--where",
        "âge=[0, 18)",
    )
    assert (ran.out, ran.err) == ("", "")
    assert (tmp_path / "t.txt").read_text(encoding="utf-8").startswith("sexe, where âge=[0, 18)\n")
    assert "<svg" in (tmp_path / "t.svg").read_text(encoding="utf-8")


def test_inspect_says_what_a_release_holds(released: Path) -> None:
    out = ran_well("inspect", released / "people.release.parquet").out
    assert out.startswith("40 attributes\n")
    assert "e^40" in out
    assert "1 attribute       3 of 40" in out
    assert "2 attributes     1 of 780" in out
    found = json.loads(ran_well("inspect", released / "people.release.parquet", "--json").out)
    assert len(found["attributes"]) == 40
    assert [each["cells"] for each in found["measurements"]] == [3, 6]
    assert found["expected_errors"][2] == {
        "attributes": 3,
        "tables": 9880,
        "covered": 0,
        "least": None,
        "median": None,
        "most": None,
    }
