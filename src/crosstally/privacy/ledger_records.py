"""What the rows of a ledger's file say: the header, entries, costs, caps, plans and measurements, read strictly.

``ledger_file`` keeps events and their chain and knows no meaning; ``ledger`` decides what may be spent. Between them
stands this: events become entries and caps, kept content is compared with its digest, and whatever is not as a ledger
writes it is refused. Whether a ledger is sound, at the end: complete, unchanged, charged by its plans' prices, and the
continuation of an anchor. Nothing is repaired: whatever does not fit is a LedgerError.
"""

from __future__ import annotations

import math
import sqlite3
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from crosstally.budget import Budget, Neighbours, Noise, fraction_of_text
from crosstally.checks import check_kind
from crosstally.errors import CrosstallyError, KeyReusedError, LedgerError, must_be_one_of
from crosstally.json_text import JsonError, read_json
from crosstally.measurements import Measurement
from crosstally.plans.plan import Plan
from crosstally.plans.request import Rule, first_share, part_of
from crosstally.privacy.ledger_file import (
    FORMAT,
    Event,
    Store,
    canonical,
    check_chain,
    digest,
    events,
    head,
    read_header,
    spends,
)
from crosstally.query.operators import read_group_maps, read_matrices
from crosstally.query.query_json import query_from_dict
from crosstally.schema import Schema, check_schema

_MAX_KEY = 200  # characters of a key. Chosen: keys are names that people choose; more would only make listings wide
ASKED = "ask"
"""The strategy of spends for the answers to single questions."""
RAISED = "raised"
"""The event of the ledger itself; its key begins with a tab, which the key of a spend cannot have."""


class State(StrEnum):
    """How far an entry has come."""

    CHARGED = "charged"
    """Paid for; nothing is stored. If whoever charged it is gone, the charge is lost."""
    STORED = "stored"
    """The measurements are in the ledger."""
    DELIVERED = "delivered"
    """They have also reached a release."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        """Called by ``State(value)`` where no member has this value."""
        raise LedgerError(must_be_one_of("the state of an entry", cls, value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One spend: ``cost`` in the ledger's currency, ``when`` it was charged, ``hash`` of the charge in the chain.

    ``request`` is the digest of the plan that was charged, as the statement of its release has it.
    """

    number: int
    key: str
    strategy: str
    cost: Fraction
    state: State
    when: datetime
    hash: str
    request: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", State(self.state))

    @property
    def is_asked(self) -> bool:
        """Whether it paid for the answers to single questions, which are given when bought and never exported."""
        return self.strategy == ASKED


@dataclass(frozen=True, slots=True)
class RaisedCap:
    """A higher cap, and when it was put on record."""

    budget: Budget
    when: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerHeader:
    """What is fixed when a ledger is created; ``ledger`` is how errors name it."""

    id: str
    schema: Schema
    first_cap: Budget
    neighbours: Neighbours
    ledger: str

    @property
    def currency(self) -> str:
        """What is summed: ``epsilon`` when the cap is a pure epsilon, otherwise ``rho``."""
        return "epsilon" if self.first_cap.pure else "rho"

    def price(self, budget: Budget) -> Fraction:
        """What a budget costs in this currency; a pure epsilon counts epsilon^2 / 2 in rho."""
        check_kind(budget, Budget, "budget", LedgerError)
        if self.currency == "epsilon" and not budget.pure:
            raise LedgerError(f"this ledger counts pure epsilon and cannot pay {budget}; give epsilon alone")
        return budget.amount**2 / 2 if budget.pure and self.currency == "rho" else budget.amount


def header_text(schema: Schema, budget: Budget, neighbours: Neighbours | str) -> str:
    """What the header of a new ledger says, with a random name."""
    check_schema(schema)
    if not isinstance(budget, Budget):
        raise LedgerError(
            f"budget must be a Budget, got {type(budget).__name__}: say Budget(epsilon=...) or Budget(rho=...)"
        )
    if schema.draft:
        raise LedgerError("a ledger must not be about a draft schema; review the schema and remove its draft mark")
    return canonical(
        {
            "crosstally-ledger": FORMAT,
            "id": uuid.uuid4().hex[:16],
            "schema": schema.to_dict(),
            "budget": budget.to_dict(),
            "neighbours": Neighbours(neighbours).value,
        }
    )


