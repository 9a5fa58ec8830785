"""Checks of the fields of a protocol: exact types and ranges, no unknown fields, exact amounts of epsilon.

Amounts are limited to a length that a device can hold. The errors that a device raises are defined here.
"""

from __future__ import annotations

import re
from decimal import ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

_AMOUNT = re.compile(r"[0-9]+(?:\.[0-9]+|/0*[1-9][0-9]*)?")  # no exponents: 1e999999 would fill the memory
LONGEST_AMOUNT = 200  # characters; a double written out has at most 65 where epsilon may be


def amount(given: object) -> Fraction | None:
    """The amount, given as text or exactly; None unless it is a non-negative number."""
    if isinstance(given, str) and len(given) <= LONGEST_AMOUNT and _AMOUNT.fullmatch(given):
        return Fraction(given)
    if isinstance(given, int | Fraction) and not isinstance(given, bool) and given >= 0:
        return Fraction(given)
    return None


def odds_below(epsilon: Fraction) -> Fraction:
    """A fraction just below e^epsilon; independent of the host's decimal settings."""
    with localcontext(Context(prec=60, rounding=ROUND_FLOOR, Emin=-999_999, Emax=999_999, traps=[])):
        return Fraction((Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).exp().next_minus())


class ClientError(Exception):
    """The base of all errors of a device."""


class AmountError(ClientError):
    """The cap is not a number."""


class CapReachedError(ClientError):
    """A fresh report would pass the device's lifetime cap."""


class ProtocolError(ClientError):
    """The protocol is not one of version 1, or does not keep the epsilon that it states."""


class ReportLostError(ClientError):
    """The protocol was charged, and its report was lost before it was stored."""


class StoreError(ClientError):
    """The device's store cannot be read or locked."""


class TokenError(ClientError):
    """The one-time token is missing, not needed by the protocol, or malformed."""


# Rules of protocols


def need(truth: bool, rule: str) -> None:
    """Refuse the protocol unless this is true."""
    if not truth:
        raise ProtocolError(rule)


def fields(given: object, where: str, names: set[str], optional: frozenset[str] = frozenset()) -> None:
    """Refuse an object without exactly these fields and, possibly, optional ones."""
    fits = isinstance(given, dict) and names <= given.keys() <= names | optional
    need(fits, f"{where} must have exactly the fields {', '.join(sorted(names))}")


def list_of(given: object, where: str, least: int, most: int) -> list[Any]:
    """A list with a number of entries in this range."""
    fits = isinstance(given, list) and least <= len(given) <= most
    need(fits, f"{where} must be a list of {least} to {most} entries")
    return given  # type: ignore[return-value]


def whole(given: object, where: str, least: int, most: int) -> int:
    """An integer in this range."""
    fits = type(given) is int and least <= given <= most  # neither true nor 2.0 is an integer here
    need(fits, f"{where} must be a whole number from {least} to {most}, got {given!r:.40}")
    return given  # type: ignore[return-value]


def fraction(given: object, where: str) -> Fraction:
    """A number that is written as a text."""
    number = amount(given) if isinstance(given, str) else None
    if number is None:
        raise ProtocolError(f"{where} must be a number in at most {LONGEST_AMOUNT} characters, got {given!r:.40}")
    return number
