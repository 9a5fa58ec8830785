"""The non-negative table whose marginals are nearest in least squares, for domains too large for linear programs.

The set of marginals of non-negative tables is a cone; the nearest point of it is found as a sum of few single cells
(fully corrective conditional gradients): local search finds cells that point from the sum to the targets, least squares
with an active set computes all weights again, and cells without weight are dropped. Every intermediate table is valid.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import QueryError
from crosstally.inference.integers.cell_columns import CellColumns, Target
from crosstally.inference.integers.pricing import MAX_LISTED, best_listed, first_cells, local_search, scores_of
from crosstally.inference.integers.programs import FittedTable, round_with_total
from crosstally.schema import Schema
from crosstally.typing import Floats

# Random cells from which a search starts. Chosen; fewer find fewer cells a round, and the fit may end earlier.
_STARTS = 100
_BATCH = 40  # cells that are added at once. Chosen: more mean fewer but larger problems of least squares
# After rounding: rounds in which cells are added and rows swapped. Chosen; a round never makes the fit worse.
_ROUNDS = 3
# limits time: swaps end when none helps. If they end here, rows could still be moved to fit better
_MAX_SWAPS = 20_000


def projected_table(
    schema: Schema, targets: Sequence[Target], *, step: float = 0.5, time_limit: float = 60.0
) -> FittedTable:
    """The non-negative table nearest to marginals in least squares; its distance is the root of the sum of squares.

    The search for cells ends when local search finds none that matters; there is no proof that none exists.

    Args:
        schema: The attributes of the full table.
        targets: Marginals (cells).
        step: Cells that would be weighed with less than this many rows at first are not looked for.
        time_limit: Seconds after which the best table so far is returned.
    """
    if not all(target.query.is_table for target in targets):
        raise QueryError("a table is projected on marginals: give cells")
    columns = CellColumns(schema, targets)
    least = step * len(targets)  # a cell stands once in every table, so its column has this squared length x step
    deadline, random = time.monotonic() + time_limit, np.random.default_rng(0)
    cells, weights = np.empty((0, len(schema.shape)), np.intp), np.empty(0)
    answers = columns.of(cells)
    while True:
        left = columns.values - answers @ weights
        found = _pointing(columns, left, cells, random=random, least=least)
        if not len(found) or time.monotonic() > deadline:
            break
        cells = np.concatenate([cells, found])
        answers = np.concatenate([answers, columns.of(found)], axis=1)
        start = np.concatenate([weights, np.zeros(len(found))])
        weights = nonnegative_least_squares(answers.T @ answers, answers.T @ columns.values, start)
        used = weights > 0
        if np.array_equal(used, start > 0):
            break
        cells, answers, weights = cells[used], answers[:, used], weights[used]
    return FittedTable(schema, cells, weights, distance=float(np.linalg.norm(left)), bound=0.0)


def _pointing(
    columns: CellColumns, left: Floats, cells: NDArray[np.intp], *, random: np.random.Generator, least: float
) -> NDArray[np.intp]:
    """New cells whose columns point to the residual of the targets, best first."""
    shape = columns.schema.shape
    tables = columns.score_tables(left)
    starts = np.stack([random.integers(0, n, _STARTS) for n in shape], axis=1).astype(np.intp)
    found = local_search(tables, shape, np.concatenate([starts, cells]))
    scores = scores_of(tables, found)
    if not (scores > least).any() and math.prod(shape) <= MAX_LISTED:
        found, _ = best_listed(tables, shape, _BATCH)
        scores = scores_of(tables, found)
    known = set(map(tuple, cells.tolist()))
    order = [
        i for i in np.argsort(-scores, kind="stable") if scores[i] > least and tuple(found[i].tolist()) not in known
    ]
    return columns.possible(np.asarray(found[order[:_BATCH]]))


def nonnegative_least_squares(gram: Floats, linear: Floats, start: Floats) -> Floats:
    """The w >= 0 that minimises w'Gw - 2 c'w among the positive entries of the start and those that are new.

    Lawson and Hanson's inner loop on the normal equations: all are solved for together, and as long as some are
    negative, the way to the solution is followed until the first becomes zero, which is then left out.

    >>> nonnegative_least_squares(np.eye(2), np.array([1.0, -1.0]), np.zeros(2))
    array([1., 0.])
    """
    weights, inside = start.copy(), np.ones(len(start), np.bool_)
    ridge = 1e-10 * max(float(gram.diagonal().max(initial=1.0)), 1.0)
    while inside.any():
        part = np.flatnonzero(inside)
        solved = np.linalg.solve(gram[np.ix_(part, part)] + ridge * np.eye(len(part)), linear[part])
        if (solved > 0).all():
            weights[part] = solved
            break
        falling = solved <= 0
        steps = weights[part][falling] / np.maximum(weights[part][falling] - solved[falling], 1e-300)
        reach = float(steps.min())
        weights[part] += reach * (solved - weights[part])
        gone = part[falling][steps <= reach + 1e-12]
        inside[gone], weights[gone] = False, 0.0
    weights[~inside] = 0.0
    return weights


def whole_numbers(columns: CellColumns, fitted: FittedTable, total: int) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Cells and counts with this total, near the targets: weights rounded, then single rows moved while that helps."""
    cells, weights = fitted.cells, fitted.weights
    if not len(cells):
        cells, weights = first_cells(columns, np.random.default_rng(0), 1), np.ones(1)
    counts = round_with_total(weights * (total / weights.sum()), total)
    random = np.random.default_rng(0)
    for _ in range(_ROUNDS):
        left = columns.values - columns.of(cells) @ counts
        found = _pointing(columns, left, cells, random=random, least=0.0)
        cells, counts = np.concatenate([cells, found]), np.concatenate([counts, np.zeros(len(found), np.int64)])
        counts, moved = _moved_rows(columns.of(cells), columns.values, counts)
        cells, counts = cells[counts > 0], counts[counts > 0]
        if not moved:
            break
    return cells, counts


def _moved_rows(answers: Floats, values: Floats, counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """The counts after single rows were moved from one cell to another as long as the squared distance falls."""
    counts = counts.copy()
    gram = answers.T @ answers
    scores = answers.T @ (values - answers @ counts)
    lengths = gram.diagonal()
    for moves in range(_MAX_SWAPS):
        filled = np.flatnonzero(counts > 0)
        if not len(filled):
            return counts, moves
        source = filled[np.argmax(lengths[filled] + 2 * -scores[filled])]
        gains = 2 * (scores - scores[source]) - lengths - lengths[source] + 2 * gram[source]
        target = int(np.argmax(gains))
        if gains[target] <= 1e-9:
            return counts, moves
        counts[source] -= 1
        counts[target] += 1
        scores += gram[source] - gram[target]
    return counts, _MAX_SWAPS
