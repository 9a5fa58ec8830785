"""The options that name a database and a query, or a Spark table."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from crosstally.errors import SourceError

__all__ = ["DatabaseUrl", "DsnEnv", "PublicTables", "Query", "RowsAreUnits", "SparkName", "read_source", "words_of"]

_DATABASE = "A database or Spark, instead of SOURCE"

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        rich_help_panel=_DATABASE,
        help="postgresql://host/name, sqlite:///FILE, duckdb:///FILE or odbc://NAME, without a password.",
    ),
]
DsnEnv = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", rich_help_panel=_DATABASE, help="The environment variable that holds the URL with its password."
    ),
]
Query = Annotated[
    str | None,
    typer.Option(
        metavar="SQL",
        rich_help_panel=_DATABASE,
        help="One SELECT; each of its rows must come from one row of the database.",
    ),
]
PublicTables = Annotated[
    list[str] | None,
    typer.Option(
        "--public-table",
        metavar="NAME",
        rich_help_panel=_DATABASE,
        help="A table that the query joins and that is public (repeatable). The release says so.",
    ),
]
RowsAreUnits = Annotated[
    bool,
    typer.Option(
        "--rows-are-units",
        rich_help_panel=_DATABASE,
        help="You assert that each row belongs to one unit although the query groups, limits or joins. "
        "The release says so.",
    ),
]
SparkName = Annotated[
    str | None,
    typer.Option(
        "--spark",
        metavar="NAME",
        rich_help_panel=_DATABASE,
        help="A Spark table, or the path of Parquet or ORC files.",
    ),
]


def read_source(
    source: list[str] | None,
    url: str | None,
    dsn_env: str | None,
    query: str | None,
    spark: str | None,
    *,
    rows_are_units: bool = False,
    public_tables: list[str] | None = None,
) -> Any:
    """The source that the options name: files, the result of a database query, or a Spark table."""
    asked = [option for option, given in (("--database", url), ("--dsn-env", dsn_env), ("--query", query)) if given]
    if source and (asked or spark):
        others = ", ".join([*asked, *(["--spark"] if spark else [])])
        raise SourceError(f"rows come from files or from a database: leave out SOURCE or {others}")
    if asked and spark:
        raise SourceError(f"rows come from a database or from Spark: leave out --spark or {', '.join(asked)}")
    if rows_are_units and not (asked or spark):
        raise SourceError("--rows-are-units is about a query of a database, or a table of Spark: leave it out")
    if public_tables and not asked:
        raise SourceError("--public-table is about a query of a database: leave it out")
    if source:
        return source[0] if len(source) == 1 else source
    if spark:
        from crosstally.sources.spark import SparkTable

        return SparkTable(spark, rows_are_units)
    if not asked:
        raise SourceError("say which rows to read: SOURCE, --database and --query, or --spark")
    if query is None:
        raise SourceError("say what to read from the database: --query 'SELECT ...'")
    from crosstally.sources.databases import Database

    public = tuple(public_tables or ())
    return Database(query=query, url=url, dsn_env=dsn_env, public_tables=public, rows_are_units=rows_are_units)


def words_of(
    source: str | None, url: str | None, dsn_env: str | None, query: str | None, spark: str | None
) -> list[str]:
    """The arguments and options with which another command names the same source."""
    options = (("--database", url), ("--dsn-env", dsn_env), ("--query", query), ("--spark", spark))
    return [source] if source else [word for option, given in options if given for word in (option, given)]
