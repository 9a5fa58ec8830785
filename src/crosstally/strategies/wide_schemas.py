"""The later stages of ``two-stage`` for wide schemas, under either noise: a look, and pairs over groups of values.

Groups of values are chosen by noisy counts measured earlier. A group with few rows adds noise to every pair and little
information; a group with many rows hides how its values differ. With s the standard deviation of the noise of a pair's
cell and N rows, a group has about sqrt(2 s N) rows: a pair of two such groups holds, if they are independent,
(2 s N) / N = 2 s rows, twice its noise. Ordered values (bins) are grouped with their neighbours; labels, which have no
order, with those of nearly the same count, so that the most frequent ones stay single. The cells for other and missing
values are not neighbours of the last bin and stay single.

A look at the pairs (``look``) decides which of them are measured. It counts all pairs in groups that suit measuring all
of them; those that it picks are measured in groups of their own, which are smaller, since each pair gets more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosstally.budget import Budget
from crosstally.measurements import Chosen, Measurement
from crosstally.plans.request import Request
from crosstally.query.choice import Choice
from crosstally.query.queries import Cells, Product
from crosstally.residuals import combine
from crosstally.residuals.variances import MOST_PRECISION
from crosstally.schema import Attribute, Schema
from crosstally.strategies.goal import Goal, goal_of
from crosstally.strategies.look import choice_of_pairs, most_picks
from crosstally.strategies.strategy import Task
from crosstally.strategies.view_shares import (
    MOST_CELLS,
    Belief,
    TableBudget,
    best_family,
    best_shares,
    seen_one_ways,
)
from crosstally.typing import Floats

_FEWEST = 2
"""A table of one group would contain nothing beyond the other attribute's own table."""

_PARTS = 1000  # shares are fractions of at most this denominator
_LEAST_SHARE = 0.25
"""A picked pair gets at least this part of an equal share. The belief about all that was not picked is too high in wide
schemas, so that the noise of few pairs seems to matter little beside it, and some would not be measured."""

_FEWER = 1.25
"""Groups grow by this factor repeatedly until all pairs fit: cells fall by about a third each time."""


def rows_of_a_group(std_error: float, rows: float) -> float:
    """About how many rows a group should hold, given the noise of a pair's cell and the number of rows."""
    return math.sqrt(2 * std_error * max(rows, 1.0))


def value_groups(attribute: Attribute, counts: ArrayLike, rows_each: float) -> tuple[int, ...] | None:
    """The group of each value, so that groups hold about ``rows_each`` rows; None where each value stays by itself.

    Values are processed in order, and a group is closed as soon as it holds that many rows; the rest goes to the last
    group. Counts below zero count as zero. There are at least two groups.

    >>> ages = Attribute("age", edges=range(0, 90, 10), missing=True)
    >>> value_groups(ages, [5, 6, 20, 3, 3, 3, -2, 1, 4], rows_each=10)
    (0, 0, 1, 2, 2, 2, 2, 2, 3)
    """
    held = _above_zero(counts)
    bins = len(attribute.edges) - 1
    order = np.arange(bins) if attribute.edges else np.argsort(-held, kind="stable")
    alone = np.arange(len(order), attribute.size)
    groups = np.empty(attribute.size, np.intp)
    groups[order] = _closed(held[order], rows_each, at_least=_FEWEST - len(alone))
    groups[alone] = groups[order].max() + 1 + np.arange(len(alone))
    return None if groups.max() + 1 == attribute.size else tuple(groups.tolist())


def _above_zero(counts: ArrayLike) -> NDArray[np.float64]:
    return np.maximum(np.asarray(counts, np.float64), 0.0)


def _closed(held: NDArray[np.float64], rows_each: float, *, at_least: int) -> NDArray[np.intp]:
    """The group of each value of a row of them."""
    groups, group, rows = np.empty(len(held), np.intp), 0, 0.0
    for i, count in enumerate(held.tolist()):
        groups[i] = group
        rows += count
        if rows >= rows_each:
            group, rows = group + 1, 0.0
    if 0 < group == groups[-1]:  # the rest is not a separate group
        groups[groups == group] = group - 1
    if groups[-1] + 1 < at_least and len(held) > 1:  # all rows would be in one: two halves then
        half = int(np.searchsorted(np.cumsum(held), held.sum() / 2)) + 1
        groups[:] = np.arange(len(held)) >= min(half, len(held) - 1)
    return groups


def groups_of_all(
    schema: Schema,
    counts: Mapping[str, ArrayLike],
    *,
    rows_each: float,
    most_cells: int,
    in_full: Collection[str] = (),
) -> dict[str, tuple[int, ...]]:
    """The groups of all attributes that need them, so that all pairs together have at most ``most_cells`` cells.

    Args:
        schema: The attributes.
        counts: The noisy counts of the values of each.
        rows_each: How many rows a group should hold about; more where there would be too many cells.
        most_cells: Limit for all pairs together; exceeded if even two groups of each attribute have more cells.
        in_full: Attributes that keep all their values.
    """
    most_rows = max(float(_above_zero(counts[name]).sum()) for name in schema.names)
    while True:
        tried = {a.name: value_groups(a, counts[a.name], rows_each) for a in schema.attributes if a.name not in in_full}
        sizes = [max(groups) + 1 if (groups := tried.get(a.name)) else a.size for a in schema.attributes]
        out = {name: groups for name, groups in tried.items() if groups is not None}
        cells = sum(a * b for a, b in combinations(sizes, 2))
        if cells <= most_cells or rows_each > most_rows:
            return out
        rows_each *= _FEWER


