"""Workbooks and statistics files are read in a child: what it needs too much of is one line, and nothing is left."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crosstally as ct
from cli_runs import ran_well, run
from crosstally.errors import SourceError
from crosstally.sources import Reading, apart, count, files
from fuzz.structures import far_cell

SCHEMA = ct.Schema([ct.Attribute("sex", ["f", "m"])])


def refusal(path: Path) -> str:
    with pytest.raises(SourceError) as caught:
        count(path, SCHEMA, [("sex",)])
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_far_cell_is_a_line_and_leaves_no_ledger(tmp_path: Path) -> None:
    path, schema = tmp_path / "p.xlsx", tmp_path / "s.json"
    far_cell(path)
    assert path.stat().st_size < 2_000
    schema.write_text(json.dumps({"attributes": [{"name": "sex", "values": ["f", "m"]}]}))
    ran = run("release", path, "--schema", schema, "--epsilon", "1")
    assert ran.code == 2
    assert "needs more than 4 GB of memory" in ran.err
    assert "CROSSTALLY_READ_MEMORY" in ran.err
    assert {each.name for each in tmp_path.iterdir()} == {"p.xlsx", "s.json"}
    assert ran_well("schema", "check", _small(tmp_path), schema).code == 0


def _small(folder: Path) -> Path:
    path = folder / "small.xlsx"
    pd.DataFrame({"sex": ["f", "m", "f"]}).to_excel(path, index=False)
    return path


def test_the_limits_are_those_that_are_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.xlsx"
    far_cell(path, "ALL", 100_000)  # 100 million cells: 3.2 GB
    monkeypatch.setenv(apart.MEMORY, "1.5")
    assert "needs more than 1.5 GB of memory" in refusal(path)
    for wrong in ("0", "-1", "nan", "many", "inf"):
        monkeypatch.setenv(apart.MEMORY, wrong)
        assert refusal(path) == f"CROSSTALLY_READ_MEMORY must be a positive number, got {wrong!r}"


def test_time_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "_START", "import json, sys; sys.path[:] = sys.argv[1:]; " + _BUSY)
    monkeypatch.setenv(apart.SECONDS, "0.1")
    started = time.monotonic()
    assert "takes more than 0.1 s of CPU time; if it is right, set CROSSTALLY_READ_SECONDS" in refusal(_small(tmp_path))
    assert time.monotonic() - started < 20


_BUSY = """
from crosstally.sources import apart
def busy(_):
    while True:
        pass
apart._opened = busy
apart.serve()
"""


def test_a_child_that_nobody_reads_ends(tmp_path: Path) -> None:
    names, read = apart.open_apart("sheet", _small(tmp_path), Reading())
    assert names == ["sex"]
    process = read.__self__._process  # type: ignore[attr-defined]
    assert process.poll() is None
    del read
    assert process.poll() is not None


def test_a_parquet_file_that_claims_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table({"sex": ["f"] * 100, "b": [1] * 100}), path)
    assert int(count(path, SCHEMA, [("sex",)])[0].counts.sum()) == 100
    for name, most, said in (
        ("MOST_COLUMNS", 1, "more than the 1 columns"),
        ("MOST_ROWS", 99, "more than the 99 rows"),
        ("MOST_GROUP_BYTES", 9, "more than the 9 bytes in a row group"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(files, name, most)
            assert said in refusal(path)
