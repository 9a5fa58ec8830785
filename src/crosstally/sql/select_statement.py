"""The text of a statement into its tree, and the names in it into attributes.

What is not known here is refused: a release holds counts, and a statement that asks for more gets a line that says so.

WHERE as a condition on rows.

SQL knows three truths: a comparison with a missing value is neither true nor false, and such a row is not counted. So
NOT is carried down to the comparisons, and each comparison that is negated leaves out the cell of missing values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from typing import Any

from crosstally.checks import optional
from crosstally.errors import QueryError, did_you_mean
from crosstally.query.conditions import And, Condition, Not, OneOf, Or, Range, number_of_text, shown
from crosstally.schema import Schema
from crosstally.schema.attribute import MISSING, Outside
from crosstally.sql_trees import in_words, known_trees, not_understood

sqlglot: Any = optional("sqlglot", extra="sql")
exp: Any = sqlglot.exp  # the classes of its trees

_LONGEST = 20_000  # characters of a statement
_MOST_SETS = 4_096  # grouping sets: CUBE over 12 attributes
# What is understood of a tree: the classes that have these arguments, and no others. Flags that sqlglot sets by itself
# (big_int of COUNT, typed and safe of a division, nested of a type) say nothing that an answer depends on.
_UNDERSTOOD = known_trees(
    {
        "expressions from_ where group having order limit offset": "Select",
        "this": "Boolean CountIf From Having Neg Not Paren Subquery Sum TableAlias Where",
        "this expression": "Add And EQ Filter GT GTE Is LT LTE Mul NEQ Nullif Or Sub",
        "this expression negate": "ILike Like",
        "this expression typed safe": "Div",
        "this expressions": "Coalesce In",
        "expressions": "Cube Grouping GroupingSets Order Rollup Tuple",
        "expressions all": "Group",
        "expression": "Limit Offset",
        "this alias": "Alias",
        "this low high": "Between",
        "this ifs default": "Case",
        "this true": "If",
        "this to": "Cast",
        "this nested": "DataType",
        "this table": "Column",
        "this big_int": "Count",
        "this quoted": "Identifier",
        "this is_string": "Literal",
        "this desc nulls_first": "Ordered",
        "this decimals": "Round",
        "this db catalog alias": "Table",
        "this partition_by over": "Window",
        "": "Null Star",
    }
)
_ANSWERED = (
    "a release answers SELECT attributes and count(*) FROM one table, with WHERE, GROUP BY, HAVING, ORDER BY, LIMIT"
)


def refused(what: str) -> QueryError:
    """What is raised where a release cannot answer."""
    return QueryError(f"{what} cannot be answered from a release; {_ANSWERED}")


def refused_window(window: Any) -> QueryError:
    """What is raised for a window function that is no sum over a partition."""
    return refused(
        f"the window {shown(window.sql('duckdb'))}: windows are SUM(...) OVER (PARTITION BY ...), and others"
    )


Item = tuple[str, Any]
"""Something selected: the name of its column, and its tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """A SELECT, read: names of attributes are those of the schema; ``cases`` are keys that group their values."""

    schema: Schema
    items: tuple[Item, ...]
    sets: tuple[tuple[str, ...], ...]
    cases: Mapping[str, Any]
    where: Any
    having: Any
    order: tuple[Any, ...]
    limit: int | None
    offset: int
    grouped: bool

    @property
    def keys(self) -> tuple[str, ...]:
        """The attributes that some grouping set has, in the order written."""
        return tuple(dict.fromkeys(name for names in self.sets for name in names))

    def attribute(self, column: Any) -> str:
        """The attribute that a column of the statement is."""
        return attribute_of(column, self.schema)


def attribute_of(column: Any, schema: Schema) -> str:
    """The attribute of this name; as in SQL, capitals matter only where nothing else tells two names apart."""
    name = column.name
    if name in schema.names:
        return str(name)
    alike = [each for each in schema.names if each.lower() == name.lower()]
    if len(alike) != 1:
        raise QueryError(f"there is no attribute {shown(name)}{did_you_mean(name, schema.names)}")
    return alike[0]


def case_name(case: Any) -> str:
    """What a CASE is called among the keys: its own text, which no attribute has that is written as a name."""
    return str(case.sql("duckdb"))


def _cases(tree: Any, sets: Sequence[Sequence[str]]) -> dict[str, Any]:
    """The CASEs among the keys, by their names."""
    keys = {name for names in sets for name in names}
    found = {case_name(case): case for case in tree.find_all(exp.Case)}
    return {name: case for name, case in found.items() if name in keys}


