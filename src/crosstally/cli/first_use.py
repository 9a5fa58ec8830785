"""The message that explains why the first use after an installation takes so long."""

from __future__ import annotations

import logging
import sys

__all__ = ["tell_of_compiling"]


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
