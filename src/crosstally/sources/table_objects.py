"""Tables that other packages hold, as Arrow readers: frames, queries, datasets, and all that speaks Arrow."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from crosstally.errors import SourceError
from crosstally.sources.guard import guarded
from crosstally.sources.one_select import CheckedQuery, checked_query
from crosstally.sources.source import AnyUnit, RowStream, Scan, Source, chosen_columns

# Tables that are queries: whether each of their rows comes of one row, as far as their plans say. What is asked of a
# query to a database is asked of a Spark DataFrame's analysed plan, of a Polars LazyFrame's plan before it is
# optimized, and of the SQL of a DuckDB relation. Each part must be among those that look at one row alone. A table in
# memory says nothing of how it was made.


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


_NOT_ARROW = "it is not a table whose columns each hold one kind of value"
# Known by name: none of these packages needs to be installed.
_FRAMES = {("pandas", "DataFrame"), ("polars", "DataFrame")}
_PANDAS, _LAZY = ("pandas", "DataFrame"), ("polars", "LazyFrame")
_DATASET, _SCANNER = ("pyarrow", "Dataset"), ("pyarrow", "Scanner")
_RELATION = "DuckDBPyRelation"
_CONVERTED = {_LAZY, _DATASET, _SCANNER}


def is_table(rows: Any) -> bool:
    """Whether rows are a table, in memory or behind a query, and not the name of a file."""
    return hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__") or bool(_kinds(rows) & _CONVERTED)


class TableRows(Source):
    """Rows of a table in memory, or of a query of DuckDB or Polars."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        self._name = f"the {type(rows).__name__}"
        kinds = _kinds(rows)
        in_files = _DATASET in kinds and ("pyarrow", "InMemoryDataset") not in kinds
        # Of anything else that speaks Arrow nothing is known, and nothing can be tried: a reader or a database's cursor
        # is empty after the first time, a query is run again and may have another answer.
        self.is_read_again = in_files or bool(kinds & _FRAMES) or isinstance(rows, pa.Table | pa.RecordBatch)

    def streams(self, scan: Scan) -> Iterator[RowStream]:
        """The table as one stream; raises where a query's rows depend on other rows."""
        _check_rows(self._rows, scan.unit)
        yield RowStream(self._name, None, self._read(scan.columns))

    def _read(self, needed: Sequence[str] | None) -> Generator[tuple[pa.RecordBatch, int]]:
        names = guarded(self._name, partial(_names_of, self._rows), otherwise=_NOT_ARROW)
        chosen = None if names is None else chosen_columns(self._name, names, needed)
        reader = guarded(self._name, partial(_reader_of, self._rows, chosen), otherwise=_NOT_ARROW)
        chosen = chosen_columns(self._name, reader.schema.names, needed)
        return ((batch.select(chosen), 0) for batch in reader)

    def joins(self, unit: str | None) -> Mapping[str, str]:
        """How each table was joined that a relation joins."""
        return _checked_relation(self._rows, unit).joins if _is_relation(self._rows) else {}

    def leaves_rows_out(self, unit: str | None) -> bool:
        """Whether a relation may leave rows of its tables out."""
        return _is_relation(self._rows) and _checked_relation(self._rows, unit).filters


def _names_of(rows: Any) -> list[str] | None:
    """The names of a table's columns, where they are known before it is converted."""
    kinds = _kinds(rows)
    if _PANDAS in kinds:
        return [str(name) for name in rows.columns]
    if _LAZY in kinds:
        return list(rows.collect_schema().names())
    return list(rows.schema.names) if _DATASET in kinds else None


def _reader_of(rows: Any, chosen: Sequence[str] | None) -> pa.RecordBatchReader:
    """The rows as a reader; of the columns chosen alone, where a table can leave the others out."""
    kinds = _kinds(rows)
    if chosen is not None and _PANDAS in kinds:
        # Conversion goes column by column, and one that is not needed may not convert at all.
        rows = rows.loc[:, [str(name) in chosen for name in rows.columns]]
    elif _LAZY in kinds:
        return _lazy_reader(rows if chosen is None else rows.select(chosen))
    elif _DATASET in kinds:
        return rows.scanner(columns=chosen).to_reader()
    elif _SCANNER in kinds:
        return rows.to_reader()
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(rows)
    batch = pa.record_batch(rows)
    return pa.RecordBatchReader.from_batches(batch.schema, [batch])


def _is_relation(rows: Any) -> bool:
    """Whether rows are a query of DuckDB."""
    return any(name == _RELATION for _, name in _kinds(rows))


def _checked_relation(rows: Any, unit: str | None) -> CheckedQuery:
    """The query of a DuckDB relation; raises unless each of its rows comes of rows of one unit."""
    try:
        return checked_query(rows.sql_query(), "duckdb", unit=unit, reading_files=True)
    except SourceError as error:
        reason = str(error).partition(": ")[0]
    raise SourceError(
        f"the DuckDB relation: {reason}: leave it out, give its query as a Database with rows_are_units=True, or fetch "
        "its rows first: you are responsible for what a table in memory holds"
    )


def _check_rows(rows: Any, unit: str | AnyUnit | None) -> None:
    """Raise where a table is a query, and its plan says that rows depend on other rows."""
    if isinstance(unit, AnyUnit):
        return
    if _is_relation(rows):
        _checked_relation(rows, unit)
    elif _LAZY in _kinds(rows):
        check_lazy_frame(rows)


def _lazy_reader(query: Any) -> pa.RecordBatchReader:
    """The rows of a Polars query as they come, so that not all of them need be in memory."""
    if not hasattr(query, "collect_batches"):  # Polars before 1.34
        return pa.RecordBatchReader.from_stream(query.collect())
    schema = pa.RecordBatchReader.from_stream(query.head(0).collect()).schema
    parts = (batch for frame in query.collect_batches() for batch in pa.RecordBatchReader.from_stream(frame))
    return pa.RecordBatchReader.from_batches(schema, parts)


def _kinds(rows: Any) -> set[tuple[str, str]]:
    return {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(rows).__mro__}
