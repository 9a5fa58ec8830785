"""Schemas of many attributes with many values, against independence from noisy one-way tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

import crosstally as ct
from benchmarks.accuracy.comparison import Ratio, paired_ratio
from benchmarks.accuracy.errors import Truth
from benchmarks.accuracy.kept import kept_draws
from benchmarks.accuracy.lines import never_above, refused
from benchmarks.accuracy.real_tables import RealTable
from benchmarks.accuracy.settings import DELTA, in_processes, rms_by_order
from benchmarks.shapes import sized
from crosstally.errors import CrosstallyError
from crosstally.strategies import Direct

WIDTHS, ROWS, LARGEST, CLASSES = (48, 100), 100_000, 1_000, 12
ORDERS = (1, 2, 3)
LIMIT = 1.1


@dataclass(frozen=True, slots=True)
class Wide:
    """Draws of one width and budget."""

    width: int
    delta: str | None
    draws: int

    def __str__(self) -> str:
        return f"{self.width} attributes, epsilon 1, {'pure' if self.delta is None else f'delta {self.delta}'}"


def run(draws: int, *, quick: bool = False) -> Iterator[dict[str, Any]]:
    """RMS of the default over that of one-way tables with the whole budget, for tables of 1 to 3 attributes."""
    jobs = [Wide(width, delta, draws) for width in (WIDTHS[:1] if quick else WIDTHS) for delta in (DELTA, None)]
    found = dict(zip(jobs, in_processes(_kept, jobs), strict=True))
    work = f"generated rows, up to {LARGEST:,} values, RMS over independence from one-ways"
    for job, errors in found.items():
        if "refused" in errors:
            yield refused(f"{work}, {job}", LIMIT, errors["refused"])
    for order in ORDERS:
        ratios: dict[str, Ratio] = {
            str(job): paired_ratio(errors["default"][str(order)], errors["ones"][str(order)])
            for job, errors in found.items()
            if "refused" not in errors
        }
        if ratios:
            yield never_above(f"k={order}, {work}", ratios, LIMIT)


@lru_cache
def table(width: int) -> RealTable:
    """Rows of some hidden classes, each with its own skewed shares of values: attributes depend through the class.

    Sizes are spread evenly on a logarithmic scale from 2 to the largest, shares within a class are Zipf's over an order
    of values that is half common to all classes.
    """
    random = np.random.default_rng((20_261_118, width))
    sizes = np.rint(np.exp(np.linspace(math.log(2), math.log(LARGEST), width))).astype(int)
    classes = random.choice(CLASSES, ROWS, p=random.dirichlet(np.full(CLASSES, 2.0)))
    codes = np.empty((ROWS, width), np.int64)
    for i, size in enumerate(sizes.tolist()):
        common = random.permutation(size)
        shares = np.sort(1 / np.arange(1.0, size + 1))[::-1]
        drawn = random.choice(size, ROWS, p=shares / shares.sum())
        own = random.random(CLASSES) < 0.5
        orders = np.array([random.permutation(size) if each else common for each in own])
        codes[:, i] = orders[classes, drawn]
    schema = sized(sizes.tolist())
    rows = pa.table({name: codes[:, i] for i, name in enumerate(schema.names)})
    return RealTable(f"generated-{width}", schema, rows=rows, codes=codes)


def _kept(job: Wide) -> Any:
    return kept_draws("wide", job, errors_of)


def errors_of(job: Wide) -> dict[str, Any]:
    """By strategy and order the RMS of each draw; or why the default releases nothing."""
    wide = table(job.width)
    truth = Truth.of(wide, ORDERS)
    budget = ct.Budget(epsilon=1, delta=job.delta)
    try:
        chosen = ct.plan(wide.schema, epsilon=1, delta=job.delta).chosen
        # Direct and not Optimum, which measures some attributes together and so predicts better than independence
        ones = Direct().plan(wide.schema, ct.Workload.all_ways(wide.schema, 1), budget)
        plans = {"default": chosen, "ones": ones}
        draws = [
            {name: rms_by_order(ct.release(wide.rows, plan=plan), truth) for name, plan in plans.items()}
            for _ in range(job.draws)
        ]
    except CrosstallyError as error:
        return {"refused": str(error)}
    return {name: {str(k): [draw[name][k] for draw in draws] for k in truth.asked} for name in plans}
