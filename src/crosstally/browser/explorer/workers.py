"""Processes that do one piece of work after the other and can be ended in the middle of one.

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
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from crosstally.browser.common.site_guard import log_error
from crosstally.errors import CrosstallyError

__all__ = ["DEADLINE", "MEMORY", "EndedError", "UnforeseenError", "Worker"]

DEADLINE = 60.0
"""Seconds after which work is ended: three times what the dearest question takes on a core of its own."""

MEMORY = 2 * 2**30
"""Resident bytes beyond those of the release at which work is ended. Linux tells them; elsewhere there is no limit."""

_LOOK_SECONDS = 0.1  # between two looks at the memory: a process fills some 200 MB in that time
_KERNELS = [f"crosstally.kernels.{name}" for name in ("helmert", "joint", "raking", "shrinkage")]
_PRELOADED = ["crosstally.browser.explorer.solver", "pyarrow.parquet", "pandas", *_KERNELS]
"""Imported once, by the process that all others are forked from: they start sooner, and share its memory."""


class EndedError(Exception):
    """The work was ended: it took too long, took too much memory, or the server ends."""


class UnforeseenError(Exception):
    """An error that no user caused: where it was stands in the log, its text nowhere."""


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
