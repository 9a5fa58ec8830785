"""What the pages of every site load: files by name, templates that escape, and texts from one catalogue.

What stands before every request and on every answer: the host is checked, the headers are set, errors get an id.
"""

from __future__ import annotations

import re
import secrets
import sys
import tomllib
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from functools import cache
from pathlib import Path
from typing import Any

from crosstally.checks import optional

_FOLDER = Path(__file__).parent
_NEEDED = ("fastapi", "jinja2", "uvicorn")

STATIC: Mapping[str, tuple[Path, str]] = {
    "site.css": (_FOLDER / "static/site.css", "text/css; charset=utf-8"),
    "icon.svg": (_FOLDER / "static/icon.svg", "image/svg+xml"),
}
"""The files that every page loads, by name, each with its media type: no other path leads to a file."""


def check_installed() -> None:
    """Raise where a package is missing without which no site can be served; the extra ``web`` has them."""
    for module in _NEEDED:
        optional(module, extra="web")


def static_file(name: str, files: Mapping[str, tuple[Path, str]]) -> tuple[bytes, str] | None:
    """One of the few files that pages load, and its media type; None where there is none of this name."""
    if name not in files:
        return None
    path, media_type = files[name]
    return path.read_bytes(), media_type


@cache
def catalogue() -> Mapping[str, Mapping[str, str]]:
    """Every text of all sites, by site and key."""
    return tomllib.loads((_FOLDER / "english.toml").read_text(encoding="utf-8"))


def texts_of(site: str) -> Callable[..., str]:
    """A function from a key to the text of a site, or to one that several sites share, with its names filled in."""

    def text(key: str, **names: object) -> str:
        own = catalogue()[site]
        found = own[key] if key in own else catalogue()["common"][key]
        return found.format(**names) if names else found

    return text


def environment(templates: Path, text: Callable[..., str], *, extra: str = "web") -> Any:
    """Templates that escape what they show; a name that is missing is an error. ``extra`` has what they need."""
    jinja = optional("jinja2", extra=extra)
    made = jinja.Environment(
        loader=jinja.FileSystemLoader(templates),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["t"] = text
    return made


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
"""The browser loads what this server sends, runs its one script and nothing that stands in a page."""

MOST_REQUESTS = 300
"""Requests at once, each in a thread; more are told to come again. Those that may wait for a solve are fewer."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")

_HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
}
_HOST = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
Refusal = Callable[[int, str, Message], App]
"""From a status, an id of the error and the request to an answer."""
Allows = Callable[[Message], bool]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    return host in LOOPBACK or re.fullmatch(r"127(?:\.[0-9]{1,3}){3}", host) is not None


def host_of(scope: Message) -> bytes | None:
    """The host that a request is for, as it is written; None where it names none or several."""
    given = [value for name, value in scope["headers"] if name == b"host"]
    return given[0] if len(given) == 1 else None


def named_hosts(hosts: Iterable[str]) -> Allows:
    """Allows requests for loopback and for these names, on any port."""
    names = frozenset(host.lower() for host in (*LOOPBACK, *hosts))

    def allows(scope: Message) -> bool:
        found = _HOST.fullmatch(host_of(scope) or b"")
        return found is not None and found.group(1).decode("ascii").strip("[]").lower() in names

    return allows


class Guard:
    """Refuses requests for other hosts, which is what a page that rebinds its name to loopback would send.

    Args:
        app: What answers the others.
        allows: Whether a request may be answered, by its headers.
        refuse: Makes the answer to what is refused or went wrong.
        root_path: The path under which a proxy serves it, whether or not the proxy takes it off.
    """

    def __init__(self, app: App, *, allows: Allows, refuse: Refusal, root_path: str = "") -> None:
        self.app, self.allows, self.refuse, self.root_path = app, allows, refuse, root_path
        self.running = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        begun = False

        async def with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = _with_headers(message.get("headers", ()))
            await send(message)

        if not self.allows(scope):
            await self.refuse(400, "host", scope)(scope, receive, with_headers)
            return
        if self.running >= MOST_REQUESTS:
            await self.refuse(503, "busy", scope)(scope, receive, with_headers)
            return
        self.running += 1
        try:
            await self.app(self._below_root(scope), receive, with_headers)
        except Exception as error:  # noqa: BLE001 - what nobody foresaw must end without its text
            own = secrets.token_hex(6)
            log_error(own, error)
            if not begun:
                await self.refuse(500, own, scope)(scope, receive, with_headers)
        finally:
            self.running -= 1

    def _below_root(self, scope: Message) -> Message:
        if self.root_path and f"{scope['path']}/".startswith(f"{self.root_path}/"):
            return {**scope, "path": scope["path"][len(self.root_path) :] or "/"}
        return scope


def _with_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    kept = [(name, value) for name, value in headers if name.lower() not in _HEADERS]
    if not any(name.lower() == b"cache-control" for name, _ in kept):
        kept.append((b"cache-control", b"no-store"))
    return [*kept, *_HEADERS.items()]


def log_error(own: str, error: Exception) -> None:
    """Say where and of which kind, never what."""
    where = "an unknown place"
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = frame.f_globals.get("__name__", "")
        if module.startswith("crosstally."):
            where = f"{module} {frame.f_code.co_name} line {line}"
    sys.stderr.write(f"crosstally: error {own}: {type(error).__name__} in {where}\n")
