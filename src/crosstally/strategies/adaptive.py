"""Adaptive: repeatedly choose privately the table where the estimate is worst beyond noise, and measure it, as in AIM.

AIM (McKenna, Mullins, Sheldon and Miklau 2022) measures one-way tables, then in each round chooses the table r with the
largest

    w_r ( |counts_r - estimate_r|_1 - E|noise_r|_1 )        w_r = sum over wanted tables s of c_s |r and s|

from all tables inside wanted ones, and measures it. Here the estimate is one of the residual basis, of any number of
attributes, instead of a graphical model: least squares of all that was measured, and tables that are not covered are
raked to those that are (``prediction``). Under Gaussian noise, if all smaller tables are known, only
the contrast of a table is measured, which costs less than its cells.

AIM decides the number of rounds while it runs. Here it is part of the plan, and all rounds get the same share, so that
everything can be approved before anything is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, islice
from typing import ClassVar

import numpy as np

from crosstally.budget import Budget, Noise, NoiseKind
from crosstally.measurements import Measurement
from crosstally.plans.plan import Plan
from crosstally.plans.request import Rule
from crosstally.query.choice import Choice
from crosstally.query.queries import Cells, Contrast, sensitivity_of_tables
from crosstally.residuals import Estimate, combine
from crosstally.schema import Schema
from crosstally.strategies.likely import predicted_tables
from crosstally.strategies.strategy import (
    MAX_ROUNDS,
    Strategy,
    Task,
    check_rounds,
    following,
    just_chosen,
    least_noise,
    next_task,
    shares_of_rounds,
)
from crosstally.workload import Workload

RULE_VERSION = 1
"""The version of the rule by which ``next`` plans. Approved plans depend on it."""

CHOOSING_SHARE = Fraction(1, 10)
"""The part of each round that chooses: AIM's (section 4.2 of the paper), which found it best on its data."""

ROUNDS = 4
"""Rounds for each attribute, unless given: the best of 2, 3 and 4 for pairs on most of the tables that
lab/evidence/two-stage.md lists. With 2, tables whose pairs all matter have several times the error."""

MOST_CELLS = 500_000
"""Cells of all candidates together: each round counts them, and the ledger keeps a number for each."""
# Limits time: each round scores all of them. The smallest tables come first, the rest are no candidates.
MOST_CANDIDATES = 5_000
_MOST_SEEN = 20_000
"""If a workload contains more tables than this, the wider ones are not considered: they would not fit either."""
_WEIGHT_STEPS = 1000
"""Weights are rounded to this part of the largest, so that scores are whole numbers of a moderate size."""


@dataclass(frozen=True, slots=True)
class Adaptive(Strategy):
    """Measure one-way tables, then in each round the table that the estimate gets most wrong beyond noise.

    Args:
        rounds: How many tables are chosen and measured after the one-way tables; four for each attribute by default.
            The same table may be chosen again.
    """

    rounds: int | None = None
    name: ClassVar[str] = "adaptive"
    weighs: ClassVar[bool] = False  # by its own: those of the plan's workload, which every stage can read

    def __post_init__(self) -> None:
        if self.rounds is not None:
            check_rounds(self.rounds)

    def planned(self, task: Task) -> Plan:
        """The one-way tables, each with as much of the budget as a round; then two rules for each round."""
        names = [name for name in task.schema.names if any(name in table for table in task.workload.tables)]
        if not candidates_of(task.schema, task.workload):
            return task.measuring(self.name, [(name,) for name in names] or [()])
        rounds = self.rounds or min(ROUNDS * len(names), MAX_ROUNDS)
        first = Fraction(len(names), len(names) + rounds)
        shares = shares_of_rounds(rounds, 1 - first, choosing_share=CHOOSING_SHARE)
        rules = (Rule(self.name, RULE_VERSION, parameters={"rounds": rounds}, share=share) for share in shares)
        ones = task.part(first).requests([Cells((name,)) for name in names])
        return task.planned(self.name, ones, later=tuple(rules))

    def next(self, plan: Plan, seen: Sequence[Measurement]) -> Plan | None:
        """A choice by the estimate so far; after a choice, the table chosen."""
        task, table, combined = next_task(plan), just_chosen(seen), combine(plan.schema, seen)
        if table is None:
            return following(plan, task.requests([_choice(plan, combined, task.budget)]))
        query = Contrast(table) if _contrasts(combined, [table], task.budget)[0] else Cells(table)
        return following(plan, task.requests([query]))


