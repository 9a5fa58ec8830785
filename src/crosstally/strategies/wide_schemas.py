"""The second stage of a wide schema, under either noise: views over groups of values (``two-stage``).

Groups of the values of wide attributes, chosen by noisy counts that were measured earlier.

A group with few rows adds noise to every pair and says little; a group with many rows hides how its values differ. With
s the noise of a pair's cell (its standard deviation) and N rows, a group of about sqrt(2 s N) rows is taken: a pair of
two such groups holds, if they are independent, (2 s N) / N = 2 s rows, twice its noise.

Values that have an order, bins, are put together with their neighbours; labels, which have none, with those of nearly
the same count: the most frequent ones stay by themselves. The cells for other and missing values are no neighbours of
the last bin and stay by themselves.

Pairs on trial: how large the interactions of a wide table are, before the budget goes to all of its pairs.

The belief about interactions (``view_shares``) was made on tables of up to 32 attributes. Where hundreds of pairs share
a budget of Laplace noise, being wrong about it is dear: all pairs are measured and none can be told from its noise. So
each attribute is first measured with one other. Let T be such a table of counts, p (n_p values) and q (n_q) its shares
along both axes, N the number of people, v the variance of the noise of a cell, I the identity and 1 a vector of ones:

    R  =  T - (sum of T) p q'  =  (I - p 1') T (I - 1 q')

is what T has beyond independence. Noise adds v (n_p - 2 + n_p p'p)(n_q - 2 + n_q q'q) to its sum of squares on average
(v times the squared norms of both factors; to first order, as p and q are noisy too), so that is subtracted. The rest
over N^2 (1 - p'p)(1 - q'q) is the squared size of the interaction: 1 for two values that are each half and imply each
other, 1 / N for a sample of independent ones.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosstally.measurements import Measurement
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request
from crosstally.query.queries import Cells, Product
from crosstally.residuals import combine
from crosstally.residuals.variances import MOST_PRECISION, Closure
from crosstally.schema import Attribute, Schema
from crosstally.strategies.goal import Goal, goal_of, known_variances
from crosstally.strategies.strategy import Task, next_task
from crosstally.strategies.view_shares import (
    LARGE,
    MOST_CELLS,
    Belief,
    TableBudget,
    best_family,
    seen_one_ways,
    shares_of,
    shrunk_score,
    unshrunk_score,
)
from crosstally.typing import Floats

_MISSED = 0.05
"""Pairs are tried where the chance that no large interaction is among them, if there are as many as believed, is below
this. A pair is large with the chance LARGE = 1/6; (5/6)^16 = 0.054 and (5/6)^17 = 0.045, so from 33 attributes on. The
usual level of a test; 0.1 would be from 25, 0.02 from 43 attributes on."""


def trial_share(attributes: int) -> Fraction:
    """Of the budget of one-way tables and trial, what the trial gets: as much for each table; 0 for too few attributes.

    >>> trial_share(48), trial_share(32)
    (Fraction(1, 3), Fraction(0, 1))
    """
    tables = math.ceil(attributes / 2)
    return Fraction(tables, tables + attributes) if (1 - LARGE) ** tables < _MISSED else Fraction(0)


def trial_pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Each attribute with one other at random, the same ones each time; one attribute of an odd number comes twice."""
    order = np.random.default_rng(len(names)).permutation(len(names)).tolist()
    drawn = zip(order[::2], [*order[1::2], *order[:1]], strict=False)
    return [(names[min(pair)], names[max(pair)]) for pair in drawn]


def mean_square_size(tables: Sequence[Measurement], rows: float) -> float:
    """The mean squared size of the interactions of some pairs; no less than its standard error, nor than 1 / rows.

    Sampling alone makes it 1 / rows. An estimate below its standard error cannot be told from noise, and what nobody
    can tell may be there.
    """
    squares = np.array([_square_size(np.asarray(each.values, float), each.variance, rows) for each in tables])
    return max(float(squares.mean()), float(squares.std(ddof=1)) / math.sqrt(len(squares)), 1 / max(rows, 1.0))


def _square_size(table: Floats, variance: float, rows: float) -> float:
    shares = [shares_of(table.sum(axis=axis)) for axis in (1, 0)]
    beyond = table - table.sum() * np.multiply.outer(*shares)
    noise = variance * math.prod(len(p) - 2 + len(p) * float(p @ p) for p in shares)
    allowed = rows**2 * math.prod(max(1 - float(p @ p), 1 / max(rows, 1.0)) for p in shares)
    return (float((beyond**2).sum()) - noise) / allowed


_FEWEST = 2
"""A table of one group would tell nothing that the other attribute's own table does not."""

_FEWER = 1.25
"""By so much groups grow, again and again, until all pairs fit: cells fall by about a third each time."""


def rows_of_a_group(std_error: float, rows: float) -> float:
    """About how many rows a group should hold, given the noise of a pair's cell and the number of rows."""
    return math.sqrt(2 * std_error * max(rows, 1.0))


def value_groups(attribute: Attribute, counts: ArrayLike, rows_each: float) -> tuple[int, ...] | None:
    """The group of each value, so that groups hold about ``rows_each`` rows; None where each value stays by itself.

    Values are run through in order, and a group is closed as soon as it holds so many rows; what is left at the end
    goes to the last group. Counts below zero count as zero. There are at least two groups.

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
    if 0 < group == groups[-1]:  # what is left does not make a group of its own
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
        most_cells: Of all pairs together. Where even two groups of each attribute have more, that is what one gets.
        in_full: Attributes that keep all their values.
    """
    most_rows = max(float(_above_zero(counts[name]).sum()) for name in schema.names)
    while True:
        found = {a.name: value_groups(a, counts[a.name], rows_each) for a in schema.attributes if a.name not in in_full}
        sizes = [max(groups) + 1 if (groups := found.get(a.name)) else a.size for a in schema.attributes]
        out = {name: groups for name, groups in found.items() if groups is not None}
        cells = sum(a * b for a, b in combinations(sizes, 2))
        if cells <= most_cells or rows_each > most_rows:
            return out
        rows_each *= _FEWER


def is_wide(task: Task) -> bool:
    """Whether the pairs of the tables that matter have more cells than can be measured."""
    sizes = np.array(task.schema.sizes(task.workload.attributes(task.schema)), float)
    return bool((sizes.sum() ** 2 - (sizes**2).sum()) / 2 > MOST_CELLS)


def second_of_wide(task: Task, plan: Plan, seen: Sequence[Measurement]) -> Sequence[Request]:
    """Pairs on trial, if they come next; then views, by the belief or by what the trial says of interactions."""
    names = task.workload.attributes(task.schema)
    if len(plan.later) > 1:
        groups = groups_for(task, seen, in_full=_measured_together(plan))
        return next_task(plan).requests([_in_groups(pair, groups) for pair in trial_pairs(names)])
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
    return task.requests([_in_groups(small.names(view), groups) for view in best.views], best.shares)


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
