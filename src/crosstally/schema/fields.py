"""The fields of a JSON object: all known, none missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crosstally.errors import SchemaError, did_you_mean

__all__ = ["read_fields"]


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
