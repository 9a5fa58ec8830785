"""Greedy merging ("clustered"): the workload's tables in fewer, larger ones (Ding et al. 2011; C and C+ of ICDE 2013).

Groups of strategy queries that can share one budget (ICDE 2013, section III-A, definition 3.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosstally.errors import PlanError
from crosstally.plans.plan import Plan
from crosstally.query.queries import MAX_CELLS
from crosstally.residuals.variances import closure_of
from crosstally.schema import Schema
from crosstally.strategies.strategy import StrategyWithOptions, Task
from crosstally.workload import Workload

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


MAX_TABLES = 20_000  # limits time and memory: merging looks at pairs of tables. Larger workloads are refused
# Clusters do not grow beyond this, so that ten of them still fit a plan. Tables that are larger stay as they are.
_MOST_CELLS = MAX_CELLS // 10
_WORD = 64  # bits of a word: the attributes of a table are bits of some words
# Until 1,000 tables are left, each is compared with 400,000 / tables neighbours in the list, and merging ends at the
# first loss; then with 1,200,000 / tables, to the end. Guards of time, chosen: fewer make worse clusters.
_MANY, _FEW_PAIRS, _PAIRS = 1000, 400_000, 1_200_000


@dataclass(frozen=True, slots=True)
class Cluster:
    """A table to measure, by the positions of its attributes, and the weight of the workload's tables read from it."""

    positions: tuple[int, ...]
    weight: float


@dataclass(frozen=True, slots=True)
class GreedyMerge(StrategyWithOptions):
    """Measure unions of the workload's tables: fewer tables with less noise each, from which more cells are summed.

    Tables are merged greedily, two at a time, the pair that raises the sum of variances least; of all that are passed
    on the way the best is taken. Cells are then read by least squares over all clusters.

    Args:
        budgets: "uniform" gives every cluster the same share. "optimal" minimises the weighted sum of the variances of
            all cells, each read from its own cluster: shares proportional to s^(1/3) under Laplace noise and to
            s^(1/2) of rho under Gaussian noise, s the cells of a cluster times the weights of its tables.
    """

    budgets: Literal["uniform", "optimal"] = "optimal"
    family: ClassVar[str] = "clustered"
    weighs: ClassVar[bool] = False

    def planned(self, task: Task) -> Plan:
        """A request for each cluster."""
        root = 1 if self.budgets == "uniform" else task.root
        found = clusters(task.schema, task.workload, root)
        shares = [_cost(task.schema, each, root) if root > 1 else 1.0 for each in found]
        return task.measuring(self.name, [task.names(each.positions) for each in found], shares)


def _cost(schema: Schema, cluster: Cluster, root: int) -> float:
    cells = math.prod(schema.shape[i] for i in cluster.positions)
    return float((cluster.weight * cells) ** (1 / root))


@lru_cache(maxsize=16)
def clusters(schema: Schema, workload: Workload, root: int) -> tuple[Cluster, ...]:
    """The clusters of a workload in the schema's order, the largest first.

    Args:
        schema: The table's attributes.
        workload: The tables, in the schema's order.
        root: 3 or 2 for optimal budgets under Laplace and Gaussian noise, where the objective is the sum of these
            roots of weight x cells; 1 for uniform budgets, where it is the squared number of clusters times the sum
            of weight x cells.
    """
    if len(workload) > MAX_TABLES:
        raise PlanError(f"at most {MAX_TABLES:,} tables can be clustered, got {len(workload):,}; use another strategy")
    members = [[i] for i in range(len(workload))]
    for stays, goes in _merges(schema, workload, root):
        members[stays] += members[goes]
        members[goes] = []
    found = []
    for group in filter(None, members):
        positions = sorted({schema.positions[name] for i in group for name in workload.tables[i]})
        found.append(Cluster(tuple(positions), math.fsum(workload.weights[i] for i in group)))
    return tuple(sorted(found, key=lambda each: (-len(each.positions), each.positions)))


def _merges(schema: Schema, workload: Workload, root: int) -> list[tuple[int, int]]:
    """The merges to make: for each the table that stays and the one that goes.

    With very many tables, first those that stand near each other in the workload's order.
    """
    from crosstally.kernels.clusters import merge_order

    number, words = len(workload), -(-len(schema.names) // _WORD)
    sets = np.zeros((number, words), np.uint64)
    for i, table in enumerate(workload.tables):
        for name in table:
            word, bit = divmod(schema.positions[name], _WORD)
            sets[i, word] |= np.uint64(1 << bit)
    cells, weights = closure_of(schema, workload.tables).cells(), np.array(workload.weights)
    state = np.stack([cells, weights, (cells * weights) ** (1 / root)], axis=1)
    byte_cells, most = _byte_cells(schema, words), max(_MOST_CELLS, cells.max())
    places, made = np.arange(number), list[tuple[int, int]]()
    objective, needed = [state[:, 2].sum() * (number**2 if root == 1 else 1)], [cells.sum()]
    for many, pairs, worse in ((number - _MANY, _FEW_PAIRS, 1.0), (number - 1, _PAIRS, math.inf)):
        merged, totals = np.zeros((max(many - len(made), 0), 2), np.int64), np.zeros((max(many - len(made), 0), 2))
        limits = np.array([most, root, pairs // len(sets), worse], float)
        merges = merge_order(sets, byte_cells, state, limits, merged, totals) if len(merged) else 0
        made += places[merged[:merges]].tolist()
        objective += totals[:merges, 0].tolist()
        needed += totals[:merges, 1].tolist()
        left = state[:, 0] > 0
        sets, state, places = sets[left], state[left], places[left]
    values = np.array(objective)
    values[np.array(needed) > MAX_CELLS] *= 1e9  # too many cells to measure: only if nothing else is left
    return made[: int(np.argmin(values))]


def _byte_cells(schema: Schema, words: int) -> NDArray[np.float64]:
    """For each eight attributes the number of cells over each of their 256 subsets."""
    sizes = np.ones(words * _WORD)
    sizes[: len(schema.names)] = schema.shape
    chosen = (np.arange(256)[:, None] >> np.arange(8)) & 1
    return np.ascontiguousarray(np.where(chosen, sizes.reshape(-1, 1, 8), 1.0).prod(axis=2))