def read_statement(given: str | Any, schema: Schema) -> Select:
    """The statement, from its text or its tree."""
    tree = _parsed(given) if isinstance(given, str) else given
    if not isinstance(tree, exp.Select):
        raise refused(f"a statement other than one SELECT ({type(tree).__name__})")
    _check_table(tree)
    _check_understood(tree)
    items = tuple(_item(node) for node in tree.expressions)
    group = tree.args.get("group")
    sets = ((),) if group is None else _sets(group, items, schema)
    where, having, order = tree.args.get("where"), tree.args.get("having"), tree.args.get("order")
    return Select(
        schema=schema,
        items=_distinct(items),
        sets=sets,
        cases=_cases(tree, sets),
        where=None if where is None else where.this,
        having=None if having is None else having.this,
        order=() if order is None else tuple(order.expressions),
        limit=_whole(tree.args.get("limit")),
        offset=_whole(tree.args.get("offset")) or 0,
        grouped=group is not None,
    )


def _check_understood(tree: Any) -> None:
    """Raise unless every class and every argument of the tree is among those that are understood."""
    for node, argument in not_understood(tree, _UNDERSTOOD):
        window = node if isinstance(node, exp.Window) else node.find_ancestor(exp.Window)
        if window is not None:
            raise refused_window(window)
        whole = node.parent if isinstance(node.parent, exp.AggFunc) else node  # count(DISTINCT sex)
        if argument is None and isinstance(whole, exp.Func) and not isinstance(whole, exp.Connector | exp.Predicate):
            raise refused(f"{shown(whole.sql('duckdb'))}: the values of people are not in it, and it")
        say = " (say GROUP BY)" if argument == "distinct" else ""
        raise refused(in_words(node, argument) + say)
    if any(node.args.get("all") is False for node in tree.find_all(exp.Group)):
        raise refused("GROUP BY DISTINCT")


def _check_table(tree: Any) -> None:
    """Raise unless there is one table after FROM, and names before a point are its own."""
    source = tree.args.get("from_")
    if source is None or not isinstance(source.this, exp.Table) or not isinstance(source.this.this, exp.Identifier):
        raise refused("a SELECT without one table after FROM")
    own = source.this.alias_or_name
    for column in tree.find_all(exp.Column):
        if column.table and column.table.lower() != own.lower() and column.parent_select is tree:
            raise QueryError(f"{shown(column.sql('duckdb'))} must be a column of {shown(own)}, the table after FROM")


def _parsed(text: str) -> Any:
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise QueryError(f"a statement must be a text of at most {_LONGEST:,} characters")
    try:
        words = sqlglot.tokenize(text, read="duckdb")
        # sqlglot logs what it does not know: nothing but a SELECT is given to it
        if not words or words[0].text.upper() != "SELECT":
            raise refused("a statement that does not begin with SELECT")
        statements = [each for each in sqlglot.parse(text, read="duckdb") if each is not None]
    except sqlglot.errors.SqlglotError as error:
        first = getattr(error, "errors", None) or [{}]
        place = f" near {shown(first[0]['highlight'])}" if first[0].get("highlight") else ""
        raise QueryError(f"the statement is not SQL{place}") from None
    except RecursionError:
        raise QueryError("the statement is nested too deeply") from None
    if len(statements) != 1:
        raise QueryError(f"one statement at a time, got {len(statements)}")
    return statements[0]


def _item(node: Any) -> Item:
    if isinstance(node, exp.Alias):
        return node.alias, node.this
    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
        return node.name, node
    if isinstance(node, exp.Star | exp.Column):
        raise refused("SELECT * (there are no rows)")
    return "count" if isinstance(node, exp.Count) else re.sub(r"\s+", " ", node.sql("duckdb")), node


def _distinct(items: Sequence[Item]) -> tuple[Item, ...]:
    """Items whose names differ: a second one of the same name gets a number."""
    taken: set[str] = set()
    out = []
    for given, node in items:
        name, number = given, 1
        while name in taken:
            name, number = f"{given}_{number}", number + 1
        taken.add(name)
        out.append((name, node))
    return tuple(out)


def _whole(node: Any) -> int | None:
    if node is None:
        return None
    value = node.expression
    if not value.is_int or int(value.name) < 0:
        raise QueryError(f"LIMIT and OFFSET must be whole numbers, got {shown(value.sql())}")
    return int(value.name)


# GROUP BY


def _sets(group: Any, items: Sequence[Item], schema: Schema) -> tuple[tuple[str, ...], ...]:
    """The grouping sets: of several parts every combination, as SQL has it."""
    if group.args.get("all"):
        keys = [tree for _, tree in items if isinstance(tree, exp.Column | exp.Case)]
        return (tuple(name for tree in keys for name in _names(tree, items, schema)),)
    parts = []
    for node in group.expressions:
        parts.append(_part(node, items, schema))
        if math.prod(map(len, parts)) > _MOST_SETS:
            raise QueryError(f"GROUP BY must come to at most {_MOST_SETS:,} grouping sets; ask in several statements")
    return tuple(tuple(dict.fromkeys(name for part in sets for name in part)) for sets in product(*parts))


