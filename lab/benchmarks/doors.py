"""Doors that are not files: a database against its own GROUP BY, Spark against the same kernel in this process.

Servers are those of the tests: PostgreSQL and Spark in local mode, on this machine.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.timing import cpu_seconds, row
from crosstally.schema import Attribute, Schema
from crosstally.sources import count
from crosstally.sources.databases import Database

sys.path.append(str(Path(__file__).parents[2] / "tests"))

DATABASE_ROWS = int(os.environ.get("CROSSTALLY_BENCH_DATABASE_ROWS", "10_000_000"))  # 10,000 of them are different
SPARK_ROWS = int(os.environ.get("CROSSTALLY_BENCH_SPARK_ROWS", "2_000_000"))
REPEATS = 3


def run() -> Iterable[dict[str, Any]]:
    """A line for each door."""
    yield _postgres()
    yield _spark()


def _postgres() -> dict[str, Any]:
    """By the clock: most of the work happens in another process, the same for both."""
    import adbc_driver_postgresql.dbapi as driver

    from postgres_server import postgres

    digits = [str(i) for i in range(10)]
    schema = Schema([Attribute(name, digits) for name in "abcd"])
    tables = [("a", "b"), ("c", "d")]
    with postgres() as url:
        with closing(driver.connect(url)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(
                "CREATE UNLOGGED TABLE people AS SELECT (i % 10)::smallint a, (i / 10 % 10)::smallint b, "
                f"(i / 100 % 10)::text c, (i / 1000 % 10)::text d FROM generate_series(1, {DATABASE_ROWS}) i"
            )
            connection.commit()
            cursor.execute("ANALYZE people")
            connection.commit()

        def grouped() -> None:
            with closing(driver.connect(url)) as connection, closing(connection.cursor()) as cursor:
                cursor.execute("SELECT a, b, c, d, COUNT(*) FROM people GROUP BY a, b, c, d")
                cursor.fetchall()

        source = Database(query="SELECT a, b, c, d FROM people", url=url)
        ours, own = (
            cpu_seconds(work, REPEATS, time.perf_counter) for work in (lambda: count(source, schema, tables), grouped)
        )
    work = f"{DATABASE_ROWS:,} rows in PostgreSQL, 10,000 different, wall time against its own GROUP BY"
    return {**row(work, ours, own, 1.5), "note": f"load {os.getloadavg()[0]:.1f}"}


def _spark() -> dict[str, Any]:
    """CPU of the whole tree of processes, the virtual machine and Python's workers too."""
    from spark_session import spark_session

    labels = ["alpha", "beta", "gamma", "delta"]
    schema = Schema([Attribute(f"a{i}", labels) for i in range(8)])
    tables = [(f"a{i}", f"a{(i + 1) % 8}") for i in range(8)]
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder, spark_session() as session:
        for part in range(4):
            columns = {name: pa.array(random.choice(labels, SPARK_ROWS // 4)) for name in schema.names}
            pq.write_table(pa.table(columns), Path(folder) / f"{part}.parquet")
        alone = cpu_seconds(lambda: count(f"{folder}/*.parquet", schema, tables))
        frame = session.read.parquet(folder)
        spent = cpu_seconds(lambda: count(frame, schema, tables), REPEATS, _cpu_of_tree)  # workers start in the first
    return row(f"{SPARK_ROWS:,} rows x 8 texts in Spark, CPU against the kernel in process", spent, alone, 3.0)


def _cpu_of_tree() -> float:
    """CPU seconds of this process and of all that it started, those that ended included."""
    spent: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        children.setdefault(int(fields[1]), []).append(int(folder.name))
        spent[int(folder.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    total, waiting = 0.0, [os.getpid()]
    while waiting:
        process = waiting.pop()
        total += spent.get(process, 0.0)
        waiting += children.get(process, [])
    return total
