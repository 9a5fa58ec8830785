"""View search ("optimum"): views and budgets of the lowest error of least squares. The best known under Laplace noise.

Covering designs, clusters, packed views and the workload's own tables are starting points; shares are tuned for the
recovery actually used, and views are changed as long as that lowers the predicted error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crosstally.designs import covering_design, covering_views, design_if_known
from crosstally.designs.design import MAX_COVER, MAX_SIZE, best_count
from crosstally.errors import PlanError
from crosstally.plans.plan import Plan
from crosstally.query.queries import MAX_CELLS
from crosstally.residuals.combining import by_shape
from crosstally.residuals.variances import Closure, closure_of
from crosstally.schema import Schema
from crosstally.strategies.clustered import MAX_TABLES, clusters
from crosstally.strategies.strategy import Strategy, Task
from crosstally.strategies.view_shares import ViewShares
from crosstally.strategies.views import cell_limits
from crosstally.workload import Workload

_MOST_CELLS = MAX_CELLS // 10  # views do not grow beyond this, so that ten of them still fit a plan
# Attributes of a view are bits of an int64 whose sign stays free, with one to spare. More are not searched.
_MASK_BITS = 62
# Starts of the search: how many designs of each cover, one fewer for more than 1,000 subsets; up to 150 subsets mixed
# designs of two sizes are tried; more than 1,000 tables are not clustered under Gaussian noise. Guards of time, chosen.
_DESIGNS, _MANY_SUBSETS, _FEW_SUBSETS, _MANY_TABLES = 3, 1000, 150, 1000
# Starts: views of up to this many times the cells of the largest table; with many tables, every other factor. Chosen in
# steps of about two; more take longer.
_GROWTHS = (1, 1.5, 2, 3, 4, 8, 16, 32)
# The search begins from this many of the best tuned starts, and from the start with the most views. Chosen.
_STARTS = 3
_MOST_VIEWS = 500  # limits time: starts of more views are tuned, and not searched from
# Work in sets visited: of all searches, of one at least, and of one for each set that matters. Chosen, limits time:
# a larger effort is more searches, of which the best is taken.
_EFFORT, _EFFORT_ONCE, _LEAST_EFFORT = 60_000_000, 4_000_000, 40_000
# Steps in which shares are tuned: of each start and each search, and of the one result. Chosen; guards of time.
_TUNING, _LONG_TUNING = 40, 400
_NEGLIGIBLE = 1e-7  # views with less than this share of the budget are left out, and the others are tuned again

ViewSets = Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class ViewSearch(Strategy):
    """Measure the views, and with the budgets, that give the lowest weighted sum of variances found.

    Under Gaussian noise the residual plan is optimal; this is then the best plan that measures only cells.
    """

    name: ClassVar[str] = "optimum"

    def planned(self, task: Task) -> Plan:
        """A request for each view."""
        found = best_views(task.schema, task.workload, 2 if task.budget.pure else 1)
        return task.measuring(self.name, map(task.names, found.views), found.shares)


@lru_cache(maxsize=16)
def best_views(schema: Schema, workload: Workload, exponent: int) -> ViewShares:
    """The best views found for a workload in the schema's order. They do not depend on the size of the budget.

    Args:
        schema: The table's attributes.
        workload: The tables, in the schema's order.
        exponent: 2 under Laplace noise, where precision is proportional to the square of a share; 1 under Gaussian.
    """
    if len(workload) > MAX_TABLES:
        raise PlanError(f"views can be searched for at most {MAX_TABLES:,} tables, got {len(workload):,}")
    problem = _Problem.of(schema, workload, exponent)
    tuned = [problem.tuned(views, _TUNING) for views in _starts(problem, schema, workload)]
    found = sorted(filter(None, tuned), key=lambda each: each.score)
    if not found:
        raise PlanError(f"no views of at most {MAX_CELLS:,} cells together hold these tables; ask for fewer or smaller")
    searched = [problem.searched(*each) for each in _searches(problem, found)] if problem.fits_masks else []
    best = min([found[0], *searched], key=lambda each: each.score)
    return problem.pruned(best)


def _searches(problem: _Problem, found: Sequence[ViewShares]) -> list[tuple[ViewShares, int, int]]:
    """Where to start, with which seed and effort: the best, and the one with the most views, which leaves most to do.

    Small problems are searched many times. Under Gaussian noise, where the residual plan is better, only once.
    """
    few = [each for each in found if len(each.views) <= _MOST_VIEWS]
    starts = few[:_STARTS] + sorted(few[_STARTS:], key=lambda each: -len(each.views))[:1]
    if not starts:
        return []
    once = max(_EFFORT_ONCE, _LEAST_EFFORT * len(problem.importance))
    times = max(1, _EFFORT // once) if problem.exponent == 2 else 1
    return [(starts[i % len(starts)], i + 1, min(once, _EFFORT)) for i in range(times)]


@dataclass(frozen=True, slots=True, eq=False)
class _Problem:
    """The sets inside a workload's tables, with their importance: weight in the objective over their cells."""

    closure: Closure
    importance: NDArray[np.float64]
    exponent: int
    used: NDArray[np.intp]

    @classmethod
    def of(cls, schema: Schema, workload: Workload, exponent: int) -> _Problem:
        closure = closure_of(schema, workload.tables)
        weights = closure.weights(np.array(workload.weights) * closure.cells())
        importance = weights / closure.product(closure.sizes)
        used = np.unique(np.concatenate([block.positions.ravel() for block in closure.blocks]))
        return cls(closure, importance / importance.sum(), exponent, used)

    def tuned(self, views: ViewSets, steps: int, shares: Sequence[float] | None = None) -> ViewShares | None:
        """The views with tuned shares; None when they do not hold every set, or are too large."""
        from crosstally.kernels.view_search import tuned_shares

        cells = np.array([math.prod(self.closure.sizes[list(view)]) for view in views], float)
        if cells.sum() > MAX_CELLS:
            return None
        members, lengths = self._members(views)
        given = np.full(len(views), 1.0) if shares is None else np.array(shares)
        precision = np.empty(len(self.closure))
        objective = tuned_shares(members, lengths, cells, given, self.importance, precision, self.exponent, steps)
        return None if math.isinf(objective) else ViewShares(tuple(views), tuple(given.tolist()), objective)

    def _members(self, views: ViewSets) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """For each view the sets it holds, and how many."""
        parts: list[NDArray[np.intp]] = [np.empty(0, np.intp)] * len(views)
        for group in by_shape([len(view) for view in views]).values():
            places, there = self.closure.find(np.array([views[i] for i in group], np.intp).reshape(len(group), -1))
            for i, row, held in zip(group, places, there, strict=True):
                parts[i] = row[held]
        counts = np.array([len(part) for part in parts])
        members = np.zeros((len(views), max(1, counts.max())), np.int32)
        for i, part in enumerate(parts):
            members[i, : len(part)] = part
        return members, counts

    @property
    def fits_masks(self) -> bool:
        """Whether views can be masks of one word."""
        return len(self.used) <= _MASK_BITS

    def mask(self, positions: Sequence[int] | NDArray[np.intp]) -> int:
        """The attributes as bits, those in use numbered from 0."""
        return int(sum(1 << int(i) for i in np.searchsorted(self.used, positions)))

    def view(self, mask: int) -> tuple[int, ...]:
        """The attributes of a mask."""
        return tuple(int(self.used[i]) for i in range(len(self.used)) if mask >> i & 1)

    @property
    def logs(self) -> NDArray[np.float64]:
        """The logarithm of the number of cells of each attribute in use."""
        return np.log(self.closure.sizes[self.used])

    def searched(self, start: ViewShares, seed: int, effort: int) -> ViewShares:
        """The views after a descent from a starting point."""
        from crosstally.kernels.view_search import descend

        sets = np.zeros(len(self.closure), np.int64)
        for places, positions in self.closure.members:
            sets[places] = (1 << np.searchsorted(self.used, positions)).sum(axis=1)
        number = len(start.views)
        masks, shares = np.zeros(number + number // 4 + 8, np.int64), np.zeros(number + number // 4 + 8)
        masks[:number], shares[:number] = [self.mask(view) for view in start.views], start.shares
        largest = max(math.prod(self.closure.sizes[list(view)]) for view in start.views)
        limits = np.array([max(_MOST_CELLS, largest), self.exponent, effort], float)
        state = np.uint64(seed * 2654435761 + 1)
        left = descend(masks, shares, number, sets, self.importance, self.logs, limits, state)
        views = [self.view(int(mask)) for mask in masks[:left]]
        return self.tuned(views, _TUNING, shares[:left].tolist()) or start

    def pruned(self, found: ViewShares) -> ViewShares:
        """The same, tuned to the end, without views that have next to nothing of the budget."""
        best = self.tuned(found.views, _LONG_TUNING, found.shares) or found
        kept = [i for i, share in enumerate(best.shares) if share > _NEGLIGIBLE]
        if len(kept) < len(best.views):
            fewer = self.tuned([best.views[i] for i in kept], _LONG_TUNING, [best.shares[i] for i in kept])
            best = fewer or best
        order = sorted(range(len(best.views)), key=lambda i: best.views[i])
        return ViewShares(tuple(best.views[i] for i in order), tuple(best.shares[i] for i in order), best.score)


def _starts(problem: _Problem, schema: Schema, workload: Workload) -> Iterator[ViewSets]:
    """Views to start from."""
    largest = _largest_tables(problem.closure)
    yield largest
    if problem.exponent == 2 or len(workload) <= _MANY_TABLES:
        yield [each.positions for each in clusters(schema, workload, problem.exponent + 1)]
    if math.prod(schema.shape[i] for i in problem.used) <= _MOST_CELLS:
        yield [tuple(int(i) for i in problem.used)]
    yield from _designs(problem, max(map(len, largest)))
    if problem.fits_masks:
        yield from _packed(problem, largest)


def _largest_tables(closure: Closure) -> list[tuple[int, ...]]:
    """The tables that lie in no other table."""
    inside = np.zeros(len(closure), np.bool_)
    for subsets in closure.subsets:
        inside[subsets[:, :-1]] = True
    out = []
    for block, subsets in zip(closure.blocks, closure.subsets, strict=True):
        out += [tuple(row) for row in block.positions[~inside[subsets[:, -1]]].tolist()]
    return out


def _designs(problem: _Problem, cover: int) -> Iterator[ViewSets]:
    """Covering designs of the sizes that promise most, where all attributes have the same number of values."""
    sizes = set(problem.closure.sizes[problem.used].tolist())
    attributes = len(problem.used)
    if not 1 <= cover <= MAX_COVER or attributes <= cover:
        return
    if len(sizes) > 1:
        yield from _mixed_designs(problem, cover)
        return
    (n,) = sizes
    possible = [k for k in range(cover + 1, min(MAX_SIZE, attributes - 1) + 1) if n**k <= _MOST_CELLS]

    def promise(size: int) -> float:
        return float(best_count(attributes, size, cover) * n**size / math.comb(size, cover))

    number = _DESIGNS if math.comb(attributes, cover) <= _MANY_SUBSETS else _DESIGNS - 1
    for size in sorted(possible, key=promise)[:number]:
        if design := design_if_known(covering_design, attributes, size, cover):
            yield [tuple(int(problem.used[i]) for i in view) for view in design]


def _mixed_designs(problem: _Problem, cover: int) -> Iterator[ViewSets]:
    """Covering views of a few limits: from the least possible where subsets are few, else those of ``Views``."""
    sizes = problem.closure.sizes[problem.used].astype(int).tolist()
    largest = math.prod(sorted(sizes)[-cover:])
    few = math.comb(len(sizes), cover) <= _FEW_SUBSETS
    for limit in (largest, 2 * largest) if few else cell_limits(sizes, cover):
        if largest <= limit <= _MOST_CELLS and (design := design_if_known(covering_views, sizes, limit, cover)):
            yield [tuple(int(problem.used[i]) for i in view) for view in design]


def _packed(problem: _Problem, tables: ViewSets) -> Iterator[ViewSets]:
    """Views of several sizes, each packed with as many of the tables as it holds."""
    from crosstally.kernels.view_search import packed_views

    cells = np.array([math.prod(problem.closure.sizes[list(table)]) for table in tables])
    order = np.argsort(-cells, kind="stable")
    masks = np.array([problem.mask(tables[i]) for i in order], np.int64)
    found: set[tuple[int, ...]] = set()
    for growth in _GROWTHS if len(tables) <= _MANY_TABLES else _GROWTHS[::2]:
        most = math.log(min(growth * cells.max(), _MOST_CELLS)) + 1e-9
        views = np.zeros(len(tables), np.int64)
        number = packed_views(masks, np.ones(len(tables)), problem.logs, most, views)
        key = tuple(views[:number].tolist())
        if key not in found:
            found.add(key)
            yield [problem.view(mask) for mask in key]
