"""``crosstally ledger``: create, show, verify, export, raise, anchor."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import crosstally as ct
from crosstally.budget import Neighbours, decimal_text
from crosstally.cli.options import (
    BudgetOptions,
    CheckFailedError,
    Force,
    Json,
    Quiet,
    Relation,
    Rows,
    argument,
    check_output,
    flag,
    option,
)
from crosstally.cli.output.screen import amount, data, facts, grid, joined, number_of, people, print_json, printable
from crosstally.errors import LedgerError
from crosstally.schema import Schema

if TYPE_CHECKING:
    from crosstally.privacy.ledger_records import Admitted, Entry, RaisedCap

EXAMPLES = {
    "create": ("crosstally ledger create people.ledger --schema people.schema.json --epsilon 3",),
    "admit": (
        "crosstally ledger admit people.ledger --schema people-2027.schema.json --at-most 1",
        "crosstally ledger admit patients.ledger --schema visits.schema.json --at-most 5",
    ),
    "show": ("crosstally ledger show people.ledger",),
    "verify": (
        "crosstally ledger verify people.ledger",
        'crosstally ledger verify people.ledger --anchor "$(cat people.anchor)"',
        "crosstally ledger verify people.ledger --release people.release.parquet",
    ),
    "export": ("crosstally ledger export people.ledger release-1f2e3d4c -o people.release.parquet",),
    "raise_": ("crosstally ledger raise people.ledger --epsilon 5",),
    "anchor": ("crosstally ledger anchor people.ledger > elsewhere/people.anchor",),
}

LedgerFile = Annotated[Path, argument("LEDGER", "A ledger file.")]


def create(
    ledger: Annotated[Path, argument("LEDGER", "The file to create.")],
    *,
    schema: Annotated[Path, option("FILE", "The reviewed schema of the first table.")],
    budget: BudgetOptions,
    neighbours: Relation = None,
    named: Annotated[str, option("TEXT", "Whose account it is: 'patients of the hospital group'.", "--people")] = "",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Create a ledger, with a cap on the privacy that may ever be spent on these people.

    Use one ledger for one group of people, whatever tables there are about them: a second ledger does not undo what was
    already spent.
    """
    read, relation = Schema.load(schema), neighbours or Neighbours.ADD_REMOVE
    created = ct.Ledger.create(ledger, schema=read, budget=budget.budget(), neighbours=relation, people=named)
    if json:
        _print(created)
        return
    screen = people(quiet=quiet)
    screen.say(f"Created {ledger}: at most {created.budget}, {created.neighbours.value}, for every release together.")
    delta = created.budget.to_dict().get("delta")
    given = "--epsilon 1" if delta is None else f"--epsilon 1 --delta {delta}"
    screen.put(f"Next: crosstally release SOURCE --schema {schema} {given} --ledger {ledger}")


def _as_epsilon(ledger: ct.Ledger) -> str:
    """What was spent as an epsilon at the delta of the cap, where there is one."""
    if ledger.budget.delta is None or not ledger.spent:
        return ""
    from crosstally.privacy.accounting import implied

    spent = ct.Budget.from_dict({ledger.currency: ledger.spent})
    return f" (ε = {implied(spent, ledger.budget.delta):.4g}, δ = {decimal_text(ledger.budget.delta)})"


