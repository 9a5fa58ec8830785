"""Charts of experiments, as Vega-Lite: marks laid over each other, in panels, under a title.

Further keywords of a channel are Vega-Lite's own (``title``, ``sort``, ``axis``, ``legend``). Without a title an axis
or a legend bears the name of its field; with ``title=None`` it bears none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["LINE", "category", "chart", "dashed", "dots", "layer", "logarithmic", "quantity", "stacked", "ticks"]

LINE: Mapping[str, Any] = {"type": "line", "point": True}
"""A line with a point at each value."""
_PALE = "#e8e8e8"  # where many panels or marks share a page: lighter than Vega-Lite's own grid
# A logarithmic axis is marked at these multiples of powers of ten when it spans fewer decades than this: about five
# marks on a short axis, and never more than fit a height of 190 pixels.
_STEPS = ((0.8, (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)), (1.8, (1.0, 2.0, 5.0)), (math.inf, (1.0,)))


def quantity(field: str, *, log: bool = False, domain: Sequence[float] = (), **options: Any) -> dict[str, Any]:
    """A number, told by a place along an axis.

    >>> quantity("sse", log=True, title="mean SSE")
    {'field': 'sse', 'type': 'quantitative', 'scale': {'type': 'log'}, 'title': 'mean SSE'}
    """
    scale = {**({"type": "log"} if log else {}), **({"domain": list(domain)} if domain else {})}
    return {"field": field, "type": "quantitative", **({"scale": scale} if scale else {}), **options}


def logarithmic(field: str, values: Iterable[float], **options: Any) -> dict[str, Any]:
    """A positive number on a logarithmic axis that holds these values with a little room, with few marks.

    >>> logarithmic("sse", [1, 80], title="mean SSE")["axis"]
    {'values': [1.0, 10.0, 100.0], 'format': '~g'}
    """
    there = list(values)
    low, high = min(there) * 0.8, max(there) * 1.25
    return quantity(field, log=True, domain=(low, high), axis={"values": ticks(low, high), "format": "~g"}, **options)


def category(field: str, looks: Sequence[Any] | Mapping[str, Any] = (), **options: Any) -> dict[str, Any]:
    """One of a few names, told by a place, a colour, a dash or a panel of its own.

    ``looks`` are the colours or dashes, in the order of the names or for each name.

    >>> category("who", {"here": "blue", "paper": "red"}, title=None)["scale"]
    {'domain': ['here', 'paper'], 'range': ['blue', 'red']}
    """
    if isinstance(looks, Mapping):
        options["scale"] = {"domain": list(looks), "range": list(looks.values())}
    elif looks:
        options["scale"] = {"range": list(looks)}
    return {"field": field, "type": "nominal", **options}


def dots(size: int | None = None, **options: Any) -> dict[str, Any]:
    """Filled points, so many square pixels large."""
    return {"type": "point", "filled": True, **({"size": size} if size else {}), **options}


def layer(
    mark: str | Mapping[str, Any], values: Iterable[Mapping[str, Any]] | None = None, /, **channels: Any
) -> dict[str, Any]:
    """One kind of mark, for the chart's values or for values of its own, told by ``x``, ``y``, ``color`` and so on."""
    own = {} if values is None else {"data": {"values": [dict(value) for value in values]}}
    return {**own, "mark": mark if isinstance(mark, str) else dict(mark), "encoding": channels}


def dashed(dashes: Mapping[str, Any], **channels: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Lines with points, told apart by dashes as well: two layers, since the legend of lines that have points is empty.

    >>> [part["mark"] for part in dashed(category("error"))]
    ['line', {'type': 'point', 'filled': True, 'opacity': 1}]
    """
    strokes = {**dashes, "legend": {"symbolType": "stroke"}}
    return layer("line", **channels, strokeDash=strokes), layer(dots(opacity=1), **channels)


def chart(
    values: Iterable[Mapping[str, Any]],
    *layers: Mapping[str, Any],
    title: str,
    caption: str | Sequence[str] = "",
    panels: Mapping[str, Any] | None = None,
    across: int | None = None,
    pale_grid: bool = False,
    **size: Any,
) -> dict[str, Any]:
    """A chart of some values.

    Args:
        values: A mapping for each mark, or for each point of a line.
        layers: The marks; later ones lie above earlier ones.
        title: What the chart shows.
        caption: What else has to be known, below the title, in one line or several.
        panels: The category whose names have a panel each, or those that make ``row`` and ``column``.
        across: How many panels stand side by side before the next row begins.
        pale_grid: Whether grid lines stay in the background of many marks.
        size: ``width`` and ``height`` of each panel in pixels, or ``{"step": ...}`` for each name along it.
    """
    marks = {**size, **(layers[0] if len(layers) == 1 else {"layer": list(layers)})}
    wrapped = {} if across is None else {"columns": across}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {"text": title, "subtitle": caption, "anchor": "start"} if caption else title,
        "data": {"values": [dict(value) for value in values]},
        **(marks if panels is None else {"facet": panels, **wrapped, "spec": marks}),
        "config": {"background": "white", **({"axis": {"gridColor": _PALE}} if pale_grid else {})},
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
