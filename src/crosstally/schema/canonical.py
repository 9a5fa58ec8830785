"""The text by which values and labels are compared.

The fields of a JSON object: all known, none missing.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from crosstally.errors import SchemaError, did_you_mean

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


DATA = "data"
"""What the field ``from`` says of cells or of a bound that was chosen by looking at the rows."""
_MOST_CHARACTERS = 2_000  # of a text that describes: a paragraph; a release holds one for each attribute


def read_fields(given: object, where: str, *, known: set[str], needed: set[str]) -> dict[str, Any]:
    """The fields of an object at a place that errors name; raises on an unknown one, or on one that is missing."""
    if not isinstance(given, Mapping):
        raise SchemaError(f"{where} must be an object, got {type(given).__name__}")
    for key in given:
        if key not in known:
            raise SchemaError(f"{where}: unknown field {key!r}{did_you_mean(str(key), sorted(known))}")
    for key in sorted(needed):
        if key not in given:
            raise SchemaError(f"{where}: the field {key!r} is missing")
    return dict(given)


def private_fields(given: object, known: set[str]) -> dict[str, Any]:
    """The fields of an object that only a steward sees; an unknown one is not named, since it may be a spelling."""
    if not isinstance(given, Mapping):
        raise SchemaError(f"must be an object, got {type(given).__name__}")
    for i, key in enumerate(given, 1):
        if key not in known:
            raise SchemaError(f"field {i} is unknown; there are {', '.join(sorted(known))}")
    return dict(given)


def read_from(given: object) -> bool:
    """Whether the field ``from`` says that something was chosen by looking at the rows."""
    if given is not None and given != DATA:
        raise SchemaError(f"from must be {DATA!r}, or be left out, got {given!r}")
    return given is not None


def read_text(given: object, where: str) -> str | None:
    """A text that people read, or None."""
    if given is None:
        return None
    if not isinstance(given, str) or not given.strip() or not is_unicode(given):
        raise SchemaError(f"{where} must be a non-empty text, got {given!r}")
    if len(given) > _MOST_CHARACTERS:
        raise SchemaError(f"{where} must have at most {_MOST_CHARACTERS:,} characters, got {len(given):,}")
    return given
