"""Every command on a small private table, from draft to export."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet
import pytest

from cli_runs import AGE_BY_SEX, NAMES, ran_well, run, write_people, write_schema
from crosstally.papers import experiments
from crosstally.papers.outcomes import Claim, Experiment, Outcome, Settings
from crosstally.privacy.ledger import Ledger, State

# At ε = 40 for two tables a cell is wrong with probability 2 e^-20 / (1 - e^-20) < 5e-9: counts can be asserted.
EXACT = ("--epsilon", "40", "--tables", "sexe,âge", "--tables", "région", "--strategy", "direct-uniform")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_people(tmp_path / "people.csv")
    write_schema(tmp_path / "people.schema.json")
    return tmp_path


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a release that nobody changes."""
    folder = tmp_path_factory.mktemp("released")
    write_people(folder / "people.csv")
    write_schema(folder / "people.schema.json")
    ran_well("release", folder / "people.csv", "--schema", folder / "people.schema.json", *EXACT, "--key", "first")
    return folder


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
    assert lines[:3] == ["ε = 1, add-remove", "40 attributes; wanted: 1 table with 6 cells.", ""]
    # One table at ε = 1: the root of 1.84135 in a typical cell of 6,000 / 6 rows
    assert "Tables over two attributes will be within 0.14% of a typical cell (± 1.36 of 1,000 rows): good." in lines
    assert "What would change tables over two attributes most:" in lines
    twice = next(line for line in lines if "spend twice" in line)
    # discrete Laplace noise of scale 1/2 has the variance 2a / (1 - a)^2 = 0.36210 with a = e^-2
    assert twice == (
        "  - spend twice as much, ε = 2: 2.3 times less error, 0.060% of a typical cell, good (--epsilon 2)"
    )
    assert "strategy" not in ran.out


def test_plan_compares_strategies_and_marks_the_chosen_one(folder: Path) -> None:
    ran = ran_well("plan", folder / "people.schema.json", "--epsilon", "1", "--tables", "sexe,âge", "--compare")
    lines = ran.out.splitlines()
    assert next(line for line in lines if line.startswith("▸")).split()[1] == "stepwise"
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
    ran_well("plan", folder / "people.schema.json", *EXACT, "-o", plan)
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
    assert lines[0] == "measured   2 tables, 9 numbers, by direct-uniform"
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
    assert "the cap of ε = 40 would be passed" in ran.err
    assert [path.name for path in (folder / "links").iterdir()] == ["friends.csv"]
    old = folder / "more" / "friends.ledger"  # as 0.1.0 would have made it: two ledgers, and only the user knows
    ran_well("ledger", "create", old, "--schema", folder / "people.schema.json", "--epsilon", "100")
    ran = run("release", folder / "more" / "friends.csv", *asked)
    assert ran.err == (
        f"crosstally: '{folder / 'more' / 'friends.csv'}' is a link and has the ledger of its target, "
        f"'{folder / 'people.ledger'}', but '{old}' lies beside the link: say which with --ledger\n"
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
        "crosstally: several files have no one name to go by: say --ledger FILE\n"
    )
    ran_well("ledger", "create", folder / "l.ledger", "--schema", folder / "people.schema.json", "--epsilon", "100")
    ran_well(*several, "-o", folder / "r.parquet", "--ledger", folder / "l.ledger")
    cells = json.loads(ran_well("table", folder / "r.parquet", "sexe", "--format", "json").out)["cells"]
    assert [(cell["labels"], round(cell["count"])) for cell in cells] == [(["Femme"], 8), (["Homme"], 16)]


def test_a_header_without_rows_releases_normally(folder: Path) -> None:
    (folder / "people.csv").write_text(",".join(NAMES) + "\n", encoding="utf-8")
    ran_well("release", folder / "people.csv", "--schema", folder / "people.schema.json", *EXACT)
    cells = json.loads(ran_well("table", folder / "people.release.parquet", "sexe", "--format", "json").out)["cells"]
    assert [round(cell["count"]) for cell in cells] == [0, 0]


def test_rho_and_delta_and_replace(folder: Path) -> None:
    common = ("release", folder / "people.csv", "--schema", folder / "people.schema.json", "--tables", "sexe", "--json")
    ran = ran_well(*common, "--rho", "0.5", "--ledger", _ledger(folder, "--rho", "2"), "-o", folder / "rho.parquet")
    assert json.loads(ran.out)["remaining"] == "1.5"
    ran = ran_well(
        *common, "--epsilon", "1", "--delta", "1e-6", "--neighbours", "replace", "-o", folder / "delta.parquet"
    )
    assert json.loads(ran.out)["statement"]["budget"] == {"epsilon": "1", "delta": "1e-06"}
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


