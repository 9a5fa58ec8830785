"""The text by which values and labels are compared."""

from __future__ import annotations

import math
import re
import unicodedata
from datetime import date, datetime, time
from decimal import Decimal

__all__ = ["canonical_text", "is_unicode"]

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")


def canonical_text(value: object) -> str | None:
    """The text by which a value is matched with a label, or None when the value is missing.

    >>> [canonical_text(v) for v in (1, 1.0, "1", "1.00", True, "01", " a", "", None, float("nan"))]
    ['1', '1', '1', '1', 'true', '01', ' a', None, None, None]
    """
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        if _NUMBER.fullmatch(value):
            return _decimal_text(Decimal(value))
        return value.lower() if value in ("True", "False") else unicodedata.normalize("NFC", value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _decimal_text(Decimal(repr(float(value)))) if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return _decimal_text(value) if value.is_finite() else str(value).lower()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return canonical_text(str(value))


def _decimal_text(number: Decimal) -> str:
    text = format(number, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def is_unicode(text: str) -> bool:
    """Whether a text can be written: half a surrogate pair, which JSON may hold, cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in text)
