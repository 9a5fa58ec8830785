"""Choose a strategy. This costs no budget: no data is read.

The choice is ``two-stage``, which uses noisy one-way tables to decide what no plan can know in advance; the others are
shown for comparison. For the objective "cells" the strategy with the lowest predicted error is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from itertools import chain

from crosstally.budget import Amount, Budget, Neighbours, Objective
from crosstally.checks import names_in, several
from crosstally.errors import BudgetError, PlanError, did_you_mean
from crosstally.html_text import html_table
from crosstally.plans.plan import Plan, check_rows
from crosstally.schema import Schema, check_schema
from crosstally.strategies import NAMED, Strategy, Task, named
from crosstally.strategies.advice import Advice, Alternative, advised, with_merged
from crosstally.strategies.goal import weighing_tables
from crosstally.strategies.rules import likely_errors, outlook
from crosstally.strategies.strategy import TOTALS_SHARE, units_share, with_totals, with_unit_rows
from crosstally.strategies.verdicts import ExpectedError, expected_errors, totals_in_words, units_in_words
from crosstally.workload import Workload, check_workload

_NOT_COMPARED = ("clustered", "mwem", "adaptive", "linear")
AUTO_STRATEGIES: tuple[Strategy, ...] = tuple(strategy for name, strategy in NAMED.items() if name not in _NOT_COMPARED)
"""The strategies that "auto" compares: all except clustered, from which optimum starts and which it is never worse
than, and those that choose privately what to measure, whose error is not known beforehand. If a workload asks for
ranges or rows of a matrix, only linear strategies are compared: no other supports them."""

DEFAULT: tuple[Strategy, ...] = (NAMED["two-stage"],)
"""What a release without options goes by."""


_ROOT_UNITS = 10**12  # square roots of budgets are rounded down to this part


@dataclass(frozen=True, slots=True)
class Proposal:
    """A release that is not planned yet; pages, commands and advice ask for its expected error.

    The tables that matter are all tables over ``ways`` attributes, some ``tables`` by their names, or a ``named``
    workload; by default all of one and two attributes. ``cells`` are the attributes whose values would be merged, into
    how many. Where the schema has a unit, ``units`` also measures how many units have how many rows. Of ``measures``
    totals are bought, over the tables that matter if they were named, otherwise over each attribute.
    """

    budget: Budget
    _: KW_ONLY
    rows: int | None = None
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    objective: Objective = Objective.BALANCED
    ways: int | None = None
    tables: tuple[tuple[str, ...], ...] = ()
    named: Workload | None = None
    cells: Mapping[str, int] = field(default_factory=dict)
    units: bool = True
    measures: Iterable[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "neighbours", Neighbours(self.neighbours))
        object.__setattr__(self, "objective", Objective(self.objective))
        names = names_in(several(self.measures, "measures"))
        if len(set(names)) < len(names):
            raise PlanError(f"measures must be named once, got {max(names, key=names.count)!r} twice")
        object.__setattr__(self, "measures", names)

    def schema(self, schema: Schema) -> Schema:
        """The schema with neighbouring values merged where that is proposed; which ones costs the same."""
        return with_merged(schema, self.cells) if self.cells else schema.public()

    def workload(self, schema: Schema) -> Workload | None:
        """The tables that matter; None for all of one and two attributes. Raises for attributes that there are not."""
        if self.ways is not None:
            return Workload.all_ways(schema, self.ways)
        return Workload(self.tables).for_schema(schema) if self.tables else self.named

    def options(self) -> list[str]:
        """The same as options of a command, except merged values, which belong in the schema."""
        out = [text for name, number in self.budget.to_dict().items() for text in (f"--{name}", number)]
        out += [] if self.rows is None else ["--rows", str(self.rows)]
        out += [] if self.neighbours == Neighbours.ADD_REMOVE else ["--neighbours", self.neighbours.value]
        out += [] if self.ways is None else ["--ways", str(self.ways)]
        out += [] if self.units else ["--no-units"]
        out += [text for name in self.measures for text in ("--measure", name)]
        return out + [text for table in self.tables for text in ("--tables", ",".join(table))]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A plan for each strategy that could make one, the reason for each that could not, and the one chosen.

    ``outlooks`` holds what all stages of each plan may measure together. ``proposal`` is the release in mind: its
    budget (Laplace noise may spend only part of it), the named tables in the schema's order, and the expected number
    of rows, if given: strategies use it to choose, and errors are shown relative to it. ``considered`` are the compared
    strategies.

    When printed, it says in words what to expect.
    """

    plans: tuple[Plan, ...]
    chosen: Plan
    _: KW_ONLY
    outlooks: tuple[Plan, ...]
    reason: str
    proposal: Proposal
    considered: tuple[Strategy, ...]
    refused: tuple[tuple[str, str], ...] = ()
    currency: str | None = None

    def __repr__(self) -> str:
        chosen, others = self.chosen.strategy, ", ".join(self._others())
        return f"Comparison({chosen} is chosen of {len(self.plans)}: {self.reason}; others: {others or 'none'})"

    def __getitem__(self, strategy: str) -> Plan:
        """The plan of a strategy, by its name: to be run instead of the chosen one."""
        for each in self.plans:
            if each.strategy == strategy:
                return each
        why = dict(self.refused).get(strategy)
        known = [each.strategy for each in self.plans]
        raise PlanError(
            f"no strategy {strategy!r} was compared{did_you_mean(strategy, known)}"
            if why is None
            else f"{strategy} has no plan: {why}"
        )

    def _others(self) -> list[str]:
        return [each.strategy for each in self.plans if each is not self.chosen]

    def _repr_html_(self) -> str:
        orders = list(self.outlook.order_errors)
        rows = [
            [
                plan.strategy + (" (chosen)" if plan is self.chosen else ""),
                f"{len(outlook.requests):,}",
                f"{outlook.cells:,}",
                *(f"{outlook.order_errors.get(order, math.nan):,.1f}" for order in orders),
            ]
            for plan, outlook in zip(self.plans, self.outlooks, strict=True)
        ]
        heads = ["strategy", "requests", "numbers", *(f"error over {order}" for order in orders)]
        note = " ".join([self.reason, *(f"{name} cannot: {why}." for name, why in self.refused)])
        return html_table(heads, rows, caption="Strategies, and the error to expect", note=note)

    @property
    def rows(self) -> int | None:
        """The expected number of rows."""
        return self.proposal.rows

    @property
    def outlook(self) -> Plan:
        """What all stages of the chosen plan may measure together."""
        return self.outlooks[next(i for i, each in enumerate(self.plans) if each is self.chosen)]

    @property
    def expected(self) -> tuple[ExpectedError, ...]:
        """The expected error of the wanted tables and of their margins, by number of attributes."""
        likely = likely_errors(self.chosen, self.rows) if self.rows else None
        return expected_errors(self.outlook, self.rows, likely)

    def __str__(self) -> str:
        return "\n".join(
            filter(None, [*map(str, self.expected), units_in_words(self.chosen), totals_in_words(self.chosen)])
        )

    def advice(self) -> tuple[Advice, ...]:
        """What would change the error most, each change with the error that it gives. Free.

        Each alternative is planned, so this takes a few times as long as the plan itself.
        """
        return advised(self, self._again)

    def _again(self, other: Alternative) -> Comparison:
        """The comparison for an alternative, limited to the strategies that could be chosen."""
        by_default = self.chosen.objective != Objective.CELLS and DEFAULT[0] in self.considered
        strategies = DEFAULT if by_default else self.considered
        return compare(other.schema, other.proposal, strategies=strategies, currency=self.currency)


