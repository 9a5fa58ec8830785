"""Two-stage, the default: measure the total and one-way tables; these decide which others are worth their noise.

The first stage measures these with the share of the budget that they have in the goal. Its noisy
result gives a prior for the size of every interaction (``view_shares``). The rest of the budget minimises the score
that is expected,

    score = exp(sum_k share_k log(E_k) / 2),    E_k = sum_B W_kB e_B(P_B),    e_B(P) = sum_j w_j / (P + 1 / s_Bj^2).

E_k is the mean squared error of a cell over the tables of k attributes, share_k their share of the goal, W_kB what the
coefficients of the set B of attributes count in it (``goal``). P_B is the precision of B after all stages, and s_Bj are
three sizes of its interaction, with the belief's weights w_j: an unmeasured set, P_B = 0, has the error of predicting.

Gaussian noise  over P_B >= first_B, the first stage's own, with sum_B cost_B (P_B - first_B) = rho: the slopes
                -sum_k share_k W_kB e_B'(P_B) / E_k are mu cost_B, one mu for all sets that are measured; most are not
                (``water_filling``: then the precisions of these are found again with e_B(P) = 1 / P, for inference
                may not shrink their noise, and sets are dropped that this makes worse than predicting). If E_1 would
                exceed a limit, the one-way tables are raised to it first (``_most_one_way_error``)
Laplace noise   over several families of views V and their shares x_V of sum 1, with P_B = first_B + c sum over V that
                hold B of x_V^2 / (cells of V outside B), c the precision of a table with the whole budget; families
                are then compared by the noise that inference is expected to leave (``view_shares``)
wide schemas    a private choice of few pairs in between (``look``); then these over groups of values (``value_groups``)
                and the one-way tables, with x_V in the place of x_V^2 if noise is Gaussian

A named table that is predicted better than it could be measured is not measured. ``next`` gets the plan and the
published measurements, never the data: choosing is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from crosstally.budget import Budget, Objective, exact
from crosstally.errors import BudgetError
from crosstally.measurements import Measurement, public_counts
from crosstally.plans.plan import Plan
from crosstally.plans.request import GroupedRequests, Request, Rule, first_share, rest_of
from crosstally.query.queries import Cells
from crosstally.query.ways import full_part
from crosstally.residuals.variances import Variances, bounded
from crosstally.strategies.goal import (
    Goal,
    goal_of,
    known_variances,
    public_precision,
)
from crosstally.strategies.likely import SMALL_SIZES, likely_range
from crosstally.strategies.look import LOOK_SHARES
from crosstally.strategies.optimum import ViewSearch, best_views
from crosstally.strategies.residual import Residual, contrast_costs, contrasts_with_variances
from crosstally.strategies.strategy import Strategy, Task, following, next_task
from crosstally.strategies.view_shares import (
    MOST_CELLS,
    Belief,
    TableBudget,
    ViewShares,
    best_family,
    best_shares,
    known_sizes,
    seen_one_ways,
)
from crosstally.strategies.water_filling import best_precisions
from crosstally.strategies.wide_schemas import choice_for_wide, is_wide, last_of_wide
from crosstally.typing import Floats
from crosstally.workload import Workload

RULE_VERSION = 1
"""The version of the rule by which ``next`` plans. Approved plans depend on it."""
_LIMIT = "one_ways"  # the parameter of a rule that holds the largest RMS error of one-way tables, as text

_LOOKS = (Fraction(1, 20), Fraction(1, 4))
"""The least share of the first stage, and of one-way tables where these are not known well enough to decide by them.

