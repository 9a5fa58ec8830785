"""What is selected, asked of groups, and sorted by: trees of SQL into columns."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.changes import Change
from crosstally.errors import QueryError
from crosstally.query.conditions import Condition, number_of_text, shown
from crosstally.schema import Schema
from crosstally.schema.attribute import MISSING
from crosstally.sql.group_by import DIGITS, NULL, GroupBy, SqlNumbers, Tables
from crosstally.sql.select_statement import (
    Select,
    branches_of_case,
    case_name,
    condition_of_sql,
    constant,
    exp,
    labels_in_case,
    not_missing,
    read_statement,
    refused,
    refused_window,
)
from crosstally.typing import Floats

_DEEPEST = 50  # nested brackets and operators
_MOST_DIGITS = 15  # of ROUND: a double has no more
_WHOLE = ("INT", "BIGINT", "SMALLINT", "TINYINT", "HUGEINT")
_FRACTIONS = ("DOUBLE", "FLOAT")  # not DECIMAL, which rounds to as many digits as it says
_NO_CONSTANT = "{}, where a constant must stand,"
_OPERATIONS: dict[Any, Callable[[SqlNumbers, SqlNumbers], SqlNumbers]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
}
_COMPARISONS: dict[Any, Any] = {
    exp.EQ: np.equal, exp.NEQ: np.not_equal, exp.LT: np.less, exp.LTE: np.less_equal, exp.GT: np.greater,
    exp.GTE: np.greater_equal,
}  # fmt: skip


class Evaluation:
    """A statement's expressions over its groups; ``kept`` are the rows that HAVING left, all of them before it."""

    def __init__(self, statement: Select, groups: GroupBy, tables: Tables) -> None:
        self.statement, self.groups, self.tables = statement, groups, tables
        self.kept: NDArray[np.intp] = np.arange(groups.rows)

    @property
    def _filtered(self) -> bool:
        return len(self.kept) < self.groups.rows

    # Keys

    def key(self, node: Any) -> NDArray[np.intp] | None:
        """The codes of a key in each row, where the tree is a column or a CASE that stands in GROUP BY."""
        name = self._key_name(node)
        return None if name is None else self._codes(name)

    def _codes(self, name: str) -> NDArray[np.intp]:
        return self.groups.codes[name][self.kept]

    def _key_name(self, node: Any) -> str | None:
        if isinstance(node, exp.Case):
            return case_name(node) if case_name(node) in self.groups.codes else None
        if isinstance(node, exp.Column) and isinstance(self._aliased(node), exp.Case):
            return self._key_name(self._aliased(node))
        if not isinstance(node, exp.Column) or self._aliased(node) is not None:
            return None
        name = self.statement.attribute(node)
        if name not in self.groups.codes:
            raise QueryError(f"{name!r} must stand in GROUP BY, or in a condition")
        return name

    def labels(self, node: Any) -> list[str | None] | None:
        """The texts of a column of labels, where the tree is one: an attribute, or COALESCE of one and a text."""
        name = self._key_name(node)
        return self._texts(node) if name is None else self._taken(name, self.groups.labels_of(name))

    def _texts(self, node: Any) -> list[str | None] | None:
        """The same as SQL sees it, to whom a missing value is NULL."""
        if isinstance(node, exp.Coalesce) and len(node.expressions) == 1:
            inner, other = self._texts(node.this), node.expressions[0]
            if inner is not None and isinstance(other, exp.Literal):
                return [other.name if each is None else each for each in inner]
        if isinstance(node, exp.Literal) and node.is_string:
            return [node.name] * len(self.kept)
        name = self._key_name(node)
        return None if name is None else self._taken(name, self._known_labels(name))

    def _taken(self, name: str, by_code: list[Any]) -> list[Any]:
        return [by_code[code] for code in self._codes(name).tolist()]

    def _known_labels(self, name: str) -> list[str | None]:
        """The label of each code of a key, None for a missing value; the last one, which NULL finds, is None."""
        labels = self.groups.labels_of(name)
        return labels if name in self.groups.cases else [None if each == MISSING else each for each in labels]

    def places(self, node: Any) -> Floats | None:
        """Where each row's label stands among all, NaN for NULL; None where the tree is no column of labels.

        Labels of attributes stand as the schema has them, those of a CASE as texts or numbers do, and a text that
        COALESCE puts for NULL behind all labels, unless it is one of them.
        """
        if isinstance(node, exp.Coalesce) and len(node.expressions) == 1:
            inner, name = self.places(node.this), self._key_name(node.this)
            if inner is None or name is None:
                return None
            known = self._known_labels(name)
            other = node.expressions[0].name
            return np.where(np.isnan(inner), known.index(other) if other in known else len(known), inner)
        name = self._key_name(node)
        if name is None:
            return None
        labels = self._known_labels(name)
        order = [each for each in labels if each is not None]
        if name in self.groups.cases:
            of_texts = all(each.is_string for each in labels_in_case(self.statement.cases[name]))
            order.sort(key=str if of_texts else number_of_text)  # type: ignore[arg-type]
        by_code = [np.nan if each is None else float(order.index(each)) for each in labels]
        return np.array(self._taken(name, by_code), np.float64)

    def _aliased(self, column: Any) -> Any:
        """What a name stands for that SELECT gave: never an attribute's own, which comes first."""
        names = {each.lower() for each in self.statement.schema.names}
        for name, node in self.statement.items:
            if name.lower() == column.name.lower() and name.lower() not in names:
                return None if isinstance(node, exp.Column) and node.name == column.name else node
        return None

    # SqlNumbers

    def numbers(self, node: Any, depth: int = 0) -> SqlNumbers:
        """The column of numbers that a tree is."""
        if depth > _DEEPEST:
            raise QueryError("the statement is nested too deeply")
        if isinstance(node, exp.Paren):
            return self.numbers(node.this, depth + 1)
        if isinstance(node, exp.Literal) and not node.is_string:
            return SqlNumbers.exactly(float(node.name), len(self.kept))
        if isinstance(node, exp.Neg):
            return -self.numbers(node.this, depth + 1)
        if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
            return self._operation(node, depth)
        if isinstance(node, exp.Cast | exp.Round | exp.Nullif):
            return self._changed(node, depth)
        if isinstance(node, exp.Window):
            return self._window(node, depth)
        if isinstance(node, exp.Grouping):
            return SqlNumbers.exactly(self._grouping(node), len(self.kept))
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
            return self._one_number(node.this)
        if isinstance(node, exp.Column):
            aliased = self._aliased(node)
            if aliased is not None:
                return self.numbers(aliased, depth + 1)
        return self.groups.count(self._counted(node)).take(self.kept)

    def _operation(self, node: Any, depth: int) -> SqlNumbers:
        left, right = self.numbers(node.this, depth + 1), self.numbers(node.expression, depth + 1)
        if not isinstance(node, exp.Div):
            return _OPERATIONS[type(node)](left, right)
        most = _greatest_share(node.this, node.expression)
        return left / right if most is None else (left / right).within(0.0, most)

    def _changed(self, node: Any, depth: int) -> SqlNumbers:
        inner = self.numbers(node.this, depth + 1)
        if isinstance(node, exp.Cast):
            if node.to.this.name not in (*_WHOLE, *_FRACTIONS):
                raise refused(f"a CAST to {node.to.sql('duckdb')}")
            return inner.changed(np.rint) if node.to.this.name in _WHOLE else inner
        if isinstance(node, exp.Round):
            digits = _number(node.args.get("decimals") or exp.Literal.number(0))
            if digits not in range(-_MOST_DIGITS, _MOST_DIGITS + 1):
                raise QueryError(f"ROUND takes a whole number of digits from -{_MOST_DIGITS} to {_MOST_DIGITS}")
            return inner.changed(lambda column: _rounded(column, int(digits)))
        nothing = _number(node.expression)
        return replace(inner, value=np.where(inner.value == nothing, np.nan, inner.value))

    def _counted(self, node: Any) -> Condition | None:
        """The people that an aggregate counts: all of a group, or those with a condition."""
        schema = self.statement.schema
        if isinstance(node, exp.Filter) and self._counted(node.this) is None:
            return condition_of_sql(node.expression.this, schema)
        if isinstance(node, exp.Count) and isinstance(node.this, exp.Star | exp.Literal):
            return None
        if isinstance(node, exp.Count) and isinstance(node.this, exp.Column):
            name = self.statement.attribute(node.this)
            return not_missing(name, schema) if schema[name].missing else None
        if isinstance(node, exp.CountIf):
            return condition_of_sql(node.this, schema)
        if isinstance(node, exp.Sum) and isinstance(node.this, exp.Case) and not node.this.this:
            ifs, default = node.this.args["ifs"], node.this.args.get("default")
            if len(ifs) == 1 and ifs[0].args["true"].sql() == "1" and (default is None or default.sql() == "0"):
                return condition_of_sql(ifs[0].this, schema)
        if isinstance(node, exp.Column):
            raise QueryError(f"{node.name!r} is no number: count people with count(*), by label with GROUP BY")
        raise refused(f"{shown(node.sql('duckdb'))}: the values of people are not in it, and it")

    def _window(self, node: Any, depth: int) -> SqlNumbers:
        """SUM(...) OVER (PARTITION BY ...).

        The sum of a whole partition is a table of the release, which knows its error better than the sum of its cells.
        """
        if not isinstance(node.this, exp.Sum):
            raise refused_window(node)
        keys = [self._partition_key(each) for each in node.args.get("partition_by") or []]
        inner = self.numbers(node.this.this, depth + 1)
        # one partition of all NULLs: a missing value is one, and so is a key that the row's grouping set does not have
        codes = [
            np.where(_is_none(self._taken(name, self._known_labels(name))), NULL, self._codes(name)) for name in keys
        ]
        parts = _parts(codes, len(self.kept))
        known = ~np.isnan(inner.value)
        joint = None if inner.joint is None else inner.joint.changed(Change(partial(_summed_draws, parts, known)))
        sums = SqlNumbers(_summed(inner.value, parts), joint)
        if inner.undrawn:
            sums = SqlNumbers.without_interval(sums.value)
        elif joint is None:
            return SqlNumbers.exactly(sums.value, len(sums.value))
        if len(self.statement.sets) > 1 or self._filtered or self.groups.cases or not _is_count(node.this.this):
            return sums
        low, high = (
            self.groups.count_over(tuple(keys), self._counted(node.this.this))
            .take(self.kept)
            .interval(self.groups.level)
        )
        return replace(sums, ends=(np.minimum(low, sums.value), np.maximum(high, sums.value)))

    def _partition_key(self, node: Any) -> str:
        name = self._key_name(node)
        if name is None:
            raise QueryError(f"{shown(node.sql('duckdb'))} must stand in GROUP BY to partition by it")
        return name

    def _grouping(self, node: Any) -> Floats:
        """A bit for each column named: one where the row's grouping set does not have it."""
        out = np.zeros(len(self.kept))
        for each in node.expressions:
            codes = self.key(each)
            if codes is None:
                raise QueryError(f"grouping() takes attributes that stand in GROUP BY, got {shown(each.sql('duckdb'))}")
            out = 2 * out + (codes == NULL)
        return out

    def _one_number(self, select: Any) -> SqlNumbers:
        inner = read_statement(select, self.statement.schema)
        cut = inner.order or inner.limit is not None or inner.offset
        if inner.grouped or len(inner.items) != 1 or inner.having is not None or cut:
            raise refused("a subquery that is not one number")
        condition = None if inner.where is None else condition_of_sql(inner.where, inner.schema)
        groups = GroupBy(inner.schema, self.tables, condition, inner.sets, self.groups.level)
        number = Evaluation(inner, groups, self.tables).numbers(inner.items[0][1])
        return number.take(np.zeros(len(self.kept), np.intp))

    # HAVING

    def holds(self, node: Any) -> NDArray[np.bool_]:
        """In which rows a condition on groups is true."""
        return self._truth(node)[0]

    def _truth(self, node: Any) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """In which rows a condition is true, and in which it is false: it is neither where it compares with NULL."""
        if isinstance(node, exp.Paren):
            return self._truth(node.this)
        if isinstance(node, exp.Not):
            true, false = self._truth(node.this)
            return false, true
        if isinstance(node, exp.And | exp.Or):
            (a, not_a), (b, not_b) = self._truth(node.this), self._truth(node.expression)
            return (a & b, not_a | not_b) if isinstance(node, exp.And) else (a | b, not_a & not_b)
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            texts = self._texts(node.this)
            null = np.isnan(self.numbers(node.this).value) if texts is None else _is_none(texts)
            return null, ~null
        if isinstance(node, exp.Between):
            low = exp.GTE(this=node.this, expression=node.args["low"])
            return self._truth(exp.And(this=low, expression=exp.LTE(this=node.this, expression=node.args["high"])))
        if isinstance(node, exp.EQ | exp.NEQ | exp.In) and self._texts(node.this) is not None:
            return self._one_of(node)
        if type(node) not in _COMPARISONS:
            raise refused(f"HAVING {shown(node.sql('duckdb'))}")
        left, right = self.numbers(node.this).value, self.numbers(node.expression).value
        known = ~(np.isnan(left) | np.isnan(right))
        found = np.asarray(_COMPARISONS[type(node)](left, right))
        return found & known, ~found & known

    def _one_of(self, node: Any) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        labels, texts = self.labels(node.this), self._texts(node.this)
        assert labels is not None
        assert texts is not None
        wanted = {
            constant(each, _NO_CONSTANT)
            for each in (node.expressions if isinstance(node, exp.In) else [node.expression])
        }
        there = np.array([label in wanted for label in labels], np.bool_)
        other = ~there & ~_is_none(texts)
        return (other, there) if isinstance(node, exp.NEQ) else (there, other)


