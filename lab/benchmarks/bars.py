"""What intervals cost: once for each release, then for each table; against limits in seconds.

A release's first interval draws its noise again and infers again. After that a table that nobody measured takes
milliseconds. Rows are of ten hidden classes, attributes have two to six values.

Then, on public tables that are there: what opening a file and its first interval take, against a limit in seconds and
beside the release that works its intervals out; the command ``crosstally table`` as a whole; and how much the file
grows by what it keeps for that.
"""

from __future__ import annotations

import math
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import crosstally as ct
from benchmarks.accuracy.real_tables import RealTable, present_tables
from benchmarks.shapes import equal_shares, sized
from benchmarks.timing import cpu_seconds, row, timed
from crosstally.workload import Workload

ROWS, CLASSES, SIZES = 50_000, 10, (2, 3, 4, 5, 6)
RELEASES = {28: (8, 2, 3.0), 210: (21, 2, 10.0), 560: (16, 3, 60.0)}
"""By number of views: attributes, attributes of each view, and the CPU seconds that the first interval may take."""
TABLES = {256: 0.010, 2_000: 0.100}
"""Cells of a table at most, and the CPU seconds that it may take with its intervals."""
ASKED = 20
OPENED = ("adult", "fars", "stroke")
"""Public tables of 14, 30 and 110 attributes."""
FIRST, COMMAND, GROWTH = 0.3, 0.8, 2.0
"""CPU seconds for opening a file and a first interval, and for ``crosstally table``; how often a file may grow."""


def run() -> Iterator[dict[str, Any]]:
    """For each release its first interval, then tables over three to six attributes; then files that are opened."""
    random = np.random.default_rng(20_261_117)
    for views, (attributes, ways, limit) in RELEASES.items():
        release = _released(attributes, ways, random)
        assert len(release.measurements) == views
        first, _ = timed(partial(_bars, release, release.schema.names[:1]))
        yield row(f"first interval of {views} views, against {limit:g} s", first, limit, 1.0)
        for cells, most in TABLES.items():
            yield _tables(release, ways, cells, most, random)
    for table in present_tables(OPENED):
        yield from _opened(table)


def _opened(table: RealTable) -> Iterator[dict[str, Any]]:
    """A default release with delta that was saved: its first two attributes."""
    release = ct.release(table.rows, table.schema, epsilon=1, delta="1e-9")
    names = release.schema.names[:2]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "release.parquet"
        release.save(path)
        size, kept = path.stat().st_size, kept_bytes(path)

        def first() -> None:
            _bars(ct.open_release(path), names)

        def from_the_beginning() -> None:
            _bars(replace(ct.open_release(path), kept=None), names)

        seconds, worked_out = (cpu_seconds(work) for work in (first, from_the_beginning))
        yield row(f"first interval of {table.name} from its file, against {FIRST} s", seconds, FIRST, 1.0)
        yield row(f"first interval of {table.name}, against without what its file keeps", seconds, worked_out, None)
        command = [sys.executable, "-m", "crosstally", "table", str(path), *names]
        seconds = cpu_seconds(lambda: subprocess.run(command, check=True, capture_output=True), clock=_of_children)
        yield row(f"crosstally table of {table.name}, against {COMMAND} s", seconds, COMMAND, 1.0)
        yield row(f"bytes of the file of {table.name}, against without what it keeps", size, size - kept, GROWTH)


def kept_bytes(path: Path) -> int:
    """How many bytes of a release's file are replicates."""
    groups = pq.ParquetFile(path).metadata
    columns = (groups.row_group(i).column(j) for i in range(groups.num_row_groups) for j in range(groups.num_columns))
    return sum(each.total_compressed_size for each in columns if each.path_in_schema == "replicates")


def _of_children() -> float:
    """The CPU seconds of processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
