"""A whole release against counting the same views with plain numpy, and cold starts against their limits."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import crosstally as ct
from benchmarks.counting import plain_numpy
from benchmarks.shapes import equal_shares
from benchmarks.timing import cpu_seconds, row, timed
from crosstally_lab.papers.data import clicks

ROWS, ATTRIBUTES = 912_627, 32


def run() -> list[dict[str, Any]]:
    """Releases from integers and texts, on rows that repeat and rows that do not; then cold starts."""
    random = np.random.default_rng(20_260_102)
    clicked = clicks(ROWS, random).table
    kinds = {
        "click streams": np.stack([np.asarray(column).astype(np.uint8) for column in clicked.columns]),
        "random rows": random.integers(0, 2, (ATTRIBUTES, ROWS), dtype=np.uint8),
    }
    rows = []
    for form, target in (("integers", 1.0), ("strings", 1.5)):
        worst = max((_release(kind, codes, form, target) for kind, codes in kinds.items()), key=lambda r: r["ratio"])
        rows.append(worst)
    return [*rows, *_cold_starts()]


def _release(kind: str, codes: NDArray[np.uint8], form: str, target: float) -> dict[str, Any]:
    labels = ("0", "1") if form == "integers" else ("no", "yes")
    schema = ct.Schema([ct.Attribute(f"a{i}", labels) for i in range(ATTRIBUTES)])
    columns = codes.view(np.int8) if form == "integers" else [pa.array(labels).take(pa.array(line)) for line in codes]
    table = pa.table(dict(zip(schema.names, columns, strict=True)))
    views = ct.strategies.covering_design(attributes=ATTRIBUTES, size=8, cover=3)
    plan = equal_shares(schema, [tuple(schema.names[i] for i in view) for view in views], ct.Budget(epsilon=1))
    floor = cpu_seconds(lambda: plain_numpy(codes, [np.array(view) for view in views]))
    seconds = cpu_seconds(lambda: ct.release(table, plan=plan))
    return row(f"release of {len(views)} views, d=32, N={ROWS:,}, {form}, {kind}", seconds, floor, target)


def _cold_starts() -> list[dict[str, Any]]:
    importing = "import time; start = time.process_time(); import crosstally; print(time.process_time() - start)"
    runs = [subprocess.run([sys.executable, "-c", importing], capture_output=True, text=True, check=True)]
    imported = min(float(done.stdout) for done in runs * 3)
    with tempfile.TemporaryDirectory() as folder:
        command = [str(Path(sys.executable).parent / "crosstally"), "demo", "--directory", folder]
        demo = partial(subprocess.run, command, capture_output=True, check=True)
        seconds = min(timed(demo, time.perf_counter)[0] for _ in range(2))
    return [
        row("import crosstally, against 0.3 s", imported, 0.3, 1.0),
        row("crosstally demo, again, wall time against 5 s", seconds, 5.0, 1.0),
    ]
