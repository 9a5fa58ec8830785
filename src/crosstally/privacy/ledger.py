"""The ledger: an account of some people, with the total privacy budget, what was spent, and what it paid for.

Its neighbours are one person with all their rows in every source: spends on several schemas add up. A schema has the
account's unit, or somebody asserted how many of its rows or units one person may be; then it is charged so many times.

Accounting is exact: amounts are fractions, and the spent budget is the sum of all charges ever made. A charge is never
refunded. Its measurements are stored before they are returned; they can be read again but are never drawn again.
"""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import SIGNS, Budget, Currency, Neighbours, decimal_text
from crosstally.checks import check_kind
from crosstally.errors import ChargeLostError, LedgerError, OverspendError, did_you_mean
from crosstally.html_text import MOST_ROWS, html_table
from crosstally.measurements import Measurement
from crosstally.plans.plan import Plan, check_plan
from crosstally.privacy.ledger_file import (
    Event,
    Store,
    append,
    canonical,
    check_anchor,
    digest,
    events,
    head,
    read_header,
)
from crosstally.privacy.ledger_records import (
    ADMITTED,
    RAISED,
    Admitted,
    Entry,
    RaisedCap,
    State,
    admission,
    admitted,
    bought_from,
    by_entry,
    cap_of,
    check_key,
    check_price,
    check_words,
    entries_of,
    header_text,
    is_known,
    measured,
    place_of,
    plan_of,
    raised_caps,
    read_header_text,
    request_digest,
    sum_spent,
    verify,
)
from crosstally.schema import Schema