They only decide what else is measured, where they are not named themselves. A twentieth makes other noise 5% larger, 3%
if it is Gaussian. A quarter is their share where nothing is named; wide schemas, whose one-way tables also decide which
values are put into groups, begin with it."""
_LAPLACE_WIDE = Fraction(17, 20)
"""The share of the first stage of wide schemas under Laplace noise. Two measurements of a table share the budget badly
there: with a share of a quarter, what a later stage spends on the one-way tables again leaves 1.3 times the noise. The
few pairs that a look finds need little. On the table of loans 3/4 makes one-way tables 15% worse, and 9/10 pairs 4%."""
_ENOUGH = 0.1
"""One-way tables decide if the standard error of their counts is at most this part of an average count, in half of the
tables. The sizes of interactions that are compared with noise are uncertain by a factor of three (``SPREAD``)."""
_FEW_TABLES = 3  # named tables; see below
_WORTH_STAGES = 1.05
"""Up to this many named tables are measured at once if two stages would score more than 5% higher. More tables are
never all worth measuring without a look at the one-way tables."""

_MOST_REGRET = 2.0
"""With delta, one-way tables have at most this many times the error of the best plan for them alone. Laplace noise may
be best for these although it is not for all tables: on census-9 (epsilon 1, delta 1e-9) they had 2.5 times its error
without this limit. An error of twice the best is that of a quarter of the best noise's budget: their share of the
goal."""
_MOST_FOR_ONES = 0.5  # of the second stage: what is left must still be worth a stage, whatever one-way tables lack
_PARTS = 1000  # shares of stages are fractions of at most this denominator
_STEP = 4
"""Precisions are rounded to this many steps for each doubling: similar sets then share one noise. That makes the
expected score of Adult, ACS and Kosarak 0.05% higher."""


@dataclass(frozen=True, slots=True)
class TwoStage(Strategy):
    """Measure the total and one-way tables, then those larger tables that are worth their noise."""

    name: ClassVar[str] = "two-stage"
    weighs: ClassVar[bool] = False

    def planned(self, task: Task) -> Plan:
        """Requests for the one-way tables, and the rule of the second stage; or all at once where that is better.

        A few tables that are measured in any case need no first stage to choose them.
        """
        goal = _weighed(goal_of(task.schema, task.asked), task.objective, task.asked)
        if len(goal.shares) == 1:
            return task.planned(self.name, _one_ways(task, task.budget) or _all_one_ways(task, task.budget))
        share = _share_of_one_ways(task, goal)
        goal = _with_first_share(goal, share)
        if not share:
            return _by_public_counts(task, goal)
        rules = _rules(task, share, _most_one_way_error(task, goal))
        staged = task.planned(self.name, _one_ways(task, task.budget.part(first_share(rules))), later=rules)
        if task.asked is None or len(task.asked) > _FEW_TABLES:
            return staged
        at_once = task.planned(
            self.name, _second(task, goal, known_sizes(goal.closure), public_precision(goal.closure))
        )
        scores = [_score(goal, plan) for plan in (at_once, self.outlook(staged))]
        return at_once if scores[0] * _WORTH_STAGES < scores[1] else staged

    def next(self, plan: Plan, seen: Sequence[Measurement]) -> Plan | None:
        """The second stage, chosen by the one-way tables."""
        task = Task.after(plan)
        if is_wide(task):
            return _next_of_wide(task, plan, seen)
        rows, shares = seen_one_ways(plan.schema, seen)
        if len(plan.later) > 1 and not _sees_enough(task, plan, rows):
            return following(plan, _one_ways(task, task.budget.part(first_share(rest_of(plan.later)))))
        goal = _goal(plan, [1 / float(p @ p) for p in shares])
        belief = Belief.of_one_ways(goal.closure, shares, rows)
        known = _known_by(goal, seen) + public_precision(goal.closure)
        return task.planned(self.name, _second(task, goal, belief, known, plan.later[0]))

    def outlook(self, plan: Plan) -> Plan:
        """What both stages measure if every table of the workload, or of one and two attributes, is worth measuring.

        It covers them, so their errors are known before anything is spent. Real data rarely need all of it: what
        is left out makes the rest more precise. For a wide schema, whose groups are not known, the first stage only.
        """
        if not plan.later or is_wide(Task.after(plan)):
            return plan
        task, goal = Task.after(plan), goal_of(plan.schema, plan.workload).weighed(plan.objective)
        second = _second(task, goal, known_sizes(goal.closure), _known_before(goal, plan), plan.later[0])
        return replace(plan, requests=(*plan.requests, *second), later=())

    def likely_errors(self, plan: Plan, rows: int) -> Mapping[int, tuple[float, float]]:
        """The range of likely errors, with the second stage that each belief leads to (``likely``).

        For a wide schema the one-way tables get all that is left, and interactions are smaller: a look finds the large
        ones.
        """
        task = Task.after(plan)
        goal = _goal(plan)
        known = _known_before(goal, plan)
        if is_wide(task):
            ones = known + _known(goal, task.planned(self.name, _one_ways(task, task.budget)))
            return likely_range(goal, lambda _: ones, rows, pure=plan.budget.pure, sizes=SMALL_SIZES)

        def measured(belief: Belief) -> Floats:
            second = _second(task, goal, belief, known, plan.later[0])
            return known + _known(goal, task.planned(self.name, second))

        return likely_range(goal, measured, rows, pure=plan.budget.pure)


def _rules(task: Task, ones: Fraction, most: float | None) -> tuple[Rule, ...]:
    """One for the second stage, and before it one for the look of a wide schema. ``ones`` is the share of the first.

    ``most`` is the largest RMS error of one-way tables, if there is a limit; the rule has its first four digits.
    """
    named = task.asked is not None
    limit = {} if most is None else {_LIMIT: f"{most:.4g}"}
    rule = Rule(TwoStage.name, RULE_VERSION, parameters={"named": named, **limit}, share=1 - ones)
    if is_wide(task):
        look = LOOK_SHARES[task.budget.pure]
        first = replace(rule, parameters={**rule.parameters, "look": True}, share=look)
        return (first, replace(rule, share=rule.share - look))
    if _asks_one_ways(task):
        return (rule,)
    more = ones * (_LOOKS[1] / _LOOKS[0] - 1)
    hedged = replace(rule, parameters={**rule.parameters, "hedged": True}, share=rule.share - more)
    return (replace(rule, share=more), hedged)


def _asks_one_ways(task: Task) -> bool:
    """Whether one-way tables matter for themselves: they were named, or nothing was."""
    return task.asked is None or any(len(table) <= 1 for table in task.asked.tables)


def _sees_enough(task: Task, plan: Plan, rows: float) -> bool:
    """Whether the one-way tables of a plan are known well enough to decide what else is worth measuring."""
    ones = goal_of(task.schema, _one_way_tables(task))
    variances = known_variances(plan, ones.closure).of_tables[1:]
    return bool(np.median(np.sqrt(variances) * ones.closure.cells()[1:]) <= _ENOUGH * rows)


def _goal(plan: Plan, values: Sequence[float] | None = None) -> Goal:
    """What the second stage is for: the named tables, or all; with the number of values that are in use, if known."""
    rule = plan.later[0].parameters
    named = plan.workload if rule["named"] else None
    goal = _weighed(goal_of(plan.schema, named), plan.objective, named, values)
    if rule.get("hedged"):
        return replace(goal, shares=np.array([float(_LOOKS[-1]), *_rest_of(goal.shares, float(_LOOKS[-1]))]))
    units = plan.units_share  # not spent on tables
    return _with_first_share(goal, (plan.share - units) / (1 - units))


def _weighed(goal: Goal, objective: Objective, named: Workload | None, values: Sequence[float] | None = None) -> Goal:
    """The goal weighed by its objective; where nothing is named, all but "l1" are "tables", for all orders.

    Weighing tables of up to four attributes by their cells gives the budget to interactions that no noise can be small
    enough for: on census-9 (epsilon 1, delta 1e-9) unnamed triples have 1.2 times the error, in L1 1.1 times.
    """
    return goal if named is None and objective != Objective.L1 else goal.weighed(objective, values)


def _with_first_share(goal: Goal, share: Fraction) -> Goal:
    """The goal with this share for one-way tables, if that is less; the other orders share the rest as before."""
    if share >= Fraction(float(goal.shares[0])).limit_denominator(_PARTS):
        return goal
    return replace(goal, shares=np.array([float(share), *_rest_of(goal.shares, float(share))]))


def _rest_of(shares: Floats, first: float) -> Floats:
    """The shares of all orders but the first, when that has this share."""
    return np.asarray(shares[1:] * (1 - first) / (1 - shares[0]))


def _second(task: Task, goal: Goal, belief: Belief, already: Floats, rule: Rule | None = None) -> Sequence[Request]:
    """Requests for the task's budget by a rule, when each set is already known with some precision."""
    if task.budget.pure:
        return _cells_of(task, best_family(task, goal, belief, already))
    limit = None if rule is None else rule.parameters.get(_LIMIT)
    return _contrasts(task, goal, belief, already, most=None if limit is None else float(exact(limit, _LIMIT)))