def plan(
    schema: Schema,
    *,
    rows: int | None = None,
    epsilon: Amount | None = None,
    delta: Amount | None = None,
    rho: Amount | None = None,
    workload: Workload | None = None,
    strategy: str | Strategy = "auto",
    strategies: Iterable[str | Strategy] | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    objective: Objective | str = Objective.BALANCED,
    units: bool = True,
    measures: Iterable[str] = (),
) -> Comparison:
    """What every strategy would measure, with the error to expect, and the one to choose. Free.

    When printed, the comparison says in words what to expect; its ``advice()`` says what would change that most.

    Args:
        schema: The table's attributes.
        rows: About how many rows there are: strategies may use it to choose, and errors are shown relative to it.
        epsilon: The budget; with ``delta`` it is approximate, alone it is pure.
        delta: See epsilon.
        rho: The budget under zero-concentrated privacy, instead of epsilon.
        workload: The tables that matter; all of one and two attributes when it is left out.
        strategy: One to plan with, or "auto" for the best.
        strategies: Several to compare instead, by name or as objects, also your own; "auto" stands for all of ours.
        neighbours: Which data sets must be hard to distinguish: "add-remove" or "replace".
        objective: What to minimise: "balanced", squared errors and misplaced rows alike; "tables", the squared error of
            a cell; "l1", the share of misplaced rows; or "cells", the weighted sum of the variances of all cells of the
            workload, as in the papers.
        units: Whether a small part of the budget measures how many units have how many rows, where the schema has a
            unit: only that says how many units there are, and how many rows its bound leaves out.
        measures: The measures of the schema whose totals are asked for, by name: half of the budget buys them, over the
            tables of the workload, or over each attribute where it is left out.
    """
    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    check_workload(workload)
    if strategies is not None and strategy != "auto":
        raise PlanError("say one strategy, or several strategies, not both")
    proposal = Proposal(
        budget,
        rows=rows,
        neighbours=Neighbours(neighbours),
        objective=Objective(objective),
        named=workload,
        units=units,
        measures=measures,
    )
    asked = read_strategies(strategy) if strategies is None else _several(strategies, workload)
    return compare(schema, proposal, strategies=asked)


