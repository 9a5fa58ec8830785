"""MWEM: multiplicative weights, exponential mechanism (Hardt, Ligett and McSherry 2012).

The estimate is a table over all attributes, at first the same in every cell. Each of T rounds chooses privately the
table of the workload that the estimate gets most wrong, measures it, and multiplies the weights: with n rows, noisy
counts m and the estimate's own A over the chosen table, the cell x of the full table changes by the factor

    exp( (m(x) - A(x)) / (2 n) )

and the whole is scaled back to n. Half of the budget chooses, half measures. The cells of one table are disjoint
queries, which one measurement answers together (section 3.3 of the paper); their L1 distance is what is chosen by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from crosstally.budget import fraction_of_text
from crosstally.errors import PlanError, TooManyCellsError
from crosstally.measurements import Measurement
from crosstally.plans.plan import Plan, Request, Rule, known_total
from crosstally.plans.shares import requests_with_shares
from crosstally.plans.stages import part_of
from crosstally.questions.choice import Choice
from crosstally.questions.queries import Cells
from crosstally.schema import Schema
from crosstally.strategies.base import Strategy, Task
from crosstally.strategies.flat import approximately
from crosstally.strategies.rounds import (
    check_rounds,
    choosing,
    following,
    just_chosen,
    next_budget,
    shares_of_rounds,
)
from crosstally.typing import Floats
from crosstally.workload import Workload

__all__ = ["MWEM", "multiplicative_weights"]

RULE_VERSION = 1
"""What ``next`` does with its parameters and what was measured. Approved plans rest on it."""

MAX_DOMAIN = 200_000
"""Cells of the table over all attributes. Every stage goes through it once for each round so far."""

_HALF = Fraction(1, 2)  # half of each round chooses and half measures, as in the paper (figure 1: epsilon / 2T each)


@dataclass(frozen=True, slots=True)
class MWEM(Strategy):
    """Choose the table that multiplicative weights get most wrong, measure it, update; as often as there are rounds.

    A release answers from the measurements by its own inference. What the paper publishes, the average of the weights
    of all rounds, is ``multiplicative_weights``.

    Args:
        rounds: How many tables are chosen and measured; the same one may be chosen again.
        rows_share: The share of the budget that buys the number of rows, where it is not public.
        rows: About how many rows there are, if that is public: it is not bought then.
    """

    rounds: int = 10
    rows_share: Fraction = Fraction(1, 100)
    rows: int | None = None
    name: ClassVar[str] = "mwem"

    def __post_init__(self) -> None:
        check_rounds(self.rounds)
        share = fraction_of_text(str(self.rows_share))
        if share is None or not 0 < share < 1:
            raise PlanError(f"rows_share must be between 0 and 1, got {self.rows_share}")
        object.__setattr__(self, "rows_share", share)

    @property
    def weighs(self) -> bool:
        """It goes by tables alone."""
        return False

    def with_rows(self, rows: int) -> MWEM:
        """The same, told about how many rows there are."""
        return replace(self, rows=rows) if self.rows is None else self

    def planned(self, task: Task) -> Plan:
        """The number of rows, or where it is public the first choice; then a rule for each later stage."""
        if task.schema.cells > MAX_DOMAIN:
            raise TooManyCellsError(
                f"the full table has {approximately(task.schema.cells)} cells, and mwem is limited to {MAX_DOMAIN:,}; "
                f"use another strategy, or fewer or coarser attributes"
            )
        whole = Fraction(1) if self.rows is not None else 1 - self.rows_share
        shares = shares_of_rounds(self.rounds, whole, choosing_share=_HALF)
        if self.rows is None:
            own = part_of(task.budget, self.rows_share)
            first: Sequence[Request] = requests_with_shares([Cells(())], [1.0], task.schema, own, task.neighbours)
        else:
            own, shares = part_of(task.budget, shares[0]), shares[1:]
            choice = _choice(task.schema, task.workload, [_uniform(task.schema, self.rows)])
            first = choosing(choice, task.schema, own, task.neighbours)
        parameters = {"rounds": self.rounds, "rows": self.rows}
        rules = (Rule(self.name, RULE_VERSION, parameters=parameters, share=share) for share in shares)
        return task.planned(self.name, first, later=tuple(rules))

    def next(self, plan: Plan, seen: Sequence[Measurement]) -> Plan | None:
        """A choice by the weights so far; after a choice, the table chosen."""
        schema, own, table = plan.schema, next_budget(plan), just_chosen(seen)
        if table is not None:
            return following(plan, requests_with_shares([Cells(table)], [1.0], schema, own, plan.neighbours))
        rows = known_total(seen) if self.rows is None else self.rows
        if rows is None:
            raise PlanError("mwem chooses tables by the number of rows, which was not measured")
        choice = _choice(schema, plan.workload, multiplicative_weights(schema, seen, rows=rows))
        return following(plan, choosing(choice, schema, own, plan.neighbours))


def multiplicative_weights(schema: Schema, measured: Sequence[Measurement], *, rows: float) -> list[Floats]:
    """The estimate before any round and after each one, as tables over all attributes; the paper publishes their mean.

    Only measured tables count: choices and the number of rows are passed over. The mean is over the rounds, without
    the first table.
    """
    estimates = [_uniform(schema, rows)]
    total = estimates[0].sum()
    logs = np.log(estimates[0])
    for each in measured:
        if isinstance(each.query, Choice) or not each.query.attributes:
            continue
        axes = [schema.positions[name] for name in each.query.attributes]
        off = np.asarray(each.values - _margin(estimates[-1], axes), np.float64) / (2 * total)
        shape = [1] * len(schema.shape)
        for axis in axes:
            shape[axis] = schema.shape[axis]
        logs = logs + off.transpose(np.argsort(axes)).reshape(shape)
        weights = np.exp(logs - logs.max())  # the largest is 1: noise far above the number of rows cannot overflow
        estimates.append(weights * (total / weights.sum()))
    return estimates


def _uniform(schema: Schema, rows: float) -> Floats:
    """The same in every cell, of at least one row."""
    return np.full(schema.shape, max(rows, 1.0) / schema.cells)


def _margin(table: Floats, axes: Sequence[int]) -> Floats:
    """The margin over some axes, in the order named."""
    summed = table.sum(axis=tuple(i for i in range(table.ndim) if i not in axes))
    return np.asarray(summed).transpose(np.argsort(np.argsort(axes)))


def _choice(schema: Schema, workload: Workload, estimates: Sequence[Floats]) -> Choice:
    """Which table of the workload is farthest from the newest estimate, rounded."""
    tables = [names for names in workload.tables if names]
    if not tables:
        raise PlanError("mwem chooses between tables of at least one attribute: name some, or none at all")
    margins = (_margin(estimates[-1], [schema.positions[name] for name in names]) for names in tables)
    return Choice(tables, [np.rint(margin).astype(np.int64).ravel().tolist() for margin in margins])
