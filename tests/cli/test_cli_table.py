"""Formats and the look of tables, on answers made by hand."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from cli_runs import ran_well, run
from conftest import schema_of
from crosstally.answers.marginal import ErrorKind, Marginal
from crosstally.answers.uncertainty import Bounds, LinearLaw
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.cli.output.rendering import show
from crosstally.cli.output.screen import UNBOUNDED, Screen
from crosstally.exports.csv_table import csv_text
from crosstally.exports.json_tables import json_stat_text, json_text
from crosstally.exports.parquet_table import parquet_pieces
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells
from crosstally.releases import Statement, publish
from crosstally.schema import Attribute, Schema
from released import views

SCHEMA = Schema(
    [
        Attribute("sex", ["Female", "Male"]),
        Attribute("diet", ["Bread and butter", "a=b"], missing=True),
        Attribute("age group", edges=[0, 18, 120]),
        Attribute("rooms", ["1", "2.50"]),
    ]
)


class Known:
    """An error of 21 in every cell, 41 at 95%."""

    std_error = 21.4

    def half_width(self, level: float) -> float:
        return {0.95: 41.0}[level]


class Unequal:
    """An error of 3 in the first cell and 4 in the second; twice that at any level."""

    std_error = np.array([3.0, 4.0])

    def half_width(self, level: float) -> np.ndarray:
        return 2 * self.std_error


KNOWN = LinearLaw(None, Known())
ENDS = Bounds(ends=lambda _, values, level: (values - 20, values + 60))
"""From 20 below to 60 above each value."""


def marginal(*names: str, known: bool = True) -> Marginal:
    """The cells are 1000, 1001, 1002, ... in order."""
    part = SCHEMA.subset(*names)
    return Marginal(
        part,
        1000 + np.arange(part.cells, dtype=float).reshape(part.shape),
        method="least-squares",
        error_kind=ErrorKind.EXACT if known else ErrorKind.NONE,
        uncertainty=KNOWN if known else None,
        caption="ε = 1",
    )


def shown(answer: Marginal, width: int = UNBOUNDED, level: float | None = None) -> list[str]:
    text = io.StringIO()
    show(answer, Screen(text, width=width), level=level)
    return text.getvalue().splitlines()


# Formats


def test_csv() -> None:
    text = csv_text(marginal("sex", "age group"))
    assert text == (
        "sex,age group,count,std_error,count_low,count_high\n"
        'Female,"[0, 18)",1000.0,21.4,959.0,1041.0\n'
        'Female,"[18, 120]",1001.0,21.4,960.0,1042.0\n'
        'Male,"[0, 18)",1002.0,21.4,961.0,1043.0\n'
        'Male,"[18, 120]",1003.0,21.4,962.0,1044.0\n'
    )


def test_csv_leaves_an_unknown_error_empty() -> None:
    text = csv_text(marginal("sex", known=False))
    assert text.splitlines()[1] == "Female,1000.0,,,"


def test_json_stat_is_a_dataset_of_version_2() -> None:
    """Every member that the JSON-stat 2.0 standard asks of a dataset, and values in row-major order."""
    found = json.loads(json_stat_text(marginal("sex", "diet")))
    assert (found["version"], found["class"]) == ("2.0", "dataset")
    assert found["id"] == ["sex", "diet"]
    assert found["size"] == [2, 3]
    assert found["dimension"]["diet"]["category"] == {
        "index": ["Bread and butter", "a=b", "(missing)"],
        "label": {"Bread and butter": "Bread and butter", "a=b": "a=b", "(missing)": "(missing)"},
    }
    assert found["value"] == [1000.0, 1001.0, 1002.0, 1003.0, 1004.0, 1005.0]
    assert found["extension"]["std_error"] == [21.4] * 6
    assert found["extension"]["count_low"] == [959.0, 960.0, 961.0, 962.0, 963.0, 964.0]
    assert found["extension"]["interval_level"] == 0.95


def test_json_has_no_number_that_json_does_not_have() -> None:
    found = json.loads(json_text(marginal("sex", known=False), level=0.95))
    assert (found["std_error"], found["margin"], found["error_kind"]) == (None, None, "none")


def parquet_of(answer: Marginal) -> pa.Table:
    return pyarrow.parquet.read_table(io.BytesIO(b"".join(parquet_pieces(answer))))


def test_columns_of_numbers_give_way_to_attributes() -> None:
    schema = Schema([Attribute("count", ["low", "high"])])
    odd = Marginal(schema, np.array([1.0, 2.0]), method="m", error_kind=ErrorKind.EXACT, uncertainty=KNOWN)
    table = parquet_of(odd)
    assert table.column_names == ["count", "count_", "std_error", "count_low", "count_high"]
    numbers = {"count_": 2.0, "std_error": 21.4, "count_low": -39.0, "count_high": 43.0}
    assert table.to_pylist()[1] == {"count": "high", **numbers}


# The look


def test_two_attributes_make_a_crosstab() -> None:
    assert shown(marginal("sex", "diet")) == [
        "sex by diet",
        "",
        "sex \\ diet   Bread and butter          a=b    (missing)",
        "Female             1,000 ± 21   1,001 ± 21   1,002 ± 21",
        "Male               1,003 ± 21   1,004 ± 21   1,005 ± 21",
        "",
        "±: one standard error. The true count is usually within it, and almost always within twice that.",
    ]


def test_a_narrow_terminal_gets_the_long_form() -> None:
    lines = shown(marginal("sex", "diet"), width=50, level=0.95)
    assert lines[2:4] == ["sex      diet                    count", "Female   Bread and butter   1,000 ± 41"]
    assert lines[-2:] == ["±: the true count is within this margin with 95%", "confidence."]


def test_an_unknown_error_is_a_question_mark_and_says_why() -> None:
    lines = shown(marginal("sex", known=False))
    assert lines[3] == "Female   1,000 ± ?"
    assert lines[-1].startswith("± ?: this combination of attributes was never measured")


def test_intervals_are_shown_where_there_are_any() -> None:
    corrected = replace(marginal("sex"), error_kind=ErrorKind.CORRECTED, uncertainty=ENDS, corrected=True)
    assert shown(corrected)[-1].startswith("(... to ...): the true count is within this interval with 95% confidence")
    lines = shown(corrected, level=0.9)
    assert lines[3] == "Female   1,000 (980 to 1,060)"
    assert lines[-1].startswith("(... to ...): the true count is within this interval with 90% confidence")
    assert json.loads(json_text(corrected, level=0.95))["cells"][0]["high"] == 1060
    modelled = replace(marginal("sex", "diet", known=False), error_kind=ErrorKind.MODELLED, uncertainty=ENDS)
    lines = shown(modelled)
    assert lines[3].split("   ")[-1].strip() == "1,002 (982 to 1,062)"
    assert "95% confidence. Interactions that nobody measured are assumed to be" in lines[-1]
    bounds = replace(modelled, error_kind=ErrorKind.BOUNDS)
    assert "Nothing is assumed about what was never measured" in shown(bounds)[-1]
    assert json.loads(json_text(bounds))["assumption"].startswith("nothing is assumed about what was never measured")


def test_labels_cannot_steer_the_terminal_or_its_styles() -> None:
    schema = Schema([Attribute("[bold]x", ["\x1b[31mred\x1b[0m", ":smile:", "[/bold]"])])
    odd = Marginal(schema, np.zeros(3), method="m", error_kind=ErrorKind.NONE, uncertainty=None)
    lines = shown(odd)
    assert lines[0] == "[bold]x"
    assert [line.split("  ")[0] for line in lines[3:6]] == ["�[31mred�[0m", ":smile:", "[/bold]"]


def test_the_margin_is_not_known_when_the_error_is_not() -> None:
    assert shown(marginal("sex", known=False), level=0.95)[3] == "Female   1,000 ± ?"


def test_cells_with_errors_of_their_own() -> None:
    """A condition that is not the same for all labels: one error for each cell, in every format."""
    answer = replace(marginal("sex"), uncertainty=LinearLaw(None, Unequal()), where="sex = Female or rooms = 1")
    assert csv_text(answer) == (
        "sex,count,std_error,count_low,count_high\nFemale,1000.0,3.0,994.0,1006.0\nMale,1001.0,4.0,993.0,1009.0\n"
    )
    found = json.loads(json_text(answer, level=0.95))
    assert (found["where"], found["std_error"], found["margin"]) == ("sex = Female or rooms = 1", None, None)
    assert found["cells"] == [
        {"labels": ["Female"], "count": 1000.0, "std_error": 3.0, "margin": 6.0, "low": 994.0, "high": 1006.0},
        {"labels": ["Male"], "count": 1001.0, "std_error": 4.0, "margin": 8.0, "low": 993.0, "high": 1009.0},
    ]
    dataset = json.loads(json_stat_text(answer))
    assert dataset["label"] == "sex, where sex = Female or rooms = 1"
    extension = dataset["extension"]
    assert (extension["std_error"], extension["where"]) == ([3.0, 4.0], "sex = Female or rooms = 1")
    assert parquet_of(answer).column("std_error").to_pylist() == [3.0, 4.0]
    lines = shown(answer, level=0.95)
    assert lines[0] == "sex, where sex = Female or rooms = 1"
    assert lines[3:5] == ["Female   1,000 (994 to 1,006)", "Male     1,001 (993 to 1,009)"]


def test_a_table_without_a_condition_says_one_error_for_all() -> None:
    found = json.loads(json_text(marginal("sex")))
    assert (found["where"], found["std_error"], found["margin"]) == (None, 21.4, 21.4)
    assert (found["level"], found["interval_level"]) == (None, 0.95)
    ends = {"low": 960.0, "high": 1042.0}
    assert found["cells"][1] == {"labels": ["Male"], "count": 1001.0, "std_error": 21.4, "margin": 21.4, **ends}


def test_numbers_are_never_cut_however_narrow_the_terminal() -> None:
    lines = shown(marginal("diet"), width=12)
    assert [line.split("   ")[-1] for line in lines if "±" in line][:3] == ["1,000 ± 21", "1,001 ± 21", "1,002 ± 21"]


def test_a_long_table_is_shown_in_part_and_says_so() -> None:
    schema = Schema([Attribute(f"a{i}", [str(j) for j in range(11)]) for i in range(3)])
    long = Marginal(schema, np.zeros((11, 11, 11)), method="m", error_kind=ErrorKind.EXACT, uncertainty=KNOWN)
    lines = shown(long)
    assert len([line for line in lines if line.endswith("0 ± 21")]) == 1000
    assert "These are the first lines of 1,331 cells; --format csv has all of them." in lines


def test_whole_tables_are_those_of_the_whole_rows(tmp_path: Path) -> None:
    """Two tables and the rows come from three commands and agree; the distance is told on stderr."""
    schema = schema_of(2, 3, 2)
    rng = np.random.default_rng(1)
    noise = Noise(NoiseKind.LAPLACE, 2.0)
    measured = [
        Measurement(
            Cells(names), rng.integers(0, 40, schema.sizes(names)), variance=noise.variance, noise=noise, origin="test"
        )
        for names in (("a0", "a1"), ("a1", "a2"))
    ]
    told = Statement(strategy="views", budget=Budget(epsilon=1), neighbours=Neighbours.ADD_REMOVE)
    path = tmp_path / "people.release.parquet"
    publish(schema, measured, told).save(path)
    ran_well("synth", path, "--whole", "-o", tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for names, where in ((("a0", "a1"), None), (("a1",), "a2 = 1"), (("a0", "a1", "a2"), None)):
        more = () if where is None else ("--where", where)
        ran = ran_well("table", path, *names, "--whole", "-f", "csv", *more)
        assert f"Whole numbers, of one table of {len(rows)} rows: the total variation to the real-valued" in ran.err
        assert ("Only tables of one and two attributes were fitted" in ran.err) == (len(names) == 3)
        for cell in csv.DictReader(io.StringIO(ran.out)):
            same = [row for row in rows if all(row[name] == cell[name] for name in names)]
            assert float(cell["count"]) == sum(where is None or row["a2"] == "1" for row in same)
            assert float(cell["count_low"]) <= float(cell["count"]) <= float(cell["count_high"])
    assert "leave out --method" in run("table", path, "a0", "--whole", "--method", "least-squares").err


def test_draws_and_the_population(tmp_path: Path) -> None:
    file, release = tmp_path / "people.release.parquet", views()
    release.save(file)
    table = release.marginal("sex")
    read = pd.read_csv(io.StringIO(run("table", file, "sex", "-f", "csv", "--draws").out))
    np.testing.assert_allclose(read.filter(like="draw_").to_numpy().T, table.draws())
    assert (
        run("table", file, "sex", "--draws")
        .err.strip()
        .endswith("draws are written as csv or parquet: say --format csv")
    )
    people = run("table", file, "sex", "--of", "population", "--design-effect", "1.5").out
    assert "the mean count of such samples of the population is within this interval" in people
    assert (
        run("table", file, "sex", "--of", "sample")
        .err.strip()
        .endswith("--of must be table or population, got 'sample'")
    )
    refused = run("table", file, "sex", "--whole", "--draws", "-f", "csv")
    assert "leave out --draws" in refused.err


def test_inspect_has_no_long_lines_in_a_pipe(tmp_path: Path) -> None:
    """A label of eleven long words is on several lines, whole."""
    words = " ".join(["extraordinarily"] * 11)
    schema = Schema([Attribute("opinion", [words, "none"])])
    noise = Noise(NoiseKind.LAPLACE, 2.0)
    measured = Measurement(Cells(("opinion",)), np.array([30, 40]), variance=noise.variance, noise=noise, origin="test")
    told = Statement(strategy="views", budget=Budget(epsilon=1), neighbours=Neighbours.ADD_REMOVE)
    path = tmp_path / "people.release.parquet"
    publish(schema, [measured], told).save(path)
    lines = ran_well("inspect", path).out.splitlines()
    assert max(map(len, lines)) <= 96
    assert sum(line.count("extraordinarily") for line in lines) == 11
