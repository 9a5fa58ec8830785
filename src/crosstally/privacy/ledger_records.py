"""The records of a ledger's file: header, entries, costs, caps, plans and measurements, parsed strictly.

``ledger_file`` stores events and their hash chain without interpreting them; ``ledger`` decides what may be spent. This
module turns events into entries and caps, compares stored content with its digest, and refuses anything that a ledger
would not write. It also verifies a whole ledger: complete, unchanged, charged at the prices of its plans, and a
continuation of an anchor. Nothing is repaired: any mismatch is a LedgerError.
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

from crosstally.budget import Budget, Currency, Neighbours, Noise, fraction_of_text
from crosstally.checks import check_kind
from crosstally.errors import BudgetError, CrosstallyError, KeyReusedError, LedgerError, must_be_one_of
from crosstally.json_text import JsonError, read_json
from crosstally.measurements import UNRECORDED, Measurement
from crosstally.plans.plan import Plan
from crosstally.plans.request import Rule, first_share
from crosstally.privacy.ledger_file import (
    FORMAT,
    Event,
    Store,
    canonical,
    check_chain,
    digest,
    events,
    spends,
)
from crosstally.query.operators import read_group_maps, read_matrices
from crosstally.query.query_json import query_from_dict
from crosstally.schema import Schema, check_schema

_MAX_KEY = 200  # characters of a key. Chosen: people choose keys, and longer ones only make listings wide
_MOST_TIMES = 1_000_000  # units that one person may be; a charge grows with it, so more would only be a slip
ASKED = "ask"
"""The strategy name of charges for answers to single questions."""
RAISED, ADMITTED = "raised", "admitted"
"""The events of the ledger itself; their keys begin with a tab, which the key of a spend cannot have."""


class State(StrEnum):
    """How far an entry has come."""

    CHARGED = "charged"
    """Paid for; nothing is stored. If the process that charged it has ended, the charge is lost."""
    STORED = "stored"
    """The measurements are in the ledger."""
    DELIVERED = "delivered"
    """The measurements have also reached a release."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        """Called by ``State(value)`` where no member has this value."""
        raise LedgerError(must_be_one_of("the state of an entry", cls, value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One spend: ``cost`` in the ledger's currency, ``when`` it was charged, ``hash`` of the charge in the chain.

    ``request`` is the digest of the plan that was charged, as the statement of its release has it, ``schema`` which of
    the ledger's schemas it is about.
    """

    number: int
    key: str
    strategy: str
    cost: Fraction
    state: State
    when: datetime
    hash: str
    request: str
    schema: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", State(self.state))

    @property
    def is_asked(self) -> bool:
        """Whether it paid for answers to single questions, which are returned at once and never exported."""
        return self.strategy == ASKED


@dataclass(frozen=True, slots=True)
class RaisedCap:
    """A higher cap, when it was recorded, by whom and why, as they said."""

    budget: Budget
    when: datetime
    by: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Admitted:
    """A schema that an account pays for: one person of the account is at most ``times`` units of it.

    For schemas with another unit than the account's somebody asserted that. The first has no ``when``.
    """

    schema: Schema
    times: int = 1
    asserted: bool = False
    when: datetime | None = None

    def factor(self, relation: Neighbours, account: Neighbours) -> int:
        """How many steps of the release's neighbours lead from one neighbour of the account to the other."""
        if relation == Neighbours.REPLACE and self.asserted and not self.schema.may_drop:
            raise LedgerError("people may have no row here, which replace neighbours do not cover; plan for add-remove")
        if relation == account:
            return self.times
        if account != Neighbours.REPLACE:
            raise LedgerError(f"this ledger protects {account} neighbours, the plan {relation} ones")
        return 2 * self.times  # a person is replaced by removing one and adding another


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerHeader:
    """The properties fixed when a ledger is created; ``ledger`` is its name in error messages."""

    id: str
    schema: Schema
    first_cap: Budget
    neighbours: Neighbours
    ledger: str
    people: str = ""

    @property
    def currency(self) -> Currency:
        """What is summed: that of the first cap."""
        return self.first_cap.currency

    def price(self, budget: Budget, factor: int = 1) -> Fraction:
        """What a budget costs in this currency.

        With a factor, for neighbours that are so many steps apart: epsilon grows with it, rho and mu^2 with its square.
        """
        check_kind(budget, Budget, "budget", LedgerError)
        try:
            price = budget.price_in(self.currency)
        except BudgetError as error:
            raise LedgerError(f"this ledger {error}") from None
        return price * (factor if self.currency == "epsilon" else factor**2)


