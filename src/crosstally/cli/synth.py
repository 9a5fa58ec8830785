"""``crosstally synth``: write synthetic data whose tables are nearest to those of a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import crosstally as ct
from crosstally.cli.options import Force, Quiet, Raw, ReleaseArgument, check_output, flag, option
from crosstally.cli.output.screen import people
from crosstally.errors import CrosstallyError
from crosstally.platform_files import writing

EXAMPLES = (
    "crosstally synth people.release.parquet -o rows.csv",
    "crosstally synth people.release.parquet --rows 1000000 -o rows.parquet",
    "crosstally synth people.release.parquet --whole -o rows.parquet",
)


def synth(
    release: ReleaseArgument,
    *,
    output: Annotated[Path, option("FILE", "The file to write: .csv or .parquet.", "--output", "-o")],
    rows: Annotated[int | None, option("N", "The number of rows; by default as many as the release has.")] = None,
    whole: Annotated[
        bool,
        flag(
            "Write the rows that `table --whole` counts. Slower; closer to the pairs where attributes are few.",
            "--whole",
        ),
    ] = False,
    seed: Annotated[int, option("N", "The same seed gives the same rows.")] = 0,
    raw: Raw = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Write synthetic data whose tables are nearest to those of a release. Free; no row is a real person."""
    from crosstally.exports.synthetic import write_rows

    check_output(output, force=force)
    if output.suffix.lower() not in (".csv", ".parquet"):
        raise CrosstallyError(f"rows are written as .csv or .parquet, got {output.name!r}")
    made = ct.open_release(release).synthesize(rows, method="integers" if whole else "sampling", seed=seed)
    with writing(output):
        write_rows(made, output, raw=raw)
    screen = people(quiet=quiet)
    screen.say(f"{len(made):,} rows of synthetic data in {str(output)!r}.")
    for sentence in made.report():
        screen.say(sentence)
