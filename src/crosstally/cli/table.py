"""``crosstally table``: a table of a release, for people or programs."""

from __future__ import annotations

import io
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosstally.cli.options import Force, check_output
from crosstally.cli.output.encoding import write_exactly, write_json_text
from crosstally.errors import CrosstallyError
from crosstally.platform_files import whole_file, write_text, writing

if TYPE_CHECKING:
    from crosstally.analysis.regrouping import Regrouping
    from crosstally.releases import Release
    from crosstally.tables import Marginal

__all__ = ["EXAMPLES", "table"]

EXAMPLES = (
    "crosstally table people.release.parquet sex age",
    'crosstally table people.release.parquet income --where "25 <= age < 65 and region != North"',
    'crosstally table people.release.parquet sex age --group "age: young = 16-24, 25-34; old = 65-74, 75 and over"',
    "crosstally table people.release.parquet sex age -o sex-age.xlsx --plot sex-age.svg",
    "crosstally table people.release.parquet sex age --whole",
)


class Format(StrEnum):
    """How a table is written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    JSON_STAT = "json-stat"
    PARQUET = "parquet"
    XLSX = "xlsx"
    PX = "px"
    SDMX_CSV = "sdmx-csv"


_BINARY = frozenset((Format.PARQUET, Format.XLSX))
_NAMED_BY_ENDING = (Format.CSV, Format.JSON, Format.PARQUET, Format.XLSX, Format.PX)
_BY_ENDING = {**{f".{each.value}": each for each in _NAMED_BY_ENDING}, ".txt": Format.TABLE, "": Format.TABLE}
"""What a file's name says about its format where --format does not."""
_NAMES = f"{', '.join(each.value for each in list(Format)[:-1])} or {list(Format)[-1].value}"

_FITTED_WAYS = 2
"""``release.integers`` is fitted to tables of up to so many attributes where no workload is named."""


def table(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release file.")],
    attributes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ATTRIBUTE]", help="The attributes of the table; none gives the number of rows."),
    ] = None,
    *,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help='Count only the rows that satisfy this condition: "25 <= age < 65 and region != North".',
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUPS",
            help='Put values together: "age: young = 16-24, 25-34; old = 75 and over". '
            'A level of a hierarchy: "town: canton". Again for each attribute.',
        ),
    ] = None,
    format: Annotated[  # noqa: A002
        Format | None,
        typer.Option(
            "--format", "-f", metavar="NAME", help=f"{_NAMES}; by default the ending of the file's name decides."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The file to write; stdout by default.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw a chart: .svg, .png or .json.")] = None,
    level: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="The confidence level of the intervals; 0.95 by default."),
    ] = None,
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help="How to reconstruct a table that was not measured.")
    ] = None,
    whole: Annotated[
        bool,
        typer.Option(
            "--whole", help="Print whole numbers that agree across all tables of the release and with `synth --whole`."
        ),
    ] = False,
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Write CSV labels unchanged, even if a spreadsheet would take them for formulas."),
    ] = False,
    force: Force = False,
) -> None:
    """Read any table of a release, with its errors. Free; no data is needed."""
    from crosstally.analysis.regrouping import regrouping_of_texts
    from crosstally.cli.output.screen import progress
    from crosstally.releases import open_release
    from crosstally.tables import USUAL_LEVEL

    for path in (output, plot):
        if path is not None:
            check_output(path, force=force)
    wanted = format or _format_of(output)
    if wanted in _BINARY and output is None:
        raise CrosstallyError(f"{wanted.value} is not text and cannot go to the terminal: name a file with -o")
    if whole and method is not None:
        raise CrosstallyError("--whole fits whole numbers to the release's usual answers: leave out --method")
    with progress("computing the table and its intervals"):  # the first of a release draws its noise again: seconds
        opened = open_release(release)
        regrouping = regrouping_of_texts(group or (), opened.schema)
        regrouping.check(attributes or ())
        answer = opened.marginal(*(attributes or ()), where=where, method=method)
        marginal = regrouping(answer)
        marginal.interval(USUAL_LEVEL if level is None else level)  # a level that is none is refused before a file
    if whole:
        marginal = _whole(opened, answer, regrouping)
    if plot is not None:
        from crosstally.charts import save

        save(marginal.plot(), plot)
    _Writer(marginal, wanted, level, raw).write(output)


def _whole(release: Release, answer: Marginal, regrouping: Regrouping) -> Marginal:
    """The answer in whole numbers, with values put together; stderr says how far they are from it before that."""
    from crosstally.cli.output.screen import number_of, people, progress
    from crosstally.query.where import Where

    with progress("fitting whole numbers to all tables of one and two attributes"):
        found = release.integers()
    apart = 100 * found.total_variation(answer)
    rows = number_of(found.total, "row", "rows")
    people().say(
        f"Whole numbers, of one table of {rows}: the total variation to the real-valued table is {apart:.2g}% of them."
    )
    restricted = Where.of(answer.where, release.schema).attributes if answer.where else ()
    if len({*answer.attributes, *restricted}) > _FITTED_WAYS:
        people().say("Only tables of one and two attributes were fitted; this one follows from them.")
    return found.beside(answer, regrouping)


def _format_of(output: Path | None) -> Format:
    if output is None:
        return Format.TABLE
    ending = output.suffix.lower()
    if ending not in _BY_ENDING:
        endings = ", ".join(each for each in _BY_ENDING if each)
        raise CrosstallyError(f"no format has the ending of {str(output)!r}: name it {endings}, or say --format")
    return _BY_ENDING[ending]


@dataclass(frozen=True, slots=True)
class _Writer:
    """A table and how to write it."""

    marginal: Marginal
    format: Format
    level: float | None
    raw: bool

    def write(self, output: Path | None) -> None:
        """To a file, or to stdout."""
        if output is not None:
            with writing(output):
                self._write_file(output)
        elif self.format is Format.TABLE:
            from crosstally.cli.output.rendering import show
            from crosstally.cli.output.screen import data

            show(self.marginal, data(), level=self.level)
        else:
            write = write_json_text if self.format in (Format.JSON, Format.JSON_STAT) else write_exactly
            write(self._text())

    def _write_file(self, output: Path) -> None:
        if self.format is Format.PARQUET:
            from crosstally.exports.parquet import write_parquet

            write_parquet(self.marginal, output, level=self.level)
        elif self.format is Format.XLSX:
            from crosstally.exports.xlsx import write_xlsx

            with whole_file(output) as book:
                write_xlsx(self.marginal, book, level=self.level)
        else:
            write_text(output, self._text())

    def _text(self) -> str:
        if self.format is Format.CSV:
            from crosstally.exports.csv_table import csv_text

            return csv_text(self.marginal, level=self.level, raw=self.raw)
        if self.format is Format.JSON:
            from crosstally.exports.json_table import json_text

            return json_text(self.marginal, level=self.level)
        if self.format is Format.JSON_STAT:
            from crosstally.exports.json_stat import json_stat_text

            return json_stat_text(self.marginal, level=self.level)
        if self.format is Format.PX:
            from crosstally.exports.px import px_text

            return px_text(self.marginal, level=self.level)
        if self.format is Format.SDMX_CSV:
            from crosstally.exports.sdmx_csv import sdmx_csv_text

            return sdmx_csv_text(self.marginal, level=self.level)
        from crosstally.cli.output.rendering import show
        from crosstally.cli.output.screen import UNBOUNDED, Screen

        text = io.StringIO()
        show(self.marginal, Screen(text, width=UNBOUNDED), level=self.level)
        return text.getvalue()