def header_text(
    schema: Schema, budget: Budget, neighbours: Neighbours | str, *, people: str = "", recorded: bool = True
) -> str:
    """The header of a new ledger, with a random name; that of one that no file records says so."""
    check_words(people, "the name of the people of a ledger")
    if not isinstance(budget, Budget):
        raise LedgerError(
            f"budget must be a Budget, got {type(budget).__name__}: say Budget(epsilon=...) or Budget(rho=...)"
        )
    _check_reviewed(schema)
    return canonical(
        {
            "crosstally-ledger": FORMAT,
            "id": uuid.uuid4().hex[:16] if recorded else f"{UNRECORDED}{uuid.uuid4().hex[:16]}",
            "people": people,
            "schema": schema.to_dict(),
            "budget": budget.to_dict(),
            "neighbours": Neighbours(neighbours).value,
        }
    )


def read_header_text(header: str, store: Store) -> LedgerHeader:
    """The header of an existing store."""
    try:
        given = read_json(header)
        number = given.get("crosstally-ledger") if isinstance(given, Mapping) else None
        if type(number) is not int or number != FORMAT:
            raise LedgerError(f"{store} does not say which format it has")
        return LedgerHeader(
            id=str(given["id"]),
            schema=Schema.from_dict(given["schema"]).public(),
            first_cap=Budget.from_dict(given["budget"]),
            neighbours=Neighbours(given["neighbours"]),
            ledger=str(store),
            people=str(given["people"]),
        )
    except (ValueError, KeyError, TypeError, CrosstallyError):
        raise LedgerError(f"{store} has a header that cannot be read; restore the file from a copy") from None


def _check_reviewed(schema: Schema) -> None:
    check_schema(schema)
    if schema.draft:
        raise LedgerError("a ledger must not be about a draft schema; review the schema and remove its draft mark")


def check_words(text: object, what: str) -> None:
    """Raise unless this can be kept as somebody's words."""
    if not isinstance(text, str) or len(text) > _MAX_KEY or not text.isprintable():
        raise LedgerError(f"{what} must be a printable text of at most {_MAX_KEY} characters")


def check_key(key: str) -> None:
    """Raise unless this can be the key of a spend."""
    if not isinstance(key, str) or not key.isprintable() or not 1 <= len(key) <= _MAX_KEY:
        raise LedgerError(f"a key must be a printable text of 1 to {_MAX_KEY} characters, got {key!r}")


def _kept_content(connection: sqlite3.Connection, select: str, event: Event) -> bytes:
    """The content that an event stores beside the chain, checked against its digest."""
    (found,) = connection.execute(select, (event.entry,)).fetchone() or (None,)
    content = found.encode() if isinstance(found, str) else found
    if not isinstance(content, bytes) or digest(content) != event.digest:
        raise LedgerError(f"what entry {event.entry} of the ledger keeps was changed; restore the file from a copy")
    return content


def admitted(connection: sqlite3.Connection, header: LedgerHeader) -> tuple[Admitted, ...]:
    """The schemas that the account pays for; the first is the one it was opened with."""
    return (Admitted(header.schema), *map(_read_admitted, events(connection, "WHERE kind = ?", (ADMITTED,))))


def _read_admitted(event: Event) -> Admitted:
    try:
        given = read_json(event.request or "")
        schema, times, asserted = Schema.from_dict(given["schema"]).public(), given["times"], given["asserted"]
    except (JsonError, CrosstallyError, KeyError, TypeError):
        times = None
    if type(times) is not int or times < 1 or type(asserted) is not bool:
        raise LedgerError(f"event {event.number} of the ledger does not admit a schema; restore the file")
    return Admitted(schema, times, asserted, _moment(event))


