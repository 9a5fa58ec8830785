"""The ledger: exact sums, currencies, states, keys, and what others do meanwhile."""

from __future__ import annotations

import sqlite3
import threading
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from crosstally.budget import Budget, Neighbours
from crosstally.errors import ChargeLostError, KeyReusedError, LedgerError, OverspendError
from crosstally.plans.plan import Plan
from crosstally.privacy.ledger import Ledger
from crosstally.privacy.ledger_records import State
from crosstally.workload import Workload
from ledgers import EPSILON, NOISY, SCHEMA, TENTH, ledger_in, plan_of, spend

# Sums and currencies


def test_ten_tenths_fit_one_and_the_eleventh_is_refused(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    for i in range(10):
        assert ledger.charge(TENTH, f"k{i}")
    assert (ledger.spent, ledger.remaining) == (1, 0)
    with pytest.raises(OverspendError) as caught:
        ledger.charge(TENTH, "k10")
    assert str(caught.value) == (
        "the cap of ε = 1 would be exceeded: ε = 1 is spent and this costs ε = 0.1; nothing is left. Earlier answers"
        " can still be used, for free"
    )
    assert len(ledger.entries()) == 10
    with pytest.raises(OverspendError):
        ledger.charge(plan_of(Budget(epsilon="1e-12")), "tiny")


def test_what_is_left_can_be_asked_before_rows_are_read() -> None:
    ledger = Ledger.in_memory(schema=SCHEMA, budget=Budget(epsilon="0.15"))
    ledger.check_left(TENTH)
    ledger.charge(TENTH, "k")
    with pytest.raises(OverspendError, match=r"ε = 0\.05 is left"):
        ledger.check_left(TENTH)
    assert ledger.spent == Fraction(1, 10)


def test_thirds_are_exact() -> None:
    ledger = Ledger.in_memory(schema=SCHEMA, budget=EPSILON)
    for i in range(3):
        ledger.charge(plan_of(Budget(epsilon=Fraction(1, 3))), f"k{i}")
    assert ledger.spent == 1


def test_a_rho_ledger_counts_half_the_square_of_epsilon() -> None:
    ledger = Ledger.in_memory(schema=SCHEMA, budget=Budget(rho="0.5"))
    assert ledger.currency == "rho"
    ledger.charge(TENTH, "laplace")
    ledger.charge(plan_of(Budget(rho="0.2")), "gaussian")
    assert [entry.cost for entry in ledger.entries()] == [Fraction(1, 200), Fraction(1, 5)]
    assert ledger.remaining == Fraction(295, 1000)


def test_an_epsilon_ledger_pays_nothing_else() -> None:
    ledger = Ledger.in_memory(schema=SCHEMA, budget=EPSILON)
    assert ledger.currency == "epsilon"
    for budget in (Budget(rho="0.001"), Budget(epsilon="0.1", delta="1e-9")):
        with pytest.raises(LedgerError, match="counts pure epsilon and cannot pay"):
            ledger.charge(plan_of(budget), "k")
    assert ledger.spent == 0


def test_epsilon_and_delta_fit_their_own_cap_once() -> None:
    for rule, cap, little in (
        ("rho", r"ρ = 0\.02\d+", Budget(rho="1e-9")),
        ("mu2", r"μ² = 0\.05\d+", Budget(mu2="1e-9")),
    ):
        budget = Budget(epsilon=1, delta="1e-6", rule=rule)
        ledger = Ledger.in_memory(schema=SCHEMA, budget=budget)
        ledger.charge(plan_of(budget), "all")
        assert ledger.remaining == 0
        with pytest.raises(OverspendError, match=rf"the cap of {cap} \(ε = 1, δ = 1e-06\) would be exceeded"):
            ledger.charge(plan_of(little), "more")


# Entries and keys


def test_entries_tell_what_was_spent_when_and_how_far_it_came(tmp_path: Path) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    ledger = ledger_in(tmp_path)
    ledger.charge(plan_of(Budget(epsilon="0.25"), strategy="direct"), "lost")
    spend(ledger, "kept")
    spend(ledger, "seen")
    ledger.delivered("seen")
    ledger.delivered("seen")
    entries = Ledger.open(tmp_path / "people.ledger").entries()
    assert [(entry.number, entry.key, entry.strategy, entry.cost, entry.state) for entry in entries] == [
        (1, "lost", "direct", Fraction(1, 4), State.CHARGED),
        (2, "kept", "flat", Fraction(1, 10), State.STORED),
        (3, "seen", "flat", Fraction(1, 10), State.DELIVERED),
    ]
    assert all(before <= entry.when <= datetime.now(UTC) and entry.when.microsecond == 0 for entry in entries)
    assert len({entry.hash for entry in entries}) == 3
    ledger.verify()


def test_a_ledger_remembers_what_it_is_about(tmp_path: Path) -> None:
    budget = Budget(epsilon=3, delta="1e-9")
    made = Ledger.create(tmp_path / "x", schema=SCHEMA, budget=budget, neighbours=Neighbours.REPLACE)
    found = Ledger.open(str(tmp_path / "x"))
    assert (found.schema, found.budget, found.neighbours, found.id) == (SCHEMA, budget, Neighbours.REPLACE, made.id)
    assert found.path == tmp_path / "x"
    assert repr(found) == f"Ledger({tmp_path / 'x'}, ε = 3, δ = 1e-09, spent μ² = 0)"
    assert "in memory" in repr(Ledger.in_memory(schema=SCHEMA, budget=budget))


def test_measurements_come_back_by_key_and_all_together(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    spend(ledger, "a")
    ledger.charge(TENTH, "lost")
    spend(ledger, "b")
    found = Ledger.open(tmp_path / "people.ledger")
    (measured,) = found.measurements("b")
    assert measured.values.tolist() == [[1, -2, 3], [4, 5, 6_000_000_000]]
    assert measured.values.dtype == np.int64
    assert (measured.query, measured.noise) == (TENTH.requests[0].query, TENTH.requests[0].noise)
    assert [each.origin for each in found.measurements()] == [f"entry {n} of ledger {ledger.id}" for n in (1, 3)]
    with pytest.raises(ChargeLostError):
        found.measurements("lost")
    with pytest.raises(LedgerError, match="no entry with the key 'losst'; did you mean 'lost'"):
        found.measurements("losst")


def test_export_gives_back_the_plan_and_what_it_bought(tmp_path: Path) -> None:
    spend(ledger_in(tmp_path), "k")
    plan, measured = Ledger.open(tmp_path / "people.ledger").export("k")
    assert plan == TENTH
    assert [each.values.tolist() for each in measured] == [NOISY.reshape(2, 3).tolist()]


def test_a_charge_is_stored_once(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    with pytest.raises(LedgerError, match="must be charged and not yet stored"):
        ledger.store("k", [NOISY])
    spend(ledger, "k")
    with pytest.raises(LedgerError, match="must be charged and not yet stored"):
        ledger.store("k", [NOISY + 1])
    assert ledger.measurements("k")[0].values.ravel().tolist() == NOISY.tolist()


def test_a_key_charges_once(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    spend(ledger, "k")
    assert not ledger.charge(TENTH, "k")
    with pytest.raises(KeyReusedError):
        ledger.charge(plan_of(Budget(epsilon="0.2")), "k")
    ledger.charge(TENTH, "lost")
    with pytest.raises(ChargeLostError):
        ledger.charge(TENTH, "lost")
    with pytest.raises(ChargeLostError):
        ledger.delivered("lost")
    assert ledger.spent == Fraction(2, 10)


@pytest.mark.parametrize("key", ["", "x" * 201, "two\nlines", 7])
def test_keys_are_short_printable_texts(key: object) -> None:
    with pytest.raises(LedgerError, match="a key must be a printable text of 1 to 200 characters"):
        Ledger.in_memory(schema=SCHEMA, budget=EPSILON).charge(TENTH, key)
    with pytest.raises(LedgerError, match="a key must be a printable text of 1 to 200 characters"):
        Ledger.in_memory(schema=SCHEMA, budget=EPSILON).recall(TENTH, key)


def test_a_plan_without_requests_is_not_charged() -> None:
    empty = Plan(
        SCHEMA, (), strategy="uniform", workload=Workload([("sex",)]), budget=EPSILON, neighbours=TENTH.neighbours
    )
    with pytest.raises(LedgerError, match="costs nothing"):
        Ledger.in_memory(schema=SCHEMA, budget=EPSILON).charge(empty, "k")


# Together with others


def test_threads_may_share_a_ledger(tmp_path: Path) -> None:
    for ledger in (ledger_in(tmp_path), Ledger.in_memory(schema=SCHEMA, budget=EPSILON)):
        accepted: list[str] = []

        def work(name: str, ledger: Ledger = ledger, accepted: list[str] = accepted) -> None:
            for i in range(4):
                try:
                    spend(ledger, f"{name}{i}")
                except OverspendError:
                    continue
                accepted.append(f"{name}{i}")

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(accepted) == 10
        assert sorted(entry.key for entry in ledger.entries()) == sorted(accepted)
        ledger.verify()


def test_a_reader_is_waited_for(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    reader = sqlite3.connect(tmp_path / "people.ledger", isolation_level=None, check_same_thread=False)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM events").fetchall()
    timer = threading.Timer(0.3, reader.close)
    timer.start()
    ledger.charge(TENTH, "k")
    timer.join()
    assert ledger.spent == Fraction(1, 10)


def test_a_lasting_reader_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ledger_in(tmp_path)
    monkeypatch.setattr("crosstally.privacy.ledger_file._PATIENCE", 0.05)
    reader = sqlite3.connect(tmp_path / "people.ledger", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM events").fetchall()
    with pytest.raises(LedgerError, match="kept busy by another program"):
        ledger.charge(TENTH, "k")
    reader.close()
    assert ledger.spent == Fraction(1, 10)
