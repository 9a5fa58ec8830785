"""Whether a query is one SELECT whose rows each come of one row, so that a person changes the own rows alone.

Sensitivity rests on it. So the query is not searched for what is known to be wrong: every part of it must be among the
parts that are known to be right, and what is not known here is refused. The query is printed anew from its tree before
it is checked, and this is what the database runs: it reads no word that was not understood here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

from crosstally.errors import SourceError
from crosstally.extras import optional
from crosstally.sources.query_trees import FUNCTIONS, READING, ROW_BY_ROW
from crosstally.sql_trees import in_words, not_understood

__all__ = ["checked_query"]

_CHANGING = frozenset(
    ("Alter", "Command", "Copy", "Create", "Delete", "Drop", "Insert", "Into", "Lock", "Merge", "Update")
)
# PostgreSQL takes p.count for count(p) where no column has that name: these aggregates take whole rows.
_OF_WHOLE_ROWS = frozenset(("array_agg", "count", "json_agg", "jsonb_agg"))
_HOW = (
    "leave it out, or say --rows-are-units (in Python rows_are_units=True) if one person more or less changes one row "
    "of the result all the same, which the release will state"
)


def checked_query(query: str, dialect: str | None, *, rows_are_units: bool = False) -> str:
    """The query as the database runs it; raises unless it is one SELECT that changes nothing and keeps rows apart.

    ``dialect`` is sqlglot's name for the database's SQL, None for SQL as most databases speak it. Two tables may be
    joined, where a row of the first one finds its own rows of the other by an equality. What a view does inside the
    database cannot be seen from here. With ``rows_are_units`` the steward answers for how rows depend on each other;
    functions that are not known, and those in FROM, are refused all the same, since they may do anything.
    """
    text = _printed(query, dialect)
    _check(_parsed(text, dialect), dialect, rows_are_units=rows_are_units)
    return text


def _printed(query: str, dialect: str | None) -> str:
    """The query in one way of writing it: without comments, each function under the name and arguments it was given."""
    sqlglot = optional("sqlglot", extra="databases")
    verbatim = _verbatim(dialect)
    tree = _parsed(query, dialect, verbatim)
    try:
        level = sqlglot.errors.ErrorLevel.RAISE
        return str(tree.sql(verbatim, comments=False, normalize_functions=False, unsupported_level=level))
    except sqlglot.errors.SqlglotError:
        raise SourceError(f"the query cannot be written as {dialect or 'SQL'}: use plainer SQL, or a view") from None


@cache
def _verbatim(dialect: str | None) -> Any:
    """A dialect that knows no function by name: sqlglot might print another one for it, which a database lacks."""
    sqlglot = optional("sqlglot", extra="databases")
    own = type(sqlglot.Dialect.get_or_raise(dialect))
    parser = type("Parser", (own.parser_class,), {"FUNCTIONS": {}})
    return type(f"Verbatim{own.__name__}", (own,), {"Parser": parser})


def _check(tree: Any, dialect: str | None, *, rows_are_units: bool) -> None:
    _check_understood(tree, rows_are_units=rows_are_units)
    if rows_are_units:
        return
    for node in tree.walk():
        _check_place(node)
    for join in tree.find_all(optional("sqlglot", extra="databases").exp.Join):
        _check_join(join)
    _check_tables(tree)
    if dialect in ("postgres", None):
        _check_columns(tree)


def _parsed(query: str, dialect: str | None, read: Any = None) -> Any:
    sqlglot = optional("sqlglot", extra="databases")
    statements: list[Any] | None = None
    try:
        words = sqlglot.tokenize(query, read=dialect)
        # sqlglot logs what it does not know, with its text: nothing but a SELECT is given to it.
        if words and words[0].text.upper() in ("SELECT", "WITH"):
            statements = sqlglot.parse(query, read=read or dialect)
    except (sqlglot.errors.SqlglotError, RecursionError):
        pass
    else:
        if statements is None:
            raise SourceError("a query must be one statement that begins with SELECT, or WITH before it")
    if statements is None:
        raise SourceError(f"the query is not understood as {dialect or 'SQL'}: write one SELECT statement")
    found = [each for each in statements if each is not None]
    if len(found) != 1:
        raise SourceError(f"a query must be one statement, got {len(found)}")
    if type(found[0]).__name__ not in ("Select", "Union", "Intersect", "Except"):
        raise SourceError(f"a query must be a SELECT, got {type(found[0]).__name__.upper()}")
    return found[0]


def _check_understood(tree: Any, *, rows_are_units: bool) -> None:
    """Raise unless every class and argument of the tree is known to keep rows apart or, if asserted, to read alone."""
    refusal = _not_known if rows_are_units else _depends
    for node, argument in not_understood(tree, READING if rows_are_units else ROW_BY_ROW):
        value = node if argument is None else node.args[argument]
        first = value[0] if isinstance(value, list) else value
        if type(first).__name__ in _CHANGING:
            raise SourceError(f"a query must change nothing, got one with {in_words(first)}")
        raise refusal(f"{value} JOIN" if argument == "method" else in_words(node, argument))
    for node in tree.walk():
        kind = type(node).__name__
        if kind == "Anonymous" and node.name.lower() not in FUNCTIONS:
            raise refusal(f"the function {node.name!r}, which is not known to look at one row alone")
        if kind == "Table" and type(node.this).__name__ != "Identifier":
            raise refusal("a function in FROM")


def _check_place(node: Any) -> None:
    """Raise where a subquery, or a list after IN, is not what it may be."""
    kind, parent = type(node).__name__, type(node.parent).__name__
    if (kind == "Select" and parent not in ("NoneType", "CTE", "Subquery")) or (
        kind == "Subquery" and parent not in ("From", "Join")
    ):
        raise _depends("a subquery outside of FROM")
    if kind == "In" and any(each.find(optional("sqlglot", extra="databases").exp.Column) for each in node.expressions):
        raise _depends("a name in the list of IN, which takes constants alone")


def _check_join(join: Any) -> None:
    kind, side = join.kind.upper(), join.side.upper()
    if kind not in ("", "INNER", "OUTER") or side not in ("", "LEFT") or (kind == "OUTER" and not side):
        raise _depends(f"{side or kind} JOIN")
    if not join.args.get("using") and not any(map(_equates, _all_of(join.args.get("on")))):
        raise _depends("a JOIN without an equality of columns of both tables")


def _all_of(condition: Any) -> Iterator[Any]:
    """The conditions that must all hold."""
    kind = type(condition).__name__
    if kind == "And":
        yield from _all_of(condition.this)
        yield from _all_of(condition.expression)
    elif kind == "Paren":
        yield from _all_of(condition.this)
    elif condition is not None:
        yield condition


def _equates(condition: Any) -> bool:
    sides = (condition.this, condition.args.get("expression"))
    if type(condition).__name__ != "EQ" or any(type(side).__name__ != "Column" for side in sides):
        return False
    return len({side.table.lower() for side in sides}) == 2 and all(side.table for side in sides)


def _check_tables(tree: Any) -> None:
    """A table that is there twice is joined with itself: a person's row then stands in rows of others."""
    expressions = optional("sqlglot", extra="databases").exp
    times = Counter(table.name.lower() for table in tree.find_all(expressions.Table))
    if any(number > 1 for number in times.values()):
        raise _depends("a table that is named twice")
    if not times:
        raise SourceError("the query selects from no table")


def _check_columns(tree: Any) -> None:
    for column in tree.find_all(optional("sqlglot", extra="databases").exp.Column):
        if column.table and column.name.lower() in _OF_WHOLE_ROWS:
            raise _depends(f"{column.table}.{column.name}, which may be an aggregate")


def _not_known(what: str) -> SourceError:
    return SourceError(f"the query has {what}, which is not known here: leave it out, or select from a view")


def _depends(what: str) -> SourceError:
    return SourceError(f"the query has {what}, so that rows may depend on other rows: {_HOW}")
