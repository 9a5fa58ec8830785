"""Stepwise, the default: measure the total and one-way tables; these decide which others are worth their noise.

The first stage measures these with the share of the budget that they have in the goal, less that of a trial. Its noisy
result gives a prior for the size of every interaction (``belief``). The rest of the budget minimises the score that is
expected,

    score = exp(sum_k share_k log(E_k) / 2),    E_k = sum_B W_kB e_B(P_B),    e_B(P) = sum_j w_j / (P + 1 / s_Bj^2).

E_k is the mean squared error of a cell over the tables of k attributes, share_k their share of the goal, W_kB what the
coefficients of the set B of attributes count in it (``goal``). P_B is the precision of B after all stages, and s_Bj are
three sizes of its interaction, with the belief's weights w_j: an unmeasured set, P_B = 0, has the error of predicting.

Gaussian noise  over P_B >= first_B, the first stage's own, with sum_B cost_B (P_B - first_B) = rho: the slopes
                -sum_k share_k W_kB e_B'(P_B) / E_k are mu cost_B, one mu for all sets that are measured; most are not
                (``water_filling``: then the precisions of these are found again with e_B(P) = 1 / P, for inference
                may not shrink their noise, and sets are dropped that this makes worse than predicting)
Laplace noise   over several families of views V and their shares x_V of sum 1, with P_B = first_B + c sum over V that
                hold B of x_V^2 / (cells of V outside B), c the precision of a table with the whole budget
                (``view_shares``)
wide schemas    views over groups of values (``value_groups``), with x_V in the place of x_V^2 if noise is Gaussian. If
                it is Laplace, from 33 attributes on, some pairs are tried in between (``trial``): they correct the
                s_Bj, and families are then compared with e_B(P) = 1 / P for measured sets

A named table that is predicted better than it could be measured is not measured. ``next`` gets the plan and the
published measurements, never the data: choosing is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, islice
from typing import ClassVar

import numpy as np

from crosstally.budget import Budget
from crosstally.designs import covering_design, covering_views
from crosstally.errors import PlanError
from crosstally.measurements import Measurement
from crosstally.plans.goal import Goal, goal_of
from crosstally.plans.plan import Plan, Request, Rule, known_total
from crosstally.plans.request import GroupedRequests
from crosstally.plans.shares import requests_with_shares
from crosstally.plans.stages import first_share, part_of
from crosstally.questions.queries import Cells
from crosstally.residuals import combine
from crosstally.residuals.closure import Closure
from crosstally.schema import Schema
from crosstally.strategies.base import Strategy, Task
from crosstally.strategies.belief import Belief, known_sizes
from crosstally.strategies.likely import corrected_errors, zipf_shares
from crosstally.strategies.optimum import Optimum
from crosstally.strategies.residual import Residual, contrast_costs, contrasts_with_variances
from crosstally.strategies.rounds import following, next_budget
from crosstally.strategies.trial import mean_square_size, trial_pairs, trial_share
from crosstally.strategies.value_groups import groups_of_all, rows_of_a_group
from crosstally.strategies.view_shares import TableBudget, ViewShares, best_shares, unshrunk_score
from crosstally.strategies.water_filling import believed_precisions, best_precisions
from crosstally.typing import Floats
from crosstally.workload import Workload

__all__ = ["Stepwise"]

RULE_VERSION = 2
"""What ``next`` does with its parameters and what was measured. Approved plans rest on it, so both are run: under
Gaussian noise version 1 trusts inference to shrink the noise of every set (``water_filling``)."""

MOST_CELLS = 200_000
"""How many cells the second stage measures at most: drawing noise takes about 15 microseconds a cell and inference as
much again, so that a release takes seconds."""

_FEW_TABLES = 3  # named tables; see below
_WORTH_STAGES = 1.05
"""Up to so many named tables are measured at once if two stages would score more than 5% higher. More tables are never
all worth measuring without a look at the one-way tables."""

_MOST_VIEWS = 3_000  # limits time: a family of more views is not tried, such as all triples of 28 attributes
_MOST_SETS = 500_000
"""Families of views are tried as long as all sets of the goal, once for each, are fewer than this: some seconds. All
are, but for named tables over fourteen attributes and more; two are always."""
_BINARY_SIZES = (4, 6, 8, 10)  # attributes of a view; see below. PriView's own choice is 8
_CELL_LIMITS = (100, 316, 1_000, 3_162, 10_000)
"""Sizes of views to try: attributes of binary ones, cells of mixed ones, in half powers of ten."""
_COVERS = (2, 3, 4)  # attributes covered together, as in PriView: pairs, triples, quadruples; designs go no further
_STEP = 4
"""Precisions are rounded to so many steps for each doubling: sets alike then share one noise. That makes the expected
score of Adult, ACS and Kosarak 0.05% higher."""


@dataclass(frozen=True, slots=True)
class Stepwise(Strategy):
    """Measure the total and one-way tables, then those larger tables that are worth their noise."""

    name: ClassVar[str] = "stepwise"

    @property
    def weighs(self) -> bool:
        """Its plan depends on the tables, not on their weights."""
        return False

    def planned(self, task: Task) -> Plan:
        """Requests for the one-way tables, and the rule of the second stage; or all at once where that is better.

        A few tables that are measured in any case need no first stage to choose them.
        """
        goal = goal_of(task.schema, task.asked)
        if len(goal.shares) == 1:
            return task.planned(self.name, _one_ways(task, task.budget))
        rules = _rules(task, goal)
        staged = task.planned(self.name, _one_ways(task, part_of(task.budget, first_share(rules))), later=rules)
        if task.asked is None or len(task.asked) > _FEW_TABLES:
            return staged
        at_once = task.planned(self.name, _second(task, goal, known_sizes(goal.closure), np.zeros(len(goal.closure))))
        scores = [_score(goal, plan) for plan in (at_once, self.outlook(staged))]
        return at_once if scores[0] * _WORTH_STAGES < scores[1] else staged

    def next(self, plan: Plan, seen: Sequence[Measurement]) -> Plan | None:
        """What the one-way tables say is worth measuring."""
        goal = _goal(plan)
        task = Task(plan.schema, plan.workload, budget=plan.budget_left, neighbours=plan.neighbours)
        if _is_wide(task):
            return following(plan, _second_of_wide(task, plan, seen))
        rows, shares = _seen(plan.schema, seen)
        belief = Belief.of_one_ways(goal.closure, shares, rows)
        version = plan.later[0].version
        return task.planned(self.name, _second(task, goal, belief, _known(goal, plan), version=version))

    def outlook(self, plan: Plan) -> Plan:
        """What both stages measure if every table of the workload, or of one and two attributes, is worth measuring.

        It covers them, so their errors are known before anything is spent. Real data rarely need all of it: what
        is left out makes the rest more precise. Of a wide schema, whose groups are not known, the first stage only.
        """
        if not plan.later or _is_wide(Task(plan.schema, plan.workload, budget=plan.budget, neighbours=plan.neighbours)):
            return plan
        goal = goal_of(plan.schema, plan.workload)
        task = Task(plan.schema, plan.workload, budget=plan.budget_left, neighbours=plan.neighbours)
        second = _second(task, goal, known_sizes(goal.closure), _known(goal, plan))
        return replace(plan, requests=(*plan.requests, *second), later=())

    def likely_errors(self, plan: Plan, rows: int) -> Mapping[int, tuple[float, float]]:
        """The errors from small interactions of values that follow Zipf's law, to those of other tables' size.

        The upper end takes interactions as large as on other tables, and values to be equally frequent; the lower end
        their 10% quantile. Releases of Adult, ACS and FARS are at the lower end or below it in pairs
        (docs/concepts/advice.md). Of a wide schema, whose groups are not known, nothing.
        """
        task = Task(plan.schema, plan.workload, budget=plan.budget_left, neighbours=plan.neighbours)
        if _is_wide(task):
            return {}
        goal, known = _goal(plan), _known(_goal(plan), plan)

        def expected(belief: Belief) -> Floats:
            second = task.planned(self.name, _second(task, goal, belief, known))
            return goal.errors(belief.errors(known + _known(goal, second)))

        equal, skewed = ([make(size) for size in plan.schema.shape] for make in (_equal_shares, zipf_shares))
        high = expected(Belief.of_one_ways(goal.closure, equal, rows))
        low = expected(Belief.of_one_ways(goal.closure, skewed, rows).at_low_sizes())
        low = np.minimum(corrected_errors(goal, low, skewed, rows), high)
        ends = zip(np.sqrt(low).tolist(), np.sqrt(high).tolist(), strict=True)
        return dict(zip(goal.orders, ends, strict=True))


def _equal_shares(size: int) -> Floats:
    return np.full(size, 1 / size)


def _rules(task: Task, goal: Goal) -> tuple[Rule, ...]:
    """One for the second stage. A trial before it takes its share from the one-way tables."""
    ones = Fraction(float(goal.shares[0])).limit_denominator(1000)
    named = task.asked is not None
    rule = Rule(Stepwise.name, RULE_VERSION, parameters={"named": named}, share=1 - ones)
    part = trial_share(len(task.workload.attributes(task.schema))) if task.budget.pure and _is_wide(task) else 0
    if not part:
        return (rule,)
    parameters = {"named": named, "trial": True}
    return tuple(replace(rule, parameters=parameters, share=share) for share in (ones * part, rule.share))


def _goal(plan: Plan) -> Goal:
    """What the second stage is for: the named tables, or all."""
    return goal_of(plan.schema, plan.workload if plan.later[0].parameters["named"] else None)


def _second(
    task: Task, goal: Goal, belief: Belief, already: Floats, *, version: int = RULE_VERSION
) -> Sequence[Request]:
    """What to measure with the task's budget, when each set is known with some precision already."""
    if task.budget.pure:
        return _views(task, goal, belief, already)
    return _contrasts(task, goal, belief, already, believed_precisions if version == 1 else best_precisions)


