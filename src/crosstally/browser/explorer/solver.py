"""Work that takes time: places for each kind of it, ten seconds for whoever waits, and results kept in a cache.

Work that has begun is finished and kept though nobody waits for it any longer, within the limits of its process. Who
asked is told to come again, and the answer is then there. Work that has not begun is dropped when its last client left.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillRunningError
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from queue import LifoQueue
from threading import Lock
from typing import Any

from crosstally.analysis.regrouping import AS_IT_IS, Regrouping
from crosstally.browser.explorer.price import Meter
from crosstally.browser.explorer.workers import EndedError, Worker
from crosstally.errors import ReleaseError
from crosstally.exports.columns import columns_csv, columns_json
from crosstally.releases import Release, open_release
from crosstally.sql import answer_sql
from crosstally.tables import USUAL_LEVEL, Marginal
from crosstally.typing import Floats

__all__ = [
    "CACHE_BYTES", "PLACES", "SECONDS", "WAITING", "BusyError", "Cache", "Solver", "Source", "TooMuchError", "opened",
    "solved", "sql_text", "table_bytes", "workers",
]  # fmt: skip

PLACES: Mapping[str, int] = {"tables": 2, "large": 1, "sql": 1, "charts": 1, "files": 1}
"""The kinds of work, and how much of each is done at once: none of them can keep another one waiting."""

SECONDS = 10.0
"""The longest time that a client waits for a result: after that the user of a browser has left."""

WAITING = 58
"""The most clients that may wait in one place. All places together leave some of the server's requests to others."""

_REFUSED_SECONDS = 600.0
"""For how long work that was ended is refused at once: the machine may have been busy with something else."""

_MARK_BYTES = 10_000  # of the cache, for the mark of such work: about its key

# Limits memory: the cache of answers; the least recently used is removed first. Less makes repeated questions slower.
CACHE_BYTES = 256 * 2**20


class BusyError(Exception):
    """There was no time for it now."""


class TooMuchError(Exception):
    """It was begun, and ended because it took too long or too much memory."""


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


@dataclass(frozen=True, slots=True)
class _Ended:
    """Stands in the cache for work that was ended, and is not begun again until then."""

    until: float


@dataclass(slots=True, eq=False)
class _Task:
    """Work that was asked for, and how many clients wait for it."""

    future: Future[Any]
    clients: int = 0


class _Place:
    """Where work of one kind is done: a thread for each of those who do it."""

    def __init__(self, name: str, workers: Sequence[Callable[[Callable[[], Any]], Any]]) -> None:
        self.workers, self.clients = workers, 0
        self.threads = ThreadPoolExecutor(len(workers), thread_name_prefix=name)
        self._free: LifoQueue[Callable[[Callable[[], Any]], Any]] = LifoQueue()
        for each in workers:
            self._free.put(each)

    def do(self, work: Callable[[], Any]) -> Any:
        """Have the work done; called in one of the threads, of which there are as many as workers."""
        worker = self._free.get()
        try:
            return worker(work)
        finally:
            self._free.put(worker)

    def close(self) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)
        for each in self.workers:
            if isinstance(each, Worker):
                each.close()


def _here(work: Callable[[], Any]) -> Any:
    return work()


class Solver:
    """Has work done in places and keeps what comes out; the same work asked twice at once is done once.

    Args:
        places: For each kind of work those who do it: processes where a release is served to others, otherwise threads.
        seconds: How long a client waits.
        cache: Where results are kept.
    """

    def __init__(
        self,
        places: Mapping[str, Sequence[Callable[[Callable[[], Any]], Any]]] | None = None,
        *,
        seconds: float = SECONDS,
        cache: Cache | None = None,
    ) -> None:
        self.seconds = seconds
        self.cache = cache or Cache()
        given = {name: [_here] * number for name, number in PLACES.items()} if places is None else places
        self._places = {name: _Place(name, workers) for name, workers in given.items()}
        self._tasks: dict[Hashable, _Task] = {}
        self._lock = Lock()
        self._closed = False

    def start(self, name: str) -> None:
        """Start the processes of a place now, beside everything else, and not when somebody waits for them."""
        for each in self._places[name].workers:
            if isinstance(each, Worker):
                self._places[name].threads.submit(each.start)

    def run(self, key: Hashable, work: Callable[[], Any], size: Callable[[Any], int], place: str = "tables") -> Any:
        """The result of the work, from the cache where it is there.

        Raises ``BusyError`` when time is over, ``TooMuchError`` where the work was ended.

        Args:
            key: What tells this work from other work.
            work: Gives the result; its errors are raised here.
            size: How many bytes a result takes.
            place: Where it is done.
        """
        found = self.kept(key)
        if found is None:
            own = self._places[place]
            task = self._joined(key, work, size, own)
            try:
                found = task.future.result(timeout=self.seconds)
            except (StillRunningError, CancelledError):
                raise BusyError from None
            except EndedError:
                raise (BusyError if self._closed else TooMuchError) from None
            finally:
                self._leave(key, task, own)
        if isinstance(found, _Ended):
            raise TooMuchError
        return found

    def kept(self, key: Hashable) -> Any:
        """The result of earlier work, or None."""
        found = self.cache.get(key)
        return None if isinstance(found, _Ended) and found.until < time.monotonic() else found

    def _joined(self, key: Hashable, work: Callable[[], Any], size: Callable[[Any], int], place: _Place) -> _Task:
        """The task of this work, with one client more."""
        with self._lock:
            if self._closed or place.clients >= WAITING:
                raise BusyError
            task = self._tasks.get(key)
            if task is None:
                task = self._tasks[key] = _Task(place.threads.submit(self._keep, key, work, size, place))
            task.clients += 1
            place.clients += 1
            return task

    def _leave(self, key: Hashable, task: _Task, place: _Place) -> None:
        """One client less; without any, work that has not begun is dropped."""
        with self._lock:
            task.clients -= 1
            place.clients -= 1
            if not task.clients and task.future.cancel() and self._tasks.get(key) is task:
                del self._tasks[key]

    def _keep(self, key: Hashable, work: Callable[[], Any], size: Callable[[Any], int], place: _Place) -> Any:
        try:
            result = self.kept(key)  # it may have ended since the client looked
            if result is None:
                result = place.do(work)
                self.cache.put(key, result, size(result))
        except EndedError:
            if not self._closed:
                self.cache.put(key, _Ended(time.monotonic() + _REFUSED_SECONDS), _MARK_BYTES)
            raise
        finally:
            with self._lock:
                self._tasks.pop(key, None)
        return result

    def close(self) -> None:
        """Begin nothing more, and end what runs in processes."""
        with self._lock:
            self._closed = True
        for place in self._places.values():
            place.close()


