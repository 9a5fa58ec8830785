"""What a command raises when it looked at something sound and found it wanting."""

from __future__ import annotations

from crosstally.errors import CrosstallyError

__all__ = ["CheckFailedError"]


class CheckFailedError(CrosstallyError):
    """A check that the user asked for has failed: one line, exit code 1."""
