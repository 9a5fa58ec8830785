"""Check that a ledger paid for a release: compare the entries, cost, plan and numbers of both."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import crosstally as ct
from crosstally.budget import decimal_text
from crosstally.cli.options import CheckFailedError
from crosstally.errors import CrosstallyError, LedgerError
from crosstally.measurements import Chosen, Measurement
from crosstally.releases.file.reader import origins_in
from crosstally.releases.publication import costs_of_entries

if TYPE_CHECKING:
    from crosstally.privacy.ledger_records import Entry


OLDER = "an older copy of the ledger was put back; restore the one that paid"
_MOST_FILES = 200  # files of a folder whose ends are read: each takes about a millisecond
_ORIGIN = re.compile(r"entry ([1-9][0-9]{0,17}) of ledger (.+)")


def check_paid(release: ct.Release, ledger: ct.Ledger) -> dict[str, Any]:
    """What the ledger charged for this release, and in which entries; raises unless it paid for exactly this release.

    The release's own numbers must be those that the ledger keeps, the plan that the statement names must be the one
    that was charged, each entry must have charged at least what its measurements and choices cost, and the statement
    must promise no less than all of them together cost.
    """
    statement = release.statement
    if not ledger.holds(release.schema):
        raise CheckFailedError(
            "the ledger is about other attributes, cells, units, periods or neighbours than the release"
        )
    bought = [each for each in release.bought if each.noise is not None]
    origins = list(dict.fromkeys([*(each.origin for each in bought), *(each.origin for each in release.choices)]))
    entries = [_entry(origin, ledger) for origin in origins]
    if not entries or statement.entry not in origins:
        raise CheckFailedError("the entry that the release names as paying did not buy any of its numbers")
    if statement.plan is not None and statement.plan != entries[origins.index(statement.entry)].request:
        raise CheckFailedError(f"the plan of the release is not the one that {statement.entry} was charged for")
    for origin, entry in zip(origins, entries, strict=True):
        paid = ledger.plan(entry.key)
        if paid is None or (paid.schema.identity(), paid.neighbours) != (
            release.schema.identity(),
            statement.neighbours,
        ):
            raise CheckFailedError(
                f"{origin} is about other attributes, cells, units, periods or neighbours than the release"
            )
        kept = ledger.measurements(entry.key)
        stored = [(m.query, m.noise, m.values.tobytes()) for m in kept if not m.query.is_choice]
        shown = [(m.query, m.noise, _numbers(m).tobytes()) for m in bought if m.origin == origin]
        chosen = [_told(Chosen.of(m)) for m in kept if m.query.is_choice]
        if stored != shown or chosen != [_told(each) for each in release.choices if each.origin == origin]:
            raise CheckFailedError(f"the numbers of the release are not those that {origin} bought")
    return {
        "entries": sorted(entry.number for entry in entries),
        "currency": ledger.currency,
        "charged": decimal_text(_checked_cost(release, ledger, dict(zip(origins, entries, strict=True)))),
        "plan_checked": statement.plan is not None,
    }


def _entry(origin: str, ledger: ct.Ledger) -> Entry:
    found = _ORIGIN.fullmatch(origin)
    if found is None or found[2] != ledger.id:
        raise CheckFailedError(f"the release was paid by {origin}, this is ledger {ledger.id}")
    entries = ledger.entries()
    if int(found[1]) > len(entries):
        raise CheckFailedError(f"the release was paid by {origin}, which has only {len(entries)} entries: {OLDER}")
    return entries[int(found[1]) - 1]


def _numbers(shown: Measurement) -> NDArray[Any]:
    """The numbers as a ledger has them: whole, or fractions where a unit was divided over its rows."""
    divided = shown.noise is not None and shown.noise.parts > 1
    return np.asarray(shown.values, np.float64 if divided else np.int64)


def _told(chosen: Chosen) -> tuple[object, ...]:
    """A release file's description of a choice, in any format version."""
    return chosen.tables, chosen.numbers, chosen.noise


def _checked_cost(release: ct.Release, ledger: ct.Ledger, entries: dict[str, Entry]) -> Fraction:
    try:
        promised = ledger.price(release.statement.budget)
    except CrosstallyError as error:
        raise CheckFailedError(f"the statement's budget is not of this ledger: {error}") from None
    plan = ledger.plan(next(iter(entries.values())).key)
    multiple = ledger.price(release.statement.budget, plan) / promised  # of people who may be several of its units
    costs = costs_of_entries(
        release.schema,
        release.statement.neighbours,
        release.bought,
        release.choices,
        currency=ledger.currency,
    )
    for origin, entry in entries.items():
        if multiple * costs[origin] > entry.cost:
            raise CheckFailedError(f"the numbers of {origin} cost more than it was charged")
    charged = sum((entry.cost for entry in entries.values()), Fraction(0))
    if charged > multiple * promised:
        raise CheckFailedError("the ledger charged more for the release than its statement says")
    return charged


def check_not_behind(ledger: ct.Ledger) -> None:
    """Raise if a release beside a ledger was paid by an entry that the ledger does not have: it is an older copy.

    Only what such files say at their end is read; anything else in the folder is passed over.
    """
    path = ledger.path
    if path is None:
        return
    number = len(ledger.entries())
    for file in sorted(path.resolve().parent.glob("*.parquet"))[:_MOST_FILES]:
        found = [_ORIGIN.fullmatch(origin) for origin in origins_in(file)]
        last = max((int(each[1]) for each in found if each is not None and each[2] == ledger.id), default=0)
        if last > number:
            raise LedgerError(f"{str(file)!r} was paid by entry {last} of {str(path)!r}, which has {number}: {OLDER}")
