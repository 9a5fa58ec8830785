"""Clients of the explorer, for tests: releases of several kinds behind it, without a socket."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any

from starlette.testclient import TestClient

import released
from crosstally.browser.explorer.app import create_app
from crosstally.browser.explorer.served import Served
from crosstally.browser.explorer.solver import PLACES, BusyError, Solver
from crosstally.query.queries import Cells
from crosstally.releases import Release, publish
from crosstally.schema import Attribute, Schema

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"'><svg/onload=alert(1)>",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "=HYPERLINK(1)",
    "\u202egnp.exe",
    "</title></text><a href='http://evil.example'>x</a>",
    "', alert(1), '",
    "a\nb & c",
]


def serving(release: Release, **options: Any) -> Served:
    """What is served; where the time for an answer is not what a test is about, a busy machine has plenty of it."""
    patient = Solver(seconds=300)
    given = {"name": "people", "file": "people.release.parquet", "digest": "0" * 64, "solver": patient, **options}
    return Served(release, **given)


def client_of(served: Served, *, hosts: tuple[str, ...] = (), page: bool = False) -> TestClient:
    headers = {"accept": "text/html"} if page else {}
    return TestClient(create_app(served, hosts=hosts), base_url="http://localhost", headers=headers)


def measured(schema: Schema, tables: list[tuple[str, ...]]) -> Release:
    measurements = [released.noisy(schema, Cells(names), seed=i) for i, names in enumerate(tables)]
    return publish(schema, measurements, released.statement())


def hostile() -> Release:
    """A release all of whose names and values mean harm."""
    schema = Schema([Attribute("<b>x</b>", HOSTILE), Attribute("'; DROP --", ["=1+1", "-5", "<i>"])])
    return measured(schema, [(), schema.names])


def wide(attributes: int = 200) -> Release:
    """A release of many attributes, each of three values."""
    schema = Schema([Attribute(f"question {i:03}", ["yes", "no", "no answer"]) for i in range(attributes)])
    return measured(schema, [(), *((name,) for name in schema.names)])


def large() -> Release:
    """A release whose tables pass the limits: 800 times 700 cells, and ten times as many with the third attribute."""
    schema = Schema(
        [Attribute(name, [f"{name}{i}" for i in range(size)]) for name, size in (("a", 800), ("b", 700), ("c", 10))]
    )
    return measured(schema, [(), ("a",), ("b",), ("c",)]).refit(nonnegative="none")


def busy(release: Release) -> Served:
    """One that has no time for small tables: those who do them wait."""
    solver = Solver(seconds=0.02)
    for own in range(PLACES["tables"]):
        with suppress(BusyError):
            solver.run(("waits", own), lambda: Event().wait(2), lambda _: 0)
    return serving(release, solver=solver)


# A server of its own


@contextmanager
def started(path: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``crosstally serve`` in a process of its own on a free port of loopback, and its address."""
    code = "import sys; from crosstally.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "serve", str(path), "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"}) as process:
        assert process.stderr is not None
        try:
            line = ""
            while "http://" not in line:
                line = process.stderr.readline()
            yield process, next(word for word in line.split() if word.startswith("http://127.0.0.1:"))
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(20)
            finally:
                process.kill()


def asked(address: str, timeout: float = 60) -> tuple[int, bytes]:
    """The status and the body of an answer; status 0 where the server closed the connection."""
    try:
        with urllib.request.urlopen(address, timeout=timeout) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""


def children(process: int) -> list[int]:
    """The processes that a process started, and those that they started."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    family = [process]
    for each in family:
        family += [child for child, parent in parents.items() if parent == each]
    return family[1:]


def is_running(process: int) -> bool:
    """Whether a process is there and not only waits for its parent to look at it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False
