"""The ledger: exact sums, currencies, states, keys, its file, and what verify finds."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.errors import ChargeLostError, KeyReusedError, LedgerError, OverspendError
from crosstally.privacy.ledger import Ledger, State
from crosstally.queries import Cells
from crosstally.schema import Attribute, Schema, Unit
from crosstally.strategies.plan import Plan, Request
from crosstally.workload import Workload

SCHEMA = Schema(
    [Attribute("sex", ["Female", "Male"]), Attribute("age", edges=[0, 18, 65], missing=True)], Unit("person", 2)
)
EPSILON = Budget(epsilon=1)
NOISY = np.array([1, -2, 3, 4, 5, 6_000_000_000], np.int64)


def plan_of(budget: Budget, *, neighbours: Neighbours = Neighbours.ADD_REMOVE, strategy: str = "flat") -> Plan:
    query = Cells(("sex", "age"))
    noise = Noise.affordable(query.sensitivity(SCHEMA, neighbours), budget.amount, pure=budget.pure)
    return Plan(
        SCHEMA,
        (Request(query, noise),),
        strategy=strategy,
        workload=Workload([("sex",)]),
        budget=budget,
        neighbours=neighbours,
    )


TENTH = plan_of(Budget(epsilon=0.1))


def ledger_in(folder: Path, budget: Budget = EPSILON) -> Ledger:
    return Ledger.create(folder / "people.ledger", schema=SCHEMA, budget=budget)


def spend(ledger: Ledger, key: str, plan: Plan = TENTH) -> None:
    assert ledger.charge(plan, key)
    ledger.store(key, [NOISY.reshape(2, 3)])


# Sums and currencies


def test_ten_tenths_fit_one_and_the_eleventh_is_refused(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    for i in range(10):
        assert ledger.charge(TENTH, f"k{i}")
    assert (ledger.spent, ledger.remaining) == (1, 0)
    with pytest.raises(OverspendError) as caught:
        ledger.charge(TENTH, "k10")
    assert str(caught.value) == (
        "the cap of ε = 1 would be passed: ε = 1 is spent and ε = 0.1 was asked; nothing is left: use what was bought"
        " already"
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
    budget = Budget(epsilon=1, delta="1e-6")
    ledger = Ledger.in_memory(schema=SCHEMA, budget=budget)
    ledger.charge(plan_of(budget), "all")
    assert ledger.remaining == 0
    with pytest.raises(OverspendError, match=r"the cap of ρ = 0\.02\d+ \(ε = 1, δ = 1e-06\) would be passed"):
        ledger.charge(plan_of(Budget(rho="1e-9")), "more")


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
    assert repr(found) == f"Ledger({tmp_path / 'x'}, ε = 3, δ = 1e-09, spent ρ = 0)"
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
        Ledger.in_memory(schema=SCHEMA, budget=EPSILON).charge(TENTH, key)  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="a key must be a printable text of 1 to 200 characters"):
        Ledger.in_memory(schema=SCHEMA, budget=EPSILON).recall(TENTH, key)  # type: ignore[arg-type]


def test_a_plan_without_requests_is_not_charged() -> None:
    empty = Plan(
        SCHEMA, (), strategy="uniform", workload=Workload([("sex",)]), budget=EPSILON, neighbours=TENTH.neighbours
    )
    with pytest.raises(LedgerError, match="costs nothing"):
        Ledger.in_memory(schema=SCHEMA, budget=EPSILON).charge(empty, "k")


# Its file


def test_the_file_is_a_single_file_between_uses(tmp_path: Path) -> None:
    spend(ledger_in(tmp_path), "k")
    assert [path.name for path in tmp_path.iterdir()] == ["people.ledger"]


def test_an_existing_file_is_never_touched(tmp_path: Path) -> None:
    path = tmp_path / "people.ledger"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(LedgerError, match="the file exists already"):
        ledger_in(tmp_path)
    assert path.read_text(encoding="utf-8") == "mine"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_appears_meanwhile_is_never_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    path = tmp_path / "people.ledger"
    link = os.link

    def someone_else_was_first(source: Path, target: Path) -> None:
        path.write_text("mine", encoding="utf-8")
        if not links:
            raise PermissionError(1, "Operation not permitted")
        link(source, target)

    monkeypatch.setattr(os, "link", someone_else_was_first)
    with pytest.raises(LedgerError, match="the file exists already"):
        ledger_in(tmp_path)
    assert path.read_text(encoding="utf-8") == "mine"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_system_without_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unable(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", unable)
    spend(ledger_in(tmp_path), "k")
    assert [path.name for path in tmp_path.iterdir()] == ["people.ledger"]
    Ledger.open(tmp_path / "people.ledger").verify()


def broken(path: Path) -> str:
    """The one line that says why a file cannot be opened."""
    with pytest.raises(LedgerError) as caught:
        Ledger.open(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_not_a_ledger_is_refused(tmp_path: Path) -> None:
    assert "no such file; create it first" in broken(tmp_path / "none")
    assert "it is a folder" in broken(tmp_path)
    (tmp_path / "text").write_text("SQLite, nearly", encoding="utf-8")
    assert "is not a ledger" in broken(tmp_path / "text")
    (tmp_path / "empty").touch()
    assert "is not a ledger" in broken(tmp_path / "empty")
    with sqlite3.connect(tmp_path / "other") as connection:
        connection.execute("CREATE TABLE events (number)")
    connection.close()
    assert "is not a ledger" in broken(tmp_path / "other")
    with pytest.raises(LedgerError, match="its folder does not exist"):
        ledger_in(tmp_path / "no folder")
    with pytest.raises(LedgerError, match="cannot create the ledger"):
        Ledger.create(tmp_path / ("long" * 100), schema=SCHEMA, budget=EPSILON)
    assert "cannot open the ledger" in broken(tmp_path / ("long" * 100))


def test_a_read_only_file_is_refused(tmp_path: Path) -> None:
    ledger_in(tmp_path)
    (tmp_path / "people.ledger").chmod(0o444)
    assert "the file is read-only; make it writable" in broken(tmp_path / "people.ledger")


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    for i in range(8):
        spend(ledger, f"k{i}")
    whole = (tmp_path / "people.ledger").read_bytes()
    for length in [*range(0, len(whole), 4096), 1, 15, 17, 99, 101, 5000, len(whole) - 4095, len(whole) - 1]:
        (tmp_path / "cut").write_bytes(whole[:length])
        assert broken(tmp_path / "cut")


def change(path: Path, statement: str) -> None:
    """Run a statement on the file behind the ledger's back, past the triggers that guard it."""
    connection = sqlite3.connect(path)
    guards = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in guards:
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(statement)
    for _, sql in guards:
        connection.execute(sql)
    connection.commit()
    connection.close()


