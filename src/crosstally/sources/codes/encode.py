"""Rows as cells: each value becomes the code of its cell, by the rule of its attribute."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from crosstally.errors import OutsideValueError
from crosstally.schema import Attribute, Outside, ValueRule, canonical_text
from crosstally.sources.codes.arrays import check_readable, flags, is_text, looked_up, numbers, plain_text, plain_values
from crosstally.sources.codes.values import MAY_CHANGE, Bins, Values, float_text
from crosstally.sources.guard import guarded

# A column of any Arrow type as codes, one for each row. With n labels the codes are 0 to n - 1 for the labels, n for a
# value outside them and n + 1 for a missing one; what becomes of the last two is the attribute's rule and not decided
# here.


Codes = NDArray[Any]


Matcher = Bins | Values
"""One attribute's labels, ready to be matched with values: with each kind at once, as ``scalar`` does with one."""


def matcher_of(attribute: Attribute) -> Matcher:
    """The attribute's labels or bins, ready to be matched."""
    return Bins(attribute) if attribute.edges else Values(attribute)


def encode(name: str, column: pa.Array, matcher: Matcher) -> Codes:
    """The codes of a column."""
    kind = column.type
    check_readable(name, kind)
    codes: Codes
    if pa.types.is_dictionary(kind):
        table = np.append(encode(name, column.dictionary, matcher), matcher.dtype(matcher.labels + 1))
        return looked_up(table, column.indices)
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


def _encode_distinct(name: str, column: pa.Array, matcher: Matcher) -> Codes:
    encoded = pc.dictionary_encode(column)
    codes = [matcher.scalar(value) for value in plain_values(name, encoded.dictionary)]
    return looked_up(np.array([*codes, matcher.labels + 1], matcher.dtype), encoded.indices)


# A column of any Arrow type as canonical texts.


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


# Columns whose values a rule of the schema's reading turns into labels first. Each different value is looked at once,
# by itself: what becomes of a row depends on no other row.


def read_codes(name: str, column: pa.Array, rule: ValueRule, matcher: Matcher) -> NDArray[Any]:
    """The codes of a column after its rule, as ``encode`` gives them without one."""
    texts, indices = _distinct(name, column, rule)
    return looked_up(np.array([*map(matcher.scalar, texts), matcher.labels + 1], matcher.dtype), indices)


def read_texts(name: str, column: pa.Array, rule: ValueRule) -> pa.Array:
    """The texts of a column after its rule (large_string); null where a value is missing."""
    texts, indices = _distinct(name, column, rule)
    return pa.array(texts, pa.large_string()).take(indices)


def _distinct(name: str, column: pa.Array, rule: ValueRule) -> tuple[list[str | None], pa.Array]:
    """What each different value means, and which of them every row has; null for none."""
    check_readable(name, column.type)
    if pa.types.is_null(column.type):
        return [], pa.nulls(len(column), pa.int64())
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(plain_text(column))
    known = canonical_texts(name, column.dictionary).to_pylist()
    return [None if text is None else rule.text(text) for text in known], column.indices


@dataclass(frozen=True, slots=True)
class Encoder:
    """An attribute and its labels, ready to be matched with a column, whose values a rule may turn into labels."""

    attribute: Attribute
    matcher: Matcher
    _: KW_ONLY
    column: str
    rule: ValueRule | None = None

    @classmethod
    def of(cls, attribute: Attribute, *, column: str | None = None, rule: ValueRule | None = None) -> Encoder:
        """The encoder of an attribute; its column bears its name unless another is given."""
        return cls(attribute, matcher_of(attribute), column=attribute.name if column is None else column, rule=rule)

    def raw(self, batch: pa.RecordBatch) -> NDArray[Any]:
        """The codes before the attribute's rule: with n labels, n is outside and n + 1 is missing."""
        name, column = self.attribute.name, batch.column(self.column)
        if self.rule is not None:
            return read_codes(name, column, self.rule, self.matcher)
        return encode(name, column, self.matcher)

    def raw_scalar(self, text: str | None) -> int:
        """The code of one value, given as its canonical text, before the attribute's rule."""
        return self.matcher.scalar(text if self.rule is None or text is None else self.rule.text(text))

    def cell(self, raw: int) -> int | None:
        """The cell of a code before the attribute's rule; None where there is none."""
        labels = self.matcher.labels
        return raw if raw < labels else self.attribute.other_code if raw == labels else self.attribute.missing_code

    def lost(self, raw: NDArray[Any]) -> NDArray[np.bool_]:
        """Which codes before the attribute's rule have no cell."""
        labels = self.matcher.labels
        has_none = np.zeros(labels + 2, np.bool_)
        has_none[labels:] = self.cell(labels) is None, self.cell(labels + 1) is None
        return np.asarray(has_none[raw])

    def cells(self, batch: pa.RecordBatch) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """The cell of each row, and which rows the rule drops (None: none of them)."""
        raw, labels = self.raw(batch), self.matcher.labels
        if not len(raw) or raw.max() < labels:
            return raw, None
        table = np.arange(labels + 2, dtype=self.matcher.dtype)
        table[labels:] = self.attribute.other_code or 0, self.attribute.missing_code or 0
        lost = self.lost(raw)
        if not lost.any():
            return table[raw], None
        if self.attribute.outside is Outside.REFUSE:
            raise OutsideValueError(_refusal(self.attribute))
        return table[raw], lost


def _refusal(attribute: Attribute) -> str:
    if attribute.missing:
        return (
            f"column {attribute.name!r} holds values that the schema does not list; "
            "add them to it, or set outside to other or drop"
        )
    return (
        f"column {attribute.name!r} holds values, or missing values, that the schema does not list; "
        "add them to it, or set outside to other or drop, or missing to true"
    )
