"""Attempts to take ``crosstally serve`` away from others, on loopback: each is bounded, and stops by itself."""

import json
import resource
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path

import pytest

import released
from crosstally.budget import Budget
from crosstally.query.queries import Cells
from crosstally.releases import publish
from crosstally.schema import Attribute, Schema
from web_clients import asked, children, is_running, started

NAMES = tuple(f"q{number:02}" for number in range(16))
HALF_SENT = 1_100  # more connections than a process may have files open on most systems


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of sixteen questions whose pairs were measured: all larger tables are modelled."""
    schema = Schema([Attribute(name, ["no", "yes"]) for name in NAMES])
    found = tmp_path_factory.mktemp("attacked") / "people.release.parquet"
    tables = [released.noisy(schema, Cells(pair), seed=i) for i, pair in enumerate(combinations(NAMES, 2))]
    publish(schema, tables, released.statement(budget=Budget(epsilon=16))).save(found)  # 120 tables, scale 7.5
    return found


@pytest.fixture(scope="module")
def site(path: Path) -> Iterator[str]:
    with started(path) as (process, address):
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (1_024, 1_024))
        assert asked(f"{address}table?rows=q00")[0] == 200
        yield address


def table(*names: str) -> str:
    return "api/v2/tables/people/data?outputFormat=csv&" + "&".join(f"valueCodes[{name}]=*" for name in names)


def test_a_cube_asked_twice_is_refused_and_keeps_no_table_waiting(site: str) -> None:
    """Eleven attributes come to 2,048 groupings and 177,147 groups, which took 29 CPU seconds and 1.1 GB."""
    keys, cubes = ",".join(NAMES[:11]), []

    def ask(last: int) -> None:
        statement = f"SELECT {keys}, count(*) FROM people GROUP BY CUBE({keys}) ORDER BY {last}"
        cubes.append(asked(f"{site}api/v2/sql?statement={statement.replace(' ', '+')}"))

    threads = [threading.Thread(target=ask, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    tables = [asked(site + table(*pair))[0] for pair in combinations(NAMES[:6], 2)]
    for thread in threads:
        thread.join()
    assert set(tables) == {200}
    for status, body in cubes:
        problem = json.loads(body)
        assert (status, problem["status"], problem["title"]) == (413, 413, "Request Entity Too Large")
        assert problem["cost"] > 5_000_000
        assert f"this question costs {problem['cost']:,}, at most 5,000,000 is answered" in problem["detail"]


def test_half_sent_requests_keep_nobody_out(site: str) -> None:
    host, port = site.removeprefix("http://").rstrip("/").split(":")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4_096), hard))
    try:
        with ExitStack() as opened:
            for _ in range(HALF_SENT):
                each = opened.enter_context(socket.create_connection((host, int(port)), timeout=20))
                each.sendall(b"GET /table HTTP/1.1\r\nHost: localhost\r\n")
            begun = time.monotonic()
            answers = [asked(site + table(*pair), timeout=5)[0] for pair in combinations(NAMES[6:9], 2)]
            assert (set(answers), time.monotonic() - begun < 5) == ({200}, True)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_it_ends_within_seconds_whatever_is_computed(path: Path) -> None:
    with started(path) as (process, address):
        assert asked(f"{address}table?rows=q00")[0] == 200
        answers: list[int] = []
        heavy = threading.Thread(target=lambda: answers.append(asked(address + table(*NAMES))[0]))
        heavy.start()
        time.sleep(1.5)
        assert answers == []  # it is being computed
        family = children(process.pid)
        assert len(family) >= 3
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM
        while any(map(is_running, family)) and time.monotonic() - begun < 5:
            time.sleep(0.05)
        assert [each for each in family if is_running(each)] == []
        assert time.monotonic() - begun < 5
        heavy.join()
    assert answers == [503]