def default_strategy(given: str | Strategy, objective: Objective | str) -> Sequence[Strategy]:
    """The strategies that a release needs to plan with: those of ``read_strategies`` that may be chosen."""
    return DEFAULT if given == "auto" and Objective(objective) != Objective.CELLS else read_strategies(given)


def read_strategies(given: str | Strategy) -> Sequence[Strategy]:
    """The strategies that a name or object means; "auto" means all that may be best."""
    if given == "auto":
        return AUTO_STRATEGIES
    return (named(given) if isinstance(given, str) else given,)


def _several(given: Iterable[str | Strategy], workload: Workload | None) -> Sequence[Strategy]:
    """All strategies that a list means, each once; their names must differ, since names identify plans.

    Among ours, only linear strategies support ranges and rows of a matrix.
    """
    asked = list(given)
    ours = for_workload(AUTO_STRATEGIES, workload)
    if asked == ["auto"]:
        return AUTO_STRATEGIES
    out: list[Strategy] = []
    for each in asked:
        out += [one for one in (ours if each == "auto" else read_strategies(each)) if one not in out]
    names = [each.name for each in out]
    double = [name for name in names if names.count(name) > 1]
    if double:
        raise PlanError(f"strategies must have different names, got {double[0]!r} twice")
    if not out:
        raise PlanError("strategies must name at least one")
    return tuple(out)


