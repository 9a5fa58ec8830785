"""Predictions: the range of a release's errors before anything is measured, and tables from the measurements so far.

How often values occur and how large interactions are is unknown beforehand. So the error after inference is computed
for values as skewed as the quartiles of real attributes and for interactions of two sizes, each time for what the plan
then measures. The middle of the range is the geometric mean of these four; its half-width is the root of the sum of
squares of three: that of the skews, that of the sizes, and the variation of one release with the error of this formula.

Let a cell of a table A have shares p_i of N rows, x = N prod p_i. A set B inside A of two or more attributes adds

    v t / (v + t)   with   v = prod(1 - 1/n_i, i in B) / P_B  prod(p_i^2, i in A but not B),
                           t = s_B^2 N^2 prod(g_i^2 p_i^2 / sum p_i^2, i in B)  prod(p_i^2, i in A but not B)

to its squared error: v is the noise of B, measured with precision P_B (infinite where it is not measured), and t the
square of the interaction (``view_shares``: of size s_B, in proportion to the cell), which is the error of predicting
it. An inference that knew both would weigh them like this; lower orders reach cells of larger tables in proportion to
their shares, as maximum entropy has it. The total and one-way tables add up to w, and w x^2 / (w + x^2) in a cell of x
rows.

``predicted_tables`` is the model with which ``adaptive`` chooses. A table that is covered by measurements is its
least-squares estimate in the residual basis. Any other starts from the product of its one-way tables and is raked to
the largest covered tables inside it (nearly maximum entropy, close enough to choose by). Cells below zero count as
zero, and every table has the same total.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from crosstally.plans.plan import Plan
from crosstally.residuals import Estimate
from crosstally.schema import Schema
from crosstally.strategies.goal import Goal, goal_of, known_variances
from crosstally.strategies.view_shares import Belief
from crosstally.typing import Floats

SKEWS = (1.0, 3.0)
"""The share of the k-th most frequent value is taken to be as 1 / k^a. Over the 36 attributes of FARS (16 columns) and
ACS, the a with the same sum of squared shares has the quartiles 1.2 and 3.4: here they are in whole numbers."""
SIZES = (0.5, 1.0)
"""Factors on the belief's sizes of interactions. Its mean squared sizes, .22^2 for pairs and .036^2 for triples, are
those of its heavy tail: with the true shares of values, FARS has about half of these sizes and ACS about all."""
SMALL_SIZES = (0.1, 0.5)
"""The same for wide schemas, whose large interactions are measured. Over the 1,128 pairs of a table of loans sizes have
a median of 0.010, a sixth of the belief's; chosen there, beside releases at epsilon 0.3 and 1."""
_NORMAL = 1.645  # standard deviations: 90% of a normal law lie within
_SPREADS = {True: 5.0, False: 2.0}
"""The variance of a squared noise over the square of its mean: 6 - 1 for Laplace noise, 3 - 1 for Gaussian."""
_FORMULA = 0.2
"""The error of the formula itself, as a standard deviation of the logarithm of the mean squared error. Beside three
releases each of three generated tables, FARS and ACS, pure and with delta, for two and three attributes, with the true
shares of values and sizes half way between SIZES, its RMS was off by a factor of exp(0.10), root mean square."""
_CELLS = 4_096
"""Cells sampled from each order, fewer above four attributes, which have more sets. Half as many change the
root mean square by 2%."""
_LEAST_CELLS = 64  # of tables over ten attributes and more


def skewed_shares(size: int, skew: float) -> Floats:
    """The shares of values, where the k-th value has 1 / k^skew of the rows of the first.

    >>> (11 * skewed_shares(3, 1)).round(6).tolist()
    [6.0, 3.0, 2.0]
    """
    shares = np.arange(1.0, size + 1) ** -skew
    return np.asarray(shares / shares.sum())


def likely_of_one_stage(plan: Plan, rows: int) -> Mapping[int, tuple[float, float]]:
    """The range for a plan without later stages; nothing where values are in groups or measured by a matrix."""
    if plan.matrices or plan.mixed or any(group.query.groups for group in plan.groups):
        return {}
    goal = goal_of(plan.schema, plan.workload)
    precision = known_variances(plan, goal.closure).precisions
    return likely_range(goal, lambda _: precision, rows, pure=plan.budget.pure)


