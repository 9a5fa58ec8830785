"""Whether a query is one SELECT whose rows each come of one row, so that a person changes the own rows alone.

Sensitivity rests on it. So the query is not searched for what is known to be wrong: every part of it must be among the
parts that are known to be right, and what is not known here is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from crosstally.errors import SourceError
from crosstally.extras import optional

__all__ = ["check_one_select"]

# Names of sqlglot's expressions. A statement's own parts:
_PARTS = "Alias CTE Column From Identifier Join Order Ordered Paren Select Star Subquery Table TableAlias Where With"
# Constants, types and operators on the values of one row:
_OPERATORS = """
    Add And Between BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Boolean Case Cast Collate DPipe DataType DataTypeParam
    Div EQ Escape GT GTE ILike If In IntDiv Interval Is LT LTE Like Literal Mod Mul NEQ Neg Not Null NullSafeEQ
    NullSafeNEQ Or RegexpILike RegexpLike SimilarTo Sub TryCast Tuple Var Xor
"""
# Functions of one row alone, each with one value; today's date is the same for all rows:
_FUNCTIONS = """
    Abs Ascii AtTimeZone Ceil Chr Coalesce Concat ConcatWs CurrentDate CurrentTimestamp Date DateAdd DateDiff
    DateFromParts DateSub DateToDateStr DateTrunc Day DayOfMonth DayOfWeek DayOfWeekIso DayOfYear EndsWith Exp Extract
    Floor Greatest Hex Hour Initcap JSONExtract JSONExtractScalar JSONPath JSONPathKey JSONPathRoot JSONPathSubscript
    LastDay Least Left Length Ln Log Lower MD5 Minute Month Nullif Pad Pow Quarter RegexpExtract RegexpReplace Repeat
    Replace Reverse Right Round Second Sign SplitPart Sqrt StartsWith StrPosition StrToDate StrToTime Substring
    TimeToStr TimestampTrunc ToChar ToNumber Translate Trim Trunc TsOrDsToDate TsOrDsToTimestamp Typeof UnixToTime
    Upper Week WeekOfYear WidthBucket Year
"""
_KNOWN = frozenset(f"{_PARTS} {_OPERATORS} {_FUNCTIONS}".split())
# Functions that sqlglot has no class for.
_NAMED = frozenset(("age", "btrim", "date_part", "julianday", "make_date", "now", "printf", "strftime", "to_date"))
_CHANGING = frozenset(("Alter", "Command", "Copy", "Create", "Delete", "Drop", "Insert", "Into", "Merge", "Update"))
# What a SELECT may have: no DISTINCT, GROUP BY, HAVING, LIMIT, INTO, FOR UPDATE, nor what later versions add.
_OF_A_SELECT = frozenset(("with_", "expressions", "from_", "joins", "where", "order"))
_OF_A_JOIN = frozenset(("this", "side", "kind", "on", "using"))
_OF_A_TABLE = frozenset(("this", "alias", "db", "catalog", "only", "joins"))
# PostgreSQL takes p.count for count(p) where no column has that name: these aggregates take whole rows.
_OF_WHOLE_ROWS = frozenset(("array_agg", "count", "json_agg", "jsonb_agg"))
_WORDS = {"SetOperation": "UNION", "Union": "UNION", "Intersect": "INTERSECT", "Except": "EXCEPT", "Fetch": "LIMIT"}
_WORDS |= {"Group": "GROUP BY", "Window": "a window function", "Rand": "random()", "Uuid": "a random UUID"}
_WORDS |= {"TableSample": "TABLESAMPLE", "Lock": "FOR UPDATE"}
_HOW = (
    "leave it out, or say --rows-are-units (in Python rows_are_units=True) if one person more or less changes one row "
    "of the result all the same, which the release will state"
)
_READING = "leave it out, or select from a view"


def check_one_select(query: str, dialect: str | None, *, rows_are_units: bool = False) -> None:
    """Raise unless the query is one SELECT, changes nothing, and each of its rows depends on no other row.

    ``dialect`` is sqlglot's name for the database's SQL, None for SQL as most databases speak it. Two tables may be
    joined, where a row of the first one finds its own rows of the other by an equality. What a view does inside the
    database cannot be seen from here. With ``rows_are_units`` the steward answers for how rows depend on each other;
    functions that are not known, and those in FROM, are refused all the same, since they may do anything.
    """
    tree = _parsed(query, dialect)
    if rows_are_units:
        for node in tree.walk():
            _check_reading(node)
        return
    for node in tree.walk():
        _check_node(node)
    for join in tree.find_all(optional("sqlglot", extra="databases").exp.Join):
        _check_join(join)
    _check_tables(tree)
    if dialect in ("postgres", None):
        _check_columns(tree)


def _parsed(query: str, dialect: str | None) -> Any:
    sqlglot = optional("sqlglot", extra="databases")
    statements: list[Any] | None = None
    try:
        words = sqlglot.tokenize(query, read=dialect)
        # sqlglot logs what it does not know, with its text: nothing but a SELECT is given to it.
        if words and words[0].text.upper() in ("SELECT", "WITH"):
            statements = sqlglot.parse(query, read=dialect)
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


def _check_node(node: Any) -> None:
    kind = type(node).__name__
    if kind in ("Anonymous", "AnonymousAggFunc"):
        if node.name.lower() not in _NAMED:
            raise _depends(f"the function {node.name!r}, which is not known to look at one row alone")
    elif kind not in _KNOWN:
        raise _refusal(kind, kind.upper())
    parts = {"Select": _OF_A_SELECT, "Join": _OF_A_JOIN, "Table": _OF_A_TABLE}.get(kind)
    if parts is not None:
        for name, part in node.args.items():
            if part and name not in parts:
                first = part[0] if isinstance(part, list) else part
                raise _refusal(type(first).__name__, f"{first} JOIN" if name == "method" else name.upper())
    if kind == "Table" and type(node.this).__name__ != "Identifier":
        raise _depends("a function in FROM")
    if kind == "With" and node.args.get("recursive"):
        raise _depends("WITH RECURSIVE")
    if kind == "Select" and type(node.parent).__name__ not in ("NoneType", "CTE", "Subquery"):
        raise _depends("a subquery outside of FROM")
    if kind == "Subquery" and type(node.parent).__name__ not in ("From", "Join"):
        raise _depends("a subquery outside of FROM")


def _check_reading(node: Any) -> None:
    """Raise where a part of a query may do more than read tables."""
    kind = type(node).__name__
    if kind in _CHANGING or kind == "Lock":
        raise SourceError(f"a query must change nothing, got one with {_WORDS.get(kind) or kind.upper()}")
    if kind in ("Anonymous", "AnonymousAggFunc") and node.name.lower() not in _NAMED:
        raise SourceError(f"the query has the function {node.name!r}, which is not known here: {_READING}")
    if kind == "Table" and type(node.this).__name__ != "Identifier":
        raise SourceError(f"the query has a function in FROM: {_READING}")


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


def _refusal(kind: str, word: str) -> SourceError:
    if kind in _CHANGING:
        return SourceError(f"a query must change nothing, got one with {word}")
    return _depends(_WORDS.get(kind) or word)


def _depends(what: str) -> SourceError:
    return SourceError(f"the query has {what}, so that rows may depend on other rows: {_HOW}")