def _score(goal: Goal, plan: Plan) -> float:
    return goal.score(goal.errors(known_variances(plan, goal.closure).of_sets))


# The first stage


def _share_of_one_ways(task: Task, goal: Goal) -> Fraction:
    """The share of the first stage: that of the one-way tables in the goal, less for tables that are public.

    Let s be the share in the goal and u the mean over attributes of the part of the precision of a one-way table that
    is bought: 1 where nothing is public, 0 where the counts are exact. The share is s u / (s u + 1 - s). So what public
    tables leave goes to all others alike: each one-way table that is not public and each larger one gets 1 / (s u + 1 -
    s) times its part of the budget without facts.
    """
    wide = is_wide(task)
    share = max(Fraction(float(goal.shares[0])).limit_denominator(_PARTS), _LOOKS[wide])
    if wide and task.budget.pure:
        share = _LAPLACE_WIDE
    if not task.schema.public_counts():
        return share
    ones = goal_of(task.schema, _one_way_tables(task))
    bought = _known(ones, task.planned(TwoStage.name, _one_ways(task, task.budget.part(share))))
    places, _ = ones.closure.members[1]
    part = float(np.mean(bought[places] / (bought + public_precision(ones.closure))[places])) * float(share)
    return Fraction(part / (part + 1 - float(share))).limit_denominator(_PARTS)


