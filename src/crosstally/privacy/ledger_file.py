"""The file of a ledger: an SQLite database of append-only events, each hashed with the previous one.

A committed transaction is in the main file: after each commit the write-ahead log is written back and emptied before
anything is returned, so that losing the log loses nothing. During a transaction this process has the file locked
against all others, whatever path they use (``ledger_lock``).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import operator
import os
import shutil
import sqlite3
import tempfile
import threading
import time
import uuid
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crosstally.checks import check_kind
from crosstally.errors import OTHER_VERSION, LedgerError
from crosstally.platform_files import check_room, has_write_mode, name_new_file
from crosstally.privacy.ledger_lock import check_place, holding

FORMAT = 1
_APPLICATION = 0x6374_616C  # "ctal"
_PATIENCE = 120.0  # seconds to wait while the file does not change; a transaction takes some hundredths of one
# Pages that a transaction may change or add besides its content: leaves and their parents in four tables and an
# index. Chosen as an upper bound; a larger number would only refuse a nearly full disk earlier.
_MORE_PAGES = 16
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}

_TABLES = (
    "CREATE TABLE header (id INTEGER PRIMARY KEY CHECK (id = 1), body TEXT NOT NULL)",
    "CREATE TABLE head (id INTEGER PRIMARY KEY CHECK (id = 1), number INTEGER NOT NULL, hash TEXT NOT NULL)",
    (
        "CREATE TABLE events (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, entry INTEGER NOT NULL,"
        " key TEXT NOT NULL, schema TEXT, request TEXT, strategy TEXT, cost TEXT, charged_at TEXT, digest TEXT,"
        " hash TEXT NOT NULL, UNIQUE (key, kind))"
    ),
    "CREATE TABLE plans (entry INTEGER PRIMARY KEY, body TEXT NOT NULL)",
    "CREATE TABLE measurements (entry INTEGER PRIMARY KEY, noisy BLOB NOT NULL)",
)
_GUARDS = tuple(
    f"CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END"
    for table in ("header", "events", "plans", "measurements")
    for verb in ("UPDATE", "DELETE")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of the ledger; ``hash`` covers all other fields and the hash of the previous event."""

    number: int
    kind: str
    entry: int
    key: str
    schema: str | None = None
    request: str | None = None
    strategy: str | None = None
    cost: str | None = None
    charged_at: str | None = None
    digest: str | None = None
    hash: str = ""


# Made once: a chain is checked event by event whenever a ledger is opened.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_TEXTS = {str, type(None)}
_fields_of = operator.attrgetter(*Event.__slots__)


def canonical(value: object) -> str:
    """The canonical JSON text of a value: sorted, without spaces, ASCII."""
    return _CANONICAL.encode(value)