def workers(source: Source, names: Sequence[str]) -> dict[str, list[Worker]]:
    """Processes for every place. Those that solve open the release, and what every interval needs, before the first."""
    first = partial(solved, source, tuple(names[:1]), "", 0.95)
    solve = ("tables", "large", "sql")
    return {name: [Worker(first if name in solve else None) for _ in range(number)] for name, number in PLACES.items()}


# What is solved


@dataclass(frozen=True, slots=True)
class Source:
    """A release file, and the SHA-256 digest of the one that is served: a process that starts later opens no other."""

    path: Path
    digest: str


@lru_cache(maxsize=1)
def _opened(source: Source) -> Release:
    try:
        found = hashlib.sha256(source.path.read_bytes()).hexdigest()
    except OSError:
        found = ""
    if found != source.digest:
        raise ReleaseError(f"{source.path.name} changed while it is served; start the server again")
    return open_release(source.path)


def opened(source: Source | Release) -> Release:
    """The release: a file is opened once in each process."""
    return source if isinstance(source, Release) else _opened(source)


@dataclass(frozen=True, slots=True, eq=False)
class _At:
    """Errors and intervals of a table at some levels, as numbers: they need neither the release nor its replicates.

    ``halves`` are left out where cells have intervals of their own: then nobody asks for them, and they take a while.
    """

    std_error: float | Floats
    halves: Mapping[float, float | Floats]
    ends: Mapping[float, tuple[Floats, Floats]]

    def half_width(self, level: float) -> float | Floats:
        return self.halves[level]

    def interval(self, values: Floats, level: float) -> tuple[Floats, Floats]:  # noqa: ARG002 (those of the table)
        return self.ends[level]


def solved(
    source: Source | Release,
    names: tuple[str, ...],
    where: str,
    level: float,
    *,
    regrouping: Regrouping = AS_IT_IS,
    within: tuple[str, ...] | None = None,
) -> tuple[Marginal, Marginal]:
    """A table of a release, and its shares within some attributes or itself again, both computed at one level.

    What is shown and written of them costs no solve, and they can be sent from one process to another.
    """
    release = opened(source)
    table = regrouping(release.marginal(*names, where=where or None))
    counts = _computed(table, level)
    return counts, counts if within is None else _computed(table.shares(*within), level)


def _computed(table: Marginal, level: float) -> Marginal:
    """The table at a level, and at the one by which signs of reliability are given."""
    error, levels = table.error, {level, USUAL_LEVEL}
    ends = {} if table.ends is None else {each: table.interval(each) for each in levels}
    halves = {} if error is None or ends else {each: error.half_width(each) for each in levels}
    at = _At(float("nan") if error is None else error.std_error, halves, ends)
    return replace(table, error=None if error is None else at, ends=at if ends else None, origin=None)


def sql_text(source: Source | Release, statement: str, name: str, level: float) -> str:
    """The answer to a statement as a text; every table that it needs is priced before it is computed."""
    release = opened(source)
    caption = str(release.statement)
    answer = answer_sql(statement, release.schema, Meter(release), level=level, caption=caption)
    if name == "csv":
        return columns_csv(answer.columns)
    return columns_json(answer.columns, {"level": level, "source": caption})


def table_bytes(found: tuple[Marginal, Marginal]) -> int:
    """About how many bytes solved tables hold: values, errors, both ends at two levels, and a thousand for the rest."""
    counts, shown = found
    return (6 if counts is shown else 12) * counts.values.nbytes + 1_000
