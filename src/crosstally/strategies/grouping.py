"""Groups of strategy queries that can share one budget (ICDE 2013, section III-A, definition 3.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosstally.errors import PlanError

__all__ = ["Grouping", "greedy_groups", "has_grouping_property", "is_consistent"]

_SAME = 1e-9  # entries that differ by less are equal: rounding of the products that matrices are made by


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """The group of each row of a strategy, and the size C of the entries of each group."""

    groups: NDArray[np.intp]
    constants: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.constants)

    def sums(self, demands: ArrayLike) -> NDArray[np.float64]:
        """The sum over each group: s_i from the b_r of its rows."""
        return np.asarray(np.bincount(self.groups, np.asarray(demands, float), len(self)), float)


def greedy_groups(strategy: ArrayLike) -> Grouping:
    """A grouping, found row by row: each row joins the first group in which no row shares a cell with it.

    Raises:
        PlanError: when a row has entries of different sizes, or a group leaves cells out; then no grouping was found,
            and ``recovery.program_budgets`` solves the convex program instead.

    >>> greedy_groups([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]]).groups.tolist()
    [0, 0, 1, 1]
    """
    matrix = np.abs(np.asarray(strategy, float))
    taken: list[NDArray[np.bool_]] = []
    constants: list[float] = []
    groups = np.zeros(len(matrix), np.intp)
    for i, row in enumerate(matrix):
        constant, used = float(row.max()), row > 0
        if not constant > 0 or not np.allclose(row[used], constant, rtol=_SAME, atol=0):
            raise PlanError(f"row {i} of the strategy must have entries of one size to be grouped, and some")
        for group, cells in enumerate(taken):
            if abs(constants[group] - constant) <= _SAME * constant and not (cells & used).any():
                groups[i], taken[group] = group, cells | used
                break
        else:
            groups[i] = len(taken)
            taken.append(used)
            constants.append(constant)
    short = [group for group, cells in enumerate(taken) if not cells.all()]
    if short:
        raise PlanError(f"{len(short)} of {len(taken)} groups of the strategy do not reach all cells")
    return Grouping(groups, np.array(constants))


def has_grouping_property(strategy: ArrayLike, groups: ArrayLike) -> bool:
    """Whether rows of a group are disjoint and every cell has an entry of the same size in each group."""
    matrix, places = np.abs(np.asarray(strategy, float)), np.asarray(groups)
    for group in np.unique(places):
        part = matrix[places == group]
        largest = part.max(axis=0)
        if ((part > 0).sum(axis=0) > 1).any() or not np.allclose(largest, largest[0], rtol=_SAME, atol=0):
            return False
        if not largest[0] > 0:
            return False
    return True


def is_consistent(grouping: Grouping, demands: ArrayLike) -> bool:
    """Whether the b_r of all rows of a group are equal (definition 3.2): then group budgets are optimal."""
    demands = np.asarray(demands, float)
    means = grouping.sums(demands) / np.bincount(grouping.groups, minlength=len(grouping))
    return bool(np.allclose(demands, means[grouping.groups], rtol=1e-9, atol=1e-12 * max(1.0, float(demands.max()))))
