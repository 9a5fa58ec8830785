"""The page of results: missed targets on top, and on what it was measured."""

from __future__ import annotations

import platform
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.__main__ import origin, page
from benchmarks.counting import count_by_duckdb, count_by_polars


def line(work: str, met: bool | None, **more: Any) -> dict[str, Any]:
    return {"work": work, "crosstally": 1.0, "peer": 2.0, "ratio": 0.5, "target": 0.4, "met": met, **more}


def test_missed_targets_stand_on_top() -> None:
    text = page([line("fast", True), line("slow", False), line("near", None, unit="x")])
    assert "## Missed: 1 of 2" in text
    top = text.partition("## Speed")[0]
    assert "| slow | 1 s | 2 s | 0.5 | 0.4 | no |" in top
    assert "fast" not in top
    assert "| near |" in text.partition("## Accuracy")[2]


def test_the_machine_is_told_without_its_name() -> None:
    told = origin()
    assert re.search(
        r"on \d{4}-\d\d-\d\d: \d+ cores \(\w+\), \d+ GB of memory, \w+, Python 3\.\d+\.\d+, crosstally ", told
    )
    assert {"numpy", "opendp", "numba"} <= set(re.findall(r"(\w+) \d+\.", told))
    assert platform.node() not in told


@pytest.mark.parametrize("engine", [count_by_polars, count_by_duckdb])
def test_engines_count_all_cells(engine: Any) -> None:
    """Rows (a0, a1, a2): 011, 011, 100; the view of a0 and a2 has cells 00, 01, 10, 11."""
    rows = pa.table(
        {
            name: pa.array(np.array(line, np.int8))
            for name, line in zip(("a0", "a1", "a2"), ([0, 0, 1], [1, 1, 0], [1, 1, 0]), strict=True)
        }
    )
    assert [each.tolist() for each in engine(rows, [("a0", "a2"), ("a1",)])] == [[0, 2, 1, 0], [1, 2]]
