"""Families of views that the second stage of ``stepwise`` chooses from under Laplace noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations, islice

from crosstally.designs import covering_design, covering_views
from crosstally.errors import PlanError
from crosstally.strategies.base import Task
from crosstally.strategies.belief import Belief
from crosstally.strategies.goal import Goal
from crosstally.strategies.view_shares import TableBudget, ViewShares, best_shares
from crosstally.typing import Floats
from crosstally.workload import Workload

__all__ = ["MOST_CELLS", "best_family", "view_families"]

MOST_CELLS = 200_000
"""How many cells the second stage measures at most: drawing noise takes about 15 microseconds a cell and inference as
much again, so that a release takes seconds."""

_MOST_VIEWS = 3_000  # limits time: a family of more views is not tried, such as all triples of 28 attributes
_BINARY_SIZES = (4, 6, 8, 10)  # attributes of a view; see below. PriView's own choice is 8
_CELL_LIMITS = (100, 316, 1_000, 3_162, 10_000)
"""Sizes of views to try: attributes of binary ones, cells of mixed ones, in half powers of ten."""
_COVERS = (2, 3, 4)  # attributes covered together, as in PriView: pairs, triples, quadruples; designs go no further
_MOST_SETS = 500_000
"""Families of views are tried as long as all sets of the goal, once for each, are fewer than this: some seconds. All
are, but for named tables over fourteen attributes and more; two are always."""


def best_family(task: Task, goal: Goal, belief: Belief, already: Floats, *, score: Callable[..., float]) -> ViewShares:
    """The family with the lowest score that is expected, with its shares."""
    budget = TableBudget.of(task)
    families = islice(view_families(task, goal), max(2, _MOST_SETS // len(goal.closure)))
    found = (best_shares(goal, belief, views, budget, already=already) for views in families)
    return min(found, key=lambda each: score(goal, belief, each, budget, already=already))


def view_families(task: Task, goal: Goal) -> Iterator[Sequence[tuple[int, ...]]]:
    """Families of views to choose from, each with the one-way tables beside it; the plainest first."""
    positions = tuple(task.schema.positions[name] for name in task.workload.attributes(task.schema))
    ones: list[tuple[int, ...]] = [(i,) for i in positions]
    yield ones
    wide = [tuple(map(task.schema.positions.__getitem__, table)) for table in _few_wide(task.workload)]
    if wide and _fits(task.schema.shape, wide):
        yield ones + wide
    for family in _families_over(tuple(task.schema.shape[i] for i in positions), _widest(goal)):
        yield ones + [tuple(positions[i] for i in view) for view in family]


def _few_wide(workload: Workload) -> Sequence[tuple[str, ...]]:
    """The tables over more than one attribute, if there are so few that each may be a view."""
    wide = list(islice((table for table in workload.tables if len(table) > 1), _MOST_VIEWS + 1))
    return wide if len(wide) <= _MOST_VIEWS else []


def _widest(goal: Goal) -> int:
    return max(int(block.positions.shape[1]) for block in goal.closure.blocks)


@lru_cache(maxsize=8)
def _families_over(sizes: tuple[int, ...], widest: int) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """All pairs, all triples, the whole table, and covering designs of several sizes, as far as there is room."""
    d = len(sizes)
    families: list[Sequence[tuple[int, ...]]] = [
        list(combinations(range(d), k)) for k in (2, 3) if k <= min(d, widest) and math.comb(d, k) <= _MOST_VIEWS
    ]
    families.append([tuple(range(d))] if d > 1 else [])
    for cover in (t for t in _COVERS if t <= min(d - 1, widest)):
        if set(sizes) == {2}:
            families += [_design(d, size, cover) for size in _BINARY_SIZES if cover < size <= d]
        else:
            largest = math.prod(sorted(sizes)[-cover:])
            limits = sorted({*_CELL_LIMITS, *((largest, 2 * largest) if cover == 2 else ())})
            families += [_covering(sizes, limit, cover) for limit in limits if limit >= largest]
    return tuple(tuple(map(tuple, family)) for family in families if family and _fits(sizes, family))


def _fits(sizes: Sequence[int], views: Sequence[Sequence[int]]) -> bool:
    return len(views) <= _MOST_VIEWS and sum(math.prod(sizes[i] for i in view) for view in views) <= MOST_CELLS


def _design(d: int, size: int, cover: int) -> Sequence[tuple[int, ...]]:
    if math.comb(d, cover) / math.comb(size, cover) > _MOST_VIEWS:
        return []
    try:
        return covering_design(d, size, cover)
    except PlanError:
        return []


def _covering(sizes: Sequence[int], limit: int, cover: int) -> Sequence[tuple[int, ...]]:
    if math.comb(len(sizes), cover) > 200_000:
        return []
    try:
        return covering_views(sizes, limit, cover)
    except PlanError:
        return []
