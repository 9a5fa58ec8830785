"""Work in threads, one for each core. Results come in the order of the work, whatever the number of threads.

Solve small systems of equations on one thread: BLAS would divide every step among threads that wait for each other.

Sixty questions of a notebook, each with a fit of some hundred solves of up to 60 unknowns, took several times as long
with eight threads on two cores as with one. Large systems gain from threads and keep them.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


# Pieces of work that wait for each thread beside the one it works on. One is enough to keep it busy; more would hold
# more rows in memory. Results do not depend on it.
_WAITING = 1

T = TypeVar("T")
R = TypeVar("R")


def most_threads() -> int:
    """As many as Arrow decodes files with: one for each core that this process may use, or OMP_NUM_THREADS.

    ``pyarrow.set_cpu_count`` changes both.
    """
    return max(1, int(pa.cpu_count()))


def in_order(work: Callable[[T], R], pieces: Iterable[T], *, threads: int | None = None) -> Iterator[R]:
    """What the work makes of each piece, in the order of the pieces.

    The pieces are drawn in the caller's thread while others work on earlier ones. The work must leave the interpreter's
    lock for most of its time, as compiled kernels, numpy and Arrow do. The first piece that fails, in their order, ends
    it with its error; once that is raised no thread works on.

    Args:
        work: A function that may run in several threads at once.
        pieces: Drawn one by one, so that only a few of them are held.
        threads: How many; ``most_threads`` by default. With one everything happens in the caller's thread.
    """
    threads = most_threads() if threads is None else threads
    if threads == 1:
        yield from map(work, pieces)
        return
    underway: deque[Future[R]] = deque()
    pool = ThreadPoolExecutor(threads, "crosstally")
    try:
        for piece in pieces:
            if len(underway) == threads * (1 + _WAITING):
                yield underway.popleft().result()
            underway.append(pool.submit(work, piece))
        while underway:
            yield underway.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


MOST_UNKNOWNS = 1_000
"""Up to here one thread is as fast as two, or faster: a step of a solve takes less than the threads need to meet."""


@cache
def _controller() -> ThreadpoolController:
    """Finds the libraries that are loaded, once: numpy's and SciPy's BLAS are there when the first solve comes."""
    import scipy.linalg  # noqa: F401 - loads its BLAS
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def on_one_thread(unknowns: int) -> contextlib.AbstractContextManager[object]:
    """While a block solves systems of this many unknowns, BLAS has one thread if they are few."""
    if unknowns > MOST_UNKNOWNS:
        return contextlib.nullcontext()
    limited: contextlib.AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return limited
