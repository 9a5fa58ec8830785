"""The non-negative table nearest to noisy numbers (Barak et al. 2007, sections 3.2, 4.1 and 4.2).

Targets are noisy coefficients (contrasts), noisy marginals (cells) or both; the distance is the largest or the total
difference. The program has a variable for each cell of the full table, but a solution at a vertex has at most as many
non-zero cells as there are independent numbers in the targets. So it is solved with a few columns; ``pricing`` finds
those that would improve it, and when there is none, the solution is optimal for all cells.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import CrosstallyError, QueryError
from crosstally.inference.integers.cell_columns import CellColumns, ScoreTable, Target
from crosstally.inference.integers.pricing import (
    MAX_LISTED,
    best_listed,
    best_proved,
    first_cells,
    local_search,
    scores_of,
)
from crosstally.schema import Schema
from crosstally.typing import Floats

Objective = Literal["largest", "total"]

# Cells: a table this small starts with all of them, and needs no search. Chosen: a program of 512 columns is quick.
_LISTED_AT_ONCE = 512
# Random cells from which a search starts. Chosen; fewer find fewer columns a round, and change no proved optimum.
_STARTS = 200
# A score, or a gap in proportion to the distance, below this counts as zero: it is the solver's tolerance.
# A larger one would accept tables that are not optimal; a smaller one would search for cells created by rounding.
_TOLERANCE = 1e-9
_ZERO = 1e-9  # weights below this are the solver's rounding, and their cells are dropped


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FittedTable:
    """A sparse non-negative table over the full domain, and how far it is from its targets.

    ``cells`` has a row for each non-zero cell, with the position of its value for each attribute. No table has a
    distance below ``bound``: it is optimal when that is equal to ``distance``.
    """

    schema: Schema
    cells: NDArray[np.intp]
    weights: Floats
    _: KW_ONLY
    distance: float
    bound: float

    def __repr__(self) -> str:
        return f"FittedTable({len(self.weights):,} cells, distance {self.distance:.6g}, gap {self.gap:.3g})"

    @property
    def gap(self) -> float:
        """How much nearer a different table might be; zero up to rounding if this one is proved optimal."""
        return max(0.0, self.distance - self.bound)


def nearest_table(
    schema: Schema,
    targets: Sequence[Target],
    *,
    objective: Objective = "largest",
    total: float | None = None,
    time_limit: float = 60.0,
) -> FittedTable:
    """The non-negative table over all attributes whose answers are nearest to the targets.

    Args:
        schema: The attributes of the full table.
        targets: The targets. Coefficients give the program of section 3.2, marginals that of 4.2.
        objective: The largest difference to a target's number, or the total of all differences (section 4.1).
        total: The number of rows, where the table must have it exactly.
        time_limit: Seconds after which the best table so far is returned, with the gap that was proved until then.

    Raises:
        CrosstallyError: when no table at all was found in time, or the solver failed.
    """
    if objective not in ("largest", "total"):
        raise QueryError(f"objective must be largest or total, got {objective!r}")
    if total is not None and not 0 <= total < math.inf:
        raise QueryError(f"total must be a number of at least 0, got {total}")
    if not 0 < time_limit < math.inf:
        raise QueryError(f"time_limit must be a positive number of seconds, got {time_limit}")
    columns = CellColumns(schema, targets)
    return _generate(columns, objective, total, time.monotonic() + time_limit)


def _generate(columns: CellColumns, objective: Objective, total: float | None, deadline: float) -> FittedTable:
    """Column generation: solve with some cells, add those with positive scores, until none has one."""
    shape = columns.schema.shape
    random = np.random.default_rng(0)  # the same cells are tried every time: answers do not change from run to run
    cells = _first_cells(columns, random)
    bound = 0.0
    solved: _Solved | None = None
    while True:
        found = _solve(columns, cells, objective=objective, total=total, deadline=deadline)
        if found is None and solved is not None:
            break
        solved = _in_time(found)
        tables = columns.score_tables(solved.multipliers)
        better, largest = _improving(tables, solved, random=random, shape=shape, deadline=deadline)
        most = _most_rows(columns, objective, total, solved.distance)
        if largest < math.inf and most < math.inf:
            bound = max(bound, solved.distance - max(0.0, largest) * most)
        proved = solved.distance - bound <= _TOLERANCE * max(1.0, solved.distance)
        known = set(map(tuple, cells.tolist()))
        better = columns.possible(better[[tuple(cell) not in known for cell in better.tolist()]])
        if proved or not len(better) or time.monotonic() > deadline:
            break
        near = np.argsort(-scores_of(tables, cells), kind="stable")[: 2 * len(columns.values)]
        cells = np.unique(np.concatenate([solved.cells, cells[near], better]), axis=0)
    return FittedTable(
        columns.schema, solved.cells, solved.weights, distance=solved.distance, bound=min(bound, solved.distance)
    )


def _first_cells(columns: CellColumns, random: np.random.Generator) -> NDArray[np.intp]:
    shape = columns.schema.shape
    if math.prod(shape) > _LISTED_AT_ONCE:
        return first_cells(columns, random, 16)
    listed = np.stack(np.unravel_index(np.arange(math.prod(shape)), tuple(shape)), axis=1).astype(np.intp)
    possible = columns.possible(listed)
    return possible if len(possible) else first_cells(columns, random, 1)  # which raises


def _improving(
    tables: Sequence[ScoreTable],
    solved: _Solved,
    *,
    shape: Sequence[int],
    random: np.random.Generator,
    deadline: float,
) -> tuple[NDArray[np.intp], float]:
    """Cells whose columns improve the solution, and a number that no cell's score exceeds (infinite if unknown).

    Local search finds many that differ. Only when it finds none, all cells are enumerated, or the remaining time is
    spent on a proof that there is none.
    """
    number, offset = max(32, len(solved.multipliers) // 2), solved.total_multiplier
    starts = np.stack([random.integers(0, n, _STARTS) for n in shape], axis=1).astype(np.intp)
    found, largest = local_search(tables, shape, np.concatenate([starts, solved.cells])), math.inf
    if not (scores_of(tables, found) + offset > _TOLERANCE).any():
        if math.prod(shape) <= MAX_LISTED:
            found, largest = best_listed(tables, shape, number)
        else:
            best, largest = best_proved(tables, shape, deadline - time.monotonic())
            found = found[:0] if best is None else best[None]
        largest += offset
    scores = scores_of(tables, found) + offset
    order = np.argsort(-scores, kind="stable")[:number]
    return found[order[scores[order] > _TOLERANCE]], largest


def _most_rows(columns: CellColumns, objective: Objective, total: float | None, distance: float) -> float:
    """A number that the total of an optimal table does not exceed."""
    if total is not None:
        return total
    most = math.inf
    for target in columns.targets:
        if target.query.is_table:
            slack = distance * (target.values.size if objective == "largest" else 1)
            most = min(most, max(0.0, float(target.values.sum()) + slack))
    return most


# The program with some of its columns


@dataclass(frozen=True, slots=True, eq=False)
class _Solved:
    """A vertex: its cells and weights, the distance, and the multipliers by which other cells are scored."""

    cells: NDArray[np.intp]
    weights: Floats
    _: KW_ONLY
    distance: float
    multipliers: Floats
    total_multiplier: float


def _solve(
    columns: CellColumns, cells: NDArray[np.intp], *, objective: Objective, total: float | None, deadline: float
) -> _Solved | None:
    """The solution for these cells, or None when time ran out."""
    from scipy.optimize import linprog

    program = _largest_program if objective == "largest" else _total_program
    costs, inequalities, limits, equalities, equal = program(columns.of(cells), columns.values, total)
    found = linprog(
        costs,
        A_ub=inequalities,
        b_ub=limits,
        A_eq=equalities,
        b_eq=equal,
        bounds=(0, None),
        method="highs-ds",
        options={
            "time_limit": max(deadline - time.monotonic(), 0.001),
            "primal_feasibility_tolerance": 1e-9,
            "dual_feasibility_tolerance": 1e-9,
        },
    )
    if found.status == 1:
        return None
    _check_status(found.status)
    numbers, weights = len(columns.values), np.asarray(found.x[: len(cells)])
    if objective == "largest":
        multipliers = found.ineqlin.marginals[:numbers] - found.ineqlin.marginals[numbers:]
    else:
        multipliers = found.eqlin.marginals[:numbers]
    offset = float(found.eqlin.marginals[-1]) if total is not None else 0.0
    used = weights > _ZERO
    return _Solved(
        cells[used],
        weights[used],
        distance=float(found.fun),
        multipliers=np.asarray(multipliers),
        total_multiplier=offset,
    )


def _in_time(solved: _Solved | None) -> _Solved:
    if solved is None:
        raise CrosstallyError("the linear program did not finish in time; give it more time, or name fewer tables")
    return solved


def _check_status(status: int) -> None:
    """Raise unless the solver says that its solution is optimal."""
    if status == 2:
        raise CrosstallyError("the linear program has no solution: no non-negative table has this total")
    if status != 0:
        raise CrosstallyError("the linear program could not be solved; name fewer tables, or coarser attributes")


def _largest_program(answers: Floats, values: Floats, total: float | None) -> tuple[Any, ...]:
    """Variables: a weight for each cell, and the largest difference, which is minimised."""
    from scipy.sparse import csc_array

    numbers, cells = answers.shape
    slack = np.ones((numbers, 1))
    inequalities = csc_array(np.block([[answers, -slack], [-answers, -slack]]))
    equalities = None if total is None else np.append(np.ones(cells), 0.0)[None]
    costs = np.append(np.zeros(cells), 1.0)
    return costs, inequalities, np.concatenate([values, -values]), equalities, None if total is None else [total]


def _total_program(answers: Floats, values: Floats, total: float | None) -> tuple[Any, ...]:
    """Variables: a weight for each cell, and for each number how far the answer is below and above it."""
    from scipy.sparse import csc_array, eye_array, hstack, vstack

    numbers, cells = answers.shape
    equalities = hstack([csc_array(answers), eye_array(numbers), -eye_array(numbers)], format="csc")
    costs = np.concatenate([np.zeros(cells), np.ones(2 * numbers)])
    if total is not None:
        last = csc_array(np.append(np.ones(cells), np.zeros(2 * numbers))[None])
        equalities, values = vstack([equalities, last], format="csc"), np.append(values, total)
    return costs, None, None, equalities, values


# Whole numbers


def round_with_total(weights: Floats, total: int) -> NDArray[np.int64]:
    """Integers with this total, none of which differs by more than one from its weight.

    Weights are rounded down, and those with the largest remainders up. The weights' own total must be within one half
    of the one given, up to rounding.

    >>> round_with_total(np.array([1.5, 2.25, 0.25]), 4)
    array([2, 2, 0])
    """
    floors = np.floor(weights + 1e-7)
    missing = round(total - float(floors.sum()))
    if not -len(weights) <= missing <= len(weights):
        raise QueryError(
            f"the weights add up to {float(weights.sum()):.6g}, too far from {total:,} to be rounded to it"
        )
    order = np.argsort(-(weights - floors), kind="stable")
    out = floors.astype(np.int64)
    if missing >= 0:
        out[order[:missing]] += 1
    else:
        for i in [i for i in order[::-1] if out[i] > 0][:-missing]:
            out[i] -= 1
    return out
