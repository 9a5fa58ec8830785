"""Answers print for people and become what other tools use."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crosstally.answers.marginal import ErrorKind, Marginal
from crosstally.answers.uncertainty import Bounds, LinearLaw
from crosstally.checks import optional
from crosstally.errors import CrosstallyError, MissingExtraError, QueryError
from crosstally.schema import Attribute, Schema
from crosstally.text_table import aligned, cell_text


@dataclass(frozen=True)
class Error:
    std_error: float

    def half_width(self, level: float) -> float:
        return self.std_error * (2 if level == 0.95 else 1)


SEX = Attribute("sex", ["Male", "Female"])
AGE = Attribute("age", edges=[0, 18, 65, 120])


def marginal(*attributes: Attribute, std_error: float | None = 21.3, **fields: Any) -> Marginal:
    schema = Schema(attributes)
    values = 1000.4 + 100 * np.arange(schema.cells).reshape(schema.shape)
    own = None if std_error is None else LinearLaw(None, Error(std_error))
    kind = ErrorKind.NONE if own is None else ErrorKind.EXACT
    return Marginal(schema, values, **{"method": "least-squares", "error_kind": kind, "uncertainty": own, **fields})


# Numbers


def test_intervals_and_errors_have_the_shape_of_the_table() -> None:
    answer = marginal(SEX, AGE)
    np.testing.assert_array_equal(answer.std_error, np.full((2, 3), 21.3))
    low, high = answer.interval()
    np.testing.assert_allclose(low, answer.values - 42.6)
    np.testing.assert_allclose(high, answer.values + 42.6)
    unknown = marginal(SEX, std_error=None)
    assert np.isnan(unknown.std_error).all()
    assert np.isnan(unknown.interval(0.5)).all()
    for level in (0, 1, -1, True, "a"):
        with pytest.raises(QueryError, match="level must be between 0 and 1"):
            answer.interval(level)


def test_values_cannot_be_changed_and_must_fit() -> None:
    answer = marginal(SEX)
    with pytest.raises(ValueError, match="read-only"):
        answer.values[0] = 1
    with pytest.raises(CrosstallyError, match="must have shape"):
        Marginal(Schema([SEX]), np.zeros(3), method="m", error_kind=ErrorKind.NONE, uncertainty=None)
    with pytest.raises(CrosstallyError, match="must have an error unless"):
        Marginal(Schema([SEX]), np.zeros(2), method="m", error_kind=ErrorKind.EXACT, uncertainty=None)


# Text


def test_one_attribute_prints_as_a_list() -> None:
    assert repr(marginal(SEX, caption="ε = 1, add-remove, flat")).splitlines() == [
        "sex: ε = 1, add-remove, flat",
        "sex          count",
        "Male    1,000 ± 21",
        "Female  1,100 ± 21",
        "± one standard error, for the rows counted (least-squares)",
    ]


def test_a_short_last_attribute_runs_across() -> None:
    assert str(marginal(SEX, AGE, std_error=None)).splitlines() == [
        "sex x age",
        "sex       [0, 18)   [18, 65)  [65, 120]",
        "Male    1,000 ± ?  1,100 ± ?  1,200 ± ?",
        "Female  1,300 ± ?  1,400 ± ?  1,500 ± ?",
        "± ?: the error is not known (least-squares)",
    ]


def test_cells_that_have_ends_show_them() -> None:
    """From 20 below to 60 above each value."""
    ends = Bounds(ends=lambda _, values, level: (values - 20, values + 60))
    assert repr(marginal(SEX, error_kind=ErrorKind.CORRECTED, uncertainty=ends)).splitlines() == [
        "sex",
        "sex                      count",
        "Male      1,000 (980 to 1,060)",
        "Female  1,100 (1,080 to 1,160)",
        "(... to ...) 95% intervals for the rows counted, after the correction of negative cells (least-squares)",
    ]


def test_a_long_last_attribute_and_wide_labels_run_down() -> None:
    many = Attribute("month", [f"month {i}" for i in range(12)])
    assert str(marginal(SEX, many)).splitlines()[1:3] == [
        "sex     month          count",
        "Male    month 0   1,000 ± 21",
    ]
    wide = Attribute("city", ["a" * 60, "b" * 60])
    assert repr(marginal(SEX, wide)).splitlines()[1].split() == ["sex", "city", "count"]


def test_long_tables_are_cut() -> None:
    many = Attribute("code", [f"c{i}" for i in range(1000)])
    lines = str(marginal(many)).splitlines()
    assert len(lines) == 1 + 1 + 20 + 1 + 1
    assert lines[-2] == "... 980 more lines"
    assert repr(marginal(many)).splitlines()[-2] == "... 992 more lines"
    assert len(repr(marginal(many)).splitlines()) == 12


def test_the_footnote_says_what_the_error_is() -> None:
    assert repr(marginal(SEX, corrected=True)).endswith("± one standard error, for the rows counted (least-squares)")
    assert "standard error, estimated" in repr(marginal(SEX, error_kind=ErrorKind.ESTIMATED))


def test_the_total_prints_too() -> None:
    assert repr(marginal(std_error=0)).splitlines() == [
        "total",
        "    count",
        "1,000 ± 0",
        "± one standard error, for the rows counted (least-squares)",
    ]


def test_wide_and_combining_characters_line_up() -> None:
    assert aligned([["東京", "1"], ["abcd", "22"], ["e\u0301", "3"]], left=1) == [
        "東京   1",
        "abcd  22",
        "e\u0301      3",
    ]


@pytest.mark.parametrize(
    ("count", "error", "text"),
    [
        (1234.4, 21.3, "1,234 ± 21"),
        (0.4, 9.96, "0 ± 10"),
        (-0.2, 9.94, "0 ± 9.9"),
        (5, 0.123, "5 ± 0.12"),
        (1e7, 12345.6, "10,000,000 ± 12,346"),
        (math.nan, math.nan, ".."),
    ],
)
def test_cells_read_as_people_write_them(count: float, error: float, text: str) -> None:
    assert cell_text(count, error) == text


# Other tools


def test_pandas_has_categories_in_the_schemas_order() -> None:
    frame = marginal(SEX, AGE).to_pandas()
    assert list(frame.columns) == ["sex", "age", "count", "std_error", "count_low", "count_high"]
    assert frame["count_high"][0] == pytest.approx(1000.4 + 2 * 21.3)
    assert list(frame["sex"].cat.categories) == ["Male", "Female"]
    assert frame["sex"].tolist() == ["Male"] * 3 + ["Female"] * 3
    assert frame["age"].tolist() == ["[0, 18)", "[18, 65)", "[65, 120]"] * 2
    assert frame["count"].tolist() == pytest.approx([1000.4, 1100.4, 1200.4, 1300.4, 1400.4, 1500.4])
    assert frame["std_error"].tolist() == [21.3] * 6
    assert frame.groupby("sex", observed=True)["count"].sum().index.tolist() == ["Male", "Female"]


def test_polars_has_enumerations_in_the_schemas_order() -> None:
    import polars as pl

    frame = marginal(SEX, AGE).to_polars()
    assert frame.schema["sex"] == pl.Enum(["Male", "Female"])
    assert frame.columns == ["sex", "age", "count", "std_error", "count_low", "count_high"]
    ends = pytest.approx(1257.8), pytest.approx(1343.0)
    assert frame.sort("sex", descending=True).row(0) == ("Female", "[0, 18)", pytest.approx(1300.4), 21.3, *ends)


def test_xarray_has_labelled_dimensions() -> None:
    answer = marginal(SEX, AGE, caption="ε = 1").to_xarray()
    assert dict(answer.sizes) == {"sex": 2, "age": 3}
    assert float(answer["count"].sel(sex="Female", age="[18, 65)")) == pytest.approx(1400.4)
    assert float(answer["std_error"].sel(sex="Female", age="[18, 65)")) == 21.3
    assert float(answer["count_low"].sel(sex="Female", age="[18, 65)")) == pytest.approx(1400.4 - 42.6)
    assert answer.attrs == {
        "method": "least-squares",
        "error_kind": "exact",
        "corrected": 0,
        "caption": "ε = 1",
        "where": "",
    }


def test_arrow_by_name_and_by_protocol() -> None:
    import polars as pl

    answer = marginal(SEX, AGE)
    table = answer.to_arrow()
    assert table.column_names == ["sex", "age", "count", "std_error", "count_low", "count_high"]
    assert table.schema.field("sex").type == pa.dictionary(pa.int32(), pa.string())
    assert pa.table(answer).equals(table)
    assert pl.DataFrame(answer)["count"].to_list() == table["count"].to_pylist()
    assert pl.from_dataframe(answer).shape == (6, 6)


def test_duckdb_reads_it_where_it_stands() -> None:
    import duckdb

    answer = marginal(SEX, AGE)  # noqa: F841 (DuckDB finds it by its name)
    found = duckdb.sql("select count from answer where sex = 'Female' and age = '[0, 18)'").fetchall()
    assert found == [(pytest.approx(1300.4),)]


def test_an_unknown_error_is_nan_everywhere() -> None:
    answer = marginal(SEX, std_error=None)
    assert answer.to_pandas()["std_error"].isna().all()
    assert answer.to_polars()["std_error"].is_nan().all()
    assert bool(np.isnan(answer.to_xarray()["std_error"]).all())
    assert answer.to_pandas()["count_low"].isna().all()


def test_attributes_named_like_the_numbers_keep_their_names() -> None:
    answer = marginal(
        Attribute("count", ["0", "1"]), Attribute("std_error", ["0", "1"]), Attribute("count_low", ["a", "b"])
    )
    names = ["count", "std_error", "count_low", "count_", "std_error_", "count_low_", "count_high"]
    assert answer.to_arrow().column_names == names
    assert answer.to_polars().columns == names
    assert list(answer.to_pandas().columns) == names
    assert set(answer.to_xarray().data_vars) == {"count_", "std_error_", "count_low_", "count_high"}


def test_the_total_becomes_one_row() -> None:
    answer = marginal()
    assert answer.to_pandas().shape == (1, 4)
    assert answer.to_polars().shape == (1, 4)
    assert float(answer.to_xarray()["count"]) == pytest.approx(1000.4)


# Packages that are not there


@pytest.mark.parametrize(
    ("method", "package", "extra"),
    [
        ("to_pandas", "pandas", "frames"),
        ("to_polars", "polars", "frames"),
        ("to_xarray", "xarray", "frames"),
        ("plot", "altair", "charts"),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    method: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(module: str) -> None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr("crosstally.checks.import_module", refuse)
    with pytest.raises(MissingExtraError, match=rf"^{package} is not installed: pip install 'crosstally\[{extra}\]'$"):
        getattr(marginal(SEX), method)()


def test_a_package_that_is_broken_is_not_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(module: str) -> None:
        raise ModuleNotFoundError("No module named 'inner'", name="inner")

    monkeypatch.setattr("crosstally.checks.import_module", breaks)
    with pytest.raises(ModuleNotFoundError, match="inner"):
        optional("pandas", extra="frames")
