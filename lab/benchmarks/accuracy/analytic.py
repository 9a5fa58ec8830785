"""Errors that need no data: least sums of cell variances, by ``Strategy.plan`` with the workload's own weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import crosstally as ct
from benchmarks.accuracy.lines import line
from benchmarks.shapes import sized
from crosstally.plans.plan import Plan
from crosstally.residuals.variances import Variances
from crosstally.strategies import LinearStrategies, Residual, ViewSearch

ADULT_8 = (9, 16, 7, 15, 6, 5, 2, 2)
RESIDUAL_PLANNER = {
    "Adult": ((85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2), (3.047, 6.359, 10.515, 10.665)),
    "CPS": ((50, 100, 7, 4, 2), (1.744, 2.035, 2.048, 2.276)),
    "Loans": ((101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15), (2.875, 5.634, 8.702, 8.876)),
}
"""RMSE at rho = 1/2 of all 1-, 2-, 3-way and 0- to 3-way marginals (ResidualPlanner's closed form)."""
PREFIXES = {
    "Adult": ((0, 2, 9, 10, 11), (5.081, 17.274, 45.223)),
    "CPS": ((0, 1), (3.081, 5.823, 7.302)),
    "Loans": ((0, 1, 2, 3), (4.681, 14.502, 34.168)),
}
"""The same with prefixes of the numeric attributes in place of their cells, 1-, 2- and 3-way (ResidualPlanner+)."""
RANGES = (({"rho": "1/2"}, 5.5), ({"epsilon": 1}, 37.0))
"""The mean variance of the 2,080 ranges of 64 cells: the least possible with Gaussian noise is 5.30."""
ROUNDED = 5e-4
"""The table has three decimals."""


def run(draws: int = 0, *, quick: bool = False) -> Iterator[dict[str, Any]]:  # noqa: ARG001
    """Pure epsilon 1 with the papers' variance 2 b^2, then Gaussian noise at rho = 1/2."""
    pairs = "RMS error of a cell, epsilon 1, objective cells"
    yield _pure(f"16 binary attributes, all pairs, {pairs}", [2] * 16, ct.Workload.all_ways, math.sqrt(1160))
    yield _pure(f"Adult's 8 attributes, all pairs, {pairs}", ADULT_8, ct.Workload.all_ways, 26.0)
    yield _pure(f"Adult's 8 attributes, all pairs and half the triples, {pairs}", ADULT_8, ct.Workload.half_more, 25.6)
    for name, (sizes, values) in RESIDUAL_PLANNER.items():
        schema = sized(sizes)
        works = [ct.Workload.all_ways(schema, k) for k in (1, 2, 3)]
        works.append(ct.Workload([(), *ct.Workload.up_to(schema, 3).tables]))
        for words, workload, value in zip(("1-way", "2-way", "3-way", "0- to 3-way"), works, values, strict=True):
            found = Residual().plan(schema, workload, ct.Budget(rho="1/2")).rms_error
            work = f"{words} marginals of {name}, RMS error at rho 1/2, objective cells"
            yield line(work, found, value, 1.0, unit="RMS", met=abs(found - value) <= ROUNDED)
            if words in {"1-way", "2-way", "3-way"}:
                yield _prefixes(name, schema, workload, len(workload.tables[0]))
    schema = sized([64])
    for budget, most in RANGES:
        found = LinearStrategies().plan(schema, ct.Workload.ranges(schema, "a0"), ct.Budget(**budget)).rms_error ** 2
        work = f"ranges of 64 cells, {next(iter(budget))} {next(iter(budget.values()))}"
        yield line(work, found, most, 1.0, unit="mean variance", met=found <= most)


def _prefixes(name: str, schema: ct.Schema, workload: ct.Workload, ways: int) -> dict[str, Any]:
    numeric, published = PREFIXES[name]
    asked = workload.asking({f"a{i}": "prefixes" for i in numeric})
    found = LinearStrategies().plan(schema, asked, ct.Budget(rho="1/2")).rms_error
    work = f"{ways}-way prefixes of {name}, RMS error at rho 1/2, objective cells"
    return line(work, found, published[ways - 1], 1.0, unit="RMS", met=found <= published[ways - 1])


def _pure(work: str, sizes: Sequence[int], workload: Any, value: float) -> dict[str, Any]:
    schema = sized(sizes)
    found = _continuous_rms(ViewSearch().plan(schema, workload(schema, 2), ct.Budget(epsilon=1)))
    return line(work, found, value, 1.0, unit="RMS", met=found <= value * (1 + 1e-6))


def _continuous_rms(plan: Plan) -> float:
    """The error with the papers' variance 2 b^2 in place of that of the discrete noise."""
    variances = Variances.of_queries(plan.schema, [(r.query, 2 * r.noise.scale**2) for r in plan.requests])
    cells = [math.prod(plan.schema.sizes(table)) for table in plan.workload.tables]
    found = variances.of_all(plan.workload.tables)
    return math.sqrt(sum(n * v for n, v in zip(cells, found, strict=True)) / sum(cells))
