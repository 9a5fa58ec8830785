"""``crosstally synth``: made-up rows that have the tables of a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crosstally.cli.options import Force, Quiet, check_output
from crosstally.errors import CrosstallyError

__all__ = ["EXAMPLES", "synth"]

EXAMPLES = (
    "crosstally synth people.release.parquet -o rows.csv",
    "crosstally synth people.release.parquet --rows 1000000 -o rows.parquet",
    "crosstally synth people.release.parquet --whole -o rows.parquet",
)


def synth(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release file.")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to: .csv or .parquet.")],
    rows: Annotated[
        int | None, typer.Option(metavar="N", help="How many rows; else as many as the release has.")
    ] = None,
    whole: Annotated[
        bool,
        typer.Option("--whole", help="The rows that table --whole counts: slower, nearer to pairs of few attributes."),
    ] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed gives the same rows.")] = 0,
    raw: Annotated[
        bool,
        typer.Option("--raw", help="CSV with labels as they are, even where a spreadsheet takes them for formulas."),
    ] = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Write made-up rows that have nearly the tables of a release. Free; they are nobody."""
    from crosstally.cli.output.screen import people
    from crosstally.exports.synthetic import write_rows
    from crosstally.releases import open_release

    check_output(output, force=force)
    if output.suffix.lower() not in (".csv", ".parquet"):
        raise CrosstallyError(f"rows are written as .csv or .parquet, got {output.name!r}")
    made = open_release(release).synthesize(rows, method="integers" if whole else "sampling", seed=seed)
    try:
        write_rows(made, output, raw=raw)
    except OSError as error:
        raise CrosstallyError(f"cannot write {str(output)!r}: {error.strerror}") from None
    screen = people(quiet=quiet)
    screen.say(f"{len(made):,} made-up rows in {str(output)!r}.")
    for sentence in made.report():
        screen.say(sentence)
