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
from crosstally.sources.joins import ASSERTED, joined_tables, joins_of
from crosstally.sources.source import AnyUnit
from crosstally.sql_trees import in_words, known_trees, not_understood

# Columns that a query says with the name of their table: each must be one. PostgreSQL takes ``p.max`` for ``max(p)``
# where ``p`` has no such column, for aggregates of its own and of others. Names of functions cannot all be known here,
# names of columns can: the database says them.


@dataclass(frozen=True, slots=True)
class Qualified:
    """Names that stand behind the name of a source of rows, and the query, without rows, that has its columns."""

    source: str
    query: str
    names: tuple[tuple[str, bool], ...]
    """Each with whether it was quoted."""


def qualified_columns(tree: Any, dialect: Any) -> tuple[Qualified, ...]:
    """The names to be looked up in each source of each SELECT."""
    exp = optional("sqlglot", extra="databases").exp
    out = []
    for select in tree.find_all(exp.Select):
        sources = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or ())]
        asked = [column for column in select.find_all(exp.Column) if column.table and column.parent_select is select]
        for column in asked:
            if column.table.lower() not in {source.alias_or_name.lower() for source in sources}:
                raise SourceError(f"the query says {column.sql(dialect)!r}, and selects from nothing of that name")
        for source in sources:
            own = [column.this for column in asked if column.table.lower() == source.alias_or_name.lower()]
            names = dict.fromkeys((each.name, bool(each.args.get("quoted"))) for each in own if each.name != "*")
            if names:
                out.append(Qualified(source.alias_or_name, _without_rows(source, tree, dialect), tuple(names)))
    return tuple(out)


def _without_rows(source: Any, tree: Any, dialect: Any) -> str:
    exp = optional("sqlglot", extra="databases").exp
    query = exp.select("*").from_(source.copy()).where("1 = 0")
    defined = tree.args.get("with_")
    if defined is not None:
        query.set("with_", defined.copy())
    return str(query.sql(dialect, normalize_functions=False))


def check_columns(asked: Qualified, columns: Sequence[str], dialect: str | None) -> None:
    """Raise unless all names are columns: a name without quotes is in small letters, in other databases in capitals."""
    for name, quoted in asked.names:
        meant = {name} if quoted else {name.lower()} if dialect == "postgres" else {name, name.lower(), name.upper()}
        if not meant & set(columns):
            raise SourceError(
                f"the query has {asked.source}.{name}, which is no column and may be an aggregate: name columns alone"
            )


# What is understood of the tree of a query to a database: classes of sqlglot, with their arguments. Two tables: of a
# query whose rows each come of one row, and of one whose steward answers for how rows depend on each other, which must
# read and no more. Flags that sqlglot sets for its own printing are listed with the function that has them: what a
# function of one row does with that row changes no other one.


FUNCTIONS = frozenset(("age", "btrim", "date_part", "julianday", "make_date", "now", "printf", "strftime", "to_date"))
"""Functions of one row that sqlglot has no class for."""