class Ledger:
    """A cap on the privacy budget of one group of people, all charges so far, and their measurements.

    Make one with ``create``, ``open`` or ``in_memory``. Objects on the same file may be used at the same time, by
    threads and by processes. ``before_charge`` is called immediately before the charge; if it raises,
    nothing is charged.
    """

    def __init__(self, store: Store, header: str, before_charge: Callable[[], None] | None = None) -> None:
        self._store = store
        self._before_charge = before_charge
        self._header = read_header_text(header, store)

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        schema: Schema,
        budget: Budget,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        people: str = "",
        before_charge: Callable[[], None] | None = None,
    ) -> Ledger:
        """A new ledger in a new file, with this budget as its cap; ``people`` says in words whose account it is."""
        header = header_text(schema, budget, neighbours, people=people)
        return cls(Store.create(_as_path(path), header), header, before_charge)

    @classmethod
    def open(
        cls, path: str | Path, *, before_charge: Callable[[], None] | None = None, read_only: bool = False
    ) -> Ledger:
        """The ledger in a file; raises unless every charge is positive and equal to the cost of its plan.

        With ``read_only`` the file or its folder may be write-protected; nothing can be spent.
        """
        store = Store.open(_as_path(path), read_only=read_only)
        with store.reading() as connection:
            ledger = cls(store, read_header(connection), before_charge)
            for charged in events(connection, "WHERE kind = 'charged'"):
                check_price(connection, charged, ledger._header)
        return ledger

    @classmethod
    def in_memory(
        cls, *, schema: Schema, budget: Budget, neighbours: Neighbours | str = Neighbours.ADD_REMOVE
    ) -> Ledger:
        """A new ledger that exists only in this process: releases that it pays say that no ledger recorded them."""
        header = header_text(schema, budget, neighbours, recorded=False)
        return cls(Store.in_memory(header), header)

    def __repr__(self) -> str:
        where = "in memory" if self.path is None else str(self.path)
        return f"Ledger({where}, {self.budget}, spent {_amount(self.spent, self.currency)})"

    def _repr_html_(self) -> str:
        entries = self.entries()
        rows = [
            [
                str(each.number),
                each.when.strftime("%Y-%m-%d %H:%M"),
                each.key,
                each.strategy,
                each.state.value,
                _amount(each.cost, self.currency),
            ]
            for each in entries[-MOST_ROWS:]
        ]
        heads = ["entry", "when (UTC)", "key", "strategy", "state", "cost"]
        return html_table(heads, rows, caption=repr(self), more=len(entries) - MOST_ROWS)

    # Identity

    @property
    def id(self) -> str:
        """A random name, fixed when the ledger was created."""
        return self._header.id

    @property
    def path(self) -> Path | None:
        """The file, unless the ledger is in memory."""
        return self._store.path

    @property
    def people(self) -> str:
        """Whose account it is, in words; empty if nobody said it."""
        return self._header.people

    @property
    def schema(self) -> Schema:
        """The schema that the account was opened with; its unit is the account's."""
        return self._header.schema

    @property
    def schemas(self) -> tuple[Admitted, ...]:
        """Every schema that the account pays for, in order."""
        with self._store.reading() as connection:
            return admitted(connection, self._header)

    def holds(self, schema: Schema) -> bool:
        """Whether the account was told of this schema, or sold the bins of it."""
        return place_of(schema, self.schemas) is not None or bought_from(schema, self._header)

    @property
    def budget(self) -> Budget:
        """The current cap."""
        with self._store.reading() as connection:
            return cap_of(connection, self._header)

    @property
    def caps(self) -> tuple[RaisedCap, ...]:
        """Every raise of the cap since the ledger was created, in order."""
        with self._store.reading() as connection:
            return raised_caps(connection)

    @property
    def anchor(self) -> str:
        """The ledger's name, the number of its last event and its hash: stored elsewhere, it detects an older copy."""
        with self._store.reading() as connection:
            number, last = head(connection)
        return f"{self.id}:{number}:{last}"

    @property
    def neighbours(self) -> Neighbours:
        """The neighbouring relation that every spend uses."""
        return self._header.neighbours

    @property
    def currency(self) -> Currency:
        """What is summed: ``epsilon``, ``rho`` or ``mu2``, fixed when the ledger was created."""
        return self._header.currency

    # Spending so far

    @property
    def spent(self) -> Fraction:
        """The sum over every charge, in the ledger's currency."""
        with self._store.reading() as connection:
            return sum_spent(connection)

    @property
    def remaining(self) -> Fraction:
        """What is left of the cap, in the ledger's currency."""
        with self._store.reading() as connection:
            return cap_of(connection, self._header).amount - sum_spent(connection)

    def price(self, budget: Budget, plan: Plan | None = None) -> Fraction:
        """What a budget costs in this ledger's currency (``Budget.price_in``).

        With a plan, what it costs for the people of this account, who may be several units of the plan's schema.
        """
        return self._header.price(budget, 1 if plan is None else self._factor(self.schemas, plan))

    def entries(self) -> tuple[Entry, ...]:
        """Every spend, in order."""
        with self._store.reading() as connection:
            return entries_of(events(connection))

    def standing(self) -> tuple[Budget, tuple[Entry, ...]]:
        """The cap on record and every spend, at one moment."""
        with self._store.reading() as connection:
            return cap_of(connection, self._header), entries_of(events(connection))

    def check(self, plan: Plan) -> None:
        """Raise unless this ledger can pay for this kind of plan, regardless of what is left."""
        check_plan(plan)
        self.price(plan.budget, plan)

    def _factor(self, known: Sequence[Admitted], plan: Plan) -> int:
        place = place_of(plan.schema, known)
        held = admission(plan.schema, self._header, None) if place is None else known[place]
        return held.factor(plan.neighbours, self.neighbours)

    def admit(self, schema: Schema, *, at_most: int | None = None) -> None:
        """Take in another schema about the same people. One with the account's unit needs no more to be said.

        Args:
            schema: The reviewed schema.
            at_most: Of another unit: how many of its rows or units one person may be, which is recorded as your
                assertion. Spends on it cost so many times their epsilon, or the square of it times their rho.
        """
        with self._store.writing() as connection:
            known = admitted(connection, self._header)
            if place_of(schema, known) is not None:
                raise LedgerError(f"{self._store} was told of this schema before")
            self._admit(connection, admission(schema, self._header, at_most), len(known))

    def _admit(self, connection: sqlite3.Connection, new: Admitted, number: int) -> None:
        told = {"schema": new.schema.to_dict(), "times": new.times, "asserted": new.asserted}
        when = datetime.now(UTC).isoformat(timespec="seconds")
        append(connection, ADMITTED, entry=0, key=f"\tschema {number}", request=canonical(told), charged_at=when)

    def check_left(self, plan: Plan) -> None:
        """Raise unless the remaining budget pays for all stages of the plan. Other charges may still come first."""
        check_plan(plan)
        with self._store.reading() as connection:
            self._check_stages(connection, plan)

    # Measurements

    def measurements(self, key: str | None = None, *, schema: Schema | None = None) -> tuple[Measurement, ...]:
        """All measurements of a schema, that of the account without one, or those of the charge with this key."""
        with self._store.reading() as connection:
            if key is not None:
                return measured(connection, self._stored_lines(connection, key), self._header)
            place = place_of(self.schema if schema is None else schema, admitted(connection, self._header))
            bought = by_entry(events(connection)).values()
            stored = [lines for lines in bought if len(lines) > 1]
            own = (lines for lines in stored if lines[0].schema == str(place))
            return tuple(each for lines in own for each in measured(connection, lines, self._header))

    def export(self, key: str) -> tuple[Plan, tuple[Measurement, ...]]:
        """The plan and the measurements of a charge: everything needed for a release."""
        with self._store.reading() as connection:
            lines = self._stored_lines(connection, key)
            return plan_of(connection, lines[0], self._header), measured(connection, lines, self._header)

    def plan(self, key: str) -> Plan | None:
        """The plan that this key was charged for; None when the key is new."""
        check_key(key)
        with self._store.reading() as connection:
            lines = events(connection, "WHERE key = ?", (key,))
            return plan_of(connection, lines[0], self._header) if lines else None

    def recall(self, plan: Plan, key: str, *, affordable: bool = False) -> tuple[Measurement, ...] | None:
        """The measurements that this key and request have already paid for; None when the key is new.

        ``affordable`` raises for a new key as ``check_left`` does, at the same moment.
        """
        check_key(key)
        with self._store.reading() as connection:
            if not is_known(connection, plan, key):
                if affordable:
                    self._check_stages(connection, plan)
                return None
            return measured(connection, self._stored_lines(connection, key), self._header)

    # Spending: only privacy.measure does this

    def charge(self, plan: Plan, key: str) -> bool:
        """Pay for the current stage of a plan. False if this key has already paid and the measurements are stored."""
        check_key(key)
        self.check(plan)
        if not plan.requests:
            raise LedgerError("a plan without requests costs nothing and is not charged")
        with self._store.writing() as connection:
            if is_known(connection, plan, key):
                self._stored_lines(connection, key)
                return False
            known = admitted(connection, self._header)
            cost = self._header.price(plan.own_budget, self._factor(known, plan))
            self._check_cap(connection, cost)
            place = place_of(plan.schema, known)
            if place is None:
                place = len(known)
                self._admit(connection, admission(plan.schema, self._header, None), place)
            body = canonical({field: value for field, value in plan.to_dict().items() if field != "schema"})
            (entry,) = connection.execute("SELECT count(*) + 1 FROM events WHERE kind = 'charged'").fetchone()
            connection.execute("INSERT INTO plans VALUES (?, ?)", (entry, body))
            append(
                connection,
                State.CHARGED,
                entry=entry,
                key=key,
                schema=str(place),
                request=request_digest(plan),
                strategy=plan.strategy,
                cost=str(cost),
                charged_at=datetime.now(UTC).isoformat(timespec="seconds"),
                digest=digest(body),
            )
            numbers = sum(math.prod(each.query.shape(plan.schema)) for each in plan.requests)
            self._store.check_room(connection, numbers * np.dtype(np.int64).itemsize)
            if self._before_charge is not None:
                self._before_charge()
        return True

    def store(self, key: str, values: Sequence[NDArray[np.int64]]) -> tuple[Measurement, ...]:
        """Store what was drawn for a charge, once, and return what is stored."""
        noisy = b"".join(np.ascontiguousarray(each, dtype="<i8").tobytes() for each in values)
        with self._store.writing() as connection:
            lines = events(connection, "WHERE key = ?", (key,))
            if [event.kind for event in lines] != [State.CHARGED]:
                raise LedgerError(f"the key {key!r} must be charged and not yet stored for measurements to be kept")
            entry = lines[0].entry
            connection.execute("INSERT INTO measurements VALUES (?, ?)", (entry, noisy))
            append(connection, State.STORED, entry=entry, key=key, digest=digest(noisy))
            self._store.commit(connection)  # before it is read back: later failures lose nothing
            return measured(connection, self._stored_lines(connection, key), self._header)

    def delivered(self, key: str) -> None:
        """Record that the measurements of a charge have reached a release. Repeating it changes nothing."""
        with self._store.writing() as connection:
            lines = self._stored_lines(connection, key)
            if lines[-1].kind != State.DELIVERED:
                append(connection, State.DELIVERED, entry=lines[0].entry, key=key)

    def remove_unused(self) -> None:
        """Remove the file if nothing was ever charged. A concurrent charge either keeps the file or is refused."""
        self._store.remove_unused()

    # Changes of the cap

    def raise_cap(self, budget: Budget, *, by: str = "", why: str = "") -> None:
        """Raise the cap. The raise is an event like any other: it stays in the ledger and is effective from now on.

        Args:
            budget: The new cap, of the same kind as the old one; earlier spending counts towards it.
            by: Who raises it.
            why: Why it is raised.
        """
        check_kind(budget, Budget, "budget", LedgerError)
        check_words(by, "who raises the cap")
        check_words(why, "why the cap is raised")
        with self._store.writing() as connection:
            cap, budget = cap_of(connection, self._header), budget.counted_in(self.currency)
            if budget.currency != cap.currency:
                raise LedgerError(f"the cap {cap} cannot become {budget}: this ledger counts {self.currency}")
            if budget.amount <= cap.amount:
                raise LedgerError(f"a cap can only be raised: it is {cap}, got {budget}")
            append(
                connection,
                RAISED,
                entry=0,
                key=f"\tcap {len(raised_caps(connection)) + 1}",
                request=canonical({"cap": budget.to_dict(), "by": by, "why": why}),
                charged_at=datetime.now(UTC).isoformat(timespec="seconds"),
            )

    # Verification

    def verify(self, anchor: str | None = None) -> None:
        """Raise unless the file is complete, no event, plan or measurement was changed, and the sums are right.

        Args:
            anchor: An earlier value of ``anchor``: the ledger must continue from there.
        """
        if anchor is not None:
            check_anchor(self._store, self.id, anchor)
        verify(self._store, self._header)

    # Inside a transaction

    def _check_stages(self, connection: sqlite3.Connection, plan: Plan) -> None:
        """Raise unless the remaining budget pays for all stages of a plan."""
        factor = self._factor(admitted(connection, self._header), plan)
        costs = (self._header.price(each, factor) for each in plan.stage_budgets)
        self._check_cap(connection, sum(costs, Fraction(0)))

    def _check_cap(self, connection: sqlite3.Connection, cost: Fraction) -> None:
        budget, spent, currency = cap_of(connection, self._header), sum_spent(connection), self.currency
        cap = budget.amount
        if spent + cost <= cap:
            return
        stated = "" if budget.delta is None else f" ({budget})"
        left = f"only {_amount(cap - spent, currency)} is left" if spent < cap else "nothing is left"
        free = ". Earlier answers can still be used, for free" if spent else ""
        raise OverspendError(
            f"the cap of {_amount(cap, currency)}{stated} would be exceeded: {_amount(spent, currency)} is spent and"
            f" this costs {_amount(cost, currency)}; {left}{free}"
        )

    def _stored_lines(self, connection: sqlite3.Connection, key: str) -> list[Event]:
        """The events of the spend with this key; raises unless its measurements are stored."""
        check_key(key)
        lines = events(connection, "WHERE key = ?", (key,))
        if not lines:
            known = [event.key for event in events(connection, "WHERE kind = 'charged'")]
            raise LedgerError(f"{self._store} has no entry with the key {key!r}{did_you_mean(key, known)}")
        if len(lines) == 1:
            raise ChargeLostError(
                f"the key {key!r} was charged and nothing is stored: unless another process is drawing for it right"
                " now, the charge is lost and cannot be drawn again; use a new key"
            )
        return lines


def _as_path(given: object) -> Path:
    if not isinstance(given, str | os.PathLike):
        what = type(given).__name__
        raise LedgerError(f"the path of a ledger must be a text or a Path, got {what}; say the name of its file")
    return Path(given)


def _amount(amount: Fraction, currency: Currency) -> str:
    """An amount in decimal notation, rounded to six digits if it is long."""
    exact = decimal_text(amount)
    return f"{SIGNS[currency]} = {exact if len(exact) <= 12 else format(float(amount), '.6g')}"
