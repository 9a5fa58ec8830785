"""What opening a file may cost: CPU time and memory, beyond what an empty file costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Cost", "cost_of", "most"]

_SECONDS, _SECONDS_A_BYTE = 0.5, 1e-7  # 1 s for each 10 MB
_BYTES, _BYTES_A_BYTE = 64 * 2**20, 20


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds, and how far memory rose above what was held before."""

    seconds: float
    memory: int

    def exceeds(self, other: Cost) -> bool:
        return self.seconds > other.seconds or self.memory > other.memory


def most(size: int, slack: float = 1.0) -> Cost:
    """What a file of this many bytes may cost at most; CPU time is ``slack`` times longer where others share it."""
    return Cost(slack * (_SECONDS + _SECONDS_A_BYTE * size), _BYTES + _BYTES_A_BYTE * size)


def cost_of(work: Callable[[], None]) -> Cost:
    """What something costs. Memory is the peak of the process, which Linux forgets on request."""
    clear = Path("/proc/self/clear_refs")
    if not clear.exists():
        started = time.process_time()
        work()
        return Cost(time.process_time() - started, 0)
    clear.write_text("5")
    before, started = _status("VmRSS"), time.process_time()
    work()
    seconds = time.process_time() - started
    return Cost(seconds, max(0, _status("VmHWM") - before))


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return 1024 * int(line.split()[1])
    raise AssertionError(field)