def _is_none(texts: list[str | None]) -> NDArray[np.bool_]:
    return np.array([text is None for text in texts], np.bool_)


def _number(node: Any) -> float:
    number = number_of_text(constant(node, _NO_CONSTANT))
    if number is None:
        raise QueryError(f"{shown(node.sql('duckdb'))} must be a number")
    return float(number)


def _rounded(column: Floats, digits: int) -> Floats:
    """Halves are rounded away from zero, as databases do."""
    unit = 10.0**digits
    return np.copysign(np.floor(np.abs(column) * unit + 0.5) / unit, column)


def _greatest_share(part: Any, whole: Any) -> float | None:
    """The most that a ratio can be where it is a part of the people over all of them, or a number of times that."""
    times = 1.0
    while isinstance(part, exp.Paren | exp.Cast | exp.Mul):
        factors = [each for each in (part.this, part.args.get("expression")) if isinstance(each, exp.Literal)]
        if isinstance(part, exp.Mul):
            if len(factors) != 1 or factors[0].is_string:
                return None
            times *= float(factors[0].name)
            part = part.expression if part.this is factors[0] else part.this
        else:
            part = part.this
    while isinstance(whole, exp.Paren | exp.Cast | exp.Nullif):
        whole = whole.this
    inner = whole.this.this if isinstance(whole, exp.Window) and isinstance(whole.this, exp.Sum) else whole
    same = inner is not whole and inner.sql() == part.sql()
    smaller = (
        isinstance(part, exp.Filter | exp.CountIf) and isinstance(inner, exp.Count) and isinstance(inner.this, exp.Star)
    )
    return times if _is_count(part) and (same or smaller) else None


