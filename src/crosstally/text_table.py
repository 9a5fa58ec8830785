"""Tables as text: labels down the side, numbers with their errors."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from crosstally.schema import Schema

__all__ = ["aligned", "cell_text", "interval_text", "text_table"]

MAX_ROWS = 20
MAX_WIDTH = 100
MAX_ACROSS = 6


def cell_text(count: float, std_error: float) -> str:
    """A count and its error as people write them.

    >>> cell_text(1234.4, 21.3), cell_text(-3.2, 6), cell_text(70, math.nan), cell_text(48842, 0)
    ('1,234 ± 21', '-3 ± 6.0', '70 ± ?', '48,842 ± 0')
    """
    return f"{_whole(count)} ± {_error(std_error)}"


def interval_text(count: float, low: float, high: float) -> str:
    """A count and the ends of its interval.

    >>> interval_text(1184.6, 1120, 1260)
    '1,185 (1,120 to 1,260)'
    """
    return f"{_whole(count)} ({_whole(low)} to {_whole(high)})"


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
    interval: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
) -> list[str]:
    """The lines of a table; its last attribute runs across when it is short, and long tables are cut.

    Cells have the ends of their ``interval`` where it is given, otherwise their standard error.

    >>> from crosstally.schema import Attribute
    >>> schema = Schema([Attribute("age", edges=[0, 18, 120]), Attribute("sex", ["Female", "Male"])])
    >>> for line in text_table(schema, np.array([[1200.0, 34], [5, 6]]), 21):
    ...     print(line)
    age            Female     Male
    [0, 18)    1,200 ± 21  34 ± 21
    [18, 120]      5 ± 21   6 ± 21
    """
    across = len(schema.attributes) >= 2 and schema.shape[-1] <= MAX_ACROSS
    text: Callable[..., str] = cell_text if interval is None else interval_text
    numbers = (values, *(interval or (np.broadcast_to(std_error, values.shape),)))
    lines = _lines(schema, text, numbers, across=1 if across else 0)
    if across and _width(lines[0]) > MAX_WIDTH:
        lines = _lines(schema, text, numbers, across=0)
    return lines


def _lines(
    schema: Schema, text: Callable[..., str], numbers: Sequence[NDArray[np.float64]], *, across: int
) -> list[str]:
    """The table with its last attributes, none or one, across."""
    down = schema.attributes[: len(schema.attributes) - across]
    shape = tuple(attribute.size for attribute in down)
    rows = [each.reshape(math.prod(shape), -1) for each in numbers]
    labels = [attribute.labels for attribute in down]
    heads = [attribute.name for attribute in down]
    heads += list(schema.attributes[-1].labels) if across else ["count"]
    body = []
    for i in range(min(len(rows[0]), MAX_ROWS)):
        codes = np.unravel_index(i, shape) if shape else ()
        texts = [own[code] for own, code in zip(labels, codes, strict=True)]
        body.append([*texts, *(text(*each) for each in zip(*(row[i].tolist() for row in rows), strict=True))])
    lines = aligned([heads, *body], left=len(down))
    if len(rows[0]) > MAX_ROWS:
        lines.append(f"... {len(rows[0]) - MAX_ROWS:,} more lines")
    return lines


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
