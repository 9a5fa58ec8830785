"""Every mistake of a user: one line on stderr, exit code 2, nothing on stdout, nothing spent, no file left behind."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from cli_runs import NAMES, ran_well, run, write_people, write_schema
from crosstally.privacy.ledger import Ledger

CANARY = "Zanzibar-4711"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with good and bad files. No test in this module may change it."""
    folder = tmp_path_factory.mktemp("mistakes")
    write_people(folder / "people.csv")
    write_people(folder / "other.csv")
    write_schema(folder / "people.schema.json")
    write_schema(folder / "draft.json", draft=True)
    (folder / "wrong.json").write_text('{"attributes": [{"name": "shoes", "values": ["a", "b"]}]}', encoding="utf-8")
    (folder / "cut.json").write_text('{"attributes": [', encoding="utf-8")
    bits = [{"name": f"b{i}", "values": ["0", "1"]} for i in range(20)]
    (folder / "bits.json").write_text(json.dumps({"attributes": bits}), encoding="utf-8")
    sizes = {"a": 1000, "b": 1500, "c": 1800}  # 1.5 + 1.8 + 2.7 million cells of pairs
    long = [{"name": name, "values": [str(i) for i in range(size)]} for name, size in sizes.items()]
    (folder / "long.json").write_text(json.dumps({"attributes": long}), encoding="utf-8")
    (folder / "empty.csv").write_text("", encoding="utf-8")
    (folder / "header.csv").write_text(",".join(NAMES) + "\n", encoding="utf-8")
    (folder / "bad.csv").write_text(f"sexe,âge\n{CANARY},3\n", encoding="utf-8")
    (folder / "sexe.json").write_text('{"attributes": [{"name": "sexe", "values": ["F", "M"]}]}', encoding="utf-8")
    (folder / "workload.json").write_text(json.dumps({"tables": "all"}), encoding="utf-8")
    (folder / "not.ledger").write_text("hello", encoding="utf-8")
    schema = ("--schema", folder / "people.schema.json")
    ran_well("ledger", "create", folder / "people.ledger", *schema, "--epsilon", "0.5", "--quiet")
    ran_well("release", folder / "people.csv", *schema, "--epsilon", "0.4", "--tables", "sexe", "--key", "k", "--quiet")
    ran_well("plan", folder / "people.schema.json", "--epsilon", "0.1", "--ways", "1", "-o", folder / "plan.json", "-q")
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    plan["schema"]["draft"] = True
    (folder / "draft-plan.json").write_text(json.dumps(plan), encoding="utf-8")
    content = (folder / "people.release.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(content[: len(content) // 2])
    return folder


RELEASE = "release people.csv --schema people.schema.json -o new.parquet --tables sexe"
MISTAKES = {
    "no such command": ("tabel", "no such command"),
    "no such option": ("plan people.schema.json --epsilom 1", "no such option"),
    "a missing argument": ("plan", "missing argument"),
    "a missing command": ("ledger --quiet", "no such option"),
    "an option without its value": ("plan people.schema.json --epsilon", "requires an argument"),
    "no whole number": (
        "plan people.schema.json --epsilon 1 --rows 1.5",
        "invalid value for '--rows': '1.5' is not a whole number, in digits alone; see crosstally plan --help",
    ),
    "a number below the least": (
        "plan people.schema.json --epsilon 1 --rows -5",
        "invalid value for '--rows': it must be greater than or equal to 0",
    ),
    "a table in no known format": (
        "table people.release.parquet sexe -o t.xyz",
        "no format has the ending of 't.xyz': name it .csv, .json, .parquet, .xlsx, .px, .txt, or say --format",
    ),
    "a format by a wrong name": ("table people.release.parquet sexe -f xls", "'-f': 'xls' is not one of 'table'"),
    # Files
    "a missing source": ("release nobody.csv --schema people.schema.json --epsilon 0.1", "nobody.csv"),
    "a missing schema": ("release people.csv --schema nobody.json --epsilon 0.1 -o n.parquet", "nobody.json"),
    "no schema at all": ("release people.csv --epsilon 0.1 -o n.parquet", "needs --schema, or --plan"),
    "a schema cut short": ("plan cut.json --epsilon 1", "is not JSON"),
    "rows instead of a schema": (
        "plan people.csv --epsilon 1",
        "a plan needs a schema: if these are rows, draft one with crosstally schema draft people.csv -o people.schema",
    ),
    "a release instead of rows": (
        "schema draft people.release.parquet -o n.json",
        "is a release, which has noisy tables and no rows: read them with crosstally table people.release.parquet",
    ),
    "no synthetic data": (
        "synth people.release.parquet --rows 0 -o n.csv",
        "rows must be a whole number of at least 1, got 0",
    ),
    "a schema for another table": (
        "release other.csv --schema wrong.json --epsilon 0.1 --new-ledger n.ledger",
        "shoes",
    ),
    "a draft schema": ("release people.csv --schema draft.json --epsilon 0.1 -o n.parquet", "is a draft"),
    "a plan to be saved of a draft": ("plan draft.json --epsilon 0.1 --ways 1 -o n.json", "is a draft"),
    "an error to aim at that no plan says": (
        "plan bits.json --target-error 5 --strategy views",
        "no error can be aimed at",
    ),
    "a plan of too many cells": (
        "plan long.json --epsilon 1 --strategy direct --ways 2 -o n.json",
        "at most 5,000,000 cells can be measured at once, got 6,000,000",
    ),
    "a plan of too many cells, as JSON": (
        "plan long.json --epsilon 1 --strategy direct --ways 2 --json",
        "at most 5,000,000 cells can be measured at once, got 6,000,000",
    ),
    "a release of too many cells": (
        "release people.csv --schema long.json --epsilon 1 --strategy direct --ways 2 -o n.p --new-ledger n.ledger",
        "at most 5,000,000 cells can be measured at once, got 6,000,000",
    ),
    "a draft plan": ("release people.csv --plan draft-plan.json -o n.parquet", "is a draft"),
    "an empty file": (
        "release empty.csv --schema people.schema.json --epsilon 0.1",
        "it is empty, without even a header",
    ),
    "a value outside the labels": ("release bad.csv --schema sexe.json --epsilon 0.1 --new-ledger n.ledger", "sexe"),
    "a missing release": ("table nobody.parquet sexe", "nobody.parquet"),
    "a release cut short": ("table cut.parquet sexe", "cut.parquet"),
    "a release cut short, inspected": ("inspect cut.parquet", "cut.parquet"),
    "a table that is no release": ("inspect people.csv", "people.csv"),
    "a missing plan": ("release people.csv --plan nobody.json -o n.parquet", "nobody.json"),
    "a plan that is none": ("release people.csv --plan people.schema.json -o n.parquet", "not a crosstally plan"),
    # Budgets
    "no budget": (RELEASE, "--epsilon, --rho, or --epsilon and --delta"),
    "zero epsilon": (f"{RELEASE} --epsilon 0", "epsilon must be positive, got 0"),
    "a negative epsilon": (f"{RELEASE} --epsilon -1", "epsilon must be positive, got -1"),
    "epsilon in words": (f"{RELEASE} --epsilon abc", "epsilon must be a number, got 'abc'"),
    "epsilon is nan": (f"{RELEASE} --epsilon nan", "epsilon must be a number, got 'nan'"),
    "an endless epsilon": (f"{RELEASE} --epsilon 1e999999999", "epsilon"),
    "epsilon and rho": (f"{RELEASE} --epsilon 1 --rho 1", "epsilon, or rho, or epsilon and delta"),
    "delta above one": (f"{RELEASE} --epsilon 1 --delta 2", "delta must be below 1"),
    "delta alone": ("plan people.schema.json --delta 0.1", "--epsilon and --delta"),
    "a plan with epsilon": ("release people.csv --plan plan.json --epsilon 1 -o n.parquet", "leave out --epsilon"),
    "a plan with much else": (
        "release people.csv --plan plan.json --ways 2 --strategy flat --neighbours replace -o n.parquet",
        "leave out --neighbours, --ways, --strategy, or --plan",
    ),
    "a target error with epsilon": ("plan people.schema.json --target-error 5 --epsilon 1", "leave out --epsilon"),
    "a negative target error": ("plan people.schema.json --target-error -5", "must be positive"),
    "unknown neighbours": (f"{RELEASE} --epsilon 0.1 --neighbours friends", "--neighbours"),
    "negative rows": (f"{RELEASE} --epsilon 0.1 --rows -5", "rows must be a whole number of at least 0"),
    "rows in words": (f"{RELEASE} --epsilon 0.1 --rows many", "--rows"),
    # Tables
    "an unknown strategy": (f"{RELEASE} --epsilon 0.1 --strategy flatt", "did you mean 'flat'?"),
    "an unknown attribute": (
        "release people.csv --schema people.schema.json --tables sex -o n.parquet --epsilon 0.1",
        "did you mean 'sexe'?",
    ),
    "an attribute twice": ("plan people.schema.json --epsilon 1 --tables sexe,sexe", "sexe"),
    "too many ways": ("plan people.schema.json --epsilon 1 --ways 41", "from 1 to 40"),
    "no ways": ("plan people.schema.json --epsilon 1 --ways 0", "from 1 to 40"),
    "ways and tables": ("plan people.schema.json --epsilon 1 --ways 1 --tables sexe", "in one way"),
    "a workload that is none": (
        "plan people.schema.json --epsilon 1 --workload workload.json",
        "tables must be a list",
    ),
    "a missing workload": ("plan people.schema.json --epsilon 1 --workload nobody.json", "nobody.json"),
    "a table too large": (f"{RELEASE} --epsilon 0.1 --strategy flat", "cells"),
    # Output
    "a missing folder": (
        "release people.csv --schema people.schema.json --epsilon 0.1 -o no/where.parquet",
        "there is no folder 'no'; create it first",
    ),
    "a folder that is a file": (
        "release people.csv --schema people.schema.json --epsilon 0.1 -o people.csv/a.parquet",
        "there is no folder",
    ),
    "a folder as output": ("release people.csv --schema people.schema.json --epsilon 0.1 -o .", "it is a folder"),
    "a folder that cannot be written": (
        "release people.csv --schema people.schema.json --epsilon 0.1 -o /proc/a",
        "cannot write into the folder '/proc'",
    ),
    "an output that exists": ("release people.csv --schema people.schema.json --epsilon 0.1 -o plan.json", "--force"),
    "a plan that exists": ("plan people.schema.json --epsilon 1 -o plan.json", "--force"),
    "parquet to the terminal": ("table people.release.parquet sexe --format parquet", "name a file with -o"),
    "an unknown format": ("table people.release.parquet sexe --format xml", "--format"),
    "an unknown kind of chart": ("table people.release.parquet sexe --plot chart.doc", "chart.doc"),
    # Ledgers
    "a ledger that is none": (f"{RELEASE} --epsilon 0.1 --ledger not.ledger", "is not a ledger"),
    "an overspent ledger": (f"{RELEASE} --epsilon 0.2", "the cap of ε = 0.5 would be exceeded"),
    "an overspent ledger, named": (f"{RELEASE} --epsilon 0.2 --ledger people.ledger", "ε = 0.1 is left"),
    "a ledger of other people": (
        "release bad.csv --schema sexe.json --epsilon 0.1 --ledger people.ledger",
        "another schema",
    ),
    "a ledger of other neighbours": (f"{RELEASE} --epsilon 0.1 --neighbours replace", "add-remove"),
    "a key of another request": (f"{RELEASE} --epsilon 0.1 --key k", "belongs to another request"),
    "an empty key": (f"{RELEASE} --epsilon 0.1 --key ''", "a key must be a printable text"),
    "a ledger that exists": ("ledger create people.ledger --schema people.schema.json --epsilon 1", "exists already"),
    "a ledger for a draft": ("ledger create new.ledger --schema draft.json --epsilon 1", "draft"),
    "a ledger without a cap": ("ledger create new.ledger --schema people.schema.json", "--epsilon"),
    "a ledger to show that is missing": ("ledger show nobody.ledger", "nobody.ledger"),
    "a ledger to verify that is missing": ("ledger verify nobody.ledger", "nobody.ledger"),
    "an unknown key": ("ledger export people.ledger kk -o n.parquet", "no entry with the key 'kk'"),
    # Questions
    "an unknown attribute in a table": ("table people.release.parquet sexe shoes", "unknown attribute 'shoes'"),
    "an attribute twice in a table": ("table people.release.parquet sexe sexe", "named twice"),
    "an unknown label": (
        "table people.release.parquet --where sexe=Woman",
        "'sexe' has no label 'Woman'; it has Femme, Homme",
    ),
    "an unknown attribute in a condition": ("table people.release.parquet --where shoes=1", "unknown attribute"),
    "a condition that is none": ("table people.release.parquet --where Femme", "at position 6: expected =, !=, <"),
    "a condition that nobody can satisfy": (
        "table people.release.parquet --where 'sexe=Femme and sexe=Homme'",
        "no row can satisfy 'sexe=Femme and sexe=Homme': no combination of values does",
    ),
    "a condition within a bin": (
        "table people.release.parquet --where 'âge >= 20'",
        "bounds must be edges of its bins",
    ),
    "a level above one": ("table people.release.parquet sexe --level 95", "level must be between 0 and 1"),
    "an unknown method": ("table people.release.parquet sexe --method magic", "unknown method"),
    # Demo
    "a demo over foreign files": ("demo --directory .", "which no demo wrote"),
    "a demo in a file": ("demo --directory people.csv", "people.csv"),
    "a draft of a missing file": ("schema draft nobody.csv", "nobody.csv"),
    "a draft of an empty file": ("schema draft empty.csv", "empty.csv"),
    "a draft over a file": ("schema draft people.csv -o people.schema.json", "--force"),
    "a draft with one value": ("schema draft people.csv --max-values 1", "--max-values"),
    "a check of a missing column": ("schema check people.csv wrong.json", "shoes"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_clear_line(mistake: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shlex

    monkeypatch.chdir(folder)
    before = _contents(folder)
    command, words = MISTAKES[mistake]
    ran = run(*shlex.split(command))
    assert ran.code == 2, ran
    assert ran.out == ""
    assert ran.err.startswith("crosstally: ")
    assert (ran.err.count("\n"), ran.err[-1]) == (1, "\n")
    assert words in ran.err
    assert CANARY not in ran.err
    assert "Traceback" not in ran.err
    assert _contents(folder) == before
    ledger = Ledger.open(folder / "people.ledger")
    assert (ledger.spent, [entry.key for entry in ledger.entries()]) == (Fraction("0.4"), ["k"])


def _contents(folder: Path) -> dict[str, bytes]:
    """What every file holds, ledgers aside, whose entries are looked at instead."""
    files = (path for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm")))
    return {path.name: b"" if path.name == "people.ledger" else path.read_bytes() for path in files}
