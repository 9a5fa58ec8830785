"""Planning: thousands of marginals with Gaussian noise, and the choice of a strategy, against their limits."""

from __future__ import annotations

from typing import Any

import numpy as np

import crosstally as ct
from benchmarks.shapes import sized
from benchmarks.timing import cpu_seconds, row
from crosstally.designs.design import _views
from crosstally.local.oracles.local_hashing import collinear_triples
from crosstally.local.oracles.oracle import best_oracle
from crosstally.residuals.variances import closure_of
from crosstally.strategies.clustered import clusters
from crosstally.strategies.optimum import best_views

REMEMBERED = (closure_of, clusters, best_views, _views, best_oracle, collinear_triples)


def run() -> list[dict[str, Any]]:
    """The optimal Gaussian plan of 100 attributes, "auto" for 30 attributes of mixed sizes, a local design for 100.

    Nothing is remembered between runs.
    """
    hundred = sized([10] * 100)
    triples = ct.Workload.up_to(hundred, 3)
    residual = fresh(lambda: ct.strategies.Residual().plan(hundred, triples, ct.Budget(rho=0.5)).rms_error)
    thirty = sized(np.random.default_rng(0).integers(2, 10, 30).tolist())
    wanted = ct.Workload.all_ways(thirty, 3)
    chosen = fresh(lambda: ct.plan(thirty, epsilon=1.0, workload=wanted).chosen)
    mixed = sized(np.random.default_rng(0).choice([2, 2, 3, 4, 5, 7, 10, 16, 30, 50], 100).tolist())
    local = fresh(lambda: ct.local.design(mixed, epsilon=1, people=1_000_000, ways=3))
    return [
        row(
            "planning 1- to 3-way marginals of 100 attributes of 10 values, Gaussian, against 1 s",
            residual,
            1.0,
            1.0,
        ),
        row("choice of a strategy, 3-way marginals of 30 mixed attributes, against 2 s", chosen, 2.0, 1.0),
        row("design of a local collection of 100 mixed attributes, against 10 s", local, 10.0, 1.0),
    ]


def fresh(work: Any) -> float:
    def forgetful() -> None:
        for each in REMEMBERED:
            each.cache_clear()
        work()

    return cpu_seconds(forgetful)