def _score(goal: Goal, plan: Plan) -> float:
    return goal.score(goal.errors(plan.variances_of(goal.closure).of_sets))


# The first stage


def _one_ways(task: Task, budget: Budget) -> Sequence[Request]:
    """The total and the one-way tables; each counts by the mean variance of its cells.

    Under Laplace noise, where a table costs the same whatever its cells, small attributes are measured together: the 17
    binary ones of MSNBC in five tables of three and one of two, for 0.71 of the error that a table each has.
    """
    names = task.workload.attributes(task.schema)
    tables = [(), *((name,) for name in names)]
    weights = [1 / math.prod(task.schema.sizes(table)) for table in tables]
    strategy = Optimum() if budget.pure else Residual()
    return strategy.plan(task.schema, Workload(tables, weights), budget, neighbours=task.neighbours).requests


def _known(goal: Goal, plan: Plan) -> Floats:
    """The precision with which a plan's own requests measure each set of the goal."""
    variances = plan.variances_of(goal.closure).of_sets
    return np.where(np.isnan(variances), 0.0, 1 / variances)


def _seen(schema: Schema, seen: Sequence[Measurement]) -> tuple[float, list[Floats]]:
    """The number of rows, and the shares of each attribute's values; equal ones where nothing was measured."""
    combined = combine(schema, seen)
    public = known_total(seen)
    rows = max(float(combined.table(())) if public is None else public, 1.0)
    shares = []
    for name in schema.names:
        table = np.maximum(combined.table((name,)), 0.0) if combined.covers((name,)) else np.ones(schema[name].size)
        shares.append(table / table.sum() if table.sum() > 0 else np.full(len(table), 1 / len(table)))
    return rows, shares


