"""Residual: the optimal plan with Gaussian noise, each attribute set's residual measured by itself on whole numbers.

The variance of a cell is a weighted sum of the variances of the residuals inside its table, and the cost of a residual
is a constant over its variance, so the best budgets have a closed form (ResidualPlanner, Xiao et al. 2023).

For the largest of several objectives under several constraints, ``balanced`` finds the best variances with a
certificate. It minimises the largest of sum_B C_tB v_B over tables t, where each sum_B A_DB / v_B must stay within the
budget. For any weights of tables and constraints, c = sum of weighted C and a = sum of weighted A, no solution is below
(sum_B sqrt(c_B a_B))^2, which is concave in the weights; v_B = sqrt(a_B / c_B) attains it when the weights are best.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Budget, Neighbours
from crosstally.errors import PlanError
from crosstally.plans.plan import Plan
from crosstally.plans.request import GroupedRequests, RequestGroup
from crosstally.query.operators import contrast_variance
from crosstally.query.queries import Cells, Contrast, Query
from crosstally.residuals.variances import Closure, closure_of
from crosstally.strategies.strategy import StrategyWithOptions, Task, least_noise, with_less_noise
from crosstally.typing import Floats

# Limits memory: 32 MB of constraints. Beyond it one constraint, which bounds them all, takes their place.
_MAX_ENTRIES = 2**22
_MOST_REPLACED = 16  # a limit: constraints are all sets of attributes that a replaced row may change, 2^16
# Limits time: steps end at the goal below. If they end here, the certificate says how far the optimum may be.
_STEPS = 3000
# The part by which the largest objective may be above the optimum: no table is planned 0.02% worse than possible.
_GOAL = 2e-4


@dataclass(frozen=True, slots=True, eq=False)
class Balance:
    """Variances up to a common factor, and how far above the least possible value they can be, in proportion."""

    variances: Floats
    gap: float


def balanced(
    constraints: Floats, *, weigh: Callable[[Floats], Floats], values: Callable[[Floats], Floats], tables: int
) -> Balance:
    """Variances that minimise the largest value under the worst constraint.

    Each step multiplies the weights by the squares of what they weigh, which never lowers the bound: the square root
    of a sum is at least the sum of roots in any proportions, with equality at the present ones.

    Args:
        constraints: A row for each: what one over the variance of each set costs. Columns of zeros are free.
        weigh: The weight of each set's variance, from the weights of the tables.
        values: The value of each table, from the variances of the sets.
        tables: How many there are.
    """
    table_weights = np.full(tables, 1 / tables)
    constraint_weights = np.full(len(constraints), 1 / len(constraints))
    best = Balance(np.ones(constraints.shape[1]), np.inf)
    for _ in range(_STEPS):
        c, a = weigh(table_weights), constraint_weights @ constraints
        variances = np.sqrt(a / np.maximum(c, 1e-300))
        found, spent = values(variances), constraints @ _inverse(variances)
        bound = float(np.sqrt(c * a).sum()) ** 2
        gap = float(found.max() * spent.max() / bound - 1) if bound else 0.0
        if gap < best.gap:
            best = Balance(variances, gap)
        if gap <= _GOAL:
            break
        table_weights = _reweighted(table_weights, found)
        constraint_weights = _reweighted(constraint_weights, spent)
    return best


def _inverse(variances: Floats) -> Floats:
    return np.where(variances > 0, 1 / np.maximum(variances, 1e-300), 0.0)


def _reweighted(weights: Floats, values: Floats) -> Floats:
    if len(weights) == 1:
        return weights
    changed = np.maximum(weights * (values / values.max()) ** 2, 1e-15 / len(weights))
    return np.asarray(changed / changed.sum())


def replacement_costs(closure: Closure) -> Floats | None:
    """For each set of changed attributes (a row) what one over the variance of each set costs; None if too many.

    A row that changes in D moves the coefficients of B by 2 (p_B - q_B) in squared length, p_B = prod(1 - 1/n_i) and
    q_B the same product with -1/n_i for each attribute that changes.
    """
    used = np.unique(np.concatenate([positions.ravel() for _, positions in closure.members]))
    if len(used) > _MOST_REPLACED or 2 ** len(used) * len(closure) > _MAX_ENTRIES:
        return None
    changed = (np.arange(1, 2 ** len(used))[:, None] >> np.arange(len(used))) & 1
    sizes = closure.sizes[used]
    factors = np.where(changed, -1 / sizes, 1 - 1 / sizes)
    place = np.zeros(len(closure.sizes), np.intp)
    place[used] = np.arange(len(used))
    out = np.empty((len(changed), len(closure)))
    for places, positions in closure.members:
        out[:, places] = -factors[:, place[positions]].prod(axis=2)
    whole = closure.product(1 - 1 / closure.sizes)
    out += whole
    if closure.schema.may_drop:
        out = np.concatenate([out, whole[None, :] / 2])
    return closure.schema.max_rows**2 * np.maximum(out, 0.0)


TOLERANCE = 1e-3
"""How far above the least possible value an objective without a closed form may end, in proportion."""

# Shares of a budget are whole numbers of 1/2^60 of it, rounded down: their sum is exact, and each is a fraction.
_UNITS = 2**60
# Left over, so that shares rounded to whole units (at least one each) cannot add up to more than the budget.
_MARGIN = 1 - 2.0**-36


@dataclass(frozen=True, slots=True)
class Residual(StrategyWithOptions):
    """Measure the residual of every attribute set inside the workload's tables, with discrete Gaussian noise.

    Args:
        objective: "sum" minimises the weighted sum of the variances of all cells; "max" the largest, over tables, of
            weight times variance, to one part in a thousand.
    """

    objective: Literal["sum", "max"] = "sum"
    family: ClassVar[str] = "residual"

    def planned(self, task: Task) -> Plan:
        """A request for each attribute set inside the workload's tables."""
        if task.budget.pure:
            raise PlanError(
                f"{self.name} adds Gaussian noise, which a pure epsilon cannot pay; give rho, or epsilon and delta"
            )
        closure = closure_of(task.schema, task.workload.tables)
        costs = contrast_costs(closure, task.neighbours)
        weights = np.array(task.workload.weights)
        best = best_variances(closure, weights, costs, task.neighbours, objective=self.objective)
        if best.gap > TOLERANCE:
            warnings.warn(
                f"the variances of {self.name} may be {best.gap:.1%} above the least possible; use the objective sum",
                RuntimeWarning,
                stacklevel=3,
            )
        groups = contrasts_with_variances(closure, costs, best.variances, task.budget, task.neighbours)
        return task.planned(self.name, GroupedRequests(task.schema, groups))


