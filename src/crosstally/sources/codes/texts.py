"""A column of any Arrow type as canonical texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crosstally.schema import canonical_text
from crosstally.sources.codes.arrays import check_readable, flags, is_text, numbers, plain_text, plain_values
from crosstally.sources.codes.values import MAY_CHANGE, float_text
from crosstally.sources.guard import guarded

__all__ = ["canonical_texts"]


def canonical_texts(name: str, column: pa.Array) -> pa.Array:
    """The canonical text of each value (large_string); null where it is missing."""
    kind = column.type
    check_readable(name, kind)
    if pa.types.is_null(kind) or not len(column):
        return pa.nulls(len(column), pa.large_string())
    if pa.types.is_dictionary(kind):
        return canonical_texts(name, column.dictionary).take(column.indices)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return pc.cast(column, pa.large_string())
    if is_text(kind):
        texts = pc.cast(plain_text(column), pa.large_string())
        return guarded(f"column {name!r}", lambda: _from_texts(texts), otherwise="it is damaged")
    encoded = pc.dictionary_encode(column)
    if pa.types.is_floating(kind):
        texts = [_float_or_missing(value) for value in numbers(encoded.dictionary)]
    else:
        texts = [canonical_text(value) for value in plain_values(name, encoded.dictionary)]
    return pa.array(texts, pa.large_string()).take(encoded.indices)


def _float_or_missing(value: np.floating[Any]) -> str | None:
    if np.isnan(value):
        return None
    return float_text(value) if np.isfinite(value) else str(value)


def _from_texts(texts: pa.Array) -> pa.Array:
    unsettled = pc.or_(pc.invert(pc.string_is_ascii(texts)), pc.match_substring_regex(texts, MAY_CHANGE))
    unsettled = pc.fill_null(unsettled, False)
    places = np.flatnonzero(flags(unsettled))
    if not len(places):
        return texts
    encoded = pc.dictionary_encode(texts.filter(unsettled))
    settled = [canonical_text(value) for value in encoded.dictionary.to_pylist()]
    replacements = pa.array(settled, pa.large_string()).take(encoded.indices)
    return pc.replace_with_mask(texts, unsettled, replacements)
