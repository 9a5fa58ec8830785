"""Who may look at a review: one person, let in once by a code that only their own file holds.

The code is in no address: the form of a local file, which only its owner can read, posts it.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Callable
from hmac import compare_digest
from html import escape
from pathlib import Path

from crosstally.browser.common.site import texts_of
from crosstally.errors import CrosstallyError
from crosstally.platform_files import write_text

__all__ = ["COOKIE", "IDLE_SECONDS", "Session", "write_entrance"]

COOKIE = "crosstally-review"
IDLE_SECONDS = 30 * 60.0
"""A page that is left open is closed to everybody after half an hour."""

_SCRIPT = "document.forms[0].submit()"
_PAGE = """<!doctype html>
<html lang="{language}">
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<form method="post" action="{address}/enter">
<input type="hidden" name="code" value="{code}">
<button>{title}</button>
</form>
<script>{script}</script>
</html>
"""

text = texts_of("review")


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


def write_entrance(folder: Path, address: str, code: str) -> Path:
    """Write the file; whoever opens it in a browser on this machine is let in, once.

    Args:
        folder: Where to: the folder of the schema, since not every browser may read temporary folders.
        address: Of the server, such as http://127.0.0.1:8123.
        code: What lets in.
    """
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    page = _PAGE.format(
        language=text("language"),
        title=escape(text("enter.title")),
        policy=f"default-src 'none'; script-src 'sha256-{digest}'; form-action {escape(address)}",
        address=escape(address),
        code=escape(code),
        script=_SCRIPT,
    )
    path = folder / f"crosstally-review-{secrets.token_hex(8)}.html"
    try:
        write_text(path, page, private=True)
    except OSError as error:
        raise CrosstallyError(f"cannot write into the folder {str(folder)!r}: {error.strerror}") from None
    return path
