"""The server of every site, which keeps no log of requests, and its connections, which hold nothing up.

A request must come whole, and its answer be taken, in a limited time. Without this, clients that send half a request
each and wait take every descriptor that the process may open.
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
"""Connections at once: more than requests, and well below the 1,024 files that a process may open on most systems."""

SECONDS = 10.0
"""The longest time until a request has come whole, and for which a client may take nothing of its answer."""

_AT_ONCE = 100  # connections that are taken up at once, before the oldest of too many can be closed
_QUEUE = 1_000  # connections that the system keeps until they are taken up; it makes those beyond wait for seconds
_UNFINISHED = (h11.IDLE, h11.SEND_BODY)


class Connection(H11Protocol):
    """A connection with a clock. Of too many, the one that has been without a whole request for longest is closed."""

    clock: asyncio.TimerHandle | None = None
    stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for it, and wait for its first request."""
        if len(self.connections) >= MOST_CONNECTIONS:
            waiting = [each for each in self.connections if isinstance(each, Connection) and each.is_waiting]
            oldest = min(waiting, key=lambda each: each.since, default=None)
            if oldest is None:  # all of them are being answered
                transport.abort()
            else:
                oldest.drop()
        super().connection_made(transport)
        self.wait()

    @property
    def is_waiting(self) -> bool:
        """Whether it has sent no whole request that is still to be answered."""
        return self.conn.their_state in _UNFINISHED

    @property
    def since(self) -> float:
        """When its time is over: who came first is first."""
        return 0.0 if self.clock is None else self.clock.when()

    def wait(self) -> None:
        """Give it time for a whole request."""
        self.forget()
        self.clock = self.loop.call_later(SECONDS, self.look)

    def look(self) -> None:
        """Close it if its request is not there."""
        if self.is_waiting:
            self.drop()

    def drop(self) -> None:
        """Close it at once."""
        self.connections.discard(self)  # what is closed makes room before the loop says so
        self.transport.abort()

    def forget(self) -> None:
        """Stop the clocks."""
        for each in (self.clock, self.stalled):
            if each is not None:
                each.cancel()
        self.clock = self.stalled = None

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.wait()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more comes."""
        self.forget()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client takes nothing: it has some time to go on."""
        super().pause_writing()
        self.stalled = self.loop.call_later(SECONDS, self.drop)

    def resume_writing(self) -> None:
        """The client goes on."""
        super().resume_writing()
        if self.stalled is not None:
            self.stalled.cancel()
            self.stalled = None


class Server(uvicorn.Server):
    """A server that first ends what its answers wait for, and then itself.

    Args:
        config: That of the server.
        ending: Called once when it is to end: whoever waits is answered then, so that no connection holds it up.
    """

    def __init__(self, config: uvicorn.Config, ending: Callable[[], None]) -> None:
        super().__init__(config)
        self.ending = ending

    async def startup(self, sockets: list[Any] | None = None) -> None:
        """Begin, with a thread for each request that may be there: those that wait keep none from others."""
        anyio.to_thread.current_default_thread_limiter().total_tokens = MOST_REQUESTS
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(_QUEUE)

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        """End."""
        self.ending()
        await super().shutdown(sockets)


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


def server(app: Any, *, ending: Callable[[], None] = lambda: None) -> Server:
    """A server of an application that is not running yet; ``ending`` is called before it waits for answers."""
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