def test_another_format_is_refused(tmp_path: Path) -> None:
    ledger_in(tmp_path)
    path = tmp_path / "people.ledger"
    change(path, "PRAGMA user_version = 2")
    assert "has format 2; this version reads format 1" in broken(path)


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"crosstally-ledger":2}', '{"crosstally-ledger":1,"id":"x"}'])
def test_a_header_that_cannot_be_read_is_refused(tmp_path: Path, body: str) -> None:
    from hashlib import sha256

    ledger_in(tmp_path)
    path = tmp_path / "people.ledger"
    change(path, f"UPDATE header SET body = '{body}'")
    change(path, f"UPDATE head SET hash = '{sha256(body.encode()).hexdigest()}'")
    assert "a header that cannot be read" in broken(path)


def test_other_tables_are_refused(tmp_path: Path) -> None:
    ledger_in(tmp_path)
    change(tmp_path / "people.ledger", "CREATE TABLE more (x)")
    assert "does not have the tables of format 1" in broken(tmp_path / "people.ledger")


def test_events_cannot_be_changed_by_accident(tmp_path: Path) -> None:
    spend(ledger_in(tmp_path), "k")
    connection = sqlite3.connect(tmp_path / "people.ledger")
    for statement in ("UPDATE events SET cost = '0'", "DELETE FROM measurements", "UPDATE plans SET body = ''"):
        with pytest.raises(sqlite3.IntegrityError, match="a ledger only grows"):
            connection.execute(statement)
    connection.close()


