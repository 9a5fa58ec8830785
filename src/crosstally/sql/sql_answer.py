"""A statement answered: rows of labels and numbers, each number with both ends of its interval."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from itertools import takewhile
from typing import Any

import pyarrow as pa

from crosstally.answers.marginal import check_level
from crosstally.checks import optional
from crosstally.errors import QueryError
from crosstally.html_text import MOST_ROWS, html_table
from crosstally.schema import Schema
from crosstally.sql.group_by import Tables
from crosstally.text_table import aligned

_SHOWN_ROWS = 10  # rows at the prompt, where nothing is longer than twelve lines


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SqlAnswer:
    """The rows of a statement's answer: columns in the order selected, behind each number its ``_low`` and ``_high``.

    ``level`` is how sure the intervals are, ``caption`` where the answer comes from, ``counted`` what
    counts are of if rows are bounded.
    """

    columns: dict[str, tuple[str | float | None, ...]]
    _: KW_ONLY
    level: float
    caption: str = ""
    counted: str = ""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def rows(self) -> list[tuple[str | float | None, ...]]:
        """The rows, each as a tuple."""
        return list(zip(*self.columns.values(), strict=True))

    def __repr__(self) -> str:
        texts = [list(self.columns), *([_shown(cell) for cell in row] for row in self.rows()[:_SHOWN_ROWS])]
        lines = aligned(texts, left=self._label_columns())
        more = len(self) - _SHOWN_ROWS
        lines += [f"... {more:,} more rows"] if more > 0 else []
        return "\n".join([*lines, *self.notes()])

    def notes(self) -> list[str]:
        """What is counted, if rows are bounded."""
        return [f"counts of {self.counted}"] if self.counted else []

    def _label_columns(self) -> int:
        """How many columns of labels stand before the first one of numbers."""
        texts = (any(isinstance(cell, str) for cell in column) for column in self.columns.values())
        return len(list(takewhile(bool, texts)))

    def _repr_html_(self) -> str:
        rows = [["" if cell is None else _shown(cell) for cell in row] for row in self.rows()[:MOST_ROWS]]
        note = f"_low and _high are the ends of {100 * self.level:.4g}% intervals"
        note += f" ({self.caption})" if self.caption else ""
        return html_table(list(self.columns), rows, note=note, left=self._label_columns(), more=len(self) - MOST_ROWS)

    def to_arrow(self) -> pa.Table:
        """A row for each row: texts and numbers."""
        return pa.table({name: _array(column) for name, column in self.columns.items()})

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """A pandas DataFrame."""
        optional("pandas", extra="frames")
        return self.to_arrow().to_pandas()


def answer_sql(text: str, schema: Schema, tables: Tables, *, level: float = 0.95, caption: str = "") -> SqlAnswer:
    """Answer a statement from tables.

    Args:
        text: One SELECT.
        schema: The attributes there are.
        tables: What answers tables over attributes, under a condition.
        level: How sure the intervals are.
        caption: Where the tables come from.
    """
    check_level(level)
    optional("sqlglot", extra="sql")  # or importing what follows would fail without a hint
    from crosstally.sql.evaluate import answered

    try:
        columns = answered(text, schema, tables, level)
        return SqlAnswer(columns, level=level, caption=caption, counted=schema.bounded_words)
    except RecursionError:
        raise QueryError("the statement is nested too deeply; ask a simpler one") from None


def _array(column: tuple[str | float | None, ...]) -> pa.Array:
    texts = any(isinstance(cell, str) for cell in column)
    return pa.array(column, pa.string() if texts else pa.float64())


def _shown(cell: str | float | None) -> str:
    if cell is None:
        return "NULL"
    return cell if isinstance(cell, str) else f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.4g}"
