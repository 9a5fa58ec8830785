"""The strategies that a release with nothing named is compared with: a fixed list, from the public schema alone.

Each is planned by ``Strategy.plan`` with the weights given here, so that what "auto" prefers never moves the reference.
Gaussian noise is planned by ``Residual`` and Laplace noise by ``ViewSearch``, the best of each kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import crosstally as ct
from benchmarks.accuracy.settings import Setting
from crosstally.plans.plan import Plan
from crosstally.schema import Schema
from crosstally.strategies import Flat, Residual, Strategy, Views, ViewSearch

DEFAULT, OLD_DEFAULT = "default", "views"

Planner = Callable[[Schema, ct.Budget], Plan]


def _linear(workload: Callable[[Schema], ct.Workload], *, laplace: bool = False) -> Planner:
    """The best linear plan for a workload; with Laplace noise where the budget is pure, or where that is asked for."""

    def plan(schema: Schema, budget: ct.Budget) -> Plan:
        own = pure(budget) if laplace else budget
        return (ViewSearch() if own.pure else Residual()).plan(schema, workload(schema), own)

    return plan


def _strategy(strategy: Strategy, *, laplace: bool = False) -> Planner:
    return lambda schema, budget: strategy.plan(schema, None, pure(budget) if laplace else budget)


def pure(budget: ct.Budget) -> ct.Budget:
    """The epsilon alone: whoever may spend epsilon and delta may spend that."""
    return ct.Budget(epsilon=budget.epsilon)


def weighted(schema: Schema, weights: Mapping[int, float]) -> ct.Workload:
    """All tables of some orders; an order's weight is split evenly over its tables, and a table's over its cells."""
    tables: list[tuple[str, ...]] = []
    shares: list[float] = []
    for order, weight in weights.items():
        group = ct.Workload.all_ways(schema, order).tables
        tables += group
        shares += [weight / len(group) / math.prod(schema.sizes(names)) for names in group]
    return ct.Workload(tables, shares)


REFERENCES: Mapping[str, Planner] = {
    "views": _strategy(Views()),
    "views-2": _strategy(Views(cover=2)),
    "views-3": _strategy(Views(cover=3)),
    "flat": _strategy(Flat()),
    "flat-laplace": _strategy(Flat(), laplace=True),
    "ones": _linear(lambda schema: weighted(schema, {1: 1})),
    "ones-laplace": _linear(lambda schema: weighted(schema, {1: 1}), laplace=True),
    "pairs": _linear(lambda schema: weighted(schema, {1: 1, 2: 1})),
    "pairs-3": _linear(lambda schema: weighted(schema, {1: 3, 2: 1})),
    "pairs-cells": _linear(lambda schema: ct.Workload.up_to(schema, 2)),
    "triples": _linear(lambda schema: weighted(schema, {1: 1, 2: 1, 3: 1})),
    "triples-only": _linear(lambda schema: weighted(schema, {3: 1})),
    "quadruples": _linear(lambda schema: weighted(schema, {2: 1, 3: 1, 4: 1})),
}
"""By name: PriView's views, the full table, all tables up to an order with an order's weight split over its tables
(``-cells``: the papers' sum of variances over cells). The list is the yardstick of regret: it is not to be tuned."""


def names_for(setting: Setting) -> list[str]:
    """The references of a setting; where the budget is pure, all noise is Laplace and the special ones are the same."""
    return [name for name in REFERENCES if setting.delta is not None or not name.endswith("-laplace")]


def plan_by_name(name: str, schema: Schema, setting: Setting) -> Plan:
    """The plan of a reference; "default" is the one that a release without options runs."""
    if name == DEFAULT:
        return ct.plan(schema, epsilon=setting.epsilon, delta=setting.delta).chosen
    return REFERENCES[name](schema, setting.budget)
