"""Whether a query is one SELECT whose rows each come of one row, so that a person changes the own rows alone.

Sensitivity rests on it. So the query is not searched for what is known to be wrong: every part of it must be among the
parts that are known to be right, and what is not known here is refused. The query is printed anew from its tree before
it is checked, and this is what the database runs: it reads no word that was not understood here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from crosstally.checks import optional
from crosstally.errors import SourceError
from crosstally.sources.column_names import Qualified, qualified_columns
from crosstally.sources.joins import ASSERTED, joined_tables, joins_of
from crosstally.sources.query_trees import FUNCTIONS, READING, ROW_BY_ROW
from crosstally.sources.source import AnyUnit
from crosstally.sql_trees import in_words, not_understood

__all__ = ["CheckedQuery", "checked_query"]

_CHANGING = frozenset(
    ("Alter", "Command", "Copy", "Create", "Delete", "Drop", "Insert", "Into", "Lock", "Merge", "Update")
)
# Functions by which DuckDB reads files and tables of Python: in a relation they stand for a table.
_OF_FILES = frozenset(
    ["arrow_scan", "pandas_scan", "parquet_scan", "read_csv", "read_csv_auto", "read_json", "read_parquet"]
)
_HOW = (
    "leave it out, or say --rows-are-units (in Python rows_are_units=True) if one person more or less changes one row "
    "of the result all the same, which the release will state"
)


@dataclass(frozen=True, slots=True)
class CheckedQuery:
    """A query as the database runs it, and what is left to ask the database before.

    ``joins`` says how each table was joined. ``repeats`` holds, for public tables, queries whose one number must be 0;
    ``columns`` the names that must be columns of a source of rows, which a query finds that has no rows; ``filters``
    says whether rows of its tables may be left out.
    """

    text: str
    joins: Mapping[str, str]
    repeats: Mapping[str, str]
    columns: tuple[Qualified, ...]
    filters: bool


def checked_query(
    query: str,
    dialect: str | None,
    *,
    rows_are_units: bool = False,
    public_tables: Sequence[str] = (),
    unit: str | AnyUnit | None = None,
    reading_files: bool = False,
) -> CheckedQuery:
    """The query, printed anew; raises unless it is one SELECT that changes nothing and keeps units apart.

    ``dialect`` is sqlglot's name for the database's SQL, None for SQL as most databases speak it. ``unit`` is the
    column of the unit's id, by which tables may be joined, beside those that are declared public. What a view does
    inside the database cannot be seen from here. With ``rows_are_units`` the steward answers for how rows depend on
    each other; functions that are not known, and those in FROM, are refused all the same: they may do anything. With
    ``reading_files`` those that read files stand for tables.
    """
    text = _printed(query, dialect, reading_files=reading_files)
    tree = _parsed(text, dialect)
    exp = optional("sqlglot", extra="databases").exp
    filters = tree.find(exp.Where, exp.Join, exp.Having, exp.Qualify, exp.Limit, exp.Distinct) is not None
    _check_understood(tree, rows_are_units=rows_are_units)
    if rows_are_units:
        return CheckedQuery(text, dict.fromkeys(joined_tables(tree), ASSERTED), {}, (), filters)
    for node in tree.walk():
        _check_place(node)
    if tree.find(exp.Table) is None:
        raise SourceError("the query selects from no table")
    written = _verbatim(dialect)
    columns = qualified_columns(tree, written) if dialect in ("postgres", None) else ()
    if isinstance(unit, AnyUnit):
        return CheckedQuery(text, {}, {}, columns, filters)
    joins = joins_of(tree, written, public=public_tables, unit=unit)
    return CheckedQuery(text, joins.how, joins.repeats, columns, filters)


def _printed(query: str, dialect: str | None, *, reading_files: bool) -> str:
    """The query in one way of writing it: without comments, each function under the name and arguments it was given."""
    sqlglot = optional("sqlglot", extra="databases")
    verbatim = _verbatim(dialect)
    tree = _parsed(query, dialect, verbatim)
    for table in tree.find_all(sqlglot.exp.Table) if reading_files else ():
        if table.this.name.lower() in _OF_FILES:
            table.set("this", sqlglot.exp.to_identifier("files"))
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
    generator = own.generator_class
    if dialect is None:  # not all databases know AS before the name of a table
        exp = sqlglot.exp
        named = {
            exp.Table: lambda self, table: self.table_sql(table, sep=" "),
            exp.Subquery: lambda self, query: self.subquery_sql(query, sep=" "),
        }
        generator = type("Generator", (generator,), {"TRANSFORMS": {**generator.TRANSFORMS, **named}})
    return type(f"Verbatim{own.__name__}", (own,), {"Parser": parser, "Generator": generator})


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
    if kind == "With" and type(node.parent.parent).__name__ != "NoneType":
        raise _depends("WITH inside of a subquery")
    if kind == "In" and any(each.find(optional("sqlglot", extra="databases").exp.Column) for each in node.expressions):
        raise _depends("a name in the list of IN, which takes constants alone")


def _not_known(what: str) -> SourceError:
    return SourceError(f"the query has {what}, which is not known here: leave it out, or select from a view")


def _depends(what: str) -> SourceError:
    return SourceError(f"the query has {what}, so that rows may depend on other rows: {_HOW}")
