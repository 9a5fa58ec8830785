"""How a source is written: its separators, its encoding, where its names stand."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from crosstally.checks import is_whole
from crosstally.errors import SourceError, did_you_mean
from crosstally.sources.number_texts import DECIMALS, THOUSANDS, NumberStyle

__all__ = ["EVERY_COLUMN", "NO_OPTIONS", "Reading"]

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
