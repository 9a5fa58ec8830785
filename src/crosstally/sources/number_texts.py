"""Numbers that are written as texts: with a decimal point or a decimal comma, their thousands grouped or not.

``21.740`` is 21.74 to some and 21,740 to others. A text is therefore read in a style that somebody has said, or, when
nobody has, only in a column whose texts are numbers in one way alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from crosstally.sources.codes.arrays import is_text, plain_text

__all__ = ["DECIMALS", "THOUSANDS", "NumberStyle", "NumbersSeen", "is_any_number"]

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
