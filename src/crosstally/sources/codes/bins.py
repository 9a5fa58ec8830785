"""Numbers put into bins, exactly: a value is the decimal it is written as, and so is an edge.

A bin holds its lower edge, the last one both. A float counts as the shortest decimal that is that float and no other of
its width, as it would be written into a text file: the same numbers fall into the same bins from every source.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crosstally.schema import Attribute, canonical_text
from crosstally.sources.codes.arrays import flags, numbers
from crosstally.sources.codes.values import Lookup, code_type

__all__ = ["Bins", "number_of"]

_NUMBER = re.compile(r" *[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})? *")
_SHORT_NUMBER = r"^-?[0-9]{1,9}(\.[0-9]{1,6})?$"  # at most 15 digits: the nearest float tells all of these apart
# Limits memory: whole numbers in a narrower range have a table of their bins. Others are searched for, slower.
_MOST_ENTRIES = 65_536


@dataclass(frozen=True)
class Bins:
    """The bins of an attribute with ``edges``, ready to be matched."""

    attribute: Attribute

    @property
    def labels(self) -> int:
        """How many bins there are."""
        return len(self.attribute.edges) - 1

    @cached_property
    def dtype(self) -> type[np.unsignedinteger[Any]]:
        """The smallest type that holds all codes."""
        return code_type(self.labels)

    @cached_property
    def edges(self) -> tuple[Decimal, ...]:
        """The edges as they are written."""
        return tuple(Decimal(canonical_text(edge) or 0) for edge in self.attribute.edges)

    def scalar(self, value: object) -> int:
        """The code of one value."""
        if value is None or value == "" or value != value:  # noqa: PLR0124 - only NaN differs from itself
            return self.labels + 1
        number = number_of(value)
        if number is None or not self.edges[0] <= number <= self.edges[-1]:
            return self.labels
        return min(bisect_right(self.edges, number), self.labels) - 1

    @cached_property
    def _whole_limits(self) -> list[int]:
        return [math.ceil(edge) for edge in self.edges[:-1]] + [math.floor(self.edges[-1]) + 1]

    @cached_property
    def _lookup(self) -> Lookup | None:
        low, end = self._whole_limits[0], self._whole_limits[-1]
        if end - low > _MOST_ENTRIES or low < -(2**63) or end >= 2**63:
            return None
        table = self._codes(np.array(self._whole_limits), np.arange(low, end))
        return Lookup(low, np.append(table, self.dtype(self.labels)))

    def integers(self, values: NDArray[Any]) -> NDArray[Any]:
        """The codes of integers of any width."""
        if self._lookup is not None and values.dtype != np.uint64:
            return self._lookup(values)
        limits, info = self._whole_limits, np.iinfo(values.dtype)
        beyond = sum(limit > info.max for limit in limits)
        within = np.array([max(limit, info.min) for limit in limits[: len(limits) - beyond]], values.dtype)
        return self._codes(within, values)

    def floats(self, values: NDArray[Any]) -> NDArray[Any]:
        """The codes of floats of any width."""
        limits = [_least_float(edge, values.dtype) for edge in self.edges[:-1]]
        last = _least_float(self.edges[-1], values.dtype)
        if np.isfinite(last) and Decimal(str(last)) == self.edges[-1]:
            last = _neighbour(last, np.inf)
        return self._codes(np.array([*limits, last], values.dtype), values)

    def texts(self, values: pa.Array) -> NDArray[Any]:
        """The codes of texts; those that are not numbers are outside."""
        encoded = pc.dictionary_encode(values)
        distinct = encoded.dictionary
        table = np.full(len(distinct) + 1, self.labels, self.dtype)
        short = flags(pc.match_substring_regex(distinct, _SHORT_NUMBER))
        table[np.flatnonzero(short)] = self.floats(numbers(pc.cast(distinct.filter(pa.array(short)), pa.float64())))
        for i in np.flatnonzero(~short).tolist():
            table[i] = self.scalar(distinct[i].as_py())
        codes: NDArray[Any] = table[numbers(pc.fill_null(encoded.indices, len(distinct)))]
        return codes

    def _codes(self, limits: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
        """The codes of values, given the least value of each bin and the least one beyond the last."""
        places = np.searchsorted(limits, values, side="right")
        table = np.full(len(self.edges) + 1, self.labels, self.dtype)
        table[1:-1] = np.arange(self.labels)
        return table[places]


def number_of(value: object) -> Decimal | None:
    """The number a value is, exactly as it is written; None when it is not one."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return Decimal(value.strip(" ")) if _NUMBER.fullmatch(value) else None
    if isinstance(value, int | Decimal):
        return Decimal(value)
    if isinstance(value, float) and math.isfinite(value):
        return Decimal(repr(value))
    return None


def _least_float(edge: Decimal, dtype: np.dtype[Any]) -> np.floating[Any]:
    """The least float of this width whose decimal is at least the edge; infinite when there is none."""
    with np.errstate(over="ignore"):
        near: np.floating[Any] = dtype.type(float(edge))
    if np.isinf(near):
        return near if near > 0 else np.finfo(dtype).min
    if Decimal(str(near)) < edge:
        return _neighbour(near, np.inf)
    below = _neighbour(near, -np.inf)
    return below if np.isfinite(below) and Decimal(str(below)) >= edge else near


def _neighbour(value: np.floating[Any], towards: float) -> np.floating[Any]:
    with np.errstate(over="ignore"):
        neighbour: np.floating[Any] = np.nextafter(value, type(value)(towards))
    return neighbour