def test_ledger_show_verify_export(released: Path, tmp_path: Path) -> None:
    ledger = released / "people.ledger"
    shown = ran_well("ledger", "show", ledger).out
    assert "spent        ε = 40\nremains      ε = 0\n" in shown
    assert "first   direct-uniform   delivered   ε = 40\n" in shown
    found = json.loads(ran_well("ledger", "show", ledger, "--json").out)
    assert (found["spent"], found["remaining"], found["entries"][0]["key"]) == ("40", "0", "first")
    assert ran_well("ledger", "verify", ledger).err == f"{ledger} is sound: 1 entry, nothing was changed.\n"
    assert json.loads(ran_well("ledger", "verify", ledger, "--json").out)["sound"] is True
    ran = ran_well("ledger", "export", ledger, "first", "-o", tmp_path / "again.parquet")
    assert ran.err == f"Written {tmp_path / 'again.parquet'}: 2 tables of first; nothing spent.\n"
    assert (tmp_path / "again.parquet").read_bytes() == (released / "people.release.parquet").read_bytes()


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
    assert "never measured together" in " ".join(out.split())


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


# Reproduce


def _outcome(*, holds: bool | None) -> Outcome:
    claims = (
        Claim("Flat wins.", of="paper", holds=False, figure="1.2 x"),
        Claim("Direct wins.", of="crosstally", holds=holds, figure="0.8 x"),
    )
    return Outcome("small", ({"strategy": "flat", "error": 1.25}, {"strategy": "direct", "error": 2.5}), claims=claims)


@pytest.fixture(params=[True, False, None])
def experiment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool | None:
    """A small experiment beside the real ones, and whether its claim of crosstally's holds; None is open."""

    def small(settings: Settings) -> Outcome:
        assert settings.quick
        settings.progress(1, 1)
        return _outcome(holds=request.param)

    monkeypatch.setattr(experiments, "EXPERIMENTS", (*experiments.EXPERIMENTS, Experiment("small", "A test", small)))
    return request.param


def test_reproduce_lists_experiments(experiment: bool | None) -> None:
    names = [each["name"] for each in json.loads(ran_well("reproduce", "--list", "--json").out)]
    assert {"priview-crossover", "small"} <= set(names)
    assert "A test" in ran_well("reproduce", "--list").out


def test_reproduce_prints_rows_and_verdicts_and_fails_on_claims_of_ours(
    experiment: bool | None, tmp_path: Path
) -> None:
    ran = run("reproduce", "small", "--quick", "--json", "-o", tmp_path / "results", "--quiet")
    assert json.loads(ran.out) == {
        "name": "small",
        "rows": [{"strategy": "flat", "error": 1.25}, {"strategy": "direct", "error": 2.5}],
        "claims": [
            {"claim": "Flat wins.", "of": "paper", "holds": False, "figure": "1.2 x"},
            {"claim": "Direct wins.", "of": "crosstally", "holds": experiment, "figure": "0.8 x"},
        ],
    }
    assert (tmp_path / "results" / "outcome.json").is_file()
    told = "crosstally: 1 claim of crosstally does not hold; the first: Direct wins.\n"
    assert (ran.code, ran.err) == ((1, told) if experiment is False else (0, ""))
    shown = run("reproduce", "small", "--quick").out
    assert "flat        1.25\ndirect       2.5\n" in shown
    word = {True: "holds", False: "does not hold", None: "open"}[experiment]
    assert re.search(rf"^{word} +Direct wins. \(crosstally\)$", shown, re.MULTILINE)


def test_reproduce_all_writes_one_page_of_all_verdicts(
    experiment: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only = tuple(each for each in experiments.EXPERIMENTS if each.name == "small")
    monkeypatch.setattr(experiments, "EXPERIMENTS", only)
    ran = run("reproduce", "--all", "--quick", "--json", "-o", tmp_path / "all", "--quiet")
    assert ran.code == (1 if experiment is False else 0)
    assert [each["name"] for each in json.loads(ran.out)] == ["small"]
    page = (tmp_path / "all" / "index.html").read_text(encoding="utf-8")
    word = {True: "holds", False: "does not hold", None: "open"}[experiment]
    assert f"<tr><th>{word}</th><td>Direct wins.</td><td>crosstally</td><td>0.8 x</td></tr>" in page
    assert "1 experiments, 2 claims, quick runs." in page
    assert (tmp_path / "all" / "small" / "rows.csv").is_file()
    assert "Direct wins." in run("reproduce", "--all", "--quick", "-o", tmp_path / "all").out


def test_reproduce_all_takes_no_name() -> None:
    ran = run("reproduce", "small", "--all")
    assert (ran.code, "leave out the name and --data" in ran.err) == (2, True)


def test_a_ledger_that_is_named_is_made_like_the_one_beside_the_source(folder: Path) -> None:
    """Planned and released alike; what was spent is the cap, so that the same again is refused."""
    asked = ("--schema", folder / "people.schema.json", *EXACT)
    named = ("--ledger", folder / "mine.ledger", "-o", folder / "r.parquet")
    planned = ran_well("plan", folder / "people.schema.json", *EXACT, "--ledger", folder / "mine.ledger")
    assert "--ledger" in planned.err + planned.out
    assert not (folder / "mine.ledger").exists()
    ran = ran_well("release", folder / "people.csv", *asked, *named)
    assert "mine.ledger (new; its cap is what was just spent, ε = 40)" in ran.err
    assert "To leave room, create the ledger first, with a higher cap" in " ".join(ran.err.split())
    again = run("release", folder / "people.csv", *asked, *named[:2], "-o", folder / "s.parquet")
    assert again.code == 2
    assert "the cap of ε = 40 would be passed" in again.err
