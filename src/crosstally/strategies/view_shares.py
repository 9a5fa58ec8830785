"""Division of a budget among views when the sizes of interactions are uncertain; the views that are considered.

A table with the part e of epsilon and sensitivity s has cells of precision e^2 / (2 s^2); with the part r of rho it is
2 r / s^2. A view measures each set inside it with that precision divided by the number of cells outside the set. The
error of the goal has no closed form in the shares: shares are moved in proportion to their marginal gains until these
are equal. The shares of views that gain nothing go to zero.

``view_families`` are the families that the second stage of ``two-stage`` chooses from under Laplace noise.

``Belief`` is the prior for the sizes of interactions, which decides whether one is worth its noise. For a set B of two
or more attributes, R_B is its residual beyond what the lower orders predict (maximum entropy). The one-way tables give
its scale: with g_i^2 = 1 - sum p_i^2 for the shares p_i of an attribute's values, R_B has the size sqrt(sum of squares
of R_B) / (N prod g_i). Sampling alone makes that 1 / sqrt(N). Measured on Adult, FARS, ACS, census-9, MSNBC and Kosarak
(lab/evidence/tried.md), the median size is about 0.06 for pairs, 0.01 for triples and 0.003 for quadruples, on every
table within a factor of three; within a table sizes spread like a log-normal law, and pairs say little about triples.
So the belief is a mixture of three sizes with the moments of that law.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, islice

import numpy as np

from crosstally.designs import covering_design, covering_views, design_if_known
from crosstally.measurements import Measurement
from crosstally.query.queries import sensitivity_of_tables
from crosstally.residuals import combine
from crosstally.residuals.axes import outer_product
from crosstally.residuals.variances import Closure, bounded, inverse_cells_outside
from crosstally.schema import Schema
from crosstally.strategies.goal import Goal
from crosstally.strategies.strategy import Task, known_total
from crosstally.typing import Floats
from crosstally.workload import Workload

MEDIAN_SIZES = {2: 0.06, 3: 0.01, 4: 0.003}
"""The median size of an interaction by its order (module docstring: six real tables)."""
FALL = 0.3
"""What the median falls by with each order above four, as it does from three to four."""
SPREAD = 1.25
"""The standard deviation of the logarithm of sizes: 0.7 to 2.4 were seen. What 1 and 1.5 change is in
lab/evidence/tried.md."""

# In standard deviations of the logarithm of sizes: the three nodes of the law below.
_NODES = (-math.sqrt(3), 0.0, math.sqrt(3))
_WEIGHTS = np.array([1 / 6, 2 / 3, 1 / 6])
"""Three points that have the first five moments of a normal law (Gauss and Hermite)."""


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """For each set of a closure the variance of its coefficients before measuring: ``scale`` times each ``factor``.

    An infinite scale stands for nothing known: such a set, known with precision p, has the error 1 / p. ``shares``
    of each attribute's values and ``rows`` are the one-way tables that the belief comes from, empty where it comes from
    none.
    """

    scale: Floats
    factors: Floats
    shares: tuple[Floats, ...] = ()
    rows: float = 0.0

    @classmethod
    def of_one_ways(cls, closure: Closure, shares: list[Floats], rows: float) -> Belief:
        """The belief from one-way tables: the shares of each attribute's values, and the number of rows."""
        diversity = np.array([max(1 - float(p @ p), 1 / max(rows, 1.0)) for p in shares])
        bound = closure.product(diversity) / np.maximum(closure.product(closure.sizes - 1), 1.0)
        order = np.rint(np.log2(closure.product(np.full(len(shares), 2.0)))).astype(int)
        highest = max(MEDIAN_SIZES)
        medians = np.array([MEDIAN_SIZES.get(k, MEDIAN_SIZES[highest] * FALL ** (k - highest)) for k in range(64)])
        scale = np.where(order >= min(MEDIAN_SIZES), (medians[order] * rows) ** 2 * bound, np.inf)
        return cls(scale, np.exp(2 * SPREAD * np.array(_NODES)), tuple(shares), rows)

    @property
    def mixture(self) -> tuple[tuple[float, float], ...]:
        """The weight and the factor of each size."""
        return tuple(zip(_WEIGHTS.tolist(), self.factors.tolist(), strict=True))

    def expected_cells(self, attributes: Sequence[int]) -> Floats | None:
        """The count of each cell of a table over some attributes if they were independent; None if nothing is known."""
        if not self.shares:
            return None
        return self.rows * outer_product([self.shares[i].tolist() for i in attributes])

    def errors(self, precision: Floats) -> Floats:
        """The expected squared error of each set's coefficients, known with this precision."""
        inverse = 1 / self.scale
        return np.asarray(
            sum(w / (precision + inverse / f + 1e-300) for w, f in zip(_WEIGHTS, self.factors, strict=True))
        )

    def slopes(self, precision: Floats) -> Floats:
        """By how much that error falls with precision."""
        inverse = 1 / self.scale
        known = (precision + inverse / f + 1e-150 for f in self.factors)
        return np.asarray(
            sum(w / each / each for w, each in zip(_WEIGHTS, known, strict=True))
        )  # a square may overflow

    def precision_at(self, slopes: Floats) -> Floats:
        """The precision at which the error falls by this much; zero where it never falls as fast.

        In units of the scale the law is the same for all sets, so one table of it serves them all.
        """
        known = np.isfinite(self.scale)
        grid = np.concatenate([[0.0], np.logspace(-6, 12, 4001)])
        unit = Belief(np.ones_like(grid), self.factors)
        logs = np.log(unit.slopes(grid))
        with np.errstate(divide="ignore"):
            scaled = np.log(slopes[known]) - 2 * np.log(self.scale[known])
            out = 1 / np.sqrt(slopes)
        out[known] = np.interp(-scaled, -logs, grid, left=0.0, right=grid[-1]) / self.scale[known]
        return out


