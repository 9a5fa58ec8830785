"""The base class of strategies, and what strategies share: noise from shares of a budget, and rounds.

A strategy takes a ``Task``, never data, and returns a plan of what to measure. Each request gets the least noise that
its share of the budget buys; what is left of the budget reduces the noise of all.

A round is a private choice and a measurement of what was chosen: two stages, planned one by one. The first stage of
a plan measures what every round needs. Each later stage has a rule of the same name and parameters; the number of
rounds and the share of each stage are fixed. What a stage asks follows from the answers before it, so a run can be
repeated from its recorded choices and measurements alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, get_args, get_type_hints

import numpy as np

from crosstally.budget import Budget, Currency, Neighbours, Noise, NoiseKind, Objective, Sensitivity, fraction_of_text
from crosstally.errors import PlanError
from crosstally.measurements import PUBLIC, Chosen, Measurement
from crosstally.plans.joint_cost import groups_cost
from crosstally.plans.plan import Plan
from crosstally.plans.request import (
    GroupedRequests,
    Request,
    RequestGroup,
    Rule,
    first_share,
    grouped,
    rest_of,
)
from crosstally.query.linear import Linear
from crosstally.query.queries import Cells, Query
from crosstally.query.summed import Summed
from crosstally.query.unit_table import UnitTable
from crosstally.schema import Schema
from crosstally.workload import Workload

_FREE_SCALE = 2.0**-6  # the scale of noise on numbers that no unit can change: such noise is always zero
# The variance of a number without noise: positive, so that it has an inverse, and negligible relative to any noise.
_EXACT = 1e-300
_SPENDING_MARGIN = 1e-8  # scales stay this fraction above what the cost allows, since floats may round the wrong way


def least_noise(sensitivity: Sensitivity, amount: Fraction, *, currency: Currency) -> Noise:
    """The least noise that this much of a budget buys; next to none where no unit can move the answer."""
    if sensitivity.l1:
        return Noise.affordable(sensitivity, amount, currency=currency)
    return Noise(NoiseKind.LAPLACE if currency == "epsilon" else NoiseKind.GAUSSIAN, _FREE_SCALE)


def requests_with_shares(
    queries: Sequence[Query], shares: Sequence[float], schema: Schema, budget: Budget, neighbours: Neighbours
) -> tuple[Request, ...]:
    """A request for each query, also a choice, with the least noise that its share of the budget buys.

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
    kinds = [query.is_linear for query in queries]
    bought = [
        (linear, moved, part / query.picks)
        for query, linear, moved, part in zip(queries, kinds, moving, parts, strict=True)
    ]
    noises = {each: _noise(*each, currency=budget.currency) for each in set(bought)}
    requests = tuple(Request(query, noises[each]) for query, each in zip(queries, bought, strict=True))
    linear = any(isinstance(query, Linear) for query in queries)
    tables = any(query.is_linear for query in queries) and Neighbours(neighbours) == Neighbours.REPLACE
    if not linear and not tables:
        return requests
    spent = _spent_of(grouped(requests, schema), schema, budget, neighbours)
    smaller = {noise: _smaller(noise, spent, budget.currency) for noise in {request.noise for request in requests}}
    return tuple(Request(request.query, smaller[request.noise]) for request in requests)


def _noise(is_linear: bool, sensitivity: Sensitivity, amount: Fraction, *, currency: Currency) -> Noise:
    """The least noise of a query, which is on the scores of a choice and on the answer of all others."""
    return (least_noise if is_linear else Noise.affordable_choice)(sensitivity, amount, currency=currency)


def with_less_noise(
    groups: Sequence[RequestGroup], schema: Schema, budget: Budget, neighbours: Neighbours
) -> list[RequestGroup]:
    """The same requests with all scales smaller by one factor, where they cost less together than the budget."""
    spent = _spent_of(groups, schema, budget, neighbours)
    return [replace(group, noise=_smaller(group.noise, spent, budget.currency)) for group in groups]


