"""Every error that a user can cause.

CrosstallyError
├── SchemaError            a schema, or a file that holds one, is not well formed
├── BudgetError            a privacy budget that is not a budget
├── QueryError             a question about attributes that are not there
├── WorkloadError          tables or weights that are not a workload
├── PlanError              a strategy cannot plan this, or a plan is not sound
│   └── TooManyCellsError  the table would not fit; says how large it is
├── SourceError            rows cannot be read
│   ├── OutsideValueError  a column holds values that the schema refuses
│   └── AmbiguousNumbersError  every number of a column fits two readings
├── LedgerError            the ledger cannot be used
│   ├── OverspendError     the cap would be exceeded
│   ├── KeyReusedError     the key belongs to another request
│   └── ChargeLostError    charged, never stored: it cannot be drawn again
├── ReleaseError           a release file cannot be read or written
└── MissingExtraError      an optional package is not installed

No message holds a count, a row or a category that is confidential: names of files and of the schema's columns, public
labels, sizes of public tables and what the user typed are all that appears. Other names in a file's first line do not:
without a header, that line is a person.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

_LONGEST_NAME = 200  # characters of a name that is compared with others, or shown as one of them


_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, ends of lines, what turns the reading direction around, and halves of surrogate pairs."""
_LONGEST, _LAST = 1_000, 250  # letters of a message, and those of its end that are kept of a longer one


OTHER_VERSION = "it was made by a newer version, or by a development version: make it again"
"""Said of a file whose format has another number."""


class CrosstallyError(Exception):
    r"""The root of every error a user can cause. What it says is one line, whatever the names that it quotes hold.

    >>> print(CrosstallyError("unknown attribute 'a\nb'"))
    unknown attribute 'a\x0ab'
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(_one_line(message))


def _one_line(text: str) -> str:
    seen = _UNSEEN.sub(lambda found: _escaped(ord(found.group())), text[: 2 * _LONGEST] + text[2 * _LONGEST :][-_LAST:])
    return seen if len(seen) <= _LONGEST else f"{seen[: _LONGEST - _LAST - 5]} ... {seen[-_LAST:]}"


def _escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


class SchemaError(CrosstallyError):
    """A schema, or a file that holds one, is not well formed."""


class BudgetError(CrosstallyError):
    """A privacy budget that is not a budget."""


class QueryError(CrosstallyError):
    """A question about attributes that are not there."""


class WorkloadError(CrosstallyError):
    """Tables or weights that are not a workload."""


class PlanError(CrosstallyError):
    """A strategy cannot plan this, or a plan is not sound."""


class TooManyCellsError(PlanError):
    """The table would not fit; the message says how large it is."""


class SourceError(CrosstallyError):
    """Rows cannot be read."""


class OutsideValueError(SourceError):
    """A column holds values that the schema refuses."""


class AmbiguousNumbersError(SourceError):
    """Every number of a column fits two readings, such as 21.740: nobody but the steward knows which is right.

    ``columns`` are the names of all such columns, for whoever can be asked.
    """

    def __init__(self, columns: Sequence[str], where: str, how_to_say: str) -> None:
        self.columns = tuple(columns)
        super().__init__(
            f"{where}: every number fits two readings, its separator stands before decimals or groups thousands; say "
            f"{how_to_say}"
        )


class LedgerError(CrosstallyError):
    """The ledger cannot be used."""


class OverspendError(LedgerError):
    """The cap would be exceeded."""


class KeyReusedError(LedgerError):
    """The key belongs to another request."""


class ChargeLostError(LedgerError):
    """Charged, never stored: it cannot be drawn again."""


class ReleaseError(CrosstallyError):
    """A release file cannot be read or written."""


class MissingExtraError(CrosstallyError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: pip install 'crosstally[{extra}]'")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name.

    >>> did_you_mean("sx", ["sex", "age"])
    "; did you mean 'sex'?"
    """
    known = [each for each in known if len(each) <= _LONGEST_NAME]  # comparing takes the square of the length
    close = get_close_matches(name, known, n=1) if len(name) <= _LONGEST_NAME else []
    if close:
        return f"; did you mean {close[0]!r}?"
    shown = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
    return f"; there are {shown}" if known else ""


def must_be_one_of(option: str, words: Iterable[str], given: object) -> str:
    """The message about an option that takes a few words and was given something else.

    Enums raise it themselves (``_missing_``). So a function that takes one converts what it gets by the enum's name,
    ``Neighbours(neighbours)``, and text and member are the same to it.

    >>> must_be_one_of("outside", ["refuse", "other", "drop"], "keep")
    "outside must be refuse, other or drop, got 'keep'"
    """
    *first, last = words
    return f"{option} must be {', '.join(first)} or {last}, got {given!r}"
