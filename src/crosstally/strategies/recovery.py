"""Budgets for a strategy and recovery of the queries from it (ICDE 2013, section III): Q = R S, on plain arrays.

A row r of the strategy that gets the budget e_r is answered with noise of variance 2 / e_r^2 (Laplace) or v / e_r^2
(Gaussian). Budgets are spent for every cell j: sum |S_rj| e_r <= amount, or sum S_rj^2 e_r^2 <= amount^2. With Laplace
noise the amount is epsilon. With Gaussian noise it is sqrt(2 rho) and v = 1, or as in the paper epsilon and
v = 2 log(2 / delta). This is for rows that come or go; when a row is replaced, halve the amount (proposition 3.1).
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from crosstally.budget import NoiseKind
from crosstally.errors import CrosstallyError, PlanError, must_be_one_of
from crosstally.strategies.clustered import greedy_groups, is_consistent
from crosstally.typing import Floats

# Queries that the strategy does not determine are refused: what differs by less is rounding of the pseudo-inverse.
_TOLERANCE = 1e-8
# The program for budgets must reach its own bound to this part: otherwise it is refused, never used half solved.
_GAP = 1e-6


def _is_laplace(kind: NoiseKind | str) -> bool:
    """Whether the noise is Laplace noise and not Gaussian noise: the only two that rows of a strategy have."""
    given = NoiseKind(kind)
    if given is NoiseKind.GUMBEL:
        raise PlanError(must_be_one_of("the noise of a strategy", [NoiseKind.LAPLACE, NoiseKind.GAUSSIAN], given.value))
    return given is NoiseKind.LAPLACE


def demands(recovery: ArrayLike, weights: ArrayLike | None = None, *, kind: NoiseKind | str) -> Floats:
    """How much the noise of each strategy row counts: b_r = 2 sum_j a_j R_jr^2 (Laplace), or half of it (Gaussian)."""
    matrix = np.asarray(recovery, float)
    given = np.ones(len(matrix)) if weights is None else np.asarray(weights, float)
    if given.shape != (len(matrix),) or not (given >= 0).all() or not np.isfinite(given).all():
        raise PlanError("weights must be one number of at least 0 for each query")
    return np.asarray((2.0 if _is_laplace(kind) else 1.0) * (given @ matrix**2))


def group_budgets(sums: ArrayLike, constants: ArrayLike, *, amount: float, kind: NoiseKind | str) -> Floats:
    """The budget of each group that minimises the weighted sum of variances, in closed form.

    Proportional to (s / C)^(1/3) for Laplace noise and to s^(1/4) / C^(1/2) for Gaussian noise. A group that nobody
    needs gets none.

    >>> group_budgets([4, 8], [1, 1], amount=1, kind=NoiseKind.LAPLACE).round(4)
    array([0.4425, 0.5575])
    """
    s, c = np.asarray(sums, float), np.asarray(constants, float)
    if _is_laplace(kind):
        shape = np.cbrt(s / c)
        return np.asarray(amount * shape / (c @ shape))
    shape = s**0.25 / np.sqrt(c)
    return np.asarray(amount * shape / math.sqrt(float(c**2 @ shape**2)))


def least_objective(sums: ArrayLike, constants: ArrayLike, *, amount: float, kind: NoiseKind | str) -> float:
    """What ``group_budgets`` attains: (sum (C^2 s)^(1/3))^3 / amount^2, or (sum C sqrt(s))^2 / amount^2 times v.

    >>> round(least_objective([4, 8], [1, 1], amount=1, kind=NoiseKind.LAPLACE), 3)
    46.168
    """
    s, c = np.asarray(sums, float), np.asarray(constants, float)
    if _is_laplace(kind):
        return float(np.cbrt(c**2 * s).sum() ** 3 / amount**2)
    return float((c @ np.sqrt(s)) ** 2 / amount**2)


def gaussian_constant(delta: float) -> float:
    """The paper's v = 2 log(2 / delta) for Gaussian noise under (epsilon, delta); releases use zCDP instead."""
    return 2 * math.log(2 / delta)


def uniform_budgets(strategy: ArrayLike, *, amount: float, kind: NoiseKind | str) -> Floats:
    """The same budget for every row, as large as the cell with the largest column allows."""
    columns = _columns(strategy, kind)
    largest = float(columns.sum(axis=0).max())
    each = amount / largest if _is_laplace(kind) else amount / math.sqrt(largest)
    return np.full(len(columns), each)


def program_budgets(strategy: ArrayLike, needed: ArrayLike, *, amount: float, kind: NoiseKind | str) -> Floats:
    """The budget of each row that minimises sum b_r / e_r^2, for any strategy and recovery: the convex program (1)-(3).

    Solved in its dual, a smooth concave function of one multiplier for each different column; what is returned is
    feasible, and optimal to a part in a million.
    """
    from scipy.optimize import minimize

    needed = np.asarray(needed, float)
    used = needed > 0
    if not used.any():
        raise PlanError("no row of the strategy is needed by any query")
    columns = np.unique(_columns(strategy, kind)[used], axis=1)
    columns = columns[:, columns.any(axis=0)]
    power = 2.0 if _is_laplace(kind) else 1.0  # of x in sum b / x^power, with x = e or e^2 and limit 1
    b = needed[used] / needed[used].sum()

    def budgets(logs: Floats) -> Floats:
        return np.asarray((power * b / (columns @ np.exp(logs))) ** (1 / (power + 1)))

    def negative_dual(logs: Floats) -> tuple[float, Floats]:
        x, multipliers = budgets(logs), np.exp(logs)
        value = float((b / x**power).sum() + multipliers @ (columns.T @ x - 1))
        return -value, -multipliers * (columns.T @ x - 1)

    start = np.full(columns.shape[1], math.log(1 / columns.shape[1]))
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 30}
    found = minimize(negative_dual, start, jac=True, method="L-BFGS-B", options=options)
    x = budgets(found.x)
    x = x / float((columns.T @ x).max())
    objective = float((b / x**power).sum())
    if objective > -found.fun * (1 + _GAP) + 1e-12:
        raise CrosstallyError("the program for the budgets did not converge; use uniform budgets for this strategy")
    out = np.zeros(len(needed))
    out[used] = amount * (x if _is_laplace(kind) else np.sqrt(x))
    return np.asarray(out)


