"""How benchmarks are measured: CPU seconds, after a warm-up, the best of three, always beside something else."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def cpu_seconds(work: Callable[[], object], repeats: int = 3, clock: Callable[[], float] = time.process_time) -> float:
    """The least CPU time of a few runs, after one that does not count; or the least time by another clock."""
    work()
    return min(timed(work, clock)[0] for _ in range(repeats))


def timed(work: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> tuple[float, Any]:
    """The CPU seconds of some work, or its time by another clock; and what it gives."""
    before = clock()
    done = work()
    return clock() - before, done


def row(work: str, seconds: float, peer: float, target: float | None) -> dict[str, Any]:
    """One line of the results: the ratio to the floor or peer, and whether the target was met."""
    ratio = seconds / peer
    met = None if target is None else ratio <= target
    return {"work": work, "crosstally": seconds, "peer": peer, "ratio": ratio, "target": target, "met": met}
