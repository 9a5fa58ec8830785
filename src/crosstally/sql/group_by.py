"""The groups of a statement: a row for each cell of each grouping set, and how many people each holds.

Columns of numbers vary together: they rest on the same noise. A count has the interval of its table. What is computed
from counts is computed in every joint draw too, and its interval is that of the draws (``answers.uncertainty``), so a
share in SQL is as sure as the same share of ``Marginal.shares``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.changes import Change, in_a_row
from crosstally.answers.joint_draws import Joint, side_by_side
from crosstally.answers.marginal import Marginal
from crosstally.answers.uncertainty import Ends, drawn_ends
from crosstally.query.conditions import And, Condition
from crosstally.query.question import Part, Question
from crosstally.schema import Schema
from crosstally.typing import Floats


@dataclass(frozen=True, slots=True, eq=False)
class SqlNumbers:
    """A column: a value for each row, NaN for NULL; ``joint`` has its draws, and is None for numbers that are exact.

    ``ends`` are those of its intervals where they are known beforehand: of counts, and of exact numbers. ``least`` and
    ``most`` say where the truth can be. ``undrawn`` counts are not exact and have no draws (values in groups, tables
    without an error): what is computed from them has no interval.
    """

    value: Floats
    joint: Joint | None = None
    ends: Ends | None = None
    least: float = -np.inf
    most: float = np.inf
    undrawn: bool = False

    @classmethod
    def exactly(cls, value: float | Floats, rows: int) -> SqlNumbers:
        """Numbers that are known."""
        column = np.broadcast_to(np.asarray(value, np.float64), (rows,))
        return cls(column, ends=(column, column))

    @classmethod
    def without_interval(cls, value: Floats) -> SqlNumbers:
        """Numbers of whose error nothing is known."""
        return cls(value, ends=(np.full(value.shape, np.nan),) * 2, undrawn=True)

    def interval(self, level: float) -> Ends:
        """The ends of the interval of each number; NaN where an end is not known."""
        if self.ends is not None:
            return self.ends
        assert self.joint is not None  # what is not exact has draws
        low, high = drawn_ends(self.joint.draws, self.value, level, within=(self.least, self.most))
        return np.where(np.isinf(low), np.nan, low), np.where(np.isinf(high), np.nan, high)

    def take(self, rows: NDArray[np.intp]) -> SqlNumbers:
        """Some of the rows."""
        ends = None if self.ends is None else (self.ends[0][rows], self.ends[1][rows])
        return replace(self, value=self.value[rows], joint=_changed(self.joint, in_a_row(rows)), ends=ends)

    def within(self, least: float, most: float) -> SqlNumbers:
        """The same where it is known that no true number is below or above these."""
        return replace(self, least=least, most=most)

    def __neg__(self) -> SqlNumbers:
        return SqlNumbers.exactly(0.0, len(self.value)) - self

    def __add__(self, other: SqlNumbers) -> SqlNumbers:
        return self._with(other, np.add)

    def __sub__(self, other: SqlNumbers) -> SqlNumbers:
        return self._with(other, np.subtract)

    def __mul__(self, other: SqlNumbers) -> SqlNumbers:
        return self._with(other, np.multiply)

    def __truediv__(self, other: SqlNumbers) -> SqlNumbers:
        """The ratio; NULL where the divisor is zero."""
        found = self._with(other, np.divide)
        return replace(found, value=np.where(other.value == 0, np.nan, found.value))

    def changed(self, function: Callable[[Floats], Floats]) -> SqlNumbers:
        """Each number changed by a function that never falls."""
        ends = None if self.ends is None else (function(self.ends[0]), function(self.ends[1]))
        return replace(self, value=function(self.value), joint=_changed(self.joint, Change(function)), ends=ends)

    def _with(self, other: SqlNumbers, operation: np.ufunc) -> SqlNumbers:
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.asarray(operation(self.value, other.value))
        if self.undrawn or other.undrawn:
            return SqlNumbers.without_interval(value)
        if self.joint is None and other.joint is None:
            return SqlNumbers.exactly(value, len(value))
        if self.joint is None or other.joint is None:
            known, drawn = (self.value, other.joint) if self.joint is None else (other.value, self.joint)
            assert drawn is not None
            order = (known, None) if self.joint is None else (None, known)
            return SqlNumbers(value, drawn.changed(Change(partial(_beside_exact, operation, order))))
        return SqlNumbers(value, self.joint.combined(other.joint, operation, ((0,), (0,)), ndim=1))


def _beside_exact(operation: np.ufunc, order: tuple[Floats | None, Floats | None], stack: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(operation(*(stack if each is None else each for each in order)))


def _changed(joint: Joint | None, change: Change) -> Joint | None:
    return None if joint is None else joint.changed(change)


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
        cells = np.arange(answer.values.size)
        joint = _changed(answer.joint, in_a_row(cells))
        ends = low.ravel(), high.ravel()
        return SqlNumbers(np.round(answer.values.ravel(), DIGITS), joint, ends, undrawn=joint is None)

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
        return numbers.take(found).changed(partial(_where_there, there))


def _where_there(there: NDArray[np.bool_], column: Floats) -> Floats:
    return np.where(there, column, 0.0)


def _joined(parts: Sequence[SqlNumbers]) -> SqlNumbers:
    """Columns one below the other; none of them was computed yet."""
    ends = [part.ends for part in parts if part.ends is not None]
    low, high = (np.concatenate(column) for column in zip(*ends, strict=True))
    undrawn = any(part.undrawn for part in parts)
    joint = None if undrawn else _one_below_the_other([(part.joint, len(part.value)) for part in parts])
    return SqlNumbers(np.concatenate([part.value for part in parts]), joint, (low, high), undrawn=undrawn)


def _one_below_the_other(parts: Sequence[tuple[Joint | None, int]]) -> Joint | None:
    """Tables of one axis one below the other; those without draws are zeros of this length."""
    known = [joint for joint, _ in parts if joint is not None]
    if not known:
        return None
    sources = known[0].sources
    return Joint(sources, partial(_drawn_below, tuple(parts)), replicates=all(joint.replicates for joint in known))


def _drawn_below(parts: Sequence[tuple[Joint | None, int]]) -> Floats:
    stacks = iter(side_by_side([joint for joint, _ in parts if joint is not None]))
    drawn = [None if joint is None else next(stacks) for joint, _ in parts]
    rows = next(len(stack) for stack in drawn if stack is not None)
    pieces = zip(drawn, parts, strict=True)
    return np.concatenate([np.zeros((rows, size)) if own is None else own for own, (_, size) in pieces], axis=1)
