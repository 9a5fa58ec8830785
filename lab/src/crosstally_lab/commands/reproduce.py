"""``crosstally reproduce``: run a paper's experiment: its rows, its chart, and which claims hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosstally.cli.options import CheckFailedError, Json, Quiet
from crosstally.errors import CrosstallyError
from crosstally.platform_files import write_text, writing

if TYPE_CHECKING:
    from rich.table import Table

    from crosstally_lab.papers.outcomes import Outcome


EXAMPLES = (
    "crosstally reproduce --list",
    "crosstally reproduce priview-crossover --quick",
    "crosstally reproduce priview-crossover --json -o results",
    "crosstally reproduce --all --quick -o reproduced",
)


def reproduce(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The experiment to run.")] = None,
    *,
    list_: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    all_: Annotated[
        bool, typer.Option("--all", help="Run all experiments and write one page with all verdicts.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Use fewer repetitions: seconds instead of minutes.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Use this file. It must be public, because the true counts are shown."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="The folder for rows, verdicts and charts.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a paper's experiment, or all of them, and check which claims hold.

    A claim holds when a whole confidence interval supports it, and is open when the interval does not
    decide it. The exit code is 1 when one of crosstally's own claims does not hold. With --all, the
    folder (by default "reproduced") gets index.html, a page with every chart and every verdict, and
    a folder for each experiment.
    """
    from crosstally.cli.output.screen import people, print_json, progress
    from crosstally_lab.papers.experiments import run

    if list_:
        if name is not None:
            raise CrosstallyError("--list lists all experiments: leave out the name")
        _list(json=json)
        return
    if all_:
        if name is not None or data is not None:
            raise CrosstallyError("--all runs all experiments on their own data: leave out the name and --data")
        _check(_run_all(output or Path("reproduced"), quick=quick, json=json, quiet=quiet))
        return
    if name is None:
        raise CrosstallyError("say which experiment, or list them: crosstally reproduce --list")
    with progress(name, unit="steps", quiet=quiet) as tell:
        outcome = run(name, quick=quick, data=data, progress=tell)
    if json:
        print_json(outcome.to_dict())
    else:
        _show(outcome)
    if output is not None:
        written = outcome.save(output)
        people(quiet=quiet).say(f"Written: {', '.join(map(str, written))}")
    _check([outcome])


def _run_all(folder: Path, *, quick: bool, json: bool, quiet: bool) -> list[Outcome]:
    """Every outcome. The page is rewritten after each one, so that stopping a run loses nothing."""
    from crosstally.cli.output.screen import data, grid, people, print_json, progress
    from crosstally_lab.papers.experiments import EXPERIMENTS, run
    from crosstally_lab.papers.report import report

    outcomes: list[Outcome] = []
    page = folder / "index.html"
    for each in EXPERIMENTS:
        with progress(each.name, unit="steps", quiet=quiet) as tell:
            outcomes.append(run(each.name, quick=quick, progress=tell))
        outcomes[-1].save(folder / each.name)
        with writing(page):
            write_text(page, report(outcomes, quick=quick))
    if json:
        print_json([{"name": each.name, "claims": each.to_dict()["claims"]} for each in outcomes])
    else:
        table = grid("experiment", "verdict", "of", "claim", left=4)
        for outcome in outcomes:
            for claim in outcome.claims:
                table.add_row(outcome.name, claim.verdict, claim.of, claim.claim)
        data().put_table(table)
    people(quiet=quiet).say(f"Written: {page}")
    return outcomes


def _check(outcomes: Sequence[Outcome]) -> None:
    """Raise when one of crosstally's own claims does not hold; the exit code is then 1."""
    from crosstally.cli.output.screen import number_of

    own = (claim for outcome in outcomes for claim in outcome.claims if claim.of == "crosstally")
    failed = [claim for claim in own if claim.holds is False]
    if failed:
        number = number_of(len(failed), "claim of crosstally does", "claims of crosstally do")
        raise CheckFailedError(f"{number} not hold; the first: {failed[0].claim}")


def _list(*, json: bool) -> None:
    from crosstally.cli.output.screen import data, grid, print_json
    from crosstally_lab.papers.experiments import EXPERIMENTS

    if json:
        print_json([{"name": each.name, "title": each.title} for each in EXPERIMENTS])
        return
    table = grid("name", "what it shows", left=2)
    for each in EXPERIMENTS:
        table.add_row(each.name, each.title)
    data().put_table(table)


def _show(outcome: Outcome) -> None:
    from crosstally.cli.output.screen import data, facts

    screen = data()
    screen.print(outcome.name, style="bold")
    screen.print()
    screen.put_table(_rows(outcome))
    screen.print()
    verdicts = ((f"{claim.claim} ({claim.of})", claim) for claim in outcome.claims)
    screen.put_table(
        facts([line for words, claim in verdicts for line in ((claim.verdict, words), ("", claim.figure))])
    )


def _rows(outcome: Outcome) -> Table:
    from crosstally.cli.output.screen import grid, printable, significant

    numeric = {
        name: all(isinstance(row.get(name), int | float | None) for row in outcome.rows) for name in outcome.columns
    }
    table = grid(*outcome.columns, left=0)
    for column in table.columns:
        column.justify = "right" if numeric[str(column.header)] else "left"
    for row in outcome.rows:
        values = (row.get(name) for name in outcome.columns)
        table.add_row(*(significant(v) if isinstance(v, float) else printable("" if v is None else v) for v in values))
    return table
