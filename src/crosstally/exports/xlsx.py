"""An answer as a workbook of Excel: a sheet with the cells, and one that says what they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from crosstally.errors import QueryError
from crosstally.exports.cells import MEASURES, free_name, measures
from crosstally.extras import optional
from crosstally.tables import USUAL_LEVEL

if TYPE_CHECKING:
    from crosstally.tables import Marginal

__all__ = ["write_xlsx"]

_MOST_ROWS = 1_048_575  # of a sheet, without the line of names
_LONGEST_TEXT = 32_767  # characters of a cell
_WIDEST, _NARROWEST = 60, 9  # columns, in letters
_PLAIN_TEXTS = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}


def write_xlsx(marginal: Marginal, target: Path | BinaryIO, *, level: float | None = None) -> None:
    """Write a row for each cell: labels, count, standard error and the ends of its interval.

    Labels are cells of type text, which no spreadsheet takes for a formula, and numbers are numbers. Unknown errors are
    empty.
    """
    _check(marginal)
    names = [*marginal.attributes, *(free_name(name, marginal.attributes) for name in MEASURES)]
    labels = product(*(attribute.labels for attribute in marginal.schema.attributes))
    numbers = zip(*measures(marginal, level=level), strict=True)
    book = optional("xlsxwriter", extra="exports").Workbook(target, {"in_memory": True, **_PLAIN_TEXTS})
    with book:
        sheet, bold = book.add_worksheet("table"), book.add_format({"bold": True, "bottom": 1})
        count = book.add_format({"num_format": "#,##0.##"})
        for column, (name, width) in enumerate(zip(names, _widths(marginal, names), strict=True)):
            sheet.set_column(column, column, width, count if column >= len(marginal.attributes) else None)
            sheet.write_string(0, column, name, bold)
        for row, (texts, values) in enumerate(zip(labels, numbers, strict=True), start=1):
            _write_row(sheet, row, texts, values)
        sheet.freeze_panes(1, len(marginal.attributes))
        sheet.autofilter(0, 0, marginal.schema.cells, len(names) - 1)
        about = book.add_worksheet("about")
        about.set_column(0, 0, 14)
        about.set_column(1, 1, 100, book.add_format({"text_wrap": True}))
        for row, (word, sentence) in enumerate(_about(marginal, level)):
            about.write_string(row, 0, word)
            about.write_string(row, 1, sentence)


def _write_row(sheet: Any, row: int, texts: Sequence[str], values: Sequence[float | None]) -> None:
    for column, text in enumerate(texts):
        sheet.write_string(row, column, text)
    for column, value in enumerate(values, start=len(texts)):
        if value is not None:
            sheet.write_number(row, column, value)


def _check(marginal: Marginal) -> None:
    if marginal.schema.cells > _MOST_ROWS:
        raise QueryError(
            f"a sheet of Excel must have at most {_MOST_ROWS:,} rows, got {marginal.schema.cells:,}; write CSV or "
            "Parquet"
        )
    texts = (text for attribute in marginal.schema.attributes for text in (attribute.name, *attribute.labels))
    if any(len(text) > _LONGEST_TEXT for text in texts):
        raise QueryError(f"a cell of Excel must have at most {_LONGEST_TEXT:,} characters; write CSV or Parquet")


def _widths(marginal: Marginal, names: Sequence[str]) -> Iterator[int]:
    longest = [max(map(len, attribute.labels)) for attribute in marginal.schema.attributes]
    for name, labels in zip(names, [*longest, *[0] * len(MEASURES)], strict=True):
        yield max(_NARROWEST, min(_WIDEST, max(len(name) + 3, labels) + 1))


def _about(marginal: Marginal, level: float | None) -> Iterator[tuple[str, str]]:
    yield "table", " by ".join(marginal.attributes) or "number of rows"
    if marginal.where:
        yield "where", marginal.where
    yield "source", f"crosstally release, {marginal.caption}"
    yield "method", marginal.method
    yield "error", marginal.error_kind.value
    ends = "count_low and count_high are the ends of an interval that holds the true count with this confidence"
    yield "intervals", f"{USUAL_LEVEL if level is None else level:.4g}: {ends}. Empty cells are not known."
