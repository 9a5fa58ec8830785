"""Linear queries of a whole table: a Kronecker product of matrices along some attributes and residuals along others.

Along an attribute of n values a matrix S has n columns: what one row of the data adds to the answer. It has

    n - 1 rows        and says, together with the total, everything: [1'; S] is invertible. Along attributes without a
                      matrix the query is then a contrast, as in ``Contrast``: it is about its own attribute set alone.
    n rows or more    of rank n, so that it says everything by itself. Along attributes without a matrix the query then
                      counts cells, as in ``Cells``.

One query has matrices of one of the two kinds. ``residuals.axes`` has the algebra.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Neighbours, Sensitivity
from crosstally.errors import PlanError, QueryError, TooManyCellsError
from crosstally.query.contrast_map import ContrastAxis
from crosstally.query.queries import Cells, Contrast, GroupMaps, Query
from crosstally.schema import Schema

__all__ = [
    "MAX_ENTRIES",
    "Kronecker",
    "Matrices",
    "Matrix",
    "all_matrices_of",
    "check_parts",
    "matrices_along",
    "matrices_of",
    "mixed_of",
    "operator_numbers",
    "read_matrices",
    "read_matrix",
]

Matrix = tuple[tuple[int, ...], ...]
"""A matrix of whole numbers, row by row."""

Matrices = tuple[tuple[str, Matrix], ...]
"""For some attributes, sorted by name, the matrix along each."""

MAX_ENTRIES = 2**20
"""Entries of one matrix: 1,024 values squared, 8 MB of numbers, seconds of linear algebra."""

_WORST_CONDITION = 1e6  # of a matrix: its Gram matrix, which is inverted, still has four digits then
_MAX_ENTRY = 2**20  # so that sums of squares of a column are exact in 64 bits
_MAX_MOVED = 2**62  # the L1 norm of a column: then differences of two columns are sums within 64 bits, too
_MAX_PAIRS = 4_000_000  # pairs of cells that are looked at for how far a replaced row moves a query: a second
_MAX_KINDS = 200_000  # kinds of such pairs whose exact whole numbers are multiplied: half a second


@dataclass(frozen=True, slots=True, init=False)
class Kronecker:
    """The answers to a Kronecker product of matrices over the table of some attributes.

    >>> query = Kronecker(("sex", "age"), {"age": [[1, 0, 0], [1, 1, 0]]})  # prefixes; with the total they say all
    >>> query.answer(np.array([[1, 2, 3], [4, 5, 6]])).tolist()
    [[-3, -6]]
    """

    attributes: tuple[str, ...]
    matrices: Matrices

    def __init__(
        self, attributes: Iterable[str], matrices: Mapping[str, Sequence[Sequence[int]]] | Matrices = ()
    ) -> None:
        object.__setattr__(self, "attributes", tuple(attributes))
        object.__setattr__(self, "matrices", read_matrices(matrices))
        if not self.matrices:
            raise QueryError("a Kronecker query must have a matrix along at least one of its attributes")
        for name, _ in self.matrices:
            if name not in self.attributes:
                raise QueryError(f"only attributes of the query can have a matrix, got {name!r}")
        if len({_is_residual(matrix) for _, matrix in self.matrices}) > 1:
            raise QueryError(
                "the matrices of one query must all have one row less than values, or all at least as many rows"
            )

    @property
    def is_residual(self) -> bool:
        """Whether it is about its own attribute set alone, as a contrast is; otherwise about all sets inside."""
        return _is_residual(self.matrices[0][1])

    @property
    def plain(self) -> Cells | Contrast:
        """The query over the same attributes that says as much about which sets, without matrices."""
        return Contrast(self.attributes) if self.is_residual else Cells(self.attributes)

    @property
    def tables(self) -> tuple[Cells, ...]:
        """The table over its attributes."""
        return (Cells(self.attributes),)

    @property
    def groups(self) -> GroupMaps:
        """None: it is about values."""
        return ()

    def shape(self, schema: Schema) -> tuple[int, ...]:
        """A number for each combination of rows of the matrices."""
        sizes = schema.sizes(self.attributes)
        maps = dict(self.matrices)
        for name, size in zip(self.attributes, sizes, strict=True):
            if name in maps and len(maps[name][0]) != size:
                raise QueryError(
                    f"the matrix along {name!r} must have a column for each of its {size:,} values, got "
                    f"{len(maps[name][0]):,}"
                )
        return tuple(axis.numbers for axis in self._axes(sizes))

    def sensitivity(self, schema: Schema, neighbours: Neighbours | str) -> Sensitivity:
        """From the columns: the largest of one row of the data, or the largest difference of two.

        Under replacement it is exact for tables of up to 2,000 cells, and for squared L2 with one matrix; otherwise it
        is twice the largest column, or its square, which is never too low.
        """
        self.shape(schema)
        axes, m = self._axes(schema.sizes(self.attributes)), schema.max_rows
        l1, l2_squared = (math.prod(numbers) for numbers in zip(*((a.l1, a.l2_squared) for a in axes), strict=True))
        if l1 >= _MAX_MOVED:
            raise QueryError(
                f"one row may move the answers of a Kronecker query by less than 2^62 in all, got {l1:,}: noise is "
                "drawn in 64 bits; use smaller entries"
            )
        if Neighbours(neighbours) == Neighbours.REPLACE:
            moved = _pair_distances(tuple(axes))
            l1, l2_squared = (max(l1, moved[0]), max(l2_squared, moved[1])) if schema.may_drop else moved
        return Sensitivity(m * l1, m**2 * l2_squared)

    def answer(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The matrices applied along their axes, whole numbers where counts are."""
        for place, axis in enumerate(self._axes(counts.shape)):
            counts = axis.apply(counts, place)
        return counts

    def along(self, schema: Schema) -> list[NDArray[np.int64]]:
        """The matrix along each attribute, also where it is a contrast or counts cells."""
        return [axis.matrix for axis in self._axes(schema.sizes(self.attributes))]

    def to_dict(self) -> dict[str, Any]:
        """The query as JSON."""
        matrices = {name: [list(row) for row in matrix] for name, matrix in self.matrices}
        return {"kronecker": list(self.attributes), "matrices": matrices}

    def _axes(self, sizes: Sequence[int]) -> list[_Axis]:
        maps = dict(self.matrices)
        return [
            _Axis.of(maps[name]) if name in maps else _plain_axis(size, self.is_residual)
            for name, size in zip(self.attributes, sizes, strict=True)
        ]