def known_sizes(closure: Closure) -> Belief:
    """The belief under which all interactions of the closure matter, whatever their size."""
    return Belief(np.full(len(closure), np.inf), np.ones(len(_NODES)))


def seen_one_ways(schema: Schema, seen: Sequence[Measurement]) -> tuple[float, list[Floats]]:
    """The number of rows, and the shares of each attribute's values; equal ones where nothing was measured."""
    combined = combine(schema, seen)
    public = known_total(seen)
    rows = max(float(combined.table(())) if public is None else public, 1.0)
    shares = []
    for name in schema.names:
        known = combined.covers((name,))
        shares.append(shares_of(combined.table((name,)) if known else np.ones(schema[name].size)))
    return rows, shares


def shares_of(counts: Floats) -> Floats:
    """The share of each count in their sum, without what is below zero; equal ones if nothing is above."""
    above = np.maximum(counts, 0.0)
    return above / above.sum() if above.sum() > 0 else np.full(len(above), 1 / len(above))


_STEPS = 60  # limits time: steps end when shares stand still (below). The best shares seen are kept
_STILL = 1e-4
"""Steps end when none moves a share by this part of a mean share."""
_SHRUNK = 0.25
"""The weight of the score with shrunk noise, in the logarithm. Chosen with the square root in ``inferred_score`` on the
eleven settings of lab/evidence/two-stage.md: without it Adult at epsilon 0.1 gets one-way tables alone (1.4 times the
error of the best family), with a half Kosarak resampled at epsilon 1 gets a family with 1.3 times the least error."""
_LEAST_LEFT = 1e-3  # of the variance of noise: stands for zero under a fraction line, where rows are none
_LEAST = 0.02
"""A view with less than this part of a mean share is left out: its noise would be fifty times the others'."""


