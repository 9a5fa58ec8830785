"""Measures: numeric columns whose totals are asked for, with public bounds and a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from math import isfinite
from typing import Any, Literal, get_args

from crosstally.checks import is_number
from crosstally.errors import SchemaError, must_be_one_of
from crosstally.schema.canonical import is_unicode, read_fields, read_text

OutsideAmount = Literal["clip", "drop"]
MissingAmount = Literal["zero", "leave out"]
MOST_STEPS = 2**34
"""How many steps one row may add to a sum: then 2^28 rows (268 million) add less than 2^62, and noise fits 64 bits.
How many rows there are is confidential, so that this is refused before any is read. More steps allow fewer rows."""
_FIELDS = ("name", "lower", "upper", "step", "centre", "outside", "missing", "unit")


@dataclass(frozen=True, slots=True)
class Measure:
    """A numeric column to be summed, in whole steps between public bounds.

    A value outside the bounds is moved to the nearest one (``clip``), or left out (``drop``). A missing one counts as
    0, moved to the bounds too (``zero``), or is left out (``leave out``), then of the number that a mean is divided by,
    too. What is summed is the distance from ``centre``, a public number: noise is in proportion to the largest one.
    ``unit`` says in what values are, such as CHF.

    >>> income = Measure("income", 0, 200_000, step=100)
    >>> income.low, income.high, income.leaves_out
    (0, 2000, False)
    """

    name: str
    lower: float
    upper: float
    _: KW_ONLY
    step: float = 1
    centre: float = 0
    outside: OutsideAmount = "clip"
    missing: MissingAmount = "zero"
    unit: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or not is_unicode(self.name):
            raise SchemaError(f"measures: name must be a non-empty text, got {self.name!r}")
        where = f"measure {self.name!r}"
        for field in ("lower", "upper", "step", "centre"):
            value = getattr(self, field)
            if not is_number(value) or not isfinite(value):
                raise SchemaError(f"{where}: {field} must be a finite number, got {value!r}")
        if self.lower >= self.upper:
            raise SchemaError(f"{where}: lower must be below upper, got {self.lower} and {self.upper}")
        if self.step <= 0:
            raise SchemaError(f"{where}: step must be above 0, got {self.step}")
        for field in ("lower", "upper", "centre"):
            if self._steps(getattr(self, field)).denominator > 1:
                given = f"{getattr(self, field)} and {self.step}"
                raise SchemaError(f"{where}: {field} must be a whole number of steps, got {given}")
        if max(abs(self.low), abs(self.high), self.high - self.low) > MOST_STEPS:
            raise SchemaError(f"{where}: bounds must be at most {MOST_STEPS:,} steps from the centre; use a wider step")
        for field, known in (("outside", OutsideAmount), ("missing", MissingAmount)):
            if getattr(self, field) not in get_args(known):
                raise SchemaError(f"{where}: {must_be_one_of(field, get_args(known), getattr(self, field))}")
        read_text(self.unit, f"{where}: unit")

    def _steps(self, value: float) -> Fraction:
        return Fraction(str(value)) / Fraction(str(self.step))

    @property
    def low(self) -> int:
        """The least that a value adds to a sum, in steps."""
        return int(self._steps(self.lower) - self._steps(self.centre))

    @property
    def high(self) -> int:
        """The most."""
        return int(self._steps(self.upper) - self._steps(self.centre))

    @property
    def leaves_out(self) -> bool:
        """Whether a row may have no value."""
        return self.outside == "drop" or self.missing == "leave out"

    @property
    def bounds(self) -> str:
        """What becomes of values beyond the bounds, in words."""
        outside = "left out" if self.outside == "drop" else "moved to the nearest bound"
        return f"values beyond {self.lower:,} to {self.upper:,} are {outside}; how many is not measured"

    @property
    def size(self) -> int:
        """How many different things a row may be: each number of steps, or without a value."""
        return self.high - self.low + 2

    def identity(self) -> dict[str, Any]:
        """All that says what its sums are."""
        return {name: getattr(self, name) for name in _FIELDS if name != "unit"}

    def to_dict(self) -> dict[str, Any]:
        """The measure as JSON."""
        return self.identity() if self.unit is None else {**self.identity(), "unit": self.unit}

    @classmethod
    def from_dict(cls, given: object, where: str) -> Measure:
        """A measure from its JSON; errors name the field."""
        return cls(**read_fields(given, where, known={*_FIELDS}, needed={"name", "lower", "upper", "step"}))


def check_measures(measures: Sequence[object], *, divided: bool) -> None:
    """Raise unless these can be the measures of one schema."""
    names = [each.name for each in measures if isinstance(each, Measure)]
    if len(names) < len(measures):
        raise SchemaError("measures must be Measure objects")
    if len(set(names)) < len(names):
        raise SchemaError(f"measures must have different names, got {max(names, key=names.count)!r} twice")
    if names and divided:
        raise SchemaError("measures: a unit that is divided over its rows counts once, with no values: give max_rows")


def read_measures(given: object) -> list[Measure]:
    """Measures from their JSON."""
    if not isinstance(given, list):
        raise SchemaError(f"measures must be a list, got {type(given).__name__}")
    return [Measure.from_dict(each, f"measures[{i}]") for i, each in enumerate(given)]
