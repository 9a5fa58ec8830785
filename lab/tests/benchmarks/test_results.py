"""The page of results: missed targets on top, and on what it was measured."""

from __future__ import annotations

import json
import platform
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import results
from benchmarks.__main__ import PARTS, parts_of
from benchmarks.accuracy import peers
from benchmarks.accuracy.kept import DOORS, code_digest
from benchmarks.counting import count_by_duckdb, count_by_polars


def line(work: str, met: bool | None, **more: Any) -> dict[str, Any]:
    return {"work": work, "crosstally": 1.0, "peer": 2.0, "ratio": 0.5, "target": 0.4, "met": met, **more}


def part(*lines: dict[str, Any], **more: Any) -> results.Part:
    known = {"date": "2026-11-17", "origin": "2 cores", "code": "0123456789abcdef", "draws": None}
    return {**known, "lines": list(lines), **more}


def test_missed_targets_stand_on_top() -> None:
    known = {
        "counting": part(line("fast", True), line("slow", False)),
        "accuracy.wide": part(line("near", None, unit="x"), draws=5),
    }
    text = results.page(known, ("counting", "noise", "accuracy.wide"))
    assert "## Missed: 1 of 2" in text
    assert "## Not run\n\nnoise.\n" in text
    top = text.partition("## Speed")[0]
    assert "| slow | 1 s | 2 s | 0.5 | 0.4 | no |" in top
    assert "fast" not in top
    assert text.count("2 cores") == 1
    accuracy = text.partition("## Accuracy")[2]
    assert "Run on 2026-11-17, source 0123456789. 5 draws instead of the prescribed number." in accuracy
    assert "| near |" in accuracy


def test_a_part_that_is_run_again_replaces_its_own_lines_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    order = ("counting", "noise")
    results.store("noise", [line("drawn", True)], code="a" * 64, draws=None, parts=order)
    results.store("counting", [line("counted", True)], code="b" * 64, draws=None, parts=order)
    results.store("noise", [line("drawn again", False)], code="c" * 64, draws=None, parts=order)
    text = (tmp_path / "results.md").read_text()
    assert "| drawn |" not in text
    assert text.index("### counting") < text.index("### noise")
    assert "source cccccccccc" in text.partition("### noise")[2]
    assert "## Missed: 1 of 2" in text
    assert "## Not run" not in text


def test_parts_may_be_named() -> None:
    assert parts_of([]) == list(PARTS)
    assert parts_of(["noise", "counting"]) == ["counting", "noise"]
    assert parts_of(["accuracy"]) == [name for name in PARTS if name.startswith("accuracy.")]
    assert parts_of(["accuracy.wide"]) == ["accuracy.wide"]
    with pytest.raises(SystemExit, match="no benchmark 'acuracy'"):
        parts_of(["acuracy"])


def test_the_machine_is_told_without_its_name() -> None:
    told = results.origin()
    assert re.match(r"\d+ cores \(\w+\), \d+ GB of memory, \w+, Python 3\.\d+\.\d+, crosstally ", told)
    assert {"numpy", "opendp", "numba"} <= set(re.findall(r"(\w+) \d+\.", told))
    assert platform.node() not in told


def test_a_release_does_not_rest_on_the_doors() -> None:
    """Another page of the explorer leaves what was drawn as it was; a local collection rests on the local model."""
    assert len({code_digest(), code_digest("local"), code_digest("notebook"), code_digest(*DOORS)}) == 4


def test_draws_of_peers_are_read_from_the_committed_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [{"key": "k", "result": {"l1": 1.0}}, {"key": "other", "result": {}}, {"key": "k", "result": {"l1": 2.0}}]
    monkeypatch.setattr(peers, "DRAWN", tmp_path / "draws.jsonl")
    assert peers._known() == {}
    peers.DRAWN.write_text("".join(json.dumps(each) + "\n" for each in lines))
    assert peers._known() == {"k": {"l1": 2.0}, "other": {}}


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
