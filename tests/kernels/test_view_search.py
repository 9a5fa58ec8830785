"""The search for views: it stays inside its arrays, and never ends above where it began."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

import crosstally as ct
from crosstally.kernels.view_search import descend

SIZES = (2, 3, 5)
SETS = tuple(sum(1 << i for i in members) for k in range(3) for members in combinations(range(3), k))


def objective(views: list[int], shares: list[float], importance: list[float], exponent: int) -> float:
    """The sum over all sets of importance / precision, set by set."""
    total = 0.0
    for own, weight in zip(SETS, importance, strict=True):
        precision = 0.0
        for view, share in zip(views, shares, strict=True):
            if own & ~view == 0:
                precision += (share / sum(shares)) ** exponent / math.prod(
                    n for i, n in enumerate(SIZES) if view >> i & 1
                )
        total += weight / precision
    return total


@pytest.mark.parametrize("exponent", [1, 2])
@pytest.mark.parametrize("room", [6, 7, 20])
@pytest.mark.parametrize("seed", range(5))
def test_the_search_stays_in_its_room_and_does_not_get_worse(seed: int, room: int, exponent: int) -> None:
    """Six views, of one and two attributes: a copy of a single one less its attribute is no view, and has no room."""
    start = [0b001, 0b010, 0b100, 0b011, 0b101, 0b110]
    importance = np.random.default_rng(seed).dirichlet(np.ones(len(SETS)))
    memory, amounts = np.full(room + 4, -77, np.int64), np.full(room + 4, -77.0)
    views, shares = memory[:room], amounts[:room]
    views[:6], views[6:], shares[:6], shares[6:] = start, 0, 1.0, 0.0
    limits, state = np.array([30.0, exponent, 20_000.0]), np.uint64(seed * 2654435761 + 1)
    left = descend(views, shares, 6, np.array(SETS), importance, np.log(SIZES), limits, state)
    assert memory[room:].tolist() == [-77] * 4
    assert amounts[room:].tolist() == [-77.0] * 4
    assert 1 <= left <= room
    found = objective(views[:left].tolist(), shares[:left].tolist(), importance.tolist(), exponent)
    assert found <= objective(start, [1.0] * 6, importance.tolist(), exponent) * (1 + 1e-12)


@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-9}], ids=["pure", "approximate"])
def test_nine_attributes_with_weights_that_favour_small_tables(budget: dict[str, float]) -> None:
    """The search used to fill its room with views of one attribute, and then wrote past its arrays."""
    sizes = (100, 4, 5, 31, 2, 15, 23, 3, 2)
    schema = ct.Schema([ct.Attribute(f"a{i}", [str(v) for v in range(n)]) for i, n in enumerate(sizes)])
    tables = ct.Workload.up_to(schema, 3).tables
    workload = ct.Workload(tables, [math.prod(schema.sizes(table)) ** -2 for table in tables])
    found = ct.plan(schema, workload=workload, objective="cells", **budget)
    assert found.chosen.covers
    assert "optimum" in [plan.strategy for plan in found.plans]