def admission(schema: Schema, header: LedgerHeader, times: int | None) -> Admitted:
    """How an account takes in a schema: by its own unit, or by an assertion how many units one person is at most."""
    _check_reviewed(schema)
    own, unit = (None if each.unit is None else each.unit.id for each in (header.schema, schema))
    if own == unit and (own is not None or bought_from(schema, header)):
        if times not in (None, 1):
            raise LedgerError(f"{header.ledger} protects each {own}, and so does the schema: leave out at most {times}")
        return Admitted(schema)
    if times is None:
        people = header.people or ("a row of its first schema" if own is None else f"one {own}")
        what = "rows" if unit is None else f"{unit}s"
        raise LedgerError(
            f"{header.ledger} protects {people}, and this is another schema, of {what}: say how many {what} one person"
            " may be, 1 if one row for each: crosstally ledger admit LEDGER --schema FILE --at-most K"
        )
    if isinstance(times, bool) or not isinstance(times, int) or not 1 <= times <= _MOST_TIMES:
        raise LedgerError(f"at most must be a whole number from 1 to {_MOST_TIMES:,}, got {times!r}")
    return Admitted(schema, times, asserted=True)


def bought_from(schema: Schema, header: LedgerHeader) -> bool:
    """Whether an account sold the bins of a schema, and so is about the same rows."""
    return schema.bought is not None and schema.bought.entry.endswith(f" of ledger {header.id}")


def place_of(schema: Schema, known: Sequence[Admitted]) -> int | None:
    """Which of the schemas of an account this is; None if it is none of them."""
    check_schema(schema)
    identity = schema.identity()
    return next((number for number, each in enumerate(known) if each.schema.identity() == identity), None)


def plan_body(connection: sqlite3.Connection, charged: Event) -> dict[str, Any]:
    """The plan of a charge as JSON, without its schema, which the ledger holds."""
    try:
        body = read_json(_kept_content(connection, "SELECT body FROM plans WHERE entry = ?", charged))
    except JsonError as error:
        raise LedgerError(f"the plan of entry {charged.entry} of the ledger {error}") from None
    if not isinstance(body, dict) or not isinstance(body.get("requests"), list):
        raise LedgerError(f"the plan of entry {charged.entry} of the ledger is not a plan")
    return body


def admitted_for(connection: sqlite3.Connection, charged: Event, header: LedgerHeader) -> Admitted:
    """The schema of a charge, as the account had it then."""
    number, known = _schema_number(charged), admitted(connection, header)
    if number >= len(known):
        raise LedgerError(f"entry {charged.entry} of the ledger is about a schema that it was never told of")
    return known[number]


def _schema_number(charged: Event) -> int:
    """Which of the account's schemas a charge is about."""
    text = charged.schema or ""
    if not (text.isascii() and text.isdigit() and len(text) < 10):  # far more than any account has
        raise LedgerError(f"entry {charged.entry} of the ledger does not say which schema it is about")
    return int(text)


def plan_dict(connection: sqlite3.Connection, charged: Event, header: LedgerHeader) -> dict[str, Any]:
    """The plan of a charge as JSON, as it was written; each schema is kept once."""
    schema = admitted_for(connection, charged, header).schema
    return {**plan_body(connection, charged), "schema": schema.to_dict()}


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
    schema = admitted_for(connection, charged, header).schema
    requests = [
        (query_from_dict(each["query"], groups, matrices), Noise.from_dict(each["noise"]).in_parts(schema.parts))
        for each in plan["requests"]
    ]
    shapes = [query.shape(schema) for query, _ in requests]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    if len(noisy) != 8 * ends[-1]:
        raise LedgerError(f"{header.ledger}: the measurements of entry {stored.entry} do not have their plan's size")
    parts = np.split(np.frombuffer(noisy, dtype="<i8"), ends[:-1])
    origin = f"entry {charged.entry} of ledger {header.id}"
    return tuple(
        Measurement.drawn(query, part.reshape(shape), noise, origin=origin)
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
    """Whether the key was charged for this request; raises if it was charged for a different one."""
    charged = events(connection, "WHERE kind = 'charged' AND key = ?", (key,))
    if charged and charged[0].request != request_digest(plan):
        raise KeyReusedError(f"the key {key!r} belongs to another request; use a new key, or none")
    return bool(charged)


def by_entry(lines: Sequence[Event]) -> dict[int, list[Event]]:
    """The events of each spend, in order; those of the ledger itself are left out."""
    grouped: dict[int, list[Event]] = {}
    for event in spends(lines):
        grouped.setdefault(event.entry, []).append(event)
    return grouped


def entries_of(lines: Sequence[Event]) -> tuple[Entry, ...]:
    """One entry for each charge; raises unless each is charged, then stored, then delivered, under one key."""
    grouped = by_entry(lines)
    for number, (entry, spend) in enumerate(grouped.items(), 1):
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
            schema=_schema_number(charged),
        )
        for charged, last in ((spend[0], spend[-1]) for spend in grouped.values())
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
    """The recorded raises of the cap, in order."""
    raised = events(connection, "WHERE kind = ?", (RAISED,))
    return tuple(map(_read_raised, raised))