def compare(
    schema: Schema,
    proposal: Proposal,
    *,
    strategies: Sequence[Strategy] = AUTO_STRATEGIES,
    currency: str | None = None,
) -> Comparison:
    """Plans by all these strategies, and the one to choose.

    Args:
        schema: The table's attributes.
        proposal: What may be spent, for whom, and which tables matter.
        strategies: The strategies to compare; a single one is chosen whatever it plans.
        currency: That of the ledger that will pay, if there is one: epsilon and delta are counted by its rule. Laplace
            noise may then spend what their rho or mu^2 pays for, without a ledger all of epsilon, where that is better
            than Gaussian noise.
    """
    check_schema(schema)
    check_workload(proposal.named)
    if currency is not None:
        proposal = replace(proposal, budget=proposal.budget.counted_in(currency))
    budget, rows, objective = proposal.budget, proposal.rows, proposal.objective
    check_rows(rows)
    workload = proposal.workload(schema)
    workload = None if workload is None else workload.for_schema(schema)
    named, strategies = strategies, for_workload(strategies, workload)
    if strategies is not named:
        objective = Objective.CELLS
    units, pure = proposal.units and schema.unit is not None and not schema.divided, _pure_part(budget, currency)
    for name in proposal.measures:
        schema.measure(name)
    task = Task(
        schema, workload, budget=budget, neighbours=proposal.neighbours, units=units, measures=tuple(proposal.measures)
    )
    made: list[tuple[Plan, Plan]] = []
    refused: list[tuple[str, str]] = []
    for strategy in strategies:
        informed, default = strategy if rows is None else strategy.with_rows(rows), strategy in DEFAULT
        try:
            made.append(_planned(informed, task, objective, pure if default else None))
        except (PlanError, BudgetError) as error:  # the latter: noise of a scale that no sampler has
            # A release uses only the default, and would refuse what a different strategy could plan
            if len(strategies) == 1 or (default and objective != Objective.CELLS):
                raise
            refused.append((strategy.name, str(error)))
    if not made:
        raise PlanError(f"no strategy can plan this: {'; '.join(reason for _, reason in refused)}")
    plans, outlooks = zip(*made, strict=True)
    chosen, reason = _choose(plans, objective, asked=len(strategies) == 1)
    return Comparison(
        plans,
        chosen,
        outlooks=outlooks,
        reason=reason,
        proposal=replace(proposal, named=workload, ways=None, tables=(), objective=objective),
        considered=tuple(strategies),
        refused=tuple(refused),
        currency=currency,
    )


def for_workload(strategies: Sequence[Strategy], workload: Workload | None) -> Sequence[Strategy]:
    """The strategies to compare; if none was named, only linear ones for ranges and matrix rows, which others lack."""
    by_name = strategies is not AUTO_STRATEGIES and strategies is not DEFAULT
    return strategies if by_name or workload is None or not workload.along else (NAMED["linear"],)


def _pure_part(budget: Budget, currency: str | None) -> Budget | None:
    """The pure budget that may be spent instead of epsilon and delta; None where nothing else was meant."""
    if budget.pure or budget.epsilon is None:
        return None
    if currency not in ("rho", "mu2"):
        return Budget(epsilon=budget.epsilon)
    squared = budget.amount / Budget(epsilon=1).price_in(currency)  # the price is a square: never more than the amount
    return Budget(epsilon=Fraction(math.isqrt(int(squared * _ROOT_UNITS**2)), _ROOT_UNITS))


def _aimed(strategy: Strategy, task: Task, objective: Objective) -> Plan:
    """A strategy's plan for an objective. It plans with weights; the plan is about the tables that were named."""
    if task.units:
        part = replace(task.part(1 - units_share(task.budget)), units=False)
        plan = _aimed(strategy, part, objective)
        return with_unit_rows(plan, task.budget) if plan.requests else replace(plan, budget=task.budget)
    if task.measures:
        plan = _aimed(strategy, replace(task.part(1 - TOTALS_SHARE), measures=()), objective)
        tables = task.workload.tables if task.asked else [(name,) for name in task.schema.names]
        return with_totals(plan, task.budget, task.measures, tables)
    given = replace(task, objective=objective)
    if objective != Objective.CELLS and strategy.weighs:
        given = replace(given, asked=weighing_tables(task.schema, task.workload, objective))
    return replace(strategy.planned(given), workload=task.workload)


def _planned(strategy: Strategy, task: Task, objective: Objective, pure: Budget | None) -> tuple[Plan, Plan]:
    """A strategy's plan and its outlook; for tables with the kind of noise that is better, where a pure budget is."""
    plan = _aimed(strategy, task, objective)
    plan.check_countable()
    seen = outlook(plan)
    if pure is None or objective == Objective.CELLS:
        return plan, seen
    return _with_less_noise((plan, seen), strategy, task, pure)


