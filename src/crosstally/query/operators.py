"""What a query does along one attribute: the operators of which it is a product.

An operator along an attribute of n values is a matrix of whole numbers with n columns: column v is what one row of the
data whose value is v adds to the answer. Everything else follows from that matrix, and ``Operator`` derives it; the
operators below have closed forms, so that no matrix of a large attribute is written out.

    values      I: a number for each value
    groups      a number for each group of values, every value in one group
    contrast    n > 2: n I - J (J all ones), how far each value's count is from the mean, times n;
                n = 2: (1, -1), a single number, since the two rows of 2 I - J say the same
    matrix      any S of rank n, or of n - 1 rows such that [1'; S] is invertible

Contrasts and matrices of n - 1 rows are *residual*: they say nothing about the total, so that a product of them is
about its own set of attributes alone.
"""
# ruff: noqa: ARG002 (some operators need no size, and some no axis)

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import QueryError, TooManyCellsError
from crosstally.typing import Integers

Number = TypeVar("Number", np.int64, np.float64)

GroupMaps = tuple[tuple[str, tuple[int, ...]], ...]
"""For some attributes, sorted by name, the group of each of their values: whole numbers from 0 on, none left out."""

Matrix = tuple[tuple[int, ...], ...]
"""A matrix of whole numbers, row by row."""

Matrices = tuple[tuple[str, Matrix], ...]
"""For some attributes, sorted by name, the matrix along each."""

MAX_ENTRIES = 2**20
"""Entries of one matrix: 1,024 values squared, 8 MB of numbers, seconds of linear algebra."""

