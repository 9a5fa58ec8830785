"""What ``plan`` says to run next gives what was planned, word for word."""

import json
import shlex
from pathlib import Path

import pytest

import crosstally as ct
from cli_runs import ran_well, run, write_people, write_schema
from crosstally.plans.plan import Plan

BITS = tuple(f"b{i}" for i in range(16))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files in a folder with a blank in its name, which is also where commands run."""
    folder = tmp_path / "my people"
    folder.mkdir()
    monkeypatch.chdir(folder)
    write_people(folder / "people.csv")
    write_schema(folder / "the people's.schema.json")
    workload = {"tables": [["sexe", "âge"], ["région"]], "weights": [1, 5]}
    (folder / "my workload.json").write_text(json.dumps(workload), encoding="utf-8")
    ct.Schema([ct.Attribute(name, ["0", "1"]) for name in BITS]).save(folder / "bits.json")
    rows = [",".join(str((row >> i) & 1) for i in range(16)) for row in range(100)]
    (folder / "bits.csv").write_text("\n".join([",".join(BITS), *rows]) + "\n", encoding="utf-8")
    return folder


def next_of(said: str) -> str:
    (line,) = [line for line in said.splitlines() if line.startswith("Next: ")]
    return line.removeprefix("Next: ")


def follow(command: str, source: str) -> None:
    """Run what was printed, as a shell would, with a file in the place of SOURCE."""
    for part in command.split(" && "):
        name, *words = shlex.split(part)
        assert name == "crosstally"
        ran_well(*(source if word == "SOURCE" else word for word in words))


@pytest.mark.parametrize(
    "options",
    [
        "--target-error 20 --ways 1",
        "--epsilon 1/3 --tables sexe,âge --tables région",
        "--epsilon 1 --delta 1e-6 --workload 'my workload.json'",
        "--rho 0.5 --tables 'sexe, âge' --strategy direct-uniform",
        "--epsilon 1 --ways 1 --neighbours replace --strategy fourier",
        "--epsilon 1 --rows 1000 --ways 1",
        "--target-error 200 --delta 1e-7 --ways 1",
        "--rho 0.5 --ways 1 --ranges âge",
        "--target-error 20 --ranges âge",
    ],
)
def test_next_repeats_exactly_what_was_planned(options: str, folder: Path) -> None:
    said = ran_well("plan", "the people's.schema.json", *shlex.split(options)).err
    ran_well("plan", "the people's.schema.json", *shlex.split(options), "-o", "expected.json")
    follow(next_of(said), "people.csv")
    expected, release = Plan.load("expected.json"), ct.open_release("people.release.parquet")
    assert [(each.query, each.noise) for each in release.measurements] == [
        (each.query, each.noise) for each in expected.requests
    ]
    assert release.statement.budget == expected.budget
    assert release.statement.neighbours is expected.neighbours
    assert release.statement.rows is None  # what was a guess is not asserted


def test_the_issues_own_case_says_its_options(folder: Path) -> None:
    said = ran_well("plan", "the people's.schema.json", "--epsilon", "1", "--ways", "1").err
    assert next_of(said) == ("crosstally release SOURCE --schema 'the people'\"'\"'s.schema.json' --epsilon 1 --ways 1")


def test_a_plan_that_rests_on_a_guessed_number_of_rows_goes_through_a_file(folder: Path) -> None:
    """A hundred million rows: the full table, 65,536 cells; without that number rows are bought and views follow."""
    said = ran_well("plan", "bits.json", "--epsilon", "1", "--strategy", "views", "--rows", "100000000").err
    assert next_of(said) == (
        "crosstally plan bits.json --epsilon 1 --rows 100000000 --strategy views -o bits.plan.json"
        " && crosstally release SOURCE --plan bits.plan.json"
    )
    follow(next_of(said), "bits.csv")
    release = ct.open_release("bits.release.parquet")
    assert [each.query.attributes for each in release.measurements] == [BITS]
    assert release.statement.rows is None


def test_stages_are_followed_too(folder: Path) -> None:
    said = ran_well("plan", "bits.json", "--epsilon", "1", "--strategy", "views").err
    follow(next_of(said), "bits.csv")
    assert len(ct.open_release("bits.release.parquet").measurements) == 7  # the total and six views


def test_the_stages_of_the_default_are_followed_too(folder: Path) -> None:
    said = ran_well("plan", "bits.json", "--epsilon", "1", "--rows", "70").err
    assert next_of(said) == "crosstally release SOURCE --schema bits.json --epsilon 1"  # it does not rest on the guess
    follow(next_of(said), "bits.csv")
    asked = [each.query.attributes for each in ct.open_release("bits.release.parquet").measurements]
    singles = {name for names in asked for name in names}  # the first stage measures small attributes together
    assert singles == set(BITS)
    assert len(asked) > len(set(asked[0]))


def test_saved_plans_are_named_as_the_shell_reads_them(folder: Path) -> None:
    said = ran_well("plan", "bits.json", "--epsilon", "1", "--ways", "1", "-o", "my plan.json").err
    assert said.strip().endswith("Run exactly this: crosstally release SOURCE --plan 'my plan.json'")


def test_what_measures_nothing_needs_a_public_number_of_rows(folder: Path) -> None:
    said = ran_well("plan", "bits.json", "--epsilon", "1", "--strategy", "uniform", "--rows", "70").err
    follow(next_of(said), "bits.csv")
    assert ct.open_release("bits.release.parquet").statement.rows == 70
    said = ran_well("plan", "bits.json", "--epsilon", "1", "--strategy", "uniform").err
    assert next_of(said).endswith("--strategy uniform --rows ROWS")


def test_the_target_error_of_views_is_met_by_the_plan_for_these_rows(folder: Path) -> None:
    """Without the number of rows no error is known before the first stage; the answer was ε = 10."""
    views = ("plan", "bits.json", "--target-error", "20", "--strategy", "views")
    refused = run(*views)
    assert refused.code == 2
    assert "name the tables that matter, or give rows" in refused.err
    found = json.loads(ran_well(*views, "--rows", "5000", "--json").out)
    chosen = next(each for each in found["plans"] if each["strategy"] == found["chosen"])
    assert found["chosen"] == "views"
    assert 19 < chosen["rms_error"] <= 20
