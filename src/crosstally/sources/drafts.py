"""A first schema from data, for the steward to review: it is not public until that is done."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from crosstally.errors import SourceError
from crosstally.schema import MAX_ATTRIBUTES, MISSING, OTHER, Attribute, Outside, Schema
from crosstally.sources.codes.arrays import is_readable
from crosstally.sources.codes.bins import number_of
from crosstally.sources.codes.texts import canonical_texts
from crosstally.sources.reading import Reading
from crosstally.sources.rows import AS_IT_IS, batches

__all__ = ["Draft", "draft"]

_FEW_NUMBERS = 20
_MOST_WORDS = 5
_MOST_BINS = 8
_MOST_TRACKED = 10_000
_TOO_LARGE = Decimal(10) ** 290  # beyond it a schema takes no edges


@dataclass(frozen=True, slots=True, repr=False)
class Draft:
    """A draft schema and the columns left out of it, each with the reason. Confidential: labels come from the data."""

    schema: Schema
    left_out: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        return f"Draft({len(self.schema.attributes)} attributes, {len(self.left_out)} left out)"


def draft(rows: Any, *, max_values: int = 50, reading: Reading = AS_IT_IS) -> Draft:
    """A schema that fits the data, marked as a draft, for the steward to review.

    Columns with at most ``max_values`` different values become labels, numbers with more become bins of equal width; up
    to five words among many numbers, such as n/a, are counted as other.
    The labels and the range of the bins are taken from confidential data: before anything is released the steward
    replaces them by what is publicly known of the columns.
    """
    columns: dict[str, _Column] = {}
    for batch in batches(rows, None, reading=reading):
        for place, (name, values) in enumerate(zip(batch.schema.names, batch.columns, strict=True), 1):
            # An error says where the column stands: its name may be a person's, where a file has no header.
            columns.setdefault(name, _Column()).add(f"number {place}", values)
    attributes: list[Attribute] = []
    left_out = []
    for name, column in columns.items():
        reason = column.reason_to_leave_out(name, max_values)
        if reason is None and len(attributes) < MAX_ATTRIBUTES:
            attributes.append(column.attribute(name))
        else:
            left_out.append((name, reason or f"a schema has at most {MAX_ATTRIBUTES} attributes"))
    if not attributes:
        raise SourceError("no column can be an attribute: each has a single value, too many texts, or no rows at all")
    return Draft(Schema(tuple(attributes), draft=True), tuple(left_out))


class _Column:
    """What is known of a column so far."""

    def __init__(self) -> None:
        self._texts: set[str] = set()
        self._words: set[str] = set()
        self._numbers: tuple[Decimal, Decimal] | None = None
        self._rows = 0
        self._missing = self._too_many = self._repeats = False
        self._kind = ""

    def add(self, name: str, values: pa.Array) -> None:
        if not is_readable(values.type):
            self._kind = str(values.type).split("<")[0]
            return
        texts = canonical_texts(name, values)
        distinct = pc.unique(pc.drop_null(texts))
        self._missing |= texts.null_count > 0
        self._rows += len(texts) - texts.null_count
        found = distinct.to_pylist()
        self._add_numbers(found)
        if not self._too_many:
            self._texts.update(found)
            self._repeats |= len(self._texts) < self._rows
            self._too_many = len(self._texts) > _MOST_TRACKED

    def _add_numbers(self, texts: Sequence[str]) -> None:
        if len(self._words) > _MOST_WORDS:
            return
        numbers = [number_of(text) for text in texts]
        known = [number for number in numbers if number is not None and abs(number) < _TOO_LARGE]
        words = (text for text, n in zip(texts, numbers, strict=True) if n is None or abs(n) >= _TOO_LARGE)
        self._words.update(islice(words, _MOST_WORDS + 1))
        if known:
            low, high = self._numbers or (known[0], known[0])
            self._numbers = min(low, *known), max(high, *known)

    @property
    def _is_numeric(self) -> bool:
        """Whether all are numbers, or so many that a few words among them stand for something missing."""
        few = len(self._words) <= _MOST_WORDS and len(self._texts) - len(self._words) > _FEW_NUMBERS
        return self._numbers is not None and (few or not self._words)

    def reason_to_leave_out(self, name: str, max_values: int) -> str | None:
        """Why the column cannot be an attribute; None when it can."""
        max_values = min(max_values, _MOST_TRACKED)  # beyond it not all are known, and a schema's error would name them
        if self._kind:
            return f"its type is {self._kind}"
        if not name:
            return "it has no name"
        if not self._texts:
            return "it has no values"
        if len(self._texts) + self._missing < 2:
            return "it has a single value"
        if self._texts & {OTHER, MISSING}:
            return f"it holds {OTHER} or {MISSING}, which are reserved"
        if len(self._texts) <= min(max_values, _FEW_NUMBERS):
            return None
        if self._is_numeric:
            is_whole = all("." not in text for text in self._texts - self._words)
            return None if self._repeats or not is_whole else "every row has another number, like an id"
        if len(self._texts) > max_values:
            return f"it has more than {max_values} different texts, like a name or an id"
        return None

    def attribute(self, name: str) -> Attribute:
        """The column as an attribute."""
        if self._is_numeric and len(self._texts) > _FEW_NUMBERS and self._numbers is not None:
            outside = Outside.OTHER if self._words else Outside.REFUSE
            return Attribute(name, edges=round_edges(*self._numbers), missing=self._missing, outside=outside)
        ordered = sorted(self._texts, key=Decimal if self._is_numeric else None)
        return Attribute(name, tuple(ordered), missing=self._missing)


def round_edges(low: Decimal, high: Decimal) -> tuple[float, ...]:
    """About five to eight bins of equal width with round edges that cover both numbers.

    >>> round_edges(Decimal(17), Decimal(90))
    (10, 20, 30, 40, 50, 60, 70, 80, 90)
    """
    power = Decimal(10) ** math.floor(((high - low) / _MOST_BINS).log10())
    for factor in ("1", "2", "2.5", "5", "10", "20"):
        step = Decimal(factor) * power
        first, last = math.floor(low / step), math.ceil(high / step)
        is_odd_step = factor == "2.5" and step < 10
        if last - first <= _MOST_BINS and not is_odd_step:
            break
    edges = [step * i for i in range(first, last + 1)]
    return tuple(int(edge) if edge == int(edge) else float(edge) for edge in edges)
