"""Columns whose values a rule of the schema's reading turns into labels first.

Each different value is looked at once, by itself: what becomes of a row depends on no other row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crosstally.schema import ValueRule
from crosstally.sources.codes.arrays import check_readable, numbers, plain_text
from crosstally.sources.codes.columns import Matcher
from crosstally.sources.codes.texts import canonical_texts

__all__ = ["read_codes", "read_texts"]


def read_codes(name: str, column: pa.Array, rule: ValueRule, matcher: Matcher) -> NDArray[Any]:
    """The codes of a column after its rule, as ``encode`` gives them without one."""
    texts, places = _distinct(name, column, rule)
    table = np.array([*map(matcher.scalar, texts), matcher.labels + 1], matcher.dtype)
    codes: NDArray[Any] = table[places]
    return codes


def read_texts(name: str, column: pa.Array, rule: ValueRule) -> pa.Array:
    """The texts of a column after its rule (large_string); null where a value is missing."""
    texts, places = _distinct(name, column, rule)
    return pa.array([*texts, None], pa.large_string()).take(pa.array(places))


def _distinct(name: str, column: pa.Array, rule: ValueRule) -> tuple[list[str | None], NDArray[np.int64]]:
    """What each different value means, and which of them every row has; the number after the last is for none."""
    check_readable(name, column.type)
    if pa.types.is_null(column.type):
        return [], np.zeros(len(column), np.int64)
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(plain_text(column))
    known = canonical_texts(name, column.dictionary).to_pylist()
    texts = [None if text is None else rule.text(text) for text in known]
    indices = pc.fill_null(pc.cast(column.indices, pa.int64()), len(texts))
    return texts, numbers(indices) if len(column) else np.zeros(0, np.int64)
