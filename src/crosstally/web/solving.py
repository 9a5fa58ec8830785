"""Work that takes time: two pieces at once, ten seconds each, and what comes out kept in a cache of bounded size.

A thread cannot be stopped. What takes longer than its time goes on in its place, is kept when it is done, and whoever
asked is told to come again: the answer is then there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillRunningError
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from crosstally.releases import Release
from crosstally.tables import CellEnds, Marginal
from crosstally.typing import Floats

__all__ = ["CACHE_BYTES", "SECONDS", "WORKERS", "BusyError", "Cache", "Solver", "solved", "table_bytes", "with_ends"]

WORKERS = 2
"""Concurrent computations: a laptop or a small machine serves a release and does other work too."""

SECONDS = 10.0
"""The longest time that a client waits for one: after that the user of a browser has left."""

WAITING = 64
"""The most computations that may wait: 50 concurrent clients, and some more."""

# Limits memory: the cache of answers; the least recently used is removed first. Less makes repeated questions slower.
CACHE_BYTES = 256 * 2**20


class BusyError(Exception):
    """There was no time for it now."""


class Cache:
    """Results by key, the least recently used thrown away first when they take too many bytes."""

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self.limit = limit
        self.bytes = 0
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> Any:
        """The result, or None."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, result: Any, size: int) -> None:
        """Keep a result of this many bytes, unless it alone would take an eighth of the cache."""
        if size > self.limit // 8:
            return
        with self._lock:
            self.bytes += size - self._kept.pop(key, (None, 0))[1]
            self._kept[key] = result, size
            while self.bytes > self.limit:
                self.bytes -= self._kept.popitem(last=False)[1][1]


class Solver:
    """Runs work in a few threads and keeps what comes out; the same work asked twice at once is done once."""

    def __init__(self, *, workers: int = WORKERS, seconds: float = SECONDS, cache: Cache | None = None) -> None:
        self.seconds = seconds
        self.cache = cache or Cache()
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="solve")
        self._running: dict[Hashable, Future[Any]] = {}
        self._lock = Lock()

    def run(self, key: Hashable, work: Callable[[], Any], size: Callable[[Any], int]) -> Any:
        """The result of the work, from the cache where it is there. Raises ``BusyError`` when time is over.

        Args:
            key: What tells this work from other work.
            work: Gives the result; its errors are raised here.
            size: How many bytes a result takes.
        """
        found = self.cache.get(key)
        if found is not None:
            return found
        with self._lock:
            future = self._running.get(key)
            begun = future is None
            if future is None:
                found = self.cache.get(key)  # it may have ended since the first look
                if found is not None:
                    return found
                if len(self._running) >= WAITING:
                    raise BusyError
                future = self._threads.submit(self._keep, key, work, size)
                self._running[key] = future
        if begun:  # outside the lock: what is done already calls back at once
            future.add_done_callback(lambda _: self._forget(key))
        try:
            return future.result(timeout=self.seconds)
        except StillRunningError:
            future.cancel()  # only what has not begun
            raise BusyError from None

    def _keep(self, key: Hashable, work: Callable[[], Any], size: Callable[[Any], int]) -> Any:
        result = work()
        self.cache.put(key, result, size(result))
        return result

    def _forget(self, key: Hashable) -> None:
        with self._lock:
            self._running.pop(key, None)

    def close(self) -> None:
        """Begin nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True, eq=False)
class _KeptEnds:
    """Intervals at one level, computed once; those at other levels are asked for again."""

    level: float
    ends: tuple[Floats, Floats]
    others: CellEnds

    def interval(self, values: Floats, level: float) -> tuple[Floats, Floats]:
        return self.ends if level == self.level else self.others.interval(values, level)


def solved(release: Release, names: tuple[str, ...], where: str, level: float) -> Marginal:
    """A table of a release with its intervals at a level computed, so that showing and writing it costs no solve."""
    return with_ends(release.marginal(*names, where=where or None), level)


def with_ends(table: Marginal, level: float) -> Marginal:
    """The same table, its intervals at a level computed."""
    if table.ends is None:
        return table
    return replace(table, ends=_KeptEnds(level, table.interval(level), table.ends))


def table_bytes(marginal: Marginal) -> int:
    """About how many bytes a solved table holds: values, both ends, errors, and a thousand for the rest."""
    return 4 * marginal.values.nbytes + 1_000
