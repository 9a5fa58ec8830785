"""``crosstally sql``: a SELECT over a release."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

import crosstally as ct
from crosstally.cli.options import Force, Output, Raw, ReleaseArgument, argument, check_output, option
from crosstally.cli.output.encoding import deliver
from crosstally.cli.output.screen import data, grid, printable, progress, significant
from crosstally.errors import CrosstallyError

if TYPE_CHECKING:
    from crosstally.sql import SqlAnswer


EXAMPLES = (
    'crosstally sql people.release.parquet "SELECT sex, count(*) FROM people GROUP BY sex"',
    'crosstally sql people.release.parquet "SELECT sex, age, count(*) FROM people GROUP BY ROLLUP (sex, age)"',
)


class SqlFormat(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"
    XLSX = "xlsx"


def sql(
    release: ReleaseArgument,
    statement: Annotated[str, argument("SELECT", "One SELECT; any name may follow FROM.")],
    *,
    format: Annotated[  # noqa: A002
        SqlFormat | None,
        typer.Option("--format", "-f", help="The output format; by default the ending of the file's name decides."),
    ] = None,
    output: Output = None,
    level: Annotated[float, option("SHARE", "The confidence level of the intervals.")] = 0.95,
    raw: Raw = False,
    force: Force = False,
) -> None:
    """Answer SQL from a release. Each number comes with both ends of its interval."""
    from crosstally.exports.csv_table import sql_file

    if output is not None:
        check_output(output, force=force)
    endings = {f".{each.value}": each for each in SqlFormat}
    wanted = format or endings.get("" if output is None else output.suffix.lower(), SqlFormat.TABLE)
    if wanted in {SqlFormat.PARQUET, SqlFormat.XLSX} and output is None:
        raise CrosstallyError(f"{wanted.value} is not text and cannot go to the terminal: name a file with -o")
    with progress("computing the answer and its intervals"):
        answer = ct.open_release(release).sql(statement, level=level)
    if output is None and wanted is SqlFormat.TABLE:
        _show(answer)
    else:
        # the table format has no file type: CSV has the same columns
        name = "csv" if wanted is SqlFormat.TABLE else wanted.value
        deliver([sql_file(answer, name, raw=raw)], output, is_json=wanted is SqlFormat.JSON)


def _show(answer: SqlAnswer) -> None:
    numbers = {name for name, column in answer.columns.items() if not any(isinstance(cell, str) for cell in column)}
    table = grid(*answer.columns, left=0)
    for column, name in zip(table.columns, answer.columns, strict=True):
        column.justify = "right" if name in numbers else "left"
        column.no_wrap = name in numbers
    for row in answer.rows():
        cells = (
            "" if cell is None else printable(cell) if isinstance(cell, str) else significant(cell) for cell in row
        )
        table.add_row(*cells)
    data().put_table(table)
    for note in answer.notes():
        data().say(note, style="dim")
