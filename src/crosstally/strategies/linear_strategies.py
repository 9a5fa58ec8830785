"""Linear strategies: ordered attributes are measured by a matrix that suits what is asked along them (ICDE 2013).

Gaussian noise: for each attribute set B inside the workload's tables a Kronecker product of these matrices and of
residuals along the other attributes. With w_B what the variance of the coefficients of B counts for in the weighted sum
of all variances, and p_B the product of the largest squared columns, the best variances are proportional to
sqrt(p_B / w_B), and the least sum is (sum over B of sqrt(w_B p_B))^2 / (2 rho). Both factors are products over
attributes, so that no matrix over more than one attribute is ever built.

Laplace noise: each table of the workload by the Kronecker product of matrices and cells, budgets by the cube root.

Where only cells are asked these are the plans of ``Residual`` and, with Laplace noise, of ``Direct``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from crosstally.plans.plan import Plan
from crosstally.query.along import asked_along
from crosstally.query.queries import Cells, Contrast, Kronecker, Query
from crosstally.residuals.axes import Axes
from crosstally.residuals.variances import Closure, closure_of
from crosstally.strategies.matrices import MatrixAlong, gaussian_matrices, laplace_matrices
from crosstally.strategies.strategy import StrategyWithOptions, Task
from crosstally.typing import Floats
from crosstally.workload import Rows

Kind = Literal["optimal", "hierarchy", "wavelet", "prefixes", "cells"]
_SWEEPS = 2  # over the attributes, choosing a matrix for each: the second changes next to nothing


@dataclass(frozen=True, slots=True)
class LinearStrategies(StrategyWithOptions):
    """Measure the attributes for which ranges, prefixes or matrix rows are asked by matrices, the others by cells.

    Args:
        along: What is measured along these attributes: "optimal" finds a matrix for what is asked; "hierarchy",
            "wavelet", "prefixes" and "cells" are those of the papers.
    """

    along: Kind = "optimal"
    family: ClassVar[str] = "linear"

    def planned(self, task: Task) -> Plan:
        """A request for each attribute set inside the workload's tables, or with Laplace noise for each table."""
        asked = task.workload.along
        together = max(sum(name in dict(asked) for name in table) for table in task.workload.tables)
        choices = {
            name: _choices(along, task.schema[name].size, together, self.along, pure=task.budget.pure)
            for name, along in asked
            if any(name in table for table in task.workload.tables)
        }
        queries, shares = (_tables if task.budget.pure else _sets)(task, choices)
        return task.asking(self.name, queries, shares)


@lru_cache(maxsize=32)
def _choices(along: str | Rows, size: int, together: int, kind: Kind, *, pure: bool) -> tuple[MatrixAlong, ...]:
    """The matrices to choose from for what is asked along an attribute; attributes that are alike share them."""
    gram = asked_along(along, size).gram
    return tuple(laplace_matrices(gram, kind) if pure else gaussian_matrices(gram, together, kind))


def _tables(task: Task, choices: Mapping[str, Sequence[MatrixAlong]]) -> tuple[list[Query], list[float]]:
    """Each table of the workload, and shares for the least sum of the variances that each has by itself."""
    best = {name: min(each, key=_alone) for name, each in choices.items()}
    queries = [_query(table, best, residual=False) for table in task.workload.tables]
    sizes = dict(zip(task.schema.names, task.schema.shape, strict=True))
    sums = [
        weight * np.prod([_alone(best[name]) if name in best else sizes[name] for name in table])
        for table, weight in task.workload
    ]
    return queries, np.cbrt(sums).tolist()


def _alone(along: MatrixAlong) -> float:
    """The sum of variances along an attribute by Laplace noise of unit budget, up to a factor."""
    return along.cost**2 * (along.inside + along.outside / along.of_total)


def _sets(task: Task, choices: Mapping[str, Sequence[MatrixAlong]]) -> tuple[list[Query], list[float]]:
    """Each attribute set inside the workload's tables, and its share of the budget: sqrt(w_B p_B)."""
    closure = closure_of(task.schema, task.workload.tables)
    weights = np.array(task.workload.weights)
    best = _chosen(closure, weights, choices)
    shares = _roots(closure, weights, best)
    queries: list[Query] = []
    order = []
    for places, positions in closure.members:
        order.extend(places.tolist())
        queries.extend(_query(task.names(row), best, residual=True) for row in positions.tolist())
    return queries, shares[order].tolist()


def _chosen(closure: Closure, weights: Floats, choices: Mapping[str, Sequence[MatrixAlong]]) -> dict[str, MatrixAlong]:
    """For each attribute the matrix with which the sum of variances is least, one attribute after the other."""
    best = {name: each[0] for name, each in choices.items()}
    for _ in range(_SWEEPS):
        for name, each in choices.items():
            best[name] = min(each, key=lambda one: _roots(closure, weights, {**best, name: one}).sum())
    return best


def _roots(closure: Closure, weights: Floats, best: Mapping[str, MatrixAlong]) -> Floats:
    """For each set sqrt(w_B p_B): what is asked along an attribute is summed, not averaged."""
    sizes = closure.sizes
    outside, inside, costs = 1 / sizes, sizes - 1, 1 - 1 / sizes
    for name, each in best.items():
        i = closure.schema.positions[name]
        outside[i], inside[i], costs[i] = each.outside, each.inside, each.cost
    axes = replace(Axes.of(closure.schema), outside=outside, inside=inside)
    return np.sqrt(closure.weights(weights, axes) * closure.product(costs))


def _query(names: Sequence[str], best: Mapping[str, MatrixAlong], *, residual: bool) -> Query:
    matrices = {name: best[name].matrix for name in names if name in best}
    if matrices:
        return Kronecker(names, matrices)
    return Contrast(tuple(names)) if residual and names else Cells(names)
