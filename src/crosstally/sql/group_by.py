"""The groups of a statement: a row for each cell of each grouping set, and how many people each holds.

SqlNumbers with the ends of their intervals, and arithmetic on them.

Ends are combined as the operation's least and greatest values over the intervals of its operands. For a sum, a
difference or a ratio this is never too narrow: the deviation of a sum is at most the sum of the deviations, whatever
the correlation. It is too wide where errors cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.marginal import Marginal
from crosstally.query.conditions import And, Condition
from crosstally.query.question import Part, Question
from crosstally.schema import Schema
from crosstally.typing import Floats


@dataclass(frozen=True, slots=True, eq=False)
class SqlNumbers:
    """A column: a value for each row, and the ends of its interval; NaN is NULL, or an end that is not known."""

    value: Floats
    low: Floats
    high: Floats

    @classmethod
    def exactly(cls, value: float | Floats, rows: int) -> SqlNumbers:
        """Numbers that are known."""
        column = np.broadcast_to(np.asarray(value, np.float64), (rows,))
        return cls(column, column, column)

    def take(self, rows: NDArray[np.intp]) -> SqlNumbers:
        """Some of the rows."""
        return SqlNumbers(self.value[rows], self.low[rows], self.high[rows])

    def holding_value(self) -> SqlNumbers:
        """Intervals stretched to hold the value."""
        return SqlNumbers(self.value, np.minimum(self.low, self.value), np.maximum(self.high, self.value))

    def within(self, least: float, most: float) -> SqlNumbers:
        """The same where it is known that no true number is below or above these; ends not known become these."""
        low, high = np.nan_to_num(self.low, nan=least), np.nan_to_num(self.high, nan=most)
        return SqlNumbers(self.value, np.clip(low, least, most), np.clip(high, least, most))

    def __neg__(self) -> SqlNumbers:
        return SqlNumbers(-self.value, -self.high, -self.low)

    def __add__(self, other: SqlNumbers) -> SqlNumbers:
        return SqlNumbers(self.value + other.value, self.low + other.low, self.high + other.high)

    def __sub__(self, other: SqlNumbers) -> SqlNumbers:
        return self + -other

    def __mul__(self, other: SqlNumbers) -> SqlNumbers:
        return self._extremes(other, np.multiply)

    def __truediv__(self, other: SqlNumbers) -> SqlNumbers:
        """The ratio; NULL where the divisor is zero, and without an end where it may be."""
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(other.value == 0, np.nan, self.value / other.value)
            out = self._extremes(other, np.divide)
        may_be_zero = (other.low <= 0) & (other.high >= 0)
        # a count over what may be nobody: at least its least value over the most, and nobody knows how much more
        least = np.where(
            (self.low >= 0) & (other.low >= 0) & (other.high > 0), self.low / _positive(other.high), np.nan
        )
        return SqlNumbers(value, np.where(may_be_zero, least, out.low), np.where(may_be_zero, np.nan, out.high))

    def changed(self, function: Callable[[Floats], Floats]) -> SqlNumbers:
        """Each number changed by a function that never falls."""
        return SqlNumbers(function(self.value), function(self.low), function(self.high))

    def _extremes(self, other: SqlNumbers, operation: Callable[[Floats, Floats], Floats]) -> SqlNumbers:
        corners = [operation(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        return SqlNumbers(operation(self.value, other.value), np.min(corners, axis=0), np.max(corners, axis=0))


def _positive(numbers: Floats) -> Floats:
    return np.where(numbers > 0, numbers, np.nan)


Tables = Callable[[Sequence[tuple[str, ...]], Question | None], list[Marginal]]
"""The tables of a release over some sets of attributes, under a condition."""

DIGITS = 9
"""Behind the point; more are dust of floating point, by which counts that are equal would differ."""

NULL = -1
"""The code of an attribute that a row's grouping set does not have."""


@dataclass(frozen=True, slots=True)
class _Block:
    """Rows that one table answers: its attributes, a condition that CASEs add, and the codes of these."""

    names: tuple[str, ...]
    condition: Condition | None
    cases: Mapping[str, int]


