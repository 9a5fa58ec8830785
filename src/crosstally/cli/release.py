"""``crosstally release``: spend a budget, write a release file."""

from __future__ import annotations

import contextlib
import secrets
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import crosstally as ct
from crosstally.budget import Budget, Neighbours, decimal_text
from crosstally.cli.interrupts import before_charge
from crosstally.cli.options import (
    BudgetOptions,
    Force,
    Json,
    PlanOptions,
    Quiet,
    Relation,
    Rows,
    argument,
    check_output,
    check_reviewed,
    option,
)
from crosstally.cli.output.screen import amount, facts, number_of, people, print_json, progress, progress_of_reading
from crosstally.cli.source_options import ReadingOptions, SourceOptions, settled
from crosstally.errors import CrosstallyError, LedgerError, PlanError, SchemaError, SourceError
from crosstally.schema import Schema

if TYPE_CHECKING:
    from crosstally.sources import Reading


EXAMPLES = (
    "crosstally release people.csv --schema people.schema.json --epsilon 1",
    "crosstally release people.csv --schema people.schema.json --epsilon 1 --ways 3 --ledger all.ledger",
    "crosstally release 'parts/*.csv' --plan people.plan.json --ledger people.ledger -o people.parquet",
    "crosstally release --dsn-env DSN --query 'SELECT * FROM people' --plan p.plan.json --ledger p.ledger -o p.parquet",
    "crosstally release --spark warehouse.people --plan p.plan.json --ledger p.ledger -o p.parquet",
    "crosstally release --parts 'part-*.counts' --plan p.plan.json --ledger p.ledger -o p.parquet",
)
_COMPRESSED = (".gz", ".bz2", ".zst", ".xz", ".lz4")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOptions:
    """The files that a release reads and writes."""

    schema: Annotated[
        Path | None, option("FILE", "The reviewed schema; with --plan, only to say how to read the source.")
    ] = None
    plan: Annotated[
        Path | None, option("FILE", "An approved plan to run exactly, instead of options for budget and tables.")
    ] = None
    ledger: Annotated[
        Path | None,
        option("FILE", "The ledger that pays; it must exist. By default SOURCE.ledger, created if need be."),
    ] = None
    key: Annotated[
        str | None, option("TEXT", "A name for this spend. Repeating a name repeats the numbers and costs nothing.")
    ] = None
    output: Annotated[
        Path | None, option("FILE", "The release file; by default beside the source.", "--output", "-o")
    ] = None
    parts: Annotated[
        list[str] | None, option("GLOB", "Instead of SOURCE: all files that `crosstally part` wrote for --plan.")
    ] = None
    work_dir: Annotated[
        Path | None, option("FOLDER", "The folder for the encoded rows while a plan in stages runs.")
    ] = None


