"""The steward's commands on a small private table: schema, plan, release, ledger."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from cli_runs import EXACT, NAMES, PLANNED, ran_well, run, write_people, write_schema
from crosstally.privacy.ledger import Ledger
from crosstally.privacy.ledger_records import State


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_people(tmp_path / "people.csv")
    write_schema(tmp_path / "people.schema.json")
    return tmp_path


# Schema


def test_a_draft_is_marked_and_only_written_where_asked(folder: Path) -> None:
    ran = ran_well("schema", "draft", folder / "people.csv", "-o", folder / "new.json")
    draft = json.loads((folder / "new.json").read_text(encoding="utf-8"))
    assert draft["draft"] is True
    assert draft["attributes"][0] == {"name": "sexe", "values": ["Femme", "Homme"]}
    assert draft["attributes"][2] == {"name": "région", "values": ["Côte d'Azur", "Île-de-France"], "missing": True}
    assert ran.out == ""
    assert "left out  q1: it has a single value" in ran.err
    assert "new.json" in ran.err


def test_a_draft_without_output_is_json_on_stdout(folder: Path) -> None:
    ran = ran_well("schema", "draft", folder / "people.csv", "--quiet")
    assert json.loads(ran.out)["draft"] is True
    assert ran.err == ""


def test_check_reports_to_the_steward(folder: Path) -> None:
    ran = ran_well("schema", "check", folder / "people.csv", folder / "people.schema.json")
    assert ran.out.startswith("Confidential")
    assert "région" in ran.out
    found = json.loads(ran_well("schema", "check", folder / "people.csv", folder / "people.schema.json", "--json").out)
    assert (found["rows"], found["kept"], found["ok"]) == (12, 12, True)
    assert found["columns"][2]["missing"] == 4


def test_check_fails_with_exit_code_1_when_a_release_would_refuse(folder: Path) -> None:
    (folder / "people.csv").write_text("sexe,âge,région\nAutre,3,\n", encoding="utf-8")
    schema = {"attributes": [{"name": "sexe", "values": ["Femme", "Homme"]}]}
    (folder / "people.schema.json").write_text(json.dumps(schema), encoding="utf-8")
    ran = run("schema", "check", folder / "people.csv", folder / "people.schema.json")
    assert ran.code == 1
    assert ran.err == (
        "crosstally: a release would refuse this table: values outside the labels in sexe; add labels, or set outside "
        "to other or drop\n"
    )


# Plan


def test_plan_says_in_words_what_to_expect_and_what_would_change_it(folder: Path) -> None:
    ran = ran_well("plan", folder / "people.schema.json", "--epsilon", "1", "--rows", "6000", "--tables", "sexe,âge")
    lines = ran.out.splitlines()
    assert lines[:2] == ["ε = 1, add-remove", "40 attributes; wanted: 1 table with 6 cells."]
    assert lines[2].endswith("becomes at most 74% sure, and at most 89% sure about what the data say of them.")
    # One table at ε = 1: the root of 1.84135 beside an average count of 6,000 / 6 rows
    assert "Tables over two attributes: typical error ±1.4 per count (0.14% of an average count): good." in lines
    assert "What would change tables over two attributes most:" in lines
    twice = next(line for line in lines if "spend twice" in line)
    # discrete Laplace noise of scale 1/2 has the variance 2a / (1 - a)^2 = 0.36210 with a = e^-2
    assert twice == ("  - spend twice as much, ε = 2: 56% less error, 0.060% of an average count, good (--epsilon 2)")
    assert "strategy" not in ran.out


def test_plan_compares_strategies_and_marks_the_chosen_one(folder: Path) -> None:
    ran = ran_well("plan", folder / "people.schema.json", "--epsilon", "1", "--tables", "sexe,âge", "--compare")
    lines = ran.out.splitlines()
    assert next(line for line in lines if line.startswith("▸")).split()[1] == "two-stage"
    assert "flat cannot: the full table has about 10^12 cells" in " ".join(ran.out.split())


def test_plan_json_has_the_error_of_laplace_noise(folder: Path) -> None:
    ran = ran_well("plan", folder / "people.schema.json", "--epsilon", "1", "--tables", "sexe,âge", "--json")
    found = json.loads(ran.out)
    direct = next(each for each in found["plans"] if each["strategy"] == "direct")
    # One table at ε = 1: the variance of discrete Laplace noise of scale 1 is 1.84135
    assert direct["rms_error"] == pytest.approx(1.3569625, abs=1e-6)
    assert next(each for each in found["plans"] if each["strategy"] == "uniform")["rms_error"] is None
    (_, pair) = found["expected"]
    assert pair == {
        "attributes": 2,
        "error": pytest.approx(1.3569625, abs=1e-6),
        "cells": 6,
        "share": None,
        "verdict": None,
        "likely": None,
        "at_best": None,
    }
    assert [(each["kind"], each["options"]) for each in found["advice"]] == [("budget", ["--epsilon", "2"])]
    assert ran.err == ""


def test_target_error_solves_for_epsilon(folder: Path) -> None:
    ran = ran_well(
        "plan",
        folder / "people.schema.json",
        "--target-error",
        "14.1",
        "--tables",
        "sexe",
        "--strategy",
        "direct",
        "--json",
    )
    # sqrt(2) / ε = 14.1 at ε = 0.1003
    assert 0.1 <= float(json.loads(ran.out)["budget"]["epsilon"]) <= 0.101


def test_a_saved_plan_runs_exactly(folder: Path) -> None:
    plan = folder / "people.plan.json"
    ran_well("plan", folder / "people.schema.json", *PLANNED, "-o", plan)
    ran_well("ledger", "create", folder / "l.ledger", "--schema", folder / "people.schema.json", "--epsilon", "100")
    ran = ran_well(
        "release",
        folder / "people.csv",
        "--plan",
        plan,
        "--ledger",
        folder / "l.ledger",
        "-o",
        folder / "r.parquet",
        "--json",
    )
    summary = json.loads(ran.out)
    assert (summary["cost"], summary["remaining"], summary["tables"], summary["cells"]) == ("40", "60", 2, 9)
    assert summary["release"].endswith("r.parquet")
    assert ran.err == ""


# Release


def test_release_creates_a_ledger_beside_the_source_and_says_so(folder: Path) -> None:
    ran = ran_well(
        "release", folder / "people.csv", "--schema", folder / "people.schema.json", *EXACT, "--key", "first"
    )
    assert ran.out == ""
    lines = ran.err.splitlines()
    assert lines[0] == "measured   2 tables (9 counts) with the direct-uniform strategy"
    assert lines[1] == "cost       ε = 40, recorded as first; ε = 0 remains"
    assert lines[2] == f"ledger     {folder / 'people.ledger'} (new; its cap is what was just spent, ε = 40)"
    assert lines[3] == f"written    {folder / 'people.release.parquet'}"
    assert lines[4] == f"next       crosstally table {folder / 'people.release.parquet'} sexe âge"
    ledger = Ledger.open(folder / "people.ledger")
    assert ledger.spent == Fraction(40)
    assert [entry.state for entry in ledger.entries()] == [State.DELIVERED]


def test_a_linked_source_has_the_ledger_of_its_target(folder: Path) -> None:
    for name in ("links", "more"):
        (folder / name).mkdir()
        (folder / name / "friends.csv").symlink_to(folder / "people.csv")
    asked = ("--schema", folder / "people.schema.json", *EXACT)
    ran_well("release", folder / "people.csv", *asked)
    ran = run("release", folder / "links" / "friends.csv", *asked)
    assert ran.code == 2
    assert "the cap of ε = 40 would be exceeded" in ran.err
    assert [path.name for path in (folder / "links").iterdir()] == ["friends.csv"]
    old = folder / "more" / "friends.ledger"  # two ledgers, and only the user knows
    ran_well("ledger", "create", old, "--schema", folder / "people.schema.json", "--epsilon", "100")
    ran = run("release", folder / "more" / "friends.csv", *asked)
    assert ran.err == (
        f"crosstally: beside the source lie ledgers that are about this schema, and one account must pay: '{old}', "
        f"'{folder / 'people.ledger'}'; say which with --ledger, or open another account with --new-ledger FILE\n"
    )
    ran_well("release", folder / "more" / "friends.csv", *asked, "--ledger", old)
    assert Ledger.open(folder / "people.ledger").spent == 40


def test_the_same_key_gives_the_same_file_and_spends_nothing(folder: Path) -> None:
    again = (
        "release",
        folder / "people.csv",
        "--schema",
        folder / "people.schema.json",
        "--epsilon",
        "1",
        "--tables",
        "sexe",
        "--key",
        "once",
        "--quiet",
    )
    ran_well(*again)
    first = (folder / "people.release.parquet").read_bytes()
    ran = ran_well(*again, "--force")
    assert ran.err == ""
    assert (folder / "people.release.parquet").read_bytes() == first
    assert Ledger.open(folder / "people.ledger").spent == 1


def test_several_files_and_globs_need_names(folder: Path) -> None:
    write_people(folder / "more.csv")
    several = ("release", folder / "people.csv", folder / "more.csv", "--schema", folder / "people.schema.json", *EXACT)
    assert run(*several).err == "crosstally: several files have no one name to go by: say -o FILE\n"
    assert run(*several, "-o", folder / "r.parquet").err == (
        "crosstally: several files have no one name to go by: "
        "say --ledger FILE, or to open an account --new-ledger FILE\n"
    )
    ran_well("ledger", "create", folder / "l.ledger", "--schema", folder / "people.schema.json", "--epsilon", "100")
    ran_well(*several, "-o", folder / "r.parquet", "--ledger", folder / "l.ledger")
    cells = json.loads(ran_well("table", folder / "r.parquet", "sexe", "--format", "json").out)["cells"]
    assert [(cell["labels"], round(cell["count"])) for cell in cells] == [(["Femme"], 8), (["Homme"], 16)]


def test_an_epsilon_above_ten_is_questioned(folder: Path) -> None:
    """Once by the terminal; an approved plan is not asked again."""
    asked = ("release", folder / "people.csv", "--schema", folder / "people.schema.json", *PLANNED)
    assert run(*asked).err.startswith("crosstally: ε = 40 hides little: above 10 somebody who suspects")
    assert not (folder / "people.ledger").exists()
    ran_well(*asked, "--yes-epsilon")


def test_a_header_without_rows_releases_normally(folder: Path) -> None:
    (folder / "people.csv").write_text(",".join(NAMES) + "\n", encoding="utf-8")
    ran_well("release", folder / "people.csv", "--schema", folder / "people.schema.json", *EXACT)
    cells = json.loads(ran_well("table", folder / "people.release.parquet", "sexe", "--format", "json").out)["cells"]
    assert [round(cell["count"]) for cell in cells] == [0, 0]


def test_an_asserted_number_of_rows_that_the_release_contradicts_is_told(folder: Path) -> None:
    common = ("release", folder / "people.csv", "--schema", folder / "people.schema.json", *EXACT, "--key", "k")
    said = " ".join(ran_well(*common, "--rows", "5000").err.split())
    assert "Warning: the release's own noisy total is 12 " in said
    assert "far from the 5,000 rows you asserted as public" in said
    assert f"free: crosstally ledger export {folder / 'people.ledger'} k -o FILE" in said
    told = json.loads(ran_well(*common, "--rows", "5000", "--force", "--json").out)
    assert "far from the 5,000 rows" in told["warning"]
    ran_well("ledger", "export", folder / "people.ledger", "k", "-o", folder / "again.parquet")
    cells = json.loads(ran_well("table", folder / "again.parquet", "sexe", "--format", "json").out)["cells"]
    assert [round(cell["count"]) for cell in cells] == [4, 8]


def test_a_true_number_of_rows_is_not_doubted(folder: Path) -> None:
    common = ("release", folder / "people.csv", "--schema", folder / "people.schema.json", "--tables", "sexe")
    assert "Warning" not in ran_well(*common, "--epsilon", "0.01", "--rows", "12").err  # false in 1 of 1,200 at most


def test_rho_and_delta_and_replace(folder: Path) -> None:
    common = ("release", folder / "people.csv", "--schema", folder / "people.schema.json", "--tables", "sexe", "--json")
    ran = ran_well(*common, "--rho", "0.5", "--ledger", _ledger(folder, "--rho", "2"), "-o", folder / "rho.parquet")
    assert json.loads(ran.out)["remaining"] == "1.5"
    ran = ran_well(
        *common,
        *("--epsilon", "1", "--delta", "1e-6", "--neighbours", "replace"),
        *("-o", folder / "delta.parquet", "--new-ledger", folder / "new.ledger"),
    )
    assert json.loads(ran.out)["statement"]["budget"] == {"epsilon": "1", "delta": "1e-06", "rule": "mu2"}
    assert json.loads(ran.out)["statement"]["neighbours"] == "replace"


def _ledger(folder: Path, *cap: str) -> Path:
    ran_well("ledger", "create", folder / "l.ledger", "--schema", folder / "people.schema.json", *cap)
    return folder / "l.ledger"


def test_a_workload_file_may_weigh_tables(folder: Path) -> None:
    workload = {"tables": [["sexe", "âge"], ["région"]], "weights": [10, 1]}
    (folder / "workload.json").write_text(json.dumps(workload), encoding="utf-8")
    ran = ran_well(
        "plan", folder / "people.schema.json", "--epsilon", "1", "--workload", folder / "workload.json", "--json"
    )
    assert json.loads(ran.out)["workload"] == {"tables": 2, "cells": 9}


def test_measuring_nothing_costs_nothing_and_leaves_no_ledger(folder: Path) -> None:
    ran = ran_well(
        "release",
        folder / "people.csv",
        "--schema",
        folder / "people.schema.json",
        "--epsilon",
        "1",
        "--strategy",
        "uniform",
        "--rows",
        "12",
    )
    assert "cost       nothing: no row was read" in ran.err
    assert not (folder / "people.ledger").exists()


def test_a_release_that_cannot_be_saved_says_how_to_get_it_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from crosstally.releases import Release

    def full(release: Release, path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Release, "save", full)
    ran = run("release", folder / "people.csv", "--schema", folder / "people.schema.json", *EXACT, "--key", "paid")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"crosstally: cannot write '{folder / 'people.release.parquet'}': No space left on device; it is paid for: "
        f"crosstally ledger export {folder / 'people.ledger'} paid -o FILE\n"
    )
    monkeypatch.undo()
    ran_well("ledger", "export", folder / "people.ledger", "paid", "-o", folder / "back.parquet")
    cells = json.loads(ran_well("table", folder / "back.parquet", "sexe", "--format", "json").out)["cells"]
    assert [round(cell["count"]) for cell in cells] == [4, 8]


# Ledger


def test_verify_fails_with_exit_code_1_on_a_changed_ledger(folder: Path) -> None:
    ledger = _ledger(folder, "--epsilon", "1")
    content = ledger.read_bytes()
    ledger.write_bytes(content.replace(b'"epsilon":"1"', b'"epsilon":"9"'))
    ran = run("ledger", "verify", ledger)
    assert ran.code == 1
    assert ran.err.startswith("crosstally: ")
    assert ran.err.count("\n") == 1
    assert json.loads(run("ledger", "verify", ledger, "--json").out)["sound"] is False


def test_ledger_create_prints_json(folder: Path) -> None:
    ran = ran_well(
        "ledger", "create", folder / "l.ledger", "--schema", folder / "people.schema.json", "--epsilon", "0.3", "--json"
    )
    assert json.loads(ran.out)["cap"] == {"epsilon": "0.3"}


def test_a_ledger_that_is_named_must_exist(folder: Path) -> None:
    """A misspelt name would open an account of its own, with a cap of its own, for the same people."""
    ran_well("ledger", "create", folder / "people.ledger", "--schema", folder / "people.schema.json", "--epsilon", 50)
    asked = ("--schema", folder / "people.schema.json", *EXACT)
    misspelt = ("--ledger", folder / "poeple.ledger")
    for command in (
        ("plan", folder / "people.schema.json", *PLANNED, *misspelt),
        ("release", folder / "people.csv", *asked, *misspelt, "-o", folder / "r.parquet"),
        ("ask", folder / "people.csv", "sexe = Femme", "--epsilon", 1, *misspelt),
        ("inspect", folder / "r.parquet", *misspelt),
    ):
        ran = run(*command)
        assert ran.code == 2
        if command[0] != "inspect":
            assert (
                "there is no such file; did you mean 'people.ledger'? To make a new one: crosstally ledger " in ran.err
            )
    assert sorted(each.name for each in folder.iterdir() if "ledger" in each.name) == ["people.ledger"]
    assert not (folder / "r.parquet").exists()
    ran_well("release", folder / "people.csv", *asked, "--ledger", folder / "people.ledger", "-o", folder / "r.parquet")


def test_the_ledger_beside_the_source_is_made_where_none_is_named(folder: Path) -> None:
    """What was spent is its cap, so that the same again is refused."""
    asked = ("--schema", folder / "people.schema.json", *EXACT)
    ran = ran_well("release", folder / "people.csv", *asked, "-o", folder / "r.parquet")
    assert "people.ledger (new; its cap is what was just spent, ε = 40)" in ran.err
    assert "To leave room, create the ledger first, with a higher cap" in " ".join(ran.err.split())
    again = run("release", folder / "people.csv", *asked, "-o", folder / "s.parquet")
    assert again.code == 2
    assert "the cap of ε = 40 would be exceeded" in again.err