@dataclass(slots=True, eq=False)
class GroupBy:
    """The rows before HAVING: ``codes`` has for each key the code of its value in each row, or NULL.

    Keys are attributes and ``cases``: labels with the conditions under which rows get them.

    Attributes have only the values that a row satisfying the condition can have. Values that nobody has are there: a
    release does not know that nobody has them.
    """

    schema: Schema
    tables: Tables
    condition: Condition | None
    sets: tuple[tuple[str, ...], ...]
    level: float
    cases: Mapping[str, Mapping[str | None, Condition]] = field(default_factory=dict)
    codes: dict[str, NDArray[np.intp]] = field(init=False)
    _blocks: list[_Block] = field(init=False)
    _block_numbers: NDArray[np.intp] = field(init=False)
    _counts: dict[Condition | None, SqlNumbers] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        keys = tuple(dict.fromkeys(name for names in self.sets for name in names))
        self._blocks = [block for names in self.sets for block in self._blocks_of(names)]
        codes: dict[str, list[NDArray[np.intp]]] = {name: [] for name in keys}
        numbers, sizes = [], []
        for block, answer in zip(self._blocks, self._answers(self._blocks, None), strict=True):
            own = {} if answer is None else dict(zip(block.names, self._codes(answer), strict=True))
            size = int(not block.names and not block.cases) if answer is None else answer.values.size
            for name in keys:
                codes[name].append(own.get(name, np.full(size, block.cases.get(name, NULL))))
            numbers.append(SqlNumbers.exactly(0.0, size) if answer is None else self._numbers(answer))
            sizes.append(size)
        self.codes = {name: np.concatenate(parts) for name, parts in codes.items()}
        self._block_numbers = np.repeat(np.arange(len(self._blocks)), sizes)
        self._counts[None] = _joined(numbers)

    def _blocks_of(self, names: tuple[str, ...]) -> Iterator[_Block]:
        """The blocks of a grouping set: one for each combination of the branches of its CASEs."""
        cases = [name for name in names if name in self.cases]
        plain = tuple(name for name in names if name not in self.cases)
        for chosen in product(*(enumerate(self.cases[name].values()) for name in cases)):
            conditions = tuple(condition for _, condition in chosen)
            codes = {name: code for name, (code, _) in zip(cases, chosen, strict=True)}
            yield _Block(plain, And(conditions) if conditions else None, codes)

    def labels_of(self, name: str) -> list[str | None]:
        """The label of each code of a key; the last one, which NULL finds, is None."""
        own = self.cases[name] if name in self.cases else self.schema[name].labels
        return [*own, None]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self._block_numbers)

    def count(self, condition: Condition | None) -> SqlNumbers:
        """The number of people in each group, or of those of them for whom a condition is true."""
        if condition not in self._counts:
            found = self._answers(self._blocks, condition)
            parts = [
                self._placed(number, block.names, answer)
                for number, (block, answer) in enumerate(zip(self._blocks, found, strict=True))
            ]
            self._counts[condition] = _joined(parts)
        return self._counts[condition]

    def count_over(self, names: tuple[str, ...], condition: Condition | None) -> SqlNumbers:
        """The number of people in the group of each row by some of the attributes of its set alone."""
        (answer,) = self._answers([_Block(names, None, {})], condition)
        if answer is None:
            return SqlNumbers.exactly(0.0, self.rows)
        return self._looked_up(names, answer, np.arange(self.rows))

    def _answers(self, blocks: Sequence[_Block], condition: Condition | None) -> list[Marginal | None]:
        """The table of each block under one condition more; None where no combination of values satisfies all."""
        out: list[Marginal | None] = [None] * len(blocks)
        alike: dict[Condition | None, list[int]] = {}
        for number, block in enumerate(blocks):
            alike.setdefault(block.condition, []).append(number)
        for own, numbers in alike.items():
            all_of = tuple(each for each in (self.condition, own, condition) if each is not None)
            if all_of and not And(all_of).boxes(self.schema):
                continue
            names = [blocks[number].names for number in numbers]
            found = self.tables(names, Question((Part(1, And(all_of)),)) if all_of else None)
            for number, answer in zip(numbers, found, strict=True):
                out[number] = answer
        return out

    def _codes(self, answer: Marginal) -> list[NDArray[np.intp]]:
        """The codes of each attribute in the whole schema, for each cell."""
        axes = [
            np.array([self._positions(attribute.name)[label] for label in attribute.labels])
            for attribute in answer.schema.attributes
        ]
        return [grid.ravel() for grid in np.meshgrid(*axes, indexing="ij")] if axes else []

    def _positions(self, name: str) -> dict[str, int]:
        return {label: code for code, label in enumerate(self.schema[name].labels)}

    def _numbers(self, answer: Marginal) -> SqlNumbers:
        low, high = answer.interval(self.level)
        return SqlNumbers(np.round(answer.values.ravel(), DIGITS), low.ravel(), high.ravel())

    def _placed(self, number: int, names: tuple[str, ...], answer: Marginal | None) -> SqlNumbers:
        rows = np.flatnonzero(self._block_numbers == number)
        return SqlNumbers.exactly(0.0, len(rows)) if answer is None else self._looked_up(names, answer, rows)

    def _looked_up(self, names: tuple[str, ...], answer: Marginal, rows: NDArray[np.intp]) -> SqlNumbers:
        """The numbers of a table for the groups of some rows; zero for values that the table does not have."""
        found, numbers = np.zeros(len(rows), np.intp), self._numbers(answer)
        there = np.ones(len(rows), np.bool_)
        for name, attribute in zip(names, answer.schema.attributes, strict=True):
            places = np.full(self.schema[name].size, -1)
            places[[self._positions(name)[label] for label in attribute.labels]] = np.arange(attribute.size)
            own = places[self.codes[name][rows]]
            there &= own >= 0
            found = found * attribute.size + np.maximum(own, 0)
        taken = numbers.take(found)
        return SqlNumbers(*(np.where(there, each, 0.0) for each in (taken.value, taken.low, taken.high)))


def _joined(parts: Sequence[SqlNumbers]) -> SqlNumbers:
    columns = ([getattr(part, field) for part in parts] for field in ("value", "low", "high"))
    return SqlNumbers(*(np.concatenate(column) for column in columns))