def _most_one_way_error(task: Task, goal: Goal) -> float | None:
    """The largest RMS error of one-way tables that were asked for; None if the first stage's share keeps within it.

    Under Gaussian noise of epsilon and delta, Laplace noise of the same epsilon may be best for one-way tables alone.
    """
    if not _asks_one_ways(task) or task.budget.pure or task.budget.epsilon is None or is_wide(task):
        return None
    gaussian = _error_alone(task, goal)
    try:
        laplace = _error_alone(replace(task, budget=Budget(epsilon=task.budget.epsilon)), goal)
    except BudgetError:  # noise of a scale that no sampler has
        return None
    return _MOST_REGRET * laplace if laplace < gaussian else None


def _error_alone(task: Task, goal: Goal) -> float:
    """The RMS error of one-way tables if these have the whole budget."""
    plan = task.planned(TwoStage.name, _one_ways(task, task.budget))
    return _one_way_error(goal, known_variances(plan, goal.closure).precisions)


def _one_way_error(goal: Goal, precisions: Floats) -> float:
    """The RMS error of one-way tables, the total among them, when the sets of the goal have these precisions."""
    ones = goal.weights[0] > 0
    return math.sqrt(float(goal.weights[0][ones] @ (1 / precisions[ones])))


def _one_way_tables(task: Task, without: Container[str | None] = ()) -> Workload:
    """The total and the one-way tables; each counts by the mean variance of its cells."""
    names = [name for name in task.workload.attributes(task.schema) if name not in without]
    tables = [*([] if None in without else [()]), *((name,) for name in names)]
    return Workload(tables, [1 / math.prod(task.schema.sizes(table)) for table in tables])


def _all_one_ways(task: Task, budget: Budget) -> Sequence[Request]:
    """Requests for the total and the one-way tables, whatever is public.

    Under Laplace noise, where a table costs the same whatever its cells, small attributes are measured together: the 17
    binary ones of MSNBC in five tables of three and one of two, for 0.71 of the error that a table each has.
    """
    strategy = ViewSearch() if budget.pure else Residual()
    return strategy.plan(task.schema, _one_way_tables(task), budget, neighbours=task.neighbours).requests


def _one_ways(task: Task, budget: Budget) -> Sequence[Request]:
    """Requests for the total and the one-way tables that public counts do not give; none if they give all.

    Under Laplace noise the views are those of ``optimum`` for the tables that are not public, or not exactly, and
    their shares the best given public counts.
    """
    facts = task.schema.public_counts()
    if not facts:
        return _all_one_ways(task, budget)
    goal, own = goal_of(task.schema, _one_way_tables(task)), replace(task, budget=budget)
    already, belief = public_precision(goal.closure), known_sizes(goal.closure)
    exact = {fact.attribute for fact in facts if not fact.error}
    if {None, *exact} >= {None, *task.workload.attributes(task.schema)}:
        return ()
    if not budget.pure:
        return _contrasts(own, goal, belief, already)
    families = [
        best_views(task.schema, unknown.for_schema(task.schema), 2).views
        for without in (exact, {fact.attribute for fact in facts})
        for unknown in [_one_way_tables(task, {*without, *([None] if exact else [])})]
        if len(unknown)
    ]
    candidates = [best_shares(goal, belief, views, TableBudget.of(own), already=already) for views in families]
    return _cells_of(own, min(candidates, key=lambda each: each.score))


