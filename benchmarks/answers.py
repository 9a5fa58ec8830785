"""Answers to tables that no view covers, against SciPy's L-BFGS on the same dual, and a batch against a loop."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import crosstally as ct
from benchmarks.timing import row
from crosstally.papers.data import clicks
from crosstally.plans.plan import Plan
from crosstally.plans.shares import requests_with_shares
from crosstally.questions.queries import Cells
from crosstally.residuals import Estimate

ROWS, ATTRIBUTES, WAYS, ASKED = 912_627, 32, 8, 40
RIDGE, ACCURACY = 1e-10, 1e-6
LOOPED = 1_000


def run() -> list[dict[str, Any]]:
    """Eight-way answers from both designs, all four-way answers at once, and an answer among 256 attributes."""
    random = np.random.default_rng(20_260_103)
    data = clicks(ROWS, random)
    releases = {cover: released(data.table, data.schema, cover) for cover in (3, 2)}
    rows = [eight_way(releases[3], random, 1 / 40), eight_way(releases[2], random, 1 / 200), four_way(releases[3])]
    return [*rows, wide(random)]


def released(table: Any, schema: ct.Schema, cover: int) -> ct.Release:
    """A release of views of eight attributes that cover all sets of some size."""
    views = ct.strategies.covering_design(attributes=len(schema.names), size=WAYS, cover=cover)
    budget, relation = ct.Budget(epsilon=1), ct.Neighbours.ADD_REMOVE
    queries = [Cells(tuple(schema.names[i] for i in view)) for view in views]
    requests = requests_with_shares(queries, [1.0] * len(queries), schema, budget, relation)
    workload = ct.Workload.up_to(schema, 1)
    return ct.release(
        table, plan=Plan(schema, requests, strategy="views", workload=workload, budget=budget, neighbours=relation)
    )


def eight_way(release: ct.Release, random: np.random.Generator, target: float) -> dict[str, Any]:
    """The median answer and the median L-BFGS, on the same tables."""
    asked = [tuple(random.choice(release.schema.names, WAYS, replace=False)) for _ in range(ASKED)]
    own, peer = [], []
    for names in asked:
        seconds, marginal = timed(partial(release.marginal, *names, method="maximum-entropy"))
        own.append(seconds)
        peer.append(limited_memory(release.estimate, names, marginal.values))
    work = f"8-way answer from {len(release.measurements)} views, d={ATTRIBUTES}, median"
    return row(work, statistics.median(own), statistics.median(peer), target)


def limited_memory(estimate: Estimate, names: Sequence[str], solution: NDArray[np.float64]) -> float:
    """The seconds of SciPy's L-BFGS to every cell within 1e-6 of the total of the solution, or until it gives up."""
    from scipy.linalg import hadamard
    from scipy.optimize import minimize

    places, found = estimate.places([names])
    covered = np.flatnonzero(found[0])
    orders = np.array([int(z).bit_count() for z in covered[1:]])
    coefficients = estimate.coefficients[places[0][covered]]
    basis = hadamard(2 ** len(names))[covered[1:]] / np.sqrt(2.0) ** orders[:, None]
    target = coefficients[1:] / coefficients[0]

    def dual(theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        exponents = theta @ basis
        top = exponents.max()
        parts = np.exp(exponents - top)
        whole = parts.sum()
        value = top + math.log(whole) - theta @ target + RIDGE / 2 * theta @ theta
        return value, basis @ (parts / whole) - target + RIDGE * theta

    def table(theta: NDArray[np.float64]) -> NDArray[np.float64]:
        exponents = theta @ basis
        parts = np.exp(exponents - exponents.max())
        return np.asarray(parts / parts.sum())

    wanted = solution.ravel() / solution.sum()
    seconds = math.inf
    for tolerance in (1e-5, 1e-6, 1e-7, 1e-8):
        options = {"gtol": tolerance, "ftol": 1e-18, "maxiter": 5_000, "maxfun": 20_000}
        seconds, solved = timed(
            partial(minimize, dual, np.zeros(len(target)), jac=True, method="L-BFGS-B", options=options)
        )
        if np.abs(table(solved.x) - wanted).max() <= ACCURACY or solved.nit >= options["maxiter"]:
            break
    return seconds


def four_way(release: ct.Release) -> dict[str, Any]:
    """All four-way tables in one call, against as long as a loop over a sample would take for all."""
    tables = list(itertools.combinations(release.schema.names, 4))
    sample = tables[:: len(tables) // LOOPED]
    release.marginals(tables)
    batch, _ = timed(lambda: release.marginals(tables))
    loop, _ = timed(lambda: [release.marginal(*names) for names in sample])
    return row(f"all {len(tables):,} 4-way answers of d={ATTRIBUTES}", batch, loop * len(tables) / len(sample), 1 / 5)


def wide(random: np.random.Generator) -> dict[str, Any]:
    """An eight-way answer among 256 attributes, against a hundredth of a second."""
    names = [f"a{i}" for i in range(256)]
    schema = ct.Schema([ct.Attribute(name, ("0", "1")) for name in names])
    import pyarrow as pa

    chances = random.uniform(0.05, 0.6, 256)
    table = pa.table(
        {name: (random.random(20_000) < p).astype(np.int8) for name, p in zip(names, chances, strict=True)}
    )
    release = released(table, schema, 2)
    asked = [tuple(random.choice(names, WAYS, replace=False)) for _ in range(ASKED)]
    seconds = statistics.median(timed(partial(release.marginal, *names))[0] for names in asked)
    return row(f"8-way answer from {len(release.measurements)} views, d=256, against 10 ms", seconds, 0.010, 1.0)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    before = time.process_time()
    done = work()
    return time.process_time() - before, done


if __name__ == "__main__":
    for result in run():
        print(
            "{work}: {crosstally:.5f} s, {ratio:.5f} x {peer:.4f} s, target {target:.4f}, met {met}".format_map(result)
        )
