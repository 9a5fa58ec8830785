"""Uniform: measure nothing. The baseline that every other strategy must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crosstally.plans.plan import Plan
from crosstally.strategies.base import Strategy, Task

__all__ = ["Uniform"]


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
