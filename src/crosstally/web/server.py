"""Listening and serving, with uvicorn."""

from __future__ import annotations

import socket
from collections.abc import Iterable

import uvicorn

from crosstally.errors import CrosstallyError
from crosstally.web.app import create_app
from crosstally.web.served import Served

__all__ = ["listen", "run", "server"]

_WAITING = 200
"""Connections that wait to be taken up."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; raises where the port is taken."""
    if not 0 <= port <= 65_535:
        raise CrosstallyError(f"--port must be from 0 to 65,535, got {port}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
        opened.listen(_WAITING)
    except OSError as error:
        opened.close()
        raise CrosstallyError(f"cannot listen on {host} port {port}: {error.strerror}; name another --port") from None
    return opened


def server(served: Served, *, hosts: Iterable[str] = ()) -> uvicorn.Server:
    """A server that is not running yet."""
    config = uvicorn.Config(
        create_app(served, hosts=hosts),
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
        lifespan="off",
    )
    return uvicorn.Server(config)


def run(served: Served, opened: socket.socket, *, hosts: Iterable[str] = ()) -> None:
    """Serve until somebody ends it."""
    try:
        server(served, hosts=hosts).run(sockets=[opened])
    finally:
        served.solver.close()
