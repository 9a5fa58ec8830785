"""A hundred million rows streamed from Parquet into 20 views, against reading the file alone; peak memory beside it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.timing import row

ROWS = int(os.environ.get("CROSSTALLY_BENCH_ROWS", "100_000_000"))
ATTRIBUTES, PART = 32, 1_000_000
LIMIT = 1 << 30

READ = "import pyarrow.parquet as pq\nfor batch in pq.ParquetFile(path).iter_batches(65_536): pass"
COUNT = (
    "import crosstally as ct\nfrom crosstally.sources import count\n"
    "schema = ct.Schema([ct.Attribute(f'a{i}', ['0', '1']) for i in range(32)])\n"
    "views = ct.strategies.covering_design(attributes=32, size=8, cover=2)\n"
    "count(path, schema, [tuple(schema.names[i] for i in view) for view in views])"
)


def run() -> list[dict[str, Any]]:
    """The ratio of CPU times, each in a process of its own, the peak memory of counting, and what two threads gain."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        _write(path)
        reading = _measure(READ, path, threads=2)
        counting = _measure(COUNT, path, threads=2)
        alone = _measure(COUNT, path, threads=1)
    works = f"{ROWS:,} rows x {ATTRIBUTES} from Parquet, 20 views"
    return [
        row(f"{works}, against reading alone", counting.cpu, reading.cpu, 3.0),
        row(f"{works}, peak memory in GiB against 1 GiB", counting.memory / LIMIT, 1.0, 1.0),
        {**row(f"{works}, wall time, two threads against one", counting.wall, alone.wall, 1 / 1.6), "note": _load()},
    ]


def _load() -> str:
    """How busy the machine was: a ratio of wall times means little unless two cores were idle."""
    return f"load {os.getloadavg()[0]:.1f}"


def _write(path: Path) -> None:
    random = np.random.default_rng(20_260_103)
    schema = pa.schema([(f"a{i}", pa.int8()) for i in range(ATTRIBUTES)])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, ROWS, PART):
            codes = random.integers(0, 2, (ATTRIBUTES, min(PART, ROWS - start)), dtype=np.int8)
            writer.write_table(pa.table(list(codes), schema=schema))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cost:
    """What a process took: CPU seconds and seconds by the clock, start-up included, and bytes at its peak."""

    cpu: float
    wall: float
    memory: float


def _measure(work: str, path: Path, *, threads: int) -> _Cost:
    """What a process costs that does this work in so many threads."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    code = f"import resource\npath = {str(path)!r}\n{work}\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return _Cost(cpu=cpu, wall=wall, memory=float(run.stdout) * 1024)
