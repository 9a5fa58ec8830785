"""Labels matched with values: equal when their canonical texts are, whatever the type of the column."""

from __future__ import annotations

import re
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
from crosstally.sources.codes.labels import LabelTexts

__all__ = ["MAY_CHANGE", "Lookup", "Values", "code_type", "float_text"]

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


@dataclass(frozen=True)
class Lookup:
    """Codes of the integers from ``low`` on, and at the end the code of all others."""

    low: int
    table: NDArray[Any]

    def __call__(self, values: NDArray[Any]) -> NDArray[Any]:
        """The codes of integers of at most 64 bits, signed."""
        if self.table.dtype == np.uint8:
            return self._byte_codes(values)
        # The difference wraps around, so that all that is below the lowest becomes large.
        places = (values.astype(np.int64) - np.int64(self.low)).view(np.uint64)
        np.minimum(places, np.uint64(len(self.table) - 1), out=places)
        return self.table[places.view(np.int64)]

    def _byte_codes(self, values: NDArray[Any]) -> NDArray[Any]:
        from crosstally.kernels.lookup import look_up_integers

        codes = np.empty(len(values), np.uint8)
        look_up_integers(np.require(values, np.int64, "A"), self.low, self.table, codes)
        return codes


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
    def _lookup(self) -> Lookup | None:
        known = {value: code for value, code in self._integers.items() if -(2**63) <= value < 2**63}
        low, high = min(known, default=0), max(known, default=0)
        if high - low >= _MOST_ENTRIES:
            return None
        table = np.full(high - low + 2, self.labels, self.dtype)
        for value, code in known.items():
            table[value - low] = code
        return Lookup(low, table)

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
            return self._lookup(values)
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
        codes[rest] = table[numbers(pc.fill_null(others.indices, len(others.dictionary)))]
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
