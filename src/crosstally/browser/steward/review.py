"""A review in progress: the schema as it is being changed, what it was before, and the file it is saved to.

Who may look at a review: one person, let in once by a code that only their own file holds.

The code is in no address: the form of a local file, which only its owner can read, posts it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from hmac import compare_digest
from html import escape
from pathlib import Path

from crosstally.browser.common.site import texts_of
from crosstally.errors import CrosstallyError, SchemaError
from crosstally.platform_files import write_bytes, write_text
from crosstally.schema import RowReading, Schema
from crosstally.sources.inspection import Distribution, Distributions
from crosstally.strategies.planner import DEFAULT, Proposal, compare
from crosstally.strategies.verdicts import ExpectedError

_MOST_KEPT = 64  # outlooks that are not computed again
_WIDE_FROM = 31
"""Attributes from which on a plan for all pairs takes seconds: it is then made when asked for, not at every edit."""
_WIDE = "this many attributes take a while to plan: press Predict to do it for the schema as it stands, or name tables"
_MOST_UNDONE = 200  # steps that can be undone: limits memory; each keeps a schema


def previous_of(path: Path) -> Path:
    """Where the file stays that a save replaced."""
    return path.with_name(f"{path.name}.previous")


Outlook = tuple[tuple[ExpectedError, ...], str]
"""The error to expect of the tables that matter, or why there is none."""


class Review:
    """One schema under review. Every change makes a new schema; those before are kept, to be taken back.

    Args:
        path: The steward's file, which is only written by ``save``.
        distributions: What was counted in the rows.
        wanted: What the release is to be.
    """

    def __init__(self, path: Path, distributions: Distributions, wanted: Proposal) -> None:
        self.path, self.distributions, self.wanted = path.resolve(), distributions, wanted
        self._digest = _digest(path)
        self.schema = self.opened = Schema.load(path)
        self.version = 0
        self._before: list[Schema] = []
        self._distributions: dict[str, tuple[str, Distribution | None]] = {}
        self._asked = -1  # the version for which a prediction was asked for
        self._outlooks: dict[str, Outlook] = {}

    @property
    def changed(self) -> bool:
        """Whether there is something to save."""
        return self.schema.file_text() != self.opened.file_text()

    @property
    def can_undo(self) -> bool:
        """Whether a change can be taken back."""
        return bool(self._before)

    def change(self, edit: Callable[[Schema], Schema]) -> None:
        """Change the schema; raises ``SchemaError`` and changes nothing where the edit cannot be made."""
        changed = edit(self.schema)
        if changed.file_text() == self.schema.file_text():
            raise SchemaError("this changes nothing")
        self._before = [*self._before, self.schema][-_MOST_UNDONE:]
        self.schema = changed
        self.version += 1

    def undo(self) -> None:
        """Take the last change back."""
        if self._before:
            *self._before, self.schema = self._before
            self.version += 1

    def want(self, wanted: Proposal) -> None:
        """Plan for something else, or for the same with a wide schema as it stands now."""
        self.wanted, self._asked = wanted, self.version

    def save(self) -> None:
        """Write the file, whole or not at all; the one that was there stays beside it.

        Raises where it is not the file that was read: somebody else has changed it since.
        """
        try:
            before = self.path.read_bytes()
        except OSError:
            before = b""
        if hashlib.sha256(before).hexdigest() != self._digest:
            raise CrosstallyError(
                f"{self.path.name} has changed on disk since it was read here, and was left as it is; "
                "look at it, then begin the review again"
            )
        try:
            write_bytes(previous_of(self.path), before, private=True)
            write_text(self.path, self.schema.file_text(), private=True)
        except OSError as error:
            raise CrosstallyError(f"cannot write {self.path.name}: {error.strerror}") from None
        self._digest = _digest(self.path)
        self.opened = self.schema

    # What is shown of it

    @property
    def is_wide(self) -> bool:
        """Whether a plan takes too long to be made at every edit."""
        return len(self.schema.names) >= _WIDE_FROM and not self.wanted.tables and self.wanted.ways != 1

    def distribution(self, name: str) -> Distribution | None:
        """The rows of each cell of an attribute as it stands; None where they are not counted."""
        key = _key(self.schema, name)
        if self._distributions.get(name, ("",))[0] != key:
            self._distributions[name] = key, self.distributions.of(self.schema, name)
        return self._distributions[name][1]

    def outlook(self, schema: Schema) -> Outlook:
        """The error to expect of the tables that matter, from a schema. Free."""
        key = json.dumps([schema.identity(), str(self.wanted)])
        if key not in self._outlooks:
            if self.is_wide and self._asked != self.version:
                return (), _WIDE
            while len(self._outlooks) >= _MOST_KEPT:
                del self._outlooks[next(iter(self._outlooks))]
            self._outlooks[key] = _outlook(schema, self.wanted, self.distributions.rows)
        return self._outlooks[key]


def _outlook(schema: Schema, wanted: Proposal, rows: int) -> Outlook:
    try:
        return compare(schema.public(), replace(wanted, rows=rows), strategies=DEFAULT).expected, ""
    except CrosstallyError as error:
        return (), str(error)


def _key(schema: Schema, name: str) -> str:
    """What the cells of an attribute's column depend on."""
    reading = schema.reading if isinstance(schema.reading, RowReading) else RowReading()
    own = {name: reading.columns[name]} if name in reading.columns else {}
    return json.dumps([schema[name].to_dict(), replace(reading, columns=own).to_dict()])


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise SchemaError(f"cannot read the schema {str(path)!r}: {error.strerror}") from None


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
