"""The options that say how a source is written, and the questions about what it cannot say itself."""

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
    typer.Option(metavar="CHARACTER", rich_help_panel=_READING, help="Between fields of a text: ';', tab."),
]
Encoding = Annotated[
    str | None,
    typer.Option(metavar="NAME", rich_help_panel=_READING, help="Of a text: utf-8 (the default), cp1252, utf-16."),
]
Quote = Annotated[
    str | None,
    typer.Option(metavar="CHARACTER", rich_help_panel=_READING, help='Around fields of a text: " unless said; none.'),
]
DecimalMarks = Annotated[
    list[str] | None,
    typer.Option(
        "--decimal",
        metavar="[COLUMN=].|,",
        rich_help_panel=_READING,
        help="Before decimals, in all columns or one; may be repeated.",
    ),
]
ThousandsMarks = Annotated[
    list[str] | None,
    typer.Option(
        "--thousands",
        metavar="[COLUMN=]MARK",
        rich_help_panel=_READING,
        help="Between groups of digits: . , ' blank or none; may be repeated.",
    ),
]
Header = Annotated[
    int | None,
    typer.Option(metavar="LINE", min=0, rich_help_panel=_READING, help="The line of names, 0 when there is none."),
]
Sheet = Annotated[
    str | None, typer.Option(metavar="NAME", rich_help_panel=_READING, help="Of a workbook: its name or number.")
]
TableName = Annotated[
    str | None, typer.Option("--table", metavar="NAME", rich_help_panel=_READING, help="Of a DuckDB or SQLite file.")
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
    """A command whose parameter ``written`` is a ``Reading``: people say it by these options, which stand in its place.

    The options are part of the signature, which is all that Typer looks at.
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
    """What the options say."""
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
    """'income=,' is for one column, ',' for all of them."""
    from crosstally.sources.reading import EVERY_COLUMN

    found: dict[str, str] = {}
    for text in given or ():
        column, _, mark = text.rpartition("=")
        if column in found:
            raise SourceError(f"{option} says two things of {f'column {column!r}' if column else 'all columns'}")
        found[column] = _NAMED.get(mark, mark)
    return found.get(EVERY_COLUMN) if set(found) <= {EVERY_COLUMN} else found


def settled(action: Callable[[Reading], T], reading: Reading, *, quiet: bool) -> T:
    """What the action gives; where numbers may be meant in two ways, the person at the terminal is asked which."""
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
