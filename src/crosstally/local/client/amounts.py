"""Amounts of epsilon: exact, and no longer than a device can hold."""

from __future__ import annotations

import re
from decimal import ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction

__all__ = ["LONGEST_AMOUNT", "amount", "odds_below"]

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
