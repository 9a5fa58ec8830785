"""Direct: every table of the workload by itself (PriView section 3.2; strategy Q and Q+ of ICDE 2013)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from crosstally.budget import Budget, Neighbours
from crosstally.errors import PlanError
from crosstally.plans.plan import Plan
from crosstally.plans.shares import requests_with_shares
from crosstally.questions.queries import Cells
from crosstally.schema import Schema
from crosstally.strategies.base import Strategy
from crosstally.workload import Workload

__all__ = ["Direct"]


@dataclass(frozen=True, slots=True)
class Direct(Strategy):
    """Measure each table of the workload; those that overlap are combined by least squares afterwards.

    Args:
        budgets: "uniform" gives every table the same share. "optimal" minimises the weighted sum of the variances of
            all cells, each read from its own table: shares proportional to s^(1/3) under Laplace noise and to s^(1/2)
            of rho under Gaussian noise, s the weight of a table times its cells (ICDE 2013, section III-B).
    """

    budgets: Literal["uniform", "optimal"] = "optimal"

    def __post_init__(self) -> None:
        if self.budgets not in ("uniform", "optimal"):
            raise PlanError(f"budgets must be uniform or optimal, got {self.budgets!r}")

    @property
    def name(self) -> str:
        """Its name, with the kind of budgets when they are uniform."""
        return "direct" if self.budgets == "optimal" else "direct-uniform"

    def plan(
        self,
        schema: Schema,
        workload: Workload | None,
        budget: Budget,
        *,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
    ) -> Plan:
        """A request for each table."""
        workload = (workload or Workload.small_tables(schema)).for_schema(schema)
        power = 0.0 if self.budgets == "uniform" else 1 / 3 if budget.pure else 1 / 2
        shares = [(weight * math.prod(schema.sizes(table))) ** power for table, weight in workload]
        queries = [Cells(table) for table in workload.tables]
        requests = requests_with_shares(queries, shares, schema, budget, neighbours)
        return Plan(schema, requests, strategy=self.name, workload=workload, budget=budget, neighbours=neighbours)