def matrices_along(query: Cells | Contrast | Kronecker, schema: Schema) -> list[NDArray[np.int64]]:
    """The matrix along each attribute of a query; of cells and contrasts their own."""
    if isinstance(query, Kronecker):
        return query.along(schema)
    return [_plain_axis(size, isinstance(query, Contrast)).matrix for size in schema.sizes(query.attributes)]


@dataclass(frozen=True, slots=True, eq=False)
class _Axis:
    """A matrix along one attribute: (numbers, values)."""

    matrix: NDArray[np.int64]

    @classmethod
    def of(cls, matrix: Matrix) -> _Axis:
        return _matrix_axis(matrix)

    @property
    def numbers(self) -> int:
        return len(self.matrix)

    @property
    def l1(self) -> int:
        return int(np.abs(self.matrix).sum(axis=0).max())

    @property
    def l2_squared(self) -> int:
        return int((self.matrix**2).sum(axis=0).max())

    def apply(self, counts: NDArray[np.int64], axis: int) -> NDArray[np.int64]:
        return np.moveaxis(np.tensordot(self.matrix, counts, axes=(1, axis)), 0, axis)


@lru_cache(maxsize=256)  # a release has few matrices for each attribute, and a thousand queries that hold them
def _matrix_axis(matrix: Matrix) -> _Axis:
    return _Axis(np.array(matrix, np.int64))


