"""Conditions on rows: which values of which attributes, joined by and, or, not.

A condition knows no schema. Resolved with one it becomes boxes: sets of cells in product form, no two of which share a
cell, so that a count over the condition is the sum of the counts of its boxes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from decimal import Decimal
from typing import Protocol

from crosstally.errors import QueryError
from crosstally.schema import Attribute, Schema, canonical_text

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
# Limits time and memory: boxes without overlap, of which each is a term of a query. More are refused.
_MAX_BOXES = 1000
_SHOWN_LABELS = 8  # labels that an error lists: it must stay one line
_SHOWN_TEXT = 40  # characters of a text that an error repeats, and the most that are read as a number

Box = Mapping[str, frozenset[int]]
"""For each attribute named, the cells that are in; all cells of the others are."""


class Condition(Protocol):
    """Something that is true of a row or not."""

    def boxes(self, schema: Schema) -> list[Box]:
        """The cells where it is true, as disjoint boxes."""


def shown(text: object) -> str:
    """What somebody typed, quoted, on one line and not too long."""
    given = str(text)
    return repr(given if len(given) <= _SHOWN_TEXT else given[: _SHOWN_TEXT - 3] + "...")


def where_in_text(position: int | None) -> str:
    """The beginning of a message about a place in a text; nothing when there was no text."""
    return "" if position is None else f"at position {position}: "


def number_of_text(text: str) -> Decimal | None:
    """The number that a text is, exactly; None when it is none."""
    if len(text) > _SHOWN_TEXT or not _NUMBER.fullmatch(text):
        return None
    number = Decimal(text)
    return number if abs(number.adjusted()) < 400 else None


@dataclass(frozen=True, slots=True)
class OneOf:
    """The attribute has one of these labels; ``position`` is where it was written, if it was."""

    attribute: str
    labels: tuple[object, ...]
    position: int | None = field(default=None, compare=False)

    def boxes(self, schema: Schema) -> list[Box]:
        """One box, of the cells with these labels."""
        attribute = _attribute(schema, self.attribute, self.position)
        codes = {canonical_text(label): code for code, label in enumerate(attribute.labels)}
        cells = set()
        for label in self.labels:
            text = canonical_text(label)
            if text not in codes:
                raise QueryError(
                    f"{where_in_text(self.position)}{self.attribute!r} has no label {shown(label)}; it has"
                    f" {_some(attribute.labels)}"
                )
            cells.add(codes[text])
        return [{self.attribute: frozenset(cells)}] if cells else []


@dataclass(frozen=True, slots=True)
class Range:
    """The attribute is between ``low`` and ``high``, either of which may be open: None.

    ``with_low`` and ``with_high`` say whether the bounds themselves are in, ``with_last_edge`` whether ``high`` is in
    where it is the end of the last, closed bin. Bins are never cut: a bound must be an edge, or beyond all of them.
    """

    attribute: str
    low: Decimal | None
    high: Decimal | None
    _: KW_ONLY
    with_low: bool = True
    with_high: bool = False
    with_last_edge: bool = False
    position: int | None = field(default=None, compare=False)

    def boxes(self, schema: Schema) -> list[Box]:
        """One box, of the bins or numeric labels in between."""
        attribute = _attribute(schema, self.attribute, self.position)
        cells = self._bins(attribute) if attribute.edges else self._labels(attribute)
        return [{self.attribute: frozenset(cells)}] if cells else []

    def _bins(self, attribute: Attribute) -> list[int]:
        edges = [Decimal(canonical_text(edge) or 0) for edge in attribute.edges]
        return list(range(self._start(edges), self._end(edges, attribute.labels)))

    def _start(self, edges: Sequence[Decimal]) -> int:
        if self.low is None or self.low < edges[0]:
            return 0
        if self.low > edges[-1]:
            return len(edges) - 1
        if not self.with_low:
            raise QueryError(f"{self._where()} bins hold their lower edge; use >= with an edge: {_some(edges)}")
        return self._edge(edges, self.low)

    def _end(self, edges: Sequence[Decimal], labels: Sequence[str]) -> int:
        last = len(edges) - 1
        closed = self.with_high or self.with_last_edge
        if self.high is None or self.high > edges[-1] or (closed and self.high == edges[-1]):
            return last
        if self.high < edges[0]:
            return 0
        if self.with_high:
            raise QueryError(f"{self._where()} bins do not hold their upper edge; use < with an edge: {_some(edges)}")
        if self.high == edges[-1]:
            raise QueryError(f"{self._where()} the last bin is {labels[last - 1]} and holds {self.high}; use <=")
        return self._edge(edges, self.high)

    def _edge(self, edges: Sequence[Decimal], bound: Decimal) -> int:
        if bound not in edges:
            raise QueryError(f"{self._where()} bounds must be edges of its bins, got {bound}; edges are {_some(edges)}")
        return edges.index(bound)

    def _labels(self, attribute: Attribute) -> list[int]:
        numbers = [number_of_text(canonical_text(label) or "") for label in attribute.labels]
        if all(number is None for number in numbers):
            raise QueryError(f"{self._where()} none of its labels is a number; use = or in")
        return [code for code, number in enumerate(numbers) if number is not None and self._holds(number)]

    def _holds(self, number: Decimal) -> bool:
        above = self.low is None or number > self.low or (self.with_low and number == self.low)
        return above and (self.high is None or number < self.high or (self.with_high and number == self.high))

    def _where(self) -> str:
        return f"{where_in_text(self.position)}{self.attribute!r}:"


@dataclass(frozen=True, slots=True)
class And:
    """All of these are true; of none, everything is."""

    parts: tuple[Condition, ...]

    def boxes(self, schema: Schema) -> list[Box]:
        """What the boxes of all parts share."""
        found: list[Box] = [{}]
        for part in self.parts:
            found = _intersections(found, part.boxes(schema))
        return found


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of these is true."""

    parts: tuple[Condition, ...]

    def boxes(self, schema: Schema) -> list[Box]:
        """The boxes of each part, without what earlier parts hold."""
        found: list[Box] = []
        for part in self.parts:
            found = _checked([*found, *_intersections(part.boxes(schema), _complement(found, schema))])
        return _merged(found)