@dataclass(frozen=True, slots=True, eq=False)
class ViewShares:
    """Views by the positions of their attributes, the part of the budget that each gets, and the score of them."""

    views: tuple[tuple[int, ...], ...]
    shares: tuple[float, ...]
    score: float


@dataclass(frozen=True, slots=True)
class TableBudget:
    """The precision of the cells of a table that has the whole budget, and the power of its share in that of others."""

    whole: float
    power: int

    @classmethod
    def of(cls, task: Task) -> TableBudget:
        """What a task's budget buys."""
        sensitivity = sensitivity_of_tables(1, task.schema, task.neighbours)
        if task.budget.pure:
            return cls(bounded(task.budget.amount / sensitivity.l1, power=2) ** 2 / 2, 2)
        return cls(2 * bounded(task.budget.nearly_rho) / float(sensitivity.l2_squared), 1)


def best_shares(
    goal: Goal,
    belief: Belief,
    views: Sequence[tuple[int, ...]],
    budget: TableBudget,
    *,
    already: Floats,
) -> ViewShares:
    """The best shares of some views that proportional steps find; views that gain too little are left out.

    ``already`` is the precision that each set has before.
    """
    while True:  # each time with fewer views
        tuned = _tuned(goal, belief, views, budget, already)
        kept = [view for view, share in zip(tuned.views, tuned.shares, strict=True) if share * len(views) >= _LEAST]
        if len(kept) == len(views):
            return tuned
        views = kept


def inferred_score(goal: Goal, belief: Belief, family: ViewShares, budget: TableBudget, *, already: Floats) -> float:
    """The score of views after inference, which knows that counts are not negative and that many cells are small.

    Let x be the expected count of a cell and s the standard deviation of its noise. An inference that knew x would
    leave about the part min(1, x / s) of the variance of its noise. It must learn x, so the variance of all cells of a
    view is taken to fall by the square root of the mean of that part. What then remains of the noise of a set may be
    shrunk by the belief, or not at all: the score is between the two, nearer to the latter (``_SHRUNK``).
    """
    precisions = budget.whole * np.array(family.shares) ** budget.power
    left = [_noise_left(belief, view, precision) for view, precision in zip(family.views, precisions, strict=True)]
    unshrunk, shrunk = _scores(goal, belief, _bought(goal, family, precisions / np.array(left)), already)
    return float(unshrunk ** (1 - _SHRUNK) * shrunk**_SHRUNK)


def _noise_left(belief: Belief, view: Sequence[int], precision: float) -> float:
    """The part of the variance of the noise of a view's cells that inference is expected to leave."""
    cells = belief.expected_cells(view)
    return 1.0 if cells is None else noise_left(cells, precision)


def noise_left(cells: Floats, precision: float) -> float:
    """The part of the variance of the noise of a table that inference is expected to leave, by its expected counts."""
    return math.sqrt(max(float(np.minimum(1.0, cells * math.sqrt(precision)).mean()), _LEAST_LEFT))


def _bought(goal: Goal, family: ViewShares, precisions: Floats) -> Floats:
    """The precision of each set of the goal, when the cells of each view have these."""
    holders, sets, parts = _inside(goal, family.views)
    return np.asarray(np.bincount(sets, parts * precisions[holders], len(goal.closure)), np.float64)


def _scores(goal: Goal, belief: Belief, bought: Floats, already: Floats) -> tuple[float, float]:
    """The score if nothing shrinks the noise of a measured set, and if all noise is shrunk by the belief."""
    unshrunk = replace(belief, scale=np.where(bought > 0, np.inf, belief.scale))
    errors = (np.minimum(each.errors(already + bought), 1e300) for each in (unshrunk, belief))
    first, second = (goal.score(goal.errors(each)) for each in errors)
    return first, second


