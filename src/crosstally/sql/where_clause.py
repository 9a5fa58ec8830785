"""WHERE as a condition on rows.

SQL knows three truths: a comparison with a missing value is neither true nor false, and such a row is not counted. So
NOT is carried down to the comparisons, and each comparison that is negated leaves out the cell of missing values.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from crosstally.errors import QueryError
from crosstally.query.conditions import And, Condition, Not, OneOf, Or, Range, number_of_text, shown
from crosstally.schema import Schema
from crosstally.schema.attribute import MISSING, Outside
from crosstally.sql.select_statement import attribute_of, expressions, refused

__all__ = ["branches_of_case", "condition_of_sql", "labels_in_case", "not_missing"]

_TRUE: Condition = And(())
_FALSE: Condition = Or(())


def condition_of_sql(node: Any, schema: Schema, *, negated: bool = False) -> Condition:
    """The condition that a tree of SQL is, or its opposite."""
    exp = expressions()
    if isinstance(node, exp.Paren):
        return condition_of_sql(node.this, schema, negated=negated)
    if isinstance(node, exp.Not):
        return condition_of_sql(node.this, schema, negated=not negated)
    if isinstance(node, exp.And | exp.Or):
        parts = tuple(condition_of_sql(part, schema, negated=negated) for part in (node.this, node.expression))
        return And(parts) if isinstance(node, exp.And) is not negated else Or(parts)
    if isinstance(node, exp.Boolean):
        return _TRUE if bool(node.this) is not negated else _FALSE
    if isinstance(node, exp.NEQ):
        return _leaf(exp.EQ(this=node.this, expression=node.expression), schema, not negated)
    if isinstance(node, exp.Like | exp.ILike) and node.args.get("negate"):
        return _leaf(node, schema, not negated)
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        known = not_missing(attribute_of(_column(node.this), schema), schema)
        return known if negated else Not(known)
    return _leaf(node, schema, negated)


def not_missing(name: str, schema: Schema) -> Condition:
    """That a value is there; an attribute that counts missing values among other ones cannot tell."""
    attribute = schema[name]
    if attribute.missing:
        return Not(OneOf(name, (MISSING,)))
    if attribute.outside is Outside.OTHER:
        raise QueryError(f"{name!r} counts missing values as '(other)': IS NULL cannot be answered; ask for '(other)'")
    return _TRUE


def branches_of_case(case: Any, schema: Schema) -> dict[str | None, Condition]:
    """The labels that a CASE gives, and when it does: no two of these conditions are true of one row.

    A branch is taken where its condition is true and none before it was; that one was not true because a value is
    missing does not matter here, so the opposite is that of sets.
    """
    exp = expressions()
    labels = [node for node in labels_in_case(case) if _label(node) is not None]
    if len({node.is_string for node in labels}) > 1:
        raise QueryError(f"{shown(case.sql('duckdb'))} must give texts alone, or numbers alone")
    branches: dict[str | None, list[Condition]] = {}
    before: list[Condition] = []
    for each in case.args["ifs"]:
        test = each.this if case.this is None else exp.EQ(this=case.this, expression=each.this)
        own = condition_of_sql(test, schema)
        branches.setdefault(_label(each.args["true"]), []).append(And((own, *map(Not, before))))
        before.append(own)
    branches.setdefault(_label(case.args.get("default")), []).append(And(tuple(map(Not, before))))
    return {label: parts[0] if len(parts) == 1 else Or(tuple(parts)) for label, parts in branches.items()}


def labels_in_case(case: Any) -> list[Any]:
    """What a CASE gives, in the order written."""
    default = case.args.get("default")
    return [*(each.args["true"] for each in case.args["ifs"]), *([] if default is None else [default])]


def _label(node: Any) -> str | None:
    return None if node is None or isinstance(node, expressions().Null) else _constant(node)


def _leaf(node: Any, schema: Schema, negated: bool) -> Condition:
    name, condition = _comparison(node, schema)
    if not negated:
        return condition
    missing = schema[name].missing
    return And((Not(condition), Not(OneOf(name, (MISSING,))))) if missing else Not(condition)


def _comparison(node: Any, schema: Schema) -> tuple[str, Condition]:
    """A comparison of one attribute with constants."""
    exp = expressions()
    if isinstance(node, exp.In):
        name = attribute_of(_column(node.this), schema)
        return name, OneOf(name, tuple(_constant(each) for each in node.expressions))
    if isinstance(node, exp.Between):
        name = attribute_of(_column(node.this), schema)
        return name, Range(name, _number(node.args["low"]), _number(node.args["high"]), with_high=True)
    if isinstance(node, exp.Like | exp.ILike):
        name = attribute_of(_column(node.this), schema)
        return name, _like(name, _constant(node.expression), schema, ignoring_case=isinstance(node, exp.ILike))
    if isinstance(node, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return _ordered(node, schema)
    raise refused(f"the condition {shown(node.sql('duckdb'))}")


def _ordered(node: Any, schema: Schema) -> tuple[str, Condition]:
    exp = expressions()
    column, constant, less = node.this, node.expression, isinstance(node, exp.LT | exp.LTE)
    if not isinstance(column, exp.Column):
        column, constant, less = constant, column, not less
    name = attribute_of(_column(column), schema)
    if isinstance(node, exp.EQ):
        return name, OneOf(name, (_constant(constant),))
    closed = isinstance(node, exp.LTE | exp.GTE)
    if less:
        return name, Range(name, None, _number(constant), with_high=closed)
    return name, Range(name, _number(constant), None, with_low=closed)


def _column(node: Any) -> Any:
    if not isinstance(node, expressions().Column):
        raise refused(f"a condition on {shown(node.sql('duckdb'))}, which is no attribute,")
    return node


def _constant(node: Any) -> str:
    """A text or a number, as text: labels are compared by their canonical text."""
    exp = expressions()
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return f"-{node.this.name}"
    if isinstance(node, exp.Boolean):
        return "true" if node.this else "false"
    if not isinstance(node, exp.Literal):
        raise refused(f"a comparison with {shown(node.sql('duckdb'))}, which is no constant,")
    return str(node.name)


def _number(node: Any) -> Decimal:
    number = number_of_text(_constant(node))
    if number is None:
        raise QueryError(f"bounds must be numbers, got {shown(node.sql('duckdb'))}; compare labels with = or IN")
    return number


def _like(name: str, pattern: str, schema: Schema, *, ignoring_case: bool) -> Condition:
    parts = (".*" if each == "%" else "." if each == "_" else re.escape(each) for each in pattern)
    wanted = re.compile("".join(parts), re.DOTALL | (re.IGNORECASE if ignoring_case else 0))
    return OneOf(name, tuple(label for label in schema[name].labels if label != MISSING and wanted.fullmatch(label)))
