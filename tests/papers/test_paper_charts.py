"""The helper for charts: specifications written out by hand, and one drawn."""

from __future__ import annotations

from crosstally.papers.charts import LINE, category, chart, dots, layer, quantity, stacked

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
    assert chart(ROWS, layer(LINE, **PLACE), title="Errors", width=300) == {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": "Errors",
        "data": {"values": ROWS},
        "width": 300,
        "mark": {"type": "line", "point": True},
        "encoding": ENCODING,
        "config": {"background": "white"},
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


def test_charts_above_each_other_are_drawn_without_a_network() -> None:
    import vl_convert

    upper, lower = (chart(ROWS, layer(dots(), **PLACE), title=title) for title in ("First one", "Second one"))
    drawn = vl_convert.vegalite_to_svg(stacked([upper, lower]))
    assert drawn.index("First one") < drawn.index("Second one")
