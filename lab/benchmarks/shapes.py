"""Schemas of given sizes, and plans of given tables: what benchmarks of time and of accuracy ask for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from crosstally.budget import Budget, Neighbours
from crosstally.plans.plan import Plan
from crosstally.query.queries import Cells
from crosstally.schema import Attribute, Schema
from crosstally.strategies.strategy import requests_with_shares
from crosstally.workload import Workload


def sized(sizes: Iterable[int], prefix: str = "a") -> Schema:
    """Attributes a0, a1, ... with so many values, 0, 1, ..."""
    return Schema([Attribute(f"{prefix}{i}", [str(v) for v in range(n)]) for i, n in enumerate(sizes)])


def equal_shares(
    schema: Schema, tables: Sequence[tuple[str, ...]], budget: Budget, workload: Workload | None = None
) -> Plan:
    """A plan that measures these tables with equal shares of the budget; single attributes are wanted by default."""
    relation = Neighbours.ADD_REMOVE
    requests = requests_with_shares([Cells(names) for names in tables], [1.0] * len(tables), schema, budget, relation)
    wanted = workload or Workload.up_to(schema, 1)
    return Plan(schema, requests, strategy="views", workload=wanted, budget=budget, neighbours=relation)
