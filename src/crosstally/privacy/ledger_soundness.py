"""Whether a ledger is sound: complete, unchanged, charged by its plans' prices, and the continuation of an anchor.

Nothing is changed here, and nothing is repaired: whatever does not fit is a LedgerError.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from crosstally.budget import Budget
from crosstally.checks import check_kind
from crosstally.errors import CrosstallyError, LedgerError
from crosstally.plans.request import Rule, first_share, part_of
from crosstally.privacy.ledger_file import Event, Store, check_chain, digest, events, head, read_header
from crosstally.privacy.ledger_records import (
    RAISED,
    LedgerHeader,
    State,
    asked_digest,
    by_entry,
    cap_of,
    cost_of,
    entries_of,
    measured,
    plan_body,
    plan_dict,
    plan_of,
    read_cap,
    sum_spent,
)

__all__ = ["check_anchor", "check_price", "verify"]


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
