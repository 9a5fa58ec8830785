"""What the first use after an installation has to say: why it takes so long."""

from __future__ import annotations

import logging
import sys

__all__ = ["tell_of_compiling"]


class _Line(logging.Handler):
    """A line on stderr, as it is when something is to be said: a test or a progress bar may have put another there."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"crosstally: {record.getMessage()}\n")


def tell_of_compiling() -> None:
    """Show what the kernels' log says. The log is found by name: importing the kernels would load numba."""
    log = logging.getLogger("crosstally.kernels")
    if not log.handlers:
        log.addHandler(_Line())
        log.setLevel(logging.INFO)
