"""Connections: half a request, an answer that nobody takes, and too many of them."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from crosstally.browser.common import site_server as connections
from crosstally.browser.common.site import Message, Receive, Send
from crosstally.browser.common.site_server import listen, server

LARGE = 50_000_000  # bytes: more than the system keeps for a client that takes nothing
HALF = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


@contextmanager
def running() -> Iterator[int]:
    """A server in a thread: a short answer, at /large a long one; the port that it listens on."""

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        body = bytes(LARGE if scope["path"] == "/large" else 2)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for start in range(0, len(body), 1_000_000):
            more = start + 1_000_000 < len(body)
            await send({"type": "http.response.body", "body": body[start : start + 1_000_000], "more_body": more})

    with listen("127.0.0.1", 0) as opened:
        serves = server(app)
        thread = threading.Thread(target=serves.run, kwargs={"sockets": [opened]})
        thread.start()
        while not serves.started:
            time.sleep(0.01)
        try:
            yield opened.getsockname()[1]
        finally:
            serves.should_exit = True
            thread.join(10)


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=5)


def rest(client: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    out = b""
    try:
        while piece := client.recv(1_000_000):
            out += piece
    except ConnectionResetError:
        pass
    return out


@pytest.mark.parametrize("sent", [b"", HALF, HALF + b"Content-Length: 9\r\n\r\nabc", HALF + b"\r\n" + HALF])
def test_a_request_must_come_whole(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    """The last one sends half a request behind a whole one, which is answered."""
    monkeypatch.setattr(connections, "SECONDS", 0.2)
    with running() as port, connected(port) as client:
        begun = time.monotonic()
        client.sendall(sent)
        found = rest(client)
        assert (found.count(b"HTTP/1.1 200"), time.monotonic() - begun < 3) == (int(b"\r\n\r\n" in sent), True)


def test_an_answer_must_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SECONDS", 0.2)
    with running() as port, connected(port) as client:
        client.sendall(HALF.replace(b"/ ", b"/large ") + b"\r\n")
        time.sleep(1)
        assert len(rest(client)) < LARGE


def test_who_takes_an_answer_slowly_gets_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SECONDS", 0.5)
    with running() as port, connected(port) as client:
        client.sendall(HALF.replace(b"/ ", b"/large ") + b"Connection: close\r\n\r\n")
        time.sleep(0.2)
        assert len(rest(client)) > LARGE


def test_of_too_many_the_one_that_waited_longest_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 3)
    with running() as port, ExitStack() as opened:
        clients = []
        for _ in range(5):
            clients.append(opened.enter_context(connected(port)))
            clients[-1].sendall(HALF)
            time.sleep(0.05)
        assert [rest(client) for client in clients[:2]] == [b"", b""]
        for client in clients[2:]:
            client.sendall(b"Connection: close\r\n\r\n")
            assert rest(client).startswith(b"HTTP/1.1 200")
