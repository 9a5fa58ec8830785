"""What a command does to its process and asks of the system: no core files, windows, messages of the first use."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from types import ModuleType

resource: ModuleType | None
try:
    import resource
except ImportError:
    resource = None

__all__ = ["has_window", "no_core_dumps", "tell_of_compiling"]


class _Line(logging.Handler):
    """Write a line to the current ``sys.stderr``: a test or a progress bar may have replaced it since the start."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"crosstally: {record.getMessage()}\n")


def tell_of_compiling() -> None:
    """Show the messages of the kernels' log. The log is found by name: importing the kernels would load numba."""
    log = logging.getLogger("crosstally.kernels")
    if not log.handlers:
        log.addHandler(_Line())
        log.setLevel(logging.INFO)


@contextlib.contextmanager
def no_core_dumps() -> Iterator[None]:
    """While a command runs, the system writes no core file of this process or of those that it starts.

    Where cores are handed to a program (``kernel.core_pattern`` begins with ``|``), the limit of 0 is passed to it, and
    those of systemd and Ubuntu keep to it; the threat model says so. Windows has no such limit.
    """
    if resource is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


def has_window() -> bool:
    """Whether a browser would have a window; without one it would take over the terminal."""
    named = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return named or sys.platform in ("darwin", "win32")
