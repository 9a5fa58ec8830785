"""Counting against plain numpy: 108 eight-way views of 32 binary attributes, 912,627 rows, in CPU seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.timing import cpu_seconds, row
from crosstally.schema import Attribute, Schema
from crosstally.sources import count
from crosstally.sources.tally import Tally
from crosstally.tables import ExactTable

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
    return rows


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
    tally = Tally(schema, tables, BATCH_ROWS)
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