def likely_range(
    goal: Goal, measured: Callable[[Belief], Floats], rows: int, *, pure: bool, sizes: tuple[float, float] = SIZES
) -> Mapping[int, tuple[float, float]]:
    """By number of attributes the ends of the likely RMS error of a cell.

    Args:
        goal: Its orders, and the tables of each.
        measured: The precision with which each set is known, where that is believed.
        rows: How many there are.
        pure: Whether noise is Laplace noise.
        sizes: Factors on the sizes of interactions that are not measured.
    """
    public = _public_shares(goal.closure.schema)
    logs, deviations = [], []  # of mean squared errors: (skews, sizes, orders) and (skews, orders)
    for skew in SKEWS:
        attributes = goal.closure.schema.attributes
        shares = [public.get(each.name, skewed_shares(each.size, skew)) for each in attributes]
        belief = Belief.of_one_ways(goal.closure, shares, rows)
        precision = measured(belief)
        of_sizes = (replace(belief, factors=belief.factors * size**2) for size in sizes)
        errors = [cell_errors(goal, each, precision, shares, rows) for each in of_sizes]
        logs.append(np.log(np.maximum(errors, 1e-300)))
        deviations.append(_deviation(goal, precision, pure=pure))
    middle, deviation = np.mean(logs, axis=(0, 1)), np.max(deviations, axis=0)
    of_skew, of_size = (np.ptp(np.mean(logs, axis=axis), axis=0) / 2 for axis in (1, 0))
    # The logarithm of something that varies is less on average than that of its mean, by half of its variance
    middle, reach = middle - deviation**2 / 2, np.sqrt(of_skew**2 + of_size**2 + (_NORMAL * deviation) ** 2)
    ends = (np.exp(each / 2).tolist() for each in (middle - reach, middle + reach))
    return dict(zip(goal.orders, zip(*ends, strict=True), strict=True))


def _public_shares(schema: Schema) -> dict[str, Floats]:
    """The shares of the values of attributes whose counts are public."""
    return {
        fact.attribute: np.array(fact.counts) / sum(fact.counts)
        for fact in schema.public_counts()
        if fact.attribute is not None and any(fact.counts)
    }


def _deviation(goal: Goal, precision: Floats, *, pure: bool) -> Floats:
    """The standard deviation of the logarithm of each order's mean squared error: over releases, and of the formula.

    The mean square of c independent numbers of one variance varies by sqrt(spread / c) of itself; c are the
    coefficients of a set.
    """
    coefficients = goal.closure.product(goal.closure.sizes - 1)
    noise = goal.weights * np.divide(1.0, precision, out=np.zeros_like(precision), where=precision > 0)
    parts = noise / np.maximum(noise.sum(axis=1, keepdims=True), 1e-300)
    squared = (parts**2 * (_SPREADS[pure] / np.maximum(coefficients, 1.0))).sum(axis=1)
    return np.asarray(np.sqrt(np.log1p(squared) + _FORMULA**2))


def cell_errors(goal: Goal, belief: Belief, precision: Floats, shares: Sequence[Floats], rows: float) -> Floats:
    """The mean squared error of a cell after inference, for each order (module docstring)."""
    rng = np.random.default_rng(0)
    return np.array([_order_error(goal, belief, precision, shares, rows, order, rng) for order in goal.orders])


