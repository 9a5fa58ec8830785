"""Direct: measure every table of the workload separately (PriView section 3.2; strategy Q and Q+ of ICDE 2013).

Uniform: measure nothing. The baseline that every other strategy must beat.

Flat: one table over all attributes (PriView section 3.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from crosstally.errors import TooManyCellsError
from crosstally.plans.plan import Plan
from crosstally.query.queries import MAX_CELLS
from crosstally.strategies.strategy import Strategy, StrategyWithOptions, Task


@dataclass(frozen=True, slots=True)
class Flat(Strategy):
    """Measure the full contingency table with the whole budget; every other table is a sum of its cells.

    Best when the domain is small: its error grows with the number of cells that are summed.
    """

    max_cells: int = 500_000
    name: ClassVar[str] = "flat"
    weighs: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 1 <= self.max_cells <= MAX_CELLS:
            raise TooManyCellsError(f"max_cells must be from 1 to {MAX_CELLS:,}, got {self.max_cells:,}")

    def planned(self, task: Task) -> Plan:
        """One request for all cells."""
        cells = task.schema.cells
        if cells > self.max_cells:
            raise TooManyCellsError(
                f"the full table has {approximately(cells)} cells, and flat is limited to {self.max_cells:,}; "
                f"use another strategy, or fewer or coarser attributes"
            )
        return task.measuring(self.name, [task.schema.names])


def approximately(number: int) -> str:
    """A whole number as people say it.

    >>> approximately(1_048_576), approximately(10**60)
    ('1,048,576', 'about 10^60')
    """
    return f"{number:,}" if number < 10**12 else f"about 10^{len(str(number)) - 1}"


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
    weighs: ClassVar[bool] = False

    def planned(self, task: Task) -> Plan:
        """A request for each table."""
        power = 0.0 if self.budgets == "uniform" else 1 / task.root
        shares = [(weight * math.prod(task.schema.sizes(table))) ** power for table, weight in task.workload]
        return task.measuring(self.name, task.workload.tables, shares)


@dataclass(frozen=True, slots=True)
class Uniform(Strategy):
    """Spread a public number of rows evenly over all cells; nothing is read and nothing is spent."""

    name: ClassVar[str] = "uniform"
    weighs: ClassVar[bool] = False

    def planned(self, task: Task) -> Plan:
        """No requests."""
        return task.planned(self.name, ())
