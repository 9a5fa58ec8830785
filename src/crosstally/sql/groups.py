"""The groups of a statement: a row for each cell of each grouping set, and how many people each holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from crosstally.questions.conditions import And, Condition
from crosstally.questions.question import Part, Question
from crosstally.schema import Schema
from crosstally.sql.numbers import Numbers
from crosstally.tables import Marginal

__all__ = ["NULL", "Groups", "Tables"]

Tables = Callable[[Sequence[tuple[str, ...]], Question | None], list[Marginal]]
"""The tables of a release over some sets of attributes, under a condition."""

NULL = -1
"""The code of an attribute that a row's grouping set does not have."""


@dataclass(slots=True, eq=False)
class Groups:
    """The rows before HAVING: ``codes`` has for each attribute the code of its value in each row, or NULL.

    Attributes have only the values that a row satisfying the condition can have. Values that nobody has are there: a
    release does not know that nobody has them.
    """

    schema: Schema
    tables: Tables
    condition: Condition | None
    sets: tuple[tuple[str, ...], ...]
    level: float
    codes: dict[str, NDArray[np.intp]] = field(init=False)
    set_numbers: NDArray[np.intp] = field(init=False)
    _counts: dict[Condition | None, Numbers] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        keys = tuple(dict.fromkeys(name for names in self.sets for name in names))
        found = self._answers(self.sets, self.condition)
        codes: dict[str, list[NDArray[np.intp]]] = {name: [] for name in keys}
        numbers, sizes = [], []
        for names, answer in zip(self.sets, found, strict=True):
            own = {} if answer is None else dict(zip(names, self._codes(answer), strict=True))
            size = int(not names) if answer is None else answer.values.size
            for name in keys:
                codes[name].append(own.get(name, np.full(size, NULL)))
            numbers.append(Numbers.exactly(0.0, size) if answer is None else self._numbers(answer))
            sizes.append(size)
        self.codes = {name: np.concatenate(parts) for name, parts in codes.items()}
        self.set_numbers = np.repeat(np.arange(len(self.sets)), sizes)
        self._counts[None] = _joined(numbers)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.set_numbers)

    def count(self, condition: Condition | None) -> Numbers:
        """The number of people in each group, or of those of them for whom a condition is true."""
        if condition not in self._counts:
            found = self._answers(self.sets, self._both(condition))
            parts = [
                self._placed(number, names, answer)
                for number, (names, answer) in enumerate(zip(self.sets, found, strict=True))
            ]
            self._counts[condition] = _joined(parts)
        return self._counts[condition]

    def count_over(self, names: tuple[str, ...], condition: Condition | None) -> Numbers:
        """The number of people in the group of each row by some of the attributes of its set alone."""
        (answer,) = self._answers((names,), self._both(condition))
        if answer is None:
            return Numbers.exactly(0.0, self.rows)
        return self._looked_up(names, answer, np.arange(self.rows))

    def _both(self, condition: Condition | None) -> Condition | None:
        """The condition of the statement, and one more."""
        both = tuple(each for each in (self.condition, condition) if each is not None)
        return And(both) if both else None

    def _answers(self, sets: Sequence[tuple[str, ...]], condition: Condition | None) -> Sequence[Marginal | None]:
        """The tables; None where no combination of values satisfies the condition."""
        if condition is None:
            return self.tables(sets, None)
        if not condition.boxes(self.schema):
            return [None] * len(sets)
        return self.tables(sets, Question((Part(1, condition),)))

    def _codes(self, answer: Marginal) -> list[NDArray[np.intp]]:
        """The codes of each attribute in the whole schema, for each cell."""
        axes = [
            np.array([self._positions(attribute.name)[label] for label in attribute.labels])
            for attribute in answer.schema.attributes
        ]
        return [grid.ravel() for grid in np.meshgrid(*axes, indexing="ij")] if axes else []

    def _positions(self, name: str) -> dict[str, int]:
        return {label: code for code, label in enumerate(self.schema[name].labels)}

    def _numbers(self, answer: Marginal) -> Numbers:
        low, high = answer.interval(self.level)
        return Numbers(answer.values.ravel(), low.ravel(), high.ravel())

    def _placed(self, number: int, names: tuple[str, ...], answer: Marginal | None) -> Numbers:
        rows = np.flatnonzero(self.set_numbers == number)
        return Numbers.exactly(0.0, len(rows)) if answer is None else self._looked_up(names, answer, rows)

    def _looked_up(self, names: tuple[str, ...], answer: Marginal, rows: NDArray[np.intp]) -> Numbers:
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
        return Numbers(*(np.where(there, each, 0.0) for each in (taken.value, taken.low, taken.high)))


def _joined(parts: Sequence[Numbers]) -> Numbers:
    columns = ([getattr(part, field) for part in parts] for field in ("value", "low", "high"))
    return Numbers(*(np.concatenate(column) for column in columns))
