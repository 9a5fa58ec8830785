"""What all sites share: the files that their pages load, templates that escape, and a server without a log."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from crosstally.errors import CrosstallyError
from crosstally.extras import optional

__all__ = ["NEEDED", "STATIC", "environment", "listen", "server", "static_file"]

NEEDED = ("fastapi", "jinja2", "uvicorn")
"""The packages without which no site can be served; the extra ``web`` has them."""

_FOLDER = Path(__file__).parent / "static"
STATIC: Mapping[str, tuple[Path, str]] = {
    "site.css": (_FOLDER / "site.css", "text/css; charset=utf-8"),
    "icon.svg": (_FOLDER / "icon.svg", "image/svg+xml"),
}
"""The files that every page loads, by name, each with its media type: no other path leads to a file."""

_AT_ONCE = 100
"""Connections that are taken up at once, before the oldest of too many can be closed."""


def static_file(name: str, files: Mapping[str, tuple[Path, str]]) -> tuple[bytes, str] | None:
    """One of the few files that pages load, and its media type; None where there is none of this name."""
    if name not in files:
        return None
    path, media_type = files[name]
    return path.read_bytes(), media_type


def environment(templates: Path, text: Callable[..., str]) -> Any:
    """Templates that escape what they show; a name that is missing is an error."""
    jinja = optional("jinja2", extra="web")
    made = jinja.Environment(
        loader=jinja.FileSystemLoader(templates),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["t"] = text
    return made


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; raises where the port is taken."""
    if not 0 <= port <= 65_535:
        raise CrosstallyError(f"--port must be from 0 to 65,535, got {port}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
        opened.listen(_AT_ONCE)
    except OSError as error:
        opened.close()
        raise CrosstallyError(f"cannot listen on {host} port {port}: {error.strerror}; name another --port") from None
    return opened


def server(app: Any, *, ending: Callable[[], None] = lambda: None) -> Any:
    """A server of an application that is not running yet: a ``uvicorn.Server``. It keeps no log of requests.

    Args:
        app: The application.
        ending: Called when the server is to end, before it waits for answers.
    """
    uvicorn = optional("uvicorn", extra="web")
    from crosstally.browser.common.site_server import Connection, Server

    config = uvicorn.Config(
        app,
        http=Connection,
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        backlog=_AT_ONCE,
        timeout_graceful_shutdown=2,
        lifespan="off",
    )
    return Server(config, ending)