# The second stage under Gaussian noise


def _contrasts(
    task: Task, goal: Goal, belief: Belief, already: Floats, precisions: Callable[..., Floats]
) -> Sequence[Request]:
    costs = contrast_costs(goal.closure, task.neighbours)
    amount = float(task.budget.amount)
    bought = precisions(goal, belief, costs, amount, already=already, most_cells=MOST_CELLS)
    with np.errstate(divide="ignore"):
        variances = 1 / np.exp2(np.round(np.log2(bought) * _STEP) / _STEP)
    return GroupedRequests(
        task.schema, contrasts_with_variances(goal.closure, costs, variances, task.budget, task.neighbours)
    )


# The second stage under Laplace noise


def _views(task: Task, goal: Goal, belief: Belief, already: Floats) -> Sequence[Request]:
    best = _best_views(task, goal, belief, already)
    queries = [Cells(task.names(view)) for view in best.views]
    return requests_with_shares(queries, best.shares, task.schema, task.budget, task.neighbours)


def _best_views(task: Task, goal: Goal, belief: Belief, already: Floats, *, shrunk: bool = True) -> ViewShares:
    """The family with the lowest expected score, with its shares; ``shrunk`` if inference shrinks noise as it can."""
    budget = TableBudget.of(task)
    families = islice(_families(task, goal), max(2, _MOST_SETS // len(goal.closure)))
    found = (best_shares(goal, belief, views, budget, already=already) for views in families)
    if shrunk:
        return min(found, key=lambda each: each.score)
    return min(found, key=lambda each: unshrunk_score(goal, belief, each, budget, already=already))


def _families(task: Task, goal: Goal) -> Iterator[Sequence[tuple[int, ...]]]:
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


# The second stage of a wide schema, under either noise


def _is_wide(task: Task) -> bool:
    """Whether the pairs of the tables that matter have more cells than can be measured."""
    sizes = np.array(task.schema.sizes(task.workload.attributes(task.schema)), float)
    return bool((sizes.sum() ** 2 - (sizes**2).sum()) / 2 > MOST_CELLS)


def _second_of_wide(task: Task, plan: Plan, seen: Sequence[Measurement]) -> Sequence[Request]:
    """Pairs on trial, if they come next; then views, by the belief or by what the trial says of interactions."""
    names = task.workload.attributes(task.schema)
    if len(plan.later) > 1:
        groups, own = _value_groups(task, plan, seen), next_budget(plan)
        queries = [_in_groups(pair, groups) for pair in trial_pairs(names)]
        return requests_with_shares(queries, [1.0] * len(queries), task.schema, own, task.neighbours)
    if "trial" not in plan.later[0].parameters:
        variances = plan.variances_of(Closure(plan.schema, tuple((name,) for name in names))).of_tables
        return _grouped_views(task, seen, _value_groups(task, plan, seen), variances)
    number = len(trial_pairs(names))
    first, trial = seen[:-number], seen[-number:]
    groups = {name: of for each in trial if isinstance(each.query, Cells) for name, of in each.query.groups}
    combined = combine(task.schema, first)
    variances = np.array([combined.variance((name,)) for name in names])
    return _grouped_views(task, first, groups, variances, trial=trial)


def _value_groups(task: Task, plan: Plan, seen: Sequence[Measurement]) -> dict[str, tuple[int, ...]]:
    """Groups of values that hold enough rows to be told from noise."""
    names = task.workload.attributes(task.schema)
    rows, shares = _seen(task.schema, seen)
    budget = TableBudget.of(task)
    noise = (budget.whole / math.comb(len(names), 2) ** budget.power) ** -0.5  # of all pairs, each with an equal share
    return groups_of_all(
        task.schema.subset(*names),
        {name: rows * shares[task.schema.positions[name]] for name in names},
        rows_each=rows_of_a_group(noise, rows),
        most_cells=MOST_CELLS,
        in_full=_measured_together(plan),
    )


def _grouped_views(
    task: Task,
    seen: Sequence[Measurement],
    groups: Mapping[str, tuple[int, ...]],
    variances: Floats,
    trial: Sequence[Measurement] = (),
) -> Sequence[Request]:
    """Views over groups of values; one-way tables, which ``seen`` has with these variances, stay in full."""
    names = task.workload.attributes(task.schema)
    rows, shares = _seen(task.schema, seen)
    schema = task.schema.subset(*names)
    coarse = Schema([schema[name].grouped(groups[name]) if name in groups else schema[name] for name in names])
    small = replace(task, schema=replace(coarse, unit=task.schema.unit), asked=None)
    goal = goal_of(small.schema, small.workload)
    counts = {name: rows * shares[task.schema.positions[name]] for name in names}
    held = [
        np.asarray(np.bincount(groups.get(name, range(schema[name].size)), counts[name]) / max(rows, 1.0), np.float64)
        for name in names
    ]
    belief = Belief.of_one_ways(goal.closure, held, rows)
    if trial:
        belief = belief.with_pairs_of(mean_square_size(trial, rows))
    best = _best_views(small, goal, belief, _known_coarse(goal, variances, schema.sizes(names)), shrunk=not trial)
    queries = [_in_groups(small.names(view), groups) for view in best.views]
    return requests_with_shares(queries, best.shares, task.schema, task.budget, task.neighbours)


def _measured_together(plan: Plan) -> set[str]:
    """The attributes that the first stage measures with others: a release counts all such tables in the same groups."""
    return {name for request in plan.requests for name in request.query.attributes if len(request.query.attributes) > 1}


def _in_groups(names: tuple[str, ...], groups: Mapping[str, tuple[int, ...]]) -> Cells:
    return Cells(names, {name: groups[name] for name in names if name in groups}) if len(names) > 1 else Cells(names)


def _known_coarse(goal: Goal, variances: Floats, sizes: Sequence[int]) -> Floats:
    """The precision with which one-way tables in full tell the sets of a goal about groups of their values.

    A group adds up the noise of its values.
    """
    values = np.array(sizes, float)
    already = np.zeros(len(goal.closure))
    for places, positions in goal.closure.members[:2]:
        for place, position in zip(places, positions, strict=True):
            i = position[0] if len(position) else int(np.argmin(variances * values))
            already[place] = 1 / (variances[i] * values[i] / (goal.closure.sizes[i] if len(position) else 1.0))
    return already


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
