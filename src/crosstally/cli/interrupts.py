"""What Ctrl-C does to a command: before the charge the command stops; after the charge it finishes.

The exception that Python raises for an interrupt can be swallowed, by compiled code that calls back into Python. So the
interrupt is also noted, and looked at immediately before the charge. After the charge, stopping would only lose what is
paid for. Python prints an exception that was swallowed with its traceback: here an interrupt is not printed, and of any
other one only its type, since its text may quote rows. None of this is in the library, which leaves the signals and
hooks of its host alone.

What a command does to its process and asks of the system: no core files, windows, messages of the first use.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

from crosstally.platform_files import resource

# What is watched, and what it does where nobody has said otherwise: a shell lets its background commands ignore Ctrl-C.
_USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
_SIGNALLED = 128  # a shell's exit code for a command that a signal ended, less the signal's number
_PAID = b"crosstally: this is paid for already and is being finished\n"


@dataclass(slots=True)
class _Seen:
    """``noted``: an interrupt came; ``charging``: the charge has begun; ``told``: the person was informed of that."""

    noted: int | None = None
    charging: bool = False
    told: bool = False


_seen = _Seen()


@contextlib.contextmanager
def watching() -> Iterator[None]:
    """Note interrupts while one command runs. Python receives signals in the main thread only."""
    _seen.noted, _seen.charging, _seen.told = None, False, False
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {each: signal.getsignal(each) for each, usual in _USUAL.items() if signal.getsignal(each) == usual}
    hook, sys.unraisablehook = sys.unraisablehook, _swallowed
    try:
        for each in before:
            signal.signal(each, _note)
        yield
    finally:
        sys.unraisablehook = hook
        for each, handler in before.items():
            signal.signal(each, handler)


def before_charge() -> None:
    """Stop if there was an interrupt. From here on interrupts are only noted, and later paid stages are finished."""
    # charging is set first: an interrupt that comes between these lines is found by the second
    earlier, _seen.charging = _seen.charging, True
    if _seen.noted is not None and not earlier:
        raise KeyboardInterrupt


def check() -> None:
    """Stop if there was an interrupt, whatever was charged. A command that runs others calls this between them."""
    if _seen.noted is not None:
        raise KeyboardInterrupt


def is_stopped() -> bool:
    """Whether an interrupt came before any charge: compiled code may turn its exception into another one."""
    return _seen.noted is not None and not _seen.charging


def exit_code() -> int:
    """The exit code of a stopped command: the one it would have if the signal had killed it."""
    return _SIGNALLED + (_seen.noted or signal.SIGINT)


def _swallowed(what: sys.UnraisableHookArgs) -> None:
    if not issubclass(what.exc_type, KeyboardInterrupt):
        with contextlib.suppress(OSError):
            os.write(2, f"crosstally: an error was passed over: {what.exc_type.__name__}\n".encode())


def _note(number: int, _: FrameType | None) -> None:
    _seen.noted = _seen.noted or number
    if not _seen.charging:
        raise KeyboardInterrupt
    if not _seen.told:
        _seen.told = True
        with contextlib.suppress(OSError):
            os.write(2, _PAID)  # sys.stderr may be in the middle of a line of its own


# The process


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
