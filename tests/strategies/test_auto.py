"""For the objective "cells" the choice of "auto" is never much worse than the best single strategy that covers all."""

import math
import time

import numpy as np
import pytest

import crosstally as ct
from crosstally.errors import PlanError
from crosstally.strategies import NAMED


def random_case(random: np.random.Generator) -> tuple[ct.Schema, ct.Workload]:
    sizes = random.integers(2, 7, random.integers(2, 9))
    schema = ct.Schema([ct.Attribute(f"a{i}", [str(v) for v in range(n)]) for i, n in enumerate(sizes)])
    everything = ct.Workload.up_to(schema, min(3, len(sizes))).tables
    chosen = random.permutation(len(everything))[: random.integers(1, min(20, len(everything)) + 1)]
    weights = random.choice([1.0, 1.0, 4.0], len(chosen))
    return schema, ct.Workload([everything[i] for i in sorted(chosen)], weights.tolist())


def best_single(schema: ct.Schema, workload: ct.Workload, budget: ct.Budget) -> float:
    errors = []
    for strategy in NAMED.values():
        try:
            plan = strategy.plan(schema, workload, budget)
        except PlanError:
            continue
        errors.append(plan.score)
    return min(error for error in errors if not math.isnan(error))


@pytest.mark.parametrize("cases", [25, pytest.param(200, marks=pytest.mark.verify)])
@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"rho": 0.5}], ids=["pure", "Gaussian"])
def test_auto_is_within_two_percent_of_the_best(cases, budget) -> None:
    random = np.random.default_rng(11)
    for _ in range(cases):
        schema, workload = random_case(random)
        chosen = ct.plan(schema, workload=workload, objective="cells", **budget).chosen
        assert chosen.score <= 1.02 * best_single(schema, workload, ct.Budget(**budget))


@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"rho": 0.5}], ids=["pure", "Gaussian"])
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("most", [2, 9])
def test_the_choice_for_thirty_attributes_takes_seconds(most, k, budget) -> None:
    """It has two seconds alone on a machine, and takes at most 1.5; here it may share the machine with others."""
    ct.plan(ct.Schema([ct.Attribute(name, ["0", "1", "2"]) for name in "abcd"]), epsilon=1.0)  # kernels are loaded
    sizes = np.random.default_rng(0).integers(2, most + 1, 30)
    schema = ct.Schema([ct.Attribute(f"a{i}", [str(v) for v in range(n)]) for i, n in enumerate(sizes)])
    workload = ct.Workload.all_ways(schema, k)
    start = time.process_time()
    assert ct.plan(schema, workload=workload, objective="cells", **budget).chosen.covers
    assert time.process_time() - start < 4
