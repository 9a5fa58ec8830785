"""The file of a ledger: what is refused, what verify finds, and what is left when its log is lost."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

from crosstally.budget import Budget, NoiseKind
from crosstally.errors import LedgerError
from crosstally.privacy import ledger_file
from crosstally.privacy.ledger import Ledger
from crosstally.privacy.ledger_records import LedgerHeader
from ledgers import EPSILON, NOISY, SCHEMA, TENTH, ledger_in, plan_of, spend

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
    assert f"no such file. To make a new one: crosstally ledger create {tmp_path / 'none'} --" in broken(
        tmp_path / "none"
    )
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
    change(path, "PRAGMA user_version = 3")
    assert "has format 3; this version reads format 1" in broken(path)


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"crosstally-ledger":3}', '{"crosstally-ledger":1,"id":"x"}'])
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
    assert "does not have the tables of a ledger" in broken(tmp_path / "people.ledger")


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
        patched.setattr(LedgerHeader, "price", lambda *_: Fraction(1, 1000))
        ledger.charge(TENTH, "cheap")
    with pytest.raises(LedgerError, match="entry 1 was charged for another plan"):
        ledger.verify()


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


def test_nothing_is_charged_where_there_is_no_room_to_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the disk cannot take afterwards would be paid and never had."""
    ledger = ledger_in(tmp_path)
    asked: list[tuple[Path, int, int]] = []

    def full(folder: Path, start: int, size: int) -> None:
        asked.append((folder, start, size))
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ledger_file, "check_room", full)
        with pytest.raises(LedgerError, match=r"has no room for what would be bought \(no space left on device\)"):
            ledger.charge(TENTH, "k")
    ((folder, start, size),) = asked
    assert (folder, start) == (tmp_path, (tmp_path / "people.ledger").stat().st_size)
    assert size >= 2 * 8 * NOISY.size
    assert ledger.spent == 0
    spend(ledger, "k")
    assert ledger.spent == Fraction(1, 10)
