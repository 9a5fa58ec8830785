"""The error of a command that ran correctly and whose check failed."""

from __future__ import annotations

from crosstally.errors import CrosstallyError

__all__ = ["CheckFailedError"]


class CheckFailedError(CrosstallyError):
    """A check that the user asked for has failed: one line, exit code 1."""
