"""``crosstally table``: a table of a release, for people or programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosstally.cli.options import Force, check_output
from crosstally.errors import CrosstallyError
from crosstally.exports import formats
from crosstally.exports.formats import Format
from crosstally.exports.selection import Selection, read_conditions, select
from crosstally.schema import Schema

if TYPE_CHECKING:
    from crosstally.tables import Marginal

__all__ = ["EXAMPLES", "table"]

EXAMPLES = (
    "crosstally table people.release.parquet sex age",
    'crosstally table people.release.parquet income --where "sex = Female and region = North"',
    "crosstally table people.release.parquet sex age --format csv -o sex-age.csv --plot sex-age.svg",
)


def table(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release file.")],
    attributes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ATTRIBUTE]", help="Any attributes; none gives the number of rows."),
    ] = None,
    *,
    where: Annotated[
        str | None, typer.Option(metavar="CONDITION", help='Keep one value of some attributes: "sex = Female and ...".')
    ] = None,
    format: Annotated[Format, typer.Option("--format", "-f", help="How to write it; parquet needs -o.")] = Format.TABLE,  # noqa: A002
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to; else stdout.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw a chart: .svg, .png or .json.")] = None,
    level: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="± as a margin this sure, such as 0.95; else the standard error."),
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
    opened = open_release(release)
    asked = tuple(attributes or ())
    opened.schema.check(asked)
    conditions = read_conditions(where, opened.schema)
    others = tuple(name for name in conditions if name not in asked)
    marginal = opened.marginal(*asked, *others, method=method)
    selection = select(marginal, asked, conditions, level=level)
    if plot is not None:
        _draw(selection, opened.schema, marginal, plot)
    _write(selection, format, output)


def _draw(selection: Selection, schema: Schema, marginal: Marginal, path: Path) -> None:
    """Save a chart of what was selected; attributes of which one value is kept stand in its caption."""
    from crosstally.charts import bar_chart, save

    single = [axis for axis in selection.columns if len(axis.labels) == 1]
    left = schema.subset(*(axis.name for axis in selection.columns if axis not in single))
    where = " and ".join(f"{axis.name} = {axis.labels[0]}" for axis in single)
    half = None if marginal.error is None else marginal.error.half_width(0.95)
    caption = f"{where}; {selection.caption}" if where else selection.caption
    save(bar_chart(left, selection.values.reshape(left.shape), half_width=half, caption=caption), path)


def _write(selection: Selection, format: Format, output: Path | None) -> None:  # noqa: A002
    if format is Format.PARQUET:
        assert output is not None
        _write_parquet(selection, output)
    elif output is None and format is Format.TABLE:
        _show(selection)
    else:
        text = _text(selection, format)
        if output is None:
            sys.stdout.write(text)
        else:
            _write_text(text, output)


def _text(selection: Selection, format: Format) -> str:  # noqa: A002
    if format is Format.CSV:
        return formats.csv_text(selection)
    if format is Format.JSON:
        return formats.json_text(selection)
    if format is Format.JSON_STAT:
        return formats.json_stat_text(selection)
    import io

    from crosstally.cli.output.rendering import show
    from crosstally.cli.output.screen import UNBOUNDED, Screen

    text = io.StringIO()
    show(selection, Screen(text, width=UNBOUNDED))
    return text.getvalue()


def _show(selection: Selection) -> None:
    from crosstally.cli.output.rendering import show
    from crosstally.cli.output.screen import data

    show(selection, data())


def _write_text(text: str, output: Path) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CrosstallyError(f"cannot write {str(output)!r}: {error.strerror}") from None


def _write_parquet(selection: Selection, output: Path) -> None:
    import pyarrow.parquet

    try:
        pyarrow.parquet.write_table(formats.arrow(selection), output)
    except OSError as error:
        raise CrosstallyError(f"cannot write {str(output)!r}: {error.strerror}") from None