_WORST_CONDITION = 1e6  # of a matrix: its Gram matrix, which is inverted, still has four digits then
_MAX_ENTRY = 2**20  # so that sums of squares of a column are exact in 64 bits
_MAX_WHOLE = 2**31  # in size: with up to 2^31 rows sums stay within int64
_NO_MAP = "groups must map names of attributes to the group of each of their values"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operator:
    """Along an attribute: the matrix, and what follows from it. ``size`` is the number of the attribute's values.

    ``groups`` is the group of each value where cells of groups are counted, not of values. ``rows`` is the matrix that
    was given for this attribute, if its basis follows from that (``residuals.axes``). ``is_residual`` says whether it
    tells nothing about the total.
    """

    groups: tuple[int, ...] | None = None
    rows: Matrix | None = None
    is_residual: bool = False

    is_symmetric: ClassVar[bool] = False
    """Whether it treats all values alike: then only their number matters, and all columns have the same norms."""

    is_table: ClassVar[bool] = False
    """Whether it counts every row in one cell."""

    @property
    def code(self) -> list[int]:
        """The operator as numbers, from which the seeds of replicates are made: never change one."""
        raise NotImplementedError  # each operator has its own: two with one code would share a seed

    def matrix(self, size: int) -> Integers:
        """The matrix: (numbers, values)."""
        raise NotImplementedError  # this is what an operator is; all else follows from it

    def numbers(self, size: int, name: str = "") -> int:
        """How many rows the matrix has; raises unless it fits an attribute, of this name, with so many values."""
        return len(self.matrix(size))

    def l1(self, size: int) -> int:
        """The largest L1 norm of a column."""
        return int(np.abs(self.matrix(size)).sum(axis=0).max())

    def l2_squared(self, size: int) -> int:
        """The largest squared L2 norm of a column."""
        return int((self.matrix(size) ** 2).sum(axis=0).max())

    def columns(self, values: NDArray[np.intp], size: int) -> Integers:
        """The columns of some values, side by side: (numbers, values)."""
        return np.asarray(self.matrix(size)[:, values])

    def apply(self, counts: NDArray[Number], axis: int) -> NDArray[Number]:
        """The matrix times counts along an axis, which stays even where one number is left."""
        matrix = self.matrix(counts.shape[axis])
        return np.moveaxis(np.tensordot(matrix, counts, axes=(1, axis)), 0, axis)

    def adjoint(self, numbers: NDArray[Number], axis: int, size: int) -> NDArray[Number]:
        """The transposed matrix times numbers along an axis: one for each value."""
        return np.moveaxis(np.tensordot(self.matrix(size).T, numbers, axes=(1, axis)), 0, axis)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EachValue(Operator):
    """A number for each value. There is one such object, ``VALUES``, so that thousands of queries compare fast."""

    is_symmetric: ClassVar[bool] = True
    is_table: ClassVar[bool] = True

    def __reduce__(self) -> str:
        return "VALUES"

    @property
    def code(self) -> list[int]:
        """See Operator."""
        return [0]

    def matrix(self, size: int) -> Integers:
        """The unit matrix."""
        return np.eye(size, dtype=np.int64)

    def numbers(self, size: int, name: str = "") -> int:
        """One for each value."""
        return size

    def l1(self, size: int) -> int:
        """A row is in one cell."""
        return 1

    l2_squared = l1

    def columns(self, values: NDArray[np.intp], size: int) -> Integers:
        """A single one in each."""
        return np.asarray(np.arange(size)[:, None] == values, np.int64)

    def apply(self, counts: NDArray[Number], axis: int) -> NDArray[Number]:
        """The counts as they are."""
        return counts

    def adjoint(self, numbers: NDArray[Number], axis: int, size: int) -> NDArray[Number]:
        """The numbers as they are."""
        return numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped(Operator):
    """A number for each group of values. Tables are counted in groups, so that there is nothing to apply to them."""

    groups: tuple[int, ...]

    is_table: ClassVar[bool] = True

    @property
    def code(self) -> list[int]:
        """See Operator."""
        return [2, len(self.groups), *self.groups]

    def matrix(self, size: int) -> Integers:
        """A single one in each column."""
        return np.asarray(np.arange(self.numbers(size))[:, None] == np.array(self.groups), np.int64)

    def numbers(self, size: int, name: str = "") -> int:
        """One for each group."""
        if len(self.groups) != size:
            raise QueryError(f"the groups of {name!r} must be those of its {size:,} values, got {len(self.groups):,}")
        return max(self.groups) + 1

    def apply(self, counts: NDArray[Number], axis: int) -> NDArray[Number]:
        """The counts of groups as they are."""
        return counts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contrasted(Operator):
    """M = n I - J, or (1, -1) along two values: this class alone tells the two apart. ``CONTRAST`` is its one object.

    Divided by ``squared_scale``, M' M is the matrix that centres.

    >>> [(CONTRAST.numbers(n), CONTRAST.l1(n), CONTRAST.l2_squared(n), CONTRAST.squared_scale(n)) for n in (2, 3)]
    [(1, 1, 1, 2), (3, 4, 6, 9)]
    """

    is_residual: bool = True

    is_symmetric: ClassVar[bool] = True

    def __reduce__(self) -> str:
        return "CONTRAST"

    @property
    def code(self) -> list[int]:
        """See Operator."""
        return [1]

    def matrix(self, size: int) -> Integers:
        """The columns of all values."""
        return self.columns(np.arange(size), size)

    def numbers(self, size: int, name: str = "") -> int:
        """One for each value; a single one of two."""
        return 1 if size == 2 else size

    def l1(self, size: int) -> int:
        """The L1 norm of each column: n - 1 for the value itself and 1 for each other one."""
        return 1 if size == 2 else 2 * (size - 1)

    def l2_squared(self, size: int) -> int:
        """The squared L2 norm of each column: (n - 1)^2 + n - 1."""
        return 1 if size == 2 else size * (size - 1)

    def inner(self, size: int) -> int:
        """The inner product of two different columns."""
        return -1 if size == 2 else -size

    def squared_scale(self, size: int) -> int:
        """The variance of the answer's noise over that of the coefficients that it gives.

        For a unit vector h with sum zero |M h|^2 = n^2; with two values h = (1, -1) / sqrt(2), and M h = sqrt(2).
        """
        return 2 if size == 2 else size**2

    def pairs(self, size: int) -> tuple[tuple[int, int, int], ...]:
        """For two different columns a and b: each pair of entries (a_i, b_i), and in how many rows it stands."""
        n = size
        return ((1, -1, 1),) if n == 2 else ((n - 1, -1, 1), (-1, n - 1, 1), (-1, -1, n - 2))

    def columns(self, values: NDArray[np.intp], size: int) -> Integers:
        """See Operator."""
        if size == 2:
            return 1 - 2 * np.asarray(values, np.int64)[None, :]
        return np.asarray(size * (np.arange(size)[:, None] == values) - 1, np.int64)

    def apply(self, counts: NDArray[Number], axis: int) -> NDArray[Number]:
        """See Operator."""
        size, total = counts.shape[axis], counts.sum(axis=axis, keepdims=True)
        return np.asarray(2 * counts.take([0], axis) - total if size == 2 else size * counts - total)

    def adjoint(self, numbers: NDArray[Number], axis: int, size: int) -> NDArray[Number]:
        """See Operator."""
        if size == 2:
            return np.concatenate([numbers, -numbers], axis)
        return np.asarray(size * numbers - numbers.sum(axis=axis, keepdims=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class ByMatrix(Operator):
    """A matrix of whole numbers, checked by ``read_matrix``; ``by_matrix`` makes it."""

    rows: Matrix

    @property
    def code(self) -> list[int]:
        """See Operator."""
        return [3, len(self.rows), len(self.rows[0]), *(entry for row in self.rows for entry in row)]

    def numbers(self, size: int, name: str = "") -> int:
        """One for each row."""
        if len(self.rows[0]) != size:
            raise QueryError(
                f"the matrix along {name!r} must have a column for each of its {size:,} values, got "
                f"{len(self.rows[0]):,}"
            )
        return len(self.rows)

    def matrix(self, size: int) -> Integers:
        """See Operator."""
        return _as_array(self.rows)


def by_matrix(rows: Matrix) -> ByMatrix:
    """The operator of a matrix that was read: a residual one if it has one row less than values."""
    return ByMatrix(rows=rows, is_residual=_is_residual(rows))


VALUES, CONTRAST = EachValue(), Contrasted()


@lru_cache(maxsize=256)  # a release has few matrices for each attribute, and a thousand queries that hold them
def _as_array(matrix: Matrix) -> Integers:
    return np.array(matrix, np.int64)


def contrast_variance(sizes: Iterable[int]) -> float:
    """The variance of a residual's coefficients for each unit of variance of the noise of its contrast."""
    return math.prod(1 / CONTRAST.squared_scale(n) for n in sizes)


# Reading what was given


def whole(number: object, what: str) -> int:
    """A whole number below 2^31 in size, checked."""
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or abs(int(number)) >= _MAX_WHOLE:
        raise QueryError(f"{what} must be a whole number below 2^31, got {number!r}")
    return int(number)


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
            numbers = tuple(whole(each, f"each group of {name!r}") for each in numbers)
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


def _is_residual(matrix: Matrix) -> bool:
    return len(matrix) == len(matrix[0]) - 1


def read_matrix(given: object, name: str) -> Matrix:
    """A matrix of whole numbers along an attribute, checked; its rank too."""
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if not isinstance(given, list | tuple) or not given or not all(isinstance(row, list | tuple) for row in given):
        raise QueryError(f"the matrix along {name!r} must be a list of rows of whole numbers")
    matrix, columns = tuple(map(tuple, given)), len(given[0])
    if columns < 2 or any(len(row) != columns for row in matrix):
        raise QueryError(f"the rows of the matrix along {name!r} must be equally long, and at least two numbers")
    if len(matrix) * columns > MAX_ENTRIES:
        raise TooManyCellsError(
            f"the matrix along {name!r} must have at most {MAX_ENTRIES:,} entries, got {len(matrix):,} x {columns:,}"
        )
    if {type(entry) for row in matrix for entry in row} != {int} or not all(
        abs(entry) <= _MAX_ENTRY for row in matrix for entry in row
    ):
        raise QueryError(f"the matrix along {name!r} must hold whole numbers of at most {_MAX_ENTRY:,} in size")
    if len(matrix) < columns - 1:
        raise QueryError(
            f"the matrix along {name!r} must have at least {columns - 1:,} rows, one less than values, got "
            f"{len(matrix):,}: fewer cannot say every cell"
        )
    if not _says_every_cell(matrix):
        raise QueryError(
            f"the matrix along {name!r} must say every cell, with the total where it has one row less than values; "
            "some combination of cells is in none of its rows"
        )
    return matrix


@lru_cache(maxsize=256)
def _says_every_cell(matrix: Matrix) -> bool:
    """Whether it has full rank, with the total where it has one row less than columns; no numbers are lost then."""
    entries = np.array(matrix, np.float64)
    if _is_residual(matrix):
        entries = np.vstack([np.full(entries.shape[1], max(np.abs(entries).max(), 1.0)), entries])
    return bool(np.linalg.cond(entries) < _WORST_CONDITION)


def read_matrices(given: object) -> Matrices:
    """Matrices by attribute, checked."""
    maps = dict(given) if isinstance(given, tuple) else given
    if not isinstance(maps, Mapping) or not all(isinstance(name, str) for name in maps):
        raise QueryError("matrices must map names of attributes to matrices of whole numbers")
    return tuple(sorted((name, read_matrix(matrix, name)) for name, matrix in maps.items()))
