"""Sheets of workbooks: Excel and OpenDocument."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from crosstally.checks import optional
from crosstally.errors import SourceError
from crosstally.sources.option_words import how_to_say
from crosstally.sources.reading import Reading

__all__ = ["open_sheet"]

# fastexcel writes a date as a moment with a blank; CSV files have the date, or a T between the two.
_MIDNIGHT = r"^(\d{4}-\d{2}-\d{2}) 00:00:00$"
_MOMENT = r"^(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}:\d{2}(?:\.\d+)?)$"


def open_sheet(
    path: Path, reading: Reading
) -> tuple[list[str], Callable[[Sequence[str]], Iterator[tuple[pa.RecordBatch, int]]]]:
    """The names of a sheet's columns, and a function that reads some of them."""
    cells = _cells(path, reading)
    line = 1 if reading.header is None else reading.header
    if line and cells.num_rows < line:
        raise SourceError(f"cannot read {str(path)!r}: it is empty, without even a header")
    names = [f"column_{place}" for place in range(1, cells.num_columns + 1)]
    if line:
        names = [column[line - 1].as_py() or "" for column in cells.columns]
    return names, lambda chosen: _read(cells.slice(line), names, chosen, path.stat().st_size)


def _cells(path: Path, reading: Reading) -> pa.RecordBatch:
    """All cells as texts, the names among them.

    As texts, since a type for a whole column would depend on all its rows: one word in it would change how the dates of
    others are written.
    """
    path.stat()  # the system's own error, when it is not there
    book = optional("fastexcel", extra="files").read_excel(str(path))
    sheet = _sheet(path, book.sheet_names, reading.sheet)
    loaded = book.load_sheet(sheet, header_row=None, schema_sample_rows=None, dtypes="string")
    return pa.record_batch(loaded)


def _sheet(path: Path, names: Sequence[str], wanted: str | int | None) -> Any:
    if wanted is None and len(names) == 1:
        return 0
    if wanted is None:
        raise SourceError(f"{str(path)!r} has {len(names)} sheets: say {how_to_say('sheet')}, its name or its number")
    place = names.index(wanted) if wanted in names else int(wanted) - 1 if str(wanted).isdecimal() else len(names)
    if not 0 <= place < len(names):
        raise SourceError(f"{str(path)!r} has no sheet {wanted!r} among its {len(names)}")
    return place


def _read(
    cells: pa.RecordBatch, names: Sequence[str], chosen: Sequence[str], size: int
) -> Iterator[tuple[pa.RecordBatch, int]]:
    # A row without any cell is not a person: programs leave such rows behind when rows are deleted.
    filled = pa.array([False] * cells.num_rows)
    for column in cells.columns:
        filled = pc.or_(filled, column.is_valid())
    columns = [_texts(cells.column(names.index(name)).filter(filled)) for name in chosen]
    yield pa.record_batch(columns, names=list(chosen)), size


def _texts(column: pa.Array) -> pa.Array:
    texts = pc.cast(column, pa.large_string())
    return pc.replace_substring_regex(pc.replace_substring_regex(texts, _MIDNIGHT, r"\1"), _MOMENT, r"\1T\2")
