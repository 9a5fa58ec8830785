"""``crosstally compare``: the error of crosstally beside that of other methods, on rows like the user's own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosstally.cli.options import BudgetOptions, Json, Quiet, WorkloadOptions, check_reviewed
from crosstally.errors import CrosstallyError
from crosstally.schema import Schema
from crosstally_lab.commands.calibrate import USUAL_ROWS, GeneratedRows, Seed, made_of

if TYPE_CHECKING:
    from rich.table import Table

    from crosstally_lab.papers.side_by_side import Result, SideBySide


EXAMPLES = (
    "crosstally compare people.schema.json --rows 20000 --epsilon 1",
    "crosstally compare people.schema.json --epsilon 1 --delta 1e-9 --ways 3 --peer-minutes 10",
    "crosstally compare census.schema.json --public census.csv --epsilon 1",
)


def compare(
    schema: Annotated[Path, typer.Argument(metavar="SCHEMA", help="The schema of the table.")],
    *,
    public: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Rows that you assert to be public, used instead of generated rows: nothing protects them.",
        ),
    ] = None,
    spend: BudgetOptions,
    wanted: WorkloadOptions,
    rows: GeneratedRows = None,
    releases: Annotated[
        int, typer.Option(metavar="R", min=1, help="The number of releases that each method makes.")
    ] = 5,
    peer_minutes: Annotated[
        float,
        typer.Option(
            metavar="M", min=0, help="The minutes that each of OpenDP's AIM, MST and Fixed may take; 0 leaves them out."
        ),
    ] = 5,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare crosstally with other methods on generated or public rows. Free; no private row is read.

    Every method gets the same rows and budget and answers the same tables: all pairs, unless you name others.
    """
    from crosstally.cli.output.screen import people, print_json, progress
    from crosstally_lab.papers.side_by_side import compare_methods

    budget = spend.budget()
    if public is not None and rows is not None:
        raise CrosstallyError("--rows is about generated rows; all rows of --public are counted: leave it out")
    read = Schema.load(schema)
    check_reviewed(read, schema)
    named = wanted.read(read)
    number = None if public is not None else rows or read.public_rows or USUAL_ROWS
    with progress("releases", quiet=quiet or json) as tell:
        found = compare_methods(
            read,
            budget,
            rows=number,
            public=public,
            releases=releases,
            workload=named,
            peer_seconds=60 * peer_minutes,
            seed=seed,
            progress=tell,
        )
    if json:
        print_json({"public_data": public is not None, "budget": budget.to_dict(), **found.to_dict()})
        return
    _show(found)
    screen = people(quiet=quiet)
    screen.say(made_of(releases, public, number))
    screen.say(
        f"Error: the sum of absolute errors of a table over the number of rows, the mean over {len(found.tables):,} "
        "tables. CPU s: of the fastest release."
    )


def _show(found: SideBySide) -> None:
    from crosstally.cli.output.screen import data

    screen = data()
    for sentence in _sentences(found):
        screen.say(sentence)
    screen.print()
    screen.put_table(_table(found))


def _sentences(found: SideBySide) -> list[str]:
    """The result in sentences; they claim only what the 95% intervals support."""
    apart: list[tuple[float, str]] = []
    alike: list[str] = []
    for each in found.results[1:]:
        ratio = found.ratio(each)
        if ratio is None or math.isinf(ratio.high):
            continue
        if 1 in ratio:
            alike.append(each.name)
        else:
            apart.append((ratio.estimate, f"{ratio.estimate:.2g} times that of {each.name}"))
    out = []
    if apart:
        out.append(f"The error of crosstally is {_listed([words for _, words in sorted(apart)])}.")
    if alike:
        out.append(f"These releases show no difference from {_listed(alike)}.")
    if not out:
        out.append("One release tells no difference from chance: make more, with --releases.")
    cannot = [f"{each.name} ({each.cannot})" for each in found.results if each.cannot is not None]
    if cannot:
        out.append(f"Cannot be done here: {'; '.join(cannot)}.")
    return out


def _listed(words: Sequence[str]) -> str:
    """Join words as a sentence lists them.

    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _table(found: SideBySide) -> Table:
    from crosstally.cli.output.screen import grid

    table = grid("method", "what it is", "error", "ours / its", "95%", "CPU s", "compiling", left=2)
    for each in found.results:
        table.add_row(each.name, each.about, *_texts(found, each))
    return table


def _texts(found: SideBySide, each: Result) -> list[str]:
    from crosstally.cli.output.screen import significant

    if each.cannot is not None:
        return ["-", "", "", "", ""]
    assert each.seconds is not None
    cpu, compiling = each.seconds
    ratio = None if each is found.ours else found.ratio(each)
    times = ends = ""
    if ratio is not None:
        times = f"{ratio.estimate:.2g}"
        ends = "" if math.isinf(ratio.high) else f"{ratio.low:.2g} to {ratio.high:.2g}"
    return [significant(each.error), times, ends, significant(cpu), significant(compiling) if compiling else ""]
