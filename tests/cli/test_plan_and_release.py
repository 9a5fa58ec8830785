"""``plan`` approves nothing that ``release`` refuses: both say the same of the same settings, and nothing is spent."""

import json
import shlex
from pathlib import Path

import pytest

import crosstally as ct
from cli_runs import ran_well, run, write_people, write_schema

REFUSED = (
    "--epsilon 0",
    "--epsilon -1",
    "--epsilon one",
    "--epsilon 1e301",
    "--delta 1e-6",
    "--epsilon 1 --delta 1",
    "--epsilon 1 --rho 1",
    "",
    "--epsilon 1 --ways 0",
    "--epsilon 1 --ways 41",
    "--epsilon 1 --ways 2 --tables sexe",
    "--epsilon 1 --tables nobody",
    "--epsilon 1 --tables sexe,sexe",
    "--epsilon 1 --tables sexe --tables sexe",
    "--epsilon 1 --workload none.json",
    "--epsilon 1 --workload wrong.json",
    "--epsilon 1 --strategy magic",
    "--epsilon 1 --strategy flat",
    "--epsilon 1 --strategy residual",
    "--epsilon 1e-15",
    "--epsilon 1e-20 --delta 1e-300",
    "--epsilon 1 --rows 9223372036854775808",
    "--epsilon 1 --ledger other.ledger",
    "--epsilon 1.5 --ledger replace.ledger",
    "--epsilon 1 --delta 1e-9 --ways 1 --ledger pure.ledger",
    "--rho 1 --ledger pure.ledger",
    "--epsilon 2.5 --ledger pure.ledger",
    "--epsilon 3 --ledger rho.ledger",
    "--epsilon 1 --neighbours replace --ledger pure.ledger",
    "--epsilon 1 --tables sexe --ledger none.ledger",
)
TAKEN = (
    "--epsilon 1 --ways 1",
    "--epsilon 2 --tables sexe,âge --ledger pure.ledger",
    "--epsilon 1 --delta 1e-9 --tables sexe --ledger rho.ledger",
    "--epsilon 1 --tables sexe --neighbours replace --ledger replace.ledger",
    "--rho 0.1 --objective cells --tables sexe",
    "--epsilon 1 --tables sexe",
)


def filled(folder: Path) -> Path:
    """A folder with people, schemas, and ledgers that nothing was spent from."""
    (folder / "rows").mkdir()
    write_people(folder / "rows" / "people.csv")
    write_schema(folder / "people.json")
    write_schema(folder / "draft.json", draft=True)
    (folder / "wrong.json").write_text(json.dumps({"tables": "sexe"}), encoding="utf-8")
    schema = ct.Schema.load(folder / "people.json")
    for name, budget, neighbours in (
        ("pure", ct.Budget(epsilon=2), "add-remove"),
        ("rho", ct.Budget(rho=1), "add-remove"),
        ("replace", ct.Budget(epsilon=2), "replace"),
    ):
        ct.Ledger.create(folder / f"{name}.ledger", schema=schema, budget=budget, neighbours=ct.Neighbours(neighbours))
    ct.Ledger.create(folder / "other.ledger", schema=schema.subset("sexe"), budget=ct.Budget(epsilon=2))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("people"))


@pytest.mark.parametrize("options", REFUSED)
def test_both_refuse_with_the_same_words(options: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    given = shlex.split(options)
    planned, released = (
        run("plan", "people.json", *given),
        run("release", "rows/people.csv", "--schema", "people.json", *given),
    )
    assert planned.code == released.code == 2
    assert planned.err.replace("crosstally plan --help", "crosstally release --help") == released.err
    assert not (folder / "rows" / "people.release.parquet").exists()
    assert not (folder / "rows" / "people.ledger").exists()
    assert all(not ct.Ledger.open(path).entries() for path in folder.glob("*.ledger"))


@pytest.mark.parametrize("options", TAKEN)
def test_what_plan_takes_release_takes(options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(filled(tmp_path))
    given = shlex.split(options)
    said = ran_well("plan", "people.json", *given).err
    assert f"{shlex.join(given[-2:])}\n" in said  # the last option stands last in what comes next
    ran_well("release", "rows/people.csv", "--schema", "people.json", *given)


def test_a_draft_is_planned_to_be_looked_at_and_never_approved(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    said = ran_well("plan", "draft.json", "--epsilon", "1", "--ways", "1").err
    assert said == "The schema is a draft: review it and remove its draft mark before a release.\n"
    planned = run("plan", "draft.json", "--epsilon", "1", "--ways", "1", "-o", "draft.plan.json")
    released = run("release", "rows/people.csv", "--schema", "draft.json", "--epsilon", "1", "--ways", "1")
    assert planned.code == released.code == 2
    assert planned.err == released.err