def _spent_of(groups: Sequence[RequestGroup], schema: Schema, budget: Budget, neighbours: Neighbours | str) -> float:
    """The part of the budget that the requests cost together; 1 where it is nearly all, or nothing costs."""
    cost = groups_cost(groups, schema, neighbours, currency=budget.currency)
    part = float(cost / budget.amount) * (1 + _SPENDING_MARGIN)
    return 1.0 if part > 1 - 1e-6 or part == 0 else part


def _smaller(noise: Noise, spent: float, currency: Currency) -> Noise:
    """The noise that costs all when this one costs a part."""
    if spent == 1 or noise.scale == _FREE_SCALE:
        return noise
    if currency == "mu2" and noise.kind is NoiseKind.GAUSSIAN:
        return Noise.affordable(Sensitivity(1, 1), noise.unit_cost(currency) / Fraction(spent), currency=currency)
    return Noise(noise.kind, noise.scale * (spent if currency == "epsilon" else math.sqrt(spent)))


@dataclass(frozen=True)
class Task:
    """What a strategy plans for. ``asked`` are the tables that were named, in the schema's order, or None.

    With ``units`` a part of the budget measures units by number of rows (``with_unit_rows``), and another one totals of
    ``measures`` (``with_totals``); strategies do not see them.
    """

    schema: Schema
    asked: Workload | None
    _: KW_ONLY
    budget: Budget
    neighbours: Neighbours
    units: bool = False
    measures: tuple[str, ...] = ()
    objective: Objective = Objective.CELLS

    def __post_init__(self) -> None:
        object.__setattr__(self, "neighbours", Neighbours(self.neighbours))
        object.__setattr__(self, "objective", Objective(self.objective))
        object.__setattr__(self, "asked", self.asked and self.asked.for_schema(self.schema))

    @cached_property
    def workload(self) -> Workload:
        """The tables that matter: those asked for, or all of one and two attributes."""
        return self.asked or Workload.small_tables(self.schema)

    @property
    def root(self) -> int:
        """The optimal share of a table is this root of its weight times its cells (ICDE 2013, corollary 3.3).

        Variance falls as one over the square of epsilon under Laplace noise, and as one over rho under Gaussian.
        """
        return 3 if self.budget.pure else 2

    def names(self, positions: Iterable[int]) -> tuple[str, ...]:
        """The attributes at some positions."""
        return tuple(self.schema.names[i] for i in positions)

    def measuring(self, strategy: str, tables: Iterable[Sequence[str]], shares: Sequence[float] | None = None) -> Plan:
        """A plan for the cells of some tables, each with its share of the budget; all shares are equal by default."""
        return self.asking(strategy, [Cells(tuple(table)) for table in tables], shares)

    def asking(self, strategy: str, queries: Sequence[Query], shares: Sequence[float] | None = None) -> Plan:
        """A plan for any queries, such as contrasts, each with its share of the budget and the least noise it buys."""
        return self.planned(strategy, self.requests(queries, shares))

    def requests(self, queries: Sequence[Query], shares: Sequence[float] | None = None) -> tuple[Request, ...]:
        """A request for each query that its share of the budget buys; all shares are equal by default."""
        given = [1.0] * len(queries) if shares is None else shares
        return requests_with_shares(queries, given, self.schema, self.budget, self.neighbours)

    def part(self, share: Fraction) -> Task:
        """The same with a part of the budget."""
        return replace(self, budget=self.budget.part(share))

    @classmethod
    def after(cls, plan: Plan) -> Task:
        """What all later stages of a plan are for, with the budget that is left to them."""
        return cls(
            plan.schema,
            plan.workload,
            budget=plan.budget_left,
            neighbours=plan.neighbours,
            objective=plan.objective,
        )

    def planned(self, strategy: str, requests: Sequence[Request], later: tuple[Rule, ...] = ()) -> Plan:
        """The plan of these requests, and of later stages by their rules."""
        return Plan(
            self.schema,
            requests,
            strategy=strategy,
            workload=self.workload,
            budget=self.budget,
            neighbours=self.neighbours,
            later=later,
            objective=self.objective,
        )


