"""What is selected, asked of groups, and sorted by: trees of SQL into columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import QueryError
from crosstally.questions.conditions import Condition, shown
from crosstally.sql.conditions import condition_of_sql, not_missing
from crosstally.sql.groups import NULL, Groups, Tables
from crosstally.sql.numbers import Numbers
from crosstally.sql.statement import Statement, case_name, expressions, read_statement, refused
from crosstally.typing import Floats

__all__ = ["Evaluation"]

_DEEPEST = 50  # nested brackets and operators


class Evaluation:
    """A statement's expressions over its groups; ``kept`` are the rows that HAVING left, all of them before it."""

    def __init__(self, statement: Statement, groups: Groups, tables: Tables) -> None:
        self.statement, self.groups, self.tables = statement, groups, tables
        self.kept: NDArray[np.intp] = np.arange(groups.rows)

    @property
    def _filtered(self) -> bool:
        return len(self.kept) < self.groups.rows

    # Keys

    def key(self, node: Any) -> NDArray[np.intp] | None:
        """The codes of a key in each row, where the tree is a column or a CASE that stands in GROUP BY."""
        name = self._key_name(node)
        return None if name is None else self.groups.codes[name][self.kept]

    def _key_name(self, node: Any) -> str | None:
        exp = expressions()
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
        exp = expressions()
        if isinstance(node, exp.Coalesce) and len(node.expressions) == 1:
            inner, other = self.labels(node.this), node.expressions[0]
            if inner is not None and isinstance(other, exp.Literal):
                return [other.name if each is None else each for each in inner]
        if isinstance(node, exp.Literal) and node.is_string:
            return [node.name] * len(self.kept)
        name = self._key_name(node)
        if name is None:
            return None
        texts = self.groups.labels_of(name)
        return [texts[code] for code in self.groups.codes[name][self.kept].tolist()]

    def _aliased(self, column: Any) -> Any:
        """What a name stands for that SELECT gave: never an attribute's own, which comes first."""
        exp = expressions()
        names = {each.lower() for each in self.statement.schema.names}
        for item in self.statement.items:
            if item.name.lower() == column.name.lower() and item.name.lower() not in names:
                return None if isinstance(item.node, exp.Column) and item.node.name == column.name else item.node
        return None

    # Numbers

    def numbers(self, node: Any, depth: int = 0) -> Numbers:
        """The column of numbers that a tree is."""
        exp = expressions()
        if depth > _DEEPEST:
            raise QueryError("the statement is nested too deeply")
        if isinstance(node, exp.Paren):
            return self.numbers(node.this, depth + 1)
        if isinstance(node, exp.Literal) and not node.is_string:
            return Numbers.exactly(float(node.name), len(self.kept))
        if isinstance(node, exp.Neg):
            return -self.numbers(node.this, depth + 1)
        if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
            return self._operation(node, depth)
        if isinstance(node, exp.Cast | exp.Round | exp.Nullif):
            return self._changed(node, depth)
        if isinstance(node, exp.Window):
            return self._window(node, depth)
        if isinstance(node, exp.Grouping):
            return Numbers.exactly(self._grouping(node), len(self.kept))
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
            return self._one_number(node.this)
        if isinstance(node, exp.Column):
            aliased = self._aliased(node)
            if aliased is not None:
                return self.numbers(aliased, depth + 1)
        return self.groups.count(self._counted(node)).take(self.kept)

    def _operation(self, node: Any, depth: int) -> Numbers:
        exp = expressions()
        left, right = self.numbers(node.this, depth + 1), self.numbers(node.expression, depth + 1)
        if isinstance(node, exp.Add):
            return left + right
        if isinstance(node, exp.Sub):
            return left - right
        if isinstance(node, exp.Mul):
            return left * right
        most = _greatest_share(node.this, node.expression)
        return left / right if most is None else (left / right).within(0.0, most)

    def _changed(self, node: Any, depth: int) -> Numbers:
        exp = expressions()
        inner = self.numbers(node.this, depth + 1)
        if isinstance(node, exp.Cast):
            whole = node.to.this.name in ("INT", "BIGINT", "SMALLINT", "TINYINT", "HUGEINT")
            return inner.changed(np.rint) if whole else inner
        if isinstance(node, exp.Round):
            given = node.args.get("decimals")
            digits = 0 if given is None else int(_literal(given))
            return inner.changed(lambda column: np.round(column, digits))
        nothing = float(_literal(node.expression))
        return Numbers(np.where(inner.value == nothing, np.nan, inner.value), inner.low, inner.high)

    def _counted(self, node: Any) -> Condition | None:
        """The people that an aggregate counts: all of a group, or those with a condition."""
        exp = expressions()
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

    def _window(self, node: Any, depth: int) -> Numbers:
        """SUM(...) OVER (PARTITION BY ...).

        The sum of a whole partition is a table of the release, which knows its error better than the sum of its cells.
        """
        exp = expressions()
        if not isinstance(node.this, exp.Sum) or node.args.get("order") or node.args.get("spec"):
            raise refused(
                f"the window {shown(node.sql('duckdb'))}: windows are SUM(...) OVER (PARTITION BY ...), and others"
            )
        keys = [self._partition_key(each) for each in node.args.get("partition_by") or []]
        inner = self.numbers(node.this.this, depth + 1)
        parts = _parts([self.groups.codes[name][self.kept] for name in keys], len(self.kept))
        sums = Numbers(*(_summed(column, parts) for column in (inner.value, inner.low, inner.high)))
        if len(self.statement.sets) > 1 or self._filtered or self.groups.cases or not _is_count(node.this.this):
            return sums
        own = self.groups.count_over(tuple(keys), self._counted(node.this.this)).take(self.kept)
        return Numbers(sums.value, own.low, own.high).holding_value()

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

    def _one_number(self, select: Any) -> Numbers:
        inner = read_statement(select, self.statement.schema)
        if inner.grouped or len(inner.items) != 1 or inner.having is not None:
            raise refused("a subquery that is not one number")
        condition = None if inner.where is None else condition_of_sql(inner.where, inner.schema)
        groups = Groups(inner.schema, self.tables, condition, inner.sets, self.groups.level)
        number = Evaluation(inner, groups, self.tables).numbers(inner.items[0].node)
        return number.take(np.zeros(len(self.kept), np.intp))

    # HAVING

    def holds(self, node: Any) -> NDArray[np.bool_]:
        """In which rows a condition on groups is true."""
        exp = expressions()
        if isinstance(node, exp.Paren):
            return self.holds(node.this)
        if isinstance(node, exp.Not):
            return ~self.holds(node.this)
        if isinstance(node, exp.And):
            return self.holds(node.this) & self.holds(node.expression)
        if isinstance(node, exp.Or):
            return self.holds(node.this) | self.holds(node.expression)
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            codes = self.key(node.this)
            return np.isnan(self.numbers(node.this).value) if codes is None else codes == NULL
        if isinstance(node, exp.Between):
            value = self.numbers(node.this).value
            return (value >= self.numbers(node.args["low"]).value) & (value <= self.numbers(node.args["high"]).value)
        if isinstance(node, exp.EQ | exp.NEQ | exp.In) and self.key(node.this) is not None:
            return self._one_of(node)
        compare = {exp.EQ: np.equal, exp.NEQ: np.not_equal, exp.LT: np.less, exp.LTE: np.less_equal}
        compare |= {exp.GT: np.greater, exp.GTE: np.greater_equal}
        if type(node) not in compare:
            raise refused(f"HAVING {shown(node.sql('duckdb'))}")
        return np.asarray(compare[type(node)](self.numbers(node.this).value, self.numbers(node.expression).value))

    def _one_of(self, node: Any) -> NDArray[np.bool_]:
        exp = expressions()
        labels, wanted = self.labels(node.this), node.expressions if isinstance(node, exp.In) else [node.expression]
        assert labels is not None
        texts = {str(_literal(each)) for each in wanted}
        there = np.array([label is not None and label in texts for label in labels], np.bool_)
        if not isinstance(node, exp.NEQ):
            return there
        return ~there & np.array([label is not None for label in labels], np.bool_)


def _literal(node: Any) -> str:
    exp = expressions()
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return f"-{node.this.name}"
    if not isinstance(node, exp.Literal):
        raise refused(f"{shown(node.sql('duckdb'))}, where a constant must stand,")
    return str(node.name)


def _greatest_share(part: Any, whole: Any) -> float | None:
    """The most that a ratio can be where it is a part of the people over all of them, or a number of times that."""
    exp = expressions()
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
    exp = expressions()
    return isinstance(node, exp.Count | exp.CountIf | exp.Filter)


def _parts(codes: list[NDArray[np.intp]], rows: int) -> NDArray[np.intp]:
    """The number of the partition of each row."""
    if not codes:
        return np.zeros(rows, np.intp)
    _, numbers = np.unique(np.stack(codes), axis=1, return_inverse=True)
    return np.asarray(numbers).ravel()


def _summed(column: Floats, parts: NDArray[np.intp]) -> Floats:
    """The sum over the partition of each row; NULLs are left out."""
    known = np.where(np.isnan(column), 0.0, column)
    return np.asarray(np.bincount(parts, known)[parts], np.float64) if len(column) else column
