"""Files are read again by the packages that people read them with: values, labels and errors are the same."""

from __future__ import annotations

import io
import json
import re
import warnings
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pyarrow.parquet
import pytest
from pyaxis import pyaxis
from pyjstat import pyjstat

from cli_runs import run
from crosstally.answers.marginal import ErrorKind, Marginal
from crosstally.answers.uncertainty import Bounds
from crosstally.errors import QueryError
from crosstally.exports.csv_table import csv_text, inert, sdmx_csv_text
from crosstally.exports.formats import measures
from crosstally.exports.json_tables import json_stat_text
from crosstally.exports.parquet_table import parquet_pieces
from crosstally.exports.px import px_text
from crosstally.exports.xlsx import xlsx_bytes
from crosstally.schema import About, Attribute, Schema, Unit
from hostile_labels import MANY
from released import views

SCHEMA = Schema([Attribute("sex", ["Female", "Male"]), Attribute("age, in years", edges=[0, 18, 65.5], missing=True)])
COUNTS = np.array([[12.0, -3.25, 0.0], [4000.5, 1e-7, 7.0]])
HOSTILE = [
    "=1+1",
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "\t=1+1",
    "\u200f=1+1",
    " =cmd|' /C calc'!A0",
    "＝1+1",
    "|dir",
    "<script>alert(1)</script>",
    "\u202egnp.exe",
    "a\u2067b",
    "{{7*7}}",
    "_x0041_",
]


class Errors:
    """An error of its own for each cell."""

    std_error = np.array([[1.5, 2.5, 3.5], [4.5, 5.5, 6.5]])

    def half_width(self, level: float) -> np.ndarray:
        return 2 * self.std_error


def marginal() -> Marginal:
    """Ends are 2 below and 4 above each cell."""
    kind, own = ErrorKind.CORRECTED, Bounds(ends=lambda _, values, level: (values - 2, values + 4), error=Errors())
    return Marginal(SCHEMA, COUNTS, method="least-squares", error_kind=kind, uncertainty=own, caption="ε = 1")


def unknown(labels: list[str], name: str = "label") -> Marginal:
    schema = Schema([Attribute(name, labels)])
    counts = -np.arange(1.0, len(labels) + 1)
    return Marginal(schema, counts, method="m", error_kind=ErrorKind.NONE, uncertainty=None)


LABELS = [(sex, age) for sex in ("Female", "Male") for age in ("[0, 18)", "[18, 65.5]", "(missing)")]
NUMBERS = {
    "count": COUNTS.ravel(),
    "std_error": Errors.std_error.ravel(),
    "count_low": COUNTS.ravel() - 2,
    "count_high": COUNTS.ravel() + 4,
}


def check(frame: pd.DataFrame, numbers: list[str]) -> None:
    """The frame holds the labels and these numbers, under our names for them."""
    assert list(zip(*(frame[name] for name in SCHEMA.names), strict=True)) == LABELS
    for name in numbers:
        np.testing.assert_allclose(frame[name].astype(float), NUMBERS[name], rtol=1e-12, atol=1e-9)


def test_pandas_reads_csv() -> None:
    check(pd.read_csv(io.StringIO(csv_text(marginal(), raw=True)), keep_default_na=False), list(NUMBERS))


def test_pandas_reads_xlsx() -> None:
    book = io.BytesIO(xlsx_bytes(marginal()))
    check(pd.read_excel(book, keep_default_na=False), list(NUMBERS))
    about = dict(openpyxl.load_workbook(book)["about"].iter_rows(values_only=True))
    assert about["source"] == "crosstally release, ε = 1"
    assert about["intervals"].startswith("0.95: ")


def test_pyarrow_reads_parquet(tmp_path: Path) -> None:
    (tmp_path / "table.parquet").write_bytes(b"".join(parquet_pieces(marginal())))
    check(pyarrow.parquet.read_table(tmp_path / "table.parquet").to_pandas(), list(NUMBERS))


def test_pyjstat_reads_json_stat() -> None:
    text = json_stat_text(marginal())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it calls what it deprecates
        frame = pyjstat.Dataset.read(text).write("dataframe")
    errors = {name: json.loads(text)["extension"][name] for name in ("std_error", "count_low", "count_high")}
    check(frame.rename(columns={"value": "count"}).assign(**errors), list(NUMBERS))


