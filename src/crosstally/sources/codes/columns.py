"""A column of any Arrow type as codes, one for each row.

With n labels the codes are 0 to n - 1 for the labels, n for a value outside them and n + 1 for a missing one; what
becomes of the last two is the attribute's rule and not decided here.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crosstally.schema import Attribute
from crosstally.sources.codes.arrays import check_readable, flags, is_text, numbers, plain_text, plain_values
from crosstally.sources.codes.bins import Bins
from crosstally.sources.codes.values import Values
from crosstally.sources.guard import guarded

__all__ = ["Matcher", "encode", "matcher_of"]

Codes = NDArray[Any]


class Matcher(Protocol):
    """One attribute's labels, ready to be matched with values of each kind."""

    @property
    def labels(self) -> int:
        """How many labels there are."""

    @property
    def dtype(self) -> type[np.unsignedinteger[Any]]:
        """The smallest type that holds all codes."""

    def scalar(self, value: object) -> int:
        """The code of one value: the definition that the others must agree with."""

    def integers(self, values: NDArray[Any]) -> Codes:
        """The codes of integers of any width."""

    def floats(self, values: NDArray[Any]) -> Codes:
        """The codes of floats of any width, none of which is NaN (those may get any code)."""

    def texts(self, values: pa.Array) -> Codes:
        """The codes of texts (string or large_string; nulls may get any code)."""


def matcher_of(attribute: Attribute) -> Matcher:
    """The attribute's labels or bins, ready to be matched."""
    return Bins(attribute) if attribute.edges else Values(attribute)


def encode(name: str, column: pa.Array, matcher: Matcher) -> Codes:
    """The codes of a column."""
    kind = column.type
    check_readable(name, kind)
    codes: Codes
    if pa.types.is_dictionary(kind):
        return _encode_dictionary(name, column, matcher)
    if pa.types.is_null(kind) or not len(column):
        return np.full(len(column), matcher.labels + 1, matcher.dtype)
    if pa.types.is_boolean(kind):
        table = np.array([matcher.scalar(False), matcher.scalar(True)], matcher.dtype)
        codes = table[numbers(pc.cast(column, pa.uint8()))]
    elif pa.types.is_integer(kind):
        codes = matcher.integers(numbers(column))
    elif pa.types.is_floating(kind):
        values = numbers(column)
        codes = matcher.floats(values)
        codes[np.isnan(values)] = matcher.labels + 1
    elif is_text(kind):
        codes = guarded(f"column {name!r}", lambda: matcher.texts(plain_text(column)), otherwise="it is damaged")
    else:
        codes = _encode_distinct(name, column, matcher)
    if column.null_count:
        codes[flags(column.is_null())] = matcher.labels + 1
    return codes


def _encode_dictionary(name: str, column: pa.DictionaryArray, matcher: Matcher) -> Codes:
    table = np.append(encode(name, column.dictionary, matcher), matcher.dtype(matcher.labels + 1))
    indices = column.indices
    if indices.null_count:
        indices = pc.fill_null(pc.cast(indices, pa.int64()), len(column.dictionary))
    codes: Codes = table[numbers(indices)] if len(column) else table[:0]
    return codes


def _encode_distinct(name: str, column: pa.Array, matcher: Matcher) -> Codes:
    encoded = pc.dictionary_encode(column)
    values = plain_values(name, encoded.dictionary)
    table = np.array([matcher.scalar(value) for value in values] + [matcher.labels + 1], matcher.dtype)
    codes: Codes = table[numbers(pc.fill_null(encoded.indices, len(values)))]
    return codes
