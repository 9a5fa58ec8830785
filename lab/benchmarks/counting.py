"""Counting against plain numpy, Polars and DuckDB: 108 eight-way views of 32 binary attributes, 912,627 rows.

In CPU seconds, Polars and DuckDB on one thread; both get int8 columns, the cheapest form that they group by name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.timing import cpu_seconds, row, timed
from crosstally.measurements import ExactTable
from crosstally.query.queries import Cells
from crosstally.schema import Attribute, Schema
from crosstally.sources import count
from crosstally.sources.counts import Tally

ATTRIBUTES, VIEWS, WAYS, ROWS = 32, 108, 8, 912_627
BATCH_ROWS = 65_536
TARGET = 0.3
NAMES = tuple(f"a{i}" for i in range(ATTRIBUTES))


def run() -> list[dict[str, Any]]:
    """One row for each way the same rows can come: as codes already, as integers, as texts."""
    random = np.random.default_rng(20_260_101)
    codes = random.integers(0, 2, (ATTRIBUTES, ROWS), dtype=np.uint8)
    views = [np.sort(random.choice(ATTRIBUTES, WAYS, replace=False)) for _ in range(VIEWS)]
    tables = [tuple(NAMES[i] for i in view) for view in views]
    truth = plain_numpy(codes, views)
    peer = cpu_seconds(lambda: plain_numpy(codes, views))
    digits, words = _schema("0", "1"), _schema("Female", "Male")
    texts = {name: pa.array(words.attributes[0].values).take(pa.array(line)) for name, line in _lines(codes)}
    works: list[tuple[str, Callable[[], Sequence[ExactTable]], float | None]] = [
        ("from codes", lambda: count_codes(codes, digits, tables), TARGET),
        ("from int8 columns", lambda: count(pa.table(dict(_lines(codes.view(np.int8)))), digits, tables), TARGET),
        ("from int64 columns", lambda: count(integers, digits, tables), None),
        ("from string columns", lambda: count(pa.table(texts), words, tables), None),
    ]
    integers = pa.table(dict(_lines(codes.astype(np.int64))))
    rows = []
    for name, work, target in works:
        assert all((table.counts.ravel() == plain).all() for table, plain in zip(work(), truth, strict=True))
        rows.append(row(f"counting {VIEWS} views, d={ATTRIBUTES}, {name}", cpu_seconds(work), peer, target))
    return [*rows, *_beside_engines(codes, tables, truth)]


def _beside_engines(
    codes: NDArray[np.uint8], tables: list[tuple[str, ...]], truth: list[NDArray[np.int64]]
) -> Iterator[dict[str, Any]]:
    """The same counts by engines that group rows, where they are installed: a tenth of the views, since they are slow.

    Each is run once, after the first view has warmed it up.
    """
    part = slice(0, VIEWS // 10)
    table = pa.table(dict(_lines(codes.view(np.int8))))
    digits = _schema("0", "1")
    ours = cpu_seconds(lambda: count(table, digits, tables[part]))
    for name, engine in {"polars": count_by_polars, "duckdb": count_by_duckdb}.items():
        if find_spec(name) is None:
            continue
        os.environ["POLARS_MAX_THREADS"] = "1"
        engine(table, tables[:1])
        seconds, found = timed(partial(engine, table, tables[part]))
        assert all((each == plain).all() for each, plain in zip(found, truth[part], strict=True))
        yield row(f"counting {len(found)} views, d={ATTRIBUTES}, beside {name} {version(name)}", ours, seconds, None)


def count_by_polars(table: pa.Table, tables: Sequence[tuple[str, ...]]) -> list[NDArray[np.int64]]:
    """A group_by for each view, all in one collect."""
    import polars as pl

    frame = pl.from_arrow(table).lazy()
    grouped = pl.collect_all([frame.group_by(names).len() for names in tables])
    return [
        _filled(each.select(names).to_numpy(), each["len"].to_numpy())
        for names, each in zip(tables, grouped, strict=True)
    ]


def count_by_duckdb(table: pa.Table, tables: Sequence[tuple[str, ...]]) -> list[NDArray[np.int64]]:
    """A GROUP BY for each view."""
    import duckdb

    out = []
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("rows", table)
        for names in tables:
            columns = ", ".join(names)
            found = connection.execute(f"select {columns}, count(*) from rows group by {columns}").fetchnumpy()
            *values, counts = found.values()
            out.append(_filled(np.stack(values, axis=1), counts))
    return out


def _filled(values: NDArray[Any], counts: NDArray[Any]) -> NDArray[np.int64]:
    """The counts of all cells of a view, those that no row is in too."""
    out = np.zeros(2 ** values.shape[1], np.int64)
    out[values.astype(np.int64) @ (1 << np.arange(values.shape[1])[::-1])] = counts
    return out


def plain_numpy(codes: NDArray[np.uint8], views: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """Shift-or into uint8, bincount: what one would write in five minutes."""
    counts = []
    for view in views:
        keys = codes[view[0]].copy()
        for attribute in view[1:]:
            keys <<= 1
            keys |= codes[attribute]
        counts.append(np.bincount(keys, minlength=2 ** len(view)))
    return counts


def count_codes(codes: NDArray[np.uint8], schema: Schema, tables: list[tuple[str, ...]]) -> Sequence[ExactTable]:
    tally = Tally(schema, [Cells(table) for table in tables], BATCH_ROWS)
    for start in range(0, codes.shape[1], BATCH_ROWS):
        batch = codes[:, start : start + BATCH_ROWS]
        tally.add(batch.shape[1], dict(_lines(batch)))
    return tally.tables()


def _schema(*labels: str) -> Schema:
    return Schema(tuple(Attribute(name, labels) for name in NAMES))


def _lines(codes: NDArray[Any]) -> list[tuple[str, NDArray[Any]]]:
    return list(zip(NAMES, codes, strict=True))


if __name__ == "__main__":
    for result in run():
        print(result)
