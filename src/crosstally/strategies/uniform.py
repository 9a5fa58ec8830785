"""Uniform: measure nothing. The baseline that every other strategy must beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from crosstally.budget import Budget, Neighbours
from crosstally.schema import Schema
from crosstally.strategies.plan import Plan, measures_tables
from crosstally.tables import Measurement
from crosstally.workload import Workload

__all__ = ["Uniform"]


@dataclass(frozen=True, slots=True)
class Uniform:
    """Spread a public number of rows evenly over all cells; nothing is read and nothing is spent."""

    name: ClassVar[str] = "uniform"

    def plan(
        self,
        schema: Schema,
        workload: Workload | None,
        budget: Budget,
        *,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        seen: Sequence[Measurement] = (),
    ) -> Plan | None:
        """No requests."""
        if measures_tables(seen):
            return None
        return Plan(
            schema,
            (),
            strategy=self.name,
            workload=workload or Workload.small_tables(schema),
            budget=budget,
            neighbours=neighbours,
        )
