"""``crosstally schema``: draft and check."""

from __future__ import annotations

import json as json_text
import math
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from crosstally.budget import Budget
from crosstally.cli.options import CheckFailedError, Force, Json, Output, Quiet, argument, check_output, option
from crosstally.cli.output.screen import (
    Screen,
    data,
    facts,
    grid,
    joined,
    kept_together,
    number_of,
    people,
    print_json,
    printable,
    progress,
    significant,
)
from crosstally.cli.source_options import ReadingOptions, Source, SourceOptions, settled, source_and_schema
from crosstally.errors import BudgetError, SourceError
from crosstally.platform_files import writing
from crosstally.schema import Schema

if TYPE_CHECKING:
    from crosstally.sources import ColumnReport, Draft, DraftedColumn, Reading, Report
    from crosstally.sources.detection import Detected


EXAMPLES = {
    "draft": (
        "crosstally schema draft people.csv -o people.schema.json",
        "crosstally schema draft people.csv --epsilon 0.1 --ledger draft.ledger -o people.schema.json",
    ),
    "check": ("crosstally schema check people.csv people.schema.json",),
}

_MOST_SHOWN = 8  # values listed for an attribute: more do not fit a line


def draft(
    source: Source = None,
    *,
    output: Output = None,
    max_values: Annotated[int, option("N", "Leave out columns that have more labels than this.", min=2)] = 100,
    epsilon: Annotated[
        str | None,
        option("NUMBER", "Choose the edges of bins by noisy counts that cost this ε, not by the exact data."),
    ] = None,
    ledger: Annotated[Path | None, option("FILE", "With --epsilon: the new ledger, which records the cost.")] = None,
    written: ReadingOptions,
    database: SourceOptions,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Draft a schema from a table, for a steward to review.

    Its labels come from the private data and would become public. Only you can read the file that -o
    writes (mode 600). No release accepts it until someone has reviewed it and removed its mark
    as a draft.
    """
    from crosstally.sources import draft as draft_schema
    from crosstally.sources.detection import detect_reading

    rows = database.source([source] if source else [])
    if source:
        _check_no_release(Path(source))
    if output is not None:
        check_output(output, force=force)
    payment = _payment(epsilon, ledger, output)

    def seen(reading: Reading) -> Detected:
        with progress("looking", quiet=quiet):
            return detect_reading(rows, reading=reading)

    detected = settled(seen, written.reading(), quiet=quiet)
    screen = people(quiet=quiet)
    if source:
        _tell_reading(screen, detected)
    with progress("reading", quiet=quiet):
        found = draft_schema(rows, max_values=max_values, reading=detected.reading)
        if payment is not None:
            from crosstally.cli.draft_edges import with_bought_edges

            found = with_bought_edges(found, rows, payment[0], ledger=payment[1], reading=detected.reading)
    _tell(found, screen)
    _deliver(found, payment, output, screen)
    where = [*([source] if source else []), *database.words(), str(output or "people.schema.json")]
    screen.put(f"Next: {shlex.join(['crosstally', 'schema', 'check', *where])}")


def _deliver(found: Draft, payment: tuple[Budget, Path] | None, output: Path | None, screen: Screen) -> None:
    """Write the schema to a file or to stdout, and print its cost and the next steps."""
    from crosstally.cli.output.encoding import write_json_text

    if payment is not None and found.schema.bought is not None:
        screen.say(
            f"Bought the bins of {joined(found.schema.bought.attributes)} for {payment[0]}, recorded in {payment[1]}. "
            "It comes on top of what releases of these people cost, and their statements say so."
        )
    if output is None:
        write_json_text(found.schema.file_text())
    else:
        with writing(output):
            found.schema.save(output)
        screen.say(
            f"Written {output}: {number_of(len(found.schema.names), 'attribute', 'attributes')}, "
            "a draft that only the steward should see; "
            "no other user of this machine may read it."
        )
    screen.say(
        "Review it, in an editor or with crosstally schema review: labels become public. Remove what is not publicly "
        'known, then the line "draft": true.'
    )


def _check_no_release(path: Path) -> None:
    """Raise if the source is a release, according to the metadata of the Parquet file."""
    if path.suffix.lower() != ".parquet" or not path.is_file():
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    from crosstally.releases.file.header import HEADER_KEY

    try:
        metadata = pq.read_metadata(path).metadata or {}
    except (pa.ArrowException, OSError, ValueError):
        return  # the reader of rows explains what is wrong with the file
    if HEADER_KEY in metadata:
        command = shlex.join(["crosstally", "table", str(path)])
        raise SourceError(f"{str(path)!r} is a release, which has noisy tables and no rows: read them with {command}")


def _payment(epsilon: str | None, ledger: Path | None, output: Path | None) -> tuple[Budget, Path] | None:
    """The budget for the bins and its ledger; None if bins are not paid for."""
    if epsilon is None:
        if ledger is not None:
            raise BudgetError("--ledger records what bins cost: give --epsilon, or leave it out")
        return None
    budget = Budget(epsilon=epsilon)
    if ledger is None or output is None:
        raise BudgetError("--epsilon buys bins, once: say -o FILE for the schema and --ledger FILE for the spend")
    check_output(ledger, force=False)
    return budget, ledger


def _tell_reading(screen: Screen, detected: Detected) -> None:
    """Print how the source seems to be written. Values of its rows are shown on a terminal only, never in a log."""
    screen.say(f"{detected}.")
    if detected.guessed:
        shown = f": {joined(detected.samples)}" if screen.file.isatty() and detected.samples else ""
        screen.say(f"{detected.encoding} is a guess{shown}. If letters are wrong, say --encoding.")


def _tell(found: Draft, screen: Screen) -> None:
    """Tell the steward what was found: rows of each label, rare labels, remarks, and columns left out."""
    from crosstally.sources.inspection import losses_of_bounds

    screen.say("Confidential: numbers of rows, for the steward only.", style="bold")
    for column in found.columns:
        screen.say(f"{printable(column.attribute.name)}  {_frequencies(column)}", hang=4)
        for remark in (*map(printable, column.remarks), *_rare(column)):
            screen.say(remark, indent=4, hang=2)
    if found.schema.unit is not None and found.units is not None:
        unit, rows = found.schema.unit, found.units
        (loss,) = losses_of_bounds(rows.each, [unit.max_rows])
        screen.say(
            f"unit  {printable(unit.id)}: {len(rows.each):,} of them have {loss.kept + loss.lost:,} rows; half have at "
            f"most {rows.median:,}, the most {rows.most:,}. At most {unit.max_rows:,} of each are counted, and "
            f"{loss.lost:,} rows ({loss.share:.1%}) left out: the least sum of that and of noise at ε = 1 in a cell. "
            'The bound follows the data, which epsilon does not cover ("from": "data").'
        )
        screen.say(_counted_once(unit.id))
        screen.say('Say what a row is and whom the unit protects: "about": {"rows": "visits", "units": "patients"}.')
    else:
        screen.say(_may_repeat(found.ids))
    for name, reason in found.left_out:
        screen.say(f"left out  {printable(name)}: {reason}", hang=4)


def _counted_once(column: str) -> str:
    """That units may count instead of rows."""
    once = json_text.dumps({"unit": {"id": column, "divided": True}})[1:-1]
    return (
        f"Where they are what matters and not their rows, {printable(once)} counts each of them once, divided over its "
        "rows, with the noise of a bound of 1, and leaves no row out."
    )


def _may_repeat(ids: Mapping[str, bool]) -> str:
    """The question whether a person may have several rows, which a draft without a unit cannot rule out."""
    again, once = ([name for name, repeats in ids.items() if repeats is each] for each in (True, False))
    alone = f" Nobody has, if {joined(once)} (different in every row) is a person's." if once else ""
    named = f" It may be {joined(again)}." if again else ""
    return (
        f"May a person have several rows?{alone} This draft protects one row; if they may, name the column that "
        f'identifies people: "unit": {{"id": COLUMN, "max_rows": 3}}.{named}'
    )


def _frequencies(column: DraftedColumn) -> str:

    if not column.frequencies:
        return f"{number_of(column.attribute.size, 'cell', 'cells')}, whose rows are not counted one by one"
    shown = sorted(column.frequencies, key=lambda pair: -pair[1])[:_MOST_SHOWN]
    more = len(column.frequencies) - len(shown)
    return ", ".join([_label_and_rows(*each) for each in shown] + [f"{more:,} more"] * bool(more))


def _rare(column: DraftedColumn) -> list[str]:
    """The labels that few rows have: a label of one person reveals that this person is in the data."""
    from crosstally.sources.inspection import FEW_ROWS

    rare = column.rare(FEW_ROWS)
    if not rare:
        return []
    shown = ", ".join(_label_and_rows(*each) for each in rare[:_MOST_SHOWN])
    more = f", {len(rare) - _MOST_SHOWN} more" if len(rare) > _MOST_SHOWN else ""
    return [f"fewer than {FEW_ROWS} rows: {shown}{more}; merge them, or keep only what is publicly known"]


def _label_and_rows(label: str, rows: int) -> str:
    """A label and its number, kept on one line."""
    return kept_together(f"{printable(label)} {rows:,}")


def check(
    source: Source = None,
    schema: Annotated[
        Path | None, argument("SCHEMA", "The schema to check the source against.", show_default=False)
    ] = None,
    *,
    written: ReadingOptions,
    database: SourceOptions,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check how a table fits a schema. The report is confidential: it is for the steward's own terminal.

    The exit code is 1 when a release would refuse the table.
    """
    from crosstally.sources import check as check_rows
    from crosstally.sources.detection import describe_reading

    rows, path = source_and_schema("check", source, schema, database)
    read = Schema.load(path)

    def checked(reading: Reading) -> tuple[Report, Reading]:
        with progress("reading", quiet=quiet or json):
            return check_rows(rows, read, reading=reading), reading

    report, reading = settled(checked, written.reading(), quiet=quiet or json)
    if json:
        print_json({"confidential": True, "ok": report.ok, "kept": report.kept, **asdict(report)})
    elif not quiet:
        _show(report, read, describe_reading(rows, read, reading=reading))
    refused = [column.name for column in report.columns if column.refused]
    if refused:
        raise CheckFailedError(
            f"a release would refuse this table: values outside the labels in {', '.join(refused)}; add labels, or set "
            "outside to other or drop"
        )
    screen = people(quiet=quiet or json)
    if read.draft:
        screen.say('The schema is a draft: review its labels, which become public, and remove the line "draft": true.')
    else:
        screen.put(f"Next: {shlex.join(['crosstally', 'plan', str(path), '--epsilon', '1'])}")


def _show(report: Report, schema: Schema, written: Detected | None) -> None:

    screen = data()
    screen.print("Confidential: exact numbers about the private table, for the steward only.", style="bold")
    screen.print()
    lines = [("read as", str(written))] if written is not None else []
    lines += [("rows", f"{report.rows:,}"), ("counted", f"{report.kept:,}")]
    for name, number in (
        ("dropped", report.dropped),
        ("without id", report.without_id),
        ("beyond bound", report.beyond_bound),
    ):
        if number:
            lines.append((name, f"{number:,}"))
    screen.put_table(facts(lines))
    screen.print()
    if report.losses:
        _show_losses(report, schema, screen)
    table = grid("attribute", "outside", "missing", "verdict", "", left=1)
    for words in table.columns[3:]:
        words.justify, words.no_wrap = "left", False
    for column in report.columns:
        verdict = _verdict(column, schema[column.name].outside.value)
        table.add_row(printable(column.name), f"{column.outside:,}", f"{column.missing:,}", verdict, _remarks(column))
    screen.put_table(table)


def _show_losses(report: Report, schema: Schema, screen: Screen) -> None:
    """Print what each bound leaves out, beside the noise of a count at epsilon 1, which grows with the bound."""
    from crosstally.strategies.planner import DEFAULT, Proposal, compare

    planned = compare(schema.public(), Proposal(Budget(epsilon=1), rows=report.kept), strategies=DEFAULT).expected
    error = next((each.error / schema.max_rows for each in planned if each.known), math.nan)
    screen.print(f"{schema.row_word} of each {schema.unit_word}", style="bold")
    table = grid("bound", "counted", "left out", "share", "typical error at ε = 1", left=0)
    for each in report.losses:
        bound = f"{each.max_rows:,}" + " (this one)" * (each.max_rows == schema.max_rows)
        noise = significant(error * each.max_rows)
        table.add_row(bound, f"{each.kept:,}", f"{each.lost:,}", f"{each.share:.1%}", f"± {noise}")
    screen.put_table(table)
    assert schema.unit is not None
    screen.say(_counted_once(schema.unit.id))
    screen.say('A bound chosen from this table follows the data: mark it "from": "data".', style="dim")
    screen.print()


def _verdict(column: ColumnReport, rule: str) -> str:
    if column.refused:
        return "refused"
    return "fits" if not column.outside else f"fits ({rule})"


def _remarks(column: ColumnReport) -> str:

    remarks = []
    if column.examples:
        remarks.append(f"outside: {joined(column.examples)}")
    if column.never:
        remarks.append(f"never: {joined(column.never)}")
    return "; ".join(remarks)
