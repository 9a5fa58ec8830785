"""Solve small systems of equations on one thread: BLAS would divide every step among threads that wait for each other.

Sixty questions of a notebook, each with a fit of some hundred solves of up to 60 unknowns, took several times as long
with eight threads on two cores as with one. Large systems gain from threads and keep them.
"""

from __future__ import annotations

import contextlib
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

__all__ = ["on_one_thread"]

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