def _tuned(
    goal: Goal, belief: Belief, views: Sequence[tuple[int, ...]], budget: TableBudget, already: Floats
) -> ViewShares:
    holders, sets, parts = _inside(goal, views)
    number = len(views)
    shares, best = np.full(number, 1 / number), ViewShares((), (), np.inf)
    for _ in range(_STEPS):
        cells = budget.whole * shares**budget.power
        precision = already + np.bincount(sets, parts * cells[holders], len(already))
        errors = goal.errors(np.minimum(belief.errors(precision), 1e300))
        score = goal.score(errors)
        if score < best.score * (1 - 1e-7):
            best = ViewShares(tuple(views), tuple(shares.tolist()), score)
        slopes = (goal.shares / errors) @ goal.weights * belief.slopes(precision)
        brought = np.bincount(holders, parts * slopes[sets], number) * shares ** (budget.power - 1)
        # This power solves unrelated tables at once: there the error is a constant over the power of the share
        before = shares
        shares = shares * (np.maximum(brought, 1e-300) / (brought @ shares)) ** (1 / (1 + budget.power))
        shares = shares / shares.sum()
        if np.abs(shares - before).max() < _STILL / number:
            break
    return best


def _inside(goal: Goal, views: Sequence[tuple[int, ...]]) -> tuple[Floats, Floats, Floats]:
    """For each set inside each view: the view, the set, and one over the number of cells outside."""
    by_size: dict[int, list[int]] = {}
    for i, view in enumerate(views):
        by_size.setdefault(len(view), []).append(i)
    holders, sets, parts = [], [], []
    for size, members in by_size.items():
        positions = np.array([sorted(views[i]) for i in members], np.intp).reshape(len(members), size)
        places, found = goal.closure.find(positions)
        holders.append(np.broadcast_to(np.array(members)[:, None], places.shape)[found])
        sets.append(places[found])
        parts.append(inverse_cells_outside(goal.closure.sizes[positions])[found])
    return np.concatenate(holders), np.concatenate(sets), np.concatenate(parts)


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
are, except with named tables over fourteen attributes and more; at least two are always tried."""


def best_family(task: Task, goal: Goal, belief: Belief, already: Floats) -> ViewShares:
    """The family with the lowest score that is expected, with its shares."""
    budget = TableBudget.of(task)
    families = islice(view_families(task, goal), max(2, _MOST_SETS // len(goal.closure)))
    candidates = (best_shares(goal, belief, views, budget, already=already) for views in families)
    return min(candidates, key=lambda each: inferred_score(goal, belief, each, budget, already=already))


def view_families(task: Task, goal: Goal) -> Iterator[Sequence[tuple[int, ...]]]:
    """Families of views to choose from, each with the one-way tables beside it; the plainest first."""
    positions = tuple(task.schema.positions[name] for name in task.workload.attributes(task.schema))
    ones: list[tuple[int, ...]] = [(i,) for i in positions]
    yield ones
    wide = [tuple(map(task.schema.positions.__getitem__, table)) for table in _few_wide(task.workload)]
    if wide and _fits(task.schema.shape, wide):
        yield ones + wide
    widest = max(int(block.positions.shape[1]) for block in goal.closure.blocks)
    for family in _families_over(tuple(task.schema.shape[i] for i in positions), widest):
        yield ones + [tuple(positions[i] for i in view) for view in family]


def _few_wide(workload: Workload) -> Sequence[tuple[str, ...]]:
    """The tables over more than one attribute, if there are so few that each may be a view."""
    wide = list(islice((table for table in workload.tables if len(table) > 1), _MOST_VIEWS + 1))
    return wide if len(wide) <= _MOST_VIEWS else []


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
    few = math.comb(d, cover) / math.comb(size, cover) <= _MOST_VIEWS
    return design_if_known(covering_design, d, size, cover) if few else ()


def _covering(sizes: Sequence[int], limit: int, cover: int) -> Sequence[tuple[int, ...]]:
    few = math.comb(len(sizes), cover) <= 200_000
    return design_if_known(covering_views, sizes, limit, cover) if few else ()
