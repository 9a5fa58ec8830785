"""Labels matched with values: equal when their canonical texts are, whatever the type of the column."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crosstally.schema import Attribute, canonical_text
from crosstally.sources.codes.arrays import flags, looked_up, numbers

# Numbers put into bins, exactly: a value is the decimal it is written as, and so is an edge. A bin has its lower edge,
# the last one both. A float counts as the shortest decimal that is that float and no other of its width, as it would be
# written into a text file: the same numbers fall into the same bins from every source.


_ANY_NUMBER = re.compile(r" *[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})? *")
_SHORT_NUMBER = r"^-?[0-9]{1,9}(\.[0-9]{1,6})?$"  # at most 15 digits: the nearest float tells all of these apart
# Limits memory: whole numbers in a narrower range have a table of their bins. Others are searched for, slower.
_MOST_BINNED = 65_536


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
    def _lookup(self) -> tuple[int, NDArray[Any]] | None:
        low, end = self._whole_limits[0], self._whole_limits[-1]
        if end - low > _MOST_BINNED or low < -(2**63) or end >= 2**63:
            return None
        table = self._codes(np.array(self._whole_limits), np.arange(low, end))
        return low, np.append(table, self.dtype(self.labels))

    def integers(self, values: NDArray[Any]) -> NDArray[Any]:
        """The codes of integers of any width."""
        if self._lookup is not None and values.dtype != np.uint64:
            return _look_up(values, *self._lookup)
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
        return looked_up(table, encoded.indices)

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
        return Decimal(value.strip(" ")) if _ANY_NUMBER.fullmatch(value) else None
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


# Labels laid out for the kernel that compares texts with them.


_MOST_LABELS = 254  # one code is for texts that are none of them
# Bytes of a label: labels are kept side by side, all as wide as the longest. Longer ones take the slower way.
_MOST_BYTES = 256
# Limits memory: 2^18 places for labels. Where no factor keeps them apart, texts take the slower way.
_MOST_BITS = 18
_TRIES = 16  # factors that are tried for each number of places. More find smaller tables; codes do not depend on it


@dataclass(frozen=True, slots=True, eq=False)
class LabelTexts:
    """Labels, each alone in its slot, so that a text need only be compared with one of them."""

    sizes: NDArray[np.int64]
    words: NDArray[np.uint64]
    _: KW_ONLY
    labels: int
    factor: np.uint64
    slots: NDArray[np.uint8]

    @classmethod
    def of(cls, labels: Sequence[str]) -> LabelTexts | None:
        """The labels' layout; None when they are too many, too long, or too much alike."""
        encoded = [label.encode() for label in labels]
        longest = max(map(len, encoded))
        if len(encoded) > _MOST_LABELS or longest > _MOST_BYTES:
            return None
        found = _find_slots(encoded)
        if found is None:
            return None
        factor, slots = found
        width = -(-longest // 8) * 8
        lines = [text.ljust(width, b"\0") for text in encoded] + [bytes(width)] * (256 - len(encoded))
        words = np.frombuffer(b"".join(lines), np.uint64).reshape(256, -1)
        sizes = np.array([len(text) for text in encoded] + [-1] * (256 - len(encoded)), np.int64)
        return cls(sizes, words, labels=len(encoded), factor=factor, slots=slots)

    def codes(self, texts: pa.Array) -> NDArray[np.uint8]:
        """The codes of the first texts, as many as can be read in whole words: all but a few, as a rule.

        A text that is no label has the code ``labels``.
        """
        from crosstally.kernels.matching import NO_LABEL, match_texts

        offset_type: type[np.signedinteger[Any]] = np.int32 if texts.type == pa.string() else np.int64
        _, offsets, data = texts.buffers()
        if offsets is None or data is None or data.address % 8:
            return np.empty(0, np.uint8)
        starts = np.frombuffer(offsets, offset_type, len(texts) + 1, texts.offset * np.dtype(offset_type).itemsize)
        words = np.frombuffer(data, np.uint64, data.size // 8)
        readable = int(np.searchsorted(starts[1:], (len(words) - 2) * 8))
        codes = np.empty(readable, np.uint8)
        places = starts[: readable + 1].astype(np.int64)
        match_texts(places, words, self.factor, self.slots, self.sizes, self.words, codes)
        codes[codes == NO_LABEL] = self.labels
        return codes


def _find_slots(encoded: Sequence[bytes]) -> tuple[np.uint64, NDArray[np.uint8]] | None:
    """A factor that gives each label a slot of its own, and who is in each slot."""
    from crosstally.kernels.matching import NO_LABEL, text_keys

    joined = b"".join(encoded)
    words = np.frombuffer(joined.ljust(len(joined) // 8 * 8 + 24, b"\0"), np.uint64)
    keys = np.empty(len(encoded), np.uint64)
    text_keys(np.cumsum([0, *map(len, encoded)]), words, keys)
    draw = np.random.default_rng(0)  # any factor will do: which one changes nothing but speed
    for bits in range(4, _MOST_BITS + 1):
        for factor in draw.integers(0, 2**63, _TRIES).astype(np.uint64) * np.uint64(2) + np.uint64(1):
            places = (keys * factor) >> np.uint64(64 - bits)
            if len(np.unique(places)) == len(places):
                slots = np.full(1 << bits, NO_LABEL, np.uint8)
                slots[places] = np.arange(len(places))
                return factor, slots
    return None


_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
MAY_CHANGE = r"^(-?[0-9]+\.[0-9]+|-0|True|False|)$"  # texts of ASCII that are not their own canonical text
# Limits memory: whole numbers in a narrower range have a table of their codes. Others are looked up, slower.
_MOST_ENTRIES = 65_536
# Below it a double that is whole is that number; above, it may stand for several, and its text decides.
_EXACT_FLOAT = 2.0**53


def code_type(labels: int) -> type[np.unsignedinteger[Any]]:
    """The smallest type for the codes of this many labels, of outside and of missing values."""
    return np.uint8 if labels + 2 <= 256 else np.uint16 if labels + 2 <= 65_536 else np.uint32


def float_text(value: np.floating[Any]) -> str:
    """The canonical text of a finite float: the shortest decimal that is this float and no other of its width."""
    return canonical_text(Decimal(str(value))) or ""


def _look_up(values: NDArray[Any], low: int, table: NDArray[Any]) -> NDArray[Any]:
    """The codes of integers of at most 64 bits, signed.

    The table holds those of the integers from ``low`` on, and at the end the code of all others.
    """
    if table.dtype == np.uint8:
        from crosstally.kernels.lookup import look_up_integers

        codes = np.empty(len(values), np.uint8)
        look_up_integers(np.require(values, np.int64, "A"), low, table, codes)
        return codes
    # The difference wraps around, so that all that is below the lowest becomes large.
    places = (values.astype(np.int64) - np.int64(low)).view(np.uint64)
    np.minimum(places, np.uint64(len(table) - 1), out=places)
    return np.asarray(table[places.view(np.int64)])


@dataclass(frozen=True)
class Values:
    """The labels of an attribute with ``values``, ready to be matched."""

    attribute: Attribute

    @cached_property
    def codes(self) -> dict[str, int]:
        """The code of each canonical text."""
        return {canonical_text(label) or "": code for code, label in enumerate(self.attribute.values)}

    @property
    def labels(self) -> int:
        """How many labels there are."""
        return len(self.attribute.values)

    @cached_property
    def dtype(self) -> type[np.unsignedinteger[Any]]:
        """The smallest type that holds all codes."""
        return code_type(self.labels)

    def scalar(self, value: object) -> int:
        """The code of one value."""
        text = canonical_text(value)
        return self.labels + 1 if text is None else self.codes.get(text, self.labels)

    # Integers

    @cached_property
    def _integers(self) -> dict[int, int]:
        return {int(text): code for text, code in self.codes.items() if _INTEGER.fullmatch(text)}

    @cached_property
    def _lookup(self) -> tuple[int, NDArray[Any]] | None:
        known = {value: code for value, code in self._integers.items() if -(2**63) <= value < 2**63}
        low, high = min(known, default=0), max(known, default=0)
        if high - low >= _MOST_ENTRIES:
            return None
        table = np.full(high - low + 2, self.labels, self.dtype)
        for value, code in known.items():
            table[value - low] = code
        return low, table

    @cached_property
    def _byte_tables(self) -> dict[np.dtype[Any], NDArray[Any]]:
        tables = {}
        for dtype in (np.int8, np.uint8):
            values = np.arange(256, dtype=np.uint8).view(dtype).tolist()
            tables[np.dtype(dtype)] = np.array([self._integers.get(v, self.labels) for v in values], self.dtype)
        return tables

    def integers(self, values: NDArray[Any]) -> NDArray[Any]:
        """The codes of integers of any width."""
        if values.dtype.itemsize == 1:
            return self._bytes(values)
        fits_signed = values.dtype != np.uint64 or values.max() < 2**63
        if fits_signed and self._lookup is not None:
            return _look_up(values, *self._lookup)
        distinct, places = np.unique(values, return_inverse=True)
        table = np.array([self._integers.get(value, self.labels) for value in distinct.tolist()], self.dtype)
        return table[places]

    def _bytes(self, values: NDArray[Any]) -> NDArray[Any]:
        from crosstally.kernels.lookup import look_up_bytes

        table = self._byte_tables[values.dtype]
        if table.dtype != np.uint8:
            return table[values.view(np.uint8)]
        codes = np.empty(len(values), np.uint8)
        look_up_bytes(values.view(np.uint8), table, codes)
        return codes

    # Floats

    def floats(self, values: NDArray[Any]) -> NDArray[Any]:
        """The codes of floats of any width."""
        wide = values.astype(np.float64)
        with np.errstate(invalid="ignore"):
            whole = wide.astype(np.int64)
        uncommon = (whole != wide) | (np.abs(wide) >= _EXACT_FLOAT)
        uncommon &= ~np.isnan(wide)
        codes = self.integers(whole)
        if uncommon.any():
            codes[uncommon] = self._uncommon_floats(values[uncommon])
        return codes

    def _uncommon_floats(self, values: NDArray[Any]) -> NDArray[Any]:
        distinct, places = np.unique(values, return_inverse=True)
        texts = [float_text(value) if np.isfinite(value) else str(value) for value in distinct]
        table = np.array([self.codes.get(text, self.labels) for text in texts], self.dtype)
        return table[places]

    # Texts

    @cached_property
    def _value_sets(self) -> dict[pa.DataType, pa.Array]:
        return {kind: pa.array(list(self.codes), kind) for kind in (pa.string(), pa.large_string())}

    def texts(self, values: pa.Array) -> NDArray[Any]:
        """The codes of texts: almost all are labels as they stand, and only the others are looked at closely."""
        codes = self._direct(values)
        rest = np.flatnonzero(codes == self.labels)
        if not len(rest):
            return codes
        others = pc.dictionary_encode(values.take(pa.array(rest)))
        table = np.append(self._uncommon_texts(others.dictionary), self.dtype(self.labels + 1))
        codes[rest] = looked_up(table, others.indices)
        return codes

    @cached_property
    def _label_texts(self) -> LabelTexts | None:
        return LabelTexts.of(tuple(self.codes))

    def _direct(self, values: pa.Array) -> NDArray[Any]:
        """The codes of the texts that are labels as they stand; the others are outside."""
        if self._label_texts is None:
            return self._direct_slowly(values)
        codes = self._label_texts.codes(values)
        return np.concatenate([codes, self._direct_slowly(values.slice(len(codes)))])

    def _direct_slowly(self, values: pa.Array) -> NDArray[Any]:
        found = pc.index_in(values, value_set=self._value_sets[values.type])
        return numbers(pc.fill_null(found, self.labels)).astype(self.dtype)

    def _uncommon_texts(self, texts: pa.Array) -> NDArray[Any]:
        codes = self._direct_slowly(texts)
        closely = pc.or_(pc.invert(pc.string_is_ascii(texts)), pc.match_substring_regex(texts, MAY_CHANGE))
        for i in np.flatnonzero(flags(closely)).tolist():
            codes[i] = self.scalar(texts[i].as_py())
        return codes
