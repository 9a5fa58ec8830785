"""The words of errors that name an option of reading."""

from __future__ import annotations

import shlex

from crosstally.schema.reading import ColumnName

__all__ = ["how_to_say"]


def how_to_say(option: str, value: str | None = None, *, column: str | None = None) -> str:
    """The words of an error that name an option, on the command line and in Python.

    >>> print(how_to_say("delimiter", ";"))
    --delimiter ';' (in Python: Reading(delimiter=';'))
    >>> print(how_to_say("decimal", ",", column="income"))
    --decimal income=, (in Python: Reading(decimal={'income': ','}))
    """
    if value is None:
        return f"--{option} (in Python: Reading({option}=...))"
    if column is None:
        return f"--{option} {shlex.quote(value)} (in Python: Reading({option}={value!r}))"
    column = column.shown if isinstance(column, ColumnName) else column
    typed = shlex.quote(f"{column}={value}") if value != "," else f"{shlex.quote(f'{column}=')},"
    return f"--{option} {typed} (in Python: Reading({option}={{{column!r}: {value!r}}}))"