def digest(content: str | bytes) -> str:
    """The SHA-256 of a text or of bytes, in hexadecimal."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def _link(previous: str, event: Event) -> str:
    return digest(canonical([previous, *_fields_of(event)[:-1]]))


def append(connection: sqlite3.Connection, kind: str, *, entry: int, key: str, **fields: str) -> Event:
    """Add an event at the end of the chain."""
    number, previous = connection.execute("SELECT number, hash FROM head").fetchone()
    event = Event(number=number + 1, kind=kind, entry=entry, key=key, **fields)
    row = (*_fields_of(event)[:-1], _link(previous, event))
    connection.execute(f"INSERT INTO events VALUES ({', '.join('?' * len(row))})", row)
    connection.execute("UPDATE head SET number = ?, hash = ?", (event.number, row[-1]))
    return Event(**dict(zip(Event.__slots__, row, strict=True)))


def events(connection: sqlite3.Connection, where: str = "", values: tuple[Any, ...] = ()) -> list[Event]:
    """The events in order, or those that a condition selects."""
    columns = ", ".join(Event.__slots__)
    rows = connection.execute(f"SELECT {columns} FROM events {where} ORDER BY number", values).fetchall()
    for number, kind, entry, *texts in rows:
        if not (isinstance(number, int) and isinstance(entry, int)) or {type(kind), *map(type, texts)} - _TEXTS:
            raise LedgerError("an event of the ledger was changed; restore the file from a copy")
    return [Event(**dict(zip(Event.__slots__, row, strict=True))) for row in rows]


def spends(lines: Sequence[Event]) -> list[Event]:
    """The events of charges; events of the ledger itself have no entry."""
    return [event for event in lines if event.entry]


def head(connection: sqlite3.Connection) -> tuple[int, str]:
    """The number of the last event, and its hash; before the first event the hash is that of the header."""
    number, last = connection.execute("SELECT number, hash FROM head").fetchone()
    return int(number), str(last)


def read_header(connection: sqlite3.Connection) -> str:
    """The header of the ledger, as JSON."""
    rows = connection.execute("SELECT body FROM header").fetchall()
    if len(rows) != 1 or not isinstance(rows[0][0], str):
        raise LedgerError("the header of the ledger was changed; restore the file from a copy")
    return rows[0][0]


def check_chain(connection: sqlite3.Connection) -> None:
    """Raise unless the events follow each other, from the header to the head."""
    number, previous = 0, digest(read_header(connection))
    for event in events(connection):
        number += 1
        if event.number != number or event.hash != _link(previous, event):
            raise LedgerError(f"event {number} of the ledger was changed or is missing; restore the file from a copy")
        previous = event.hash
    if connection.execute("SELECT number, hash FROM head").fetchall() != [(number, previous)]:
        raise LedgerError(f"the ledger breaks off after event {number}; restore the file from a copy")


class Store:
    """Transactions on a ledger's file, or on one in memory. A file is opened for each of them and closed after it."""

    def __init__(self, path: Path | None, memory: sqlite3.Connection | None = None, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self._memory = memory
        self._lock = threading.RLock()
        self._used = False  # whether this object has committed: then the ledger has an event
        if memory is not None:
            weakref.finalize(self, memory.close)

    def __str__(self) -> str:
        return "the ledger in memory" if self.path is None else f"the ledger {str(self.path)!r}"

    @classmethod
    def in_memory(cls, header: str) -> Store:
        """A new store that exists only in this process."""
        memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        _fill(memory, header)
        return cls(None, memory)

    @classmethod
    def create(cls, path: Path, header: str) -> Store:
        """A new file, created atomically. An existing file is never changed."""
        store = cls(path)
        if os.path.lexists(path):
            raise LedgerError(f"cannot create {store}: the file exists already; open it, or choose another name")
        if not path.absolute().parent.is_dir():
            raise LedgerError(f"cannot create {store}: its folder does not exist")
        check_place(path.absolute().parent, str(store))
        new = path.with_name(f".{uuid.uuid4().hex}.new")
        try:
            with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as connection:
                _fill(connection, header)
                connection.execute("PRAGMA journal_mode = WAL")
            name_new_file(new, path)
        except FileExistsError:
            raise LedgerError(
                f"cannot create {store}: the file exists already; open it, or choose another name"
            ) from None
        except (OSError, sqlite3.Error) as error:
            raise LedgerError(f"cannot create {store}: {_reason(error)}") from None
        finally:
            for suffix in ("", "-wal", "-shm", "-journal"):
                new.with_name(new.name + suffix).unlink(missing_ok=True)
        return store

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False) -> Store:
        """The store in a file, after checking that it is a ledger and that its chain is valid.

        With ``read_only`` the file or its folder may be write-protected.
        """
        store = cls(path, read_only=read_only and not _can_write(path))
        with store.writing_lock() as connection:
            _check_tables(store, connection)
            _check_length(store, path, connection)
            check_chain(connection)
        return store

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A transaction that sees one state of the ledger and changes nothing."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextlib.contextmanager
    def writing_lock(self) -> Iterator[sqlite3.Connection]:
        """A read-only transaction that excludes all writers."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is committed when the block ends, and in the main file before this returns.

        A block that reads after writing may call ``commit`` itself.
        """
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection
            if connection.in_transaction:
                self.commit(connection)

    def commit(self, connection: sqlite3.Connection) -> None:
        """End a transaction; what it wrote is in the main file before this returns."""
        connection.execute("COMMIT")
        self._used = True
        self._write_back(connection)

    def check_room(self, connection: sqlite3.Connection, more: int) -> None:
        """Raise unless the disk has room for this transaction, and for a next one that adds this many bytes.

        Each is written to the log first and then to the main file, so the space is needed twice. Another process
        may still fill the disk after this check.
        """
        if self.path is None:
            return
        pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        held = self.path.stat().st_size
        try:
            check_room(_log(self.path).parent, held, 2 * (pages * size - held + more + _MORE_PAGES * size))
        except OSError as error:
            raise LedgerError(
                f"{self} has no room for what would be bought ({_reason(error)}); nothing was charged: make room"
            ) from None

    def remove_unused(self) -> None:
        """Remove the file if it has no event; no other process can add one meanwhile."""
        if self.path is None or self._used:
            return
        with self.writing_lock() as connection:
            if not events(connection):
                for suffix in ("-wal", "-shm", ""):  # the file itself last: until then the name stays taken
                    self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        try:
            with self._connected() as connection:
                _patiently(connection, "BEGIN" if self.read_only else begin)  # the lock excludes all writers
                _patiently(connection, "SELECT 1 FROM sqlite_master LIMIT 1")  # the state seen is fixed here
                try:
                    yield connection
                finally:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
        except (OSError, sqlite3.Error, UnicodeDecodeError) as error:
            raise LedgerError(f"{self} cannot be used: {_reason(error)}") from None

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """The connection of the one thread and process that may use the file now."""
        if self._memory is not None:
            with self._lock:
                yield self._memory
            return
        assert self.path is not None
        with holding(self.path, str(self), _PATIENCE, to_read=self.read_only) as held:
            _check_log(self, self.path)
            with contextlib.closing(self._connect()) as connection:
                if not held.is_named():
                    raise LedgerError(f"{self} was replaced while it was opened; look at it and try again")
                yield connection

    def _connect(self) -> sqlite3.Connection:
        assert self.path is not None
        # Immutable: SQLite reads only the main file, which is complete, and creates no files beside it.
        mode = "ro&immutable=1" if self.read_only else "rw"
        address = f"{self.path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=_PATIENCE)
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            if self.read_only:
                return connection
            _patiently(connection, "PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _write_back(self, connection: sqlite3.Connection) -> None:
        """Bring the write-ahead log into the main file and empty it, however long others read."""
        deadline = time.monotonic() + _PATIENCE
        while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            if time.monotonic() > deadline:
                raise LedgerError(f"{self} is kept busy by another program; close that and look at the ledger again")
            time.sleep(0.005)


def check_anchor(store: Store, name: str, anchor: str) -> None:
    """Raise unless a ledger is a continuation of its earlier anchor."""
    check_kind(anchor, str, "anchor", LedgerError)
    own, _, rest = anchor.strip().partition(":")
    number, _, last = rest.partition(":")
    if not (own and number.isascii() and number.isdigit() and len(number) < 19 and len(last) == 64):
        raise LedgerError("an anchor has the form ID:NUMBER:HASH, as `crosstally ledger anchor` prints it")
    if own != name:
        raise LedgerError(f"the anchor is that of ledger {own}, {store} is {name}")
    with store.reading() as connection:
        reached, _ = head(connection)
        recorded = digest(read_header(connection))
        if int(number):
            recorded = "".join(event.hash for event in events(connection, "WHERE number = ?", (int(number),)))
    if reached < int(number):
        raise LedgerError(
            f"{store} ends at event {reached} and the anchor was taken at {number}: it was restored from an "
            "older copy, and what was spent since is missing; find the newest copy"
        )
    if recorded != last:
        raise LedgerError(f"{store} is not the one that the anchor was taken of: event {number} differs")


def _fill(connection: sqlite3.Connection, header: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    for statement in (*_TABLES, *_GUARDS):
        connection.execute(statement)
    connection.execute("INSERT INTO header VALUES (1, ?)", (header,))
    connection.execute("INSERT INTO head VALUES (1, 0, ?)", (digest(header),))
    connection.execute("COMMIT")


def _check_tables(store: Store, connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
        raise LedgerError(f"{str(store.path)!r} is not a ledger")
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found != FORMAT:
        raise LedgerError(f"{store} has format {found}; this version reads format {FORMAT}; {OTHER_VERSION}")
    statements = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    if statements != {*_TABLES, *_GUARDS}:
        raise LedgerError(f"{store} does not have the tables of a ledger; restore the file from a copy")


def _check_length(store: Store, path: Path, connection: sqlite3.Connection) -> None:
    """Raise when the file is cut short. While the log is not empty, part of the file may rightly be missing."""
    log = _log(path)
    pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    if not (log.exists() and log.stat().st_size) and path.stat().st_size < pages * size:
        raise LedgerError(f"{store} is cut short; restore the file from a copy")


def _check_log(store: Store, path: Path) -> None:
    """Raise when the log beside a file belongs to a different state of it.

    While the file is locked there are no writers, so a non-empty log was left by a crash. SQLite would apply it to
    whatever the file holds by now: also over charges made since under a different name, which would be lost. What the
    log adds was never acknowledged; it is taken only where it goes on from all events in the file itself.
    """
    log = _log(path)
    if not log.exists() or not log.stat().st_size:
        return
    if store.read_only:
        raise LedgerError(
            f"beside {store} lies a log that a crash left, and it cannot be written back: copy both to a folder that "
            "can be written to, and open the copy"
        )
    alone, together = _chain_of_copy(path, None), _chain_of_copy(path, log)
    if alone is not None and (together is None or together[: len(alone)] != alone):
        raise LedgerError(
            f"beside {store} lies a log of another state of it, {str(log)!r}: the file was written under another name "
            "after a crash; nothing in the log was acknowledged, so keep the file and move the log away"
        )


def _can_write(path: Path) -> bool:
    """Whether a file and the folder it is in can be written to; a missing file is reported when it is opened."""
    try:
        real = path.resolve(strict=True)
        return all(has_write_mode(each, each.stat().st_mode) for each in (real, real.parent))
    except OSError:
        return True


def _log(path: Path) -> Path:
    """The write-ahead log of a file: beside it, not beside a link to it."""
    real = path.resolve()
    return real.with_name(real.name + "-wal")


def _chain_of_copy(file: Path, log: Path | None) -> list[str] | None:
    """The hashes in a copy of the file, with or without a log; None if the chain is broken.

    Without its log a file may rightly be broken: the crash came while the log was written back.
    """
    with tempfile.TemporaryDirectory(prefix="crosstally-") as folder:
        copy = Path(folder) / "copy"
        shutil.copyfile(file, copy)
        if log is not None:
            shutil.copyfile(log, copy.with_name("copy-wal"))
        try:
            with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as connection:
                check_chain(connection)
                return [digest(read_header(connection)), *(event.hash for event in events(connection))]
        except (sqlite3.Error, UnicodeDecodeError, LedgerError):
            return None


def _patiently(connection: sqlite3.Connection, statement: str) -> None:
    """Run a statement, retrying while other connections are busy.

    SQLite's own waiting does not cover the moments when another process recovers or removes the log.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute(statement)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in _BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
        else:
            return


def _reason(error: OSError | sqlite3.Error | UnicodeDecodeError) -> str:
    if isinstance(error, OSError):
        return (error.strerror or "it cannot be read or written").lower()
    return str(error) if isinstance(error, sqlite3.Error) else "the file is damaged"
