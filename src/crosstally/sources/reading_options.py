"""How a source is written: its separators and encoding, where its names stand, and how its numbers look."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from crosstally.checks import is_whole
from crosstally.errors import AmbiguousNumbersError, SourceError, did_you_mean
from crosstally.schema import Schema
from crosstally.sources.codes.arrays import is_text, plain_text
from crosstally.sources.guard import how_to_say

# Numbers that are written as texts: with a decimal point or a decimal comma, their thousands grouped or not. ``21.740``
# is 21.74 to some and 21,740 to others. A text is therefore read in a style that somebody has said, or, when nobody
# has, only in a column whose texts are numbers in one way alone.


DECIMALS = (".", ",")
THOUSANDS = (".", ",", "'", " ", "")

_BLANKS = "[ \u00a0\u2009\u202f]"  # blank, no-break space, thin space, narrow no-break space: all are in use
_CLASSES = {".": r"\.", ",": ",", "'": "['\u2019]", " ": _BLANKS, "": ""}
_SEPARATOR_BYTES = (b".", b",", b"'", b" ", b"\xc2", b"\xe2")  # the last two begin the other blanks and apostrophes
_EXPONENT = "(?:[eE][+-]?[0-9]{1,4})?"


def _grouped(thousands: str) -> str:
    """Digits in groups of three; the first group has one to three, and no leading zero."""
    return f"[1-9][0-9]{{0,2}}(?:{_CLASSES[thousands]}[0-9]{{3}})+"


def _ungrouped(decimal: str) -> str:
    point = _CLASSES[decimal]
    return f"(?:[0-9]+{point}[0-9]*|{point}[0-9]+){_EXPONENT}"


def _whole(*patterns: str) -> str:
    return f"^ *[+-]?(?:{'|'.join(patterns)}) *$"


@dataclass(frozen=True)
class NumberStyle:
    """What stands before the decimals of a number, and what groups its thousands; "" where nothing does.

    >>> NumberStyle(",", ".").plain(pa.array(["1.234,5", "21.740", "7", "n/a"])).to_pylist()
    ['1234.5', '21740', '7', 'n/a']
    """

    decimal: str
    thousands: str

    @cached_property
    def _pattern(self) -> str:
        digits = f"(?:{_grouped(self.thousands)}|[0-9]+)" if self.thousands else "[0-9]+"
        point = _CLASSES[self.decimal]
        return _whole(f"{digits}(?:{point}[0-9]*)?{_EXPONENT}", f"{point}[0-9]+{_EXPONENT}")

    def plain(self, texts: pa.Array) -> pa.Array:
        """The texts, those that are numbers in this style written with a decimal point and no groups.

        What becomes of a text depends on nothing but that text.
        """
        is_number = pc.match_substring_regex(texts, self._pattern)
        numbers = texts
        if self.thousands:
            numbers = pc.replace_substring_regex(numbers, f"([0-9]){_CLASSES[self.thousands]}([0-9])", r"\1\2")
            # Groups of one digit on both sides do not occur: one pass meets every separator.
        if self.decimal != ".":
            numbers = pc.replace_substring(numbers, self.decimal, ".")
        return pc.if_else(is_number, numbers, texts)

    def is_contradicted(self, texts: pa.Array) -> bool:
        """Whether some text is no number in this style and one with a decimal point all the same."""
        if self.decimal == ".":
            return False
        other = pc.match_substring_regex(texts, _whole(_ungrouped(".")))
        return _any(pc.and_not(other, pc.match_substring_regex(texts, self._pattern)))


_POINT = _whole(_ungrouped("."), rf"{_grouped(',')}(?:\.[0-9]+)?")
_COMMA = _whole(_ungrouped(","), rf"{_grouped('.')}(?:,[0-9]+)?")
_OTHER_GROUPS = {mark: _whole(f"{_grouped(mark)}(?:[.,][0-9]+)?") for mark in ("'", " ")}
_ANY = f"{_whole('[0-9]+' + _EXPONENT)}|{_POINT}|{_COMMA}|{'|'.join(_OTHER_GROUPS.values())}"


def is_any_number(texts: pa.Array) -> pa.Array:
    """Which texts are numbers in some style."""
    return pc.match_substring_regex(texts, _ANY)


@dataclass
class NumbersSeen:
    """In which ways the numbers of a column were written so far; confidential, like all that is seen of rows."""

    point: bool = False
    """Some number has a decimal point for certain."""
    comma: bool = False
    """Some number has a decimal comma for certain."""
    unclear: set[str] = field(default_factory=set)
    """The separators of numbers that fit both readings, such as 21.740."""
    groups: set[str] = field(default_factory=set)
    """What groups thousands for certain."""

    def add(self, column: pa.Array) -> None:
        """Look at some texts; other kinds of columns hold numbers that are numbers already."""
        if pa.types.is_dictionary(column.type):
            self.add(column.dictionary)
        elif is_text(column.type) and len(column) and self._may_tell(plain_text(column)):
            self._add_distinct(pc.drop_null(pc.unique(plain_text(column))))

    def merge(self, other: NumbersSeen) -> None:
        """Take in what was seen elsewhere."""
        self.point |= other.point
        self.comma |= other.comma
        self.unclear |= other.unclear
        self.groups |= other.groups

    def _may_tell(self, texts: pa.Array) -> bool:
        """Whether the bytes of the texts hold any separator that could change the verdict: far cheaper to see."""
        size = 4 if pa.types.is_string(texts.type) else 8
        _, offsets, data = texts.buffers()
        if offsets is None or data is None:
            return False
        ends = memoryview(offsets).cast("B")[texts.offset * size :].cast("i" if size == 4 else "q")
        part = data.slice(ends[0], ends[len(texts)] - ends[0])
        seen = memoryview(part).tobytes()
        known = 1 if self.point and not self.comma else 0  # one more decimal point says nothing new
        return any(mark in seen for mark in _SEPARATOR_BYTES[known:])

    def _add_distinct(self, texts: pa.Array) -> None:
        point, comma = pc.match_substring_regex(texts, _POINT), pc.match_substring_regex(texts, _COMMA)
        point_only, comma_only = texts.filter(pc.and_not(point, comma)), texts.filter(pc.and_not(comma, point))
        both = texts.filter(pc.and_(point, comma))
        self.point |= _holds(point_only, ".")
        self.comma |= _holds(comma_only, ",")
        self.groups |= {mark for mark, found in ((",", point_only), (".", comma_only)) if _holds(found, mark)}
        self.unclear |= {mark for mark in DECIMALS if _holds(both, mark)}
        for mark, pattern in _OTHER_GROUPS.items():
            grouped = texts.filter(pc.match_substring_regex(texts, pattern))
            if len(grouped):
                self.groups.add(mark)
                self.point |= _holds(grouped, ".")
                self.comma |= _holds(grouped, ",")

    @property
    def is_unclear(self) -> bool:
        """Whether every number with a separator fits both readings."""
        return bool(self.unclear) and not (self.point or self.comma or self.groups)

    @property
    def is_mixed(self) -> bool:
        """Whether no one style fits all numbers."""
        decimals, groups = self._marks
        return len(decimals) > 1 or len(groups) > 1

    @property
    def style(self) -> NumberStyle | None:
        """The style that all numbers fit; None when they are plain, and when there is no such style."""
        decimals, groups = self._marks
        if self.is_mixed or self.is_unclear or (decimals <= {"."} and not groups):
            return None
        decimal = min(decimals, default=".")
        return NumberStyle(decimal, min(groups, default="." if decimal == "," else ","))

    @property
    def _marks(self) -> tuple[set[str], set[str]]:
        """What stands before decimals and what groups thousands, the unclear ones by what the clear ones leave."""
        decimals = {mark for mark, seen in ((".", self.point), (",", self.comma)) if seen}
        decimals |= {"." if mark == "," else "," for mark in self.groups & set(DECIMALS)}
        if self.groups - set(DECIMALS):
            return decimals | self.unclear, self.groups
        return decimals, self.groups | (self.unclear - decimals if decimals else set())


def _holds(texts: pa.Array, mark: str) -> bool:
    return bool(len(texts)) and _any(pc.match_substring(texts, mark))


def _any(found: pa.Array) -> bool:
    return bool(pc.any(found, min_count=0).as_py())


# How a source is written: its separators, its encoding, where its names stand.


EVERY_COLUMN = ""
"""Stands for all columns that are not named, where separators are given by column."""

Separators = str | Mapping[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How to read a source. What is left out follows from the names in the file and is never guessed from its rows.

    None of it is published: a release does not say how its file was written.

    Args:
        delimiter: The character between two fields of a text file, such as ";" or a tab.
        encoding: How a text file, or an SPSS, SAS or Stata file, is encoded, such as "cp1252"; a byte order mark goes
            before it.
        quote: The quote around a field that contains a delimiter; "" if there is none and quotes are ordinary letters.
        decimal: What stands before the decimals of numbers written as texts, "." or ",": one for all columns, or one
            for each column named. Thousands are then grouped by the other one, if at all.
        thousands: What groups the thousands of numbers written as texts: one of . , ' or a blank, or nothing at all
            (""); for all columns, or for each column named.
        header: The line, or the row of a sheet, that holds the names, counted from 1; 0 when there is none, and the
            columns are then called column_1, column_2 and so on.
        sheet: The sheet of a workbook: its name, or its number counted from 1.
        table: The table of a DuckDB or SQLite file.

    >>> Reading(delimiter=";", decimal={"income": ","}).to_dict()
    {'delimiter': ';', 'decimal': {'income': ','}}
    """

    delimiter: str | None = None
    encoding: str | None = None
    quote: str | None = None
    decimal: Separators = None
    thousands: Separators = None
    header: int | None = None
    sheet: str | int | None = None
    table: str | None = None

    def __post_init__(self) -> None:
        _check_character("delimiter", self.delimiter)
        _check_character("quote", self.quote or None)
        if self.delimiter is not None and self.delimiter == ('"' if self.quote is None else self.quote):
            raise SourceError(f"delimiter and quote must differ, got {self.delimiter!r} for both")
        if self.encoding is not None:
            object.__setattr__(self, "encoding", _encoding_name(self.encoding))
        if self.header is not None and not is_whole(self.header, 0):
            raise SourceError(f"header must be a line number, or 0 for none, got {self.header!r}")
        for name in ("sheet", "table"):
            _check_name(name, getattr(self, name), may_be_number=name == "sheet")
        for name, known in (("decimal", DECIMALS), ("thousands", THOUSANDS)):
            object.__setattr__(self, name, _read_separators(name, getattr(self, name), known))
        for column in {*_named(self.decimal), *_named(self.thousands), EVERY_COLUMN}:
            self.style(column)

    def style(self, column: str) -> NumberStyle | None:
        """How the numbers of a column are written; None if that is not stated."""
        decimal, thousands = _of_column(self.decimal, column), _of_column(self.thousands, column)
        if decimal is None and thousands is None:
            return None
        decimal = decimal or ("," if thousands == "." else ".")
        if thousands is None:
            thousands = "." if decimal == "," else ","
        if decimal == thousands:
            raise SourceError(f"decimal and thousands must differ, got {decimal!r} for both")
        return NumberStyle(decimal, thousands)

    def or_else(self, other: Reading) -> Reading:
        """These options, completed by the other's where these are silent; separators are completed column by column."""
        by_column = {name: _joined(getattr(self, name), getattr(other, name)) for name in ("decimal", "thousands")}
        return Reading(**{**other.to_dict(), **self.to_dict(), **by_column})

    def to_dict(self) -> dict[str, Any]:
        """The options as JSON; what is not said is left out."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in given.items()
            if value is not None
        }

    @classmethod
    def from_dict(cls, given: object) -> Reading:
        """The options from their JSON; errors name the field."""
        if not isinstance(given, Mapping):
            raise SourceError(f"reading must be an object, got {type(given).__name__}")
        known = [each.name for each in fields(cls)]
        for name in given:
            if name not in known:
                raise SourceError(f"reading: unknown field {str(name)!r}{did_you_mean(str(name), known)}")
        return cls(**given)


def _check_character(name: str, given: object) -> None:
    if given is not None and (not isinstance(given, str) or len(given) != 1 or given in "\r\n" or not given.isascii()):
        raise SourceError(f"{name} must be a single character of ASCII, got {given!r}")


def _check_name(name: str, given: object, *, may_be_number: bool) -> None:
    is_number = may_be_number and is_whole(given, 1)
    if given is not None and not is_number and (not isinstance(given, str) or not given):
        numbered = ", or a number from 1 on" if may_be_number else ""
        raise SourceError(f"{name} must be a name{numbered}, got {given!r}")


def _encoding_name(given: object) -> str:
    try:
        found = codecs.lookup(str(given))
        "".encode(found.name)  # raises for what is no encoding of text, such as base64
    except (LookupError, ValueError):
        raise SourceError(f"encoding must be one that Python knows, such as utf-8 or cp1252, got {given!r}") from None
    return "utf-8" if found.name == "utf-8-sig" else found.name


def _read_separators(name: str, given: object, known: tuple[str, ...]) -> Separators:
    if given is None or isinstance(given, str):
        found = {EVERY_COLUMN: given} if given is not None else {}
    elif isinstance(given, Mapping) and all(isinstance(column, str) for column in given):
        found = dict(given)
    else:
        raise SourceError(f"{name} must be a separator, or one for each column named, got {type(given).__name__}")
    for separator in found.values():
        if separator not in known:
            shown = ", ".join(map(repr, known))
            raise SourceError(f"{name} must be one of {shown}, got {separator!r}")
    return given if given is None or isinstance(given, str) else found


def _named(given: Separators) -> tuple[str, ...]:
    return tuple(given) if isinstance(given, Mapping) else ()


def _joined(given: Separators, other: Separators) -> Separators:
    if not isinstance(given, Mapping):
        return other if given is None else given  # what is given for all columns is said of every one of them
    return {**({EVERY_COLUMN: other} if isinstance(other, str) else other or {}), **given}


def _of_column(given: Separators, column: str) -> str | None:
    if isinstance(given, Mapping):
        return given.get(column, given.get(EVERY_COLUMN))
    return given


NO_OPTIONS = Reading()
"""Nothing is said of how a source is written."""


# The numbers in a stream of rows: rewritten where their style was said, and watched where it was not.


def numeric_columns(schema: Schema) -> list[str]:
    """The attributes whose texts are read as numbers: those with bins, and those whose labels all are numbers."""
    return [
        attribute.name
        for attribute in schema.attributes
        if attribute.edges or all(_is_number(label) for label in attribute.values)
    ]


def _is_number(label: str) -> bool:
    return label.lstrip("+-").replace(".", "", 1).isdecimal()


class Numbers:
    """The styles of numbers in a stream of rows. What was seen is confidential; errors name columns and no value."""

    def __init__(self, reading: Reading, numeric: Sequence[str], verbatim: Sequence[str]) -> None:
        self._reading = reading
        self._verbatim = frozenset(verbatim)
        self.seen = {name: NumbersSeen() for name in numeric if reading.style(name) is None}
        self._numeric = {name: name for name in numeric}  # by the name in the file, the one that errors may print

    def plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch, its numbers written with a decimal point and no groups wherever a style was said."""
        for place, name in enumerate(batch.schema.names):
            style = None if name in self._verbatim else self._reading.style(name)
            if style is not None:
                rewritten = self._rewritten(name, style, batch.column(place))
                batch = batch.set_column(place, name, rewritten)
            elif name in self.seen:
                self.seen[name].add(batch.column(place))
                _check_plain(self._numeric[name], self.seen[name])
        return batch

    def _rewritten(self, name: str, style: NumberStyle, column: pa.Array) -> pa.Array:
        if pa.types.is_dictionary(column.type):
            values = self._rewritten(name, style, column.dictionary)
            return pa.DictionaryArray.from_arrays(column.indices, values)
        if not is_text(column.type):
            return column
        encoded = pc.dictionary_encode(plain_text(column))
        if name in self._numeric and style.is_contradicted(encoded.dictionary):
            known = self._numeric[name]
            raise SourceError(f"column {known!r} holds decimal points beside decimal commas; {_mend(known)}")
        return style.plain(encoded.dictionary).take(encoded.indices)

    def add_seen(self, seen: Sequence[NumbersSeen]) -> None:
        """Take in what others saw in the same columns."""
        for (name, own), other in zip(self.seen.items(), seen, strict=True):
            own.merge(other)
            _check_plain(self._numeric[name], own)

    def check(self) -> None:
        """Raise when some column, of which all was seen by now, holds numbers that may be meant in two ways."""
        unclear = [name for name, seen in self.seen.items() if seen.is_unclear]
        if unclear:
            raise AmbiguousNumbersError(unclear, f"column {unclear[0]!r}", how_to_say_decimal(unclear[0]))