# Its chain


def test_every_changed_field_is_found(tmp_path: Path) -> None:
    path = tmp_path / "people.ledger"
    ledger = ledger_in(tmp_path)
    spend(ledger, "first")
    spend(ledger, "second")
    ledger.delivered("first")
    whole = path.read_bytes()
    always, charged = ("kind", "entry", "key", "hash"), ("request", "strategy", "cost", "charged_at", "digest")
    changes = [f"UPDATE events SET {c} = {c} || 'x' WHERE number = {n}" for c in always for n in range(1, 6)]
    changes += [f"UPDATE events SET {c} = {c} || 'x' WHERE number = {n}" for c in charged for n in (1, 3)]
    changes += [f"UPDATE events SET {c} = 'x' WHERE number = {n}" for c in charged for n in (2, 4, 5)]
    changes += [f"UPDATE events SET {c} = NULL WHERE number = 1" for c in ("request", "strategy", "cost", "digest")]
    changes += [
        "UPDATE events SET number = 9 WHERE number = 5",
        "UPDATE events SET cost = '1/11' WHERE number = 1",
        "DELETE FROM events WHERE number = 5",
        "DELETE FROM events WHERE number = 2",
        "DELETE FROM events",
        "DELETE FROM head",
        "UPDATE head SET number = 4",
        "UPDATE head SET hash = 'x'",
        "DELETE FROM header",
        "UPDATE header SET body = replace(body, '\"1\"', '\"9\"')",
        "DELETE FROM plans WHERE entry = 1",
        "UPDATE plans SET body = replace(body, '20.0', '21.0') WHERE entry = 1",
        "UPDATE plans SET body = body || ' ' WHERE entry = 2",
        "INSERT INTO plans VALUES (3, '{}')",
        "DELETE FROM measurements WHERE entry = 2",
        "UPDATE measurements SET noisy = zeroblob(48) WHERE entry = 2",
        "UPDATE measurements SET noisy = substr(noisy, 1, 40) WHERE entry = 1",
        "INSERT INTO measurements VALUES (3, zeroblob(48))",
    ]
    for statement in changes:
        path.write_bytes(whole)
        change(path, statement)
        with pytest.raises(LedgerError):
            Ledger.open(path).verify()


def test_every_changed_byte_of_the_measurements_is_found(tmp_path: Path) -> None:
    path = tmp_path / "people.ledger"
    spend(ledger_in(tmp_path), "k")
    whole = path.read_bytes()
    start = whole.index(NOISY.tobytes())
    for place in range(start, start + NOISY.nbytes):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        ledger = Ledger.open(path)
        with pytest.raises(LedgerError, match="was changed"):
            ledger.verify()
        with pytest.raises(LedgerError, match="was changed"):
            ledger.measurements()
        with pytest.raises(LedgerError, match="was changed"):
            ledger.export("k")


@pytest.mark.parametrize("step", [499, pytest.param(5, marks=pytest.mark.verify)])
def test_a_changed_byte_anywhere_is_found_or_changes_nothing(tmp_path: Path, step: int) -> None:
    path = tmp_path / "people.ledger"
    ledger = ledger_in(tmp_path)
    for key in ("first", "second"):
        spend(ledger, key)
    whole, entries = path.read_bytes(), ledger.entries()
    found = 0
    for place in range(0, len(whole), step):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        for rest in ("-wal", "-shm"):
            (tmp_path / f"people.ledger{rest}").unlink(missing_ok=True)
        try:
            changed = Ledger.open(path)
            changed.verify()
        except LedgerError:
            found += 1
        else:
            assert changed.entries() == entries
            assert [m.values.tobytes() for m in changed.measurements()] == [NOISY.tobytes()] * 2
            assert (changed.schema, changed.budget) == (SCHEMA, EPSILON)
    assert found


def test_a_charge_for_another_plan_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ledger_in(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "price", lambda *_: Fraction(1, 1000))
        ledger.charge(TENTH, "cheap")
    with pytest.raises(LedgerError, match="entry 1 was charged for another plan"):
        ledger.verify()


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


