"""Rules that every part of a protocol must keep: exact types, ranges, and nothing else beside."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from .amounts import LONGEST_AMOUNT, amount
from .client_errors import ProtocolError

__all__ = ["fields", "fraction", "list_of", "need", "whole"]


def need(truth: bool, rule: str) -> None:
    """Refuse the protocol unless this is true."""
    if not truth:
        raise ProtocolError(rule)


def fields(given: object, where: str, names: set[str], optional: frozenset[str] = frozenset()) -> None:
    """Refuse what does not have exactly these fields, and some of the optional ones."""
    fits = isinstance(given, dict) and names <= given.keys() <= names | optional
    need(fits, f"{where} must have exactly the fields {', '.join(sorted(names))}")


def list_of(given: object, where: str, least: int, most: int) -> list[Any]:
    """A list of so many entries."""
    fits = isinstance(given, list) and least <= len(given) <= most
    need(fits, f"{where} must be a list of {least} to {most} entries")
    return given  # type: ignore[return-value]


def whole(given: object, where: str, least: int, most: int) -> int:
    """A whole number of this range."""
    fits = type(given) is int and least <= given <= most  # neither true nor 2.0 is a whole number here
    need(fits, f"{where} must be a whole number from {least} to {most}, got {given!r:.40}")
    return given  # type: ignore[return-value]


def fraction(given: object, where: str) -> Fraction:
    """A number that is written as a text."""
    found = amount(given) if isinstance(given, str) else None
    if found is None:
        raise ProtocolError(f"{where} must be a number in at most {LONGEST_AMOUNT} characters, got {given!r:.40}")
    return found
