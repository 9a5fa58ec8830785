"""Tables as text: labels down the side, numbers with their errors."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crosstally.schema import Schema

MAX_ROWS = 20  # lines of a table in text by default: a screen
MAX_WIDTH = 100  # columns of a line by default: what terminals and notebooks show without wrapping
MAX_ACROSS = 6  # values of the last attribute that stand side by side; with more, every cell has a line


def cell_text(count: float, std_error: float) -> str:
    """A count and its error as people write them.

    >>> cell_text(1234.4, 21.3), cell_text(-3.2, 6), cell_text(70, math.nan), cell_text(48842, 0)
    ('1,234 ± 21', '-3 ± 6.0', '70 ± ?', '48,842 ± 0')
    >>> cell_text(math.nan, 3)
    '..'
    """
    if math.isnan(count):  # not shown: too unreliable
        return ".."
    return f"{_whole(count)} ± {_error(std_error)}"


def interval_text(count: float, low: float, high: float) -> str:
    """A count and the ends of its interval.

    >>> interval_text(1184.6, 1120, 1260)
    '1,185 (1,120 to 1,260)'
    """
    if math.isnan(count):  # as in ``cell_text``
        return ".."
    return f"{_whole(count)} ({_whole(low)} to {_whole(high)})"


def figure_text(value: float, low: float, high: float, *, percent: bool = False) -> str:
    """A number that is no count, and the ends of its interval, with as many digits as the interval bears.

    >>> figure_text(0.12345, 0.118, 0.129), figure_text(0.12345, 0.118, 0.129, percent=True)
    ('0.123 (0.118 to 0.129)', '12.3% (11.8% to 12.9%)')
    >>> figure_text(-1234.5, -1300.2, -1150), figure_text(0.5, math.nan, math.nan), figure_text(math.nan, 0, math.inf)
    ('-1,234 (-1,300 to -1,150)', '0.5 (?)', '? (0 to inf)')
    """
    factor, sign = (100.0, "%") if percent else (1.0, "")
    value, low, high = factor * value, factor * low, factor * high
    width = high - low
    digits = 3 if not math.isfinite(width) else 2 - math.floor(math.log10(width)) if width > 0 else 3
    digits = min(max(digits - 1, 0), 9)

    def text(number: float) -> str:
        if not math.isfinite(number):
            return "?" if math.isnan(number) else f"{number}"
        return f"{number:,.{digits}f}{sign}" if math.isfinite(width) else f"{number:,.3g}{sign}"

    return f"{text(value)} (?)" if math.isnan(width) else f"{text(value)} ({text(low)} to {text(high)})"


def _whole(count: float) -> str:
    return f"{round(count) if math.isfinite(count) else count:,}"


def _error(std_error: float) -> str:
    if math.isnan(std_error):
        return "?"
    if std_error >= 9.95 or std_error == 0:
        return f"{std_error:,.0f}"
    return f"{std_error:.1f}" if std_error >= 0.95 else f"{std_error:.2g}"


def text_table(
    schema: Schema,
    values: NDArray[np.float64],
    std_error: NDArray[np.float64] | float,
    *,
    quantity: str = "count",
    interval: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
    rows: int = MAX_ROWS,
) -> list[str]:
    """The lines of a table; its last attribute runs across when it is short, and tables of more ``rows`` are cut.

    Cells have the ends of their ``interval`` where it is given, otherwise their standard error.

    >>> from crosstally.schema import Attribute
    >>> schema = Schema([Attribute("age", edges=[0, 18, 120]), Attribute("sex", ["Female", "Male"])])
    >>> for line in text_table(schema, np.array([[1200.0, 34], [5, 6]]), 21):
    ...     print(line)
    age            Female     Male
    [0, 18)    1,200 ± 21  34 ± 21
    [18, 120]      5 ± 21   6 ± 21
    """
    heads, body, left = cell_rows(schema, values, std_error, quantity=quantity, interval=interval, rows=rows)
    lines = aligned([heads, *body], left=left)
    more = values.size // max(len(heads) - left, 1) - rows
    return [*lines, f"... {more:,} more lines"] if more > 0 else lines


def cell_rows(
    schema: Schema,
    values: NDArray[np.float64],
    std_error: NDArray[np.float64] | float,
    *,
    quantity: str = "count",
    interval: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
    rows: int = MAX_ROWS,
    width: int = MAX_WIDTH,
) -> tuple[list[str], list[list[str]], int]:
    """The heads of the columns, the first rows of cells, and how many columns hold labels.

    The last attribute runs across when it is short and the rows are at most ``width`` letters long then.
    """
    across = len(schema.attributes) >= 2 and schema.shape[-1] <= MAX_ACROSS
    cells = rows * (schema.shape[-1] if across else 1)
    texts = _texts(values.ravel(), np.broadcast_to(std_error, values.shape).ravel(), quantity, interval, cells)
    found = _rows(schema, texts, quantity, rows, across=1 if across else 0)
    if across and _width(aligned([found[0], *found[1]], left=found[2])[0]) > width:
        found = _rows(schema, texts, quantity, rows, across=0)
    return found


def _texts(
    values: NDArray[np.float64],
    errors: NDArray[np.float64],
    quantity: str,
    interval: tuple[NDArray[np.float64], NDArray[np.float64]] | None,
    most: int,
) -> list[str]:
    """The first cells as text."""
    if interval is None:
        return [cell_text(float(n), float(e)) for n, e in zip(values[:most], errors[:most], strict=True)]
    ends = zip(values[:most], *(np.ravel(each)[:most] for each in interval), strict=True)
    if quantity == "count":
        return [interval_text(*map(float, three)) for three in ends]
    return [figure_text(*map(float, three), percent=quantity == "share") for three in ends]


def _rows(
    schema: Schema, cells: Sequence[str], quantity: str, most: int, *, across: int
) -> tuple[list[str], list[list[str]], int]:
    """The table with its last attributes, none or one, across."""
    down = schema.attributes[: len(schema.attributes) - across]
    shape = tuple(attribute.size for attribute in down)
    columns = schema.shape[-1] if across else 1
    heads = [attribute.name for attribute in down]
    heads += list(schema.attributes[-1].labels) if across else [quantity]
    body = []
    for i in range(min(math.prod(shape), most)):
        codes = np.unravel_index(i, shape) if shape else ()
        texts = [own.labels[code] for own, code in zip(down, codes, strict=True)]
        body.append([*texts, *cells[i * columns : (i + 1) * columns]])
    return heads, body, len(down)


def aligned(rows: Sequence[Sequence[str]], *, left: int) -> list[str]:
    """Rows of texts as lines: the first ``left`` columns flush left, the others flush right."""
    widths = [max(_width(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = []
        for i, text in enumerate(row):
            space = " " * (widths[i] - _width(text))
            cells.append(text + space if i < left else space + text)
        lines.append("  ".join(cells).rstrip())
    return lines


def _width(text: str) -> int:
    """How many columns a terminal gives a text: none to combining marks, two to wide characters."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