def read_header_text(header: str, store: Store) -> LedgerHeader:
    """What the header in a store says."""
    try:
        given = read_json(header)
        number = given.get("crosstally-ledger") if isinstance(given, Mapping) else None
        if type(number) is not int or number != FORMAT:
            raise LedgerError(f"{store} does not say which format it has")
        schema, budget = Schema.from_dict(given["schema"]).public(), Budget.from_dict(given["budget"])
        neighbours = Neighbours(given["neighbours"])
        return LedgerHeader(
            id=str(given["id"]),
            schema=schema,
            first_cap=budget,
            neighbours=neighbours,
            ledger=str(store),
        )
    except (ValueError, KeyError, TypeError, CrosstallyError):
        raise LedgerError(f"{store} has a header that cannot be read; restore the file from a copy") from None


def check_key(key: str) -> None:
    """Raise unless this can be the key of a spend."""
    if not isinstance(key, str) or not key.isprintable() or not 1 <= len(key) <= _MAX_KEY:
        raise LedgerError(f"a key must be a printable text of 1 to {_MAX_KEY} characters, got {key!r}")


def _kept_content(connection: sqlite3.Connection, select: str, event: Event) -> bytes:
    """What an event keeps beside the chain, after a look at its digest."""
    (found,) = connection.execute(select, (event.entry,)).fetchone() or (None,)
    content = found.encode() if isinstance(found, str) else found
    if not isinstance(content, bytes) or digest(content) != event.digest:
        raise LedgerError(f"what entry {event.entry} of the ledger keeps was changed; restore the file from a copy")
    return content


def plan_body(connection: sqlite3.Connection, charged: Event) -> dict[str, Any]:
    """The plan of a charge as JSON, without its schema, which the ledger holds."""
    try:
        body = read_json(_kept_content(connection, "SELECT body FROM plans WHERE entry = ?", charged))
    except JsonError as error:
        raise LedgerError(f"the plan of entry {charged.entry} of the ledger {error}") from None
    if not isinstance(body, dict) or not isinstance(body.get("requests"), list):
        raise LedgerError(f"the plan of entry {charged.entry} of the ledger is not a plan")
    return body


def plan_dict(connection: sqlite3.Connection, charged: Event, header: LedgerHeader) -> dict[str, Any]:
    """The plan of a charge as JSON, as it was written; the schema is kept once, in the header."""
    return {**plan_body(connection, charged), "schema": header.schema.to_dict()}


def plan_of(connection: sqlite3.Connection, charged: Event, header: LedgerHeader) -> Plan:
    """The plan of a charge."""
    try:
        return Plan.from_dict(plan_dict(connection, charged, header))
    except CrosstallyError as error:
        raise LedgerError(f"{header.ledger}: the plan of entry {charged.entry} is not sound: {error}") from None


def measured(connection: sqlite3.Connection, lines: Sequence[Event], header: LedgerHeader) -> tuple[Measurement, ...]:
    """The measurements of a spend whose events are a charge, what was stored for it, and perhaps more."""
    charged, stored = lines[:2]
    plan = plan_body(connection, charged)
    noisy = _kept_content(connection, "SELECT noisy FROM measurements WHERE entry = ?", stored)
    groups = dict(read_group_maps(plan["groups"]))
    matrices = dict(read_matrices(plan["matrices"]))
    requests = [
        (query_from_dict(each["query"], groups, matrices), Noise.from_dict(each["noise"])) for each in plan["requests"]
    ]
    shapes = [query.shape(header.schema) for query, _ in requests]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    if len(noisy) != 8 * ends[-1]:
        raise LedgerError(f"{header.ledger}: the measurements of entry {stored.entry} do not have their plan's size")
    parts = np.split(np.frombuffer(noisy, dtype="<i8"), ends[:-1])
    origin = f"entry {charged.entry} of ledger {header.id}"
    return tuple(
        Measurement(query, part.reshape(shape), variance=noise.variance, noise=noise, origin=origin)
        for (query, noise), shape, part in zip(requests, shapes, parts, strict=True)
    )


