"""Noise for a million cells: one draw of the whole vector in one thread, and in two, by the clock."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.timing import row
from crosstally.budget import Noise, NoiseKind, Sensitivity
from crosstally.privacy.noise import draw

CELLS = int(os.environ.get("CROSSTALLY_BENCH_CELLS", "1_000_000"))


def run() -> list[dict[str, Any]]:
    """A line for each kind of noise. The ratio means little unless two cores were idle, so the load is noted."""
    rows = []
    for kind in (NoiseKind.LAPLACE, NoiseKind.GAUSSIAN):
        one, two = (min(_wall(kind, threads) for _ in range(2)) for threads in (1, 2))
        work = f"{kind} noise for {CELLS:,} cells, wall time, two threads against one"
        rows.append({**row(work, two, one, 1 / 1.8), "note": f"load {os.getloadavg()[0]:.1f}"})
    return rows


def _wall(kind: NoiseKind, threads: int) -> float:
    before = pa.cpu_count()
    pa.set_cpu_count(threads)
    began = time.perf_counter()
    draw(np.zeros(CELLS, np.int64), Noise(kind, 20.0), Sensitivity(1, 1))
    pa.set_cpu_count(before)
    return time.perf_counter() - began
