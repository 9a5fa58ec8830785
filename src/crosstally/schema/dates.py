"""Dates into years, quarters, months, weekdays or given periods. Each is a function of one date alone."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from itertools import pairwise
from typing import Any

from crosstally.errors import SchemaError
from crosstally.schema.canonical import private_fields

__all__ = ["PARTS", "DateReading"]

_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

PARTS: dict[str, Callable[[date], str]] = {
    "year": lambda day: f"{day.year:04d}",
    "quarter": lambda day: f"{day.year:04d}-Q{(day.month + 2) // 3}",
    "month": lambda day: f"{day.year:04d}-{day.month:02d}",
    "quarter of year": lambda day: f"Q{(day.month + 2) // 3}",
    "month of year": lambda day: _MONTHS[day.month - 1],
    "weekday": lambda day: _WEEKDAYS[day.weekday()],
}
"""What a date may become, and how it is written then; ``groups`` may give it another name."""

_ISO = "%Y-%m-%d"
_FIELDS = {
    "%Y": ("year", 4), "%m": ("month", 2), "%d": ("day", 2),
    "%H": ("hour", 2), "%M": ("minute", 2), "%S": ("second", 2),
}  # fmt: skip
_TIME = re.compile(r"[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?")
"""The time of day that may follow a date; a date in a time zone stays the day that it is there."""


@dataclass(frozen=True, slots=True)
class DateReading:
    """How a column of dates becomes labels: ``into`` a part of each, or the periods that these days bound.

    ``form`` says how texts are written, with %Y %m %d (%H %M %S): ISO 8601 unless it is given. With one digit, a month
    or a day is read too where a mark divides it from the next. Periods are [a, b), the last one closed, as bins are.

    >>> DateReading("quarter").text("2024-05-31"), DateReading("weekday", "%d.%m.%Y").text("1.6.2024")
    ('2024-Q2', 'Saturday')
    """

    into: str | tuple[date, ...]
    form: str = _ISO

    def __init__(self, into: str | Iterable[str | date], form: str = _ISO) -> None:
        object.__setattr__(self, "into", into if isinstance(into, str) else _read_days(into))
        object.__setattr__(self, "form", form)
        if isinstance(self.into, str) and self.into not in PARTS:
            raise SchemaError(f"date: into must be one of {', '.join(PARTS)}, or a list of days")
        _pattern(form if isinstance(form, str) else None)

    @property
    def periods(self) -> int:
        """How many periods the days bound; none where a part of the date is taken."""
        return 0 if isinstance(self.into, str) else len(self.into) - 1

    def day(self, text: str) -> date | None:
        """The day that a text says; None when it says none."""
        found = _pattern(self.form).match(text)
        if found is None or not _ends(text[found.end() :], self.form):
            return None
        parts = found.groupdict()
        try:
            return date(int(parts["year"]), int(parts["month"]), int(parts["day"]))
        except ValueError:  # no month or day of that number
            return None

    def text(self, text: str) -> str | None:
        """The part of the date that a text says; None when it says none. Only where a part is taken."""
        day = self.day(text)
        return None if day is None or not isinstance(self.into, str) else PARTS[self.into](day)

    def period(self, text: str) -> int | None:
        """The number of the period that a text's date falls into; None when in none."""
        day = self.day(text)
        if day is None or isinstance(self.into, str) or not self.into[0] <= day <= self.into[-1]:
            return None
        return min(bisect_right(self.into, day), self.periods) - 1

    def to_dict(self) -> dict[str, Any]:
        """The rule as JSON."""
        into = self.into if isinstance(self.into, str) else [day.isoformat() for day in self.into]
        return {"into": into} if self.form == _ISO else {"into": into, "format": self.form}

    @classmethod
    def from_dict(cls, given: object) -> DateReading:
        """The rule from its JSON."""
        try:
            fields = private_fields(given, {"into", "format"})
        except SchemaError as error:
            raise SchemaError(f"date: {error}") from None
        if "into" not in fields:
            raise SchemaError("date: the field 'into' is missing")
        return cls(fields["into"], fields.get("format", _ISO))


def _ends(rest: str, form: str) -> bool:
    """Whether nothing of the text is left but, after an ISO date, a time."""
    return not rest or (form == _ISO and _TIME.fullmatch(rest) is not None)


def _read_days(given: object) -> tuple[date, ...]:
    days: list[date] = []
    for each in given if isinstance(given, Iterable) else ():
        try:
            days.append(each if isinstance(each, date) else date.fromisoformat(each))
        except (TypeError, ValueError):
            raise SchemaError("date: into must be a list of days such as 2020-01-31") from None
    if len(days) < 2 or any(isinstance(day, datetime) for day in days) or any(a >= b for a, b in pairwise(days)):
        raise SchemaError("date: into must be a list of at least two days that increase")
    return tuple(days)


@cache
def _pattern(form: object) -> re.Pattern[str]:
    # Split like this, marks and fields take turns, and a mark stands at both ends, which may be empty.
    pieces = re.split(r"(%.)", form) if isinstance(form, str) else []
    used = pieces[1::2]
    if not {"%Y", "%m", "%d"} <= set(used) <= set(_FIELDS) or len(set(used)) < len(used):
        raise SchemaError("date: format must be a text with %Y, %m and %d, each once, and perhaps %H, %M, %S")
    ends = (0, len(pieces) - 1)
    pattern = ""
    for i, piece in enumerate(pieces):
        if piece not in _FIELDS:
            pattern += re.escape(piece)
            continue
        name, digits = _FIELDS[piece]
        # A single digit can be told only where something divides it from the next number.
        alone = digits == 2 and all(place in ends or pieces[place] for place in (i - 1, i + 1))
        pattern += f"(?P<{name}>[0-9]{{{1 if alone else digits},{digits}}})"
    return re.compile(pattern)
