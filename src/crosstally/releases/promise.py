"""What the numbers of a release cost, computed again from their queries and noise: it cannot contradict its statement.

Measurements of one ledger entry are one stage: they were charged together, and their joint cost is the one that the
plan had. Entries add up, in epsilon as in rho, also where a later one depends on what an earlier one gave.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from crosstally.budget import Budget, Neighbours, NoiseKind, Sensitivity
from crosstally.errors import CrosstallyError, ReleaseError
from crosstally.measurements import PUBLIC, Chosen, Measurement
from crosstally.plans.joint_cost import privacy_cost
from crosstally.plans.request import Request
from crosstally.releases.statement import Statement
from crosstally.schema import Schema

__all__ = ["check_promise", "costs_of_entries", "foreign_origins"]


def check_promise(
    schema: Schema, statement: Statement, measurements: Sequence[Measurement], choices: Sequence[Chosen]
) -> None:
    """Raise unless what was measured and chosen costs no more than the statement says.

    Answers without noise of their own (public counts, the local model, other people's mechanisms) are left out:
    ``foreign_origins`` names the last.
    """
    try:
        costs = costs_of_entries(schema, statement.neighbours, measurements, choices, pure=statement.budget.pure)
        cost, budget = sum(costs.values(), Fraction(0)), statement.budget
        more_than_stated = cost > budget.amount
    except CrosstallyError as error:
        raise ReleaseError(f"its measurements do not fit its privacy statement: {error}") from None
    if more_than_stated:
        raise ReleaseError(f"its measurements cost {_rounded(cost, budget)}, more than its statement of {budget}")


def costs_of_entries(
    schema: Schema,
    neighbours: Neighbours | str,
    measurements: Iterable[Measurement],
    choices: Iterable[Chosen],
    *,
    pure: bool,
) -> Mapping[str, Fraction]:
    """What each ledger entry paid for: epsilon when pure, otherwise rho."""
    requests: dict[str, list[Request]] = defaultdict(list)
    for each in measurements:
        if each.noise is not None:
            requests[each.origin].append(Request(each.query, each.noise))
    costs: dict[str, Fraction] = defaultdict(Fraction)
    for origin, asked in requests.items():
        costs[origin] += privacy_cost(asked, schema, neighbours, pure=pure)
    for chosen in choices:
        costs[chosen.origin] += _choice_cost(chosen, schema, neighbours, pure=pure)
    return costs


def _choice_cost(chosen: Chosen, schema: Schema, neighbours: Neighbours | str, *, pure: bool) -> Fraction:
    """Epsilon = 2 Delta / scale, or rho = epsilon^2 / 8 (``query.choice``)."""
    assert chosen.noise.kind is NoiseKind.GUMBEL
    moved = 1 if Neighbours(neighbours) == Neighbours.ADD_REMOVE else 2
    most = chosen.weight * moved * schema.max_rows
    epsilon = chosen.noise.cost(Sensitivity(most, most**2))
    return epsilon if pure else epsilon**2 / 8


def foreign_origins(statement: Statement, measurements: Iterable[Measurement]) -> tuple[str, ...]:
    """Where answers come from that the statement's budget did not buy: other mechanisms, whose promise is their own."""
    if statement.model == "local":
        return ()
    found = (each.origin for each in measurements if each.noise is None and each.origin != PUBLIC)
    return tuple(dict.fromkeys(found))


def _rounded(cost: Fraction, budget: Budget) -> str:
    sign = "ε" if budget.pure else "ρ"
    return f"{sign} = {float(cost):.6g}" if cost < 10**300 else f"{sign} above 1e300"
