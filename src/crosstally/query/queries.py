"""What can be asked of a table: its cells, a contrast of them, or a linear query in product form.

Each query knows the attributes it needs, the shape of its answer, its sensitivity, and its answer from counts.
All answers to whole counts are whole numbers, so that discrete noise is exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Neighbours, Sensitivity
from crosstally.errors import QueryError, TooManyCellsError
from crosstally.query.contrast_map import ContrastMap
from crosstally.query.contrast_moves import ContrastMoves, contrast_moves
from crosstally.schema import Schema

__all__ = [
    "MAX_CELLS",
    "Cells",
    "Contrast",
    "GroupMaps",
    "Linear",
    "Query",
    "Term",
    "check_contrast_cells",
    "read_group_maps",
    "sensitivity_of_tables",
    "too_many_cells",
]

MAX_CELLS = 5_000_000
"""Cells of one table, of all measured tables, of an answer: about memory, 40 MB of numbers and a few times that while
they are worked on."""
_NAMES_SHOWN = 4  # attributes of a table that an error lists: it must stay one line
_MAX_CONTRAST = 22  # attributes of one contrast: a table over 23, of two values each, has more than MAX_CELLS cells
_CELLS_A_NUMBER = 300  # see check_contrast_cells
_MAX_FACTOR = 2**31  # in size: with up to 2^31 rows sums stay within int64
_MAX_TERMS = 2**22  # so that their sum is exact in doubles
_NO_MAP = "groups must map names of attributes to the group of each of their values"

GroupMaps = tuple[tuple[str, tuple[int, ...]], ...]
"""For some attributes, sorted by name, the group of each of their values: whole numbers from 0 on, none left out."""


def too_many_cells(names: Sequence[str], shape: Sequence[int], advice: str) -> str:
    """What to say about a table that does not fit into memory, and what to do instead.

    >>> too_many_cells(("a", "b"), (3_000, 4_000), "ask for fewer attributes")
    'the table of a x b would have 12,000,000 cells, at most 5,000,000 fit: ask for fewer attributes'
    """
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    table = " x ".join(names[:_NAMES_SHOWN]) + more
    return f"the table of {table} would have {math.prod(shape):,} cells, at most {MAX_CELLS:,} fit: {advice}"


def check_contrast_cells(cells: int, numbers: int, *, free: int) -> None:
    """Raise where contrasts are over far more cells than they have numbers: a short file would take all memory.

    A contrast over 22 attributes of two values is one number about 4 million cells. Whoever asks for that asks for the
    contrasts inside it too: all contrasts of 14 such attributes are 292 cells for each number, and more do not fit.
    """
    if cells > free + _CELLS_A_NUMBER * numbers:
        raise TooManyCellsError(
            f"contrasts must be over at most {_CELLS_A_NUMBER} cells for each of their numbers (and {free:,} more), "
            f"got {cells:,} cells for {numbers:,} numbers"
        )


class Query(Protocol):
    """A question with one or more numbers as its answer."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes whose table answers it."""

    @property
    def groups(self) -> GroupMaps:
        """The groups in which it counts values of some attributes."""

    @property
    def tables(self) -> tuple[Cells, ...]:
        """The tables that must be counted to answer it."""

    def shape(self, schema: Schema) -> tuple[int, ...]:
        """The shape of the answer."""

    def sensitivity(self, schema: Schema, neighbours: Neighbours | str) -> Sensitivity:
        """How far one unit can move the answer."""

    def answer(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The exact answer, from the counts of its table; where it has several, from all their cells in a row."""

    def to_dict(self) -> dict[str, Any]:
        """The query as JSON."""


def sensitivity_of_tables(tables: int, schema: Schema, neighbours: Neighbours | str) -> Sensitivity:
    """How far one unit can move this many tables together.

    All its rows may sit in one cell of each table, and under replacement all may move to another one:
    L1 = m w and squared L2 = m^2 w for add-remove, twice each for replace.
    """
    m, moved = schema.max_rows, 1 if Neighbours(neighbours) == Neighbours.ADD_REMOVE else 2
    return Sensitivity(moved * m * tables, moved * m**2 * tables)


@dataclass(frozen=True, slots=True, init=False)
class Cells:
    """The counts of the table over some attributes; over none, the number of rows.

    ``groups`` may map the values of some of these attributes to groups, at least two: for each value the number of its
    group. Such a table counts groups instead of values. Every value is in one group, so that a row is still in one cell
    and one row moves it as far as any table.

    >>> Cells(("sex", "age"), {"age": [0, 0, 1, 1, 1]})
    Cells(attributes=('sex', 'age'), groups=(('age', (0, 0, 1, 1, 1)),))
    """

    attributes: tuple[str, ...]
    groups: GroupMaps

    def __init__(self, attributes: Iterable[str], groups: Mapping[str, Iterable[int]] | GroupMaps = ()) -> None:
        object.__setattr__(self, "attributes", tuple(attributes))
        object.__setattr__(self, "groups", read_group_maps(groups) if groups else ())
        for name, _ in self.groups:
            if name not in self.attributes:
                raise QueryError(f"only attributes of the table can have groups, got {name!r}")

    @property
    def tables(self) -> tuple[Cells, ...]:
        """The table itself."""
        return (self,)

    def shape(self, schema: Schema) -> tuple[int, ...]:
        """One cell for each combination of values, or of groups of values."""
        sizes = schema.sizes(self.attributes)
        if not self.groups:
            return sizes
        maps = dict(self.groups)
        for name, size in zip(self.attributes, sizes, strict=True):
            if name in maps and len(maps[name]) != size:
                raise QueryError(
                    f"the groups of {name!r} must be those of its {size:,} values, got {len(maps[name]):,}"
                )
        return tuple(
            max(maps[name]) + 1 if name in maps else size for name, size in zip(self.attributes, sizes, strict=True)
        )

    def sensitivity(self, schema: Schema, neighbours: Neighbours | str) -> Sensitivity:
        """All rows in one cell; under replacement they move to another. The total has no other cell to move to."""
        if self.attributes or Neighbours(neighbours) == Neighbours.ADD_REMOVE:
            return sensitivity_of_tables(1, schema, neighbours)
        change = schema.max_rows if schema.may_drop else schema.max_rows - 1
        return Sensitivity(change, change**2)

    def answer(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The counts as they are."""
        return counts

    def to_dict(self) -> dict[str, Any]:
        """The query as JSON."""
        groups = {"groups": {name: list(groups) for name, groups in self.groups}} if self.groups else {}
        return {"cells": list(self.attributes), **groups}


@dataclass(frozen=True, slots=True)
class Contrast:
    """The residual of a table: what it says beyond all tables over fewer of its attributes, on whole numbers.

    Along an attribute of n values it applies n I - J (J all ones), along one of two values the difference first minus
    second: ``map`` knows all that follows from this. Scaled and put back in place it is the centred table R_B of
    ``residuals``.
    """

    attributes: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(self.attributes))
        if not self.attributes:
            raise QueryError("a contrast must be over at least one attribute; the total is Cells(())")
        if len(self.attributes) > _MAX_CONTRAST:
            raise QueryError(
                f"a contrast must be over at most {_MAX_CONTRAST} attributes, got {len(self.attributes):,}"
            )

    @property
    def tables(self) -> tuple[Cells, ...]:
        """The table over its attributes."""
        return (Cells(self.attributes),)

    @property
    def groups(self) -> GroupMaps:
        """None: it is about values."""
        return ()

    def map(self, schema: Schema) -> ContrastMap:
        """The linear map from the counts of its table to its answer."""
        return ContrastMap(schema.sizes(self.attributes))

    def shape(self, schema: Schema) -> tuple[int, ...]:
        """One number for each combination of values; attributes of two values have one."""
        return self.map(schema).shape

    def sensitivity(self, schema: Schema, neighbours: Neighbours | str) -> Sensitivity:
        """Exact, from the columns of the tensor product: one row's, or the difference of two rows'."""
        own, m = self.map(schema), schema.max_rows
        l1, l2_squared = own.l1, own.l2_squared
        if Neighbours(neighbours) == Neighbours.REPLACE:
            moves = self.moves(schema)
            l1, l2_squared = int(moves.l1.max()), int(moves.squared.max())
        return Sensitivity(m * l1, m**2 * l2_squared)

    def moves(self, schema: Schema) -> ContrastMoves:
        """How far one row moves the answer when it is replaced, for each number of changed attributes of each size."""
        sizes = schema.sizes(self.attributes)
        if math.prod(sizes) > MAX_CELLS:
            raise TooManyCellsError(f"a contrast must be over at most {MAX_CELLS:,} cells, got {math.prod(sizes):,}")
        return contrast_moves(tuple(sorted(sizes)))

    def answer(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The integer contrast of the counts."""
        return ContrastMap(counts.shape).apply(counts)

    def to_dict(self) -> dict[str, Any]:
        """The query as JSON."""
        return {"contrast": list(self.attributes)}


@dataclass(frozen=True, slots=True)
class Term:
    """A weight times a product of factors: for each attribute named, a whole number for each of its values."""

    weight: int
    factors: tuple[tuple[str, tuple[int, ...]], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", _whole(self.weight, "weight"))
        read = ((name, tuple(_whole(f, f"the factor of {name!r}") for f in values)) for name, values in self.factors)
        object.__setattr__(self, "factors", tuple(sorted(read)))
        if len(set(dict(self.factors))) < len(self.factors):
            raise QueryError("a term must name each attribute once")


def _whole(number: object, what: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or abs(int(number)) >= _MAX_FACTOR:
        raise QueryError(f"{what} must be a whole number below 2^31, got {number!r}")
    return int(number)


@dataclass(frozen=True, slots=True)
class Linear:
    """One number: the sum over all rows of a sum of terms in product form (weights and factors whole numbers)."""

    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", tuple(self.terms))
        if not 1 <= len(self.terms) < _MAX_TERMS:
            raise QueryError(f"a linear query must have at least one term and fewer than {_MAX_TERMS:,}")

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that some term names."""
        return tuple(sorted({name for term in self.terms for name, _ in term.factors}))

    @property
    def tables(self) -> tuple[Cells, ...]:
        """The table over its attributes."""
        return (Cells(self.attributes),)

    @property
    def groups(self) -> GroupMaps:
        """None: it is about values."""
        return ()

    def shape(self, schema: Schema) -> tuple[int, ...]:
        """A single number; raises unless its factors fit the schema and its values the limits."""
        self._check(schema)
        return ()

    def row_values(self, schema: Schema) -> NDArray[np.int64]:
        """What one row adds, for each combination of the values of ``attributes``."""
        return self._row_values(self._check(schema))

    def _check(self, schema: Schema) -> tuple[int, ...]:
        sizes = schema.sizes(self.attributes)
        if math.prod(sizes) > MAX_CELLS:
            raise TooManyCellsError(
                f"a linear query must be over at most {MAX_CELLS:,} cells, got {math.prod(sizes):,}"
            )
        for term in self.terms:
            for name, factor in term.factors:
                if len(factor) != schema[name].size:
                    raise QueryError(f"the factor of {name!r} must have {schema[name].size} numbers, got {len(factor)}")
            if abs(term.weight) * math.prod(max(map(abs, factor)) for _, factor in term.factors) >= _MAX_FACTOR:
                raise QueryError("each term must stay below 2^31 for every row")
        return sizes

    def _row_values(self, sizes: tuple[int, ...]) -> NDArray[np.int64]:
        """The sum over terms of outer products, as one product of matrices: the first attributes by the others.

        Doubles are exact here: what a term adds is a whole number below 2^31, and a query has fewer than 2^22 terms.
        """
        half = next(i for i in range(len(sizes) + 1) if math.prod(sizes[:i]) ** 2 >= math.prod(sizes))
        first, others = self._products(sizes, range(half)), self._products(sizes, range(half, len(sizes)))
        weights = np.array([term.weight for term in self.terms], np.float64)
        return np.asarray((first * weights[:, None]).T @ others).astype(np.int64).reshape(sizes)

    def _products(self, sizes: tuple[int, ...], axes: range) -> NDArray[np.float64]:
        """For each term the product of its factors, for each combination of the values of some attributes."""
        out = np.ones((len(self.terms), 1))
        factors = [dict(term.factors) for term in self.terms]
        for axis in axes:
            name = self.attributes[axis]
            own = np.array([each.get(name, (1,) * sizes[axis]) for each in factors], np.float64)
            out = (out[:, :, None] * own[:, None, :]).reshape(len(self.terms), -1)
        return out

    def sensitivity(self, schema: Schema, neighbours: Neighbours | str) -> Sensitivity:
        """The most rows times the largest value of a row, or under replacement the widest gap between two units."""
        values, m = self.row_values(schema), schema.max_rows
        low, high = int(values.min()), int(values.max())
        if Neighbours(neighbours) == Neighbours.ADD_REMOVE:
            change = m * max(abs(low), abs(high))
        elif schema.may_drop:
            change = m * (max(high, 0) - min(low, 0))
        else:
            change = high - low
        return Sensitivity(change, change**2)

    def answer(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sum over all rows; counts are over ``attributes`` in their order."""
        return np.asarray((self._row_values(counts.shape) * counts).sum(dtype=np.int64))

    def to_dict(self) -> dict[str, Any]:
        """The query as JSON."""
        terms = [{"weight": t.weight, "factors": {name: list(f) for name, f in t.factors}} for t in self.terms]
        return {"linear": terms}


def read_group_maps(given: object) -> GroupMaps:
    """Maps from values to groups, checked."""
    maps = dict(given) if isinstance(given, tuple) else given
    if not isinstance(maps, Mapping):
        raise QueryError(_NO_MAP)
    out = {}
    for name, groups in maps.items():
        if not isinstance(name, str) or isinstance(groups, str) or not isinstance(groups, Iterable):
            raise QueryError(_NO_MAP)
        numbers = tuple(groups)
        if set(map(type, numbers)) != {int}:
            numbers = tuple(_whole(each, f"each group of {name!r}") for each in numbers)
        out[name] = _group_map(name, numbers)
    return tuple(sorted(out.items()))


@lru_cache(maxsize=2048)  # a release has one map for each attribute, and a thousand tables that hold it
def _group_map(name: str, groups: tuple[int, ...]) -> tuple[int, ...]:
    used = set(groups)
    if len(used) < 2 or used != set(range(len(used))):
        raise QueryError(
            f"the groups of {name!r} must be at least two, numbered from 0 without a gap, got {len(used):,} numbers"
        )
    return groups
