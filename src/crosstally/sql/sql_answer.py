"""A statement answered: rows of labels and numbers, each number with both ends of its interval."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.answers.marginal import check_level
from crosstally.checks import optional
from crosstally.errors import QueryError
from crosstally.html_text import MOST_ROWS, html_table
from crosstally.schema import Schema
from crosstally.sql.evaluate import Evaluation
from crosstally.sql.group_by import DIGITS, GroupBy, Tables
from crosstally.sql.select_statement import Select, branches_of_case, condition_of_sql, expressions, read_statement
from crosstally.text_table import aligned
from crosstally.typing import Floats

__all__ = ["SqlAnswer", "answer_sql"]

_SHOWN_ROWS = 10  # rows at the prompt, where nothing is longer than twelve lines


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SqlAnswer:
    """The rows of a statement's answer: columns in the order selected, behind each number its ``_low`` and ``_high``.

    ``level`` is how sure the intervals are, ``caption`` where the answer comes from.
    """

    columns: dict[str, tuple[str | float | None, ...]]
    _: KW_ONLY
    level: float
    caption: str = ""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def rows(self) -> list[tuple[str | float | None, ...]]:
        """The rows, each as a tuple."""
        return list(zip(*self.columns.values(), strict=True))

    def __repr__(self) -> str:
        texts = [list(self.columns), *([_shown(cell) for cell in row] for row in self.rows()[:_SHOWN_ROWS])]
        lines = aligned(texts, left=self._label_columns())
        more = len(self) - _SHOWN_ROWS
        return "\n".join([*lines, *([f"... {more:,} more rows"] if more > 0 else [])])

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
    try:
        return _answered(text, schema, tables, level=level, caption=caption)
    except RecursionError:
        raise QueryError("the statement is nested too deeply; ask a simpler one") from None


def _answered(text: str, schema: Schema, tables: Tables, *, level: float, caption: str) -> SqlAnswer:
    statement = read_statement(text, schema)
    condition = None if statement.where is None else condition_of_sql(statement.where, schema)
    cases = {name: branches_of_case(case, schema) for name, case in statement.cases.items()}
    evaluation = Evaluation(statement, GroupBy(schema, tables, condition, statement.sets, level, cases), tables)
    if statement.having is not None:
        evaluation.kept = np.flatnonzero(evaluation.holds(statement.having))
    columns: dict[str, tuple[str | float | None, ...]] = {}
    order = _order(statement, evaluation)
    for item in statement.items:
        labels = evaluation.labels(item.node)
        if labels is not None:
            _add(columns, item.name, tuple(labels[row] for row in order))
        else:
            numbers = evaluation.numbers(item.node).take(order)
            _add(columns, item.name, _column(numbers.value))
            if not _is_exact(item.node):
                _add(columns, f"{item.name}_low", _column(numbers.low))
                _add(columns, f"{item.name}_high", _column(numbers.high))
    return SqlAnswer(columns, level=level, caption=caption)


def _add(columns: dict[str, tuple[str | float | None, ...]], name: str, column: tuple[str | float | None, ...]) -> None:
    while name in columns:
        name += "_"
    columns[name] = column


def _is_exact(node: Any) -> bool:
    exp = expressions()
    return isinstance(node, exp.Grouping | exp.Literal)


def _column(numbers: Floats) -> tuple[float | None, ...]:
    return tuple(round(each, DIGITS) + 0.0 if math.isfinite(each) else None for each in numbers.tolist())


def _order(statement: Select, evaluation: Evaluation) -> NDArray[np.intp]:
    """The rows in the order of ORDER BY, of LIMIT and OFFSET. Labels are sorted as the schema has them, NULLs last."""
    keys: list[Floats] = []
    for each in statement.order:
        column = _sorted_by(each.this, statement, evaluation)
        nothing = np.isnan(column)
        keys += [
            nothing != bool(each.args.get("nulls_first")),
            np.where(nothing, 0, -column if each.args.get("desc") else column),
        ]
    rows = np.lexsort(keys[::-1]) if keys else np.arange(len(evaluation.kept))
    end = None if statement.limit is None else statement.offset + statement.limit
    return np.asarray(rows[statement.offset : end], np.intp)


def _sorted_by(node: Any, statement: Select, evaluation: Evaluation) -> Floats:
    exp = expressions()
    if isinstance(node, exp.Literal) and node.is_int:
        if not 1 <= int(node.name) <= len(statement.items):
            raise QueryError(f"ORDER BY {node.name} must be one of the {len(statement.items)} columns selected")
        node = statement.items[int(node.name) - 1].node
    if isinstance(node, exp.Column):
        named = [item.node for item in statement.items if item.name.lower() == node.name.lower()]
        node = named[0] if named else node
    places = evaluation.places(node)
    return np.round(evaluation.numbers(node).value, DIGITS) if places is None else places


def _array(column: tuple[str | float | None, ...]) -> pa.Array:
    texts = any(isinstance(cell, str) for cell in column)
    return pa.array(column, pa.string() if texts else pa.float64())


def _shown(cell: str | float | None) -> str:
    if cell is None:
        return "NULL"
    return cell if isinstance(cell, str) else f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.4g}"