def release(
    source: Annotated[
        list[str] | None, argument("SOURCE", "Files, a folder or a glob: CSV, Parquet, Excel, SPSS ...")
    ] = None,
    *,
    files: ReleaseOptions,
    spend: BudgetOptions,
    neighbours: Relation = None,
    rows: Rows = None,
    wanted: PlanOptions,
    written: ReadingOptions,
    database: SourceOptions,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Spend a budget on a private table and write a release, from which anyone can read any table.

    The command checks everything that can fail before it spends anything.
    """
    from crosstally.pipeline import run
    from crosstally.strategies.planner import compare

    paths, reading, silent = source or [], written.reading(), quiet or json
    found = _rows(paths, files, database, reading)
    read = None if files.schema is None else _load_schema(files.schema)
    target = files.output or _beside(paths, ".release.parquet", "-o")
    check_output(target, force=force)
    if files.plan is not None:
        approved = _approved(files.plan, _fixed_by_plan(spend, neighbours, wanted))
    elif read is None:
        raise SchemaError("a release needs --schema, or --plan; make one with: crosstally schema draft FILE")
    else:
        proposal = wanted.proposal(read, spend.budget(), neighbours, rows)
        with progress("planning", quiet=silent):
            currency = _currency(files.ledger, paths)
            approved = compare(read, proposal, strategies=wanted.strategies(), currency=currency).chosen
    key = f"release-{secrets.token_hex(4)}" if files.key is None else files.key
    with _paying(approved, paths, files.ledger) as (ledger, created):
        measure = partial(run, schema=read, rows=rows, ledger=ledger, key=key, work_dir=files.work_dir)

        def measured(reading: Reading) -> ct.Release:
            with progress_of_reading("counting", found, quiet=silent) as tell:
                return measure(found, approved, reading=reading, progress=tell)

        released = settled(measured, reading, quiet=silent)
        _save(released, target, ledger, key)
        if json:
            _print_summary(released, ledger, target, key)
        elif not quiet:
            _tell_summary(released, ledger, target, key, created=created)


# What to measure


def _rows(paths: list[str], files: ReleaseOptions, database: SourceOptions, reading: Reading) -> Any:
    """Where the rows are, or the parts in which they were counted."""
    if not files.parts:
        return database.source(paths)
    from crosstally.sources import Parts

    if paths or database.named:
        raise SourceError("rows come from a source or were counted in parts: leave out the source, or --parts")
    if files.plan is None:
        raise PlanError("parts are counted for one plan: say it with --plan FILE")
    if files.schema is not None or reading.to_dict():
        raise SourceError("parts were read when they were counted: leave out --schema and how the source is written")
    if files.ledger is None or files.output is None:
        missing = "--ledger" if files.ledger is None else "-o"
        raise CrosstallyError(f"parts have no name to go by: say {missing} FILE")
    return Parts(files.parts)


def _fixed_by_plan(spend: BudgetOptions, neighbours: Neighbours | None, wanted: PlanOptions) -> list[str]:
    """The given options that conflict with a plan file."""
    given = {**asdict(spend), "neighbours": neighbours, **asdict(wanted)}
    return [f"--{name.replace('_', '-')}" for name, value in given.items() if value not in (None, [], False)]


def _approved(path: Path, given: list[str]) -> ct.Plan:
    if given:
        raise PlanError(f"a plan fixes budget, tables and strategy: leave out {', '.join(given)}, or --plan")
    planned = ct.Plan.load(path)
    check_reviewed(planned.schema, path)
    return planned


def _load_schema(path: Path) -> Schema:
    read = Schema.load(path)
    check_reviewed(read, path)
    return read


# The ledger


def _currency(given: Path | None, source: list[str]) -> str | None:
    """The currency of the ledger that will pay; None if it is new."""
    path = given or _default_ledger(source)
    return ct.Ledger.open(path).currency if given or path.exists() else None


def _standing(ledger: ct.Ledger, key: str) -> tuple[Fraction, Fraction, Budget]:
    """The cost of all stages of the release with this key, what is left of the cap, and the cap."""
    from crosstally.plans.request import cost_of_stages

    cap, entries = ledger.standing()
    cost = cost_of_stages(key, {entry.key: entry.cost for entry in entries})
    return cost, cap.amount - sum((entry.cost for entry in entries), Fraction(0)), cap


@contextlib.contextmanager
def _paying(plan: ct.Plan, source: list[str], given: Path | None) -> Iterator[tuple[ct.Ledger, bool]]:
    """The given ledger, or the one beside the source, and whether it is new; a new one is removed if nothing was spent.

    A named ledger must exist: a misspelt name would create a second cap for the same people.
    """
    path = given or _default_ledger(source)
    created = given is None and not path.exists()
    if created:
        check_output(path, force=False)
        ledger = ct.Ledger.create(
            path, schema=plan.schema, budget=plan.budget, neighbours=plan.neighbours, before_charge=before_charge
        )
    else:
        ledger = ct.Ledger.open(path, before_charge=before_charge)
    try:
        yield ledger, created
    finally:
        if created:
            ledger.remove_unused()


def _default_ledger(source: list[str]) -> Path:
    """The ledger beside the source. A link uses the ledger of its target, since the people are the same."""
    beside = _beside(source, ".ledger", "--ledger")
    if not Path(source[0]).is_symlink():
        return beside
    path = _beside([str(Path(source[0]).resolve())], ".ledger", "--ledger")
    if beside.exists() and not (path.exists() and path.samefile(beside)):
        raise LedgerError(
            f"{source[0]!r} is a link and has the ledger of its target, {str(path)!r}, but {str(beside)!r} lies beside "
            "the link: say which with --ledger"
        )
    return path


def _beside(source: list[str], ending: str, option: str) -> Path:
    """The file beside the source: people.csv gives people.ledger in the same folder."""
    if not source:
        raise CrosstallyError(f"a query or a Spark table has no name to go by: say {option} FILE")
    if len(source) > 1 or has_magic(source[0]) or Path(source[0]).is_dir():
        raise CrosstallyError(f"several files have no one name to go by: say {option} FILE")
    path = Path(source[0])
    name = Path(path.stem) if path.suffix in _COMPRESSED else path
    return path.with_name(name.stem + ending)


# Spend and save


def _save(released: ct.Release, target: Path, ledger: ct.Ledger, key: str) -> None:
    """Write the file; if that fails, say how to write it again without paying again."""
    try:
        released.save(target)
    except (OSError, CrosstallyError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        paid, *_ = _standing(ledger, key)
        again = f"; it is paid for: crosstally ledger export {ledger.path} {key} -o FILE" if paid else ""
        raise CrosstallyError(f"cannot write {str(target)!r}: {reason}{again}") from None


def _print_summary(released: ct.Release, ledger: ct.Ledger, target: Path, key: str) -> None:
    from crosstally.releases.publication import rows_in_doubt

    cost, remaining, _ = _standing(ledger, key)
    doubt = rows_in_doubt(released)
    print_json(
        {
            "release": str(target),
            "ledger": str(ledger.path) if cost else None,
            "key": key if cost else None,
            "currency": ledger.currency,
            "cost": decimal_text(cost),
            "remaining": decimal_text(remaining),
            "tables": len(released.measurements),
            "cells": sum(each.values.size for each in released.measurements),
            "counted": released.schema.counted,
            "statement": released.statement.to_dict(),
            **({} if doubt is None else {"warning": doubt}),
        }
    )


def _tell_summary(released: ct.Release, ledger: ct.Ledger, target: Path, key: str, *, created: bool) -> None:
    from crosstally.releases.publication import rows_in_doubt
    from crosstally.releases.statement import caveats

    tables = number_of(len(released.measurements), "table", "tables")
    counts = number_of(sum(each.values.size for each in released.measurements), "count", "counts")
    words = released.schema.bounded_words
    counts += f" of {words}" if words else ""
    lines = [("measured", f"{tables} ({counts}) with the {released.statement.strategy} strategy")]
    cost, remaining, cap = _standing(ledger, key)
    if cost:
        currency = ledger.currency
        lines.append(("cost", f"{amount(cost, currency)}, recorded as {key}; {amount(remaining, currency)} remains"))
        new = f" (new; its cap is what was just spent, {cap})" if created else ""
        lines.append(("ledger", f"{ledger.path}{new}"))
    else:
        lines.append(("cost", "nothing: no row was read"))
    names = " ".join(f"'{name}'" if " " in name else name for name in released.schema.names[:2])
    lines += [("written", str(target)), ("next", f"crosstally table {target} {names}")]
    screen = people()
    screen.put_table(facts(lines))
    if cost and created:
        screen.say(
            "Nothing more can be spent on these rows. To leave room, create the ledger first, with a higher cap: "
            "crosstally ledger create; or raise it: crosstally ledger raise.",
            style="dim",
        )
    for sentence in (*released.unit_words, *caveats(released.schema)):
        screen.say(sentence)
    if doubt := rows_in_doubt(released):
        again = shlex.join(["crosstally", "ledger", "export", str(ledger.path), key, "-o", "FILE"])
        fact = released.schema.public_rows is not None
        remedy = "correct the facts of the schema" if fact else f"write them again without it, free: {again}"
        screen.say(f"Warning: {doubt}. If it is wrong, {remedy}")
