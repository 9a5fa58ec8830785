"""No core dumps: a command that crashes while it holds rows must not leave them on the disk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

__all__ = ["no_core_dumps"]


@contextlib.contextmanager
def no_core_dumps() -> Iterator[None]:
    """While a command runs, the system writes no core file of this process or of those that it starts.

    Where cores are handed to a program (``kernel.core_pattern`` begins with ``|``), the limit of 0 is passed to it, and
    those of systemd and Ubuntu keep to it; the threat model says so. Windows has no such limit.
    """
    try:
        import resource
    except ImportError:  # Windows
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
