"""Slips of the pen with ledgers: none opens a second account of the same people without words that say so."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import crosstally as ct
from cli_runs import ran_well, run

SCHEMA = {"attributes": [{"name": "sex", "values": ["f", "m"]}]}
OTHER = {"attributes": [{"name": "sex", "values": ["f", "m", "x"]}]}
SPEND = ("--epsilon", "0.5", "--strategy", "direct", "--tables", "sex", "--quiet")


def rows(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("sex\n" + "f\nm\n" * 20, encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """People, their schema, and an account that has paid for one release."""
    rows(tmp_path / "people.csv")
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "other.json").write_text(json.dumps(OTHER))
    (tmp_path / "2027.json").write_text(json.dumps({**SCHEMA, "about": {"period": "2027"}}))
    ct.Ledger.create(tmp_path / "people.ledger", schema=ct.Schema.from_dict(SCHEMA), budget=ct.Budget(epsilon=1))
    release(tmp_path, "people.csv")
    return tmp_path


def release(folder: Path, source: str, *more: object, schema: str = "s.json") -> str:
    """What a release says that is refused; empty if it went well."""
    out = folder / f"{len(list(folder.glob('*.parquet')))}.parquet"
    ran = run("release", folder / source, "--schema", folder / schema, *SPEND, "-o", out, *more)
    assert (ran.code == 2) == bool(ran.err), ran.err
    return ran.err


def copied(folder: Path) -> str:
    shutil.copy(folder / "people.ledger", folder / "copy.ledger")
    return release(folder, "people.csv")


def read_only(folder: Path) -> str:
    (folder / "people.ledger").chmod(0o400)
    return release(folder, "people.csv")


def exhausted(folder: Path) -> str:
    release(folder, "people.csv")
    return release(folder, "people.csv")


def linked(folder: Path) -> str:
    (folder / "links").mkdir()
    (folder / "links" / "p.csv").symlink_to(folder / "people.csv")
    release(folder, "links/p.csv")
    return release(folder, "links/p.csv")


def python_without_ledger(folder: Path) -> str:
    made = ct.release(folder / "people.csv", ct.Schema.from_dict(SCHEMA), epsilon="0.5")
    made.save(folder / "python.parquet")
    said = ran_well("inspect", folder / "python.parquet").out
    assert "Paid by" not in said
    return " ".join(said.split())


def put_back(folder: Path) -> str:
    """The account after one spend, put back after a second one."""
    (folder / "kept").mkdir()
    shutil.copy(folder / "people.ledger", folder / "kept" / "old.ledger")
    release(folder, "people.csv")
    shutil.copy(folder / "kept" / "old.ledger", folder / "people.ledger")
    return release(folder, "people.csv")


def named_by_the_schema(folder: Path) -> str:
    """Another folder without any ledger: the schema says which account pays."""
    (folder / "named.json").write_text(json.dumps({**SCHEMA, "ledger": "people.ledger"}))
    source = rows(folder / "elsewhere" / "people.csv").relative_to(folder)
    release(folder, str(source), schema="named.json")
    return release(folder, str(source), schema="named.json")


def named_wrongly(folder: Path) -> str:
    (folder / "named.json").write_text(json.dumps({**SCHEMA, "ledger": "peopel.ledger"}))
    return release(folder, "people.csv", schema="named.json")


SLIPS: dict[str, tuple[Callable[[Path], str], str]] = {
    "a forgotten option": (lambda at: release(at, "people.csv"), ""),
    "a renamed source": (lambda at: release(at, rows(at / "renamed.csv").name), ""),
    "a source with a suffix more": (lambda at: release(at, rows(at / "people.2027.csv").name), ""),
    "a link to the source": (linked, "nothing is left"),
    "a copied ledger": (copied, "are about this schema, and one account must pay"),
    "a ledger of other people beside the source": (
        lambda at: release(at, "people.csv", schema="other.json"),
        "are about other schemas",
    ),
    "other labels in the same account": (
        lambda at: release(at, "people.csv", "--ledger", at / "people.ledger", schema="other.json"),
        "say how many rows one person may be",
    ),
    "the same labels of another year": (
        lambda at: release(at, "people.csv", "--ledger", at / "people.ledger", schema="2027.json"),
        "say how many rows one person may be",
    ),
    "another year, and no ledger named": (
        lambda at: release(at, "people.csv", schema="2027.json"),
        "are about other schemas",
    ),
    "a misspelt ledger": (
        lambda at: release(at, "people.csv", "--ledger", at / "peopel.ledger"),
        "did you mean 'people.ledger'",
    ),
    "a file that is no ledger": (lambda at: release(at, "people.csv", "--ledger", at / "s.json"), "ledger"),
    "a new ledger over an old one": (
        lambda at: release(at, "people.csv", "--new-ledger", at / "people.ledger"),
        "exists already",
    ),
    "an old and a new ledger": (
        lambda at: release(at, "people.csv", "--ledger", at / "people.ledger", "--new-ledger", at / "n.ledger"),
        "leave out --ledger or --new-ledger",
    ),
    "several files": (
        lambda at: release(at, "people.csv", at / "people.csv"),
        "say --ledger FILE, or to open an account --new-ledger FILE",
    ),
    "a glob": (lambda at: release(at, "*.csv"), "say --ledger FILE, or to open an account"),
    "an exhausted account": (exhausted, "nothing is left"),
    "an older copy put back": (put_back, "an older copy of the ledger was put back"),
    "a schema that names its ledger": (named_by_the_schema, "nothing is left"),
    "a schema that misspells its ledger": (named_wrongly, "did you mean 'people.ledger'"),
    "a read-only ledger": (read_only, "the file is read-only; make it writable"),
    "the other relation": (
        lambda at: release(at, "people.csv", "--neighbours", "replace"),
        "protects add-remove neighbours, the plan replace ones",
    ),
    "the other currency": (
        lambda at: release(at, "people.csv", "--delta", "1e-6", "--ledger", at / "people.ledger"),
        "counts pure epsilon and cannot pay",
    ),
    "Python without a ledger": (python_without_ledger, "not recorded in any ledger"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_opens_no_second_account(slip: str, folder: Path) -> None:
    make, words = SLIPS[slip]
    before = {path.name for path in folder.rglob("*.ledger")}
    said = make(folder)
    assert words in said if words else not said, said
    assert {path.name for path in folder.rglob("*.ledger")} <= before | {"copy.ledger", "old.ledger"}
    assert ct.Ledger.open(folder / "people.ledger", read_only=True).spent <= 1


def test_another_folder_has_an_account_of_its_own_and_says_so(folder: Path) -> None:
    source = rows(folder / "elsewhere" / "people.csv")
    ran = ran_well("release", source, "--schema", folder / "s.json", *SPEND[:-1])
    assert f"ledger     {folder / 'elsewhere' / 'people.ledger'} (new; its cap is what was just spent" in " ".join(
        ran.err.split("\n")
    )


def test_a_raised_cap_says_who_and_why(folder: Path) -> None:
    ran_well("ledger", "raise", folder / "people.ledger", "--epsilon", "2", "--by", "the board", "--why", "2027")
    assert not release(folder, "people.csv")
    assert "by the board: 2027" in ran_well("ledger", "show", folder / "people.ledger").out


def test_an_option_is_no_name_of_an_account(folder: Path) -> None:
    ran = run(
        "release", folder / "people.csv", "--schema", folder / "s.json", "--epsilon", "1", "--new-ledger", "-o", "x"
    )
    assert (ran.code, ran.err) == (2, "crosstally: --ledger and --new-ledger need the name of a file, got -o\n")
    assert not list(folder.glob("-*"))


def test_an_older_copy_is_noticed_wherever_a_release_is_named(folder: Path) -> None:
    shutil.copy(folder / "people.ledger", folder / "old.copy")
    release(folder, "people.csv")
    shutil.move(folder / "old.copy", folder / "people.ledger")
    newest = folder / "1.parquet"
    for command in (("inspect", newest, "--ledger"), ("statement", newest, "--ledger"), ("ledger", "verify")):
        more = ("--release", newest) if command[0] == "ledger" else ()
        ran = run(*command, folder / "people.ledger", *more)
        assert (ran.code, ran.err.count("\n")) == (1, 1)
        assert "which has only 1 entries: an older copy of the ledger was put back" in ran.err
    older = ran_well("ledger", "verify", folder / "people.ledger", "--release", folder / "0.parquet").err
    assert "is sound" in older


def test_the_place_of_a_ledger_stays_in_the_stewards_file(folder: Path) -> None:
    named = ct.Schema.from_dict({**SCHEMA, "ledger": "secret/people.ledger"})
    assert named.ledger == "secret/people.ledger"
    named.save(folder / "named.json")
    assert ct.Schema.load(folder / "named.json").ledger == named.ledger
    for public in (named.to_dict(), named.public().steward_dict(), ct.plan(named, epsilon=1).chosen.to_dict()):
        assert "secret" not in json.dumps(public)
    for wrong in (3, "", "a\nb"):
        with pytest.raises(ct.CrosstallyError, match="ledger must be the name of a file"):
            ct.Schema.from_dict({**SCHEMA, "ledger": wrong})