def _is_count(node: Any) -> bool:
    return isinstance(node, exp.Count | exp.CountIf | exp.Filter)


def _parts(codes: list[NDArray[np.intp]], rows: int) -> NDArray[np.intp]:
    """The number of the partition of each row."""
    if not codes:
        return np.zeros(rows, np.intp)
    _, numbers = np.unique(np.stack(codes), axis=1, return_inverse=True)
    return np.asarray(numbers).ravel()


def _summed(column: Floats, parts: NDArray[np.intp]) -> Floats:
    """The sum over the partition of each row; NULLs are left out, and where all are NULL the sum is."""
    if not len(column):
        return column
    known = ~np.isnan(column)
    sums = np.bincount(parts, np.where(known, column, 0.0))
    return np.asarray(np.where(np.bincount(parts, known) > 0, sums, np.nan)[parts], np.float64)


def _summed_draws(parts: NDArray[np.intp], known: NDArray[np.bool_], stack: Floats) -> Floats:
    """The same of every draw; rows whose number is NULL are left out of all."""
    number = int(parts.max(initial=-1)) + 1
    sums = [np.bincount(parts[known], row[known], minlength=number) for row in stack]
    return np.stack(sums).astype(np.float64)[:, parts]


# The answer


Column = tuple[str | float | None, ...]


