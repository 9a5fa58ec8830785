"""Rules that every part of a protocol must keep: exact types, ranges, and nothing else beside.

Amounts of epsilon: exact, and no longer than a device can hold.

What a device refuses.
"""

from __future__ import annotations

import re
from decimal import ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

_AMOUNT = re.compile(r"[0-9]+(?:\.[0-9]+|/0*[1-9][0-9]*)?")  # no exponents: 1e999999 would fill the memory
LONGEST_AMOUNT = 200  # characters; a double written out has at most 65 where epsilon may be


def amount(given: object) -> Fraction | None:
    """The number that is given, as text or exactly; None unless it is one of at least 0."""
    if isinstance(given, str) and len(given) <= LONGEST_AMOUNT and _AMOUNT.fullmatch(given):
        return Fraction(given)
    if isinstance(given, int | Fraction) and not isinstance(given, bool) and given >= 0:
        return Fraction(given)
    return None


def odds_below(epsilon: Fraction) -> Fraction:
    """A fraction just below e^epsilon; the host's own settings of the decimal module do not matter."""
    with localcontext(Context(prec=60, rounding=ROUND_FLOOR, Emin=-999_999, Emax=999_999, traps=[])):
        return Fraction((Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).exp().next_minus())


class ClientError(Exception):
    """What a device refuses; every refusal derives from it."""


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
    """The protocol needs a one-time token and none was given, or the other way round, or it is not a token."""


# Rules of protocols


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
