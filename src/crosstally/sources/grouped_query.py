"""Rows that a database groups before they travel: equal rows once, with how many there are.

A group must hold rows of equal cells, whatever a column's collation says. So rows are grouped only where the database's
equality implies equal canonical texts: by whole numbers, booleans, dates, and texts compared byte by byte. Under a
collation that overlooks case, one person's 'ABC' could else move a thousand others out of the cell of 'abc'.
"""

from __future__ import annotations

from collections.abc import Sequence

from crosstally.sources.source import WEIGHT

__all__ = ["all_of", "grouped_query", "sample_query", "types_query"]

_SAMPLE = 1_000_000
"""Of so many rows it is seen whether grouping is worth its while."""
_INTEGERS = {"SMALLINT", "INTEGER", "BIGINT", "TINYINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
_AS_THEY_ARE = _INTEGERS | {"BOOLEAN", "DATE"}
_TEXTS = {"TEXT", "CHARACTER VARYING", "VARCHAR"}  # not CHARACTER, whose blanks a cast takes away, nor an enumeration


def all_of(query: str) -> str:
    """The rows of a query once more, to which a clause may be added."""
    return f"SELECT * FROM {_inside(query)}"


def types_query(query: str, names: Sequence[str]) -> str:
    """PostgreSQL's own names of the types of a query's columns, in one row."""
    kinds = ", ".join(f"CAST(pg_typeof({_quoted(name)}) AS text)" for name in names)
    return f"SELECT {kinds} FROM (SELECT 1) AS crosstally_one LEFT JOIN {_inside(query)} ON false"


def sample_query(query: str, names: Sequence[str], kinds: Sequence[str] | None) -> str | None:
    """Whether the first rows are mostly the same: how many there are, and how many different ones."""
    grouped = grouped_query(f"{all_of(query)} LIMIT {_SAMPLE}", names, kinds)
    if grouped is None:
        return None
    weight = _quoted(WEIGHT)
    return f"SELECT CAST(COALESCE(SUM({weight}), 0) AS bigint), COUNT(*) FROM {_inside(grouped)}"


def grouped_query(query: str, names: Sequence[str], kinds: Sequence[str] | None) -> str | None:
    """The query whose rows are the different ones, with their number; None where equality may not be of texts.

    ``kinds`` are the types of the columns; None stands for SQLite, where every value has its own.
    """
    if len({name.lower() for name in names}) < len(names):
        return None  # to some databases they are one
    if kinds is None:
        chosen = [_quoted(name) for name in names]
        keys = [key for name in chosen for key in (f"typeof({name})", f"{name} COLLATE BINARY")]
    else:
        keys = [_key(_quoted(name), kind.upper()) for name, kind in zip(names, kinds, strict=True)]
        chosen = [f"{key} AS {_quoted(name)}" for key, name in zip(keys, names, strict=True)]
    if not all(keys):
        return None
    return f"SELECT {', '.join(chosen)}, COUNT(*) AS {_quoted(WEIGHT)} FROM {_inside(query)} GROUP BY {', '.join(keys)}"


def _key(name: str, kind: str) -> str:
    if kind in _AS_THEY_ARE:
        return name
    return f'CAST({name} AS text) COLLATE "C"' if kind in _TEXTS else ""


def _inside(query: str) -> str:
    return f"(\n{query}\n) AS crosstally_query"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
