"""Pages of the explorer on a warm server, without a socket, beside the same tables in process; the page to hand on."""

from __future__ import annotations

import asyncio
import io
import statistics
from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any
from urllib.parse import urlencode

import numpy as np

import crosstally as ct
from benchmarks.shapes import sized
from benchmarks.timing import row, timed
from crosstally.browser.explorer.app import create_app
from crosstally.browser.explorer.release_page import release_page
from crosstally.browser.explorer.served import Served
from crosstally_lab.generate.classes import hidden_classes
from crosstally_lab.papers.icde13.experiment import adult

PAIRS = 20
"""Pairs of Adult, each asked once: the median counts."""
WIDE = 41
"""Attributes of the page to hand on, of 2 to 11 values each; generated."""
MOST_SECONDS, MOST_BYTES = 20.0, 5_000_000
"""What that page may cost: CPU time and size. Chosen."""


def run() -> list[dict[str, Any]]:
    """What an explorer's pages cost, and a page to hand on."""
    return [*_explorer(), *_page()]


def _page() -> list[dict[str, Any]]:
    """The page of a release with many attributes: its size, and its time beside the most that it may be."""
    random = np.random.default_rng(41)
    sizes = random.integers(2, 12, WIDE).tolist()
    rows, schema = hidden_classes(sized(sizes), 50_000, random)
    release = ct.release(rows, schema, epsilon=1)
    seconds, page = timed(lambda: release_page(release))
    number = len(page.encode())
    assert number <= MOST_BYTES, number
    return [
        row(f"page of {WIDE} attributes, {number:,} bytes, beside {MOST_SECONDS:.0f} s", seconds, MOST_SECONDS, 1.0)
    ]


def _explorer() -> list[dict[str, Any]]:
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

    def in_process(first: str, second: str) -> None:
        release.marginal(first, second).plot().save(io.StringIO(), format="svg")

    for path in ("/table", "/chart.svg"):  # warm: replicates, templates, fonts
        get(path, *pairs[0])
    in_process(*pairs[0])
    tables, pages, charts, alone = [], [], [], []
    for pair in pairs[1 : PAIRS + 1]:
        alone.append(timed(partial(in_process, *pair))[0])
        tables.append(timed(lambda: release.marginal(*pair).interval())[0])  # noqa: B023 (called at once)
        pages.append(timed(partial(get, "/table", *pair))[0])
        charts.append(timed(partial(get, "/chart.svg", *pair))[0])
    table, page, chart, own = map(statistics.median, (tables, pages, charts, alone))
    return [
        row("page of a pair of Adult, warm, beside marginal and intervals", page, table, 5.0),
        row("the same with its chart, beside marginal and its chart in process", page + chart, own, 5.0),
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
