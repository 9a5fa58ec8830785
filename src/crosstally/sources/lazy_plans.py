"""Tables that are queries: whether each of their rows comes of one row, as far as their plans say.

What is asked of a query to a database is asked of a Spark DataFrame's analysed plan, of a Polars LazyFrame's plan
before it is optimized, and of the SQL of a DuckDB relation. Each part must be among those that look at one row alone. A
table in memory says nothing of how it was made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crosstally.errors import SourceError

__all__ = ["check_lazy_frame", "check_spark_plan"]

# Spark: nodes of logical plans, relations among them, that hand on, drop or change single rows.
_SPARK = """
    CTERelationDef CTERelationRef DataSourceV2Relation DataSourceV2ScanRelation Filter HiveTableRelation LocalRelation
    LogicalRDD LogicalRelation Project Range RebalancePartitions Repartition RepartitionByExpression ResolvedHint Sort
    SubqueryAlias View WithCTE
"""
_ROW_UDFS = (100, 101)  # Python functions of one row; others get a batch of rows
_SPARK_HOW = (
    "leave it out, or say SparkTable(frame, rows_are_units=True) (--rows-are-units) if one person more or less changes "
    "one row of the result all the same, which the release will state"
)
# Polars: nodes of plans, and of expressions with the attributes that hold their operands.
_POLARS = frozenset(("DataFrameScan", "Filter", "HStack", "PythonScan", "Scan", "Select", "SimpleProjection", "Sort"))
_OPERANDS = {
    "BinaryExpr": ("left", "right"),
    "Cast": ("expr",),
    "Column": (),
    "Function": ("input",),
    "Literal": (),
    "Ternary": ("predicate", "truthy", "falsy"),
}
_OF_A_ROW = """
    abs ceil clip coalesce fill_null floor max_horizontal min_horizontal negate pow replace replace_strict round sign
    BooleanFunction.AllHorizontal BooleanFunction.AnyHorizontal BooleanFunction.IsBetween BooleanFunction.IsFinite
    BooleanFunction.IsIn BooleanFunction.IsInfinite BooleanFunction.IsNan BooleanFunction.IsNotNan
    BooleanFunction.IsNotNull BooleanFunction.IsNull BooleanFunction.Not
    StringFunction.ConcatHorizontal StringFunction.Contains StringFunction.EndsWith StringFunction.Extract
    StringFunction.LenBytes StringFunction.LenChars StringFunction.Lowercase StringFunction.PadEnd
    StringFunction.PadStart StringFunction.Replace StringFunction.Slice StringFunction.StartsWith
    StringFunction.StripChars StringFunction.StripCharsEnd StringFunction.StripCharsStart StringFunction.Strptime
    StringFunction.Titlecase StringFunction.ToInteger StringFunction.Uppercase StringFunction.ZFill
    TemporalFunction.Date TemporalFunction.Day TemporalFunction.Hour TemporalFunction.IsoYear TemporalFunction.Minute
    TemporalFunction.Month TemporalFunction.OrdinalDay TemporalFunction.Quarter TemporalFunction.Second
    TemporalFunction.Time TemporalFunction.ToString TemporalFunction.Truncate TemporalFunction.Week
    TemporalFunction.WeekDay TemporalFunction.Year
"""
_LOOKING_UP = frozenset(("BooleanFunction.IsIn", "replace", "replace_strict"))  # in a list, which must be constant
_POLARS_HOW = (
    "leave it out, or collect() the LazyFrame if one person more or less changes one row of it all the same: you are "
    "responsible for what a table in memory holds"
)


def check_spark_plan(plan: Any) -> None:
    """Raise unless every node of an analysed plan, and every expression, looks at one row."""
    for node in _tree(plan):
        name = node.nodeName()
        if name not in _SPARK.split():
            raise _depends("the DataFrame", name, _SPARK_HOW)
        if node.subqueries().size():
            raise _depends("the DataFrame", "a subquery in a condition or column", _SPARK_HOW)
        for expression in _each(node.expressions()):
            for part in _tree(expression):
                if part.nodeName() == "PythonUDF" and part.evalType() not in _ROW_UDFS:
                    raise _depends("the DataFrame", "a Python function of many rows", _SPARK_HOW)


def _tree(node: Any) -> Iterator[Any]:
    yield node
    for child in _each(node.children()):
        yield from _tree(child)


def _each(sequence: Any) -> Iterator[Any]:
    """What a Scala sequence holds."""
    return (sequence.apply(i) for i in range(sequence.size()))


def check_lazy_frame(frame: Any) -> None:
    """Raise unless every node and expression of a Polars plan looks at one row."""
    try:
        parts = list(_polars_parts(frame))
    except (AttributeError, NotImplementedError):  # Polars raises these of its own plans; what is not seen is refused
        parts = ["a part that Polars does not show, such as a Python function"]
    if parts:
        raise _depends("the LazyFrame", parts[0], _POLARS_HOW)


def _polars_parts(frame: Any) -> Iterator[str]:
    """What is not known of a plan to look at one row alone."""
    import polars

    # As it was written: optimized, a LIMIT becomes part of the file that is read.
    visitor = frame._ldf.with_optimizations(polars.QueryOptFlags.none()._pyoptflags).visit()
    waiting = [visitor.get_node()]
    while waiting:
        visitor.set_node(waiting.pop())
        node = visitor.view_current_node()
        name = type(node).__name__
        if name not in _POLARS:
            yield name
        if name == "Scan" and node.file_options.n_rows is not None:
            yield "the first rows of a file"
        for expression in visitor.get_exprs():
            yield from _polars_functions(visitor, expression.node)
        waiting += visitor.get_inputs()


def _polars_functions(visitor: Any, number: int) -> Iterator[str]:
    expression = visitor.view_expression(number)
    name = type(expression).__name__
    if name not in _OPERANDS:
        yield name
        return
    operands = [getattr(expression, operand) for operand in _OPERANDS[name]]
    operands = [each for operand in operands for each in (operand if isinstance(operand, list) else [operand])]
    if name == "Function":
        function, *options = expression.function_data
        if str(function) not in _OF_A_ROW.split():
            yield str(function)
        constant = all(type(visitor.view_expression(each)).__name__ == "Literal" for each in operands[1:])
        if str(function) in _LOOKING_UP and not constant:
            yield f"{function} with other than constants"
        if str(function) == "StringFunction.Strptime" and options[0] is None:
            yield "dates in a format that the rows decide"
    for each in operands:
        yield from _polars_functions(visitor, each)


def _depends(source: str, what: str, how: str) -> SourceError:
    return SourceError(f"{source} has {what}, so that rows may depend on other rows: {how}")
