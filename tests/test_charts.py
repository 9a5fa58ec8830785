"""Charts have a bar for each cell, in the schema's order, and become pictures without a network."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crosstally import charts
from crosstally.charts import Roles, bar_chart, roles
from crosstally.errors import CrosstallyError, MissingExtraError, QueryError
from crosstally.schema import Attribute, Schema

SEX = Attribute("sex", ["Male", "Female"])
INCOME = Attribute("income", ["high", "low", "none"])
AGE = Attribute("age [years].x", edges=[0, 18, 30, 45, 65, 120])
EDUCATION = Attribute("éducation", [f"Lycée général et technologique n° {i}" for i in range(16)])
CITY = Attribute("city", [f"c{i}" for i in range(12)])


def chart_of(*attributes: Attribute, half_width: float | None = 5.0, **options: Any) -> dict[str, Any]:
    schema = Schema(attributes)
    values = 100.0 + np.arange(schema.cells).reshape(schema.shape)
    return dict(bar_chart(schema, values, half_width=half_width, **options).to_dict())


def layers(chart: dict[str, Any]) -> list[dict[str, Any]]:
    return list(chart.get("spec", chart)["layer"])


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ((SEX,), Roles(0)),
        ((SEX, AGE), Roles(1, colour=0)),
        ((AGE, SEX), Roles(0, colour=1)),
        ((SEX, Attribute("b", ["x", "y"])), Roles(0, colour=1)),
        ((CITY, EDUCATION), Roles(1, facet=0)),
        ((SEX, AGE, INCOME), Roles(1, colour=0, facet=2)),
    ],
)
def test_the_largest_attribute_runs_along_the_axis(attributes: tuple[Attribute, ...], expected: Roles) -> None:
    assert roles(Schema(attributes)) == expected


def test_one_attribute_has_a_bar_and_a_line_for_each_value() -> None:
    chart = chart_of(SEX, caption="ε = 1, add-remove, flat")
    assert chart["data"]["values"] == [
        {"a0": "Male", "count": 100.0, "low": 95.0, "high": 105.0},
        {"a0": "Female", "count": 101.0, "low": 96.0, "high": 106.0},
    ]
    bars, lines = layers(chart)
    assert (bars["mark"]["type"], lines["mark"]["type"]) == ("bar", "rule")
    assert bars["encoding"]["x"]["sort"] == ["Male", "Female"]
    assert (lines["encoding"]["y"]["field"], lines["encoding"]["y2"]["field"]) == ("low", "high")
    assert chart["title"]["text"] == "Count by sex"
    assert chart["title"]["subtitle"] == ["ε = 1, add-remove, flat", "lines are 95% intervals"]


def test_an_unknown_error_has_no_lines() -> None:
    chart = chart_of(SEX, half_width=None)
    assert [layer["mark"]["type"] for layer in layers(chart)] == ["bar"]
    assert set(chart["data"]["values"][0]) == {"a0", "count"}
    assert chart["title"]["subtitle"] == ["the error is not known"]


def test_intervals_may_have_sides_of_their_own() -> None:
    ends = np.array([1.0, 0.0]), np.array([9.0, 4.0])
    chart = bar_chart(Schema([SEX]), np.array([3.0, 2.0]), half_width=None, interval=ends).to_dict()
    assert [(each["low"], each["high"]) for each in chart["data"]["values"]] == [(1, 9), (0, 4)]
    assert "lines are 95% intervals" in chart["title"]["subtitle"]


def test_intervals_stop_at_zero_where_counts_do() -> None:
    schema = Schema([SEX])
    chart = bar_chart(schema, np.array([3.0, -2.0]), half_width=5.0).to_dict()
    assert [(r["low"], r["high"]) for r in chart["data"]["values"]] == [(0.0, 8.0), (-2.0, 3.0)]


def test_long_labels_lie_beside_horizontal_bars() -> None:
    bars = layers(chart_of(EDUCATION))[0]
    assert bars["encoding"]["y"]["sort"] == list(EDUCATION.labels)
    assert bars["encoding"]["x"]["field"] == "count"


def test_two_attributes_are_told_by_colour_and_three_by_small_charts() -> None:
    two = layers(chart_of(SEX, AGE))[0]["encoding"]
    assert (two["x"]["field"], two["xOffset"]["field"], two["color"]["field"]) == ("a1", "a0", "a0")
    assert two["color"]["scale"] == {"domain": ["Male", "Female"], "range": list(charts.PALETTE[:2])}
    three = chart_of(SEX, AGE, INCOME)
    assert three["facet"]["field"] == "a2"
    assert three["facet"]["sort"] == ["high", "low", "none"]
    assert three["title"]["text"] == "Count by sex, age [years].x and income"
    assert len(three["data"]["values"]) == 2 * 5 * 3


def test_bins_told_by_colour_have_shades_in_order() -> None:
    colour = layers(chart_of(EDUCATION, AGE))[0]["encoding"]["color"]
    assert colour["scale"]["scheme"] == "viridis"
    assert colour["scale"]["domain"] == list(AGE.labels)


def test_too_many_attributes_bars_or_values_are_refused() -> None:
    with pytest.raises(QueryError, match="over 1 to 3 attributes, got 4; ask for fewer attributes"):
        chart_of(SEX, AGE, INCOME, CITY)
    with pytest.raises(QueryError, match="over 1 to 3 attributes, got 0"):
        chart_of()
    with pytest.raises(QueryError, match="at most 1,000 bars, got 1,001"):
        chart_of(Attribute("code", [f"c{i}" for i in range(1001)]))
    ten = [Attribute(name, list("abcdefghi")) for name in "xyz"]
    with pytest.raises(QueryError, match="one attribute must have at most 8 values"):
        chart_of(*ten)
    for width in (0, 10_000, True, 2.5):
        with pytest.raises(QueryError, match="width must be a whole number from 100 to 4000"):
            chart_of(SEX, width=width)


@pytest.mark.parametrize("attributes", [(SEX,), (EDUCATION,), (SEX, AGE), (SEX, AGE, INCOME)])
def test_pictures_need_no_network(
    attributes: tuple[Attribute, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(socket.socket, "connect", never)
    schema = Schema(attributes)
    chart = bar_chart(schema, np.full(schema.shape, 1234.0), half_width=10)
    for suffix in ("svg", "png", "json"):
        charts.save(chart, tmp_path / f"chart.{suffix}")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    drawn = (tmp_path / "chart.svg").read_text(encoding="utf-8")
    assert drawn.startswith("<svg")
    for label in schema.attributes[0].labels[:2]:
        assert label in drawn
    assert json.loads((tmp_path / "chart.json").read_text(encoding="utf-8"))["title"]["text"].startswith("Count by ")


def test_the_picture_is_the_same_each_time(tmp_path: Path) -> None:
    schema = Schema([SEX])
    for name in ("one.svg", "two.svg"):
        charts.save(bar_chart(schema, np.array([3.0, 4.0]), half_width=1), tmp_path / name)
    assert (tmp_path / "one.svg").read_text() == (tmp_path / "two.svg").read_text()


def test_other_suffixes_and_places_are_named(tmp_path: Path) -> None:
    chart = bar_chart(Schema([SEX]), np.array([3.0, 4.0]), half_width=1)
    with pytest.raises(QueryError, match=r"a chart must be saved as \.svg, \.png, \.json, got 'chart\.pdf'"):
        charts.save(chart, tmp_path / "chart.pdf")
    with pytest.raises(CrosstallyError, match="cannot write .*there is no folder"):
        charts.save(chart, tmp_path / "nowhere" / "chart.svg")


def test_drawing_names_the_extra_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chart = bar_chart(Schema([SEX]), np.array([3.0, 4.0]), half_width=1)

    def refuse(module: str) -> None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr("crosstally.checks.import_module", refuse)
    with pytest.raises(MissingExtraError, match=r"vl-convert-python is not installed: .*crosstally\[charts\]"):
        charts.save(chart, tmp_path / "chart.svg")


def test_shares_and_differences_are_not_called_counts() -> None:
    schema = Schema([Attribute("sex", ["f", "m"])])
    chart = bar_chart(schema, np.array([0.4, 0.6]), half_width=None, quantity="share").to_dict()
    assert chart["title"]["text"] == "Share by sex"
    assert '"title": "share"' in json.dumps(chart)
    assert '"title": "count"' not in json.dumps(chart)
