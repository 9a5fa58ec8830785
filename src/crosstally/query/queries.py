"""What can be asked of a table: a product of operators along its attributes, a sparse sum of products, or a choice.

Each query knows the attributes it needs, the shape of its answer, its sensitivity, and its answer from counts.
All answers to whole counts are whole numbers, so that discrete noise is exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Neighbours, Sensitivity
from crosstally.errors import QueryError, TooManyCellsError
from crosstally.query.contrast_moves import Moves, contrast_moves, numbers_changed
from crosstally.query.operators import (
    CONTRAST,
    VALUES,
    Grouped,
    GroupMaps,
    Matrices,
    Number,
    Operator,
    by_matrix,
    read_group_maps,
    read_matrices,
)
from crosstally.query.summed import ROWS, Summed
from crosstally.schema import Schema
from crosstally.typing import Integers

MAX_CELLS = 5_000_000
"""Cells of one table, of all measured tables, of an answer: about memory, 40 MB of numbers and a few times that while
they are worked on."""
_NAMES_SHOWN = 4  # attributes of a table that an error lists: it must stay one line
_MAX_CONTRAST = 22  # attributes of one contrast: a table over 23, of two values each, has more than MAX_CELLS cells
_CELLS_A_NUMBER = 300  # see check_contrast_cells
_GROUPS, _ROWS = attrgetter("groups"), attrgetter("rows")
_IS_TABLE, _IS_SYMMETRIC, _IS_RESIDUAL = map(attrgetter, ("is_table", "is_symmetric", "is_residual"))
_ONE_CELL = np.array([0, 2])  # how far a table moves if a row does not change, and if it does: out of a cell, into one
_MAX_MOVED = 2**62  # the L1 norm of a column: then differences of two columns are sums within 64 bits, too
_MAX_PAIRS = 4_000_000  # pairs of cells examined for the sensitivity of a query to a replaced row: a second
_MAX_KINDS = 200_000  # kinds of such pairs whose exact whole numbers are multiplied: half a second


def too_many_cells(names: Sequence[str], shape: Sequence[int], advice: str) -> str:
    """The message about a table that does not fit into memory, with what to do instead.

    >>> too_many_cells(("a", "b"), (3_000, 4_000), "ask for fewer attributes")
    'the table of a x b would have 12,000,000 cells, at most 5,000,000 fit: ask for fewer attributes'
    """
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    table = " x ".join(names[:_NAMES_SHOWN]) + more
    return f"the table of {table} would have {math.prod(shape):,} cells, at most {MAX_CELLS:,} fit: {advice}"


def check_contrast_cells(cells: int, numbers: int, *, free: int) -> None:
    """Raise where contrasts are over far more cells than they have numbers: a short file would take all memory.

    A contrast over 22 attributes of two values is one number about 4 million cells. A legitimate plan asks for the
    contrasts inside it too: all contrasts of 14 such attributes are 292 cells for each number, and more do not fit.
    """
    if cells > free + _CELLS_A_NUMBER * numbers:
        raise TooManyCellsError(
            f"contrasts must be over at most {_CELLS_A_NUMBER} cells for each of their numbers (and {free:,} more), "
            f"got {cells:,} cells for {numbers:,} numbers"
        )


class Query(Protocol):
    """A question with one or more numbers as its answer. Properties are false or empty unless a subclass says more."""

    __slots__ = ()

    is_choice: ClassVar[bool] = False
    """Whether the answer is the numbers of candidates, chosen by noisy scores."""

    @property
    def picks(self) -> int:
        """How many times its sensitivity is paid for: of a choice, once for each candidate that it picks."""
        return 1

    of_units: ClassVar[bool] = False
    """Whether it counts units, not rows."""

    is_product: ClassVar[bool] = False
    """Whether it is a product of operators: such answers make tables together (``residuals``)."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes whose table answers it."""

    @property
    def is_linear(self) -> bool:
        """Whether the answer is a linear function of counts of rows, and says something about them."""
        return True

    @property
    def summed(self) -> Summed:
        """What it adds up."""
        return ROWS

    @property
    def kind(self) -> str:
        """Its kind in one word."""
        return type(self).__name__.lower()

    @property
    def along(self) -> tuple[Operator, ...]:
        """The operator along each attribute."""
        return ()

    @property
    def is_table(self) -> bool:
        """Whether it counts every row in one cell."""
        return False

    @property
    def is_residual(self) -> bool:
        """Whether it is about its own attribute set alone, as a contrast is; otherwise about all sets inside."""
        return False

    @property
    def is_symmetric(self) -> bool:
        """Whether the same query over other attributes of the same sizes is like it."""
        return False

    @property
    def groups(self) -> GroupMaps:
        """The groups in which it counts values of some attributes."""
        return ()

    @property
    def matrices(self) -> Matrices:
        """The matrices that it has along some attributes."""
        return ()

    @property
    def tables(self) -> tuple[Product, ...]:
        """The tables that must be counted to answer it."""
        return (Cells(self.attributes),)

    def over(self, attributes: tuple[str, ...]) -> Query:  # noqa: ARG002 (its own)
        """The same query over other attributes, if it is symmetric; otherwise they must be its own."""
        return self

    def matrices_along(self, schema: Schema) -> list[Integers]:
        """The matrix of each operator."""
        return [each.matrix(n) for each, n in zip(self.along, schema.sizes(self.attributes), strict=True)]

    def columns(self, cells: NDArray[np.intp], schema: Schema) -> Integers:
        """What one row adds to a product, for each of some cells (a row of values each): (numbers, cells)."""
        out = np.ones((1, len(cells)), np.int64)
        for place, (each, size) in enumerate(zip(self.along, schema.sizes(self.attributes), strict=True)):
            own = each.columns(cells[:, place], size)
            out = (out[:, None] * own).reshape(len(out) * len(own), len(cells))
        return out

    def adjoint(self, numbers: NDArray[np.float64], schema: Schema) -> NDArray[np.float64]:
        """For each cell of the table of a product what one row in it adds to the answer, times the numbers."""
        for place, (each, size) in enumerate(zip(self.along, schema.sizes(self.attributes), strict=True)):
            numbers = each.adjoint(numbers, place, size)
        return numbers

    def shape(self, schema: Schema) -> tuple[int, ...]:
        """The shape of the answer; raises unless the query fits the schema."""

    def sensitivity(self, schema: Schema, neighbours: Neighbours | str) -> Sensitivity:
        """The sensitivity: how far one unit can move the answer."""

    def worst_shifts(self, schema: Schema, neighbours: Neighbours | str) -> list[int] | None:  # noqa: ARG002
        """How far each number of the answer moves in the worst case; None where no single case is the worst."""
        return None

    def moves(self, schema: Schema) -> Moves | None:  # noqa: ARG002 (not known)
        """How far one replaced row moves the answer, where only the set of its changed attributes matters."""
        return None

    def in_parts(self, parts: int) -> Query:  # noqa: ARG002 (as large as counts are, where it is linear)
        """The same question to counts in parts of 1."""
        return self

    def answer(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The exact answer, from the counts of its table; where it has several, from all their cells in a row."""

    def to_dict(self) -> dict[str, Any]:
        """The query as JSON."""


def sensitivity_of_tables(tables: int, schema: Schema, neighbours: Neighbours | str) -> Sensitivity:
    """The joint sensitivity of this many tables to one unit.

    All its rows may be in one cell of each table, and under replacement all may move to another one:
    L1 = m w and squared L2 = m^2 w for add-remove, twice each for replace.
    """
    known = isinstance(neighbours, Neighbours)  # asked thousands of times, and a word takes longer to look up
    relation = neighbours if known else Neighbours(neighbours)
    m, moved = schema.max_rows, 1 if relation == Neighbours.ADD_REMOVE else 2
    return Sensitivity(moved * m * tables, moved * m**2 * tables)


@dataclass(frozen=True, slots=True, repr=False)
class Product(Query):
    """A sum over rows, cell by cell, of a product of operators: one along each attribute, all others summed out.

    ``Cells``, ``Contrast`` and ``Kronecker`` spell its usual forms. The answer is the Kronecker product of the
    operators' matrices times the counts of the table, and column by column what one row of the data adds to it.
    """

    attributes: tuple[str, ...] = field()
    along: tuple[Operator, ...] = field()
    summed: Summed = ROWS

    is_product: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.along.count(VALUES) == len(self.along) == len(self.attributes):
            return  # nearly always, and thousands of times for a plan
        if self.summed != ROWS and not self.is_table:
            raise QueryError("only cells can sum a measure")
        if len(self.along) != len(self.attributes):
            raise QueryError("a query must have an operator along each of its attributes")
        if len(set(map(_IS_RESIDUAL, self.along))) > 1:
            raise QueryError(
                "the matrices of one query must all have one row less than values, or all at least as many rows"
            )
        if len(self.along) > _MAX_CONTRAST and self.kind == "contrast":
            raise QueryError(f"a contrast must be over at most {_MAX_CONTRAST} attributes, got {len(self.along):,}")

    def __repr__(self) -> str:
        return f"Product({self._spelled()})"

    @property
    def kind(self) -> str:
        """Its spelling in one word."""
        return "kronecker" if self.matrices else "contrast" if self.is_residual else "cells"

    @property
    def is_linear(self) -> bool:
        """Whether it counts rows: sums of a measure are beside the counts."""
        return self.summed == ROWS

    @property
    def is_table(self) -> bool:
        """Whether all operators count every row in one cell."""
        return self.along.count(VALUES) == len(self.along) or all(map(_IS_TABLE, self.along))

    @property
    def is_residual(self) -> bool:
        """Whether its operators are; the total is not."""
        return bool(self.along) and self.along[0].is_residual

    @property
    def is_symmetric(self) -> bool:
        """Whether all operators treat values alike."""
        return self.along.count(VALUES) == len(self.along) or all(map(_IS_SYMMETRIC, self.along))

    @property
    def groups(self) -> GroupMaps:
        """See Query; by name of attribute."""
        if not any(map(_GROUPS, self.along)):
            return ()
        pairs = zip(self.attributes, map(_GROUPS, self.along), strict=True)
        return tuple(sorted((name, groups) for name, groups in pairs if groups is not None))

    @property
    def matrices(self) -> Matrices:
        """See Query; by name of attribute."""
        if not any(map(_ROWS, self.along)):
            return ()
        pairs = zip(self.attributes, map(_ROWS, self.along), strict=True)
        return tuple(sorted((name, rows) for name, rows in pairs if rows is not None))

    @property
    def tables(self) -> tuple[Product, ...]:
        """The table over its attributes, of values or of groups."""
        if self.is_table:
            return (self,)
        return (Cells(self.attributes),)

    def over(self, attributes: tuple[str, ...]) -> Product:
        """The same query over other attributes."""
        return Product(attributes, self.along, self.summed)

    def shape(self, schema: Schema) -> tuple[int, ...]:
        """The numbers of each operator."""
        out = []
        for name, each, size in zip(self.attributes, self.along, schema.sizes(self.attributes), strict=True):
            out.append(each.numbers(size, name))
        return tuple(out)

    def answer(self, counts: NDArray[Number]) -> NDArray[Number]:
        """The operators applied along their axes, whole numbers where counts are."""
        for place, each in enumerate(self.along):
            counts = each.apply(counts, place)
        return counts

    def sensitivity(self, schema: Schema, neighbours: Neighbours | str) -> Sensitivity:
        """From the columns: the largest of one row of the data, or the largest difference of two.

        Norms of a column are products over the attributes. Under replacement tables and contrasts are exact; with
        matrices up to 2,000 cells are, and squared L2 with one matrix; otherwise it is twice the largest column, or its
        square, which is never too low.
        """
        if self.summed != ROWS:
            return self.summed.sensitivity(schema, neighbours, one_cell=not self.attributes)
        if self.attributes and self.is_table:
            return sensitivity_of_tables(1, schema, neighbours)
        replaced = Neighbours(neighbours) == Neighbours.REPLACE
        self.shape(schema)
        sizes, m = schema.sizes(self.attributes), schema.max_rows
        moves = self.moves(schema) if replaced else None
        l1, l2_squared = _norms(self.along, sizes)
        if l1 >= _MAX_MOVED:
            raise QueryError(
                f"one row may move the answers of a Kronecker query by less than 2^62 in all, got {l1:,}: noise is "
                "drawn in 64 bits; use smaller entries"
            )
        if replaced and not self.attributes:  # of the total's rows all but one may vanish, or all
            change = m if schema.may_drop else m - 1
            return Sensitivity(change, change**2)
        if replaced:
            moved = _pair_distances(self.along, sizes) if moves is None else moves.largest
            l1, l2_squared = (max(l1, moved[0]), max(l2_squared, moved[1])) if schema.may_drop else moved
        return Sensitivity(m * l1, m**2 * l2_squared)

    def moves(self, schema: Schema) -> Moves | None:
        """See Query: of tables, and of contrasts along every attribute.

        A table moves by two wherever a row changes; where values are in groups at most by that.
        """
        sizes = schema.sizes(self.attributes)
        if self.is_table and self.summed == ROWS:
            return Moves(_ONE_CELL, _ONE_CELL, np.minimum(np.arange(2 ** len(sizes)), 1))
        if self.summed != ROWS or not self.is_symmetric:
            return None
        if math.prod(sizes) > MAX_CELLS:
            raise TooManyCellsError(f"a contrast must be over at most {MAX_CELLS:,} cells, got {math.prod(sizes):,}")
        return replace(contrast_moves(tuple(sorted(sizes))), places=numbers_changed(sizes))

    def worst_shifts(self, schema: Schema, neighbours: Neighbours | str) -> list[int] | None:
        """See Query: known of one row in a table, and of one row added where all columns are alike."""
        if schema.max_rows > 1 or schema.divided or self.summed != ROWS:  # shifts other than that of one row
            return None
        if self.is_table:
            return [1] * self.sensitivity(schema, neighbours).l1
        if self.is_symmetric and Neighbours(neighbours) == Neighbours.ADD_REMOVE:
            column = self.columns(np.zeros((1, len(self.attributes)), np.intp), schema)
            return [shift for shift in np.abs(column).ravel().tolist() if shift]
        return None

    def to_dict(self) -> dict[str, Any]:
        """The query as JSON; raises if an operator has none, so that it is not mistaken for a different one."""
        for name, operator in zip(self.attributes, self.along, strict=True):
            if operator.groups is None and operator.rows is None and operator not in (VALUES, CONTRAST):
                raise QueryError(f"the operator along {name!r} has no JSON: give it groups, or rows of a matrix")
        return self._spelled()

    def _spelled(self) -> dict[str, Any]:
        out: dict[str, Any] = {self.kind: list(self.attributes)}
        if self.groups:
            out["groups"] = {name: list(groups) for name, groups in self.groups}
        if self.matrices:
            out["matrices"] = {name: [list(row) for row in matrix] for name, matrix in self.matrices}
        return out if self.summed == ROWS else {**out, **self.summed.to_dict()}


def Cells(  # noqa: N802
    attributes: Iterable[str], groups: Mapping[str, Iterable[int]] | GroupMaps = (), summed: Summed = ROWS
) -> Product:
    """The counts of the table over some attributes; over none, the number of rows. Or the sums of a measure instead.

    ``groups`` may map the values of some of these attributes to groups, at least two: for each value the number of its
    group. Such a table counts groups instead of values. Every value is in one group, so that a row is still in one cell
    and one row moves it as far as any table.

    >>> Cells(("sex", "age"), {"age": [0, 0, 1, 1, 1]})
    Product({'cells': ['sex', 'age'], 'groups': {'age': [0, 0, 1, 1, 1]}})
    """
    names = tuple(attributes)
    if not groups:
        return Product(names, (VALUES,) * len(names), summed)
    maps = dict(read_group_maps(groups))
    for name in maps:
        if name not in names:
            raise QueryError(f"only attributes of the table can have groups, got {name!r}")
    return Product(names, tuple(Grouped(groups=maps[name]) if name in maps else VALUES for name in names), summed)


def Contrast(attributes: Iterable[str]) -> Product:  # noqa: N802
    """The residual of a table: its information beyond all tables over fewer of its attributes, on whole numbers.

    Scaled and put back in place it is the centred table R_B of ``residuals``.
    """
    names = tuple(attributes)
    if not names:
        raise QueryError("a contrast must be over at least one attribute; the total is Cells(())")
    return Product(names, (CONTRAST,) * len(names))


def Kronecker(  # noqa: N802
    attributes: Iterable[str], matrices: Mapping[str, Sequence[Sequence[int]]] | Matrices = ()
) -> Product:
    """The answers to a Kronecker product of matrices over the table of some attributes.

    Matrices of one query all have n - 1 rows, or all n or more. Along attributes without one it is then a contrast, or
    counts cells.

    >>> query = Kronecker(("sex", "age"), {"age": [[1, 0, 0], [1, 1, 0]]})  # prefixes; with the total they say all
    >>> query.answer(np.array([[1, 2, 3], [4, 5, 6]])).tolist()
    [[-3, -6]]
    """
    names, maps = tuple(attributes), {name: by_matrix(matrix) for name, matrix in read_matrices(matrices)}
    if not maps:
        raise QueryError("a Kronecker query must have a matrix along at least one of its attributes")
    for name in maps:
        if name not in names:
            raise QueryError(f"only attributes of the query can have a matrix, got {name!r}")
    others = CONTRAST if next(iter(maps.values())).is_residual else VALUES
    return Product(names, tuple(maps.get(name, others) for name in names))


def _norms(along: Sequence[Operator], sizes: Sequence[int]) -> tuple[int, int]:
    """The largest L1 and squared L2 norm of a column of the Kronecker product."""
    l1 = l2_squared = 1
    for each, n in zip(along, sizes, strict=True):
        l1, l2_squared = l1 * each.l1(n), l2_squared * each.l2_squared(n)
    return l1, l2_squared


@lru_cache(maxsize=256)
def _pair_distances(along: tuple[Operator, ...], sizes: tuple[int, ...]) -> tuple[int, int]:
    """The largest L1 and squared L2 distance of two columns of the Kronecker product, or bounds that are not lower."""
    cells, numbers = math.prod(sizes), math.prod(each.numbers(n) for each, n in zip(along, sizes, strict=True))
    l1, l2_squared = _norms(along, sizes)
    matrices = [each.matrix(n) for each, n in zip(along, sizes, strict=True)]
    largest = _largest_square(matrices)
    largest = 4 * l2_squared if largest is None else largest
    if cells**2 > _MAX_PAIRS or cells**2 * numbers > 100 * _MAX_PAIRS:
        return 2 * l1, min(4 * l2_squared, largest)
    columns = np.ones((1, 1), np.int64)
    for matrix in matrices:
        columns = np.kron(columns, matrix)
    return max(int(np.abs(columns - each[:, None]).sum(axis=0).max()) for each in columns.T), largest


def _largest_square(matrices: Sequence[Integers]) -> int | None:
    """The largest squared distance |a|^2 + |b|^2 - 2 a'b of two columns: each term is a product over the axes.

    Pairs of values of an axis with the same three numbers are kept once, so that residuals have two kinds of pairs.
    None where there are too many kinds.
    """
    kinds = np.ones((1, 3), object)
    for matrix in matrices:
        gram = matrix.T @ matrix
        own = np.diagonal(gram)
        n = len(own)
        pairs = np.unique(np.stack([np.repeat(own, n), np.tile(own, n), gram.ravel()], axis=1), axis=0)
        if len(kinds) * len(pairs) > _MAX_KINDS:
            return None
        kinds = (kinds[:, None, :] * pairs.astype(object)[None]).reshape(-1, 3)
    return int((kinds[:, 0] + kinds[:, 1] - 2 * kinds[:, 2]).max())
