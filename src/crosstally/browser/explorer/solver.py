"""Work that takes time: places for each kind of it, ten seconds for whoever waits, and results kept in a cache.

Work that has begun is finished and kept though nobody waits for it any longer, within the limits of its process. Who
asked is told to come again, and the answer is then there. Work that has not begun is dropped when its last client left.

A thread cannot be stopped, a process can: work that takes too long or too much memory is ended with its process, and
the next piece begins in a new one.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillRunningError
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import LifoQueue
from threading import Lock
from typing import Any

from crosstally.browser.common.site import log_error
from crosstally.errors import CrosstallyError

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

DEADLINE = 60.0
"""Seconds after which work is ended: three times what the dearest question takes on a core of its own."""

MEMORY = 2 * 2**30
"""Resident bytes beyond those of the release at which work is ended. Linux tells them; elsewhere there is no limit."""

_LOOK_SECONDS = 0.1  # between two looks at the memory: a process fills some 200 MB in that time
_KERNELS = [f"crosstally.kernels.{name}" for name in ("helmert", "joint", "raking", "shrinkage")]
_PRELOADED = ["crosstally.browser.explorer.answering", "pyarrow.parquet", "pandas", *_KERNELS]
"""Imported once, by the process that all others are forked from: they start sooner, and share its memory."""


class EndedError(Exception):
    """The work was ended: it took too long, took too much memory, or the server ends."""


class UnforeseenError(Exception):
    """An error that no user caused: where it was stands in the log, its text nowhere."""


class BusyError(Exception):
    """There was no time for it now."""


class TooMuchError(Exception):
    """It was begun, and ended because it took too long or too much memory.

    It stands in the cache in the place of a result, so that the same work is not begun again ``until`` then.
    """

    def __init__(self, until: float = 0.0) -> None:
        super().__init__(until)
        self.until = until


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
        if isinstance(found, TooMuchError):
            raise TooMuchError(found.until)
        return found

    def kept(self, key: Hashable) -> Any:
        """The result of earlier work, or None."""
        found = self.cache.get(key)
        return None if isinstance(found, TooMuchError) and found.until < time.monotonic() else found

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
                self.cache.put(key, TooMuchError(time.monotonic() + _REFUSED_SECONDS), _MARK_BYTES)
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


# Processes


class Worker:
    """A process that is started with the first piece of work, or before, and again after it was ended.

    Args:
        first: Done by each new process before anything else, without limits; its result is thrown away.
        seconds: The longest time for one piece of work.
        memory: The most resident bytes that it may add.
    """

    def __init__(
        self, first: Callable[[], object] | None = None, *, seconds: float = DEADLINE, memory: int = MEMORY
    ) -> None:
        self.first, self.seconds, self.memory = first, seconds, memory
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._before: int | None = None  # resident bytes once the first is done
        self._closed = False
        self._lock = threading.Lock()

    def start(self) -> Connection:
        """Have a process; a new one where there is none or it died."""
        with self._lock:
            if self._closed:
                raise EndedError
            if self._process is None or self._connection is None or not self._process.is_alive():
                self._end()
                methods = multiprocessing.get_all_start_methods()
                context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
                if "forkserver" in methods:
                    context.set_forkserver_preload(_PRELOADED)
                self._connection, theirs = context.Pipe()
                self._process = context.Process(target=_work, args=(theirs, self.first), daemon=True)
                self._process.start()
                theirs.close()
            return self._connection

    def __call__(self, work: Callable[[], Any]) -> Any:
        """The result of the work, whose errors are raised here. Raises ``EndedError`` when it was ended."""
        connection = self.start()
        with suppress(EOFError, OSError):  # the process died
            if self._before is None:
                connection.recv()
                self._before = self._resident()
            connection.send(work)
            if self._answers(connection):
                done, result = connection.recv()
                if done:
                    return result
                raise result
        with self._lock:
            self._end()
        raise EndedError

    def _answers(self, connection: Connection) -> bool:
        """Wait for the answer, or for the end of the process; False where it takes too long or too much memory."""
        until, most = time.monotonic() + self.seconds, (self._before or 0) + self.memory
        while not connection.poll(_LOOK_SECONDS):
            if time.monotonic() > until or self._resident() > most:
                return False
        return True

    def _resident(self) -> int:
        pid = None if self._process is None else self._process.pid
        with suppress(OSError, ValueError, IndexError):
            return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return 0

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._connection is not None:
            self._connection.close()
        self._process = self._connection = self._before = None

    def close(self) -> None:
        """End the process, whatever it does, and start no other."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()  # whoever waits for it reads the end of the pipe
                self._process.join()


def _work(connection: Connection, first: Callable[[], object] | None) -> None:
    """What the process does until the server closes its end, or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group: the server decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if first is not None:
        with suppress(Exception):  # whoever asks for the same meets the error again
            first()
    with suppress(EOFError, OSError):
        connection.send(None)
        while True:
            connection.send(_done(connection.recv()))


def _done(work: Callable[[], Any]) -> tuple[bool, Any]:
    try:
        return True, work()
    except MemoryError:
        sys.exit(1)
    except CrosstallyError as error:
        return False, error
    except Exception as error:  # noqa: BLE001 - its text could hold anything
        log_error("of a worker", error)
        return False, UnforeseenError()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
