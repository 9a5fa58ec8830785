"""The best variances of residuals for the largest of several objectives under several constraints, with a certificate.

Minimise the largest of sum_B C_tB v_B over tables t, where each sum_B A_DB / v_B must stay within the budget. For any
weights of tables and constraints, c = sum of weighted C and a = sum of weighted A, no solution is below
(sum_B sqrt(c_B a_B))^2, which is concave in the weights; v_B = sqrt(a_B / c_B) attains it when the weights are best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crosstally.residuals.closure import Closure
from crosstally.typing import Floats

__all__ = ["Balance", "balanced", "replacement_costs"]

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
