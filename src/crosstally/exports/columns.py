"""Columns of labels and numbers as CSV and JSON: what a statement of SQL gives."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence

from crosstally.exports.inert import inert

__all__ = ["Columns", "columns_csv", "columns_json"]

Columns = Mapping[str, Sequence[str | float | None]]


def columns_csv(columns: Columns, *, raw: bool = False) -> str:
    """A line for each row; NULL is empty. Labels that a spreadsheet would run are inert, unless wanted ``raw``."""
    text_of = str if raw else inert
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(text_of, columns))
    for row in zip(*columns.values(), strict=True):
        writer.writerow(
            [text_of(cell) if isinstance(cell, str) else "" if cell is None else repr(cell) for cell in row]
        )
    return text.getvalue()


def columns_json(columns: Columns, about: Mapping[str, str | float]) -> str:
    """An object with what is to be said about the rows, and the rows, each an object."""
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return json.dumps({**about, "rows": rows}, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
