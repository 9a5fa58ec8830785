"""MWEM: multiplicative weights, exponential mechanism (Hardt, Ligett and McSherry 2012).

The estimate is a table over all attributes, which starts uniform. Each of T rounds chooses privately the
table of the workload that the estimate gets most wrong, measures it, and multiplies the weights: with n rows, noisy
counts m and the estimate's own A over the chosen table, the cell x of the full table changes by the factor

    exp( (m(x) - A(x)) / (2 n) )

and the whole is scaled back to n. Half of the budget chooses, half measures. The cells of one table are disjoint
queries, which one measurement answers together (section 3.3 of the paper); the choice uses
their L1 distance. With ``replays`` each round repeats the updates for all measurements so far, as in the paper's
experiments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import PlanError, TooManyCellsError
from crosstally.measurements import Measurement
from crosstally.plans.plan import Plan
from crosstally.plans.request import Rule
from crosstally.query.choice import Choice
from crosstally.query.queries import Cells
from crosstally.schema import Schema
from crosstally.strategies.direct import approximately
from crosstally.strategies.strategy import (
    Strategy,
    Task,
    check_rounds,
    following,
    just_chosen,
    known_total,
    next_task,
    rows_share_of,
    shares_of_rounds,
)
from crosstally.typing import Floats
from crosstally.workload import Workload

RULE_VERSION = 1
"""What ``next`` does with its parameters and what was measured. Approved plans rest on it."""

MAX_DOMAIN = 200_000
"""Cells of the table over all attributes. Every stage goes through it once for each round so far."""

MAX_REPLAYS = 1_000
"""Limits time: every stage repeats all rounds before it, each with so many passes. PriView has 100."""

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
        replays: How often each round goes through all measurements so far; with 0 each is used once, in its own round.
    """

    rounds: int = 10
    rows_share: Fraction = Fraction(1, 100)
    rows: int | None = None
    replays: int = 0
    name: ClassVar[str] = "mwem"
    weighs: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_rounds(self.rounds)
        if isinstance(self.replays, bool) or not isinstance(self.replays, int) or not 0 <= self.replays <= MAX_REPLAYS:
            raise PlanError(f"replays must be a whole number from 0 to {MAX_REPLAYS:,}, got {self.replays!r}")
        object.__setattr__(self, "rows_share", rows_share_of(self.rows_share))

    def with_rows(self, rows: int) -> MWEM:
        """The same strategy with an approximate number of rows."""
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
            first = task.part(self.rows_share).requests([Cells(())])
        else:
            choice = _choice(task.schema, task.workload, [_uniform(task.schema, self.rows)])
            first, shares = task.part(shares[0]).requests([choice]), shares[1:]
        parameters = {"rounds": self.rounds, "rows": self.rows}
        if self.replays:  # plans without replays are the same as before there were any
            parameters["replays"] = self.replays
        rules = (Rule(self.name, RULE_VERSION, parameters=parameters, share=share) for share in shares)
        return task.planned(self.name, first, later=tuple(rules))

    def next(self, plan: Plan, seen: Sequence[Measurement]) -> Plan | None:
        """A choice by the weights so far; after a choice, the table chosen."""
        task, table = next_task(plan), just_chosen(seen)
        if table is not None:
            return following(plan, task.requests([Cells(table)]))
        rows = known_total(seen) if self.rows is None else self.rows
        if rows is None:
            raise PlanError("mwem chooses tables by the number of rows, which was not measured")
        weights = multiplicative_weights(plan.schema, seen, rows=rows, replays=self.replays)
        return following(plan, task.requests([_choice(plan.schema, plan.workload, weights)]))


def multiplicative_weights(
    schema: Schema, measured: Sequence[Measurement], *, rows: float, replays: int = 0
) -> list[Floats]:
    """The estimate before any round and after each one, as tables over all attributes; the paper publishes their mean.

    Only measured tables count: choices and the number of rows are passed over. The mean is over the rounds, without
    the first table. With ``replays`` a round uses all tables so far as often; the paper then publishes the last one.
    """
    estimates = [_uniform(schema, rows)]
    total = float(estimates[0].sum())
    logs = np.log(estimates[0]).ravel()
    tables: list[tuple[NDArray[np.intp], Floats]] = []  # of each cell of the domain its cell in the table; its counts
    for each in measured:
        if not each.query.is_linear or not each.query.attributes:
            continue
        tables.append((_cells_of(schema, each.query.attributes), np.asarray(each.values, np.float64).ravel()))
        for cells, counts in tables * replays if replays else tables[-1:]:
            own = np.bincount(cells, _scaled(logs, total), minlength=len(counts))
            logs = logs + ((counts - own) / (2 * total))[cells]
        estimates.append(_scaled(logs, total).reshape(schema.shape))
    return estimates


def _cells_of(schema: Schema, names: Sequence[str]) -> NDArray[np.intp]:
    """For each cell of the full table the cell of the table over some attributes that it is counted in."""
    sizes = schema.sizes(names)
    cells = np.arange(math.prod(sizes)).reshape(sizes).transpose(np.argsort([schema.positions[name] for name in names]))
    shape = [size if name in names else 1 for name, size in zip(schema.names, schema.shape, strict=True)]
    return np.broadcast_to(cells.reshape(shape), schema.shape).ravel()


def _scaled(logs: Floats, total: float) -> Floats:
    """The weights, whose sum is the number of rows; the largest is taken as 1 first, so that no noise overflows."""
    weights = np.exp(logs - logs.max())
    return np.asarray(weights * (total / weights.sum()))


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
