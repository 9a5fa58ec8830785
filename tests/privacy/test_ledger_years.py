"""A ledger over the years: raised caps, anchors that find older copies, and the way from format 1."""

from __future__ import annotations

import multiprocessing
import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

from cli_runs import run
from crosstally.budget import Budget
from crosstally.errors import LedgerError, OverspendError
from crosstally.privacy.ledger import Ledger
from ledgers import SCHEMA, TENTH, ledger_in, spend


def test_a_raised_cap_counts_from_then_on_and_stays_on_record(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    for i in range(10):
        ledger.charge(TENTH, f"k{i}")
    other = Ledger.open(ledger.path)
    with pytest.raises(OverspendError):
        other.charge(TENTH, "more")
    ledger.raise_cap(Budget(epsilon="1.2"))
    assert other.charge(TENTH, "more")  # an object that was open before sees it
    assert (other.budget, other.remaining, other.spent) == (Budget(epsilon="1.2"), Fraction(1, 10), Fraction(11, 10))
    other.raise_cap(Budget(epsilon=3))
    assert [each.budget for each in ledger.caps] == [Budget(epsilon="1.2"), Budget(epsilon=3)]
    assert [entry.number for entry in ledger.entries()] == list(range(1, 12))
    Ledger.open(ledger.path).verify()


@pytest.mark.parametrize(
    ("cap", "new", "why"),
    [
        (Budget(epsilon=1), Budget(epsilon=1), "can only be raised"),
        (Budget(epsilon=1), Budget(epsilon="0.5"), "can only be raised"),
        (Budget(epsilon=1), Budget(rho=5), "counts epsilon"),
        (Budget(rho=1), Budget(epsilon=50), "counts rho"),
        (Budget(epsilon=1, delta="1e-6"), Budget(epsilon=1, delta="1e-7"), "can only be raised"),
    ],
)
def test_caps_that_are_no_raise(cap: Budget, new: Budget, why: str) -> None:
    ledger = Ledger.in_memory(schema=SCHEMA, budget=cap)
    with pytest.raises(LedgerError, match=why):
        ledger.raise_cap(new)
    assert ledger.caps == ()
    assert ledger.budget == cap


def test_a_key_cannot_meet_the_events_of_the_ledger_itself(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    ledger.raise_cap(Budget(epsilon=2))
    for key in ("cap 1", "raised"):
        assert ledger.plan(key) is None
        ledger.charge(TENTH, key)
    with pytest.raises(LedgerError, match="a key must be a printable text"):
        ledger.charge(TENTH, "\tcap 1")
    ledger.verify()


def changed(path: Path, statement: str, *values: object) -> None:
    """Change a ledger without its guards, as someone who may write the file can."""
    with sqlite3.connect(path) as connection:
        guards = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in guards:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(statement, values)
        for _, sql in guards:
            connection.execute(sql)
    connection.close()


def test_a_cap_that_was_edited_is_found(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    ledger.raise_cap(Budget(epsilon=2))
    changed(ledger.path, "UPDATE events SET request = ? WHERE kind = 'raised'", '{"epsilon":"9"}')
    with pytest.raises(LedgerError, match="event 1 of the ledger was changed"):
        Ledger.open(ledger.path)


def test_an_anchor_finds_an_older_copy_and_another_ledger(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    first = ledger.anchor
    spend(ledger, "a")
    copy = tmp_path / "copy.ledger"
    shutil.copyfile(ledger.path, copy)
    early = ledger.anchor
    spend(ledger, "b")
    late = ledger.anchor
    for anchor in (first, early, late, f" {late}\n"):
        ledger.verify(anchor)
    old = Ledger.open(copy)
    old.verify(early)
    with pytest.raises(LedgerError, match="restored from an older copy"):
        old.verify(late)
    spend(old, "c")
    with pytest.raises(LedgerError, match="not the one that the anchor was taken of"):
        old.verify(late)
    elsewhere = Ledger.create(tmp_path / "other.ledger", schema=SCHEMA, budget=Budget(epsilon=1))
    with pytest.raises(LedgerError, match="the anchor is that of ledger"):
        elsewhere.verify(late)
    for wrong in ("", "x", f"{ledger.id}:x:{'0' * 64}", f"{ledger.id}:{'9' * 30}:{'0' * 64}", late[:-1]):
        with pytest.raises(LedgerError, match="has the form"):
            ledger.verify(wrong)


def _spend_and_raise(path: Path, number: int) -> int:
    ledger, paid = Ledger.open(path), 0
    for i in range(6):
        if number == 0:
            ledger.raise_cap(Budget(epsilon=ledger.budget.amount + Fraction(1, 10)))
        try:
            paid += ledger.charge(TENTH, f"{number}-{i}")
        except OverspendError:
            continue
    return paid


def test_many_processes_with_raises_in_between_never_pass_the_cap(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "p.ledger", schema=SCHEMA, budget=Budget(epsilon="0.3"))
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        paid = sum(pool.starmap(_spend_and_raise, [(ledger.path, number) for number in range(4)]))
    assert ledger.spent == Fraction(paid, 10)
    assert ledger.budget.amount == Fraction(9, 10)
    assert ledger.spent <= ledger.budget.amount
    ledger.verify()


def test_the_commands(tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "s.json")
    path = tmp_path / "people.ledger"
    assert run("ledger", "create", path, "--schema", tmp_path / "s.json", "--epsilon", "1").code == 0
    anchored = run("ledger", "anchor", path)
    assert anchored.code == 0
    assert run("ledger", "verify", path, "--anchor", anchored.out.strip()).code == 0
    raised = run("ledger", "raise", path, "--epsilon", "2")
    assert raised.code == 0, raised.err
    assert "is ε = 2 from now on; it was ε = 1. ε = 2 remains. The raise is on record." in " ".join(raised.err.split())
    assert "raised to ε = 2" in run("ledger", "show", path).out
    lower = run("ledger", "raise", path, "--epsilon", "1")
    assert (lower.code, "can only be raised" in lower.err) == (2, True)
    wrong = run("ledger", "verify", path, "--anchor", anchored.out.strip().replace(":0:", ":9:"))
    assert (wrong.code, "older copy" in wrong.err) == (1, True)
