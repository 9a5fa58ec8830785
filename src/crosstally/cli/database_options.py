"""The options that name a database and what is selected from it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from crosstally.errors import SourceError

__all__ = ["DatabaseUrl", "DsnEnv", "Query", "read_database", "words_of"]

_DATABASE = "A database, instead of SOURCE"

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        rich_help_panel=_DATABASE,
        help="postgresql://host/name, sqlite:///FILE or duckdb:///FILE, without a password.",
    ),
]
DsnEnv = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", rich_help_panel=_DATABASE, help="The environment variable that holds the URL, with a password."
    ),
]
Query = Annotated[
    str | None,
    typer.Option(metavar="SQL", rich_help_panel=_DATABASE, help="One SELECT whose rows each come of one row."),
]


def read_database(source: list[str] | None, url: str | None, dsn_env: str | None, query: str | None) -> Any:
    """The source that is meant: files, or what a query selects from a database."""
    asked = [option for option, given in (("--database", url), ("--dsn-env", dsn_env), ("--query", query)) if given]
    if source and asked:
        raise SourceError(f"rows come from files or from a database: leave out SOURCE or {', '.join(asked)}")
    if source:
        return source[0] if len(source) == 1 else source
    if not asked:
        raise SourceError("which rows to read must be said: SOURCE, or --database and --query")
    if query is None:
        raise SourceError("what to read from the database must be said: --query 'SELECT ...'")
    from crosstally.sources.databases import Database

    return Database(query=query, url=url, dsn_env=dsn_env)


def words_of(source: str | None, url: str | None, dsn_env: str | None, query: str | None) -> list[str]:
    """The words of a command that name the same source again."""
    options = (("--database", url), ("--dsn-env", dsn_env), ("--query", query))
    return [source] if source else [word for option, given in options if given for word in (option, given)]
