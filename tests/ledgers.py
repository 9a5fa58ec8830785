"""Ledgers to spend from, for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from crosstally.budget import Budget, Neighbours, Noise
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request
from crosstally.privacy.ledger import Ledger
from crosstally.query.queries import Cells
from crosstally.schema import Attribute, Schema, Unit
from crosstally.workload import Workload

SCHEMA = Schema(
    [Attribute("sex", ["Female", "Male"]), Attribute("age", edges=[0, 18, 65], missing=True)], Unit("person", 2)
)
EPSILON = Budget(epsilon=1)
NOISY = np.array([1, -2, 3, 4, 5, 6_000_000_000], np.int64)


def plan_of(budget: Budget, *, neighbours: Neighbours = Neighbours.ADD_REMOVE, strategy: str = "flat") -> Plan:
    query = Cells(("sex", "age"))
    noise = Noise.affordable(query.sensitivity(SCHEMA, neighbours), budget.amount, currency=budget.currency)
    return Plan(
        SCHEMA,
        (Request(query, noise),),
        strategy=strategy,
        workload=Workload([("sex",)]),
        budget=budget,
        neighbours=neighbours,
    )


TENTH = plan_of(Budget(epsilon=0.1))


def ledger_in(folder: Path, budget: Budget = EPSILON) -> Ledger:
    return Ledger.create(folder / "people.ledger", schema=SCHEMA, budget=budget)


def spend(ledger: Ledger, key: str, plan: Plan = TENTH) -> None:
    assert ledger.charge(plan, key)
    ledger.store(key, [NOISY.reshape(2, 3)])
