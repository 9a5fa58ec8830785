"""``crosstally calibrate``: how often the intervals of a release contain the truth, and how wide they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosstally.cli.options import BudgetOptions, Json, Quiet, check_reviewed
from crosstally.errors import CrosstallyError
from crosstally.schema import Schema

if TYPE_CHECKING:
    from rich.table import Table

    from crosstally_lab.papers.calibration import Calibration, Coverage


EXAMPLES = (
    "crosstally calibrate people.schema.json --epsilon 1",
    "crosstally calibrate people.schema.json --epsilon 1 --delta 1e-9 --rows 20000 --releases 30",
    "crosstally calibrate census.csv --schema census.schema.json --public --epsilon 1",
)
# Rows generated where nobody says how many: about the people of Adult. Chosen; fewer make intervals wider.
USUAL_ROWS = 50_000

GeneratedRows = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help=f"The number of rows to generate; by default the schema's, or {USUAL_ROWS:,}."
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="The seed for generating rows and for choosing tables.")]

_KINDS = {
    "exact": "covered by what was measured",
    "corrected": "covered by what was measured",
    "modelled": "that nobody measured",
    "bounds": "some of whose attributes were never measured together",
    "estimated": "estimated from reports",
}


def calibrate(
    given: Annotated[str, typer.Argument(metavar="SCHEMA|PUBLIC_DATA", help="A schema, or a file of public rows.")],
    *,
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The schema of PUBLIC_DATA; requires --public.")
    ] = None,
    public: Annotated[
        bool,
        typer.Option(
            "--public", help="You assert that PUBLIC_DATA is public: nothing is charged, nothing protects it."
        ),
    ] = False,
    spend: BudgetOptions,
    rows: GeneratedRows = None,
    releases: Annotated[int, typer.Option(metavar="R", min=1, help="The number of releases to make.")] = 10,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """See how often 95% intervals contain the truth, on generated or public rows. Free; no ledger is touched.

    The command makes the default release many times and compares its tables with the truth.
    """
    from crosstally.cli.output.screen import people, print_json, progress
    from crosstally_lab.papers.calibration import calibrated

    budget = spend.budget()
    path = Path(given) if schema is None else schema
    if schema is None and public:
        raise CrosstallyError("--public is about rows: say their schema with --schema, or leave it out")
    if schema is not None and not public:
        raise CrosstallyError(
            f"coverage is computed from the true counts of {given!r}, and no budget protects it: if these rows are "
            "public, say so with --public; else calibrate the schema alone, on generated rows"
        )
    if schema is not None and rows is not None:
        raise CrosstallyError("--rows is about generated rows; all rows of PUBLIC_DATA are counted: leave it out")
    read = Schema.load(path)
    check_reviewed(read, path)
    number = None if schema is not None else rows or read.public_rows or USUAL_ROWS
    with progress("releases", quiet=quiet or json) as tell:
        found = calibrated(read, budget, rows=number, public=given, releases=releases, seed=seed, progress=tell)
    if json:
        print_json({"public_data": schema is not None, "budget": budget.to_dict(), **found.to_dict()})
        return
    _show(found)
    screen = people(quiet=quiet)
    screen.say(made_of(releases, given, number))
    screen.say(
        "Width: the mean over that of the oracle, who knows the RMS error of these cells and takes 3.92 times it."
    )


def made_of(releases: int, public: str | None, generated: int | None) -> str:
    """What was made of which rows, in a sentence: of so many generated ones, else of public ones."""
    made = "1 release" if releases == 1 else f"{releases:,} releases"
    about = (
        f"{public!r}, which you assert to be public: these figures come from its true counts"
        if generated is None
        else f"{generated:,} generated rows of the schema's shape, new ones each time: your data may differ"
    )
    return f"{made} of {about}. Nothing is charged, and no ledger was touched."


def _show(found: Calibration) -> None:
    from crosstally.cli.output.screen import data

    screen = data()
    for kind in found.kinds:
        whole = found.of_kind(kind)
        if whole is not None:
            least, most = (f"{100 * end:g}" for end in whole.window)
            screen.say(
                f"95% intervals held {100 * whole.held:.1f}% of all cells of tables {_KINDS[kind]} "
                f"({least} to {most}% expected): {whole.verdict}."
            )
    if found.without:
        screen.say(f"{found.without:,} tables had no intervals: values of theirs were measured in groups.")
    screen.print()
    screen.put_table(_table(found))


def _table(found: Calibration) -> Table:
    from crosstally.cli.output.screen import grid
    from crosstally_lab.papers.calibration import CLASSES

    table = grid("attributes", "error", *(name for size in _HEADINGS for name in (_HEADINGS[size], "width")), left=2)
    by_table: dict[tuple[int, str], dict[str, Coverage]] = {(each.order, each.kind): {} for each in found.coverage}
    for each in found.coverage:
        by_table[each.order, each.kind][each.size] = each
    for (order, kind), sizes in by_table.items():
        cells = [text for size in CLASSES for text in _texts(sizes.get(size))]
        table.add_row(str(order), kind, *cells)
    return table


_HEADINGS = {"all": "all cells", "0": "empty", "1-20": "1 to 20", ">20": "above 20"}


def _texts(found: Coverage | None) -> tuple[str, str]:
    if found is None:
        return "", ""
    return f"{100 * found.held:.1f}%", "" if found.width is None else f"{found.width:.2f}"
