"""Direct: measure every table of the workload separately (PriView section 3.2; strategy Q and Q+ of ICDE 2013).

Uniform: measure nothing. The baseline that every other strategy must beat.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from crosstally.plans.plan import Plan
from crosstally.strategies.strategy import Strategy, StrategyWithOptions, Task

__all__ = [
    "Direct",
    "Uniform",
]


@dataclass(frozen=True, slots=True)
class Direct(StrategyWithOptions):
    """Measure each table of the workload; those that overlap are combined by least squares afterwards.

    Args:
        budgets: "uniform" gives every table the same share. "optimal" minimises the weighted sum of the variances of
            all cells, each read from its own table: shares proportional to s^(1/3) under Laplace noise and to s^(1/2)
            of rho under Gaussian noise, s the weight of a table times its cells (ICDE 2013, section III-B).
    """

    budgets: Literal["uniform", "optimal"] = "optimal"
    family: ClassVar[str] = "direct"
    options: ClassVar[Mapping[str, tuple[str, str]]] = {"budgets": ("uniform", "optimal")}

    @property
    def weighs(self) -> bool:
        """It measures what was named, and nothing below."""
        return False

    def planned(self, task: Task) -> Plan:
        """A request for each table."""
        power = 0.0 if self.budgets == "uniform" else 1 / task.root
        shares = [(weight * math.prod(task.schema.sizes(table))) ** power for table, weight in task.workload]
        return task.measuring(self.name, task.workload.tables, shares)


@dataclass(frozen=True, slots=True)
class Uniform(Strategy):
    """Spread a public number of rows evenly over all cells; nothing is read and nothing is spent."""

    name: ClassVar[str] = "uniform"

    @property
    def weighs(self) -> bool:
        """Its plan depends on the tables, not on their weights."""
        return False

    def planned(self, task: Task) -> Plan:
        """No requests."""
        return task.planned(self.name, ())
