"""Columns that a query says with the name of their table: each must be one.

PostgreSQL takes ``p.max`` for ``max(p)`` where ``p`` has no such column, for aggregates of its own and of others. Names
of functions cannot all be known here, names of columns can: the database says them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crosstally.checks import optional
from crosstally.errors import SourceError

__all__ = ["Qualified", "check_columns", "qualified_columns"]


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