# Losing the write-ahead log


def opened(folder: Path, file: bytes, log: bytes | None) -> Fraction | None:
    """What a file and its log show as spent; None when they are refused."""
    for path in folder.iterdir():
        path.unlink()
    (folder / "copy").write_bytes(file)
    if log is not None:
        (folder / "copy-wal").write_bytes(log)
    try:
        return Ledger.open(folder / "copy").spent
    except LedgerError:
        return None


@pytest.mark.parametrize("acknowledged", [0, 1, 5, 9])
def test_a_truncated_log_never_shows_less_than_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acknowledged: int
) -> None:
    ledger = ledger_in(tmp_path)
    path, log = tmp_path / "people.ledger", tmp_path / "people.ledger-wal"
    (tmp_path / "copies").mkdir()
    other = sqlite3.connect(path)
    other.execute("SELECT * FROM events").fetchall()
    for i in range(acknowledged):
        ledger.charge(TENTH, f"k{i}")
    assert opened(tmp_path / "copies", path.read_bytes(), None) == Fraction(acknowledged, 10)
    assert opened(tmp_path / "copies", path.read_bytes(), log.read_bytes()) == Fraction(acknowledged, 10)
    with monkeypatch.context() as patched:  # as if killed after the commit, before the log is written back
        patched.setattr("crosstally.privacy.ledger_file.Store._write_back", lambda *_: None)
        ledger.charge(TENTH, "unacknowledged")
    file, frames = path.read_bytes(), log.read_bytes()
    other.close()
    assert len(frames) > 4096
    lengths = sorted({*range(0, len(frames), 1021), *range(0, len(frames), 4120), 31, 32, 33, len(frames) - 1})
    for length in lengths:
        assert opened(tmp_path / "copies", file, frames[:length]) == Fraction(acknowledged, 10)
    assert opened(tmp_path / "copies", file, frames) == Fraction(acknowledged + 1, 10)
    assert opened(tmp_path / "copies", file, None) == Fraction(acknowledged, 10)


@pytest.mark.parametrize("acknowledged", [1, 6, 9])
def test_a_log_lost_while_it_is_written_back_never_shows_less(tmp_path: Path, acknowledged: int) -> None:
    """Any mixture of old and new pages is refused, or shows what was acknowledged, or more."""
    ledger = ledger_in(tmp_path)
    path = tmp_path / "people.ledger"
    (tmp_path / "copies").mkdir()
    for i in range(acknowledged):
        ledger.charge(TENTH, f"k{i}")
    old = path.read_bytes()
    ledger.charge(TENTH, "more")
    new = path.read_bytes()
    pages = [i for i in range(0, len(new), 4096) if old[i : i + 4096] != new[i : i + 4096]]
    assert len(pages) > 2
    for mixture in range(2 ** len(pages)):
        mixed = bytearray(old.ljust(len(new), b"\0"))
        for bit, page in enumerate(pages):
            if mixture >> bit & 1:
                mixed[page : page + 4096] = new[page : page + 4096]
        shown = opened(tmp_path / "copies", bytes(mixed), None)
        assert shown is None or shown >= Fraction(acknowledged, 10)


def test_a_copy_is_a_ledger_of_its_own(tmp_path: Path) -> None:
    """What the docs say: a second ledger on the same people resets nothing, and nobody can tell from the file."""
    spend(ledger_in(tmp_path), "k")
    shutil.copy(tmp_path / "people.ledger", tmp_path / "copy.ledger")
    assert Ledger.open(tmp_path / "copy.ledger").spent == Fraction(1, 10)


def test_the_smallest_scale_of_noise_is_stored_exactly(tmp_path: Path) -> None:
    budget = Budget(epsilon="0.3")
    spend(ledger_in(tmp_path), "k", plan_of(budget))
    noise = Ledger.open(tmp_path / "people.ledger").measurements("k")[0].noise
    assert noise is not None
    assert (noise.kind, noise.scale) == (NoiseKind.LAPLACE, 6.666666666666667)
