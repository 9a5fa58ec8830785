"""Requests that share a budget: the least noise that each one's share buys, and what is left is given to all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from crosstally.budget import Budget, Neighbours, Noise, NoiseKind, Sensitivity
from crosstally.plans.joint_cost import groups_cost
from crosstally.plans.request import Request, RequestGroup, grouped
from crosstally.query.linear import Linear
from crosstally.query.queries import Query
from crosstally.schema import Schema

__all__ = ["least_noise", "requests_with_shares", "with_less_noise"]

_FREE_SCALE = 2.0**-6  # the scale of noise on numbers that no unit can change: such noise is always zero
_SPENDING_MARGIN = 1e-8  # scales stay this fraction above what the cost allows, since floats may round the wrong way


def least_noise(sensitivity: Sensitivity, amount: Fraction, *, pure: bool) -> Noise:
    """The least noise that this much of a budget buys; next to none where no unit can move the answer."""
    if sensitivity.l1:
        return Noise.affordable(sensitivity, amount, pure=pure)
    return Noise(NoiseKind.LAPLACE if pure else NoiseKind.GAUSSIAN, _FREE_SCALE)


def requests_with_shares(
    queries: Sequence[Query], shares: Sequence[float], schema: Schema, budget: Budget, neighbours: Neighbours
) -> tuple[Request, ...]:
    """A request for each query, with the least noise that its share of the budget buys.

    Shares are rounded down to multiples of 2^-52 of the budget, so that together they never exceed it. A query that no
    unit can move (the total, under replacement) needs no share. Where queries together cost less than the sum of what
    each costs (contrasts under replacement, linear queries) all noise is made smaller by the same factor.
    """
    moving = [query.sensitivity(schema, neighbours) for query in queries]
    paid = [share for share, sensitivity in zip(shares, moving, strict=True) if sensitivity.l1]
    if len(set(paid)) <= 1:
        parts = [budget.amount / max(1, len(paid))] * len(shares)
    else:
        total = math.fsum(paid) * (1 + 1e-12)
        distinct = {share: Fraction(max(1, int(share / total * 2**52)), 2**52) * budget.amount for share in set(shares)}
        parts = [distinct[share] for share in shares]
    noises = {
        (sensitivity, part): least_noise(sensitivity, part, pure=budget.pure)
        for sensitivity, part in set(zip(moving, parts, strict=True))
    }
    requests = tuple(
        Request(query, noises[sensitivity, part])
        for query, sensitivity, part in zip(queries, moving, parts, strict=True)
    )
    linear = any(isinstance(query, Linear) for query in queries)
    if Neighbours(neighbours) == Neighbours.ADD_REMOVE and not linear:
        return requests
    factor = _spare_factor(grouped(requests, schema), schema, budget, neighbours)
    return tuple(Request(request.query, _smaller(request.noise, factor)) for request in requests)


def with_less_noise(
    groups: Sequence[RequestGroup], schema: Schema, budget: Budget, neighbours: Neighbours
) -> list[RequestGroup]:
    """The same requests with all scales smaller by one factor, where they cost less together than the budget."""
    factor = _spare_factor(groups, schema, budget, neighbours)
    return [replace(group, noise=_smaller(group.noise, factor)) for group in groups]


def _spare_factor(
    groups: Sequence[RequestGroup], schema: Schema, budget: Budget, neighbours: Neighbours | str
) -> float:
    """By what factor all scales may become smaller until the budget is spent; 1 where it is, or nothing costs."""
    ratio = float(groups_cost(groups, schema, neighbours, pure=budget.pure) / budget.amount) * (1 + _SPENDING_MARGIN)
    if ratio > 1 - 1e-6 or ratio == 0:
        return 1.0
    return ratio if budget.pure else math.sqrt(ratio)


def _smaller(noise: Noise, factor: float) -> Noise:
    return noise if factor == 1 or noise.scale == _FREE_SCALE else Noise(noise.kind, noise.scale * factor)