def _by_public_counts(task: Task, goal: Goal) -> Plan:
    """The second stage with the whole budget, if public counts replace the first stage; of wide schemas the look."""
    public = public_counts(task.schema)
    if is_wide(task):
        look = LOOK_SHARES[task.budget.pure]
        rule, own = replace(_rules(task, look, None)[-1], share=1 - look), task.part(look)
        choice = choice_for_wide(task, public, own.budget)
        asked = [Cells(())] if choice is None else [choice]
        return task.planned(TwoStage.name, own.requests(asked), later=(rule,))
    rows, shares = seen_one_ways(task.schema, public)
    belief = Belief.of_one_ways(goal.closure, shares, rows)
    return task.planned(TwoStage.name, _second(task, goal, belief, public_precision(goal.closure)))


def _next_of_wide(task: Task, plan: Plan, seen: Sequence[Measurement]) -> Plan | None:
    """The look, if it comes next and may find something; else the last stage, with all that is left."""
    if len(plan.later) > 1:
        own = next_task(plan)
        choice = choice_for_wide(task, seen, own.budget)
        if choice is not None:
            return following(plan, own.requests([choice]))
    requests = last_of_wide(task, seen, lambda budget: _one_ways(task, budget))
    return task.planned(plan.strategy, requests) if requests else None


def _known(goal: Goal, plan: Plan) -> Floats:
    """The precision with which a plan's own requests measure each set of the goal."""
    return known_variances(plan, goal.closure, public=False).precisions


def _known_by(goal: Goal, seen: Sequence[Measurement]) -> Floats:
    """The precision with which measurements know each set of the goal."""
    positions = goal.closure.schema.positions
    linear = [(full_part(each.query), each.variance) for each in seen if each.query.is_linear]
    measured = [
        (query.is_residual, np.array([[positions[name] for name in query.attributes]], np.intp), cells * variance)
        for (query, cells), variance in linear
    ]
    return Variances(goal.closure, measured).precisions


def _known_before(goal: Goal, plan: Plan) -> Floats:
    """The precision of each set before the second stage: by the first, and by public counts."""
    return _known(goal, plan) + public_precision(goal.closure)


# The second stage under Gaussian noise


def _contrasts(
    task: Task, goal: Goal, belief: Belief, already: Floats, *, most: float | None = None
) -> Sequence[Request]:
    costs = contrast_costs(goal.closure, task.neighbours)
    amount = bounded(task.budget.nearly_rho)  # what is bought is scaled to the budget later
    bought = best_precisions(goal, belief, costs, amount, already=already, most_cells=MOST_CELLS)
    if most is not None and _one_way_error(goal, already + bought) > most:
        ones = _for_one_ways(goal, costs, amount, already=already, most=most)
        left = amount - float(costs @ ones)
        bought = ones + best_precisions(goal, belief, costs, left, already=already + ones, most_cells=MOST_CELLS)
    with np.errstate(divide="ignore"):
        variances = 1 / np.exp2(np.round(np.log2(bought) * _STEP) / _STEP)
    return GroupedRequests(
        task.schema, contrasts_with_variances(goal.closure, costs, variances, task.budget, task.neighbours)
    )


def _for_one_ways(goal: Goal, costs: Floats, amount: float, *, already: Floats, most: float) -> Floats:
    """The precision to buy for one-way tables, so that their RMS error is at most this, if that leaves enough.

    The first stage bought the best precisions for one-way tables; all are raised by one factor.
    """
    own = np.where(goal.weights[0] > 0, already - public_precision(goal.closure), 0.0)
    low, high = 0.0, _MOST_FOR_ONES * amount / float(costs @ own)
    for _ in range(40):  # halves the range each time: to a part in a million million
        middle = (low + high) / 2
        low, high = (middle, high) if _one_way_error(goal, already + middle * own) > most else (low, middle)
    return np.asarray(high * own)


# The second stage under Laplace noise


def _cells_of(task: Task, best: ViewShares) -> Sequence[Request]:
    return task.requests([Cells(task.names(view)) for view in best.views], best.shares)
