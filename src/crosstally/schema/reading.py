"""How a steward's values become labels. Confidential: a spelling, or the name of a column, may belong to one person.

Nothing of it is published: it stands in the steward's own schema file and in memory while rows are read. Errors say
where in the file a mistake is, never what stands there. Every rule is a function of one value of one row, so that the
cell of a row depends on that row alone and sensitivities are what they are without it.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cache
from itertools import pairwise
from typing import Any, Final

from crosstally.checks import is_whole
from crosstally.errors import SchemaError
from crosstally.schema.attribute import OTHER, Attribute
from crosstally.schema.canonical import canonical_text, is_unicode, private_fields

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
_DATE_FIELDS = {
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
        _date_pattern(form if isinstance(form, str) else None)

    @property
    def periods(self) -> int:
        """How many periods the days bound; none where a part of the date is taken."""
        return 0 if isinstance(self.into, str) else len(self.into) - 1

    def day(self, text: str) -> date | None:
        """The day that a text says; None when it says none."""
        found = _date_pattern(self.form).match(text)
        if found is None or not _date_ends(text[found.end() :], self.form):
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


def _date_ends(rest: str, form: str) -> bool:
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
def _date_pattern(form: object) -> re.Pattern[str]:
    # Split like this, marks and fields take turns, and a mark stands at both ends, which may be empty.
    pieces = re.split(r"(%.)", form) if isinstance(form, str) else []
    used = pieces[1::2]
    if not {"%Y", "%m", "%d"} <= set(used) <= set(_DATE_FIELDS) or len(set(used)) < len(used):
        raise SchemaError("date: format must be a text with %Y, %m and %d, each once, and perhaps %H, %M, %S")
    ends = (0, len(pieces) - 1)
    pattern = ""
    for i, piece in enumerate(pieces):
        if piece not in _DATE_FIELDS:
            pattern += re.escape(piece)
            continue
        name, digits = _DATE_FIELDS[piece]
        # A single digit can be told only where something divides it from the next number.
        alone = digits == 2 and all(place in ends or pieces[place] for place in (i - 1, i + 1))
        pattern += f"(?P<{name}>[0-9]{{{1 if alone else digits},{digits}}})"
    return re.compile(pattern)


WITHHELD: Final = "withheld"
"""What stands in place of a reading in everything that is published: there is one, and its steward keeps it."""

_SEPARATOR = "a text, or an object of texts by column"
FILE_OPTIONS = {
    "delimiter": "a text",
    "encoding": "a text",
    "quote": "a text",
    "decimal": _SEPARATOR,
    "thousands": _SEPARATOR,
    "header": "a whole number from 0",
    "sheet": "a text or a whole number from 0",
    "table": "a text",
}
"""How a file is read before any value is looked at, and what each option may be: plain values, handed to the reader of
files, which knows what they mean."""


_MOST_SEEN = 65_536  # texts whose meanings are kept: as many as a batch has rows

FileOption = str | int | Mapping[str, str]


class ColumnName(str):
    """The name of a column in the file; printed by an error, it is the attribute's, which is public."""

    __slots__ = ("_public",)
    _public: str

    def __new__(cls, name: str, public: str) -> ColumnName:
        """The column ``name`` in the file, ``public`` in the schema."""
        made = super().__new__(cls, name)
        made._public = public
        return made

    def __reduce__(self) -> tuple[type[ColumnName], tuple[str, str]]:
        return ColumnName, (str(self), self._public)  # it travels to Spark's workers

    def __repr__(self) -> str:
        return f"for {self._public!r}" if self._public != self else repr(self._public)

    @property
    def shown(self) -> str:
        """What an error may print where the name is to be typed."""
        return "COLUMN" if self._public != self else self._public


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class ColumnReading:
    """How one column is read; None stands for what the reading says of all columns.

    ``groups`` holds for a label the spellings that mean it; codes that stand for a label are spellings too. ``missing``
    are texts that stand for a missing value, beside those of all columns.
    """

    column: str | None = None
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    trim: bool | None = None
    ignore_case: bool | None = None
    date: DateReading | None = None

    def __repr__(self) -> str:
        return "ColumnReading(...)"

    def to_dict(self) -> dict[str, Any]:
        """The rule as JSON; what is at its default is left out."""
        out: dict[str, Any] = {} if self.column is None else {"column": self.column}
        if self.groups:
            out["groups"] = {label: list(spellings) for label, spellings in self.groups.items()}
        if self.missing:
            out["missing"] = list(self.missing)
        for name in ("trim", "ignore_case"):
            if getattr(self, name) is not None:
                out[name] = getattr(self, name)
        return out if self.date is None else {**out, "date": self.date.to_dict()}

    @classmethod
    def from_dict(cls, given: object) -> ColumnReading:
        """The rule from its JSON."""
        known = {"column", "groups", "missing", "trim", "ignore_case", "date"}
        found = private_fields(given, known)
        column = found.get("column")
        if column is not None and (not isinstance(column, str) or not column or not is_unicode(column)):
            raise SchemaError("column must be a non-empty text")
        groups = found.get("groups", {})
        if not isinstance(groups, Mapping):
            raise SchemaError(f"groups must be an object, got {type(groups).__name__}")
        return cls(
            column=column,
            groups={label: _texts(each, f"groups: group {i}") for i, (label, each) in enumerate(groups.items(), 1)},
            missing=_texts(found.get("missing", []), "missing"),
            trim=_flag(found, "trim"),
            ignore_case=_flag(found, "ignore_case"),
            date=None if found.get("date") is None else DateReading.from_dict(found["date"]),
        )


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class RowReading:
    """How the columns of a steward's file become the attributes of a schema. Confidential; printed, it says nothing.

    ``trim`` takes blanks off both ends of texts and makes one of several inside; ``ignore_case`` compares texts with
    labels without regard to case; ``missing`` are texts that stand for a missing value, in every column. ``columns``
    holds what differs for an attribute, or for the id of the unit, by its name in the schema. ``file`` are options
    for the reader of files.
    """

    file: Mapping[str, FileOption] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    trim: bool = False
    ignore_case: bool = False
    columns: Mapping[str, ColumnReading] = field(default_factory=dict)

    def __repr__(self) -> str:
        return "RowReading(...)"

    @property
    def digest(self) -> str:
        """The SHA-256 of the reading, for the steward's own records. Nothing secret: short readings can be guessed."""
        text = json.dumps(self.to_dict(), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def column(self, name: str) -> ColumnName:
        """What the column of an attribute, or of the unit's id, is called in the file."""
        given = self.columns[name].column if name in self.columns else None
        return ColumnName(name if given is None else given, name)

    def rule(self, name: str, attribute: Attribute | None = None) -> ValueRule | None:
        """How values of a column are read; None where they stand for themselves. Without attribute: the unit's id."""
        own = self.columns.get(name, ColumnReading())
        trim = self.trim if own.trim is None else own.trim
        ignore_case = self.ignore_case if own.ignore_case is None else own.ignore_case
        missing = (*self.missing, *own.missing)
        if not (trim or ignore_case or missing or own.groups or own.date):
            return None
        labels = attribute.values if attribute is not None else ()
        return ValueRule(labels, own.groups, missing=missing, trim=trim, ignore_case=ignore_case, date=own.date)

    def check(self, attributes: Sequence[Attribute], unit_id: str | None) -> None:
        """Raise unless every rule is about an attribute, or the unit's id, and no spelling means two labels."""
        by_name = {attribute.name: attribute for attribute in attributes}
        for i, (name, own) in enumerate(self.columns.items(), 1):
            if name == unit_id:
                if own.groups or own.date:
                    raise SchemaError("reading: columns: the id of the unit has neither groups nor date")
            elif name not in by_name:
                raise SchemaError(
                    f"reading: columns: entry {i} must be the name of an attribute, or the id of the unit"
                )
        for name, attribute in by_name.items():
            try:
                _check_rule(attribute, self.columns.get(name, ColumnReading()))
                self.rule(name, attribute)
            except SchemaError as error:
                raise SchemaError(f"reading: {name!r}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """The reading as JSON; what is at its default is left out."""
        out: dict[str, Any] = {"file": dict(self.file)} if self.file else {}
        if self.missing:
            out["missing"] = list(self.missing)
        for name in ("trim", "ignore_case"):
            if getattr(self, name):
                out[name] = True
        if self.columns:
            out["columns"] = {name: own.to_dict() for name, own in self.columns.items()}
        return out

    @classmethod
    def from_dict(cls, given: object) -> RowReading:
        """The reading from its JSON; errors say where, never what."""
        try:
            found = private_fields(given, {"file", "missing", "trim", "ignore_case", "columns"})
            return cls(
                file=_file_options(found.get("file", {})),
                missing=_texts(found.get("missing", []), "missing"),
                trim=bool(_flag(found, "trim")),
                ignore_case=bool(_flag(found, "ignore_case")),
                columns=_columns(found.get("columns", {})),
            )
        except SchemaError as error:
            raise SchemaError(f"reading: {error}") from None


class ValueRule:
    """What the values of one column mean: a function of one text.

    Meanings are kept for texts that come again, which changes nothing but speed.
    """

    def __init__(
        self,
        labels: Iterable[str],
        groups: Mapping[str, Sequence[str]],
        *,
        missing: Iterable[str],
        trim: bool,
        ignore_case: bool,
        date: DateReading | None,
    ) -> None:
        self._trim = trim
        self._ignore_case = ignore_case
        self._date = date
        self._labels = tuple(labels)
        self._missing = {self._key(text) for text in missing}
        self._seen: dict[str, str | None] = {}
        self._meanings: dict[str, str] = {}
        for label in self._labels:
            self._add(label, label)
        for label, spellings in groups.items():
            for spelling in spellings:
                self._add(spelling, label)

    def text(self, given: str) -> str | None:
        """The text that a label or a bin is then looked for by; None for a missing value.

        What is in none of the periods or is no date at all becomes the text of other values, which is no label.
        """
        try:
            return self._seen[given]
        except KeyError:
            meaning = self._text(given)
        if len(self._seen) >= _MOST_SEEN:
            self._seen.clear()  # another thread, which reads by the same rule, may do so at any moment
        self._seen[given] = meaning
        return meaning

    def _text(self, given: str) -> str | None:
        key = self._key(given)
        if not key or key in self._missing:
            return None
        text: str | None = canonical_text(" ".join(given.split()) if self._trim else given)
        if self._date is not None and text is not None:
            text = self._of_date(text)
        return None if text is None else self._meanings.get(self._key(text), text)

    def _of_date(self, text: str) -> str:
        assert self._date is not None
        if not self._date.periods:
            return self._date.text(text) or OTHER
        period = self._date.period(text)
        return OTHER if period is None else self._labels[period]

    def _key(self, text: str) -> str:
        """What two texts that mean the same have in common; empty for a text of nothing but blanks."""
        trimmed = " ".join(text.split()) if self._trim else text
        key = canonical_text(trimmed) or ""
        return key.casefold() if self._ignore_case else key

    def _add(self, spelling: str, label: str) -> None:
        key = self._key(spelling)
        if not key:
            raise SchemaError("groups: a spelling must be a text with more than blanks; use missing for the others")
        if key in self._missing:
            raise SchemaError("a label, or a spelling of one, stands for a missing value too")
        if self._meanings.setdefault(key, label) != label:
            raise SchemaError("two labels have a spelling in common, or differ in case or blanks alone")


def _check_rule(attribute: Attribute, own: ColumnReading) -> None:
    if own.groups and attribute.edges:
        raise SchemaError("groups are of labels, and the attribute has edges")
    for i, label in enumerate(own.groups, 1):
        if label not in attribute.values:
            raise SchemaError(f"groups: group {i} must bear the name of one of the attribute's values")
    periods = 0 if own.date is None else own.date.periods
    if periods and periods != len(attribute.values):
        given = len(attribute.values)
        raise SchemaError(f"date: {periods + 1} days bound {periods} periods, and the attribute has {given} values")
    if periods and own.groups:
        raise SchemaError("date: periods are named by the attribute's values in order, and take no groups")


def _columns(given: object) -> dict[str, ColumnReading]:
    if not isinstance(given, Mapping):
        raise SchemaError(f"columns must be an object, got {type(given).__name__}")
    columns = {}
    for i, (name, each) in enumerate(given.items(), 1):
        try:
            columns[name] = ColumnReading.from_dict(each)
        except SchemaError as error:
            raise SchemaError(f"columns: entry {i}: {error}") from None
    return columns


def _file_options(given: object) -> dict[str, FileOption]:
    found = private_fields(given, set(FILE_OPTIONS))
    for name, value in found.items():
        rule = FILE_OPTIONS[name]
        is_texts = isinstance(value, Mapping) and all(isinstance(each, str) for each in value.values())
        if not (
            (isinstance(value, str) and "text" in rule)
            or (is_whole(value, 0) and "whole number" in rule)
            or (is_texts and rule == _SEPARATOR)
        ):
            raise SchemaError(f"file: {name} must be {rule}")
    return found


def _flag(found: Mapping[str, Any], name: str) -> bool | None:
    if found.get(name) is not None and not isinstance(found[name], bool):
        raise SchemaError(f"{name} must be true or false")
    return found.get(name)


def _texts(given: object, where: str) -> tuple[str, ...]:
    """Texts that values are compared with; numbers and booleans are taken as they would be written."""
    if not isinstance(given, list | tuple):
        raise SchemaError(f"{where} must be a list of texts, got {type(given).__name__}")
    texts = []
    for i, each in enumerate(given, 1):
        text = each if isinstance(each, str) else canonical_text(each) if isinstance(each, bool | int | float) else None
        if text is None or not is_unicode(text):
            raise SchemaError(f"{where}: entry {i} must be a text, number or boolean")
        texts.append(text)
    return tuple(texts)