def cap_of(connection: sqlite3.Connection, header: LedgerHeader) -> Budget:
    """The current cap."""
    raised = raised_caps(connection)
    return raised[-1].budget if raised else header.first_cap


def _read_raised(event: Event) -> RaisedCap:
    try:
        given = read_json(event.request or "")
        return RaisedCap(Budget.from_dict(given["cap"]), _moment(event), str(given["by"]), str(given["why"]))
    except (JsonError, CrosstallyError, KeyError, TypeError):
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


def check_price(connection: sqlite3.Connection, charged: Event, header: LedgerHeader) -> None:
    """Raise unless a charge is positive and equals the cost of its plan's stage."""
    body, cost = plan_body(connection, charged), cost_of(charged.cost)
    try:
        if not isinstance(later := body.get("later", []), list):
            raise LedgerError("later stages must be a list")
        share = first_share(tuple(map(Rule.from_dict, later)))
        relation = Neighbours(str(body.get("neighbours")))
        factor = admitted_for(connection, charged, header).factor(relation, header.neighbours)
        price = header.price(Budget.from_dict(body.get("budget")).part(share), factor)
    except CrosstallyError as error:
        raise LedgerError(f"{header.ledger}: the plan of entry {charged.entry} is not sound: {error}") from None
    if price != cost:
        raise LedgerError(f"{header.ledger}: entry {charged.entry} was charged for another plan")


def _verify_spend(connection: sqlite3.Connection, lines: Sequence[Event], header: LedgerHeader) -> None:
    charged = lines[0]
    plan_of(connection, charged, header)
    check_price(connection, charged, header)
    schema = admitted_for(connection, charged, header).schema
    if asked_digest(plan_dict(connection, charged, header), schema) != charged.request:
        raise LedgerError(f"{header.ledger}: entry {charged.entry} was charged for another plan")
    if len(lines) > 1:
        measured(connection, lines, header)


def _verify_own(lines: Sequence[Event], header: LedgerHeader) -> None:
    """Raise unless the events of the ledger itself are increasing raises of the cap, and admissions of schemas."""
    cap, raises, known = header.first_cap, 0, [Admitted(header.schema)]
    for event in lines:
        if event.entry or event.kind in set(State):
            if not event.entry or event.kind not in set(State):
                raise LedgerError(f"{header.ledger}: event {event.number} is none that a ledger has")
            continue
        if event.kind == ADMITTED:
            found = _read_admitted(event)
            sound = admission(found.schema, header, found.times if found.asserted else None)
            if (
                event.key != f"\tschema {len(known)}"
                or sound.times != found.times
                or place_of(found.schema, known) is not None
            ):
                raise LedgerError(f"{header.ledger}: event {event.number} does not admit a schema")
            known.append(found)
            continue
        if event.kind != RAISED:
            raise LedgerError(f"{header.ledger}: event {event.number} is none that a ledger has")
        raises += 1
        new = _read_raised(event).budget
        if event.key != f"\tcap {raises}" or new.currency != cap.currency or new.amount <= cap.amount:
            raise LedgerError(f"{header.ledger}: event {event.number} does not raise the cap")
        cap = new
