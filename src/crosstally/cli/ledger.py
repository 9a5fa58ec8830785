"""``crosstally ledger``: create, show, verify, export, raise, anchor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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

EXAMPLES = {
    "create": ("crosstally ledger create people.ledger --schema people.schema.json --epsilon 3",),
    "show": ("crosstally ledger show people.ledger",),
    "verify": (
        "crosstally ledger verify people.ledger",
        'crosstally ledger verify people.ledger --anchor "$(cat people.anchor)"',
    ),
    "export": ("crosstally ledger export people.ledger release-1f2e3d4c -o people.release.parquet",),
    "raise_": ("crosstally ledger raise people.ledger --epsilon 5",),
    "anchor": ("crosstally ledger anchor people.ledger > elsewhere/people.anchor",),
}

LedgerFile = Annotated[Path, argument("LEDGER", "A ledger file.")]


def create(
    ledger: Annotated[Path, argument("LEDGER", "The file to create.")],
    *,
    schema: Annotated[Path, option("FILE", "The reviewed schema of the table.")],
    budget: BudgetOptions,
    neighbours: Relation = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Create a ledger, with a cap on the privacy that may ever be spent on these people.

    Use one ledger for one group of people: a second ledger does not undo what was already spent.
    """
    read, relation = Schema.load(schema), neighbours or Neighbours.ADD_REMOVE
    created = ct.Ledger.create(ledger, schema=read, budget=budget.budget(), neighbours=relation)
    if json:
        _print(created)
        return
    screen = people(quiet=quiet)
    screen.say(f"Created {ledger}: at most {created.budget}, {created.neighbours.value}, for every release together.")
    screen.put(f"Next: crosstally release SOURCE --schema {schema} --epsilon 1 --ledger {ledger}")


def show(ledger: LedgerFile, *, json: Json = False) -> None:
    """Show what may be spent, what was spent, and on what."""
    from crosstally.privacy.ledger_records import State

    opened = ct.Ledger.open(ledger, read_only=True)
    if json:
        _print(opened)
        return
    screen, currency, entries = data(), opened.currency, opened.entries()
    unit = opened.schema.unit
    screen.put_table(
        facts(
            [
                ("attributes", joined(opened.schema.names)),
                ("protects", "one row" if unit is None else f"one {unit.id}, in {opened.schema.counted}"),
                ("neighbours", opened.neighbours.value),
                ("cap", str(opened.budget)),
                *((f"raised to {each.budget}", f"{each.when:%Y-%m-%d %H:%M} (UTC)") for each in opened.caps),
                ("spent", amount(opened.spent, currency)),
                ("remains", amount(opened.remaining, currency)),
            ]
        )
    )
    if not entries:
        return
    table = grid("entry", "when (UTC)", "key", "strategy", "state", "cost", left=5)
    for entry in entries:
        when, cost = f"{entry.when:%Y-%m-%d %H:%M}", amount(entry.cost, currency)
        table.add_row(str(entry.number), when, printable(entry.key), printable(entry.strategy), entry.state, cost)
    screen.print()
    screen.put_table(table)
    waiting = [entry for entry in entries if entry.state is State.STORED and not entry.is_asked]
    if waiting:
        screen.print()
        screen.say(f"Paid for and not delivered: crosstally ledger export {ledger} {printable(waiting[0].key)} -o FILE")


def verify(
    ledger: LedgerFile,
    *,
    anchor: Annotated[
        str | None,
        option("TEXT", "What `ledger anchor` printed earlier: detects a ledger that was replaced by an older copy."),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check that the file is complete and unchanged.

    The exit code is 1 if it is not.
    """
    if not ledger.is_file():
        raise LedgerError(f"there is no ledger {str(ledger)!r}")
    try:
        opened = ct.Ledger.open(ledger, read_only=True)
        opened.verify(anchor)
    except LedgerError as error:
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
        neighbours=opened.neighbours,
        unit=opened.schema.unit,
        rows=rows,
        entry=measurements[0].origin,
        plan=entries[keys[0]].request,
        rows_are_units=rows_are_units,
    )
    publish(opened.schema, measurements, statement).save(output)
    for each in keys:
        opened.delivered(each)
    tables = number_of(len(measurements), "table", "tables")
    people(quiet=quiet).say(f"Written {output}: {tables} of {key}; nothing spent.")


def raise_(
    ledger: LedgerFile,
    *,
    budget: BudgetOptions,
    quiet: Quiet = False,
) -> None:
    """Raise the cap. This weakens the promise to everybody in the data, and the ledger keeps a record of it."""
    opened = ct.Ledger.open(ledger)
    before = opened.budget
    opened.raise_cap(budget.budget())
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
            "raised": [{"cap": each.budget.to_dict(), "when": each.when.isoformat()} for each in ledger.caps],
            "currency": ledger.currency,
            "spent": decimal_text(ledger.spent),
            "remaining": decimal_text(ledger.remaining),
            "entries": [
                {
                    "entry": entry.number,
                    "key": entry.key,
                    "strategy": entry.strategy,
                    "state": entry.state.value,
                    "cost": decimal_text(entry.cost),
                    "when": entry.when.isoformat(),
                }
                for entry in ledger.entries()
            ],
            "schema": ledger.schema.to_dict(),
        }
    )
