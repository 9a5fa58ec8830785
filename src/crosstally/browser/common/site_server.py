"""The server of every site: it logs no requests and limits how long a connection may take.

A request must arrive completely, and its response must be read, within a time limit. Otherwise clients that send half a
request and wait would use up all file descriptors of the process.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import anyio.to_thread
import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from crosstally.browser.common.site import MOST_REQUESTS
from crosstally.errors import CrosstallyError

MOST_CONNECTIONS = 400
"""Concurrent connections: more than requests, and well below the usual limit of 1,024 open files."""

SECONDS = 10.0
"""The time limit for a complete request, and for a client that reads nothing of its response."""

_AT_ONCE = 100  # connections accepted at once, before the oldest of too many can be closed
_QUEUE = 1_000  # connections that the system queues; further ones wait for seconds
_UNFINISHED = (h11.IDLE, h11.SEND_BODY)


class Connection(H11Protocol):
    """A connection with a timeout. If there are too many, the one that has waited longest for a request is closed."""

    clock: asyncio.TimerHandle | None = None
    stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for it, and wait for its first request."""
        if len(self.connections) >= MOST_CONNECTIONS:
            waiting = [each for each in self.connections if isinstance(each, Connection) and each.is_waiting]
            oldest = min(waiting, key=lambda each: each.since, default=None)
            if oldest is None:  # all have a request in progress
                transport.abort()
            else:
                oldest.drop()
        super().connection_made(transport)
        self.wait()

    @property
    def is_waiting(self) -> bool:
        """Whether no complete request is waiting for its response."""
        return self.conn.their_state in _UNFINISHED

    @property
    def since(self) -> float:
        """The deadline; the earliest connection has the earliest one."""
        return 0.0 if self.clock is None else self.clock.when()

    def wait(self) -> None:
        """Start the timeout for a complete request."""
        self.forget()
        self.clock = self.loop.call_later(SECONDS, self.look)

    def look(self) -> None:
        """Close it if no complete request has arrived."""
        if self.is_waiting:
            self.drop()

    def drop(self) -> None:
        """Close it at once."""
        self.connections.discard(self)  # a closed connection frees its slot before the event loop reports it
        self.transport.abort()

    def forget(self) -> None:
        """Stop the timers."""
        for each in (self.clock, self.stalled):
            if each is not None:
                each.cancel()
        self.clock = self.stalled = None

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.wait()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client sends no more."""
        self.forget()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client reads nothing: start its timeout."""
        super().pause_writing()
        self.stalled = self.loop.call_later(SECONDS, self.drop)

    def resume_writing(self) -> None:
        """The client reads again: stop its timeout."""
        super().resume_writing()
        if self.stalled is not None:
            self.stalled.cancel()
            self.stalled = None


class Server(uvicorn.Server):
    """A server that first ends pending computations and then shuts down.

    Args:
        config: The server's configuration.
        ending: Called once at shutdown: it must answer waiting clients, so that no connection delays the shutdown.
    """

    def __init__(self, config: uvicorn.Config, ending: Callable[[], None]) -> None:
        super().__init__(config)
        self.ending = ending

    async def startup(self, sockets: list[Any] | None = None) -> None:
        """Start, with a thread for each allowed request, so that waiting requests do not block others."""
        anyio.to_thread.current_default_thread_limiter().total_tokens = MOST_REQUESTS
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(_QUEUE)

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        """Shut down."""
        self.ending()
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; raises if the port is in use."""
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


def server(app: Any, *, ending: Callable[[], None] = lambda: None) -> Server:
    """A server of an application, not yet started; ``ending`` is called before it waits for pending responses."""
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