def best_variances(
    closure: Closure, weights: Floats, costs: Floats, neighbours: Neighbours | str, *, objective: Literal["sum", "max"]
) -> Balance:
    """The best variance of the coefficients of each attribute set, up to a common factor.

    Args:
        closure: The attribute sets of the workload.
        weights: Weights of its tables.
        costs: Cost of each set by itself: rho times variance.
        neighbours: Under replacement, sets cost less together than the sum of what each costs.
        objective: See ``Residual``.
    """
    if Neighbours(neighbours) == Neighbours.REPLACE and (joint := replacement_costs(closure)) is not None:
        rows = joint
    else:
        rows = costs[None, :]
    if objective == "sum":
        whole = closure.weights(weights * closure.cells())
        return balanced(rows, weigh=lambda _: whole, values=lambda v: np.array([whole @ v]), tables=1)
    return balanced(
        rows,
        weigh=lambda shares: closure.weights(shares * weights),
        values=lambda v: weights * closure.table_variances(v),
        tables=len(weights),
    )


def contrast_costs(closure: Closure, neighbours: Neighbours | str) -> Floats:
    """For each set rho times the variance of its coefficients: prod(1 - 1/n_i) / 2 when one row is added."""
    if Neighbours(neighbours) == Neighbours.ADD_REMOVE:
        return closure.schema.max_rows**2 * closure.product(1 - 1 / closure.sizes) / 2
    out = np.empty(len(closure))
    for places, positions in closure.members:
        for rows, query in alike(closure, positions):
            squared = query.sensitivity(closure.schema, neighbours).l2_squared
            out[places[rows]] = squared / 2 * contrast_variance(closure.schema.sizes(query.attributes))
    return out


def alike(
    closure: Closure, positions: NDArray[np.intp], numbers: NDArray[np.intp] | None = None
) -> list[tuple[NDArray[np.intp], Query]]:
    """Rows of attribute sets of one shape (and number, if they have any), and the query of the first."""
    labels = np.zeros(len(positions), np.intp) if numbers is None else numbers
    for column in positions.T:
        sizes = closure.sizes[column].astype(np.int64)
        labels = np.unique(labels * (int(sizes.max()) + 1) + sizes, return_inverse=True)[1]
    order = np.argsort(labels, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    names = closure.schema.names
    queries: list[Query] = []
    for rows in groups:
        first = tuple(names[i] for i in positions[rows[0]])
        queries.append(Contrast(first) if first else Cells(()))
    return list(zip(groups, queries, strict=True))


def contrasts_with_variances(
    closure: Closure, costs: Floats, variances: Floats, budget: Budget, neighbours: Neighbours
) -> list[RequestGroup]:
    """Requests with these variances, all scaled so that together they cost no more than the budget, exactly.

    A set of infinite variance is not measured.
    """
    schema = closure.schema
    shares = np.divide(costs, variances, out=np.zeros_like(costs), where=costs > 0)
    units = np.maximum(_rounded_down(shares / shares.sum() * _MARGIN) * _UNITS, 1.0) if shares.any() else shares
    distinct, numbers = np.unique(units, return_inverse=True)
    out = []
    for all_places, all_positions in closure.members:
        finite = np.isfinite(variances[all_places])
        places, positions = all_places[finite], all_positions[finite]
        if not len(places):
            continue
        for rows, query in alike(closure, positions, numbers[places]):
            sensitivity = query.sensitivity(schema, neighbours)
            part = budget.amount * Fraction(int(distinct[numbers[places[rows[0]]]]), _UNITS)
            out.append(RequestGroup(query, least_noise(sensitivity, part, currency=budget.currency), positions[rows]))
    return out if Neighbours(neighbours) == Neighbours.ADD_REMOVE else with_less_noise(out, schema, budget, neighbours)


def _rounded_down(shares: Floats) -> Floats:
    """To 33 binary digits, so that shares which differ by rounding alone are one."""
    mantissa, exponent = np.frexp(shares)
    return np.asarray(np.ldexp(np.floor(mantissa * 2.0**33) / 2.0**33, exponent))