def request_digest(plan: Plan) -> str:
    """The identity of what is asked: cells, requests, budget, neighbours and rules of later stages, never rows."""
    return asked_digest(plan.to_dict(), plan.schema)


def asked_digest(given: Mapping[str, Any], schema: Schema) -> str:
    """``request_digest`` of a plan that is given as JSON."""
    fields = ("requests", "budget", "neighbours", "later", "groups", "matrices")
    return digest(canonical({**{field: given[field] for field in fields}, "schema": schema.identity()}))


def is_known(connection: sqlite3.Connection, plan: Plan, key: str) -> bool:
    """Whether the key was charged for this request; raises when it was charged for another."""
    charged = events(connection, "WHERE kind = 'charged' AND key = ?", (key,))
    if charged and charged[0].request != request_digest(plan):
        raise KeyReusedError(f"the key {key!r} belongs to another request; use a new key, or none")
    return bool(charged)


def by_entry(lines: Sequence[Event]) -> dict[int, list[Event]]:
    """The events of each spend, in order; those of the ledger itself are left out."""
    found: dict[int, list[Event]] = {}
    for event in spends(lines):
        found.setdefault(event.entry, []).append(event)
    return found


def entries_of(lines: Sequence[Event]) -> tuple[Entry, ...]:
    """One entry for each charge; raises unless each is charged, then stored, then delivered, under one key."""
    found = by_entry(lines)
    for number, (entry, spend) in enumerate(found.items(), 1):
        kinds = [event.kind for event in spend]
        if entry != number or kinds != list(State)[: len(kinds)] or len({event.key for event in spend}) > 1:
            raise LedgerError(f"entry {entry} of the ledger is not charged, stored and delivered in this order")
    return tuple(
        Entry(
            number=charged.entry,
            key=charged.key,
            strategy=charged.strategy or "",
            cost=cost_of(charged.cost),
            state=State(last.kind),
            when=_moment(charged),
            hash=charged.hash,
            request=charged.request or "",
        )
        for charged, last in ((spend[0], spend[-1]) for spend in found.values())
    )


def cost_of(text: object) -> Fraction:
    """What a charge costs, as the ledger keeps it."""
    cost = fraction_of_text(text)
    if cost is None or cost <= 0:
        raise LedgerError("a charge of the ledger has no cost that is a positive number; restore the file from a copy")
    return cost


def sum_spent(connection: sqlite3.Connection) -> Fraction:
    """The sum over every charge, in the currency of the ledger."""
    sums = connection.execute("SELECT cost, count(*) FROM events WHERE kind = 'charged' GROUP BY cost")
    return sum((cost_of(cost) * times for cost, times in sums), Fraction(0))


def raised_caps(connection: sqlite3.Connection) -> tuple[RaisedCap, ...]:
    """The higher caps on record, in order."""
    found = events(connection, "WHERE kind = ?", (RAISED,))
    return tuple(RaisedCap(read_cap(event), _moment(event)) for event in found)


def cap_of(connection: sqlite3.Connection, header: LedgerHeader) -> Budget:
    """The cap, as it was given or raised last."""
    raised = raised_caps(connection)
    return raised[-1].budget if raised else header.first_cap


def read_cap(event: Event) -> Budget:
    """The cap that an event puts on record."""
    try:
        return Budget.from_dict(read_json(event.request or ""))
    except (JsonError, CrosstallyError):
        raise LedgerError(f"event {event.number} of the ledger does not name a cap; restore the file") from None


def _moment(event: Event) -> datetime:
    try:
        return datetime.fromisoformat(event.charged_at or "")
    except ValueError:
        raise LedgerError(f"event {event.number} of the ledger does not say when it was; restore the file") from None


