"""Clients of the explorer, for tests: releases of several kinds behind it, without a socket."""

from __future__ import annotations

from contextlib import suppress
from threading import Event
from typing import Any

from starlette.testclient import TestClient

import released
from crosstally.questions.queries import Cells
from crosstally.releases import Release, publish
from crosstally.schema import Attribute, Schema
from crosstally.web.app import create_app
from crosstally.web.served import Served
from crosstally.web.solving import BusyError, Solver

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
    """One that has no time for anything: its only thread waits."""
    solver = Solver(workers=1, seconds=0.02)
    with suppress(BusyError):
        solver.run("waits", lambda: Event().wait(2), lambda _: 0)
    return serving(release, solver=solver)