# A statement's own parts:
_PARTS = {
    "with_ expressions from_ joins where order": "Select",  # no DISTINCT, GROUP BY, LIMIT, INTO, FOR UPDATE
    "this side kind on using": "Join",
    "this alias db catalog only": "Table",
    "this alias": "Alias Subquery",
    "this alias materialized": "CTE",
    "this columns": "TableAlias",
    "this table": "Column",
    "this quoted": "Identifier",
    "this desc nulls_first": "Ordered",
    "this": "From Paren Var Where",
    "expressions": "Order With",
    "except_ replace rename": "Star",
}
# Constants, types and operators on the values of one row:
_OPERATORS = {
    "this": "BitwiseNot Boolean Neg Not",
    "this expression": (
        "Add And Collate DataTypeParam EQ Escape GT GTE IntDiv LT LTE Mod Mul NEQ NullSafeEQ NullSafeNEQ Or "
        "SimilarTo Sub"
    ),
    "this expression padside": "BitwiseAnd BitwiseOr BitwiseXor",
    "this expression negate": "ILike Is Like",
    "this expression safe": "DPipe",
    "this expression typed safe": "Div",
    "this expression flag": "RegexpILike",
    "this expression flag full_match": "RegexpLike",
    "this expression round_input": "Xor",
    "this low high symmetric": "Between",
    "this ifs default": "Case",
    "this true false": "If",
    "this expressions": "In",  # constants alone, never a subquery or a table's name
    "this to format": "Cast",
    "this to format safe requires_string null_on_text_overflow": "TryCast",
    "this expressions nested kind": "DataType",
    "this unit": "Interval",
    "this is_string": "Literal",
    "expressions": "Tuple",
    "": "Null",
}
# Functions of one row alone, each with one value; today's date is the same for all rows:
_FUNCTIONS = {
    "this": (
        "Abs Ascii CurrentDate DateToDateStr Day DayOfMonth DayOfWeek DayOfWeekIso DayOfYear Exp Hour "
        "JSONPathSubscript Ln Lower MD5 Minute Month Quarter Reverse Second Sign Sqrt TsOrDsToTimestamp Typeof Upper "
        "WeekOfYear Year"
    ),
    "this expression": "EndsWith Extract Initcap Log Nullif Pow StartsWith",
    "this expression unit": "DateAdd DateSub",
    "this expression unit zone big_int date_part_boundary": "DateDiff",
    "this expression negative_length_returns_empty": "Left Right",
    "this expression replacement": "Replace",
    "this expression replacement position occurrence modifiers single_replace": "RegexpReplace",
    "this expression position occurrence parameters group": "RegexpExtract",
    "this expression position collation": "Trim",
    "this expression fill_pattern is_left": "Pad",
    "this expression only_json_types": "JSONExtract",
    "this expression only_json_types scalar_only": "JSONExtractScalar",
    "this expressions": "Anonymous",  # of the names below
    "this expressions zone": "Date",
    "this expressions is_nvl is_null": "Coalesce",
    "this expressions ignore_nulls": "Greatest Least",
    "this decimals to": "Ceil Floor",
    "this decimals truncate casts_non_integer_decimals": "Round",
    "this decimals fractions_supported": "Trunc",
    "this unit zone input_type_preserved": "DateTrunc TimestampTrunc",
    "this unit": "LastDay",
    "this zone": "AtTimeZone",
    "this sysdate": "CurrentTimestamp",
    "this binary encoding": "Length",
    "this case": "Hex",
    "this times": "Repeat",
    "this mode": "Week",
    "this from_ to": "Translate",
    "this start length zero_start": "Substring",
    "this substr position occurrence clamp_position": "StrPosition",
    "this delimiter part_index part_index_zero_as_one empty_delimiter_returns_whole": "SplitPart",
    "this format safe": "StrToDate TsOrDsToDate",
    "this format safe zone target_type": "StrToTime",
    "this format zone culture": "TimeToStr",
    "this format nlsparam is_numeric": "ToChar",
    "this format nlsparam precision scale safe": "ToNumber",
    "this scale zone": "UnixToTime",
    "this min_value max_value num_buckets": "WidthBucket",
    "this quoted": "JSONPathKey",
    "year month day allow_overflow": "DateFromParts",
    "expressions charset": "Chr",
    "expressions safe coalesce": "Concat",
    "expressions safe coalesce flatten": "ConcatWs",
    "expressions": "JSONPath",
    "": "JSONPathRoot",
}
# What more a query has that only reads: the last line that has a class counts.
_MORE = {
    "with_ expressions from_ joins where order distinct group having limit offset qualify windows sample laterals": (
        "Select"
    ),
    "with_ this expression distinct by_name side kind on order limit offset": "Except Intersect Union",
    "with_ this alias order limit offset sample": "Subquery",
    "this side kind on using method": "Join",
    "this alias db catalog only sample joins": "Table",
    "this expressions query unnest field": "In",
    "expressions recursive": "With",
    "expressions on": "Distinct",
    "expressions all rollup cube grouping_sets": "Group",
    "expressions": "Cube CumeDist DenseRank GroupingSets List PercentRank Rank Rollup",
    "expression offset limit_options": "Limit Offset",
    "this": (
        "All Any AnyValue Avg FirstValue Having IgnoreNulls LastValue LogicalAnd LogicalOr Median Ntile Qualify "
        "RowNumber Stddev StddevPop StddevSamp Sum Variance VariancePop"
    ),
    "this expression": "Exists Filter First Last PercentileCont PercentileDisc WithinGroup",
    "this expression null_on_zero_variance": "Corr",
    "this expressions": "Explode",
    "this expressions count": "Max Min",
    "this expressions big_int": "Count",
    "this zero_on_all_null": "CountIf",
    "this deterministic": "Mode",
    "this accuracy": "ApproxDistinct",
    "this quantile": "Quantile",
    "this separator on_overflow": "GroupConcat",
    "this nulls_excluded": "ArrayAgg",
    "this offset default": "Lag Lead",
    "this offset from_first": "NthValue",
    "this lower upper": "Rand",
    "this name is_string": "Uuid",
    "this alias view outer cross_apply ordinality": "Lateral",
    "expressions alias offset explode_array": "Unnest",
    "this partition_by order spec alias over first": "Window",
    "kind start start_side end end_side exclude": "WindowSpec",
    "method percent rows size seed": "TableSample",
    "percent rows with_ties": "LimitOptions",
    "direction count limit_options": "Fetch",
    "start end step is_end_exclusive": "ExplodingGenerateSeries GenerateSeries",
}
ROW_BY_ROW = known_trees(_PARTS) | known_trees(_OPERATORS) | known_trees(_FUNCTIONS)
"""Of a query whose rows each come of one row."""
READING = ROW_BY_ROW | known_trees(_MORE)
"""Of a query that changes nothing."""


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
    joins, repeats = joins_of(tree, written, public=public_tables, unit=unit)
    return CheckedQuery(text, joins, repeats, columns, filters)


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
