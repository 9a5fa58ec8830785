"""Answers as a workbook of Excel: a sheet with the cells, and one that says what they are."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product, takewhile
from typing import TYPE_CHECKING, Any

from crosstally.answers.marginal import USUAL_LEVEL
from crosstally.answers.operations import COUNT
from crosstally.checks import optional
from crosstally.errors import QueryError
from crosstally.exports.csv_table import Columns
from crosstally.exports.formats import measures

if TYPE_CHECKING:
    from crosstally.answers.marginal import Marginal


_MOST_ROWS = 1_048_575  # of a sheet, without the line of names
_LONGEST_TEXT = 32_767  # characters of a cell
_WIDEST, _NARROWEST = 60, 9  # columns, in letters
_COUNTS, _FIGURES = "#,##0.##", "General"  # how numbers are shown: shares need more digits than counts
_PLAIN_TEXTS = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}


def xlsx_bytes(marginal: Marginal, *, level: float | None = None) -> bytes:
    """A book with a row for each cell: labels, count, standard error and the ends of its interval.

    Labels are cells of type text, which no spreadsheet takes for a formula, and numbers are numbers. Unknown errors are
    empty.
    """
    _check(
        marginal.schema.cells, [*marginal.attributes, *(x for each in marginal.schema.attributes for x in each.labels)]
    )
    names = [*marginal.attributes, *marginal.number_columns(), *marginal.interval_columns()]
    labels = product(*(attribute.labels for attribute in marginal.schema.attributes))
    numbers = zip(*measures(marginal, level=level), strict=True)
    rows = ((*texts, *four) for texts, four in zip(labels, numbers, strict=True))
    longest = [max(map(len, attribute.labels)) for attribute in marginal.schema.attributes]
    kind = _COUNTS if marginal.quantity == COUNT else _FIGURES
    return _book(dict(zip(names, [*longest, *[kind] * 4], strict=True)), rows, _about(marginal, level))


def columns_xlsx(columns: Columns, about: Mapping[str, str]) -> bytes:
    """A book of columns of labels and numbers, as a statement of SQL gives them, and what is to be said about them."""
    rows = max((len(column) for column in columns.values()), default=0)
    _check(rows, [*columns, *(cell for column in columns.values() for cell in column if isinstance(cell, str))])
    widths: dict[str, int | str] = {}
    for name, column in columns.items():
        lengths = [len(cell) for cell in column if isinstance(cell, str)]
        widths[name] = max(lengths) if lengths else _FIGURES
    return _book(widths, zip(*columns.values(), strict=True), about.items())


def _book(
    columns: Mapping[str, int | str],
    rows: Iterable[Sequence[str | float | None]],
    about: Iterable[tuple[str, str]],
) -> bytes:
    """A sheet with rows and one with sentences; for each column the length of its longest label, or a number format."""
    made = io.BytesIO()  # a book that cannot be written is never closed, and says so when it is dropped
    book = optional("xlsxwriter", extra="exports").Workbook(made, {"in_memory": True, **_PLAIN_TEXTS})
    labels, last = len(list(takewhile(lambda kind: isinstance(kind, int), columns.values()))), 0
    with book:
        sheet, bold = book.add_worksheet("table"), book.add_format({"bold": True, "bottom": 1})
        for column, (name, kind) in enumerate(columns.items()):
            longest, form = (kind, None) if isinstance(kind, int) else (0, book.add_format({"num_format": kind}))
            width = max(_NARROWEST, min(_WIDEST, max(len(name) + 3, longest) + 1))
            sheet.set_column(column, column, width, form)
            sheet.write_string(0, column, name, bold)
        for last, cells in enumerate(rows, start=1):
            _write_row(sheet, last, cells)
        sheet.freeze_panes(1, labels)
        sheet.autofilter(0, 0, last, len(columns) - 1)
        words = book.add_worksheet("about")
        words.set_column(0, 0, 14)
        words.set_column(1, 1, 100, book.add_format({"text_wrap": True}))
        for row, (word, sentence) in enumerate(about):
            words.write_string(row, 0, word)
            words.write_string(row, 1, sentence)
    return made.getvalue()


def _write_row(sheet: Any, row: int, cells: Sequence[str | float | None]) -> None:
    for column, cell in enumerate(cells):
        if isinstance(cell, str):
            sheet.write_string(row, column, cell)
        elif cell is not None:
            sheet.write_number(row, column, cell)


def _check(rows: int, texts: Iterable[str]) -> None:
    if rows > _MOST_ROWS:
        raise QueryError(f"a sheet of Excel must have at most {_MOST_ROWS:,} rows, got {rows:,}; write CSV or Parquet")
    if any(len(text) > _LONGEST_TEXT for text in texts):
        raise QueryError(f"a cell of Excel must have at most {_LONGEST_TEXT:,} characters; write CSV or Parquet")


def _about(marginal: Marginal, level: float | None) -> Iterator[tuple[str, str]]:
    number = marginal.schema.total_title if marginal.quantity == COUNT else marginal.quantity
    yield "table", " by ".join(marginal.attributes) or number
    if marginal.where:
        yield "where", marginal.where
    yield "counted", marginal.schema.counted
    yield "source", f"crosstally release, {marginal.caption}"
    yield "method", marginal.method
    yield "error", marginal.error_kind.value
    low, high = marginal.interval_columns()
    what = marginal.schema.estimand if marginal.quantity == COUNT else f"{marginal.quantity} without noise"
    ends = f"{low} and {high} are the ends of an interval that holds the {what} with this confidence"
    yield "intervals", f"{USUAL_LEVEL if level is None else level:.4g}: {ends}. Empty cells are not known."