def test_pyaxis_reads_px(tmp_path: Path) -> None:
    (tmp_path / "table.px").write_text(px_text(marginal()), encoding="utf-8")
    read = pyaxis.parse(str(tmp_path / "table.px"), encoding="utf-8")
    assert read["METADATA"]["STUB"] == list(SCHEMA.names)
    long = read["DATA"]
    wide = pd.DataFrame({name: part["DATA"].to_numpy() for name, part in long.groupby("measure", sort=False)})
    for name in SCHEMA.names:
        wide[name] = long[long["measure"] == "count"][name].to_numpy()
    check(wide, list(NUMBERS))


def test_pysdmx_reads_sdmx_csv() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own packages warn when they are imported
        from pysdmx.io import get_datasets
    text = sdmx_csv_text(marginal())
    (dataset,) = get_datasets(text)
    assert dataset.structure == "Dataflow=CROSSTALLY:SEX_AGE_IN_YEARS(1.0)"
    frame = dataset.data
    assert frame["SEX"].tolist() == ["Female"] * 3 + ["Male"] * 3
    assert frame["AGE_IN_YEARS"].tolist() == ["C0", "C1", "C2"] * 2
    both = pd.read_csv(io.StringIO(text))["AGE_IN_YEARS: age, in years"].str.split(": ", n=1).str[1]
    names = dict(zip(SCHEMA.names, ("SEX", "AGE_IN_YEARS"), strict=True))
    frame = frame.assign(AGE_IN_YEARS=both).rename(columns={own: name for name, own in names.items()})
    columns = {"OBS_VALUE": "count", "STD_ERROR": "std_error", "COUNT_LOW": "count_low", "COUNT_HIGH": "count_high"}
    check(frame.rename(columns=columns), list(NUMBERS))


def test_unknown_errors_are_empty_in_each_format(tmp_path: Path) -> None:
    answer = unknown(["a", "b"])
    assert measures(answer) == [[-1.0, -2.0], *[[None, None]] * 3]
    assert sdmx_csv_text(answer).splitlines()[1] == "dataflow,CROSSTALLY:LABEL(1.0),I,a: a,-1.0,,,,people"
    assert px_text(answer).splitlines()[-2:] == ['-1 ".." ".." ".." ', '-2 ".." ".." "..";']
    book = io.BytesIO(xlsx_bytes(answer))
    assert list(openpyxl.load_workbook(book)["table"].values)[1] == ("a", -1, None, None, None)


def test_the_total_has_no_attributes() -> None:
    total = Marginal(SCHEMA.subset(), np.array(5.0), method="m", error_kind=ErrorKind.NONE, uncertainty=None)
    assert sdmx_csv_text(total).splitlines()[1] == "dataflow,CROSSTALLY:TOTAL(1.0),I,5.0,,,,people"
    assert "STUB" not in px_text(total)
    book = io.BytesIO(xlsx_bytes(total))
    assert pd.read_excel(book)["count"].tolist() == [5]


def test_identifiers_of_sdmx_differ_and_are_not_its_own_words() -> None:
    schema = Schema([Attribute(name, ["C1", "x y"]) for name in ("action", "Action", "東京")])
    answer = Marginal(schema, np.zeros((2, 2, 2)), method="m", error_kind=ErrorKind.NONE, uncertainty=None)
    head, first = sdmx_csv_text(answer).splitlines()[:2]
    assert head.split(",")[3:6] == ["ACTION_: action", "ACTION__: Action", "DIM_3: 東京"]
    assert first.split(",")[3] == "C1: C1"
    assert sdmx_csv_text(answer).splitlines()[8].split(",")[3] == "C1_: x y"


# Hostile labels


def test_formulas_are_texts_in_csv_and_numbers_are_numbers() -> None:
    lines = csv_text(unknown(HOSTILE)).splitlines()[1:]
    frame = pd.read_csv(io.StringIO(csv_text(unknown(HOSTILE))))
    assert frame["count"].tolist() == [-float(i) for i in range(1, len(HOSTILE) + 1)]
    assert all(line.lstrip('"')[0] not in "=+-@\t\r|＝" for line in lines)
    assert [label for label in frame["label"] if label.strip(" \t\u200f")[0] in "=+-@|＝"] == []
    assert not any(mark in label for label in frame["label"] for mark in "\u202e\u2067")
    assert frame["label"].nunique() == len(HOSTILE)
    raw = pd.read_csv(io.StringIO(csv_text(unknown(HOSTILE), raw=True)))
    assert raw["label"].tolist() == HOSTILE


