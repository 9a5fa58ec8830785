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
from crosstally.budget import MOST_EPSILON, Budget, Neighbours, decimal_text
from crosstally.cli.interrupts import before_charge
from crosstally.cli.options import (
    BudgetOptions,
    CheckFailedError,
    Force,
    Json,
    PlanOptions,
    Quiet,
    Relation,
    Rows,
    argument,
    check_output,
    check_reviewed,
    flag,
    option,
)
from crosstally.cli.output.screen import amount, facts, number_of, people, print_json, progress, progress_of_reading
from crosstally.cli.plan import failed, judged, show_verdicts
from crosstally.cli.source_options import ReadingOptions, SourceOptions, settled
from crosstally.errors import BudgetError, CrosstallyError, LedgerError, PlanError, SchemaError, SourceError
from crosstally.schema import Schema

if TYPE_CHECKING:
    from crosstally.releases.acceptance import Verdict
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
        option(
            "FILE",
            "The ledger that pays; it must exist. By default the one that the schema names, or that lies beside "
            "SOURCE and is about the schema.",
        ),
    ] = None
    new_ledger: Annotated[
        Path | None, option("FILE", "Open a new account on purpose, in this file, with this budget as its cap.")
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
    accept: Annotated[
        Path | None,
        option(
            "FILE",
            "Acceptance criteria (JSON): spend only if the forecast passes, and judge the release by its own draws. "
            "The exit code is 1 if it fails; it is written all the same.",
        ),
    ] = None
    yes_epsilon: Annotated[bool, flag("Spend an ε above 10 without being asked.", "--yes-epsilon")] = False


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
    _check_names(files)
    found = _rows(paths, files, database, reading)
    read = None if files.schema is None else _load_schema(files.schema)
    target = files.output or _beside(paths, ".release.parquet", "-o")
    check_output(target, force=force)
    if files.plan is not None:
        approved = _approved(files.plan, _fixed_by_plan(spend, neighbours, wanted))
        account, created = _account(paths, files, approved.schema if read is None else read)
    elif read is None:
        raise SchemaError("a release needs --schema, or --plan; make one with: crosstally schema draft FILE")
    else:
        budget = _questioned(spend.budget(), files)
        proposal = wanted.proposal(read, budget, neighbours, rows)
        account, created = _account(paths, files, read)
        with progress("planning", quiet=silent):
            currency = None if created else ct.Ledger.open(account).currency
            approved = compare(read, proposal, strategies=wanted.strategies(), currency=currency).chosen
    _check_forecast(approved, files.accept, rows, quiet=silent)
    key = f"release-{secrets.token_hex(4)}" if files.key is None else files.key
    with _paying(approved, account, created=created) as ledger:
        measure = partial(run, schema=read, rows=rows, ledger=ledger, key=key, work_dir=files.work_dir)

        def measured(reading: Reading) -> ct.Release:
            with progress_of_reading("counting", found, quiet=silent) as tell:
                return measure(found, approved, reading=reading, progress=tell)

        released = settled(measured, reading, quiet=silent)
        _save(released, target, ledger, key)
        verdicts = _verdicts(released, files.accept, quiet=silent)
        if json:
            _print_summary(released, ledger, target, key, verdicts)
        elif not quiet:
            _tell_summary(released, ledger, target, key, created=created)
    _tell_verdicts(verdicts, target, quiet=silent)


def _check_names(files: ReleaseOptions) -> None:
    """Raise where an option stands in the place of a ledger's file: it would name a new account."""
    for path in (files.ledger, files.new_ledger):
        if path is not None and path.name.startswith("-"):
            raise CrosstallyError(f"--ledger and --new-ledger need the name of a file, got {path}")


def _tell_verdicts(verdicts: tuple[Verdict, ...], target: Path, *, quiet: bool) -> None:
    if not verdicts:
        return
    if not quiet:
        show_verdicts(verdicts)
    if words := failed(verdicts):
        paid = f"{target} is written and paid for; its own draws do not pass: {words}"
        raise CheckFailedError(f"{paid}; a new attempt is a new charge")


def _check_forecast(planned: ct.Plan, accept: Path | None, rows: int | None, *, quiet: bool) -> None:
    """Raise before anything is spent unless the forecast passes all criteria."""
    if accept is None:
        return
    with progress("judging the plan", quiet=quiet):
        words = failed(judged(planned, accept, rows))
    if words:
        raise CheckFailedError(f"nothing was spent: the forecast does not pass: {words}")


def _verdicts(released: ct.Release, accept: Path | None, *, quiet: bool) -> tuple[Verdict, ...]:
    """What the release's own draws say; they gate nothing."""
    if accept is None:
        return ()
    from crosstally.releases.acceptance import Criteria, judge_release

    with progress("judging the release", quiet=quiet):
        return judge_release(released, Criteria.load(accept))


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
    if not (files.ledger or files.new_ledger) or files.output is None:
        missing = "-o" if files.output is None else "--ledger"
        raise CrosstallyError(f"parts have no name to go by: say {missing} FILE")
    return Parts(files.parts)


def _questioned(budget: Budget, files: ReleaseOptions) -> Budget:
    """The budget, unless it is one that hides little and nobody said that this is meant."""
    if budget.epsilon is not None and budget.epsilon > MOST_EPSILON and not files.yes_epsilon:
        raise BudgetError(
            f"{budget} hides little: above {MOST_EPSILON} somebody who suspects that a person is in the data can be "
            "practically sure of it. Which ε do you need? crosstally plan SCHEMA --target-error COUNT. If you mean it, "
            "say --yes-epsilon"
        )
    return budget


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


def _account(source: list[str], files: ReleaseOptions, schema: Schema) -> tuple[Path, bool]:
    """The ledger that pays, and whether it is to be opened.

    A named ledger must exist: a misspelt name would open a second account of the same people. Without a name it is the
    one that the schema names, or the one beside the source that is about this schema; a new one is opened only on
    purpose, or where there is none at all.
    """
    if files.ledger is not None and files.new_ledger is not None:
        raise LedgerError("a release is paid by one ledger: leave out --ledger or --new-ledger")
    if named := files.ledger or files.new_ledger:
        return named, files.ledger is None
    if schema.ledger is not None and files.schema is not None:
        return files.schema.parent / schema.ledger, False
    path = _beside(source, ".ledger", "--ledger FILE, or to open an account --new-ledger")
    known = _ledgers_beside(Path(source[0]))
    own = [each for each in known if _is_about(each, schema)]
    if len(own) == 1:
        return own[0], False
    if own or known:
        many = "are about this schema, and one account must pay" if own else "are about other schemas"
        names = ", ".join(repr(str(each)) for each in (own or known)[:3])
        raise LedgerError(
            f"beside the source lie ledgers that {many}: {names}; say which with --ledger, or open another account "
            f"with --new-ledger FILE"
        )
    return path, True


def _ledgers_beside(source: Path) -> list[Path]:
    """The ledgers in the folder of a source, and of the file that it is a link to; each once."""
    found = {each.resolve(): each for one in (source, source.resolve()) for each in sorted(one.parent.glob("*.ledger"))}
    return list(found.values())


def _is_about(path: Path, schema: Schema) -> bool:
    try:
        return ct.Ledger.open(path, read_only=True).holds(schema)
    except LedgerError:  # no ledger, or one that cannot be read: it does not pay, and none is opened beside it
        return False


def _standing(ledger: ct.Ledger, key: str) -> tuple[Fraction, Fraction, Budget]:
    """The cost of all stages of the release with this key, what is left of the cap, and the cap."""
    from crosstally.plans.request import cost_of_stages

    cap, entries = ledger.standing()
    cost = cost_of_stages(key, {entry.key: entry.cost for entry in entries})
    return cost, cap.amount - sum((entry.cost for entry in entries), Fraction(0)), cap


@contextlib.contextmanager
def _paying(plan: ct.Plan, path: Path, *, created: bool) -> Iterator[ct.Ledger]:
    """The ledger that pays; a new one is removed if nothing was spent."""
    if created:
        check_output(path, force=False)
        ledger = ct.Ledger.create(
            path, schema=plan.schema, budget=plan.budget, neighbours=plan.neighbours, before_charge=before_charge
        )
    else:
        ledger = ct.Ledger.open(path, before_charge=before_charge)
        from crosstally.cli.paid import check_not_behind

        check_not_behind(ledger)
    try:
        yield ledger
    finally:
        if created:
            ledger.remove_unused()


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


def _print_summary(
    released: ct.Release, ledger: ct.Ledger, target: Path, key: str, verdicts: tuple[Verdict, ...]
) -> None:
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
            "criteria": [each.to_dict() for each in verdicts],
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
