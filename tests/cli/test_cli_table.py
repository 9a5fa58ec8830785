"""Conditions, formats and the look of tables, on answers made by hand."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pytest

from crosstally.cli.output.rendering import show
from crosstally.cli.output.screen import UNBOUNDED, Screen
from crosstally.errors import QueryError
from crosstally.exports import formats
from crosstally.exports.selection import Selection, read_conditions, select
from crosstally.schema import Attribute, Schema
from crosstally.tables import ErrorKind, Marginal

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


def marginal(*names: str, known: bool = True) -> Marginal:
    """The cells are 1000, 1001, 1002, ... in order."""
    part = SCHEMA.subset(*names)
    return Marginal(
        part,
        1000 + np.arange(part.cells, dtype=float).reshape(part.shape),
        method="least-squares",
        error_kind=ErrorKind.EXACT if known else ErrorKind.NONE,
        error=Known() if known else None,
        caption="ε = 1",
    )


def shown(selection: Selection, width: int = UNBOUNDED) -> list[str]:
    text = io.StringIO()
    show(selection, Screen(text, width=width))
    return text.getvalue().splitlines()


# Conditions


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("", {}),
        (None, {}),
        ("sex=Female", {"sex": "Female"}),
        ("  sex  ==  Female  ", {"sex": "Female"}),
        ("sex = 'Female' and age group = [18, 120]", {"sex": "Female", "age group": "[18, 120]"}),
        ("age group=[0, 18) AND sex=Male", {"age group": "[0, 18)", "sex": "Male"}),
        ("diet = Bread and butter", {"diet": "Bread and butter"}),
        ("diet = Bread and butter and sex = Male", {"diet": "Bread and butter", "sex": "Male"}),
        ('diet = "a=b" and sex=Male', {"diet": "a=b", "sex": "Male"}),
        ("diet=(missing)", {"diet": "(missing)"}),
        ("rooms=1.0", {"rooms": "1"}),
        ("rooms=2.5", {"rooms": "2.50"}),
    ],
)
def test_conditions_are_read(text: str | None, conditions: dict[str, str]) -> None:
    assert read_conditions(text, SCHEMA) == conditions


@pytest.mark.parametrize("text", ["Female", "sex", "sex=", "=Female", "sex=Female and", "sex=Female or sex=Male"])
def test_other_conditions_are_refused(text: str) -> None:
    with pytest.raises(QueryError):
        read_conditions(text, SCHEMA)


def test_an_unknown_label_names_the_known_ones() -> None:
    with pytest.raises(QueryError) as caught:
        read_conditions("diet=Rice", SCHEMA)
    assert str(caught.value) == "'diet' has no label 'Rice'; it has Bread and butter, a=b, (missing)"


def test_a_condition_selects_cells() -> None:
    chosen = select(marginal("diet", "sex"), ("diet",), {"sex": "Male"}, level=None)
    assert list(chosen.cells()) == [
        (("Bread and butter", "Male"), 1001.0),
        (("a=b", "Male"), 1003.0),
        (("(missing)", "Male"), 1005.0),
    ]


# Formats


def test_csv() -> None:
    text = formats.csv_text(select(marginal("sex", "age group"), ("sex", "age group"), {}, level=None))
    assert text == (
        "sex,age group,count,std_error\n"
        'Female,"[0, 18)",1000.0,21.4\n'
        'Female,"[18, 120]",1001.0,21.4\n'
        'Male,"[0, 18)",1002.0,21.4\n'
        'Male,"[18, 120]",1003.0,21.4\n'
    )


def test_csv_leaves_an_unknown_error_empty() -> None:
    text = formats.csv_text(select(marginal("sex", known=False), ("sex",), {}, level=None))
    assert text.splitlines()[1] == "Female,1000.0,"


def test_json_stat_is_a_dataset_of_version_2() -> None:
    """Every member that the JSON-stat 2.0 standard asks of a dataset, and values in row-major order."""
    found = json.loads(formats.json_stat_text(select(marginal("sex", "diet"), ("sex", "diet"), {}, level=None)))
    assert (found["version"], found["class"]) == ("2.0", "dataset")
    assert found["id"] == ["sex", "diet"]
    assert found["size"] == [2, 3]
    assert found["dimension"]["diet"]["category"] == {
        "index": ["Bread and butter", "a=b", "(missing)"],
        "label": {"Bread and butter": "Bread and butter", "a=b": "a=b", "(missing)": "(missing)"},
    }
    assert found["value"] == [1000.0, 1001.0, 1002.0, 1003.0, 1004.0, 1005.0]
    assert found["extension"]["std_error"] == [21.4] * 6


def test_json_has_no_number_that_json_does_not_have() -> None:
    found = json.loads(formats.json_text(select(marginal("sex", known=False), ("sex",), {}, level=0.95)))
    assert (found["std_error"], found["margin"], found["error_kind"]) == (None, None, "none")


def test_columns_of_numbers_give_way_to_attributes() -> None:
    schema = Schema([Attribute("count", ["low", "high"])])
    odd = Marginal(schema, np.array([1.0, 2.0]), method="m", error_kind=ErrorKind.EXACT, error=Known())
    table = formats.arrow(select(odd, ("count",), {}, level=None))
    assert table.column_names == ["count", "count_", "std_error"]
    assert table.to_pylist()[1] == {"count": "high", "count_": 2.0, "std_error": 21.4}


# The look


def test_two_attributes_make_a_crosstab() -> None:
    assert shown(select(marginal("sex", "diet"), ("sex", "diet"), {}, level=None)) == [
        "sex by diet",
        "",
        "sex \\ diet   Bread and butter          a=b    (missing)",
        "Female             1,000 ± 21   1,001 ± 21   1,002 ± 21",
        "Male               1,003 ± 21   1,004 ± 21   1,005 ± 21",
        "",
        "±: one standard error. The true count is usually within it, and almost always within twice that.",
    ]


def test_a_narrow_terminal_gets_the_long_form() -> None:
    lines = shown(select(marginal("sex", "diet"), ("sex", "diet"), {}, level=0.95), width=50)
    assert lines[2:4] == ["sex      diet                    count", "Female   Bread and butter   1,000 ± 41"]
    assert lines[-2:] == ["±: the true count is within this margin with 95%", "confidence."]


def test_an_unknown_error_is_a_question_mark_and_says_why() -> None:
    lines = shown(select(marginal("sex", known=False), ("sex",), {}, level=None))
    assert lines[3] == "Female   1,000 ± ?"
    assert lines[-1].startswith("± ?: this combination of attributes was never measured")


def test_labels_cannot_steer_the_terminal_or_its_styles() -> None:
    schema = Schema([Attribute("[bold]x", ["\x1b[31mred\x1b[0m", ":smile:", "[/bold]"])])
    odd = Marginal(schema, np.zeros(3), method="m", error_kind=ErrorKind.NONE, error=None)
    lines = shown(select(odd, ("[bold]x",), {}, level=None))
    assert lines[0] == "[bold]x"
    assert [line.split("  ")[0] for line in lines[3:6]] == ["�[31mred�[0m", ":smile:", "[/bold]"]


def test_the_margin_is_not_known_when_the_error_is_not() -> None:
    assert math.isnan(select(marginal("sex", known=False), ("sex",), {}, level=0.95).margin)


def test_numbers_are_never_cut_however_narrow_the_terminal() -> None:
    lines = shown(select(marginal("diet"), ("diet",), {}, level=None), width=12)
    assert [line.split("   ")[-1] for line in lines if "±" in line][:3] == ["1,000 ± 21", "1,001 ± 21", "1,002 ± 21"]


def test_a_long_table_is_shown_in_part_and_says_so() -> None:
    schema = Schema([Attribute(f"a{i}", [str(j) for j in range(11)]) for i in range(3)])
    long = Marginal(schema, np.zeros((11, 11, 11)), method="m", error_kind=ErrorKind.EXACT, error=Known())
    lines = shown(select(long, ("a0", "a1", "a2"), {}, level=None))
    assert len([line for line in lines if line.endswith("0 ± 21")]) == 1000
    assert "These are the first lines of 1,331 cells; --format csv has all of them." in lines
