"""What intervals cost: once for each release, then for each table; against limits in seconds.

A release's first interval draws its noise again and infers again. After that a table that nobody measured takes
milliseconds. Rows are of ten hidden classes, attributes have two to six values.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import crosstally as ct
from benchmarks.shapes import equal_shares, sized
from benchmarks.timing import row, timed
from crosstally.workload import Workload

ROWS, CLASSES, SIZES = 50_000, 10, (2, 3, 4, 5, 6)
RELEASES = {28: (8, 2, 3.0), 210: (21, 2, 10.0), 560: (16, 3, 60.0)}
"""By number of views: attributes, attributes of each view, and the CPU seconds that the first interval may take."""
TABLES = {256: 0.010, 2_000: 0.100}
"""Cells of a table at most, and the CPU seconds that it may take with its intervals."""
ASKED = 20


def run() -> Iterator[dict[str, Any]]:
    """For each release its first interval, then tables over three to six attributes."""
    random = np.random.default_rng(20_261_117)
    for views, (attributes, ways, limit) in RELEASES.items():
        release = _released(attributes, ways, random)
        assert len(release.measurements) == views
        first, _ = timed(partial(_bars, release, release.schema.names[:1]))
        yield row(f"first interval of {views} views, against {limit:g} s", first, limit, 1.0)
        for cells, most in TABLES.items():
            yield _tables(release, ways, cells, most, random)


def _tables(release: ct.Release, ways: int, cells: int, limit: float, random: np.random.Generator) -> dict[str, Any]:
    """The median of tables that nobody measured, of at most so many cells and at least a quarter of them."""
    names = release.schema.names
    asked: list[tuple[str, ...]] = []
    while len(asked) < ASKED:
        chosen = tuple(random.choice(names, int(random.integers(ways + 1, 7)), replace=False))
        if cells / 4 <= math.prod(release.schema.sizes(chosen)) <= cells:
            asked.append(chosen)
    seconds = statistics.median(timed(partial(_bars, release, each))[0] for each in asked)
    work = f"an unmeasured table of up to {cells:,} cells with intervals, {len(release.measurements)} views"
    return row(f"{work}, against {1_000 * limit:g} ms", seconds, limit, 1.0)


def _bars(release: ct.Release, names: tuple[str, ...]) -> None:
    release.marginal(*names).interval(0.95)


def _released(attributes: int, ways: int, random: np.random.Generator) -> ct.Release:
    """A release of all tables of so many attributes, with delta."""
    sizes = [SIZES[i % len(SIZES)] for i in range(attributes)]
    schema = sized(sizes)
    classes = random.integers(0, CLASSES, ROWS)
    columns = {}
    for i, n in enumerate(sizes):
        ends = random.dirichlet(np.ones(n), CLASSES).cumsum(axis=1)
        drawn = (random.random(ROWS)[:, None] > ends[classes]).sum(axis=1).clip(max=n - 1)
        columns[f"a{i}"] = pa.array(drawn).cast(pa.string())
    workload = Workload.all_ways(schema, ways)
    plan = equal_shares(schema, workload.tables, ct.Budget(epsilon=1, delta="1e-9"), workload)
    return ct.release(pa.table(columns), plan=plan)
