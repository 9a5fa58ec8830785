"""The helper for charts: specifications written out by hand, and some drawn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from crosstally_lab.papers.charts import (
    category,
    chart,
    curves,
    dots,
    in_lanes,
    in_order,
    layer,
    least,
    legend,
    logarithmic,
    looks,
    points,
    quantity,
    rings,
    stacked,
)
from crosstally_lab.papers.outcomes import drawn

ROWS = [{"d": 8, "error": 2.0, "method": "ours"}, {"d": 9, "error": 40.0, "method": "theirs"}]
PLACE = {"x": quantity("d"), "y": quantity("error", log=True, domain=(1, 100), title="RMSE")}
ENCODING = {
    "x": {"field": "d", "type": "quantitative"},
    "y": {
        "field": "error",
        "type": "quantitative",
        "scale": {"type": "log", "domain": [1, 100]},
        "title": "RMSE",
    },
}


def test_one_layer_is_a_plain_chart() -> None:
    found = chart(ROWS, layer("line", **PLACE), title="Errors", width=300)
    assert found.pop("config")["background"] == "white"
    assert found == {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {"text": "Errors", "anchor": "start"},
        "data": {"values": ROWS},
        "width": 300,
        "mark": "line",
        "encoding": ENCODING,
    }


def test_layers_stand_in_panels_below_a_title_with_a_caption() -> None:
    colour = category("method", ["red", "blue"], title=None)
    found = chart(
        ROWS,
        layer("line", **PLACE),
        layer(dots(60), ROWS[:1], **PLACE, color=colour),
        title="Errors",
        caption="of five draws",
        panels=category("method"),
        across=3,
        pale_grid=True,
    )
    assert found["title"] == {"text": "Errors", "subtitle": "of five draws", "anchor": "start"}
    assert (found["facet"], found["columns"]) == ({"field": "method", "type": "nominal"}, 3)
    assert found["spec"]["layer"] == [
        {"mark": "line", "encoding": ENCODING},
        {
            "data": {"values": ROWS[:1]},
            "mark": {"type": "point", "filled": True, "size": 60},
            "encoding": {
                **ENCODING,
                "color": {
                    "field": "method",
                    "type": "nominal",
                    "title": None,
                    "scale": {"range": ["red", "blue"]},
                },
            },
        },
    ]
    assert found["config"]["axis"] == {"gridColor": "#e8e8e8"}


# How methods are told apart


def test_nine_methods_differ_in_colour_in_shape_and_in_dashes() -> None:
    found = looks("abcdefghi").values()
    for differs in ("colour", "shape", "dash"):
        assert len({getattr(look, differs) for look in found}) == 9


def test_a_legend_is_above_the_plot_in_rows_of_the_same_length() -> None:
    """Ten letters and a symbol take 90 pixels: four columns fit 400, and six names fill two rows of three."""
    found = legend(["a" * 10] * 6, width=400)
    assert (found["orient"], found["columns"]) == ("top", 3)
    assert legend(["a" * 100, "b"], width=400)["columns"] == 1


def sizes(channel: Mapping[str, Any]) -> dict[str, float]:
    return {each["test"]["equal"]: each["value"] for each in channel["condition"]}


def test_nested_lines_are_thinner_and_points_smaller_the_later_their_name() -> None:
    line, dot = (part["encoding"] for part in curves("method", looks("abc"), nested=True, **PLACE))
    assert sizes(line["strokeWidth"]) == {"a": 4, "b": 2.7, "c": 1.4}
    assert sizes(dot["size"]) == {"a": 100, "b": 67.5, "c": 35}
    assert "size" not in points("method", looks("abc"), **PLACE)["encoding"]


def test_nested_lines_are_drawn_so_and_symbols_of_the_legend_have_no_outline() -> None:
    rows = [{"d": d, "error": 2.0, "method": name} for name in "ab" for d in (1, 2)]
    svg = drawn(chart(rows, *curves("method", looks("ab"), nested=True, **PLACE), title="same errors"))
    lines = re.findall(r'aria-roledescription="line mark".*?stroke-width="([0-9.]+)"', svg)
    assert lines == ["4", "1.4"]
    assert re.findall(r'role-legend-symbol".*?stroke-width="([0-9.]+)"', svg) == ["0", "0"]


def test_later_names_are_drawn_above_earlier_ones() -> None:
    assert [row["method"] for row in in_order(ROWS, "method", ["theirs", "ours"])] == ["theirs", "ours"]


def test_methods_with_the_same_error_have_lanes_of_their_own() -> None:
    same = [{"epsilon": 0.5, "sse": 1.0, "method": name} for name in ("calm", "best", "default")]
    found = in_lanes(same, "epsilon", ["default", "calm", "best", "other"], step=0.02)
    assert [(row["method"], round(row["at"], 9)) for row in found] == [
        ("calm", 0.49),
        ("best", 0.51),
        ("default", 0.47),
    ]
    assert {row["epsilon"] for row in found} == {0.5}


def test_the_least_error_of_each_setting_is_the_best_one_of_those_compared() -> None:
    rows = [
        {"epsilon": epsilon, "method": name, "sse": sse}
        for epsilon, errors in ((1, (3.0, 2.0, 1.0)), (2, (1.0, 1.5, 0.5)))
        for name, sse in zip(("ours", "theirs", "truth"), errors, strict=True)
    ]
    best = [
        (row["epsilon"], row["method"])
        for row in least(rows, "sse", within=["epsilon"], among=["ours", "theirs"])
        if row["best"]
    ]
    assert best == [(1, "theirs"), (2, "ours")]
    assert [row["method"] for row in least(rows, "sse", within=["epsilon"]) if row["best"]] == ["truth", "truth"]
    assert rings(**PLACE)["transform"] == [{"filter": "datum.best"}]


def test_an_axis_of_a_few_settings_is_marked_at_them() -> None:
    assert logarithmic("n", [500, 1000, 500], marked=[1000, 500, 1000])["axis"]["values"] == [500, 1000]


# Drawn


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_charts_above_each_other_have_a_legend_each_and_nothing_is_undefined() -> None:
    values = least(ROWS, "error", within=["d"])
    marks = [*curves("method", looks(["ours", "theirs"]), **PLACE), rings(**PLACE)]
    upper, lower = (chart(values, *marks, title=title) for title in ("First one", "Second one"))
    found = texts(drawn(stacked([upper, lower])))
    assert found.index("First one") < found.index("Second one")
    assert (found.count("ours"), found.count("theirs")) == (2, 2)
    assert not [text for text in found if "undefined" in text or "null" in text]
