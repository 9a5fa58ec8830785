"""The (epsilon, delta) guarantee of a budget or a plan. This is descriptive: nothing is charged here.

A ledger adds up epsilon or rho, since later charges may depend on earlier results. For a plan fixed in advance,
privacy-loss distributions give a tighter guarantee.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from typing import Any

from crosstally.budget import Budget, Currency, NoiseKind, exact, float_above, zcdp_epsilon
from crosstally.checks import optional
from crosstally.errors import BudgetError
from crosstally.gaussian_curve import gaussian_epsilon
from crosstally.plans.joint_cost import privacy_cost
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request

# Limits time: the privacy loss distribution of discrete Gaussian noise is a sum over all integers within a few
# scales. Beyond it epsilon is computed from rho, which is a valid but larger bound.
_LARGEST_SCALE = 100_000.0
_SQUARES: tuple[Currency, ...] = ("rho", "mu2")
# A relative margin on results in doubles, far above their rounding error, so that epsilon is never stated too small.
_ROUNDING = 1e-9


def implied(budget: Budget, delta: object) -> float:
    """The smallest epsilon for which the whole budget is (epsilon, delta)-private; for a pure budget, its epsilon.

    Rho is converted as Canonne, Kamath and Steinke (2020) do, mu^2 by the curve of the normal; both are rounded up.
    """
    target = _read_delta(delta)
    if budget.pure:
        return float_above(budget.amount)
    return (zcdp_epsilon if budget.currency == "rho" else gaussian_epsilon)(budget.amount, target)


def tight_epsilon(plan: Plan, delta: object) -> float:
    """An upper bound on the epsilon at which the plan is (epsilon, delta)-private, close to the least.

    Discrete Laplace and Gaussian noise are composed by their privacy-loss distributions, rounded up. Where one unit can
    change an answer in several ways and none is the worst case (several rows, or a replaced row in a contrast), Laplace
    noise is treated as an arbitrary mechanism with its epsilon, and a plan with Gaussian noise as one with its rho or
    mu^2. Each pick of a choice is treated as an arbitrary mechanism with its epsilon.
    """
    target = _read_delta(delta)
    if not plan.requests:
        return 0.0
    rho, mu2 = (privacy_cost(plan.requests, plan.schema, plan.neighbours, currency=each) for each in _SQUARES)
    ceiling = min(zcdp_epsilon(rho, target), gaussian_epsilon(mu2, target)) if mu2 else 0.0
    if not any(request.noise.kind is NoiseKind.GAUSSIAN for request in plan.requests):
        whole = privacy_cost(plan.requests, plan.schema, plan.neighbours, currency="epsilon")
        ceiling = min(ceiling, float_above(whole))
    losses: Counter[_Loss] = Counter()
    for request in plan.requests:
        found = _losses(request, plan)
        if found is None:
            return ceiling
        losses.update(found)
    return min(ceiling, _composed(losses, float(target))) if losses else 0.0


@dataclass(frozen=True, slots=True)
class _Loss:
    """The privacy loss of one number: ``kind`` of noise and its scale under a shift, or ``pure`` with its epsilon."""

    kind: str
    scale: float
    shift: int = 1


def _losses(request: Request, plan: Plan) -> list[_Loss] | None:
    """The losses whose composition is the worst case of a request; None if no such distribution is known."""
    noise = request.noise
    shifts = request.query.worst_shifts(plan.schema, plan.neighbours)
    if noise.kind is not NoiseKind.GAUSSIAN:
        if shifts is None:
            cost = noise.cost(request.query.sensitivity(plan.schema, plan.neighbours))
            return [_Loss("pure", float_above(cost))] * request.query.picks if cost else []
        return [_Loss("laplace", noise.scale, shift) for shift in shifts if shift]
    if shifts is None or noise.scale > _LARGEST_SCALE or max(shifts, default=0) > 10 * noise.scale:
        return None
    return [_Loss("gaussian", noise.scale, shift) for shift in shifts if shift]


def _composed(losses: Counter[_Loss], delta: float) -> float:
    distributions = _optional("privacy_loss_distribution")
    total: Any = None
    for loss, times in losses.items():
        part = _distribution(loss, distributions).self_compose(times)
        total = part if total is None else total.compose(part)
    return float(total.get_epsilon_for_delta(delta)) * (1 + _ROUNDING)


def _distribution(loss: _Loss, distributions: Any) -> Any:
    if loss.kind == "laplace":
        return distributions.from_discrete_laplace_mechanism(
            1 / loss.scale, sensitivity=loss.shift, pessimistic_estimate=True, use_connect_dots=True
        )
    if loss.kind == "gaussian":
        return distributions.from_discrete_gaussian_mechanism(
            loss.scale, sensitivity=loss.shift, pessimistic_estimate=True, use_connect_dots=True
        )
    parameters = _optional("common").DifferentialPrivacyParameters(loss.scale, 0.0)
    return distributions.from_privacy_parameters(parameters)


def _optional(module: str) -> Any:
    optional("dp_accounting", extra="accounting", package="dp-accounting")
    return import_module(f"dp_accounting.pld.{module}")


def _read_delta(delta: object) -> Fraction:
    fraction = exact(delta, "delta")
    if not 1e-300 <= fraction < 1:
        raise BudgetError(f"delta must be at least 1e-300 and below 1, got {delta}")
    return fraction