@lru_cache(maxsize=256)
def _plain_axis(size: int, residual: bool) -> _Axis:
    eye = np.arange(size)
    return _Axis(ContrastAxis(size).columns(eye) if residual else np.eye(size, dtype=np.int64))


@lru_cache(maxsize=256)
def _pair_distances(axes: tuple[_Axis, ...]) -> tuple[int, int]:
    """The largest L1 and squared L2 distance of two columns of the Kronecker product, or bounds that are not lower."""
    cells = math.prod(axis.matrix.shape[1] for axis in axes)
    l1, l2_squared = (math.prod(numbers) for numbers in zip(*((a.l1, a.l2_squared) for a in axes), strict=True))
    largest = _largest_square(axes)
    numbers = math.prod(axis.numbers for axis in axes)
    if cells**2 > _MAX_PAIRS or cells**2 * numbers > 100 * _MAX_PAIRS:
        return 2 * l1, min(4 * l2_squared, largest)
    columns = np.ones((1, 1), np.int64)
    for axis in axes:
        columns = np.kron(columns, axis.matrix)
    return max(int(np.abs(columns - each[:, None]).sum(axis=0).max()) for each in columns.T), largest


def _largest_square(axes: Sequence[_Axis]) -> int:
    """The largest squared distance |a|^2 + |b|^2 - 2 a'b of two columns: each term is a product over the axes.

    Pairs of values of an axis with the same three numbers are kept once, so that residuals have two kinds of pairs.
    """
    kinds = np.ones((1, 3), object)
    for axis in axes:
        gram = axis.matrix.T @ axis.matrix
        own = np.diagonal(gram)
        n = len(own)
        pairs = np.stack([np.repeat(own, n), np.tile(own, n), gram.ravel()], axis=1)
        pairs = np.unique(pairs, axis=0)
        if len(kinds) * len(pairs) > _MAX_KINDS:
            return 4 * math.prod(each.l2_squared for each in axes)
        kinds = (kinds[:, None, :] * pairs.astype(object)[None]).reshape(-1, 3)
    return int((kinds[:, 0] + kinds[:, 1] - 2 * kinds[:, 2]).max())


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
    whole = np.array(matrix, np.float64)
    if _is_residual(matrix):
        whole = np.vstack([np.full(whole.shape[1], max(np.abs(whole).max(), 1.0)), whole])
    return bool(np.linalg.cond(whole) < _WORST_CONDITION)


def read_matrices(given: object) -> Matrices:
    """Matrices by attribute, checked."""
    maps = dict(given) if isinstance(given, tuple) else given
    if not isinstance(maps, Mapping) or not all(isinstance(name, str) for name in maps):
        raise QueryError("matrices must map names of attributes to matrices of whole numbers")
    return tuple(sorted((name, read_matrix(matrix, name)) for name, matrix in maps.items()))


def check_parts(queries: Iterable[Query]) -> None:
    """Raise unless all sets inside the table of every Kronecker query are measured, the total among them.

    Of a table that is measured by a matrix nothing can be read without them: along the matrix there is no mean. The
    same holds for contrasts over an attribute that has a matrix elsewhere.
    """
    asked = [query for query in queries if isinstance(query, Cells | Contrast | Kronecker)]
    if not any(isinstance(query, Kronecker) for query in asked):
        return
    mixed = set(mixed_of(asked))
    measured: set[frozenset[str]] = set()
    for query in asked:
        plain = query.plain if isinstance(query, Kronecker) else query
        orders = range(len(query.attributes) + 1) if isinstance(plain, Cells) else (len(query.attributes),)
        measured.update(frozenset(part) for order in orders for part in combinations(query.attributes, order))
    for query in (each for each in asked if isinstance(each, Kronecker) or mixed.intersection(each.attributes)):
        parts = (part for order in range(len(query.attributes)) for part in combinations(query.attributes, order))
        missing = next((part for part in parts if frozenset(part) not in measured), None)
        if missing is not None:
            raise PlanError(
                f"{' x '.join(query.attributes)} is measured by a matrix, so all tables inside it must be measured "
                f"too; {' x '.join(missing) or 'the total'} is not"
            )


