"""Release files give back what was saved, and are believed in nothing."""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from crosstally.errors import ReleaseError
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells
from crosstally.releases import open_release, publish
from crosstally.releases.file import header as release_header
from crosstally.releases.file import writer as release_writer
from crosstally.releases.file.header import column_names
from crosstally.schema import Attribute, Schema
from released import GAUSSIAN, KINDS, LAPLACE, contrasts, noisy, people, saved, statement, views


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_gives_back_the_release(kind: str, tmp_path: Path) -> None:
    release = KINDS[kind]()
    release.save(tmp_path / "people.release.parquet")
    again = open_release(str(tmp_path / "people.release.parquet"))
    assert (again.schema, again.statement) == (release.schema, release.statement)
    assert (again.nonnegative, again.rounds) == (release.nonnegative, release.rounds)
    for one, other in zip(release.measurements, again.measurements, strict=True):
        assert (one.query, one.noise, one.variance, one.origin) == (
            other.query,
            other.noise,
            other.variance,
            other.origin,
        )
        assert one.values.dtype == other.values.dtype
        np.testing.assert_array_equal(one.values, other.values)
    for names in [("sex",), ("âge", "sex"), ("value", "âge"), ("sex", "âge", "value"), ()]:
        answer, answer_again = release.marginal(*names), again.marginal(*names)
        # what no view covers may amplify the last bits of constraints that no table meets
        within = 1e-9 if release.estimate.covers(names) else 1e-4
        np.testing.assert_allclose(answer_again.values, answer.values, rtol=0, atol=within)
        np.testing.assert_allclose(answer_again.std_error, answer.std_error, rtol=within)
        assert (answer_again.method, answer_again.error_kind) == (answer.method, answer.error_kind)
        assert (answer_again.corrected, answer_again.caption) == (answer.corrected, answer.caption)
    refit = again.refit(nonnegative="none").marginal("sex").values
    np.testing.assert_allclose(refit, release.refit(nonnegative="none").marginal("sex").values, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_saving_twice_gives_the_same_bytes(kind: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        KINDS[kind]().save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_opening_infers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path)

    def never(*_: object, **__: object) -> None:
        raise AssertionError

    for module in ("crosstally.releases.release", "crosstally.releases.publication"):
        monkeypatch.setattr(import_module(module), "infer", never)
    assert open_release(path).marginal("sex").values.shape == (2,)


def test_a_file_reads_well_in_other_tools(tmp_path: Path) -> None:
    import duckdb

    release = views()
    release.save(tmp_path / "people.parquet")
    found = duckdb.sql(f"""select "value", "table", sex, "âge", value_ from '{tmp_path}/people.parquet'""").fetchall()
    assert len(found) == 8 + 16 + 1
    first, second, third = (m.values for m in release.measurements)
    assert found[0] == (first[0, 0], "sex x âge", "Female", "[0, 18)", None)
    assert found[7] == (first[1, 3], "sex x âge", "Male", "(missing)", None)
    assert found[8 + 9] == (second[2, 1], "value x âge", None, "[18, 65.5)", "東京")
    assert found[-1] == (third[()], "total", None, None, None)


def test_contrasts_are_told_from_cells(tmp_path: Path) -> None:
    contrasts().save(tmp_path / "c.parquet")
    table = pq.read_table(tmp_path / "c.parquet").to_pylist()
    assert [row["table"] for row in table[:3]] == ["total", "contrast of sex", "contrast of âge"]
    assert [row["sex"] for row in table[:3]] == [None, "Female", None]
    assert {row["variance"] for row in table} == {GAUSSIAN.variance}


def test_attributes_that_bear_the_name_of_a_column_get_another() -> None:
    names = ["value", "value_", "Table", "cell.x", "cell_.x", "estimated"]
    schema = Schema([Attribute(name, ["a", "b"]) for name in names])
    assert column_names(schema)[:6] == ("measurement", "cell", "value", "estimate", "table", "variance")
    assert column_names(schema)[6:] == ("value_", "value__", "Table_", "cell_.x", "cell_.x_", "estimated")
    release = publish(schema, [noisy(schema, Cells(tuple(names)))], statement())
    assert release.schema.names == tuple(names)


def test_names_that_share_a_beginning_with_a_column_do_not_confuse_it(tmp_path: Path) -> None:
    schema = Schema([Attribute("value.x", ["a", "b"]), Attribute("cell", ["a", "b"])])
    publish(schema, [noisy(schema, Cells(("cell", "value.x")))], statement()).save(tmp_path / "r")
    assert open_release(tmp_path / "r").schema == schema


def test_quotes_and_backslashes_in_a_label_survive(tmp_path: Path) -> None:
    schema = Schema([Attribute("sex", ["'", 'a"\\b'])])
    publish(schema, [noisy(schema, Cells(("sex",)))], statement()).save(tmp_path / "r")
    assert open_release(tmp_path / "r").schema == schema


def test_several_row_groups_make_one_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_writer, "_GROUP_ROWS", 5)
    release = views()
    release.save(tmp_path / "r")
    assert pq.read_metadata(tmp_path / "r").num_row_groups == 5
    for one, other in zip(release.measurements, open_release(tmp_path / "r").measurements, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
    rows = pq.read_table(tmp_path / "r").to_pylist()
    assert [row["value_"] for row in rows[8:24]] == ["ça"] * 4 + ["va"] * 4 + ["東京"] * 4 + ["(other)"] * 4


def test_counts_above_two_to_the_53_stay_exact(tmp_path: Path) -> None:
    schema = people()
    large = Measurement(
        Cells(("sex",)), np.array([2**60 + 1, -3]), variance=LAPLACE.variance, noise=LAPLACE, origin="t"
    )
    publish(schema, [large], statement()).save(tmp_path / "r")
    np.testing.assert_array_equal(open_release(tmp_path / "r").measurements[0].values, [2**60 + 1, -3])
    mixed = publish(schema, [large, noisy(schema, Cells(("sex",)), None)], statement())
    with pytest.raises(ReleaseError, match="must be at most 2\\^53; measurement 0"):
        mixed.save(tmp_path / "mixed")
    assert not (tmp_path / "mixed").exists()


# Only what was measured


def test_the_file_holds_what_was_measured_and_no_statistics(tmp_path: Path) -> None:
    """The metadata has these fields and no others, no column has statistics, and the values are those measured."""
    release = views(entry="entry-1")
    release.save(tmp_path / "r")
    metadata = pq.read_metadata(tmp_path / "r")
    assert set(metadata.metadata) == {b"crosstally", b"crosstally.sha256"}
    header = json.loads(metadata.metadata[b"crosstally"])
    fields = "format schema statement estimate mechanisms measurements groups matrices choices"
    assert set(header) == set(fields.split())
    fields = "model strategy budget neighbours unit rows versions entry rows_are_units plan joins"
    assert set(header["statement"]) == set(fields.split())
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            assert metadata.row_group(group).column(column).statistics is None
    assert str(tmp_path) not in (tmp_path / "r").read_bytes().decode("latin-1")
    values = pq.read_table(tmp_path / "r")["value"].to_pylist()
    assert values == [int(v) for m in release.measurements for v in m.values.ravel()]


# Writing is all or nothing


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_whole_or_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "r"
    target.write_bytes(b"old")

    def breaks(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", breaks)
    with pytest.raises(ReleaseError, match="cannot write the release .*: No space left on device"):
        views().save(target)
    assert target.read_bytes() == b"old"
    assert names_in(tmp_path) == ["r"]
    monkeypatch.undo()
    views().save(target)
    assert names_in(tmp_path) == ["r"]
    assert open_release(target).schema == people()


def test_places_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="cannot write the release .*No such file or directory"):
        views().save(tmp_path / "nowhere" / "r")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ReleaseError, match="cannot write the release .*directory"):
        views().save(tmp_path / "folder")
    assert names_in(tmp_path) == ["folder"]


def test_a_header_too_large_to_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_writer, "MAX_HEADER", 100)
    with pytest.raises(ReleaseError, match="must fit 100 bytes of JSON"):
        views().save(tmp_path / "r")
    assert not names_in(tmp_path)


def test_a_file_that_would_be_too_small_for_its_numbers_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, small = views(), tmp_path / "small"
    release.save(small)
    numbers, size = sum(each.values.size for each in release.measurements), small.stat().st_size
    monkeypatch.setattr(release_header, "_FREE_NUMBERS", 0)
    monkeypatch.setattr(release_header, "_BYTES_A_NUMBER", least := size // numbers + 1)
    with pytest.raises(ReleaseError, match=f"with {numbers} rows it must have at least {numbers * least:,} bytes"):
        open_release(small)
    release.save(tmp_path / "large")
    assert (tmp_path / "large").stat().st_size >= numbers * least
    for again, first in zip(open_release(tmp_path / "large").measurements, release.measurements, strict=True):
        np.testing.assert_array_equal(again.values, first.values)
