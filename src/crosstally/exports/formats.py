"""Every format of a file that holds an answer: the command line, the pages and the API offer what stands here.

A new format is a function in a module beside this one, and an entry in ``FORMATS``.

The labelled cells of an answer: what every format writes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from importlib import import_module
from itertools import product
from typing import TYPE_CHECKING

from crosstally.errors import QueryError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from crosstally.answers.marginal import Marginal
    from crosstally.schema import Schema
    from crosstally.typing import Floats


@dataclass(frozen=True, slots=True)
class Written:
    """A table that is to be written: the level of its intervals (95% if None), and labels ``raw`` or inert in CSV.

    With ``draws`` each draw has a column, in formats that take them. ``whole`` is the schema of its release, which has
    the values that a condition left out.
    """

    table: Marginal
    level: float | None = None
    _: KW_ONLY
    raw: bool = False
    draws: bool = False
    whole: Schema


@dataclass(frozen=True, slots=True)
class Format:
    """A format: what people call it, its media type, the ending of its files, and what writes it.

    The writer is a function of a module of this package, which is imported when a file is written. It takes a table,
    the level of its intervals, and those fields of ``Written`` that are its ``options``. It is offered at the terminal,
    on the web, or at both. One that is ``streamed`` is written in pieces, and so may hold the largest tables.
    """

    label: str
    media_type: str
    ending: str
    writer: str
    _: KW_ONLY
    streamed: bool = False
    terminal: bool = True
    web: bool = True
    options: tuple[str, ...] = ()

    @property
    def is_json(self) -> bool:
        """Whether characters may be escaped in it."""
        return self.media_type == "application/json"

    @property
    def is_text(self) -> bool:
        """Whether it may go to a terminal."""
        return self.is_json or self.media_type.startswith("text/")


def written(name: str, asked: Written) -> Iterator[bytes]:
    """The file in a format, in pieces."""
    form = FORMATS[name]
    if asked.draws and "draws" not in form.options:
        known = [each for each, own in FORMATS.items() if "draws" in own.options]
        raise QueryError(f"draws are written as {' or '.join(known)}, not as {name}")
    module, function = form.writer.split(".")
    write = getattr(import_module(f"crosstally.exports.{module}"), function)
    found = write(asked.table, level=asked.level, **{option: getattr(asked, option) for option in form.options})
    parts = [found] if isinstance(found, str | bytes) else found
    return (part.encode() if isinstance(part, str) else part for part in parts)


_CSV, _JSON, _PARQUET = "text/csv; charset=utf-8", "application/json", "application/vnd.apache.parquet"
_EXCEL = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"

FORMATS: Mapping[str, Format] = {
    "csv": Format("CSV", _CSV, "csv", "csv_table.csv_pieces", streamed=True, options=("raw", "draws")),
    "json": Format("JSON", _JSON, "json", "json_tables.json_text", web=False),
    "json-stat": Format("JSON-stat", _JSON, "json", "json_tables.json_stat_text", web=False),
    "parquet": Format(
        "Parquet", _PARQUET, "parquet", "parquet_table.parquet_pieces", streamed=True, options=("draws",)
    ),
    "xlsx": Format("XLSX", _EXCEL, "xlsx", "xlsx.xlsx_bytes"),
    "json-stat2": Format(
        "JSON-stat", _JSON, "json", "json_tables.json_stat_coded_text", terminal=False, options=("whole",)
    ),
    "px": Format("PX", "text/plain; charset=utf-8", "px", "px.px_text"),
    "sdmx-csv": Format("SDMX-CSV", _CSV, "sdmx.csv", "csv_table.sdmx_csv_text"),
}
"""All formats by the names that options and addresses have, in the order in which they are offered."""


MEASURES = ("count", "std_error", "count_low", "count_high")
"""What is said about each cell: its count, its standard error and the ends of its interval."""

_ROWS = 50_000  # of a piece: a few megabytes of text
_DIGITS = 9  # after the point; counts are whole and their errors seldom below 0.01


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: its labels in the order of the axes, its count, its standard error and the ends of its interval.

    What is not known is NaN.
    """

    labels: tuple[str, ...]
    count: float
    std_error: float
    low: float
    high: float


def labelled_cells(marginal: Marginal, *, level: float | None = None) -> Iterator[Cell]:
    """The cells of a table, the last attribute fastest; intervals are of 95% where no level is asked."""
    labels = product(*(attribute.labels for attribute in marginal.schema.attributes))
    for own, *each in zip(labels, *(array.ravel().tolist() for array in _numbers(marginal, level)), strict=True):
        yield Cell(own, *each)


def measures(marginal: Marginal, *, level: float | None = None) -> list[list[float | None]]:
    """The numbers of each of ``MEASURES``, the last attribute fastest; None in the place of NaN.

    Intervals are 95% sure unless a level is said.
    """
    arrays = _numbers(marginal, level)
    return [[known(without_dust(number)) for number in array.ravel().tolist()] for array in arrays]


def _numbers(marginal: Marginal, level: float | None) -> tuple[Floats, ...]:
    ends = marginal.interval() if level is None else marginal.interval(level)
    return marginal.values, marginal.std_error, *ends


def number_names(marginal: Marginal, *, draws: bool = False) -> list[str]:
    """The names of the columns of numbers: of ``MEASURES``, and of draws where they are wanted."""
    return [*marginal.number_columns(), *marginal.interval_columns(), *(marginal.draw_columns() if draws else ())]


def pieces(
    marginal: Marginal, *, level: float | None = None, draws: bool = False
) -> Iterator[tuple[list[NDArray[np.intp]], list[Floats]]]:
    """The codes of each attribute and the numbers of each column, some cells at a time, for large files."""
    import numpy as np  # here: the terminal draws cells, and starts without it

    columns = [*_numbers(marginal, level), *(marginal.draws() if draws else ())]
    numbers = [np.asarray(each).reshape(-1) for each in columns]
    for start in range(0, marginal.values.size, _ROWS):
        indices = np.arange(start, min(start + _ROWS, marginal.values.size))
        codes = list(np.unravel_index(indices, marginal.values.shape)) if marginal.values.ndim else []
        yield codes, [each[indices] for each in numbers]


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, with underscores behind it while it is taken: columns of numbers give way to attributes."""
    while name in taken:
        name += "_"
    return name


def margins(marginal: Marginal, level: float | None) -> NDArray[np.float64]:
    """What follows ± in each cell: half the width of the interval, or the standard error where no level is asked."""
    return marginal.std_error if level is None else marginal.half_width(level)


def common(errors: NDArray[np.float64]) -> float | None:
    """The number that all cells share; None where they differ or none is known."""
    first = float(errors.flat[0])
    return known(first) if (errors == first).all() else None


def known(number: float) -> float | None:
    """The number, or None in the place of NaN, which JSON does not have."""
    return number if math.isfinite(number) else None


def without_dust(count: float) -> float:
    """The count without the dust of floating point: 4.0 where 3.9999999999999982 was computed."""
    return round(count, _DIGITS) + 0.0
