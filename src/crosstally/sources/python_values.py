"""Columns of Python's values, of one kind or of several, as Arrow arrays."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa

from crosstally.schema import canonical_text

__all__ = ["column_of"]

_KINDS: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    Decimal: pa.decimal256(76, 38),  # as text it might be meant in two ways
    str: pa.large_string(),
    bytes: pa.large_binary(),  # no attribute takes it, and the error names the column
    date: pa.date32(),
    datetime: pa.timestamp("us"),
}


def column_of(values: Sequence[object]) -> pa.Array:
    """The values as an array. Where they are of several kinds each becomes its canonical text.

    What becomes of a value depends on no other: a number and its canonical text fall into the same cells.

    >>> column_of([1, None, 2]).type, column_of([1, "a", 2.5]).to_pylist()
    (DataType(int64), ['1', 'a', '2.5'])
    """
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) == 1:
        (kind,) = kinds
        if kind in _KINDS:
            return pa.array(values, _KINDS[kind])
    if bytes in kinds:
        return pa.array([None] * len(values), pa.large_binary())
    return pa.array([canonical_text(value) for value in values], pa.large_string())
