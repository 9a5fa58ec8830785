"""How benchmarks are measured: CPU seconds, after a warm-up, the best of three, always beside something else."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

__all__ = ["cpu_seconds", "row"]


def cpu_seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The least CPU time of a few runs, after one that does not count."""
    work()
    times = []
    for _ in range(repeats):
        before = time.process_time()
        work()
        times.append(time.process_time() - before)
    return min(times)


def row(work: str, seconds: float, peer: float, target: float | None) -> dict[str, Any]:
    """One line of the results: the ratio to the floor or peer, and whether the target was met."""
    ratio = seconds / peer
    met = None if target is None else ratio <= target
    return {"work": work, "crosstally": seconds, "peer": peer, "ratio": ratio, "target": target, "met": met}