def _with_less_noise(gaussian: tuple[Plan, Plan], strategy: Strategy, task: Task, pure: Budget) -> tuple[Plan, Plan]:
    """A plan and its outlook, with Gaussian noise, or Laplace noise for a pure budget: the one with the lower score.

    Kinds of noise are not mixed: the whole plan, with all its stages, has one. A pure guarantee of epsilon is one of
    epsilon and any delta.
    """
    plan, _ = gaussian
    try:
        laplace = _planned(strategy, replace(task, budget=pure), plan.objective, None)
    except (PlanError, BudgetError):
        return gaussian
    scores = [seen.score for _, seen in (laplace, gaussian)]
    if any(map(math.isnan, scores)) and plan.schema.facts:
        # What is not covered beforehand, since public counts take the place of the first stage: then as without them
        bare = replace(task, schema=replace(task.schema, facts=()))
        without = _aimed(strategy, bare, plan.objective)
        chosen = _with_less_noise((without, outlook(without)), strategy, bare, pure)[0]
        return laplace if chosen.budget == pure else gaussian
    if any(map(math.isnan, scores)):  # what is not covered beforehand: then by one-way tables with all of the budget
        ones = Workload([(name,) for name in dict.fromkeys(chain.from_iterable(plan.workload.tables))])
        powers = ((laplace[0], 1.0), (plan, 0.5))
        scores = [replace(each, workload=ones).score * float(each.share) ** power for each, power in powers]
    return laplace if scores[0] < scores[1] else gaussian


def rests_on_rows(schema: Schema, proposal: Proposal, *, strategies: Sequence[Strategy] = AUTO_STRATEGIES) -> bool:
    """Whether some strategy would plan differently without the number of rows. This costs no budget."""
    if proposal.rows is None:
        return False
    workload = proposal.workload(schema)

    def planned(strategy: Strategy) -> Plan | None:
        try:
            return strategy.plan(schema, workload, proposal.budget, neighbours=proposal.neighbours)
        except PlanError:
            return None

    pairs = ((strategy, strategy.with_rows(proposal.rows)) for strategy in for_workload(strategies, workload))
    return any(strategy != informed and planned(strategy) != planned(informed) for strategy, informed in pairs)


def _choose(plans: Sequence[Plan], objective: Objective, *, asked: bool) -> tuple[Plan, str]:
    if asked:
        return plans[0], "it was asked for"
    by_default = [each for each in plans if each.strategy == DEFAULT[0].name]
    if objective != Objective.CELLS and by_default:
        return by_default[
            0
        ], "it decides by noisy one-way tables what else is worth measuring, which no plan knows beforehand"
    covering = [each for each in plans if each.covers]
    if not covering:
        raise PlanError(
            "no strategy that fits covers these tables; ask for fewer or smaller tables, or fewer attributes"
        )
    chosen = min(covering, key=lambda each: each.score)
    others = sorted(each.score for each in covering if each is not chosen)
    if not others:
        return chosen, "no other strategy covers these tables"
    ratio = others[0] / chosen.score
    if ratio < 1.01:
        return chosen, "no other strategy has a lower error"
    return chosen, f"the next best has {ratio:,.{0 if ratio >= 10 else 2}f} times its error"


def solve_epsilon(
    schema: Schema, proposal: Proposal, target_error: float, *, strategies: Sequence[Strategy] = AUTO_STRATEGIES
) -> Budget:
    """The budget with the least epsilon, to three digits, with which the chosen plan has at most this RMS error.

    All else is as in the proposal, also delta.
    """
    if isinstance(target_error, bool) or not 0 < target_error < math.inf:
        raise BudgetError(f"the target error must be positive, got {target_error}")

    by_default = strategies is AUTO_STRATEGIES and proposal.objective != Objective.CELLS
    asked = DEFAULT if by_default else strategies  # the others are not chosen then, and take time

    def error(log_epsilon: float) -> tuple[float, Budget]:
        epsilon = Context(prec=3, rounding=ROUND_CEILING).create_decimal(Decimal(10.0**log_epsilon))
        budget = Budget(epsilon=Fraction(epsilon), delta=proposal.budget.delta, rule=proposal.budget.rule)
        chosen = compare(schema, replace(proposal, budget=budget), strategies=asked).outlook
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
