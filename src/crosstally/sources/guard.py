"""A wall around readers of rows.

Their messages may quote rows, so none of them passes: an error that comes out names the source and a reason that was
written here, and carries no other exception along.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from crosstally.errors import CrosstallyError, SourceError
from crosstally.schema.reading import ColumnName

# The words of errors that name an option of reading.


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


NOT_UTF8 = f"it is not UTF-8 text; if it is Windows' text say {how_to_say('encoding', 'cp1252')}"
DAMAGED = "it is damaged, cut short, or not what its name says"
_REASONS = (
    ("columns, got", "a row has more or fewer fields than the header"),
    ("UTF8", NOT_UTF8),
    ("straddling", "a row is too long, or a quote is never closed"),
    ("cannot infer number of columns", "it has no header"),
)

T = TypeVar("T")


def guarded(
    source: str,
    action: Callable[[], T],
    *,
    otherwise: str = DAMAGED,
    reason_of: Callable[[Exception], str | None] = lambda _: None,
) -> T:
    """What the action returns; whatever it raises becomes a SourceError that holds none of its text.

    ``reason_of`` may find a reason in an error that is safe to print, which goes before those known here.
    """
    try:
        return action()
    except CrosstallyError:
        raise
    except Exception as error:  # noqa: BLE001 (whatever foreign code raises)
        reason = reason_of(error) or _safe_reason(error) or otherwise
    # Raised outside of the except clause: the first error may quote rows and must not follow as its context.
    raise SourceError(f"cannot read {source}: {reason}")


def _safe_reason(error: Exception) -> str | None:
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    if isinstance(error, UnicodeError):
        return NOT_UTF8
    if isinstance(error, pa.ArrowException):
        return next((reason for mark, reason in _REASONS if mark in str(error)), None)
    return None
