"""What tests share: schemas of given sizes, whose names and labels say nothing, a database server, and Spark."""

import signal
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from crosstally.schema import Attribute, Outside, Schema, Unit
from postgres_server import postgres
from spark_session import spark_session

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as where a shell started the tests in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # some tests, and what they start, are interrupted


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server, started when a test first asks for it."""
    with postgres() as url:
        yield url


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A Spark session, started when a test first asks for it."""
    with spark_session() as session:
        yield session


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """How many threads count and draw, whatever the machine has."""
    before = pa.cpu_count()
    pa.set_cpu_count(request.param)
    yield request.param
    pa.set_cpu_count(before)


def schema_of(
    *sizes: int, names: Sequence[str] | None = None, unit: Unit | None = None, outside: Outside = Outside.REFUSE
) -> Schema:
    """Attributes of these sizes, called a0, a1, ... or by the first of some names; their labels are 0, 1, ..."""
    called = [f"a{i}" for i in range(len(sizes))] if names is None else names[: len(sizes)]
    pairs = zip(called, sizes, strict=True)
    return Schema([Attribute(name, [str(v) for v in range(n)], outside=outside) for name, n in pairs], unit)
