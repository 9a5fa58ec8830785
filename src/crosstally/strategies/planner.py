"""Which strategy to use: every one that can plan is asked for its error, and the lowest wins. Free: no data is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from crosstally.budget import Amount, Budget, Neighbours
from crosstally.errors import BudgetError, PlanError
from crosstally.plans.plan import Plan
from crosstally.schema import Schema
from crosstally.strategies import NAMED, Strategy, named
from crosstally.workload import Workload

__all__ = ["Comparison", "compare", "plan", "read_strategies", "rows_matter", "solve_epsilon"]


CONSIDERED: tuple[Strategy, ...] = tuple(strategy for name, strategy in NAMED.items() if name != "clustered")
"""What "auto" compares: all strategies but clustered, from which optimum starts and which it is never worse than."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A plan for each strategy that could make one, the reason for each that could not, and the one chosen.

    ``rows`` is the expected number of rows, if one was given: strategies choose by it, and errors are shown beside it.
    """

    plans: tuple[Plan, ...]
    chosen: Plan
    _: KW_ONLY
    reason: str
    refused: tuple[tuple[str, str], ...] = ()
    rows: int | None = None


def plan(
    schema: Schema,
    *,
    rows: int | None = None,
    epsilon: Amount | None = None,
    delta: Amount | None = None,
    rho: Amount | None = None,
    workload: Workload | None = None,
    strategy: str | Strategy = "auto",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Comparison:
    """What every strategy would measure, with the error to expect, and the one to choose. Free.

    Args:
        schema: The table's attributes.
        rows: About how many rows there are: strategies may choose by it, and it puts errors in proportion.
        epsilon: The budget; with ``delta`` it is approximate, alone it is pure.
        delta: See epsilon.
        rho: The budget under zero-concentrated privacy, instead of epsilon.
        workload: The tables that matter; all of one and two attributes when it is left out.
        strategy: One to plan with, or "auto" for the one with the lowest error.
        neighbours: Which tables must be hard to tell apart: "add-remove" or "replace".
    """
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 0):
        raise PlanError(f"rows must be a whole number of at least 0, got {rows!r}")
    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    return compare(schema, workload, budget, neighbours=neighbours, strategies=read_strategies(strategy), rows=rows)


def read_strategies(given: str | Strategy) -> Sequence[Strategy]:
    """The strategies that a name or object stands for; "auto" is all that may be best."""
    if given == "auto":
        return CONSIDERED
    return (named(given) if isinstance(given, str) else given,)


def compare(
    schema: Schema,
    workload: Workload | None,
    budget: Budget,
    *,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    strategies: Sequence[Strategy] = CONSIDERED,
    rows: int | None = None,
) -> Comparison:
    """Plans by all these strategies; the chosen one covers the workload with the lowest error."""
    neighbours = Neighbours(neighbours)
    if workload is not None:
        workload = workload.for_schema(schema)
    plans: list[Plan] = []
    refused: list[tuple[str, str]] = []
    for strategy in strategies:
        informed = strategy if rows is None else strategy.with_rows(rows)
        try:
            planned = informed.plan(schema, workload, budget, neighbours=neighbours)
            planned.check_countable()
        except (PlanError, BudgetError) as error:  # the latter: noise of a scale that no sampler has
            if len(strategies) == 1:
                raise
            refused.append((strategy.name, str(error)))
        else:
            plans.append(planned)
    if not plans:
        raise PlanError(f"no strategy can plan this: {'; '.join(reason for _, reason in refused)}")
    chosen, reason = _choose(plans, workload, asked=len(strategies) == 1)
    return Comparison(tuple(plans), chosen, reason=reason, refused=tuple(refused), rows=rows)


def rows_matter(
    schema: Schema,
    workload: Workload | None,
    budget: Budget,
    *,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    strategies: Sequence[Strategy] = CONSIDERED,
    rows: int,
) -> bool:
    """Whether some strategy plans otherwise because it was told about how many rows there are."""

    def planned(strategy: Strategy) -> Plan | None:
        try:
            return strategy.plan(schema, workload, budget, neighbours=neighbours)
        except PlanError:
            return None

    told = ((strategy, strategy.with_rows(rows)) for strategy in strategies)
    return any(strategy != informed and planned(strategy) != planned(informed) for strategy, informed in told)


def _choose(plans: Sequence[Plan], workload: Workload | None, *, asked: bool) -> tuple[Plan, str]:
    if asked:
        return plans[0], "it was asked for"
    views = [each for each in plans if each.strategy == "views"]
    if views and workload is None:
        return views[0], "no tables were named, and from views any table can be answered"
    covering = [each for each in plans if each.covers]
    if not covering:
        raise PlanError(
            "no strategy that fits covers these tables; ask for fewer or smaller tables, or fewer attributes"
        )
    chosen = min(covering, key=lambda each: each.rms_error)
    others = sorted(each.rms_error for each in covering if each is not chosen)
    if not others:
        return chosen, "no other strategy covers these tables"
    ratio = others[0] / chosen.rms_error
    if ratio < 1.01:
        return chosen, "no other strategy has a lower error"
    return chosen, f"the next best has {ratio:,.{0 if ratio >= 10 else 2}f} times its error"


def solve_epsilon(
    schema: Schema,
    workload: Workload | None,
    target_error: float,
    *,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    strategies: Sequence[Strategy] = CONSIDERED,
    delta: Fraction | None = None,
    rows: int | None = None,
) -> Budget:
    """The least epsilon, to three digits, with which the chosen plan has at most this RMS error."""
    if isinstance(target_error, bool) or not 0 < target_error < math.inf:
        raise BudgetError(f"the target error must be positive, got {target_error}")

    def error(log_epsilon: float) -> tuple[float, Budget]:
        epsilon = Context(prec=3, rounding=ROUND_CEILING).create_decimal(Decimal(10.0**log_epsilon))
        budget = Budget(epsilon=Fraction(epsilon), delta=delta)
        chosen = compare(schema, workload, budget, neighbours=neighbours, strategies=strategies, rows=rows).chosen
        if math.isnan(chosen.rms_error):
            raise BudgetError(
                f"no error can be aimed at: what {chosen.strategy} measures does not say it beforehand; name the tables"
                " that matter, or give rows, about how many there are"
            )
        return chosen.rms_error, budget

    low, high = -6.0, 3.0
    if error(high)[0] > target_error:
        raise BudgetError(f"an error of {target_error} is not reached with any epsilon up to 1000")
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if error(middle)[0] <= target_error else (middle, high)
    return error(high)[1]
