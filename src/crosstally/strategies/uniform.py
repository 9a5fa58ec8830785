"""Uniform: measure nothing. The baseline that every other strategy must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crosstally.budget import Budget, Neighbours
from crosstally.plans.plan import Plan
from crosstally.schema import Schema
from crosstally.strategies.base import Strategy
from crosstally.workload import Workload

__all__ = ["Uniform"]


@dataclass(frozen=True, slots=True)
class Uniform(Strategy):
    """Spread a public number of rows evenly over all cells; nothing is read and nothing is spent."""

    name: ClassVar[str] = "uniform"

    def plan(
        self,
        schema: Schema,
        workload: Workload | None,
        budget: Budget,
        *,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
    ) -> Plan:
        """No requests."""
        return Plan(
            schema,
            (),
            strategy=self.name,
            workload=workload or Workload.small_tables(schema),
            budget=budget,
            neighbours=neighbours,
        )
