"""A row to codes; this never fails, whatever the row is."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_LONGEST_NUMBER = 5_000  # digits of a value that are written out: Decimal("1e999999999") would fill the memory


def encode_row(attributes: Sequence[Mapping[str, Any]], row: Mapping[str, Any], source: Any) -> list[int]:
    """The code of each attribute's cell: values or bins, then ``(other)``, then ``(missing)``.

    A number beyond all edges belongs to the nearest bin where there is no cell for others. What has no cell at all
    belongs to a cell drawn at random, each equally likely. What cannot be read belongs to others, else to the missing.
    """
    codes = read_row(attributes, row)
    return [settled(attribute, code, source) for attribute, code in zip(attributes, codes, strict=True)]


def read_row(attributes: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> list[int | None]:
    """The code of each attribute's cell, or None where one must be drawn; whatever the row is, this never fails."""
    return [_code(attribute, row) for attribute in attributes]


def settled(attribute: Mapping[str, Any], code: int | None, source: Any) -> int:
    """The code itself, or one drawn where there is none."""
    return int(source.below(size_of(attribute))) if code is None else code


def _code(attribute: Mapping[str, Any], row: Mapping[str, Any]) -> int | None:
    labels, (has_other, has_missing) = _labels(attribute), _cells_beside(attribute)
    other, missing = labels if has_other else None, labels + has_other if has_missing else None
    try:
        value: Any = row.get(attribute["name"])
        if value is None or value == "" or value != value:  # noqa: PLR0124 - only NaN differs from itself
            return other if missing is None else missing
        edges = attribute.get("edges")
        found = _bin(edges, value, clamp=not has_other) if edges else _label(attribute["values"], value)
    except BaseException:  # noqa: BLE001 - whatever a value raises, even an exit, would tell of the value
        return missing if other is None else other
    return other if found is None else found


def _labels(attribute: Mapping[str, Any]) -> int:
    """How many cells an attribute has for its values or bins."""
    edges = attribute.get("edges")
    return len(edges) - 1 if edges else len(attribute["values"])


def _cells_beside(attribute: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether an attribute has a cell for others, and one for missing values."""
    return attribute.get("outside") == "other", bool(attribute.get("missing"))


def size_of(attribute: Mapping[str, Any]) -> int:
    """How many cells an attribute has."""
    return _labels(attribute) + sum(_cells_beside(attribute))


def _label(values: Sequence[object], value: object) -> int | None:
    text = _text(value)
    return next((code for code, label in enumerate(values) if _text(label) == text), None)


def _text(value: object) -> str:
    """The text by which values are matched: 1, 1.0 and "1" alike; true is not 1."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = float.__repr__(value) if isinstance(value, float) else str(value)
    if isinstance(value, float | Decimal) or _NUMBER.fullmatch(text):
        number = Decimal(text)
        if not number.is_finite() or abs(number.adjusted()) > _LONGEST_NUMBER:
            return text.lower()
        text = format(number, "f")
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if text in ("-0", "") else text
    return text.lower() if text in ("True", "False") else unicodedata.normalize("NFC", text)


def _bin(edges: Sequence[float], value: object, *, clamp: bool) -> int | None:
    try:
        if isinstance(value, int | Decimal):
            number = Decimal(value)
        else:
            number = Decimal(float.__repr__(value) if isinstance(value, float) else str(value).strip(" "))
    except InvalidOperation:
        return None
    if isinstance(value, bool) or not number.is_finite():
        return None
    limits = [Decimal(repr(edge)) for edge in edges]
    if not clamp and not limits[0] <= number <= limits[-1]:
        return None
    above = sum(number >= limit for limit in limits)
    return min(max(above - 1, 0), len(limits) - 2)
