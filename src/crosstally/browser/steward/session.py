"""Who may look: one person, let in once by a code that only their own file holds, until they are idle for too long."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from hmac import compare_digest

__all__ = ["COOKIE", "IDLE_SECONDS", "Session"]

COOKIE = "crosstally-review"
IDLE_SECONDS = 30 * 60.0
"""A page that is left open is closed to everybody after half an hour."""


class Session:
    """The secrets of one review. None is ever in an address, but for the path.

    All pages are below ``path``, which is random: browsers send a cookie to every port of a host, and so to the server
    of a second user of the machine, but only below its path, which that user does not know.

    Args:
        clock: Seconds, from any moment on.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.code = secrets.token_urlsafe(32)
        self.path = f"/{secrets.token_urlsafe(16)}"
        self.form_token = secrets.token_urlsafe(32)
        self._cookie = ""
        self._entered = self._closed = False
        self._clock, self._last = clock, clock()

    def enter(self, code: str) -> str | None:
        """The cookie for the code, which works once; None for any other."""
        if self.ended or self._entered or not _equal(code, self.code):
            return None
        self._entered, self._last = True, self._clock()
        self._cookie = secrets.token_urlsafe(32)
        return self._cookie

    def knows(self, cookie: str | None) -> bool:
        """Whether a request is of the person who entered; it counts as a sign of life."""
        known = bool(self._cookie) and not self.ended and _equal(cookie or "", self._cookie)
        if known:
            self._last = self._clock()
        return known

    def accepts(self, form_token: str | None) -> bool:
        """Whether a form is one of ours."""
        return _equal(form_token or "", self.form_token)

    @property
    def entered(self) -> bool:
        """Whether the code was used."""
        return self._entered

    def close(self) -> None:
        """Let nobody in any more."""
        self._closed = True

    @property
    def ended(self) -> bool:
        """Whether it was closed, or nobody did anything for too long."""
        return self._closed or self._clock() - self._last >= IDLE_SECONDS


def _equal(given: str, known: str) -> bool:
    """Compare without telling by time where they differ."""
    return compare_digest(given.encode(errors="replace"), known.encode())