def admit(
    ledger: LedgerFile,
    *,
    schema: Annotated[Path, option("FILE", "The reviewed schema of another table about the same people.")],
    at_most: Annotated[
        int | None,
        option(
            "K",
            "You assert that one person is at most K of its rows or units (1: one row for each). Spends on it cost K "
            "times their epsilon, or K squared times their rho or mu^2.",
            min=1,
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Let a ledger pay for another table about the same people. A schema with the ledger's own unit needs no --at-most.

    Spends on all of its tables add up to the cap.
    """
    opened, read = ct.Ledger.open(ledger), Schema.load(schema)
    opened.admit(read, at_most=at_most)
    people(quiet=quiet).say(f"{ledger} pays for {schema} too, {_each(opened.schemas[-1])}. This is on record.")


def _each(held: Admitted) -> str:
    """How the people of an account are in a table of it."""
    unit = held.schema.unit
    if not held.asserted:
        return "one row for each" if unit is None else unit.rows_words
    what = ("row" if held.times == 1 else "rows") if unit is None else unit.id
    return f"at most {held.times:,} {what} for each person, as was asserted"


def show(ledger: LedgerFile, *, json: Json = False) -> None:
    """Show what may be spent, what was spent, and on what."""
    from crosstally.privacy.ledger_records import State

    opened = ct.Ledger.open(ledger, read_only=True)
    if json:
        _print(opened)
        return
    screen, currency, entries = data(), opened.currency, opened.entries()
    unit, known = opened.schema.unit, opened.schemas
    left = float(opened.remaining / opened.budget.amount)
    screen.put_table(
        facts(
            [
                *([("people", printable(opened.people))] if opened.people else []),
                *((_table_name(number, known), f"{joined(each.schema.names)}") for number, each in enumerate(known)),
                ("protects", "one row" if unit is None else f"one {unit.id}, in {opened.schema.counted}"),
                *((f"in {_table_name(number, known)}", _each(each)) for number, each in enumerate(known) if number),
                ("neighbours", opened.neighbours.value),
                ("cap", str(opened.budget)),
                *((f"raised to {each.budget}", _raised(each)) for each in opened.caps),
                ("spent", f"{amount(opened.spent, currency)}{_as_epsilon(opened)}"),
                ("remains", f"{amount(opened.remaining, currency)}  {_bar(left)}"),
            ]
        )
    )
    for number in range(len(known)):
        own = [entry for entry in entries if entry.schema == number]
        if not own:
            continue
        screen.print()
        if len(known) > 1:
            spent = amount(sum((each.cost for each in own), Fraction(0)), currency)
            screen.say(f"{_table_name(number, known)}: {spent}, {_years(own)}", style="bold")
        table = grid("entry", "when (UTC)", "key", "strategy", "state", "cost", left=5)
        for entry in own:
            when, cost = f"{entry.when:%Y-%m-%d %H:%M}", amount(entry.cost, currency)
            table.add_row(str(entry.number), when, printable(entry.key), printable(entry.strategy), entry.state, cost)
        screen.put_table(table)
    waiting = [entry for entry in entries if entry.state is State.STORED and not entry.is_asked]
    if waiting:
        screen.print()
        screen.say(f"Paid for and not delivered: crosstally ledger export {ledger} {printable(waiting[0].key)} -o FILE")


_BAR = 30  # characters


def _bar(left: float) -> str:
    """What is left of the cap, drawn."""
    full = round(_BAR * left)
    return "█" * full + "░" * (_BAR - full)


def _table_name(number: int, known: Sequence[Admitted]) -> str:
    return "attributes" if len(known) == 1 else f"table {number + 1}"


def _years(entries: Sequence[Entry]) -> str:
    years = sorted({entry.when.year for entry in entries})
    return str(years[0]) if len(years) == 1 else f"{years[0]} to {years[-1]}"


def _raised(cap: RaisedCap) -> str:
    by = f" by {printable(cap.by)}" if cap.by else ""
    why = f": {printable(cap.why)}" if cap.why else ""
    return f"{cap.when:%Y-%m-%d %H:%M} (UTC){by}{why}"


def verify(
    ledger: LedgerFile,
    *,
    anchor: Annotated[
        str | None,
        option("TEXT", "What `ledger anchor` printed earlier: detects a ledger that was replaced by an older copy."),
    ] = None,
    release: Annotated[
        list[Path] | None,
        option("FILE", "A release that it paid for: plan, cost and numbers must agree. May be repeated."),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check that the file is complete and unchanged, and as new as the releases that it paid for.

    The exit code is 1 if it is not.
    """
    from crosstally.cli.paid import check_paid

    if not ledger.is_file():
        raise LedgerError(f"there is no ledger {str(ledger)!r}")
    try:
        opened = ct.Ledger.open(ledger, read_only=True)
        opened.verify(anchor)
        for each in release or []:
            check_paid(ct.open_release(each), opened)
    except (LedgerError, CheckFailedError) as error:
        if json:
            print_json({"ledger": str(ledger), "sound": False, "reason": str(error)})
        raise CheckFailedError(str(error)) from None
    entries = len(opened.entries())
    if json:
        print_json({"ledger": str(ledger), "sound": True, "entries": entries})
    else:
        people(quiet=quiet).say(f"{ledger} is sound: {number_of(entries, 'entry', 'entries')}, nothing was changed.")


def export(
    ledger: LedgerFile,
    key: Annotated[str, argument("KEY", "The name of a spend, as `ledger show` lists it.")],
    *,
    output: Annotated[Path, option("FILE", "The release file to write.", "--output", "-o")],
    rows: Rows = None,
    rows_are_units: Annotated[
        bool,
        flag("Repeat this assertion if the release was made with it; the ledger does not keep it.", "--rows-are-units"),
    ] = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write the release of an earlier spend again, from the numbers that the ledger keeps. Free."""
    from crosstally.plans.plan import spent_by
    from crosstally.plans.request import stage_keys
    from crosstally.releases import Statement, publish

    opened = ct.Ledger.open(ledger, read_only=True)
    check_output(output, force=force)
    entries = {each.key: each for each in opened.entries()}
    if key in entries and entries[key].is_asked:
        raise LedgerError(
            f"{key!r} paid for an answer, not for a release: repeat the question with crosstally ask --key {key}, "
            "which costs nothing"
        )
    keys = stage_keys(key, entries) or (key,)
    bought = [opened.export(each) for each in keys]
    plans, measurements = [plan for plan, _ in bought], [each for _, stage in bought for each in stage]
    statement = Statement(
        strategy=plans[0].strategy,
        budget=spent_by(plans),
        neighbours=plans[0].neighbours,
        unit=plans[0].schema.unit,
        rows=rows,
        entry=measurements[0].origin,
        plan=entries[keys[0]].request,
        rows_are_units=rows_are_units,
    )
    publish(plans[0].schema, measurements, statement).save(output)
    for each in keys:
        opened.delivered(each)
    tables = number_of(len(measurements), "table", "tables")
    people(quiet=quiet).say(f"Written {output}: {tables} of {key}; nothing spent.")


def raise_(
    ledger: LedgerFile,
    *,
    budget: BudgetOptions,
    by: Annotated[str, option("TEXT", "Who raises it; recorded.")] = "",
    why: Annotated[str, option("TEXT", "Why; recorded.")] = "",
    quiet: Quiet = False,
) -> None:
    """Raise the cap. This weakens the promise to everybody in the data, and the ledger keeps a record of it."""
    opened = ct.Ledger.open(ledger)
    before = opened.budget
    opened.raise_cap(budget.budget(), by=by, why=why)
    left = amount(opened.remaining, opened.currency)
    people(quiet=quiet).say(
        f"The cap of {ledger} is {opened.budget} from now on; it was {before}. {left} remains. The raise is on record."
    )


def anchor(ledger: LedgerFile) -> None:
    """Print the last hash. Keep it elsewhere: with it, `ledger verify --anchor` detects an older copy."""
    data().print(ct.Ledger.open(ledger, read_only=True).anchor)


def _print(ledger: ct.Ledger) -> None:
    print_json(
        {
            "ledger": str(ledger.path),
            "id": ledger.id,
            "neighbours": ledger.neighbours.value,
            "cap": ledger.budget.to_dict(),
            "people": ledger.people,
            "raised": [
                {"cap": each.budget.to_dict(), "when": each.when.isoformat(), "by": each.by, "why": each.why}
                for each in ledger.caps
            ],
            "currency": ledger.currency,
            "spent": decimal_text(ledger.spent),
            "remaining": decimal_text(ledger.remaining),
            "entries": [
                {
                    "entry": entry.number,
                    "schema": entry.schema,
                    "key": entry.key,
                    "strategy": entry.strategy,
                    "state": entry.state.value,
                    "cost": decimal_text(entry.cost),
                    "when": entry.when.isoformat(),
                }
                for entry in ledger.entries()
            ],
            "schemas": [
                {"schema": each.schema.to_dict(), "at_most": each.times, "asserted": each.asserted}
                for each in ledger.schemas
            ],
        }
    )
