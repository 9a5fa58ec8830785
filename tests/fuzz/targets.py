"""What is forged, and who opens it: the eight formats of files, questions, and sources of rows."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import shutil
import sqlite3
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import crosstally as ct
from crosstally.errors import CrosstallyError
from crosstally.local.client import ClientError, FileStore
from crosstally.local.collector import Collector
from crosstally.local.protocol import Protocol, Tokens
from crosstally.plans.plan import Plan
from crosstally.privacy.ledger_file import Event, _link, digest
from crosstally.query.grammar import parse
from crosstally.releases.file.header import CONTENT, KEPT
from crosstally.sources import count
from crosstally.sources.parts import merge_parts
from fuzz.mutation import changed_bytes, changed_footer, changed_json, changed_text
from fuzz.selects import check_select, write_select
from fuzz.structures import STRUCTURES, open_limited

__all__ = ["CANARY", "TARGETS", "Target"]

FORMATS = Path(__file__).parent.parent / "formats"
CANARY = "CANARY-7a1c"


@dataclass(frozen=True, slots=True)
class Target:
    """How a file is forged, by a generator, and opened."""

    forge: Callable[[Random, Path], None]
    open: Callable[[Path], object]
    errors: tuple[type[Exception], ...] = (CrosstallyError,)
    share: float = 1.0
    """Of the files asked for, how many are forged: where each needs a process, or seconds, these are fewer."""


def _fixtures(pattern: str) -> list[Path]:
    return sorted(FORMATS.glob(pattern))


@cache
def _document(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _json_forger(pattern: str) -> Callable[[Random, Path], None]:
    def forge(random: Random, path: Path) -> None:
        path.write_bytes(changed_json(_document(random.choice(_fixtures(pattern))), random))

    return forge


# Releases


@cache
def _release(path: Path) -> tuple[Any, dict[str, Any]]:
    table = pq.read_table(path)
    header = json.loads(pq.read_metadata(path).metadata[b"crosstally"])
    return header, {name: table[name].combine_chunks().to_numpy(zero_copy_only=False) for name in table.column_names}


def _rows_meant(header: Any, fallback: int) -> list[int]:
    """The sizes of the measurements that a header speaks of, where they can be made out."""
    try:
        shape = [
            (len(a["edges"]) - 1 if "edges" in a else len(a["values"]))
            + bool(a.get("missing"))
            + (a.get("outside") == "other")
            for a in header["schema"]["attributes"]
        ]
        kinds = [each["query"] for each in header["mechanisms"]]
        groups = {k: max(v) + 1 for k, v in header.get("groups", {}).items()}
        names = [a["name"] for a in header["schema"]["attributes"]]
        sizes = []
        for kind, *places in header["measurements"]:
            own = [shape[i] for i in places]
            if kinds[kind] == "groups":
                own = [groups.get(names[i], shape[i]) for i in places]
            elif kinds[kind] == "contrast":
                own = [1 if n == 2 else n for n in own]
            sizes.append(math.prod(own))
        return sizes if sum(sizes) <= 2_000_000 else [fallback]
    except Exception:  # noqa: BLE001 - it need not make sense
        return [fallback]


def _forge_release(random: Random, path: Path) -> None:
    source = random.choice(_fixtures("release-*.parquet"))
    if random.random() < 0.25:
        changed = random.choice((changed_bytes, changed_footer))
        path.write_bytes(changed(source.read_bytes(), random))
        return
    header, columns = _release(source)
    text = changed_json(header, random) if random.random() < 0.85 else json.dumps(header).encode()
    columns = dict(columns)
    rows = len(columns["cell"])
    try:
        sizes = _rows_meant(json.loads(text), rows)
    except (ValueError, RecursionError):
        sizes = [rows]
    if sum(sizes) != rows:
        columns["measurement"] = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        columns["cell"] = np.concatenate([np.arange(n, dtype=np.int32) for n in sizes] or [np.empty(0, np.int32)])
        for name in columns.keys() - {"measurement", "cell"}:
            columns[name] = np.resize(columns[name], sum(sizes))
    if random.random() < 0.2:
        name = random.choice(CONTENT)
        changed = columns[name].copy()
        if len(changed):
            changed[random.randrange(len(changed))] = random.choice((0, -1, 2**31 - 1, changed[0]))
        columns[name] = changed
    state = hashlib.sha256(text)
    for name in CONTENT:
        state.update(np.ascontiguousarray(columns[name]).data)
    readable = {name: pa.array(list(v) if v.dtype == object else v) for name, v in columns.items()}
    if KEPT in readable:
        width = random.choice((len(columns[KEPT][0]) if rows else 1, random.randrange(1, 30)))
        each = [bytes(row[:width]).ljust(width, random.choice(b"\x00\x7f").to_bytes()) for row in columns[KEPT]]
        state.update(b"".join(each))
        readable[KEPT] = pa.array(each, pa.binary(width))
    for name in list(readable):
        if readable[name].type == pa.string() or readable[name].type == pa.null():
            readable[name] = readable[name].cast(pa.string()).dictionary_encode()
    table = pa.table(readable)
    with pq.ParquetWriter(path, table.schema, store_schema=False, compression="zstd") as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({b"crosstally": text, b"crosstally.sha256": state.hexdigest().encode()})


# Ledgers


def _forge_ledger(random: Random, path: Path) -> None:
    source = random.choice(_fixtures("ledger-*.ledger"))
    if random.random() < 0.3:
        path.write_bytes(changed_bytes(source.read_bytes(), random))
        if random.random() < 0.1:
            path.with_name(path.name + "-wal").write_bytes(random.randbytes(random.choice((1, 32, 4096, 9_000))))
        return
    shutil.copyfile(source, path)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        guards = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in guards:
            connection.execute(f"DROP TRIGGER {name}")
        _change_tables(connection, random)
        if random.random() < 0.8:
            _rehash(connection)
        for _, guard in guards:
            connection.execute(guard)
        if random.random() < 0.15:
            connection.execute(random.choice(_STRANGE))
        connection.execute("PRAGMA journal_mode = WAL")


_STRANGE = (
    "CREATE VIEW more AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c",
    "CREATE TRIGGER more AFTER INSERT ON events BEGIN DELETE FROM events; END",
    "CREATE TABLE more (x)",
    "CREATE INDEX more ON events (hash)",
    "PRAGMA application_id = 1",
    "PRAGMA user_version = 3",
    "PRAGMA user_version = -1",
    "DROP TABLE plans",
    "DELETE FROM head",
    "INSERT INTO measurements VALUES (99, zeroblob(3000000))",
)


def _change_tables(connection: sqlite3.Connection, random: Random) -> None:
    kind = random.randrange(6)
    if kind == 0:
        (body,) = connection.execute("SELECT body FROM header").fetchone()
        changed = changed_json(json.loads(body), random).decode("utf-8", "replace")
        connection.execute("UPDATE header SET body = ?", (changed,))
    elif kind in (1, 2):
        entry, body = random.choice(connection.execute("SELECT entry, body FROM plans").fetchall())
        changed = changed_json(json.loads(body), random).decode("utf-8", "replace")
        connection.execute("UPDATE plans SET body = ? WHERE entry = ?", (changed, entry))
    elif kind == 3:
        column = random.choice(Event.__slots__)
        (last,) = connection.execute("SELECT max(number) FROM events").fetchone()
        values = (None, 0, -1, 2.5, "", "x", b"\xff", 2**62, "9" * 9_000, "1e999999", "1/0", "stored", "\tcap 1", "٣")
        with contextlib.suppress(sqlite3.Error):
            connection.execute(
                f"UPDATE events SET {column} = ? WHERE number = ?", (random.choice(values), random.randint(1, last))
            )
    elif kind == 4:
        with contextlib.suppress(sqlite3.Error):
            content = random.choice(("zeroblob(8)", "zeroblob(2000000)", "5", "''"))
            connection.execute(f"UPDATE measurements SET noisy = {content}")
    else:
        (last,) = connection.execute("SELECT max(number) FROM events").fetchone()
        connection.execute("DELETE FROM events WHERE number >= ?", (random.randint(1, last),))


def _rehash(connection: sqlite3.Connection) -> None:
    """Make digests and the chain fit, as a forger would."""
    with contextlib.suppress(sqlite3.Error, TypeError, ValueError, AttributeError):
        for kind, table, column in (("charged", "plans", "body"), ("stored", "measurements", "noisy")):
            for entry, content in connection.execute(f"SELECT entry, {column} FROM {table}").fetchall():
                connection.execute(
                    "UPDATE events SET digest = ? WHERE kind = ? AND entry = ?", (digest(content), kind, entry)
                )
        (body,) = connection.execute("SELECT body FROM header").fetchone()
        previous, number = digest(body), 0
        columns = ", ".join(Event.__slots__)
        for row in connection.execute(f"SELECT {columns} FROM events ORDER BY number").fetchall():
            event = Event(**dict(zip(Event.__slots__, row, strict=True)))
            previous, number = _link(previous, event), event.number
            connection.execute("UPDATE events SET hash = ? WHERE number = ?", (previous, number))
        connection.execute("UPDATE head SET number = ?, hash = ?", (number, previous))


def _open_ledger(path: Path) -> object:
    ledger = ct.Ledger.open(path)
    repr(ledger)
    ledger.entries()
    ledger.verify()
    return ledger.measurements()


# The local model


@cache
def _protocol() -> Protocol:
    return Protocol.load(FORMATS / "protocol-1.json")


def _open_protocol(path: Path) -> object:
    protocol = Protocol.load(path)
    return protocol.id, Collector(protocol)


def _forge_report(random: Random, path: Path) -> None:
    record = bytearray(random.choice((b"", random.randbytes(37), (FORMATS / "reports-1.bin").read_bytes()[:37])))
    name = bytes.fromhex(_protocol().id)
    if random.random() < 0.8:
        group = random.choice((0, 1, 2, 3, 2**32 - 1, random.getrandbits(32)))
        answer = random.choice((0, 1, 5, 2**63, 2**64 - 1, random.getrandbits(64), random.getrandbits(6)))
        record[:] = struct.pack(
            "<B8s16sIQ", random.choice((1, 1, 1, 0, 2, 255)), name, random.randbytes(16), group, answer
        )
    data = bytes(record) * random.choice((1, 1, 2, 1_000))
    path.write_bytes(changed_bytes(data, random) if random.random() < 0.3 else data)


def _open_reports(path: Path) -> object:
    data = path.read_bytes()
    collector = Collector(_protocol())
    return collector.add(data[:37]), collector.add_many(data), collector.reports


def _sealed_forger(fixture: str) -> Callable[[Random, Path], None]:
    """Of files with a first line, a header as JSON, bytes, and a digest of all: mostly sealed anew after a change."""

    def forge(random: Random, path: Path) -> None:
        data = (FORMATS / fixture).read_bytes()
        if random.random() < 0.2:
            path.write_bytes(changed_bytes(data, random))
            return
        magic, head, rest = data[:-32].split(b"\n", 2)
        if random.random() < 0.5:
            head = changed_json(json.loads(head), random, most=2_000_000).replace(b"\n", b" ")
        if random.random() < 0.6:
            rest = changed_bytes(rest, random) * random.choice((1, 1, 1, 30))
        body = magic + b"\n" + head + b"\n" + rest
        path.write_bytes(body + hashlib.sha256(body).digest())

    return forge


def _open_state(path: Path) -> object:
    return Collector.load(path, _protocol()).release(nonnegative="none", shrink="none")


def _forge_store(random: Random, path: Path) -> None:
    path.write_bytes(changed_json(_document(FORMATS / "device-store-1.json"), random))


def _open_store(path: Path) -> object:
    row = {"plan": "free", "age": 3, "feature": "off"}
    return _protocol().report(row, store=FileStore(path), cap="4")


def _forge_tokens(random: Random, path: Path) -> None:
    data = (FORMATS / "tokens-1.txt").read_bytes()
    if random.random() < 0.5:
        path.write_bytes(changed_text(data.decode(), random).encode("utf-8", "surrogatepass"))
    else:
        path.write_bytes(changed_bytes(data, random))


@cache
def _protocol_with_tokens() -> Protocol:
    return Protocol.load(FORMATS / "protocol-1-tokens.json")


def _open_tokens(path: Path) -> object:
    tokens = Tokens.load(path, _protocol_with_tokens())
    return Collector(_protocol_with_tokens(), tokens=tokens).add_many((FORMATS / "reports-1-tokens.bin").read_bytes())


@cache
def _plan_of_parts() -> Plan:
    return Plan.load(FORMATS / "plan-1-groups.json")


def _open_part(path: Path) -> object:
    return merge_parts([path, FORMATS / "part-1-share-2.counts"], _plan_of_parts())


# Questions and rows

_SCHEMA = ct.Schema(
    [
        ct.Attribute("sex", ["Female", "Male"], outside="other"),
        ct.Attribute("age", edges=[0, 18, 65], missing=True, outside="other"),
    ]
)
_QUESTIONS = (
    "18 <= age < 65 and sex = Female",
    "not (sex = Female or age is missing)",
    "sex in (Female, Male) and age != [0, 18)",
    "'sex' = \"Male\" and (age >= 18)",
)


def _forge_question(random: Random, path: Path) -> None:
    text = random.choice(_QUESTIONS)
    for _ in range(random.choice((1, 2, 5))):
        text = changed_text(text, random)
    if random.random() < 0.1:
        text = random.choice(("(" * 50_000, "not " * 50_000 + "sex = Male", " and ".join(["sex = Male"] * 5_000)))
    path.write_bytes(text.encode("utf-8", "surrogatepass"))


def _open_question(path: Path) -> object:
    text = path.read_bytes().decode("utf-8", "replace")
    return parse(text), ct.count(text).query(_SCHEMA)


@cache
def _people() -> pa.Table:
    n = 200
    sexes = [("Female", "Male")[i % 2] for i in range(n)]
    sexes[7] = CANARY
    return pa.table({"sex": sexes, "age": [i % 90 for i in range(n)], "name": [f"{CANARY}-{i}" for i in range(n)]})


def _forge_source(kind: str) -> Callable[[Random, Path], None]:
    @cache
    def seed(folder: Path) -> bytes:
        path = folder / f"seed.{kind}"
        if kind == "csv":
            import pyarrow.csv

            pyarrow.csv.write_csv(_people(), path)
        elif kind == "parquet":
            pq.write_table(_people(), path)
        else:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, _people().schema) as writer:
                writer.write_table(_people())
        return path.read_bytes()

    def forge(random: Random, path: Path) -> None:
        data = seed(path.parent)
        if kind == "csv" and random.random() < 0.7:
            path.write_bytes(changed_text(data.decode(), random).encode("utf-8", "surrogatepass"))
        elif kind == "parquet" and random.random() < 0.5:
            path.write_bytes(changed_footer(data, random))
        else:
            path.write_bytes(changed_bytes(data, random))

    return forge


def _open_source(path: Path) -> object:
    return count(path, _SCHEMA, [("sex", "age")])


def _open_select(path: Path) -> None:
    check_select(path.read_text(encoding="utf-8"))


TARGETS: dict[str, tuple[str, Target]] = {
    "schema": ("s.json", Target(_json_forger("schema-*.json"), ct.Schema.load)),
    "plan": ("p.json", Target(_json_forger("plan-*.json"), Plan.load)),
    "release": ("r.parquet", Target(_forge_release, ct.open_release)),
    "ledger": ("l.ledger", Target(_forge_ledger, _open_ledger)),
    "protocol": ("p.json", Target(_json_forger("protocol-*.json"), _open_protocol)),
    "report": ("reports.bin", Target(_forge_report, _open_reports)),
    "tokens": ("t.tokens", Target(_forge_tokens, _open_tokens)),
    "collector state": ("c.state", Target(_sealed_forger("collector-1.state"), _open_state)),
    "part": ("p.counts", Target(_sealed_forger("part-1-share-1.counts"), _open_part)),
    "device store": ("d.json", Target(_forge_store, _open_store, (CrosstallyError, ClientError))),
    "question": ("q.txt", Target(_forge_question, _open_question)),
    "select": ("q.sql", Target(write_select, _open_select)),
    "CSV source": ("s.csv", Target(_forge_source("csv"), _open_source)),
    "Parquet source": ("s.parquet", Target(_forge_source("parquet"), _open_source)),
    "Arrow source": ("s.arrow", Target(_forge_source("arrow"), _open_source)),
    **{name: (file, Target(forge, open_limited, share=0.02)) for name, (file, forge) in STRUCTURES.items()},
}