def answered(text: str, schema: Schema, tables: Tables, level: float) -> dict[str, Column]:
    """The columns of the answer to a statement, in the order selected, behind each number the ends of its interval."""
    statement = read_statement(text, schema)
    condition = None if statement.where is None else condition_of_sql(statement.where, schema)
    cases = {name: branches_of_case(case, schema) for name, case in statement.cases.items()}
    evaluation = Evaluation(statement, GroupBy(schema, tables, condition, statement.sets, level, cases), tables)
    if statement.having is not None:
        evaluation.kept = np.flatnonzero(evaluation.holds(statement.having))
    columns: dict[str, Column] = {}
    order = _order(statement, evaluation)
    for name, node in statement.items:
        labels = evaluation.labels(node)
        if labels is not None:
            _add(columns, name, tuple(labels[row] for row in order))
        else:
            numbers = evaluation.numbers(node).take(order)
            _add(columns, name, _column(numbers.value))
            if not isinstance(node, exp.Grouping | exp.Literal):  # those are exact
                for end, ends in zip(("low", "high"), numbers.interval(level), strict=True):
                    _add(columns, f"{name}_{end}", _column(ends))
    return columns


def _add(columns: dict[str, Column], name: str, column: Column) -> None:
    while name in columns:
        name += "_"
    columns[name] = column


def _column(numbers: Floats) -> Column:
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
    if isinstance(node, exp.Literal) and node.is_int:
        if not 1 <= int(node.name) <= len(statement.items):
            raise QueryError(f"ORDER BY {node.name} must be one of the {len(statement.items)} columns selected")
        _, node = statement.items[int(node.name) - 1]
    if isinstance(node, exp.Column):
        named = [tree for name, tree in statement.items if name.lower() == node.name.lower()]
        node = named[0] if named else node
    places = evaluation.places(node)
    return np.round(evaluation.numbers(node).value, DIGITS) if places is None else places
