"""``crosstally schema review``: a confidential page on which a steward edits a schema with its rows in view."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosstally.budget import Budget
from crosstally.cli.interrupts import has_window
from crosstally.cli.options import Delta, Quiet, Tables, Ways, argument, option, read_tables
from crosstally.cli.output.screen import Screen, people, progress
from crosstally.cli.source_options import ReadingOptions, Source, SourceOptions, settled, source_and_schema
from crosstally.errors import WorkloadError
from crosstally.schema import Schema

if TYPE_CHECKING:
    from crosstally.sources import Reading
    from crosstally.sources.inspection import Distributions


EXAMPLES = (
    "crosstally schema review people.csv people.schema.json",
    "crosstally schema review people.csv people.schema.json --epsilon 0.5 --tables sex,age --tables region",
)


def review(
    source: Source = None,
    schema: Annotated[Path | None, argument("SCHEMA", "The schema to review.", show_default=False)] = None,
    *,
    epsilon: Annotated[
        str, option("NUMBER", "The ε of the planned release; the page shows the error to expect from it.")
    ] = "1",
    delta: Delta = None,
    ways: Ways = None,
    tables: Tables = None,
    port: Annotated[int, option("N", "The port to listen on; 0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser of this machine.")] = True,
    written: ReadingOptions,
    database: SourceOptions,
    quiet: Quiet = False,
) -> None:
    """Review a schema on a private page: see who has which label; merge, rename, reorder, cut, drop.

    The page is confidential. Only this machine can reach it, and only the person who opens the file
    that the command writes. It closes after 30 minutes without a click. Nothing is spent. The schema
    is written when you save.
    """
    from crosstally.browser.common.site import check_installed

    check_installed()
    from crosstally.browser.common.site_server import listen
    from crosstally.browser.steward.review import Review
    from crosstally.browser.steward.review_pages import serve
    from crosstally.sources.inspection import read_distributions
    from crosstally.strategies.planner import Proposal

    rows, path = source_and_schema("review", source, schema, database)
    if ways is not None and tables:
        raise WorkloadError("say in one way which tables matter: --ways or --tables")
    wanted = Proposal(Budget(epsilon=epsilon, delta=delta), ways=ways, tables=read_tables(tables))
    read = Schema.load(path)
    wanted.workload(read)  # raises where a table names no attribute, before rows are read

    def counts(reading: Reading) -> Distributions:
        with progress("reading", quiet=quiet):
            return read_distributions(rows, read, reading=reading)

    counted = settled(counts, written.reading(), quiet=quiet)
    screen = people(quiet=quiet)
    with listen("127.0.0.1", port) as socket:
        found = Review(path, counted, wanted)
        serve(found, socket, partial(_show, screen, browser))
    if found.changed:
        screen.say(f"Changes that were not saved are gone; {path} is as it was saved last.")
    screen.put(f"Next: {shlex.join(['crosstally', 'plan', str(path), '--epsilon', epsilon])}")


def _show(screen: Screen, browser: bool, entrance: Path) -> None:
    """Say how to get in, and open the page where there is a window."""
    screen.say("Confidential: the page shows exact numbers about people, to you alone.", style="bold")
    opens = browser and has_window()
    if opens:
        typer.launch(entrance.as_uri())
    screen.put(f"Open {entrance} in a browser on this machine, once{' (it should open by itself)' * opens}.")
    screen.say("The page ends after 30 idle minutes, by its own button, or by Ctrl-C here.")
