"""PriView's charts of errors: candlesticks on a logarithmic scale, as Vega-Lite."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from crosstally.papers.outcomes import Value

__all__ = ["candlesticks", "stacked", "ticks"]

_INK, _BOX, _MEAN, _STAR = "#333333", "#4c78a8", "#d62728", "#7b3294"
_LEGEND = "line: 25th to 95th percentile over tables, box: 50th to 75th, red: mean; each table averaged over five runs"
_LEAST = 1e-6
_STEPS = ((0.8, (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)), (1.8, (1.0, 2.0, 5.0)), (math.inf, (1.0,)))


def candlesticks(
    rows: Iterable[Mapping[str, Value]],
    *,
    title: str,
    order: Sequence[str],
    metric: str = "L2 / N",
    star: str | None = None,
) -> dict[str, Any]:
    """A line from the 25th to the 95th percentile, a box from the 50th to the 75th and the mean, for each method.

    There is a column of panels for each k, and a row of panels for each data set and epsilon. ``star`` names a column
    of the rows that is drawn as a star beside the candlestick.
    """
    values = [_value(row, star) for row in rows if row["metric"] == metric]
    low = min(value["p25"] for value in values) * 0.8
    high = max(max(value["p95"], value["mean"], value.get("star", 0.0)) for value in values) * 1.25
    y = {
        "type": "quantitative",
        "scale": {"type": "log", "domain": [low, high], "nice": False},
        "axis": {"values": ticks(low, high), "format": "~g", "title": f"error, {metric}"},
    }
    panels, columns = (list(dict.fromkeys(value[name] for value in values)) for name in ("panel", "ways"))
    header = {"labelExpr": "split(datum.label, '|')", "labelFontSize": 11, "labelAngle": -90, "labelPadding": 4}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {"text": title, "subtitle": _LEGEND + ("; star: equation (5)" if star else ""), "anchor": "start"},
        "data": {"values": values},
        "facet": {
            "row": {"field": "panel", "type": "nominal", "sort": panels, "title": None, "header": header},
            "column": {"field": "ways", "type": "nominal", "sort": columns, "title": None},
        },
        "spec": {"width": max(130, 34 * len(order)), "height": 190, "layer": _layers(y, order, star)},
        "config": {"axis": {"gridColor": "#e8e8e8"}, "background": "white"},
    }


def stacked(charts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Charts above each other, as one."""
    whole, parts = ("$schema", "config"), list(charts)
    return {
        **{name: parts[0][name] for name in whole},
        "vconcat": [{name: part for name, part in chart.items() if name not in whole} for chart in parts],
        "spacing": 40,
    }


def ticks(low: float, high: float) -> list[float]:
    """Where a logarithmic axis is marked: at powers of ten, and between them where there are few.

    >>> ticks(0.0004, 1.2), ticks(0.0012, 0.03)
    ([0.001, 0.01, 0.1, 1.0], [0.002, 0.005, 0.01, 0.02])
    """
    decades = math.log10(high / low)
    steps = next(steps for most, steps in _STEPS if decades < most)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    marks = [float(f"{step}e{power}") for power in powers for step in steps]
    return [mark for mark in marks if low <= mark <= high]


def _value(row: Mapping[str, Value], star: str | None) -> dict[str, Any]:
    """A row with the names of its panel; numbers that a logarithm cannot show become the least."""
    shown = {name: max(float(row[name] or 0), _LEAST) for name in ("p25", "p50", "p75", "p95", "mean")}
    value = {**row, **shown, "panel": f"{row['data']}|ε = {row['epsilon']:g}", "ways": f"k = {row['k']}"}
    return value if star is None or row[star] is None else {**value, "star": row[star]}


def _layers(y: Mapping[str, Any], order: Sequence[str], star: str | None) -> list[dict[str, Any]]:
    x = {"field": "method", "type": "nominal", "sort": list(order), "title": None, "axis": {"labelAngle": -40}}

    def layer(mark: Mapping[str, Any], field: str, to: str | None = None) -> dict[str, Any]:
        ends = {"y2": {"field": to}} if to else {}
        return {"mark": dict(mark), "encoding": {"x": x, "y": {"field": field, **y}, **ends}}

    layers = [
        layer({"type": "rule", "color": _INK}, "p25", "p95"),
        layer({"type": "bar", "color": _BOX, "width": 12}, "p50", "p75"),
        layer({"type": "tick", "color": _MEAN, "thickness": 2, "width": 18, "opacity": 1}, "mean"),
    ]
    if star is not None:
        shape = "M0,-1L0.23,-0.32L0.95,-0.31L0.38,0.12L0.59,0.81L0,0.4L-0.59,0.81L-0.38,0.12L-0.95,-0.31L-0.23,-0.32Z"
        layers.append(layer({"type": "point", "shape": shape, "size": 60, "filled": True, "color": _STAR}, "star"))
    return layers
