"""The known coefficients of tables that no view covers. Tables with the same known sets are solved together.

Here are also those of least squares among the tables that agree with an estimate (PriView section 4.3, CLN).

Tables nearest to given marginals in the largest difference (PriView section 4.3: LP on raw views, CLP here).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import QueryError
from crosstally.residuals import Estimate, rebuild
from crosstally.residuals.axes import outer_product
from crosstally.residuals.combining import by_shape

# Limits memory and time: a matrix of 18 MB, whose factor takes the cube. Beyond it conjugate gradients.
_DIRECT_CONSTRAINTS = 1_500
# Limits memory: 80 MB for the transform that holds the Hessian's entries. Beyond it conjugate gradients.
_DIRECT_CELLS = 10_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Reconstruction:
    """A table that is not negative, and by how much it misses what is known about it.

    ``relaxed`` is the largest difference, in counts, between a cell of one of the largest covered marginals and of the
    same marginal of the table: noise leaves marginals that no table without negative cells has.
    """

    values: NDArray[np.float64]
    relaxed: float


@dataclass(frozen=True, eq=False)
class Known:
    """Tables of one shape with the same coefficients covered: (tables, cells), zero where they are not.

    ``reference`` has shares of cells (tables, cells) that a model guesses; raking starts there. Without it the guess is
    a flat table, and the result that of greatest entropy.
    """

    shape: tuple[int, ...]
    covered: NDArray[np.bool_]
    coefficients: NDArray[np.float64]
    reference: NDArray[np.float64] | None = None

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """The squared length of Helmert's vectors (1, ..., 1, -j, 0, ..., 0) for each coefficient; all ones count 1."""
        return outer_product([[1] + [j * (j + 1) for j in range(1, n)] for n in self.shape])

    @cached_property
    def targets(self) -> NDArray[np.float64]:
        """The coefficients as inner products with Helmert's vectors in whole numbers, which kernels use."""
        return self.coefficients * np.sqrt(self.weights)

    @cached_property
    def subsets(self) -> tuple[int, ...]:
        """The largest covered sets of axes, as bits (axis 0 the lowest)."""
        if not self.shape:
            return (0,) if self.covered[0] else ()
        sets = self.covered.reshape(self.shape)[(slice(0, 2),) * len(self.shape)]
        largest = sets.copy()
        for axis in range(len(self.shape)):
            largest[_half(axis, 0)] &= ~sets[_half(axis, 1)]
        ndim = len(self.shape)
        return tuple(int(f"{place:0{ndim}b}"[::-1], 2) for place in np.flatnonzero(largest))

    @cached_property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """The axes, divided so that no covered set reaches from one part into another: parts are independent."""
        parts = [1 << axis for axis in range(len(self.shape))]
        for subset in self.subsets:
            joined = subset
            for part in parts:
                joined |= part if part & subset else 0
            parts = [part for part in parts if not part & joined] + ([joined] if joined else [])
        return tuple(sorted(tuple(axis for axis in range(len(self.shape)) if part >> axis & 1) for part in parts))

    def row(self, table: int) -> Known:
        """The same for one of the tables."""
        own = slice(table, table + 1)
        reference = None if self.reference is None else self.reference[own]
        return Known(self.shape, self.covered, self.coefficients[own], reference)

    def part(self, axes: Sequence[int]) -> Known:
        """The same for the marginals over some axes."""
        index = tuple(slice(None) if axis in axes else 0 for axis in range(len(self.shape)))
        covered = self.covered.reshape(self.shape)[index].ravel()
        stack = self.coefficients.reshape(-1, *self.shape)[:, *index]
        return Known(tuple(self.shape[axis] for axis in axes), covered, stack.reshape(len(stack), -1))

    def differences(self, tables: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each of these tables the largest difference in a cell of its largest covered marginals."""
        from crosstally.kernels.helmert import marginal_differences

        largest = np.zeros(len(tables))
        flat = np.ascontiguousarray(tables, np.float64).reshape(len(tables), -1)
        sizes, subsets = np.array(self.shape, np.int64), np.array(self.subsets, np.int64)
        marginal_differences(flat, self.targets, self.covered, sizes, subsets, largest)
        return largest


def _half(axis: int, side: int) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(side, side + 1))


def known_alike(estimate: Estimate, tables: Sequence[Sequence[str]]) -> Iterator[tuple[list[int], Known]]:
    """The positions of tables of one shape about which the same is known, and what is known: they share the work."""
    for shape, group in by_shape([estimate.schema.sizes(names) for names in tables]).items():
        places, found = estimate.places([tables[i] for i in group])
        stack = np.where(found, estimate.coefficients[places], 0.0) if len(estimate.keys) else np.zeros(places.shape)
        for rows in by_shape([row.tobytes() for row in np.packbits(found, axis=1)]).values():
            yield [group[row] for row in rows], Known(shape, found[rows[0]], np.ascontiguousarray(stack[rows]))


def widened(shape: Sequence[int]) -> int:
    """How many numbers the transform has that holds all products of two basis functions."""
    return math.prod(2 if n == 2 else 2 * n - 1 for n in shape)


def solve(known: Known, law: int, places: NDArray[np.intp], ridge_weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The tables without negative cells that have the coefficients at some places, nearly: (tables, cells).

    Newton's method with a matrix, or with conjugate gradients where that would be too large.
    """
    from crosstally.kernels.entropy import solve_tables
    from crosstally.kernels.helmert import product_places

    sizes = np.array(known.shape, np.int64)
    tables, ridges = np.empty(known.coefficients.shape), np.empty(len(known.coefficients))
    direct = len(places) <= _DIRECT_CONSTRAINTS and widened(known.shape) <= _DIRECT_CELLS
    products = product_places(places, sizes) if direct else np.empty((0, 0), np.int32)
    targets = np.ascontiguousarray(known.targets[:, places])
    solve_tables(law, places, sizes, products, ridge_weights, targets, tables, ridges)
    if not np.isfinite(ridges).all():
        raise QueryError("the table could not be reconstructed: what is known about it is not made of finite numbers")
    return tables


# The ridge on the total's own theta: next to none, for it has to be met; zero would leave the Hessian singular.
_TOTAL_WEIGHT = 1e-6


def linear_tables(known: Known) -> list[Reconstruction]:
    """The table of least squares for each row of coefficients, negative or not: what is not known is taken as zero."""
    tables = rebuild(known.coefficients.reshape(-1, *known.shape), len(known.shape))
    return [Reconstruction(table, 0.0) for table in tables]


def least_norm(known: Known) -> list[Reconstruction]:
    """The non-negative table of least squares for each row of coefficients.

    Unknown coefficients of zero give it at once unless a cell is negative. Then, with p = table / total over K cells,
    K |p|^2 + |M p - c|^2 / ridge is made least over p >= 0 as for maximum entropy; the total is kept.
    """
    ndim = len(known.shape)
    tables = rebuild(known.coefficients.reshape(-1, *known.shape), ndim)
    relaxed = np.zeros(len(tables))
    negative = np.flatnonzero((tables < 0).reshape(len(tables), -1).any(axis=1))
    if len(negative):
        part = Known(known.shape, known.covered, known.coefficients[negative])
        tables[negative] = _nonnegative(part).reshape(-1, *known.shape)
        relaxed[negative] = part.differences(tables[negative])
    return [Reconstruction(table, float(amount)) for table, amount in zip(tables, relaxed, strict=True)]


def _nonnegative(known: Known) -> NDArray[np.float64]:
    """The same where the flattest table has negative cells: (tables, cells), zeros where the total is not positive."""
    from crosstally.kernels.entropy import LEAST_SQUARES

    places, coefficients = np.flatnonzero(known.covered), known.coefficients
    weights = known.weights[places]
    if not known.covered[0]:
        units = np.abs(coefficients).max(axis=1, keepdims=True)
        part = solve(Known(known.shape, known.covered, coefficients / units), LEAST_SQUARES, places, weights)
        return np.asarray(part * units)
    weights[0] = _TOTAL_WEIGHT
    tables = np.zeros(coefficients.shape)
    positive = np.flatnonzero(coefficients[:, 0] > 0)
    if len(positive):
        totals = coefficients[positive, :1]
        part = solve(Known(known.shape, known.covered, coefficients[positive] / totals), LEAST_SQUARES, places, weights)
        tables[positive] = part / part.sum(axis=1, keepdims=True) * totals
    return tables


Constraint = tuple[tuple[int, ...], NDArray[np.float64]]
"""Some axes of the table, in any order, and a marginal over them with its axes in the same order."""


def least_differences(known: Known) -> list[Reconstruction]:
    """For each row of coefficients the table whose covered marginals differ least from these in the worst cell."""
    axes = [tuple(axis for axis in range(len(known.shape)) if subset >> axis & 1) for subset in known.subsets]
    parts = [known.part(own) for own in axes]
    stacks = [
        (own, rebuild(part.coefficients.reshape(-1, *part.shape), len(own)))
        for own, part in zip(axes, parts, strict=True)
        if part.covered.all()
    ]
    return [
        least_difference(known.shape, [(own, stack[i]) for own, stack in stacks])
        for i in range(len(known.coefficients))
    ]


def least_difference(shape: Sequence[int], constraints: Sequence[Constraint]) -> Reconstruction:
    """A table without negative cells whose marginals are nearest to some given ones, which need not be consistent.

    The largest difference of a cell is as small as can be; it is ``relaxed``. Of all such tables this is a vertex:
    nothing else is asked of it.

    Args:
        shape: The shape of the table.
        constraints: Axes of the table and a marginal over them, raw views for PriView's LP.

    Raises:
        QueryError: There are no constraints, or the solver gave up.
    """
    if not constraints:
        raise QueryError("a linear program needs a covered marginal, and there is none: use least-squares")
    rows = [_row_of_each_cell(shape, axes) for axes, _ in constraints]
    wanted = np.concatenate([np.asarray(marginal, np.float64).ravel() for _, marginal in constraints])
    table = _solved(math.prod(shape), rows, wanted)
    sums = np.concatenate([np.bincount(row, table) for row in rows])
    return Reconstruction(table.reshape(tuple(shape)), float(np.abs(sums - wanted).max()))


def _row_of_each_cell(shape: Sequence[int], axes: Sequence[int]) -> NDArray[np.intp]:
    """For each cell of the table the cell of a marginal that it belongs to."""
    cells = np.indices(tuple(shape)).reshape(len(shape), -1)
    row = np.zeros(math.prod(shape), np.intp)
    for axis in axes:
        row = row * shape[axis] + cells[axis]
    return row


def _solved(cells: int, rows: Sequence[NDArray[np.intp]], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    """The table that minimises the largest difference; numbers are scaled to 1, the unit of the solver's tolerances."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack, vstack

    starts = np.cumsum([0] + [int(row.max()) + 1 for row in rows[:-1]])
    place = np.concatenate([row + start for row, start in zip(rows, starts, strict=True)])
    column = np.tile(np.arange(cells), len(rows))
    sums = csr_array((np.ones(len(place)), (place, column)), shape=(len(wanted), cells))
    slack = csr_array(np.full((len(wanted), 1), -1.0))
    unit = float(np.abs(wanted).max()) or 1.0
    solved = linprog(
        np.append(np.zeros(cells), 1.0),
        A_ub=vstack([hstack([sums, slack]), hstack([-sums, slack])]),
        b_ub=np.concatenate([wanted, -wanted]) / unit,
        method="highs",
    )
    if solved.status != 0:
        raise QueryError(f"the linear program of {cells:,} cells was not solved ({solved.message}); ask for fewer")
    return np.asarray(np.maximum(solved.x[:-1], 0.0) * unit)
