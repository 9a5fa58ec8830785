"""PriView's charts of errors: candlesticks on a logarithmic scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from crosstally_lab.papers.charts import STAR, category, chart, dots, layer, quantity, ticks
from crosstally_lab.papers.outcomes import Value

_INK, _BOX, _BEST, _STAR = "#333333", "#56B4E9", "#D55E00", "#7b3294"
_LEGEND = (
    "line: 25th to 95th percentile over tables, box: 50th to 75th, bar: mean; each table averaged over",
    "triangle and orange box: the method with the least mean (methods marked * have no noise and do not count)",
)
_METRICS = {"L2 / N": "L2 distance / number of rows", "Jensen-Shannon": "Jensen-Shannon divergence"}
# Pixels for each method, and of the narrowest and the widest panel: three stand side by side on a page.
_STEP, _NARROWEST, _WIDEST = 17, 180, 235
_LEAST = 1e-6  # a logarithm cannot show an error of 0; no error of the paper is as small


def candlesticks(
    rows: Iterable[Mapping[str, Value]],
    *,
    title: str,
    order: Sequence[str],
    metric: str = "L2 / N",
    star: str | None = None,
    star_words: str = "equation (5)",
    runs: str = "five runs (crosstally: two)",
    compared: bool = True,
) -> dict[str, Any]:
    """A line from the 25th to the 95th percentile, a box from the 50th to the 75th and the mean, for each method.

    There is a column of panels for each k, and a row of panels for each data set and epsilon. The method with the least
    mean of a panel has a triangle below it and an orange box; methods without noise, whose names end in a star, are not
    compared. ``star`` names a column of the rows that is drawn as a star, ``star_words`` says what it is, ``runs`` how
    many there were. Without ``compared`` nothing is marked: what stands side by side are no rivals.
    """
    values = [_value(row, star) for row in rows if row["metric"] == metric]
    for panel in {(value["panel"], value["ways"]) for value in values}:
        there = [each for each in values if (each["panel"], each["ways"]) == panel and not each["method"].endswith("*")]
        min(there, key=lambda value: value["mean"])["best"] = compared
    lowest = min(min(value["p25"], value.get("star", value["p25"])) for value in values)
    low = lowest * (0.5 if compared else 0.8)  # room for a triangle
    high = max(max(value["p95"], value["mean"], value.get("star", 0.0)) for value in values) * 1.25
    panels, columns = (list(dict.fromkeys(value[name] for value in values)) for name in ("panel", "ways"))
    header = {"labelExpr": "split(datum.label, '|')", "labelFontSize": 11, "labelAngle": -90, "labelPadding": 4}
    return chart(
        values,
        *_layers((low, high), _METRICS.get(metric, metric), order, star),
        title=title,
        caption=[
            f"{_LEGEND[0]} {runs}",
            *([_LEGEND[1]] if compared else []),
            *([f"star: {star_words}"] if star else []),
        ],
        panels={
            "row": category("panel", sort=panels, title=None, header=header),
            "column": category("ways", sort=columns, title=None),
        },
        pale_grid=True,
        width=min(max(_NARROWEST, _STEP * len(order)), _WIDEST),
        height=190,
    )


def _value(row: Mapping[str, Value], star: str | None) -> dict[str, Any]:
    """A row with the names of its panel; numbers that a logarithm cannot show become the least."""
    shown = {name: max(float(row[name] or 0), _LEAST) for name in ("p25", "p50", "p75", "p95", "mean")}
    value = {
        **row,
        **shown,
        "best": False,
        "panel": f"{row['data']}|ε = {row['epsilon']:g}",
        "ways": f"tables over {row['k']} attributes",
    }
    return value if star is None or row[star] is None else {**value, "star": row[star]}


def _layers(
    domain: tuple[float, float], title: str, order: Sequence[str], star: str | None
) -> Iterable[dict[str, Any]]:
    x = category("method", sort=list(order), title=None, axis={"labelAngle": -60, "labelLimit": 200})
    axis = {"values": ticks(*domain), "format": "~g", "title": title}

    def over(mark: Mapping[str, Any], field: str, **ends: Any) -> dict[str, Any]:
        return layer(mark, x=x, y=quantity(field, log=True, domain=domain, axis=axis), **ends)

    yield over({"type": "rule", "color": _INK}, "p25", y2={"field": "p95"})

    winner = {"condition": {"test": "datum.best", "value": _BEST}, "value": _BOX}
    yield over({"type": "bar", "width": 9}, "p50", y2={"field": "p75"}, color=winner)
    yield over({"type": "tick", "thickness": 3, "width": 13, "opacity": 1, "color": _INK}, "mean")
    below = {"yOffset": 9}  # pixels: under the lower end of the line
    yield {
        **over(dots(50, shape="triangle-up", color=_BEST, opacity=1, **below), "p25"),
        "transform": [{"filter": "datum.best"}],
    }
    if star is not None:
        yield over(dots(60, shape=STAR, color=_STAR, opacity=1), "star")
