"""Rows as cells: each value becomes the code of its cell, by the rule of its attribute."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.errors import OutsideValueError
from crosstally.schema import Attribute, Outside, ValueRule
from crosstally.sources.codes.columns import Matcher, encode, matcher_of
from crosstally.sources.codes.read import read_codes

__all__ = ["Encoder"]


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

    def cells(self, batch: pa.RecordBatch) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """The cell of each row, and which rows the rule drops (None: none of them)."""
        raw, labels = self.raw(batch), self.matcher.labels
        if not len(raw) or raw.max() < labels:
            return raw, None
        other, missing = self.attribute.other_code, self.attribute.missing_code
        table = np.arange(labels + 2, dtype=self.matcher.dtype)
        table[labels], table[labels + 1] = other or 0, missing or 0
        lost = (raw >= labels) if missing is None else (raw == labels) & (other is None)
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
