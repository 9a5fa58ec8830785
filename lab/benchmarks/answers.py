"""Answers to tables that no view covers, against L-BFGS on the same dual and against raking; a batch against a loop."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import crosstally as ct
from benchmarks.shapes import equal_shares
from benchmarks.timing import cpu_seconds, row, timed
from crosstally.answers.unmeasured.known import known_alike
from crosstally.residuals import Estimate, rebuild
from crosstally_lab.papers.data import clicks
from crosstally_lab.papers.icde13.experiment import adult

ROWS, ATTRIBUTES, WAYS, ASKED = 912_627, 32, 8, 40
RIDGE, ACCURACY = 1e-10, 1e-6
FEW_VIEWS = 0.002
"""The CPU seconds that an eight-way answer from the 20 views that cover all pairs may take."""
LOOPED = 1_000
SIZES = {2_000: 0.020, 10_000: 0.100, 90_000: 1.000}
"""Cells of categorical tables, and the CPU seconds that one may take."""
TABLES, SWEEPS, FITS = 8, 300, 1e-8


def run() -> list[dict[str, Any]]:
    """Eight-way answers from both designs, all four-way ones at once, one among 256 attributes, categorical ones."""
    random = np.random.default_rng(20_260_103)
    data = clicks(ROWS, random)
    releases = {cover: released(data.table, data.schema, cover) for cover in (3, 2)}
    eight = [*eight_way(releases[3], random, 1 / 40), *eight_way(releases[2], random, None, limit=FEW_VIEWS)]
    return [*eight, four_way(releases[3]), wide(random), *categorical(random)]


def released(table: Any, schema: ct.Schema, cover: int) -> ct.Release:
    """A release of views of eight attributes that cover all sets of some size."""
    views = ct.strategies.covering_design(attributes=len(schema.names), size=WAYS, cover=cover)
    tables = [tuple(schema.names[i] for i in view) for view in views]
    return ct.release(table, plan=equal_shares(schema, tables, ct.Budget(epsilon=1)))


def eight_way(
    release: ct.Release, random: np.random.Generator, target: float | None, *, limit: float | None = None
) -> list[dict[str, Any]]:
    """The median answer and the median L-BFGS, on the same tables; then the answer against its limit, if it has one."""
    asked = [tuple(random.choice(release.schema.names, WAYS, replace=False)) for _ in range(ASKED)]
    own, peer = [], []
    for names in asked:
        seconds, marginal = timed(partial(release.marginal, *names, method="maximum-entropy"))
        own.append(seconds)
        peer.append(limited_memory(release.estimate, names, marginal.values))
    work = f"8-way answer from {len(release.measurements)} views, d={ATTRIBUTES}, median"
    rows = [row(work, statistics.median(own), statistics.median(peer), target)]
    if limit is not None:
        rows.append(row(f"{work}, against {1000 * limit:.0f} ms", statistics.median(own), limit, 1.0))
    return rows


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


def categorical(random: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Tables from a release of all pairs of Adult's eight attributes: against a limit, and against raking."""
    data = adult(None)
    pairs = ct.Workload.all_ways(data.schema, 2)
    release = ct.release(data.table, data.schema, epsilon=1, delta=1e-9, workload=pairs)
    sets = [names for k in range(3, 8) for names in itertools.combinations(data.schema.names, k)]
    for size, limit in SIZES.items():
        near = [names for names in sets if 0.6 <= math.prod(data.schema.sizes(names)) / size <= 1.4]
        asked = [near[i] for i in random.permutation(len(near))[:TABLES]]
        own, peer = [], []
        for names in asked:
            own.append(cpu_seconds(partial(release.marginal, *names)))
            marginal = release.marginal(*names)
            peer.append(timed(partial(raked, release.estimate, names, marginal.relaxed))[0])
        work = f"{len(asked)} uncovered categorical tables of about {size:,} cells, {data.label}, median"
        yield row(f"{work}, against {1000 * limit:.0f} ms", statistics.median(own), limit, 1.0)
        yield row(f"{work}, against raking in numpy", statistics.median(own), statistics.median(peer), None)


def raked(estimate: Estimate, names: Sequence[str], relaxed: float) -> NDArray[np.float64]:
    """Raking over the largest covered subsets, until no margin is off by more than the answer's are, or 300 sweeps.

    Targets below zero count as zero: raking has no other way with them.
    """
    _, known = next(known_alike(estimate, [names]))
    margins = []
    for subset in known.subsets:
        axes = [axis for axis in range(len(names)) if subset >> axis & 1]
        part = known.part(axes)
        wanted = np.maximum(rebuild(part.coefficients.reshape(part.shape), len(axes)), 0.0)
        others = tuple(axis for axis in range(len(names)) if axis not in axes)
        margins.append((others, np.expand_dims(wanted, others)))
    table = np.full(known.shape, known.coefficients[0, 0] / math.prod(known.shape))
    close = max(relaxed, FITS * known.coefficients[0, 0])
    for _ in range(SWEEPS):
        off = 0.0
        for others, wanted in margins:
            sums = table.sum(axis=others, keepdims=True)
            off = max(off, float(np.abs(sums - wanted).max()))
            table *= np.divide(wanted, sums, out=np.zeros_like(sums), where=sums > 0)
        if off <= close:
            break
    return table


if __name__ == "__main__":
    for result in run():
        print(
            "{work}: {crosstally:.5f} s, {ratio:.5f} x {peer:.4f} s, target {target:.4f}, met {met}".format_map(result)
        )