def matrices_of(queries: Iterable[Query]) -> Matrices:
    """The matrices of attributes that all queries measure in the same way; those of ``mixed_of`` are not among them.

    Raises:
        PlanError: Some attribute has a matrix and values are in groups somewhere: coefficients would not be
            independent.
    """
    asked = list(queries)
    if any(isinstance(query, Kronecker) for query in asked) and any(query.groups for query in asked):
        raise PlanError("a release with linear strategies cannot count values in groups")
    found = {name: ways for name, ways in _ways(asked).items() if len(ways) == 1}
    return tuple(sorted((name, matrix) for name, ways in found.items() for matrix in ways if matrix is not None))


def all_matrices_of(queries: Iterable[Query]) -> Mapping[str, tuple[Matrix, ...]]:
    """For each attribute that is measured by a matrix somewhere its matrices, in the order of the queries."""
    return {name: tuple(way for way in ways if way is not None) for name, ways in sorted(_ways(queries).items())}


def mixed_of(queries: Iterable[Query]) -> Mapping[str, tuple[Matrix, ...]]:
    """For each attribute that is measured in more than one way its matrices, in the order of the queries.

    Two matrices are two ways, and so are a matrix here and cells or contrasts there. ``residuals.mixed`` combines them.

    Raises:
        PlanError: A query holds two such attributes.
    """
    asked = list(queries)
    found = {name: ways for name, ways in _ways(asked).items() if len(ways) > 1}
    for query in asked if found else ():
        if isinstance(query, Cells | Contrast | Kronecker):
            both = [name for name in query.attributes if name in found]
            if len(both) > 1:
                raise PlanError(
                    f"{both[0]!r} and {both[1]!r} are each measured in more than one way, so no table may hold both; "
                    f"{' x '.join(query.attributes)} does"
                )
    return {name: tuple(way for way in ways if way is not None) for name, ways in sorted(found.items())}


def _ways(queries: Iterable[Query]) -> dict[str, dict[Matrix | None, None]]:
    """For each attribute that has a matrix somewhere how it is measured: its matrices, None for cells and contrasts."""
    out: dict[str, dict[Matrix | None, None]] = {}
    plain: set[str] = set()
    asked = list(queries)
    if not any(isinstance(query, Kronecker) for query in asked):
        return out
    for query in asked:
        own = dict(query.matrices) if isinstance(query, Kronecker) else {}
        for name, matrix in own.items():
            out.setdefault(name, {})[matrix] = None
        if isinstance(query, Cells | Contrast | Kronecker):
            plain.update(name for name in query.attributes if name not in own)
    for name in plain.intersection(out):
        out[name][None] = None
    return out


def operator_numbers(query: Query) -> list[int]:
    """The operator along each attribute of a query as numbers: 0 values, 1 a contrast, 2 groups, 3 a matrix.

    Groups and matrices are followed by their sizes and what they hold.

    >>> operator_numbers(Cells(("sex", "age"), {"age": [0, 0, 1]}))
    [0, 2, 3, 0, 0, 1]
    """
    groups = dict(query.groups) if isinstance(query, Cells) else {}
    matrices = dict(query.matrices) if isinstance(query, Kronecker) else {}
    out = []
    for name in query.attributes:
        if name in groups:
            out += [2, len(groups[name]), *groups[name]]
        elif name in matrices:
            rows = matrices[name]
            out += [3, len(rows), len(rows[0]), *(entry for row in rows for entry in row)]
        else:
            out.append(int(isinstance(query, Contrast) or (isinstance(query, Kronecker) and query.is_residual)))
    return out
