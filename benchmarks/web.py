"""Pages of the explorer on a warm server, without a socket, beside the same tables in process."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any
from urllib.parse import urlencode

import crosstally as ct
from benchmarks.timing import row
from crosstally.papers.icde13.experiment import adult
from crosstally.web.app import create_app
from crosstally.web.served import Served

PAIRS = 20
"""Pairs of Adult, each asked once: the median counts."""


def run() -> list[dict[str, Any]]:
    """A page of a pair that nobody asked for yet, and the same with its chart."""
    people = adult(None)
    release = ct.release(people.table, people.schema, epsilon=1)
    app = create_app(Served(release, name="adult", file="adult.release.parquet", digest="0" * 64))
    loop = asyncio.new_event_loop()

    def get(path: str, first: str, second: str) -> None:
        query = urlencode({"rows": first, "columns": second})
        status = loop.run_until_complete(_answered(app, path, query))
        assert status == 200, (path, query, status)

    pairs = list(combinations(release.schema.names, 2))
    for path in ("/table", "/chart.svg"):  # warm: replicates, templates, fonts
        get(path, *pairs[0])
    tables, pages, charts = [], [], []
    for pair in pairs[1 : PAIRS + 1]:
        tables.append(_seconds(lambda: release.marginal(*pair).interval()))  # noqa: B023 (called at once)
        pages.append(_seconds(partial(get, "/table", *pair)))
        charts.append(_seconds(partial(get, "/chart.svg", *pair)))
    table, page, chart = map(statistics.median, (tables, pages, charts))
    return [
        row("page of a pair of Adult, warm, beside marginal and intervals", page, table, 5.0),
        row("the same with its chart, beside five times that and the chart", page + chart, 5 * table + chart, 1.0),
    ]


async def _answered(app: Callable[..., Any], path: str, query: str) -> int:
    """The status of an answer; its body is read and thrown away."""
    headers = [(b"host", b"localhost"), (b"accept", b"text/html")]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return int(sent[0]["status"])


def _seconds(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before