def _columns(strategy: ArrayLike, kind: NoiseKind | str) -> Floats:
    matrix: Floats = np.abs(np.asarray(strategy, float))
    return matrix if _is_laplace(kind) else np.asarray(matrix**2)


def recover(queries: ArrayLike, strategy: ArrayLike, variances: ArrayLike) -> Floats:
    """The recovery R of least variance with R S = Q: generalised least squares, whatever the rank of the strategy.

    Rows of infinite variance (without budget) are not used.

    Raises:
        PlanError: when a query lies outside the row space of the strategy, so that nothing recovers it.
    """
    q, s, v = np.asarray(queries, float), np.asarray(strategy, float), np.asarray(variances, float)
    if q.ndim != 2 or s.ndim != 2 or q.shape[1] != s.shape[1]:
        raise PlanError(f"queries and strategy must have a column for each cell, got {q.shape} and {s.shape}")
    if v.shape != (len(s),) or not (v > 0).all():
        raise PlanError("variances must be a positive number for each row of the strategy")
    used = np.isfinite(v)
    roots = np.sqrt(v[used])
    out = np.zeros((len(q), len(s)))
    out[:, used] = (q @ np.linalg.pinv(s[used] / roots[:, None], rcond=1e-10)) / roots
    wrong = np.abs(out @ s - q).max(axis=1) > _TOLERANCE * np.maximum(1.0, np.abs(q).max(axis=1))
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise PlanError(
            f"{int(wrong.sum())} of {len(q)} queries lie outside the row space of the strategy (the first is {first}); "
            f"add rows to the strategy"
        )
    return out


@dataclass(frozen=True, slots=True, eq=False)
class MatrixPlan:
    """Budgets of a strategy's rows, the variance of their noise, and the recovery of the queries from them."""

    budgets: Floats
    variances: Floats
    _: KW_ONLY
    recovery: Floats

    @property
    def query_variances(self) -> Floats:
        """The variance of each recovered answer."""
        used = np.isfinite(self.variances)
        return np.asarray(self.recovery[:, used] ** 2 @ self.variances[used])


def plan_matrix(
    queries: ArrayLike,
    strategy: ArrayLike,
    *,
    amount: float,
    kind: NoiseKind | str = NoiseKind.LAPLACE,
    budgets: Literal["uniform", "optimal"] = "optimal",
    weights: ArrayLike | None = None,
    recovery: ArrayLike | None = None,
    rounds: int = 1,
) -> MatrixPlan:
    """Budgets and recovery for any queries and strategy, as the paper's figure 3.

    Optimal budgets are those for a given recovery: closed form by groups where the recovery is consistent with them,
    otherwise the convex program. Then the recovery of least variance for these budgets is taken; more rounds repeat
    both, and never make the sum of variances larger.

    Args:
        queries: Q, a row for each query.
        strategy: S, a row for each query to be answered with noise.
        amount: epsilon for Laplace noise, sqrt(2 rho) for Gaussian noise.
        kind: The noise.
        budgets: The same for all rows, or optimal.
        weights: How much each query counts.
        recovery: A recovery to set the budgets for; by default that of least squares with equal budgets.
        rounds: How often budgets and recovery are computed.
    """
    q, s = np.asarray(queries, float), np.asarray(strategy, float)
    shares = uniform_budgets(s, amount=amount, kind=kind)
    found = recover(q, s, _variances(shares, kind)) if recovery is None else np.asarray(recovery, float)
    if budgets == "optimal":
        for _ in range(rounds):
            shares = _optimal_budgets(s, demands(found, weights, kind=kind), amount=amount, kind=kind)
            found = recover(q, s, _variances(shares, kind))
    elif budgets == "uniform":
        found = recover(q, s, _variances(shares, kind))
    else:
        raise PlanError(f"budgets must be uniform or optimal, got {budgets!r}")
    return MatrixPlan(shares, _variances(shares, kind), recovery=found)


def _optimal_budgets(strategy: Floats, needed: Floats, *, amount: float, kind: NoiseKind | str) -> Floats:
    try:
        grouping = greedy_groups(strategy)
    except PlanError:
        return program_budgets(strategy, needed, amount=amount, kind=kind)
    if not is_consistent(grouping, needed):
        return program_budgets(strategy, needed, amount=amount, kind=kind)
    budgets = group_budgets(grouping.sums(needed), grouping.constants, amount=amount, kind=kind)
    return np.asarray(budgets[grouping.groups])


def _variances(budgets: Floats, kind: NoiseKind | str) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray((2.0 if _is_laplace(kind) else 1.0) / budgets**2)
