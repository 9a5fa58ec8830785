"""Flat: one table over all attributes (PriView section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crosstally.errors import TooManyCellsError
from crosstally.plans.plan import Plan
from crosstally.query.queries import MAX_CELLS
from crosstally.strategies.strategy import Strategy, Task

__all__ = ["Flat"]


@dataclass(frozen=True, slots=True)
class Flat(Strategy):
    """Measure the full contingency table with the whole budget; every other table is a sum of its cells.

    Best when the domain is small: its error grows with the number of cells that are summed.
    """

    max_cells: int = 500_000
    name: ClassVar[str] = "flat"

    def __post_init__(self) -> None:
        if not 1 <= self.max_cells <= MAX_CELLS:
            raise TooManyCellsError(f"max_cells must be from 1 to {MAX_CELLS:,}, got {self.max_cells:,}")

    @property
    def weighs(self) -> bool:
        """Its plan depends on the tables, not on their weights."""
        return False

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
