"""Which rows a table counts: a condition that has met a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import QueryError
from crosstally.query.conditions import Box, shown
from crosstally.query.question import Question, cells_in_words, condition_of
from crosstally.schema import Schema

__all__ = ["Where"]


@dataclass(frozen=True, slots=True)
class Where:
    """The cells in which a condition is true, as disjoint boxes, and the condition as text.

    Attributes of which every cell is in are not named by the boxes, so they need not be in a table that answers it.

    >>> from crosstally.schema import Attribute
    >>> schema = Schema([Attribute("sex", ["Female", "Male"]), Attribute("age", edges=[0, 18, 65, 120])])
    >>> where = Where.of("age >= 18 and sex in {Female, Male}", schema)
    >>> where.attributes, where.chosen(("sex", "age"))
    (('age',), array([[False,  True,  True]]))
    """

    text: str
    boxes: tuple[Box, ...]
    schema: Schema

    @classmethod
    def of(cls, given: str | Mapping[str, object] | Question, schema: Schema) -> Where:
        """From a text, conditions as in ``count``, or a count. Raises where no row can satisfy it."""
        boxes = [_restricting(box, schema) for box in condition_of(given).boxes(schema)]
        text = given.strip() if isinstance(given, str) else _in_words(boxes, schema)
        if not boxes:
            raise QueryError(
                f"no row can satisfy {shown(text) if text else 'the condition'}: no combination of values does"
            )
        return cls(text, tuple(boxes), schema)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it restricts, in the schema's order."""
        return self.schema.ordered(sorted({name for box in self.boxes for name in box}))

    def possible(self, name: str) -> frozenset[int]:
        """The codes that an attribute can have where it is true."""
        every = frozenset(range(self.schema[name].size))
        return frozenset().union(*(box.get(name, every) for box in self.boxes))

    def chosen(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Where it is true in a table over ``names``, which hold all its attributes.

        There is an axis for each name, of length one where the attribute does not matter.
        """
        own = self.attributes
        out = np.zeros([self.schema[name].size if name in own else 1 for name in names], np.bool_)
        for box in self.boxes:
            sides = [sorted(box[name]) if name in box else range(out.shape[axis]) for axis, name in enumerate(names)]
            out[np.ix_(*sides)] = True
        return out


def _restricting(box: Box, schema: Schema) -> Box:
    return {name: cells for name, cells in box.items() if len(cells) < schema[name].size}


def _in_words(boxes: Sequence[Box], schema: Schema) -> str:
    """A text of the grammar that says the same."""
    parts = [
        " and ".join(
            cells_in_words(schema[name], [int(code in cells) for code in range(schema[name].size)])
            for name, cells in box.items()
        )
        for box in boxes
    ]
    return parts[0] if len(parts) == 1 else " or ".join(f"({part})" for part in parts)
