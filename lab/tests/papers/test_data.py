from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from crosstally.errors import SourceError
from crosstally_lab.papers import data

CLICKS = pa.table({"item6": pa.array([1, 0, 1], pa.uint8()), "item3": pa.array([0, 0, 1], pa.uint8())})


def seeded() -> np.random.Generator:
    return np.random.default_rng(1)


def test_a_file_is_found_only_where_the_variable_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "adult.csv").write_text("a\n1\n")
    monkeypatch.delenv("CROSSTALLY_DATA", raising=False)
    assert data.find("adult.csv") is None
    monkeypatch.setenv("CROSSTALLY_DATA", str(tmp_path))
    assert data.find("adult.csv") == tmp_path / "adult.csv"
    assert data.find("census.csv") is None
    monkeypatch.setenv("CROSSTALLY_DATA", str(tmp_path / "absent"))
    assert data.find("adult.csv") is None


def test_clicks_say_whether_they_are_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSTALLY_DATA", str(tmp_path))
    generated = data.clicks(40, seeded(), attributes=5)
    assert (generated.label, generated.table.shape, len(generated.schema.names)) == (
        "generated transactions",
        (40, 5),
        5,
    )
    pyarrow.parquet.write_table(CLICKS, tmp_path / "kosarak-100k-top32.parquet")
    real = data.clicks(40, seeded())
    assert (real.label, real.table.shape) == ("Kosarak, resampled", (40, 2))
    assert real.schema.names == ("item6", "item3")
    assert data.clicks(4, seeded(), attributes=1).schema.names == ("item6",)


def test_the_user_s_own_file_goes_first(tmp_path: Path) -> None:
    pyarrow.csv.write_csv(CLICKS, tmp_path / "mine.csv")
    mine = data.clicks(10, seeded(), path=tmp_path / "mine.csv")
    assert (mine.label, mine.table.shape) == ("mine.csv, resampled", (10, 2))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.csv", None, "there is no file"),
        ("rows.txt", b"a\n1\n", "must end in .parquet or .csv"),
        ("torn.parquet", b"PAR1 and then nothing", "cannot read .* as a .parquet file"),
        ("text.csv", b"a,b\n1,secret\n", "the column 'b' must hold 0 and 1 only"),
        ("gap.csv", b"a,b\n1,\n0,1\n", "the column 'b' must hold 0 and 1 only"),
    ],
)
def test_a_file_that_is_no_binary_table_is_refused(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=message) as caught:
        data.read_binary(tmp_path / name)
    assert "secret" not in str(caught.value)


def test_rows_in_place_of_aol_say_so() -> None:
    found = data.searches(50, seeded())
    assert (found.label, found.table.shape) == ("generated, in place of AOL", (50, 45))