class Strategy(ABC):
    """A way to choose what to measure. A subclass needs only a name and ``planned``.

    Pass your own strategy as an object wherever a name is accepted. One with later stages enters its rule in
    ``rules.RULES`` before its plans are run. Those of the package are registered by one line in ``strategies.NAMED``.
    """

    __slots__ = ()

    weighs: ClassVar[bool] = True
    """Whether it plans with the weights of the named tables and of those below; else with what was named."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What people call it."""

    @abstractmethod
    def planned(self, task: Task) -> Plan:
        """What to measure first, and by which rules then."""

    def plan(
        self,
        schema: Schema,
        workload: Workload | None,
        budget: Budget,
        *,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    ) -> Plan:
        """What to measure first, and by which rules then; the budget is that of all stages together.

        Args:
            schema: The table's attributes.
            workload: The tables that matter; all of one and two attributes when it is None.
            budget: What may be spent.
            neighbours: Which data sets must be hard to distinguish: "add-remove" or "replace".
        """
        return self.planned(Task(schema, workload, budget=budget, neighbours=Neighbours(neighbours)))

    def outlook(self, plan: Plan) -> Plan:
        """What all stages of its plan may measure together; the plan itself if it has one stage."""
        return plan

    def likely_errors(self, plan: Plan, rows: int) -> Mapping[int, tuple[float, float]]:  # noqa: ARG002
        """By number of attributes the ends of the likely RMS error of releases by a plan with later stages.

        Nothing where the strategy does not know them.
        """
        return {}

    def next(self, plan: Plan, seen: Sequence[Measurement]) -> Plan | None:  # noqa: ARG002
        """What to measure after the current stage of a plan, given all measurements so far; None if nothing is left."""
        return None

    def with_rows(self, rows: int) -> Strategy:  # noqa: ARG002
        """The same strategy with an approximate number of rows."""
        return self


@dataclass(frozen=True, slots=True)
class StrategyWithOptions(Strategy):
    """A strategy whose options are words, those of their ``Literal``; its name contains those that are not the default.

    ``family`` is the name with all defaults.
    """

    family: ClassVar[str]

    def __post_init__(self) -> None:
        types = get_type_hints(type(self))
        for option in (field.name for field in fields(self)):
            known = get_args(types[option])
            if getattr(self, option) not in known:
                raise PlanError(f"{option} must be {' or '.join(known)}, got {getattr(self, option)!r}")

    @property
    def name(self) -> str:
        """Its name, with every option that is not the default."""
        given = [(getattr(self, field.name), field.default) for field in fields(self)]
        return "-".join([self.family, *(value for value, default in given if value != default)])


def known_total(seen: Sequence[Measurement]) -> float | None:
    """The number of rows if it is among the measurements: public, or measured."""
    totals = [float(m.values) for m in seen if not m.query.attributes]
    return totals[0] if totals else None


def public_total(rows: int) -> Measurement:
    """A public number of rows, in the form in which strategies see it."""
    return Measurement(Cells(()), np.array(rows), variance=_EXACT, noise=None, origin=PUBLIC)


def rows_share_of(given: object) -> Fraction:
    """The share of the budget that buys the number of rows, exactly.

    >>> rows_share_of(0.01)
    Fraction(1, 100)
    """
    share = fraction_of_text(str(given))
    if share is None or not 0 < share < 1:
        raise PlanError(f"rows_share must be between 0 and 1, got {given}")
    return share


MAX_ROUNDS = 200
"""Each round is two entries of the ledger, and counts all candidates once: hundreds take minutes."""


def check_rounds(rounds: object) -> None:
    """Raise unless this is a number of rounds."""
    if isinstance(rounds, bool) or not isinstance(rounds, int) or not 1 <= rounds <= MAX_ROUNDS:
        raise PlanError(f"rounds must be a whole number from 1 to {MAX_ROUNDS}, got {rounds!r}")


def shares_of_rounds(rounds: int, whole: Fraction, *, choosing_share: Fraction) -> tuple[Fraction, ...]:
    """The share of the budget of each stage of equal rounds; choosing gets its own part of a round.

    >>> shares_of_rounds(2, Fraction(1), choosing_share=Fraction(1, 10))
    (Fraction(1, 20), Fraction(9, 20), Fraction(1, 20), Fraction(9, 20))
    """
    per_round = whole / rounds
    return (per_round * choosing_share, per_round * (1 - choosing_share)) * rounds


