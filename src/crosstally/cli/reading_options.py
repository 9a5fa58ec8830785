"""The options that say how a source is written, and the questions asked when the source is ambiguous."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from crosstally.errors import AmbiguousNumbersError, SourceError

if TYPE_CHECKING:
    from crosstally.sources.reading import Reading

__all__ = ["read_reading", "settled", "takes_reading"]

T = TypeVar("T")

_READING = "How the source is written"
_WORDS = {"\t": "tab", "": "none", " ": "blank"}
_NAMED = {"tab": "\t", "\\t": "\t", "none": "", "blank": " ", "space": " "}
_ANSWERS = {"p": ".", "c": ","}

Delimiter = Annotated[
    str | None,
    typer.Option(
        metavar="CHARACTER",
        rich_help_panel=_READING,
        help="The character between the fields of a text file, such as ';' or tab.",
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=_READING,
        help="The encoding of a text file: utf-8 (the default), cp1252, utf-16.",
    ),
]
Quote = Annotated[
    str | None,
    typer.Option(
        metavar="CHARACTER",
        rich_help_panel=_READING,
        help='The quote around the fields of a text file; " by default, or none.',
    ),
]
DecimalMarks = Annotated[
    list[str] | None,
    typer.Option(
        "--decimal",
        metavar="[COLUMN=].|,",
        rich_help_panel=_READING,
        help="The decimal mark, of all columns or of one; may be repeated.",
    ),
]
ThousandsMarks = Annotated[
    list[str] | None,
    typer.Option(
        "--thousands",
        metavar="[COLUMN=]MARK",
        rich_help_panel=_READING,
        help="The mark between groups of digits: . , ' blank or none; may be repeated.",
    ),
]
Header = Annotated[
    int | None,
    typer.Option(
        metavar="LINE",
        min=0,
        rich_help_panel=_READING,
        help="The line that holds the column names; 0 if there is none.",
    ),
]
Sheet = Annotated[
    str | None,
    typer.Option(metavar="NAME", rich_help_panel=_READING, help="The sheet of a workbook, by name or number."),
]
TableName = Annotated[
    str | None,
    typer.Option("--table", metavar="NAME", rich_help_panel=_READING, help="The table of a DuckDB or SQLite file."),
]


_OPTIONS: dict[str, object] = {
    "delimiter": Delimiter,
    "encoding": Encoding,
    "quote": Quote,
    "decimal": DecimalMarks,
    "thousands": ThousandsMarks,
    "header": Header,
    "sheet": Sheet,
    "table": TableName,
}


def takes_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameter ``written``, a ``Reading``, by the options with which people describe one.

    Typer looks only at the signature, so the options are put there.
    """
    hints = get_type_hints(command, localns={"Reading": object}, include_extras=True)
    parameters: list[Parameter] = []
    for each in signature(command).parameters.values():
        if each.name == "written":
            kind = Parameter.KEYWORD_ONLY
            parameters += [Parameter(name, kind, default=None, annotation=_OPTIONS[name]) for name in _OPTIONS]
        else:
            parameters.append(each.replace(annotation=hints[each.name]))

    @wraps(command)
    def taking(*arguments: Any, **given: Any) -> None:
        said = {name: given.pop(name) for name in _OPTIONS}
        command(*arguments, written=read_reading(**said), **given)

    taking.__annotations__ = {each.name: each.annotation for each in parameters}
    vars(taking)["__signature__"] = Signature(parameters)
    return taking


def read_reading(
    *,
    delimiter: str | None,
    encoding: str | None,
    quote: str | None,
    decimal: Sequence[str] | None,
    thousands: Sequence[str] | None,
    header: int | None,
    sheet: str | None,
    table: str | None,
) -> Reading:
    """The ``Reading`` that the options describe."""
    from crosstally.sources.reading import Reading

    return Reading(
        delimiter=_NAMED.get(delimiter or "", delimiter),
        encoding=encoding,
        quote=_NAMED.get(quote or "", quote),
        decimal=_by_column("--decimal", decimal),
        thousands=_by_column("--thousands", thousands),
        header=header,
        sheet=sheet,
        table=table,
    )


def _by_column(option: str, given: Sequence[str] | None) -> dict[str, str] | str | None:
    """Read 'income=,' as a mark for one column and ',' as a mark for all columns."""
    from crosstally.sources.reading import EVERY_COLUMN

    found: dict[str, str] = {}
    for text in given or ():
        column, _, mark = text.rpartition("=")
        if column in found:
            raise SourceError(f"{option} says two things of {f'column {column!r}' if column else 'all columns'}")
        found[column] = _NAMED.get(mark, mark)
    return found.get(EVERY_COLUMN) if set(found) <= {EVERY_COLUMN} else found


def settled(action: Callable[[Reading], T], reading: Reading, *, quiet: bool) -> T:
    """Run the action; where numbers can be read in two ways, ask the person at the terminal which one is meant."""
    while True:
        try:
            return action(reading)
        except AmbiguousNumbersError as error:
            if quiet or not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise
            columns = error.columns
        reading = replace(reading, decimal=_asked(reading, columns))


def _asked(reading: Reading, columns: Sequence[str]) -> dict[str, str]:
    from crosstally.cli.output.screen import printable
    from crosstally.sources.reading import EVERY_COLUMN

    given = {EVERY_COLUMN: reading.decimal} if isinstance(reading.decimal, str) else dict(reading.decimal or {})
    for column in columns:
        answer = ""
        while answer not in _ANSWERS:
            question = f"{printable(column)}: its numbers may have a decimal (p)oint or a decimal (c)omma; which is it?"
            answer = typer.prompt(question, err=True).strip().lower()[:1]
        given[column] = _ANSWERS[answer]
    return given
