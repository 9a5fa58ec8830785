"""The options that say where rows are and how they are written, and what is asked when that is ambiguous."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from crosstally.cli.options import argument, flag, option
from crosstally.cli.output.screen import printable
from crosstally.errors import AmbiguousNumbersError, SchemaError, SourceError

if TYPE_CHECKING:
    from crosstally.sources.reading_options import Reading


T = TypeVar("T")

_reading_option = partial(option, panel="How the source is written")
_DATABASE = "A database or Spark, instead of SOURCE"
_database_option = partial(option, panel=_DATABASE)

Source = Annotated[str | None, argument("SOURCE", "A file, a folder or a glob: CSV, Parquet, Excel, SPSS ...")]
_NAMED = {"tab": "\t", "\\t": "\t", "none": "", "blank": " ", "space": " "}
_ANSWERS = {"p": ".", "c": ","}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingOptions:
    """How the source is written."""

    delimiter: Annotated[
        str | None, _reading_option("CHARACTER", "The character between the fields of a text file, such as ';' or tab.")
    ] = None
    encoding: Annotated[
        str | None, _reading_option("NAME", "The encoding of a text file: utf-8 (the default), cp1252, utf-16.")
    ] = None
    quote: Annotated[
        str | None, _reading_option("CHARACTER", 'The quote around the fields of a text file; " by default, or none.')
    ] = None
    decimal: Annotated[
        list[str] | None,
        _reading_option("[COLUMN=].|,", "The decimal mark, of all columns or of one; may be repeated."),
    ] = None
    thousands: Annotated[
        list[str] | None,
        _reading_option("[COLUMN=]MARK", "The mark between groups of digits: . , ' blank or none; may be repeated."),
    ] = None
    header: Annotated[
        int | None, _reading_option("LINE", "The line that holds the column names; 0 if there is none.", min=0)
    ] = None
    sheet: Annotated[str | None, _reading_option("NAME", "The sheet of a workbook, by name or number.")] = None
    table: Annotated[str | None, _reading_option("NAME", "The table of a DuckDB or SQLite file.")] = None

    def reading(self) -> Reading:
        """The ``Reading`` that the options describe."""
        from crosstally.sources.reading_options import Reading

        return Reading(
            delimiter=_NAMED.get(self.delimiter or "", self.delimiter),
            encoding=self.encoding,
            quote=_NAMED.get(self.quote or "", self.quote),
            decimal=_by_column("--decimal", self.decimal),
            thousands=_by_column("--thousands", self.thousands),
            header=self.header,
            sheet=self.sheet,
            table=self.table,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseOptions:
    """A query to a database, instead of files."""

    database: Annotated[
        str | None,
        _database_option(
            "URL", "postgresql://host/name, sqlite:///FILE, duckdb:///FILE or odbc://NAME, without a password."
        ),
    ] = None
    dsn_env: Annotated[
        str | None, _database_option("NAME", "The environment variable that holds the URL with its password.")
    ] = None
    query: Annotated[
        str | None, _database_option("SQL", "One SELECT; each of its rows must come from one row of the database.")
    ] = None
    public_table: Annotated[
        list[str] | None,
        _database_option("NAME", "A table that the query joins and that is public (repeatable). The release says so."),
    ] = None
    rows_are_units: Annotated[
        bool,
        flag(
            "You assert that each row belongs to one unit although the query groups, limits or joins. "
            "The release says so.",
            "--rows-are-units",
            panel=_DATABASE,
        ),
    ] = False

    def source(self, files: Sequence[str], spark: str | None = None) -> Any:
        """The source that arguments and options name: files, the result of a query, or a Spark table."""
        asked = self._asked()
        if files and (asked or spark):
            others = ", ".join([*asked, *(["--spark"] if spark else [])])
            raise SourceError(f"rows come from files or from a database: leave out SOURCE or {others}")
        if asked and spark:
            raise SourceError(f"rows come from a database or from Spark: leave out --spark or {', '.join(asked)}")
        if self.rows_are_units and not (asked or spark):
            raise SourceError("--rows-are-units is about a query of a database, or a table of Spark: leave it out")
        if self.public_table and not asked:
            raise SourceError("--public-table is about a query of a database: leave it out")
        if files:
            return files[0] if len(files) == 1 else list(files)
        if spark:
            from crosstally.sources.spark import SparkTable

            return SparkTable(spark, self.rows_are_units)
        if not asked:
            raise SourceError("say which rows to read: SOURCE, --database and --query, or --spark")
        return self._database()

    def _database(self) -> Any:
        from crosstally.sources.databases import Database

        if self.query is None:
            raise SourceError("say what to read from the database: --query 'SELECT ...'")
        return Database(
            query=self.query,
            url=self.database,
            dsn_env=self.dsn_env,
            public_tables=tuple(self.public_table or ()),
            rows_are_units=self.rows_are_units,
        )

    def _asked(self) -> dict[str, str]:
        options = {"--database": self.database, "--dsn-env": self.dsn_env, "--query": self.query}
        return {option: given for option, given in options.items() if given}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(DatabaseOptions):
    """A query to a database, or a Spark table, instead of files."""

    spark: Annotated[str | None, _database_option("NAME", "A Spark table, or the path of Parquet or ORC files.")] = None

    def source(self, files: Sequence[str], spark: str | None = None) -> Any:
        """The source that arguments and options name."""
        return DatabaseOptions.source(self, files, spark or self.spark)

    @property
    def named(self) -> bool:
        """Whether any of them was given."""
        return bool(self._asked() or self.spark or self.rows_are_units or self.public_table)

    def words(self) -> list[str]:
        """The options with which another command names the same source."""
        found = [word for pair in self._asked().items() for word in pair]
        found += ["--spark", self.spark] if self.spark else []
        found += ["--rows-are-units"] if self.rows_are_units else []
        return found + [word for name in self.public_table or () for word in ("--public-table", name)]


def source_and_schema(verb: str, source: str | None, schema: Path | None, options: SourceOptions) -> tuple[Any, Path]:
    """The rows and the schema that a command is about; the only argument beside a database is the schema."""
    if schema is None and source and (options.database or options.dsn_env or options.spark):
        schema, source = Path(source), None
    if schema is None:
        raise SchemaError(f"a {verb} needs a source and a schema: crosstally schema {verb} SOURCE SCHEMA")
    return options.source([source] if source else []), schema


def _by_column(option: str, given: Sequence[str] | None) -> dict[str, str] | str | None:
    """Read 'income=,' as a mark for one column and ',' as a mark for all columns."""
    from crosstally.sources.reading_options import EVERY_COLUMN

    found: dict[str, str] = {}
    for text in given or ():
        column, _, mark = text.rpartition("=")
        if column in found:
            raise SourceError(f"{option} says two things of {f'column {column!r}' if column else 'all columns'}")
        found[column] = _NAMED.get(mark, mark)
    return found.get(EVERY_COLUMN) if set(found) <= {EVERY_COLUMN} else found


def settled(action: Callable[[Reading], T], reading: Reading, *, quiet: bool) -> T:
    """Run the action; where numbers can be read in two ways, ask the person at the terminal which one is meant."""
    while True:
        try:
            return action(reading)
        except AmbiguousNumbersError as error:
            if quiet or not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise
            columns = error.columns
        reading = replace(reading, decimal=_asked(reading, columns))


def _asked(reading: Reading, columns: Sequence[str]) -> dict[str, str]:
    from crosstally.sources.reading_options import EVERY_COLUMN

    given = {EVERY_COLUMN: reading.decimal} if isinstance(reading.decimal, str) else dict(reading.decimal or {})
    for column in columns:
        answer = ""
        while answer not in _ANSWERS:
            question = f"{printable(column)}: its numbers may have a decimal (p)oint or a decimal (c)omma; which is it?"
            answer = typer.prompt(question, err=True).strip().lower()[:1]
        given[column] = _ANSWERS[answer]
    return given
