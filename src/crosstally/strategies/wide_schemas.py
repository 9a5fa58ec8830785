"""The second stage of a wide schema, under either noise: views over groups of values (``stepwise``)."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from crosstally.measurements import Measurement
from crosstally.plans.plan import Plan, Request
from crosstally.query.queries import Cells, Product
from crosstally.residuals import combine
from crosstally.residuals.closure import Closure
from crosstally.residuals.variances import MOST_PRECISION
from crosstally.schema import Schema
from crosstally.strategies.base import Task
from crosstally.strategies.belief import Belief, seen_one_ways
from crosstally.strategies.forecast import known_variances
from crosstally.strategies.goal import Goal, goal_of
from crosstally.strategies.rounds import next_budget
from crosstally.strategies.shares import requests_with_shares
from crosstally.strategies.trial import mean_square_size, trial_pairs
from crosstally.strategies.value_groups import groups_of_all, rows_of_a_group
from crosstally.strategies.view_families import MOST_CELLS, best_family
from crosstally.strategies.view_shares import TableBudget, shrunk_score, unshrunk_score
from crosstally.typing import Floats

__all__ = ["grouped_views", "groups_for", "is_wide", "second_of_wide"]


def is_wide(task: Task) -> bool:
    """Whether the pairs of the tables that matter have more cells than can be measured."""
    sizes = np.array(task.schema.sizes(task.workload.attributes(task.schema)), float)
    return bool((sizes.sum() ** 2 - (sizes**2).sum()) / 2 > MOST_CELLS)


def second_of_wide(task: Task, plan: Plan, seen: Sequence[Measurement]) -> Sequence[Request]:
    """Pairs on trial, if they come next; then views, by the belief or by what the trial says of interactions."""
    names = task.workload.attributes(task.schema)
    if len(plan.later) > 1:
        groups, own = groups_for(task, seen, in_full=_measured_together(plan)), next_budget(plan)
        queries = [_in_groups(pair, groups) for pair in trial_pairs(names)]
        return requests_with_shares(queries, [1.0] * len(queries), task.schema, own, task.neighbours)
    if "trial" not in plan.later[0].parameters:
        closure = Closure(plan.schema, tuple((name,) for name in names))
        known = known_variances(plan, closure)
        groups = groups_for(task, seen, in_full=_measured_together(plan))
        return grouped_views(task, seen, groups, known.of_tables)
    number = len(trial_pairs(names))
    first, trial = seen[:-number], seen[-number:]
    groups = {name: of for each in trial for name, of in each.query.groups}
    combined = combine(task.schema, first)
    variances = np.array([combined.variance((name,)) for name in names])
    return grouped_views(task, first, groups, variances, trial=trial)


def groups_for(task: Task, seen: Sequence[Measurement], *, in_full: Collection[str] = ()) -> dict[str, tuple[int, ...]]:
    """Groups of values that hold enough rows to be told from noise; not of attributes that stay in full."""
    names = task.workload.attributes(task.schema)
    rows, shares = seen_one_ways(task.schema, seen)
    budget = TableBudget.of(task)
    noise = (budget.whole / math.comb(len(names), 2) ** budget.power) ** -0.5  # of all pairs, each with an equal share
    return groups_of_all(
        task.schema.subset(*names),
        {name: rows * shares[task.schema.positions[name]] for name in names},
        rows_each=rows_of_a_group(noise, rows),
        most_cells=MOST_CELLS,
        in_full=in_full,
    )


def grouped_views(
    task: Task,
    seen: Sequence[Measurement],
    groups: Mapping[str, tuple[int, ...]],
    variances: Floats,
    trial: Sequence[Measurement] = (),
) -> Sequence[Request]:
    """Views over groups of values; one-way tables, which ``seen`` has with these variances, stay in full."""
    names = task.workload.attributes(task.schema)
    rows, shares = seen_one_ways(task.schema, seen)
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
    known = _known_coarse(goal, variances, schema.sizes(names))
    best = best_family(small, goal, belief, known, score=unshrunk_score if trial else shrunk_score)
    queries = [_in_groups(small.names(view), groups) for view in best.views]
    return requests_with_shares(queries, best.shares, task.schema, task.budget, task.neighbours)


def _measured_together(plan: Plan) -> set[str]:
    """The attributes that the first stage measures with others: a release counts all such tables in the same groups."""
    return {name for request in plan.requests for name in request.query.attributes if len(request.query.attributes) > 1}


def _in_groups(names: tuple[str, ...], groups: Mapping[str, tuple[int, ...]]) -> Product:
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
    return np.minimum(already, MOST_PRECISION)
