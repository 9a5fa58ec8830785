"""What a database's error is about, in our words: its own text may quote a person's values, its SQLSTATE does not."""

from __future__ import annotations

import re

__all__ = ["reason_of", "reason_of_state"]

# Classes of the SQL standard and of PostgreSQL's appendix A; a state of no class listed here is not shown.
_CLASSES = {
    "08": "the connection failed",
    "0A": "the query asks for what the database cannot do",
    "22": "a value does not fit what the query does with it",
    "25": "the query tries to change data, or the transaction is not one for reading",
    "28": "the login was refused",
    "3D": "there is no such database",
    "3F": "there is no such schema in the database",
    "40": "the transaction was rolled back; try again",
    "42": "the query does not fit the database",
    "53": "the server has not enough memory, disk or connections",
    "54": "the query is too long or too deep for the server",
    "55": "a table is locked or not ready",
    "57": "the server stopped the query or closed the connection",
    "58": "the server's system failed",
    "HY": "the driver failed, or the server took too long",
    "IM": "ODBC knows no such data source or driver",
    "XX": "the server has an error of its own",
}
_STATES = {
    "42501": "you may not read a table that the query names",
    "42601": "the query is not the database's SQL",
    "42703": "the query names a column that is not there",
    "42883": "the query calls a function that is not there",
    "42P01": "the query names a table that is not there",
}
_STATE = re.compile(r"[0-9A-Z]{5}")
_ODBC_STATE = re.compile(r"^State: ([0-9A-Z]{5}), Native error: ", re.MULTILINE)
_TOO_LONG = "without truncation"
_SQLITE = re.compile(r"SQLITE_[A-Z_]+")


def reason_of(error: Exception) -> str | None:
    """What can be said of a driver's error without its text; None where that is nothing.

    >>> class Wrong(Exception):
    ...     sqlstate = "22P02"
    >>> reason_of(Wrong("invalid input syntax for type integer: 'Smith'"))
    'a value does not fit what the query does with it (SQLSTATE 22P02)'
    """
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if type(error).__module__.partition(".")[0] == "arrow_odbc":
        return _reason_of_odbc(str(error))
    reason = reason_of_state(state) if isinstance(state, str) else None
    if reason is not None:
        return f"{reason} (SQLSTATE {state})"
    name = getattr(error, "sqlite_errorname", None)
    if isinstance(name, str) and _SQLITE.fullmatch(name):
        return f"SQLite refuses the query ({name})"
    if type(error).__module__.partition(".")[0] in ("duckdb", "_duckdb"):
        return f"DuckDB refuses the query ({type(error).__name__})"
    return None


def _reason_of_odbc(message: str) -> str | None:
    """The first state in a message of the driver manager, which stands before the driver's own text."""
    if _TOO_LONG in message:
        return "a value is longer than the driver says that its column holds; cast it in the query to a longer type"
    found = _ODBC_STATE.search(message)
    reason = None if found is None else reason_of_state(found[1])
    return None if reason is None or found is None else f"{reason} (SQLSTATE {found[1]})"


def reason_of_state(state: str) -> str | None:
    """What a SQLSTATE stands for; None where its class is not listed here."""
    return _STATES.get(state) or _CLASSES.get(state[:2]) if _STATE.fullmatch(state) else None