@dataclass(frozen=True, slots=True)
class Not:
    """This is not true; cells of other and missing values are then in."""

    part: Condition

    def boxes(self, schema: Schema) -> list[Box]:
        """All that the part's boxes leave."""
        return _complement(self.part.boxes(schema), schema)


def _intersections(first: Sequence[Box], second: Sequence[Box]) -> list[Box]:
    if len(first) * len(second) > _MAX_BOXES**2:
        _checked([{}] * (_MAX_BOXES + 1))
    found: list[Box] = []
    for a in first:
        for b in second:
            box = {name: a.get(name, cells) & cells for name, cells in b.items()}
            box = {**a, **box}
            if all(box.values()):
                found.append(box)
    return _checked(found)


def _complement(boxes: Sequence[Box], schema: Schema) -> list[Box]:
    left: list[Box] = [{}]
    for box in boxes:
        left = _intersections(left, _outside(box, schema))
    return left


def _outside(box: Box, schema: Schema) -> list[Box]:
    """Where the first attribute is out; where it is in and the second is out; and so on."""
    found: list[Box] = []
    before: dict[str, frozenset[int]] = {}
    for name, cells in box.items():
        rest = frozenset(range(schema[name].size)) - cells
        if rest:
            found.append({**before, name: rest})
        before[name] = cells
    return found


def _merged(boxes: Sequence[Box]) -> list[Box]:
    """Boxes over one and the same attribute alone as one box: a set of its cells."""
    single: dict[str, frozenset[int]] = {}
    others: list[Box] = []
    for box in boxes:
        if len(box) == 1:
            ((name, cells),) = box.items()
            single[name] = single.get(name, frozenset()) | cells
        else:
            others.append(box)
    return [*({name: cells} for name, cells in single.items()), *others]


def _checked(boxes: list[Box]) -> list[Box]:
    if len(boxes) > _MAX_BOXES:
        raise QueryError(f"the condition must come to at most {_MAX_BOXES:,} boxes; ask simpler questions instead")
    return boxes


def _attribute(schema: Schema, name: str, position: int | None) -> Attribute:
    try:
        return schema[name]
    except QueryError as error:
        raise QueryError(f"{where_in_text(position)}{error}") from None


def _some(values: Sequence[object]) -> str:
    return ", ".join(map(str, values[:_SHOWN_LABELS])) + (", ..." if len(values) > _SHOWN_LABELS else "")
