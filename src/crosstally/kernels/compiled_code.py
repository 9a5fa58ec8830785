"""Where compiled kernels are kept: beside their sources or in the user's cache, else in a private temporary folder.

Compiled code is loaded and run, so whoever can write to that folder can run anything in our name.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import atexit
import shutil
import tempfile
import warnings
from pathlib import Path

import numba

from crosstally.errors import CrosstallyError
from crosstally.platform_files import entries_are_safe, is_ours_alone, make_private_folder, user_number


def find_place() -> None:
    """Let numba keep compiled code in a private temporary folder if it finds no place of its own.

    That is so in a read-only tree without a home. A folder named by NUMBA_CACHE_DIR is numba's own business.
    """
    if _has_place():
        return
    numba.config.CACHE_DIR = str(private_folder())
    if not _has_place():
        raise CrosstallyError(
            "compiled code can be kept nowhere: neither beside crosstally, nor in the home, nor in a temporary folder; "
            "name a folder that only you can write to in NUMBA_CACHE_DIR"
        )


def _has_place() -> bool:
    """Whether numba can keep code of this folder: it looks for a place when a function is decorated."""
    try:
        numba.njit(cache=True)(_nothing)
    except RuntimeError:  # "cannot cache function ...: no locator available"
        return False
    return True


def _nothing() -> None:
    """Stand for a kernel; never called."""


def private_folder() -> Path:
    """A folder that is ours alone: the one of this user, or a fresh one for this process where that is not ours.

    Anyone can plant the former beforehand: as a link, or open to others.
    """
    try:
        parent = Path(tempfile.gettempdir())
        if not entries_are_safe(parent):
            raise CrosstallyError(
                f"others can replace what is in the temporary folder {str(parent)!r}, so no code is kept there; "
                "set TMPDIR to another one, or NUMBA_CACHE_DIR to a folder that only you can write to"
            )
        folder = parent / f"crosstally-{user_number()}"
        make_private_folder(folder)
    except FileExistsError:
        pass  # a file, or a link to nowhere
    except OSError:
        raise CrosstallyError(
            "there is no temporary folder to keep compiled code in; name a folder that only you can write to in "
            "NUMBA_CACHE_DIR"
        ) from None
    if is_ours_alone(folder):
        return folder
    warnings.warn(
        f"{str(folder)!r} is not a private folder of ours: compiled code is kept for this process only, and compiled "
        "again each time; remove it",
        stacklevel=2,
    )
    fresh = Path(tempfile.mkdtemp(prefix="crosstally-"))
    atexit.register(shutil.rmtree, fresh, ignore_errors=True)
    return fresh