def test_two_hundred_hostile_labels() -> None:
    """In CSV none begins, after what cannot be seen, with what begins a formula; in a workbook each is a text."""
    assert len(MANY) >= 200
    for label in pd.read_csv(io.StringIO(csv_text(unknown(MANY))), keep_default_na=False)["label"]:
        assert label.strip(" \t\u200f\u00a0\ufeff")[0] not in "=+-@|＝＋－＠"
        assert not re.search("[\u202a-\u202e\u2066-\u2069]", label)
    book = io.BytesIO(xlsx_bytes(unknown(MANY)))
    rows = list(openpyxl.load_workbook(book)["table"].iter_rows(min_row=2))
    assert [row[0].value for row in rows] == MANY
    assert {row[0].data_type for row in rows} == {"s"}
    assert all(row[0].hyperlink is None for row in rows)
    assert {row[1].data_type for row in rows} == {"n"}


def test_labels_that_are_numbers_stay_as_they_are() -> None:
    assert [inert(text) for text in ("-5", "+3.5", "-1e3", "0")] == ["-5", "+3.5", "-1e3", "0"]
    assert csv_text(unknown(["a", "b"], name="=cmd")).startswith("'=cmd,count")


def test_formulas_are_texts_in_xlsx_and_numbers_are_numbers() -> None:
    book = io.BytesIO(xlsx_bytes(unknown(HOSTILE)))
    rows = list(openpyxl.load_workbook(book)["table"].iter_rows(min_row=2))
    assert {row[0].data_type for row in rows} == {"s"}
    assert {row[1].data_type for row in rows} == {"n"}
    assert [row[0].value for row in rows[:-1]] == HOSTILE[:-1]  # openpyxl does not read the escape of the last one
    assert [row[1].value for row in rows] == [-i for i in range(1, len(HOSTILE) + 1)]


def test_quotation_marks_end_no_text_of_px() -> None:
    assert 'VALUES("label")="a”;DATA=1","b c";' in px_text(unknown(['a";DATA=1', "b\nc"]))
    with pytest.raises(QueryError, match="a PX file cannot hold the names of 'label'"):
        px_text(unknown(['a"', "a”"]))


def test_a_sheet_has_an_end() -> None:
    with pytest.raises(QueryError, match="must have at most 32,767 characters"):
        xlsx_bytes(unknown(["a" * 32_768, "b"]))


# The command


@pytest.mark.parametrize("ending", ["csv", "xlsx", "px", "parquet", "json"])
def test_a_files_name_says_its_format(ending: str, tmp_path: Path) -> None:
    views().save(tmp_path / "given.parquet")
    target = tmp_path / f"table.{ending}"
    assert run("table", str(tmp_path / "given.parquet"), "sex", "-o", str(target)).code == 0
    begins = {"csv": b"sex,count", "xlsx": b"PK", "px": b"CHARSET", "parquet": b"PAR1", "json": b"{"}
    assert target.read_bytes().startswith(begins[ending])


def test_sdmx_csv_goes_to_the_terminal_and_a_workbook_does_not(tmp_path: Path) -> None:
    views().save(tmp_path / "given.parquet")
    given = str(tmp_path / "given.parquet")
    assert run("table", given, "sex", "--format", "sdmx-csv").out.startswith("STRUCTURE,STRUCTURE_ID,ACTION,SEX: sex,")
    assert "xlsx is not text" in run("table", given, "sex", "--format", "xlsx").err


def test_csv_says_what_is_counted_where_a_unit_may_have_several_rows() -> None:
    """On each line, in a column that gives way to an attribute, on one line, and inert like any text."""
    about = About(rows="=visits\nat night", units="patients")
    for unit, said in (
        (Unit("person", 3), "'=visits at night, at most 3 of each patient"),
        (Unit.counted_once("person"), "patients, each divided over their =visits at night"),
    ):
        schema = Schema([Attribute("counted", ["a", "b"])], unit, about=about)
        table = Marginal(schema, [1.0, 2.0], method="m", error_kind=ErrorKind.NONE, uncertainty=None)
        frame = pd.read_csv(io.StringIO(csv_text(table)))
        assert list(frame.columns) == ["counted", "count", "std_error", "count_low", "count_high", "counted_"]
        assert frame["counted_"].tolist() == [said] * 2
        assert pd.read_csv(io.StringIO(csv_text(table, raw=True)))["counted_"][0] == said.lstrip("'")
