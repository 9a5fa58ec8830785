"""``crosstally table``: a table of a release, for people or programs."""

from __future__ import annotations

import io
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosstally.cli.options import Force, check_output
from crosstally.cli.output.encoding import write_exactly, write_json_text
from crosstally.errors import CrosstallyError

if TYPE_CHECKING:
    from crosstally.tables import Marginal

__all__ = ["EXAMPLES", "table"]

EXAMPLES = (
    "crosstally table people.release.parquet sex age",
    'crosstally table people.release.parquet income --where "25 <= age < 65 and region != North"',
    "crosstally table people.release.parquet sex age --format csv -o sex-age.csv --plot sex-age.svg",
)


class Format(StrEnum):
    """How a table is written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    JSON_STAT = "json-stat"
    PARQUET = "parquet"


def table(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release file.")],
    attributes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ATTRIBUTE]", help="Any attributes; none gives the number of rows."),
    ] = None,
    *,
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help='Count only such rows: "25 <= age < 65 and region != North".'),
    ] = None,
    format: Annotated[Format, typer.Option("--format", "-f", help="How to write it; parquet needs -o.")] = Format.TABLE,  # noqa: A002
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to; else stdout.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw a chart: .svg, .png or .json.")] = None,
    level: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="How sure intervals are: 0.95 where none is asked."),
    ] = None,
    method: Annotated[str | None, typer.Option(metavar="NAME", help="How to find what was never measured.")] = None,
    force: Force = False,
) -> None:
    """Read any table of a release, with its errors. Free, and needs no data."""
    from crosstally.releases import open_release

    for path in (output, plot):
        if path is not None:
            check_output(path, force=force)
    if format is Format.PARQUET and output is None:
        raise CrosstallyError("parquet is not text and cannot go to the terminal: name a file with -o")
    marginal = open_release(release).marginal(*(attributes or ()), where=where, method=method)
    if level is not None:
        marginal.half_width(level)  # a level that is none is refused before anything is written
    if plot is not None:
        from crosstally.charts import save

        save(marginal.plot(), plot)
    _write(marginal, format, output, level=level)


def _write(marginal: Marginal, format: Format, output: Path | None, *, level: float | None) -> None:  # noqa: A002
    if output is None and format is Format.TABLE:
        from crosstally.cli.output.rendering import show
        from crosstally.cli.output.screen import data

        show(marginal, data(), level=level)
    elif output is None:
        write = write_exactly if format is Format.CSV else write_json_text
        write(_text(marginal, format, level))
    else:
        try:
            _write_file(marginal, format, output, level)
        except OSError as error:
            raise CrosstallyError(f"cannot write {str(output)!r}: {error.strerror}") from None


def _write_file(marginal: Marginal, format: Format, output: Path, level: float | None) -> None:  # noqa: A002
    if format is Format.PARQUET:
        from crosstally.exports.parquet import write_parquet

        write_parquet(marginal, output, level=level)
    else:
        output.write_text(_text(marginal, format, level), encoding="utf-8")


def _text(marginal: Marginal, format: Format, level: float | None) -> str:  # noqa: A002
    if format is Format.CSV:
        from crosstally.exports.csv_table import csv_text

        return csv_text(marginal, level=level)
    if format is Format.JSON:
        from crosstally.exports.json_table import json_text

        return json_text(marginal, level=level)
    if format is Format.JSON_STAT:
        from crosstally.exports.json_stat import json_stat_text

        return json_stat_text(marginal, level=level)
    from crosstally.cli.output.rendering import show
    from crosstally.cli.output.screen import UNBOUNDED, Screen

    text = io.StringIO()
    show(marginal, Screen(text, width=UNBOUNDED), level=level)
    return text.getvalue()
