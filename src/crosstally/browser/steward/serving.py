"""A review from the first click to its end: the server, the file that lets in, and the clock that closes it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crosstally.browser.common.site import server
from crosstally.browser.steward.entrance import write_entrance
from crosstally.browser.steward.review import Review
from crosstally.browser.steward.review_pages import create_app
from crosstally.browser.steward.session import Session

__all__ = ["serve"]

_LOOK_SECONDS = 1.0  # between two looks at the clock


def serve(review: Review, opened: socket.socket, show: Callable[[Path], None], session: Session | None = None) -> None:
    """Serve a review until it is ended, or nobody did anything for half an hour.

    Args:
        review: The schema and what was counted.
        opened: A socket that listens on loopback.
        show: Called with the file that lets in, once the server can be reached.
        session: Who is let in; a new one as a rule.
    """
    session = session or Session()
    address = f"http://127.0.0.1:{opened.getsockname()[1]}"
    over = threading.Event()
    running = server(create_app(review, session, address=address, ended=over.set))
    entrance = write_entrance(review.path.parent, address, session.code)
    watch = threading.Thread(target=_watch, args=(session, running, entrance, over), daemon=True)
    try:
        watch.start()
        show(entrance)  # the socket listens already: what comes before the server runs waits for it
        running.run(sockets=[opened])
    finally:
        session.close()
        over.set()
        entrance.unlink(missing_ok=True)


def _watch(session: Session, running: Any, entrance: Path, over: threading.Event) -> None:
    """Take the file away once it was used, and end the server when the review is over."""
    while not (over.wait(_LOOK_SECONDS) or session.ended):
        if session.entered:
            entrance.unlink(missing_ok=True)
    running.should_exit = True
