"""Rows of bits: their schema, and bits that do not depend on each other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from crosstally.errors import CrosstallyError
from crosstally.generate.people import check_rows
from crosstally.schema import Attribute, Schema

_RARE = 0.1  # the share of ones: most cells of a wide table stay empty


def independent(rows: int, attributes: int, random: np.random.Generator) -> tuple[pa.Table, Schema]:
    """Rare values that do not depend on each other: each is 1 in a tenth of all rows, columns ``x1``, ``x2``, ..."""
    check_rows(rows)
    schema = binary_schema("x", attributes)
    bits = [(random.random(rows) < _RARE).astype(np.int8) for _ in schema.names]
    return pa.table(dict(zip(schema.names, bits, strict=True))), schema


def binary_schema(prefix: str, attributes: int) -> Schema:
    """Attributes of two values, 0 and 1, whose names are the prefix and 1, 2, ..."""
    if attributes < 1:
        raise CrosstallyError(f"attributes must be at least 1, got {attributes}")
    return Schema(tuple(Attribute(f"{prefix}{i + 1}", ("0", "1")) for i in range(attributes)))