def verify(store: Store, header: LedgerHeader) -> None:
    """Raise unless the file is complete, no event, plan or measurement was changed, and the sums are right."""
    with store.writing_lock() as connection:
        if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            raise LedgerError(f"{store} is damaged; restore the file from a copy")
        check_chain(connection)
        lines = events(connection)
        entries_of(lines)
        for spend in by_entry(lines).values():
            _verify_spend(connection, spend, header)
        _verify_own(lines, header)
        for table, kind in (("plans", State.CHARGED), ("measurements", State.STORED)):
            kept = [entry for (entry,) in connection.execute(f"SELECT entry FROM {table} ORDER BY entry")]
            if kept != sorted(event.entry for event in lines if event.kind == kind):
                raise LedgerError(f"{store}: its {table} do not belong to its events")
        if sum_spent(connection) > cap_of(connection, header).amount:
            raise LedgerError(f"{store}: more is spent than its cap allows")


def check_anchor(store: Store, header: LedgerHeader, anchor: str) -> None:
    """Raise unless a ledger continues from an anchor that was taken of it."""
    check_kind(anchor, str, "anchor", LedgerError)
    own, _, rest = anchor.strip().partition(":")
    number, _, last = rest.partition(":")
    if not (own and number.isascii() and number.isdigit() and len(number) < 19 and len(last) == 64):
        raise LedgerError("an anchor has the form ID:NUMBER:HASH, as `crosstally ledger anchor` prints it")
    if own != header.id:
        raise LedgerError(f"the anchor is that of ledger {own}, {store} is {header.id}")
    with store.reading() as connection:
        reached, _ = head(connection)
        found = digest(read_header(connection))
        if int(number):
            found = "".join(event.hash for event in events(connection, "WHERE number = ?", (int(number),)))
    if reached < int(number):
        raise LedgerError(
            f"{store} ends at event {reached} and the anchor was taken at {number}: it was restored from an "
            "older copy, and what was spent since is missing; find the newest copy"
        )
    if found != last:
        raise LedgerError(f"{store} is not the one that the anchor was taken of: event {number} differs")


def check_price(connection: sqlite3.Connection, charged: Event, header: LedgerHeader) -> None:
    """Raise unless a charge is what the budget of its plan's stage costs here, and more than nothing."""
    body, cost = plan_body(connection, charged), cost_of(charged.cost)
    try:
        if not isinstance(later := body.get("later", []), list):
            raise LedgerError("later stages must be a list")
        share = first_share(tuple(map(Rule.from_dict, later)))
        price = header.price(part_of(Budget.from_dict(body.get("budget")), share))
    except CrosstallyError as error:
        raise LedgerError(f"{header.ledger}: the plan of entry {charged.entry} is not sound: {error}") from None
    if price != cost:
        raise LedgerError(f"{header.ledger}: entry {charged.entry} was charged for another plan")


def _verify_spend(connection: sqlite3.Connection, lines: Sequence[Event], header: LedgerHeader) -> None:
    charged = lines[0]
    plan_of(connection, charged, header)
    check_price(connection, charged, header)
    if asked_digest(plan_dict(connection, charged, header), header.schema) != charged.request:
        raise LedgerError(f"{header.ledger}: entry {charged.entry} was charged for another plan")
    if len(lines) > 1:
        measured(connection, lines, header)


def _verify_own(lines: Sequence[Event], header: LedgerHeader) -> None:
    """Raise unless the events of the ledger itself are raises of the cap, each above the one before."""
    cap, raises = header.first_cap, 0
    for event in lines:
        if event.entry or event.kind in set(State):
            if not event.entry or event.kind not in set(State):
                raise LedgerError(f"{header.ledger}: event {event.number} is none that a ledger has")
            continue
        if event.kind != RAISED:
            raise LedgerError(f"{header.ledger}: event {event.number} is none that a ledger has")
        raises += 1
        new = read_cap(event)
        if event.key != f"\tcap {raises}" or new.pure != cap.pure or new.amount <= cap.amount:
            raise LedgerError(f"{header.ledger}: event {event.number} does not raise the cap")
        cap = new
