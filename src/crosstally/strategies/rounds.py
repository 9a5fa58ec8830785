"""Rounds of a private choice and a measurement of what was chosen: two stages each, planned one by one.

The first stage of all measures what every round needs. Each later stage has a rule of the same name and parameters; the
number of rounds is fixed, and so is the share of each stage. What a stage asks follows from the answers before it, so
that a run can be repeated from its recorded choices and measurements alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from crosstally.budget import Budget, Neighbours, Noise
from crosstally.errors import PlanError
from crosstally.measurements import Chosen, Measurement
from crosstally.plans.plan import Plan, Request
from crosstally.plans.stages import part_of, rest_of
from crosstally.query.choice import Choice
from crosstally.schema import Schema
from crosstally.strategies.base import Task

__all__ = ["MAX_ROUNDS", "check_rounds", "choosing", "following", "just_chosen", "next_budget", "shares_of_rounds"]

MAX_ROUNDS = 200
"""Each round is two entries of the ledger, and counts all candidates once: hundreds take minutes."""


def check_rounds(rounds: object) -> None:
    """Raise unless this is a number of rounds."""
    if isinstance(rounds, bool) or not isinstance(rounds, int) or not 1 <= rounds <= MAX_ROUNDS:
        raise PlanError(f"rounds must be a whole number from 1 to {MAX_ROUNDS}, got {rounds!r}")


def shares_of_rounds(rounds: int, whole: Fraction, *, choosing_share: Fraction) -> tuple[Fraction, ...]:
    """The share of the budget of each stage of all rounds, equal rounds, of which choosing gets its own part.

    >>> shares_of_rounds(2, Fraction(1), choosing_share=Fraction(1, 10))
    (Fraction(1, 20), Fraction(9, 20), Fraction(1, 20), Fraction(9, 20))
    """
    each = whole / rounds
    return (each * choosing_share, each * (1 - choosing_share)) * rounds


def choosing(choice: Choice, schema: Schema, budget: Budget, neighbours: Neighbours | str) -> tuple[Request, ...]:
    """A request for a choice with the least noise that the budget buys."""
    sensitivity = choice.sensitivity(schema, neighbours)
    return (Request(choice, Noise.affordable_choice(sensitivity, budget.amount, pure=budget.pure)),)


def just_chosen(seen: Sequence[Measurement]) -> tuple[str, ...] | None:
    """The table that the last answer chose; None where the last answer is a measurement."""
    if not seen or seen[-1].query.is_linear:
        return None
    return Chosen.of(seen[-1]).table


def next_budget(plan: Plan) -> Budget:
    """What the stage after a plan's may spend."""
    later = sum((rule.share for rule in rest_of(plan.later)), Fraction(0))
    return part_of(plan.budget_left, 1 - later)


def following(plan: Plan, requests: Sequence[Request]) -> Plan:
    """The stage after a plan's, with these requests."""
    task = Task(plan.schema, plan.workload, budget=plan.budget_left, neighbours=plan.neighbours)
    return task.planned(plan.strategy, requests, later=rest_of(plan.later))
