"""The privacy unit, and what tables of rows that have one count: some rows of each unit, or each unit once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crosstally.checks import is_whole
from crosstally.errors import SchemaError
from crosstally.schema.canonical import DATA, read_fields, read_from

PARTS = 720_720
"""In how many parts a unit is divided over its rows: the least common multiple of 1 to 16, so that up to 16 rows have
equal whole parts. With r rows at most r - 1 of the parts are left over (0.1% of a unit with 721 rows). More parts leave
less over, and fewer units fit into 64 bits."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The privacy unit: all rows that share an ``id``, with ``max_rows`` as its contribution bound.

    A ``divided`` unit counts once in each table: each of its r rows counts floor(PARTS / r) of ``PARTS``, whatever r
    is, so that none is left out and the largest it can add to a table is 1. ``from_data`` says that the bound was
    chosen by looking at the rows, which no budget covers; it does not change the protection, and units are compared
    without it.

    >>> Unit("patient", 3), Unit.counted_once("patient")
    (Unit('patient', at most 3 rows), Unit('patient', divided over its rows))
    """

    id: str
    max_rows: int
    divided: bool = field(default=False, kw_only=True)
    from_data: bool = field(default=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise SchemaError(f"unit: id must be the name of a column, got {self.id!r}")
        if not is_whole(self.max_rows, 1):
            raise SchemaError(f"unit: max_rows must be a whole number of at least 1, got {self.max_rows!r}")
        if not isinstance(self.divided, bool):
            raise SchemaError(f"unit: divided must be true or false, got {self.divided!r}")
        if self.divided and (self.max_rows != 1 or self.from_data):
            raise SchemaError("unit: one that is divided over its rows counts once, with all of them: no max_rows")

    @classmethod
    def counted_once(cls, column: str) -> Unit:
        """The units of a column of ids, each divided over its rows."""
        return cls(column, 1, divided=True)

    def __repr__(self) -> str:
        how = "divided over its rows" if self.divided else f"at most {self.max_rows:,} rows"
        return f"Unit({self.id!r}, {how})"

    def __str__(self) -> str:
        return f"each {self.id} once" if self.divided else f"at most {self.max_rows:,} of each {self.id}"

    @property
    def rows_words(self) -> str:
        """The same about rows, as a statement has it."""
        return f"{self}, divided over its rows" if self.divided else f"at most {self.max_rows:,} rows of each {self.id}"

    def to_dict(self) -> dict[str, Any]:
        """The unit as JSON."""
        return {**self.identity(), "from": DATA} if self.from_data else self.identity()

    def identity(self) -> dict[str, Any]:
        """The unit, and how its rows count."""
        return {"id": self.id, "divided": True} if self.divided else {"id": self.id, "max_rows": self.max_rows}

    @classmethod
    def from_dict(cls, given: object) -> Unit:
        """A unit from its JSON; errors name the field."""
        divided = isinstance(given, Mapping) and "divided" in given
        needed = {"id"} if divided else {"id", "max_rows"}
        fields = read_fields(given, "unit", known={"id", "max_rows", "divided", "from"}, needed=needed)
        if divided and {"max_rows", "from"} & set(fields):
            raise SchemaError("unit: one that is divided over its rows counts once, with all of them: no max_rows")
        if divided and fields["divided"] is not True:
            raise SchemaError(f"unit: divided must be true, or be left out, got {fields['divided']!r}")
        try:
            from_data = read_from(fields.get("from"))
        except SchemaError as error:
            raise SchemaError(f"unit: {error}") from None
        return cls(fields["id"], fields.get("max_rows", 1), divided=divided, from_data=from_data)
