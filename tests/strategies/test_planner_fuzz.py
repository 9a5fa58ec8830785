"""The planner on random schemas, workloads, weights and budgets: a plan that covers and costs what it may, or a reason.

``tests/kernels/test_checked_kernels.py`` runs this once more where every index of every kernel is checked.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import crosstally as ct
from crosstally.errors import CrosstallyError
from crosstally.strategies import optimum
from crosstally.strategies.clustered import GreedyMerge
from crosstally.strategies.optimum import ViewSearch

EFFORT = 16_000_000
"""About a quarter of the usual search, once from each of its four starts: more cases fit into the time."""


def random_schema(random: np.random.Generator) -> ct.Schema:
    largest = random.choice([2, 6, 60, 60, 100])
    sizes = np.exp(random.uniform(np.log(2), np.log(largest + 0.99), random.choice([1, 2, 5, 8, 9, 10]))).astype(int)
    return ct.Schema([ct.Attribute(f"a{i}", [str(v) for v in range(n)]) for i, n in enumerate(sizes)])


def random_workload(random: np.random.Generator, schema: ct.Schema) -> ct.Workload:
    """Tables of up to four attributes; weights alike, or a power of the cells, or over many orders of magnitude."""
    ways = min(int(random.choice([1, 2, 3, 3, 3, 4])), len(schema.names))
    everything = [*[()] * int(random.integers(2)), *ct.Workload.up_to(schema, ways).tables]
    cells = np.array([math.prod(schema.sizes(table)) for table in everything], float)
    fits = np.flatnonzero(cells <= 100_000)
    share = random.choice([0.2, 1.0, 1.0])
    chosen = fits[random.random(len(fits)) < share]
    chosen = chosen if len(chosen) else fits[:1]
    kind = random.integers(4)
    weights = np.ones(len(chosen)) if kind == 0 else cells[chosen] ** random.choice([-3.0, -2.0, -2.0, -1.0, 0.5])
    weights = 10.0 ** random.uniform(-12, 12, len(chosen)) if kind == 1 else weights
    return ct.Workload([everything[i] for i in chosen], weights.tolist())


def random_budget(random: np.random.Generator) -> ct.Budget:
    size = float(f"{10.0 ** random.uniform(-3, 2):.3g}")
    kinds = [{"epsilon": size}, {"rho": size}, {"epsilon": size, "delta": 1e-9}]
    return ct.Budget(**kinds[random.integers(3)])


@pytest.mark.parametrize("seed", [*range(40), *(pytest.param(i, marks=pytest.mark.verify) for i in range(40, 500))])
def test_any_workload_is_planned_or_refused(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimum, "_EFFORT", EFFORT)
    random = np.random.default_rng([11, seed])
    schema = random_schema(random)
    workload, budget = random_workload(random, schema), random_budget(random)
    neighbours = (ct.Neighbours.ADD_REMOVE, ct.Neighbours.REPLACE)[random.integers(2)]
    for strategy in (ViewSearch(), GreedyMerge(), GreedyMerge(budgets="uniform")):
        try:
            plan = strategy.plan(schema, workload, budget, neighbours=neighbours)
        except CrosstallyError:
            continue
        assert plan is not None
        assert plan.covers
        assert plan.cost <= budget.amount
        assert math.isfinite(plan.rms_error)
