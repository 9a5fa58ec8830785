"""Tables nearest to given marginals in the largest difference (PriView section 4.3: LP on raw views, CLP here)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.unmeasured.known import Known, Reconstruction, reconstruct_all
from crosstally.errors import QueryError
from crosstally.residuals import Estimate, rebuild

__all__ = ["least_difference", "least_differences", "linear_program"]

Constraint = tuple[tuple[int, ...], NDArray[np.float64]]
"""Some axes of the table, in any order, and a marginal over them with its axes in the same order."""


def linear_program(estimate: Estimate, tables: Sequence[Sequence[str]]) -> list[Reconstruction]:
    """Tables without negative cells whose covered marginals differ least from the estimate's in the worst cell."""
    return reconstruct_all(estimate, tables, least_differences)


def least_differences(known: Known) -> list[Reconstruction]:
    """The table for each row of coefficients, from its largest covered marginals."""
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
