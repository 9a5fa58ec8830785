"""``crosstally part``: count one share of a source for a plan and write the counts to a confidential file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import crosstally as ct
from crosstally.cli.options import Force, Quiet, argument, check_output, check_reviewed, option
from crosstally.cli.output.screen import facts, people, progress_of_reading
from crosstally.cli.source_options import DatabaseOptions, ReadingOptions, settled
from crosstally.schema import Schema

if TYPE_CHECKING:
    from crosstally.sources import Reading


EXAMPLES = (
    "crosstally part people.parquet --plan people.plan.json --share 3/8 -o part-3.counts",
    "crosstally part people.csv --plan people.plan.json --schema people.schema.json --share 1/2 -o part-1.counts",
    "crosstally release --parts 'part-*.counts' --plan people.plan.json --ledger people.ledger -o people.parquet",
)


def part(
    source: Annotated[
        list[str] | None, argument("SOURCE", "Files, a folder or a glob: the whole source, the same for every share.")
    ] = None,
    *,
    plan: Annotated[Path, option("FILE", "The approved plan. It must have one stage.")],
    share: Annotated[str, option("I/N", "The share of the rows to count, such as 3/8.")],
    output: Annotated[
        Path, option("FILE", "The file for the exact counts; only its owner can read it.", "--output", "-o")
    ],
    schema: Annotated[
        Path | None, option("FILE", "The plan's schema, needed where it says how to read the source.")
    ] = None,
    written: ReadingOptions,
    database: DatabaseOptions,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Count a share of the rows for a plan. The counts are exact and confidential; `release --parts` adds them up.

    Any number of processes or machines may each count a share. Nothing is spent; noise is added to the sum.
    """
    from crosstally.pipeline import count_part

    found = database.source(source or [])
    approved = ct.Plan.load(plan)
    check_reviewed(approved.schema, plan)
    read = None if schema is None else Schema.load(schema)
    check_output(output, force=force)

    def count(reading: Reading) -> None:
        with progress_of_reading("counting", found, quiet=quiet) as tell:
            count_part(found, output, plan=approved, share=share, schema=read, reading=reading, progress=tell)

    settled(count, written.reading(), quiet=quiet)
    if not quiet:
        _tell(output, plan, share)


def _tell(output: Path, plan: Path, share: str) -> None:
    screen = people()
    after = f"when all shares are counted: crosstally release --parts GLOB --plan {plan} --ledger FILE -o FILE"
    screen.put_table(facts([("counted", f"share {share}"), ("written", str(output)), ("next", after)]))
    screen.say(
        "CONFIDENTIAL: this file holds exact counts of people, without noise. Show it to nobody, send it over nothing "
        "that others read, and delete it after the release."
    )
