"""A hundred million rows streamed from Parquet into 20 views, against reading the file alone; peak memory beside it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
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
    """The ratio of CPU times, each in a process of its own, and the peak memory of counting."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        _write(path)
        reading, _ = _measure(READ, path)
        counting, memory = _measure(COUNT, path)
    works = f"{ROWS:,} rows x {ATTRIBUTES} from Parquet, 20 views"
    return [
        row(f"{works}, against reading alone", counting, reading, 3.0),
        row(f"{works}, peak memory in GiB against 1 GiB", memory / LIMIT, 1.0, 1.0),
    ]


def _write(path: Path) -> None:
    random = np.random.default_rng(20_260_103)
    schema = pa.schema([(f"a{i}", pa.int8()) for i in range(ATTRIBUTES)])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, ROWS, PART):
            codes = random.integers(0, 2, (ATTRIBUTES, min(PART, ROWS - start)), dtype=np.int8)
            writer.write_table(pa.table(list(codes), schema=schema))


def _measure(work: str, path: Path) -> tuple[float, float]:
    """CPU seconds and peak bytes of a process that does this work."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = f"import resource\npath = {str(path)!r}\n{work}\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, float(done.stdout) * 1024
