"""PriView's charts of errors: candlesticks on a logarithmic scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from crosstally.papers.charts import category, chart, dots, layer, quantity, ticks
from crosstally.papers.outcomes import Value

__all__ = ["candlesticks"]

_INK, _BOX, _BEST, _MEAN, _STAR = "#333333", "#4c78a8", "#54a24b", "#d62728", "#7b3294"
_STAR_SHAPE = "M0,-1L0.23,-0.32L0.95,-0.31L0.38,0.12L0.59,0.81L0,0.4L-0.59,0.81L-0.38,0.12L-0.95,-0.31L-0.23,-0.32Z"
_LEGEND = (
    "line: 25th to 95th percentile over tables, box: 50th to 75th, bar: mean; each table averaged over",
    "green: the method with the least mean (methods marked * have no noise and do not count)",
)
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
    mean of a panel is green; methods without noise, whose names end in a star, are not compared. ``star`` names a
    column of the rows that is drawn as a star, ``star_words`` says what it is, ``runs`` how many there were. Without
    ``compared`` nothing is green: what stands side by side are no rivals.
    """
    values = [_value(row, star) for row in rows if row["metric"] == metric]
    for panel in {(value["panel"], value["ways"]) for value in values}:
        there = [each for each in values if (each["panel"], each["ways"]) == panel and not each["method"].endswith("*")]
        min(there, key=lambda value: value["mean"])["best"] = compared
    low = min(value["p25"] for value in values) * 0.8
    high = max(max(value["p95"], value["mean"], value.get("star", 0.0)) for value in values) * 1.25
    panels, columns = (list(dict.fromkeys(value[name] for value in values)) for name in ("panel", "ways"))
    header = {"labelExpr": "split(datum.label, '|')", "labelFontSize": 11, "labelAngle": -90, "labelPadding": 4}
    return chart(
        values,
        *_layers((low, high), f"error, {metric}", order, star),
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
        width=max(130, 34 * len(order)),
        height=190,
    )


def _value(row: Mapping[str, Value], star: str | None) -> dict[str, Any]:
    """A row with the names of its panel; numbers that a logarithm cannot show become the least."""
    shown = {name: max(float(row[name] or 0), _LEAST) for name in ("p25", "p50", "p75", "p95", "mean")}
    value = {**row, **shown, "best": False, "panel": f"{row['data']}|ε = {row['epsilon']:g}", "ways": f"k = {row['k']}"}
    return value if star is None or row[star] is None else {**value, "star": row[star]}


def _layers(
    domain: tuple[float, float], title: str, order: Sequence[str], star: str | None
) -> Iterable[dict[str, Any]]:
    x = category("method", sort=list(order), title=None, axis={"labelAngle": -40})
    axis = {"values": ticks(*domain), "format": "~g", "title": title}

    def over(mark: Mapping[str, Any], field: str, **ends: Any) -> dict[str, Any]:
        return layer(mark, x=x, y=quantity(field, log=True, domain=domain, axis=axis), **ends)

    yield over({"type": "rule", "color": _INK}, "p25", y2={"field": "p95"})

    def winner_or(colour: str) -> dict[str, Any]:
        return {"condition": {"test": "datum.best", "value": _BEST}, "value": colour}

    yield over({"type": "bar", "width": 12}, "p50", y2={"field": "p75"}, color=winner_or(_BOX))
    yield over({"type": "tick", "thickness": 3, "width": 18, "opacity": 1}, "mean", color=winner_or(_MEAN))
    if star is not None:
        yield over(dots(60, shape=_STAR_SHAPE, color=_STAR), "star")
