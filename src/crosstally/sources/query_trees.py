"""What is understood of the tree of a query to a database: classes of sqlglot, with their arguments.

Two tables: of a query whose rows each come of one row, and of one whose steward answers for how rows depend on each
other, which must read and no more. Flags that sqlglot sets for its own printing are listed with the function that has
them: what a function of one row does with that row changes no other one.
"""

from __future__ import annotations

from crosstally.sql_trees import known_trees

__all__ = ["FUNCTIONS", "READING", "ROW_BY_ROW"]

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