def candidates_of(schema: Schema, workload: Workload) -> tuple[tuple[str, ...], ...]:
    """All tables of two or more attributes inside those of a workload; where they do not fit, the smallest of them."""
    inside = set(islice(_parts(schema, workload), _MOST_SEEN))
    out: list[tuple[str, ...]] = []
    cells = 0
    for names in sorted(inside, key=lambda part: (math.prod(schema.sizes(part)), [schema.positions[n] for n in part])):
        cells += math.prod(schema.sizes(names))
        if cells > MOST_CELLS or len(out) == MOST_CANDIDATES:
            break
        out.append(names)
    return tuple(out)


def _parts(schema: Schema, workload: Workload) -> Iterator[tuple[str, ...]]:
    """Tables inside those of a workload, pairs first."""
    tables = list(map(schema.ordered, workload.tables))
    for k in range(2, max(map(len, tables)) + 1):
        for table in tables:
            yield from combinations(table, k)


def _choice(plan: Plan, combined: Estimate, own: Budget) -> Choice:
    """Which candidate is worst beyond the noise with which it would be measured, by AIM's weights.

    The distance between two tables is at most twice the rows. Candidates whose noise is larger can never be worth
    measuring, and are left out, unless all are.
    """
    schema, rows = plan.schema, max(float(combined.table(())), 1.0)
    tables = candidates_of(schema, plan.workload)
    measuring = own.amount * (1 - CHOOSING_SHARE) / CHOOSING_SHARE
    noise = least_noise(sensitivity_of_tables(1, schema, plan.neighbours), measuring, currency=own.currency)
    contrasts = _contrasts(combined, tables, own)
    penalties = [_noise_of(schema.sizes(names), noise, alone) for names, alone in zip(tables, contrasts, strict=True)]
    worth = [i for i, penalty in enumerate(penalties) if penalty < 2 * rows] or [int(np.argmin(penalties))]
    kept = [tables[i] for i in worth]
    return Choice(
        kept,
        [np.rint(table).astype(np.int64).ravel().tolist() for table in predicted_tables(combined, kept, rows)],
        weights=_weights(kept, plan.workload),
        penalties=[penalties[i] for i in worth],
    )


def _noise_of(sizes: Sequence[int], noise: Noise, contrast: bool) -> int:
    """The expected L1 norm of the noise that a measurement leaves in a table, to a whole number.

    Each cell has the mean of |noise|. A contrast for the same cost has noise smaller by the root of c = prod(1 - 1/n),
    and of it the part c of the variance is in the table: smaller by c altogether.
    """
    mean = noise.scale if noise.kind is NoiseKind.LAPLACE else noise.scale * math.sqrt(2 / math.pi)
    return round(math.prod(sizes) * mean * (math.prod(1 - 1 / n for n in sizes) if contrast else 1.0))


def _weights(tables: Sequence[tuple[str, ...]], workload: Workload) -> list[Fraction]:
    """AIM's weights: how many attributes a table shares with each wanted one, times the weight of that one."""
    raw = [sum(weight * len({*names} & {*wanted}) for wanted, weight in workload) for names in tables]
    return [Fraction(max(1, round(_WEIGHT_STEPS * each / max(raw))), _WEIGHT_STEPS) for each in raw]


def _contrasts(combined: Estimate, tables: Sequence[tuple[str, ...]], budget: Budget) -> list[bool]:
    """For each table whether all smaller ones inside it are known, and Gaussian noise is paid for."""
    if budget.pure:
        return [False] * len(tables)
    parts = sorted({part for names in tables for part in combinations(names, len(names) - 1)})
    known = {part for part, covered in zip(parts, combined.covered(parts), strict=True) if covered}
    return [all(part in known for part in combinations(names, len(names) - 1)) for names in tables]