def is_wide(task: Task) -> bool:
    """Whether the pairs of the tables that matter have more cells than can be measured."""
    sizes = np.array(task.schema.sizes(task.workload.attributes(task.schema)), float)
    return bool((sizes.sum() ** 2 - (sizes**2).sum()) / 2 > MOST_CELLS)


def choice_for_wide(task: Task, seen: Sequence[Measurement], look: Budget) -> Choice | None:
    """The look at the pairs, by noisy one-way tables; None where there are too few rows for it."""
    rows, shares = seen_one_ways(task.schema, seen)
    groups = groups_for(task, seen, pairs=math.comb(len(task.workload.attributes(task.schema)), 2))
    return choice_of_pairs(task, look, _shares_of_groups(task, groups, shares), rows, groups)


def last_of_wide(
    task: Task, seen: Sequence[Measurement], one_ways: Callable[[Budget], Sequence[Request]]
) -> Sequence[Request]:
    """The pairs that the look picked, if there was one, and one-way tables; nothing where these are all public.

    A look that found as many as it ever may tells that many pairs matter. Then views are measured as for other schemas.
    """
    names = task.workload.attributes(task.schema)
    picked = [table for each in seen if each.query.is_choice for table in Chosen.of(each).picked]
    exact = {fact.attribute for fact in task.schema.public_counts() if not fact.error}
    if not picked:
        return () if exact >= set(names) else one_ways(task.budget)
    linear = [each for each in seen if each.query.is_linear]
    combined = combine(task.schema, linear)
    variances = np.array([combined.variance((name,)) for name in names])
    in_full = {name for each in linear if len(each.query.attributes) > 1 for name in each.query.attributes}
    if len(picked) >= most_picks(len(names)):
        groups = groups_for(task, linear, pairs=math.comb(len(names), 2), in_full=in_full)
        return grouped_views(task, linear, groups, variances, None, one_ways=one_ways)
    groups = groups_for(task, linear, pairs=len(picked), in_full=in_full)
    return grouped_views(task, linear, groups, variances, picked, one_ways=one_ways)


def groups_for(
    task: Task, seen: Sequence[Measurement], *, pairs: int, in_full: Collection[str] = ()
) -> dict[str, tuple[int, ...]]:
    """Groups of values that hold enough rows to be distinguished from noise, when so many pairs share the budget.

    None for attributes that stay in full: a release counts all tables of several attributes in the same groups.
    """
    names = task.workload.attributes(task.schema)
    rows, shares = seen_one_ways(task.schema, seen)
    budget = TableBudget.of(task)
    noise = (budget.whole / pairs**budget.power) ** -0.5  # each with an equal share
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
    picked: Sequence[tuple[str, ...]] | None,
    *,
    one_ways: Callable[[Budget], Sequence[Request]],
) -> Sequence[Request]:
    """Pairs over groups of values, and one-way tables in full, which ``seen`` has with these variances.

    A pair that was picked is larger than its noise: it counts with its noise alone. All others are as believed. Where
    all matter (None), the family of views is measured that is best by this belief.
    """
    names = task.workload.attributes(task.schema)
    rows, shares = seen_one_ways(task.schema, seen)
    schema = task.schema.subset(*names)
    coarse = Schema([schema[name].grouped(groups[name]) if name in groups else schema[name] for name in names])
    small = replace(task, schema=replace(coarse, unit=task.schema.unit), asked=None)
    goal = goal_of(small.schema, small.workload)
    belief = Belief.of_one_ways(goal.closure, list(_shares_of_groups(task, groups, shares).values()), rows)
    known = _known_coarse(goal, variances, schema.sizes(names))
    if picked is None:
        best = best_family(small, goal, belief, known)
        return task.requests([_in_groups(small.names(view), groups) for view in best.views], best.shares)
    pairs = [tuple(schema.positions[name] for name in table) for table in picked]
    scale = belief.scale.copy()
    scale[goal.closure.places_of(np.array(pairs, np.intp))] = np.inf
    belief = replace(belief, scale=scale)
    views = [*((i,) for i in range(len(names))), *pairs]
    best = best_shares(goal, belief, views, TableBudget.of(small), already=known)
    found = dict(zip(best.views, best.shares, strict=True))
    given = [max(found.get(pair, 0.0), _LEAST_SHARE / len(views)) for pair in pairs]
    part = Fraction(min(math.fsum(given), 0.5)).limit_denominator(_PARTS)
    measured = task.part(part).requests([_in_groups(small.names(pair), groups) for pair in pairs], given)
    return (*measured, *one_ways(task.budget.part(1 - part)))


def _shares_of_groups(task: Task, groups: Mapping[str, tuple[int, ...]], shares: Sequence[Floats]) -> dict[str, Floats]:
    """The share of each group of values, by attribute; of each value where it has no groups."""
    out = {}
    for name in task.workload.attributes(task.schema):
        own = shares[task.schema.positions[name]]
        out[name] = np.asarray(np.bincount(groups.get(name, range(len(own))), own), np.float64)
    return out


def _in_groups(names: tuple[str, ...], groups: Mapping[str, tuple[int, ...]]) -> Product:
    return Cells(names, {name: groups[name] for name in names if name in groups}) if len(names) > 1 else Cells(names)


def _known_coarse(goal: Goal, variances: Floats, sizes: Sequence[int]) -> Floats:
    """The precision of a goal's sets over groups of values that full one-way tables give.

    A group adds up the noise of its values.
    """
    values = np.array(sizes, float)
    already = np.zeros(len(goal.closure))
    for places, positions in goal.closure.members[:2]:
        for place, position in zip(places, positions, strict=True):
            i = position[0] if len(position) else int(np.argmin(variances * values))
            already[place] = 1 / (variances[i] * values[i] / (goal.closure.sizes[i] if len(position) else 1.0))
    return np.minimum(already, MOST_PRECISION)
