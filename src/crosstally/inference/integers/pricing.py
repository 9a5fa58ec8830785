"""Find cells with large scores: by enumeration if the table is small, else by local search and a mixed-integer program.

The score of a cell is a sum of small tables over its values. Up to a few million cells, the largest score is found by
enumerating all scores. Beyond, it is a quadratic (or higher) binary program, which is NP-hard: local search
from many starts finds good cells, and a mixed-integer program proves, in the time given, how good the best one can be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import QueryError
from crosstally.inference.integers.cell_columns import CellColumns, ScoreTable
from crosstally.typing import Floats

MAX_LISTED = 2**22  # limits memory: 32 MB of scores. Larger tables are searched, and proved by an integer program
# A limit: sweeps end when no cell moves. Fewer may miss better cells, which costs a later round and no proof.
_SWEEPS = 30

Cells = NDArray[np.intp]


def scores_of(tables: Sequence[ScoreTable], cells: Cells) -> Floats:
    """The scores of some cells."""
    out = np.zeros(len(cells))
    for table in tables:
        out += table.values[tuple(cells[:, position] for position in table.positions)]
    return out


def all_scores(tables: Sequence[ScoreTable], shape: Sequence[int]) -> Floats:
    """The scores of all cells, in the shape of the full table.

    Attributes are added one after the other, each with the tables whose last attribute it is: most sums have few cells.
    """
    out = np.full((), sum(float(table.values) for table in tables if not table.positions), float)
    for last, size in enumerate(shape):
        out = np.repeat(out[..., None], size, axis=-1)
        for table in tables:
            if table.positions and table.positions[-1] == last:
                sizes = dict(zip(table.positions, table.values.shape, strict=True))
                out += table.values.reshape([sizes.get(i, 1) for i in range(last + 1)])
    return out


def best_listed(tables: Sequence[ScoreTable], shape: Sequence[int], number: int) -> tuple[Cells, float]:
    """The cells with the largest scores and the largest score, by enumerating all scores."""
    scores = all_scores(tables, shape).ravel()
    number = min(number, len(scores))
    best = np.argpartition(scores, len(scores) - number)[len(scores) - number :]
    return np.stack(np.unravel_index(best, tuple(shape)), axis=1).astype(np.intp), float(scores[best].max())


def first_cells(columns: CellColumns, random: np.random.Generator, number: int) -> Cells:
    """Random cells to begin with, without structural zeros; raises where no cell is found that is none."""
    shape = columns.schema.shape
    starts = np.stack([random.integers(0, n, number) for n in shape], axis=1).astype(np.intp)
    cells, tables = columns.possible(starts), columns.score_tables(np.zeros(len(columns.values)))
    if not len(cells):
        cells = columns.possible(local_search(tables, shape, starts))
    if not len(cells) and math.prod(shape) <= MAX_LISTED:
        cells = columns.possible(best_listed(tables, shape, 1)[0])
    if not len(cells):
        raise QueryError(
            "whole numbers need a cell that can hold rows: the schema calls all that were tried impossible"
        )
    return cells


def local_search(tables: Sequence[ScoreTable], shape: Sequence[int], starts: Cells) -> Cells:
    """Cells from which no change of a single value gives a larger score, reached from the starts."""
    holding: list[list[ScoreTable]] = [[t for t in tables if i in t.positions] for i in range(len(shape))]
    cells = starts.copy()
    for _ in range(_SWEEPS):
        before = cells.copy()
        for attribute, held in enumerate(holding):
            if held:
                cells[:, attribute] = _scores_along(held, attribute, cells, shape[attribute]).argmax(axis=1)
        if np.array_equal(before, cells):
            break
    return np.unique(cells, axis=0)


def _scores_along(tables: Sequence[ScoreTable], attribute: int, cells: Cells, size: int) -> Floats:
    """For each cell and each value of one attribute the score that its tables then have."""
    out = np.zeros((len(cells), size))
    for table in tables:
        axis = table.positions.index(attribute)
        lines = np.moveaxis(table.values, axis, -1)
        others = [position for position in table.positions if position != attribute]
        out += lines[tuple(cells[:, position] for position in others)]
    return out


def best_proved(
    tables: Sequence[ScoreTable], shape: Sequence[int], time_limit: float
) -> tuple[NDArray[np.intp] | None, float]:
    """The best cell found by a mixed-integer program, and a number that no cell's score exceeds.

    Each attribute chooses one value; each table chooses one of its cells, in agreement with its attributes.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    constant = sum(float(table.values) for table in tables if not table.positions)
    tables = [table for table in tables if table.positions]
    costs, constraint, binaries = _program(tables, shape)
    limits = np.zeros(constraint.shape[0])
    limits[: len(shape)] = 1.0
    found = milp(
        costs,
        integrality=(np.arange(len(costs)) < binaries).astype(int),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(constraint, limits, limits),
        options={"time_limit": max(time_limit, 0.01)},
    )
    most = sum(float(table.values.max()) for table in tables)
    bound = constant + (most if found.mip_dual_bound is None else min(most, -float(found.mip_dual_bound)))
    if found.x is None:
        return None, bound
    ends = np.cumsum(shape)
    choices = [int(part.argmax()) for part in np.split(found.x[:binaries], ends[:-1])]
    return np.array(choices, np.intp), bound


def _program(tables: Sequence[ScoreTable], shape: Sequence[int]) -> tuple[Floats, Any, int]:
    """Costs, equality constraints and the number of binary variables: attribute values first, then table cells."""
    from scipy.sparse import csr_array

    starts = np.concatenate([[0], np.cumsum(shape)])
    binaries = int(starts[-1])
    costs = [np.zeros(binaries)]
    rows: list[int] = []
    columns: list[int] = []
    entries: list[float] = []
    for attribute, size in enumerate(shape):
        rows += [attribute] * size
        columns += range(int(starts[attribute]), int(starts[attribute]) + size)
        entries += [1.0] * size
    row, variable = len(shape), binaries
    for table in tables:
        keys = list(product(*(range(n) for n in table.values.shape)))
        for axis, attribute in enumerate(table.positions):
            for value in range(table.values.shape[axis]):
                inside = [variable + k for k, key in enumerate(keys) if key[axis] == value]
                rows += [row] * (len(inside) + 1)
                columns += [*inside, int(starts[attribute]) + value]
                entries += [1.0] * len(inside) + [-1.0]
                row += 1
        costs.append(-table.values.ravel())
        variable += math.prod(table.values.shape)
    return np.concatenate(costs), csr_array((entries, (rows, columns)), shape=(row, variable)), binaries