def _order_error(  # noqa: PLR0917 (the arguments of cell_errors, and the order)
    goal: Goal,
    belief: Belief,
    precision: Floats,
    shares: Sequence[Floats],
    rows: float,
    order: int,
    rng: np.random.Generator,
) -> float:
    """Below, ``drawn`` has the attributes of each cell's table and ``values`` its values' shares: (cells, order)."""
    closure = goal.closure
    tables = closure.members[order][1]
    number = max(_LEAST_CELLS, _CELLS >> max(0, order - 4))
    drawn = tables[rng.integers(0, len(tables), number)]
    values = np.empty(drawn.shape)
    for i, own in enumerate(shares):
        values[drawn == i] = rng.choice(own, int((drawn == i).sum()))
    squares = np.array([float(own @ own) for own in shares])
    low, high, linear = np.zeros(number), np.zeros(number), np.zeros(number)
    for inside in _subsets(order):
        positions, outside = drawn[:, inside], np.prod(np.delete(values, inside, axis=1) ** 2, axis=1)
        places = closure.places_of(positions)
        own = np.prod(1 - 1 / closure.sizes[positions], axis=1) * _inverse(precision[places])
        noise = own * outside
        linear += own / np.prod(np.delete(closure.sizes[drawn], inside, axis=1) ** 2, axis=1)
        if len(inside) < 2:
            low += noise
            continue
        # The belief's scale is that of a coefficient: times their number that of the sum of squares over all cells
        size = belief.scale[places] * np.prod(closure.sizes[positions] - 1, axis=1)
        size = size * np.prod(values[:, inside] ** 2 / squares[positions], axis=1) * outside
        high += sum(weight * _weighed(noise, size * factor) for weight, factor in belief.mixture)
    total = high + _weighed(low, (rows * np.prod(values, axis=1)) ** 2)
    return float(min(total.mean(), linear.mean()))  # inference is not expected to be worse than least squares


def _subsets(number: int) -> list[list[int]]:
    return [list(each) for k in range(number + 1) for each in combinations(range(number), k)]


def _inverse(precision: Floats) -> Floats:
    return np.asarray(np.divide(1.0, precision, out=np.full(precision.shape, np.inf), where=precision > 0))


def _weighed(noise: Floats, square: Floats) -> Floats:
    """With v the noise and t the square, v t / (v + t), which is t for an infinite v, and zero where both are."""
    finite = np.where(np.isfinite(noise), noise, 0.0)
    part = np.divide(square, finite + square, out=np.zeros_like(square), where=finite + square > 0)
    return np.where(np.isfinite(noise), finite * part, square)


_SWEEPS = 10
"""How often a table is raked to all tables inside it. Only its distance from the truth matters, far above what is left
after ten."""


def predicted_tables(combined: Estimate, tables: Sequence[tuple[str, ...]], total: float) -> list[Floats]:
    """Each table as the measurements predict it, without negative cells; their one-way tables must be covered.

    Args:
        combined: What was measured.
        tables: The attributes of each, in the schema's order.
        total: The sum that each has.
    """
    needed = {part for names in tables for k in range(1, len(names) + 1) for part in combinations(names, k)}
    asked = sorted(needed)
    covered = [names for names, inside in zip(asked, combined.covered(asked), strict=True) if inside]
    known = {names: _scaled(table, total) for names, table in zip(covered, combined.tables(covered), strict=True)}
    return [known[names] if names in known else _raked(names, known, total) for names in tables]


def _scaled(table: Floats, total: float) -> Floats:
    """The table without what is below zero, with this total; the same everywhere if nothing is above."""
    above = np.maximum(table, 0.0)
    return above * (total / above.sum()) if above.sum() > 0 else np.full(table.shape, total / table.size)


def _raked(names: tuple[str, ...], known: dict[tuple[str, ...], Floats], total: float) -> Floats:
    table = np.array(total)
    for name in names:
        table = np.multiply.outer(table, known[(name,)] / total)
    margins = _largest_inside(names, known)
    if all(len(part) == 1 for part in margins) or len(margins) == 0:
        return table
    for _ in range(_SWEEPS):
        for part in margins:
            outside = tuple(axis for axis, name in enumerate(names) if name not in part)
            own = table.sum(axis=outside, keepdims=True)
            wanted = known[part].reshape(own.shape)
            table = table * np.divide(wanted, own, out=np.zeros_like(own), where=own > 0)
    return table


def _largest_inside(names: tuple[str, ...], known: dict[tuple[str, ...], Floats]) -> list[tuple[str, ...]]:
    """The covered tables inside a table that lie in no other such table."""
    largest: list[tuple[str, ...]] = []
    for k in range(len(names) - 1, 0, -1):
        largest += [
            part
            for part in combinations(names, k)
            if part in known and not any(set(part) <= set(larger) for larger in largest)
        ]
    return largest
