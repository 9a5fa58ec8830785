"""What every strategy is: a way to choose what to measure, which never sees data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from crosstally.budget import Budget, Neighbours
from crosstally.plans.plan import Plan
from crosstally.schema import Schema
from crosstally.tables import Measurement
from crosstally.workload import Workload

__all__ = ["Strategy"]


class Strategy(Protocol):
    """A way to choose what to measure. Whoever inherits from it needs only a name and ``plan``."""

    @property
    def name(self) -> str:
        """What people call it."""

    def plan(
        self,
        schema: Schema,
        workload: Workload | None,
        budget: Budget,
        *,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
    ) -> Plan:
        """What to measure first, and by which rules then; the budget is that of all stages together."""

    def next(self, plan: Plan, seen: Sequence[Measurement]) -> Plan | None:  # noqa: ARG002
        """What to measure after the stage of a plan, given all that was measured; None when that is all."""
        return None

    def with_rows(self, rows: int) -> Strategy:  # noqa: ARG002
        """The same strategy, told about how many rows there are."""
        return self