def _part(node: Any, items: Sequence[Item], schema: Schema) -> list[tuple[str, ...]]:
    if isinstance(node, exp.GroupingSets):
        return [names for each in node.expressions for names in _part(each, items, schema)]
    if not isinstance(node, exp.Rollup | exp.Cube):
        return [_names(node, items, schema)]
    levels = [_names(each, items, schema) for each in node.expressions]
    if isinstance(node, exp.Cube):
        if 2 ** len(levels) > _MOST_SETS:
            raise QueryError(f"CUBE must come to at most {_MOST_SETS:,} grouping sets; name fewer attributes")
        return [
            sum((each for each, taken in zip(levels, chosen, strict=True) if taken), ())
            for chosen in product((True, False), repeat=len(levels))
        ]
    return [sum(levels[:number], ()) for number in range(len(levels), -1, -1)]


def _names(node: Any, items: Sequence[Item], schema: Schema) -> tuple[str, ...]:
    """The keys of an element: a column or CASE, the name or number of a selected one, or several in brackets."""
    if isinstance(node, exp.Tuple):
        return tuple(name for each in node.expressions for name in _names(each, items, schema))
    if isinstance(node, exp.Paren):
        return _names(node.this, items, schema)
    if isinstance(node, exp.Literal) and node.is_int and 0 < int(node.name) <= len(items):
        _, node = items[int(node.name) - 1]
    if isinstance(node, exp.Column):
        aliased = [tree for name, tree in items if name.lower() == node.name.lower()]
        named = any(name.lower() == node.name.lower() for name in schema.names)
        if aliased and not named and isinstance(aliased[0], exp.Column | exp.Case):
            node = aliased[0]
    if isinstance(node, exp.Case):
        return (case_name(node),)
    if isinstance(node, exp.Column):
        return (attribute_of(node, schema),)
    raise refused(f"GROUP BY {shown(node.sql('duckdb'))}, which is neither an attribute nor CASE,")


# Conditions


_TRUE: Condition = And(())
_FALSE: Condition = Or(())


def condition_of_sql(node: Any, schema: Schema, *, negated: bool = False) -> Condition:
    """The condition that a tree of SQL is, or its opposite."""
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
    return None if node is None or isinstance(node, exp.Null) else constant(node)


def _leaf(node: Any, schema: Schema, negated: bool) -> Condition:
    name, condition = _comparison(node, schema)
    if not negated:
        return condition
    missing = schema[name].missing
    return And((Not(condition), Not(OneOf(name, (MISSING,))))) if missing else Not(condition)


def _comparison(node: Any, schema: Schema) -> tuple[str, Condition]:
    """A comparison of one attribute with constants."""
    if isinstance(node, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return _ordered(node, schema)
    if not isinstance(node, exp.In | exp.Between | exp.Like | exp.ILike):
        raise refused(f"the condition {shown(node.sql('duckdb'))}")
    name = attribute_of(_column(node.this), schema)
    if isinstance(node, exp.In):
        return name, OneOf(name, tuple(constant(each) for each in node.expressions))
    if isinstance(node, exp.Between):
        return name, Range(name, _number(node.args["low"]), _number(node.args["high"]), with_high=True)
    return name, _like(name, constant(node.expression), schema, ignoring_case=isinstance(node, exp.ILike))


def _ordered(node: Any, schema: Schema) -> tuple[str, Condition]:
    column, other, less = node.this, node.expression, isinstance(node, exp.LT | exp.LTE)
    if not isinstance(column, exp.Column):
        column, other, less = other, column, not less
    name = attribute_of(_column(column), schema)
    if isinstance(node, exp.EQ):
        return name, OneOf(name, (constant(other),))
    closed = isinstance(node, exp.LTE | exp.GTE)
    if less:
        return name, Range(name, None, _number(other), with_high=closed)
    return name, Range(name, _number(other), None, with_low=closed)


def _column(node: Any) -> Any:
    if not isinstance(node, exp.Column):
        raise refused(f"a condition on {shown(node.sql('duckdb'))}, which is no attribute,")
    return node


def constant(node: Any, otherwise: str = "a comparison with {}, which is no constant,") -> str:
    """A text or a number, as text: labels are compared by their canonical text. Other trees are refused in words."""
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return f"-{node.this.name}"
    if isinstance(node, exp.Boolean):
        return "true" if node.this else "false"
    if not isinstance(node, exp.Literal):
        raise refused(otherwise.format(shown(node.sql("duckdb"))))
    return str(node.name)


def _number(node: Any) -> Decimal:
    number = number_of_text(constant(node))
    if number is None:
        raise QueryError(f"bounds must be numbers, got {shown(node.sql('duckdb'))}; compare labels with = or IN")
    return number


def _like(name: str, pattern: str, schema: Schema, *, ignoring_case: bool) -> Condition:
    parts = (".*" if each == "%" else "." if each == "_" else re.escape(each) for each in pattern)
    wanted = re.compile("".join(parts), re.DOTALL | (re.IGNORECASE if ignoring_case else 0))
    return OneOf(name, tuple(label for label in schema[name].labels if label != MISSING and wanted.fullmatch(label)))