def _check_plain(name: str, seen: NumbersSeen) -> None:
    """Raise when some number has a decimal comma or groups for certain: whatever follows, it will not be plain."""
    if seen.is_mixed:
        raise SourceError(f"column {name!r} holds numbers in several styles; {_mend(name)}")
    if seen.style is not None:
        raise SourceError(f"column {name!r} {_described(seen.style)}; say {how_to_say_style(name, seen.style)}")


def _described(style: NumberStyle) -> str:
    return "holds decimal commas" if style.decimal == "," else f"groups its thousands with {style.thousands!r}"


def _mend(name: str) -> str:
    how = how_to_say("decimal", ".", column=name)
    return f"mend them, or say {how}, and the others are no numbers"


def how_to_say_decimal(name: str) -> str:
    """How to say one or the other decimal separator of a column."""
    return f"{how_to_say('decimal', '.', column=name)} or {how_to_say('decimal', ',', column=name)}"


def how_to_say_style(name: str, style: NumberStyle) -> str:
    """How to say the style of a column."""
    decimal = how_to_say("decimal", style.decimal, column=name)
    if style.thousands in (".", ","):
        return decimal
    thousands = how_to_say("thousands", style.thousands, column=name)
    return thousands if style.decimal == "." else f"{decimal} and {thousands}"