def just_chosen(seen: Sequence[Measurement]) -> tuple[str, ...] | None:
    """The table that the last answer chose; None where the last answer is a measurement."""
    if not seen or seen[-1].query.is_linear:
        return None
    return Chosen.of(seen[-1]).picked[0]


def units_share(budget: Budget) -> Fraction:
    """The share of a budget that measures units by number of rows: it makes all other noise 2% larger.

    Scales are proportional to 1 / epsilon, or 1 / sqrt(rho).
    """
    return Fraction(1, 50) if budget.pure else Fraction(1, 25)


TOTALS_SHARE = Fraction(1, 2)
"""The share of a budget that buys totals where any are asked for; measures share it equally. Chosen: counts are asked
for as well, and a mean needs both. A larger share makes totals better and counts worse."""
_HAVING_SHARE = Fraction(1, 4)
"""Of a measure's part, what counts the rows that have a value, where some may not. In a mean the noise of this count
weighs as much as the values are away from the centre, at most as the bounds are."""


def with_totals(plan: Plan, budget: Budget, measures: Sequence[str], tables: Sequence[tuple[str, ...]]) -> Plan:
    """A plan for the rest of a budget, with totals of measures over some tables in its first stage.

    The tables of a measure have shares as those of the direct strategy.
    """
    asked: list[Request] = []
    root = 3 if budget.pure else 2  # see Task.root
    weights = [math.prod(plan.schema.sizes(names)) ** (1 / root) for names in tables]
    for name in measures:
        of_rows = _HAVING_SHARE if plan.schema.measure(name).leaves_out else Fraction(0)
        for summed, share in ((Summed(name), 1 - of_rows), (Summed(name, values=False), of_rows)):
            if share:
                part = budget.part(TOTALS_SHARE / len(measures) * share)
                queries = [Cells(names, summed=summed) for names in tables]
                asked += _bought(queries, weights, plan.schema, part, plan.neighbours)
    requests: Sequence[Request] = (*plan.requests, *asked)
    if isinstance(plan.requests, GroupedRequests):
        requests = GroupedRequests(plan.schema, (*plan.groups, *grouped(asked, plan.schema)))
    later = tuple(replace(rule, share=rule.share * (1 - TOTALS_SHARE)) for rule in plan.later)
    return replace(plan, requests=requests, budget=budget, later=later)


def _bought(
    queries: Sequence[Query], weights: Sequence[float], schema: Schema, budget: Budget, neighbours: Neighbours
) -> list[Request]:
    """A request for each query with its share of a budget; shares are rounded down."""
    out = []
    for query, weight in zip(queries, weights, strict=True):
        share = Fraction(int(weight / (math.fsum(weights) * (1 + 1e-12)) * 2**52), 2**52)
        moved = query.sensitivity(schema, neighbours)
        out.append(Request(query, least_noise(moved, budget.amount * share, currency=budget.currency)))
    return out


def with_unit_rows(plan: Plan, budget: Budget) -> Plan:
    """A plan for the rest of a budget, with the units by number of rows in its first stage, for the whole budget."""
    assert plan.schema.unit is not None
    query, share = UnitTable.of(plan.schema.unit), units_share(budget)
    sensitivity = query.sensitivity(plan.schema, plan.neighbours)
    asked = (Request(query, least_noise(sensitivity, budget.amount * share, currency=budget.currency)),)
    requests: Sequence[Request] = (*plan.requests, *asked)
    if isinstance(plan.requests, GroupedRequests):
        requests = GroupedRequests(plan.schema, (*plan.groups, *grouped(asked, plan.schema)))
    later = tuple(replace(rule, share=rule.share * (1 - share)) for rule in plan.later)
    return replace(plan, requests=requests, budget=budget, later=later)


def next_task(plan: Plan) -> Task:
    """What the stage after a plan's is for, with what that stage may spend itself."""
    return Task.after(plan).part(first_share(rest_of(plan.later)))


def following(plan: Plan, requests: Sequence[Request]) -> Plan:
    """The stage after a plan's, with these requests."""
    return Task.after(plan).planned(plan.strategy, requests, later=rest_of(plan.later))
