"""Charts of experiments, as Vega-Lite: marks laid over each other, in panels, under a title.

Methods are told apart by colour, by the shape of their points and by dashes, so that a chart can be read without
colours. Legends stand between title and plot.

Further keywords of a channel are Vega-Lite's own (``title``, ``sort``, ``axis``, ``legend``). Without a title an axis
or a legend bears the name of its field; with ``title=None`` it bears none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crosstally.charts import FONT, INK

PAGE = 800
"""Pixels that the panels of a chart may take side by side: a page shows them without shrinking their text."""
# Colours that the colour-blind can tell apart, after Okabe and Ito; the last two are a brown and a grey.
_COLOURS = ("#009E73", "#0072B2", "#D55E00", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31", "#888888")
STAR = "M0,-1L0.23,-0.32L0.95,-0.31L0.38,0.12L0.59,0.81L0,0.4L-0.59,0.81L-0.38,0.12L-0.95,-0.31L-0.23,-0.32Z"
"""The shape of a star."""
_SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "triangle-down",
    "cross",
    STAR,
    "triangle-right",
    "triangle-left",
)
# Pixels drawn and left out. Lines that coincide show each other through their gaps, and [1, 0] is a line without any.
_DASHES = ((1, 0), (8, 3), (3, 3), (8, 3, 2, 3), (5, 5), (1, 3), (12, 4), (5, 2, 1, 2), (2, 6))
_LETTER, _SYMBOL = 5.8, 32  # pixels of a letter of a legend, and of a symbol with the room around it
_WIDTH = 1.6  # pixels of a line
# Of lines that are nested, the first and the last: pixels of width, and square pixels of points.
_WIDTHS, _SIZES = (4, 1.4), (100, 35)
_RING = 150  # square pixels of a ring: the points inside have at most 100
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


def logarithmic(
    field: str, values: Iterable[float], *, marked: Iterable[float] | None = None, **options: Any
) -> dict[str, Any]:
    """A positive number on a logarithmic axis that holds these values with a little room, with few marks.

    ``marked`` says where they are, if the axis has a few settings; else they are round numbers.

    >>> logarithmic("sse", [1, 80], title="mean SSE")["axis"]
    {'values': [1.0, 10.0, 100.0], 'format': '~g'}
    """
    there = list(values)
    low, high = min(there) * 0.8, max(there) * 1.25
    marks = ticks(low, high) if marked is None else sorted(set(marked))
    return quantity(field, log=True, domain=(low, high), axis={"values": marks, "format": "~g"}, **options)


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


@dataclass(frozen=True, slots=True)
class Look:
    """How the marks of one name look: colour, shape of points, and dashes of lines as pixels drawn and left out."""

    colour: str
    shape: str
    dash: tuple[int, ...]


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for each of up to nine names: each differs from the others in colour, in shape and in dashes.

    >>> looks(["crosstally", "Flat"])["Flat"]
    Look(colour='#0072B2', shape='square', dash=(8, 3))
    """
    return {name: Look(_COLOURS[i], _SHAPES[i], _DASHES[i]) for i, name in enumerate(names)}


def legend(names: Iterable[str], *, width: int = PAGE) -> dict[str, Any]:
    """A legend above the plot, in as many columns as fit the width, with names in full.

    >>> legend(["crosstally", "retention replacement"], width=400)["columns"]
    2
    """
    there = list(names)
    column = _SYMBOL + _LETTER * max(map(len, there))
    columns = max(1, min(len(there), int(width // column)))
    rows = math.ceil(len(there) / columns)
    return {
        "orient": "top",
        "columns": math.ceil(len(there) / rows),  # rows of the same length, not a full one and a rest
        "labelLimit": 400,
        "symbolSize": 80,
        "symbolOpacity": 1,
        "symbolStrokeWidth": 0,  # of lines it would blur the shape
    }


def curves(
    field: str, styles: Mapping[str, Look], *, width: int = PAGE, nested: bool = False, **channels: Any
) -> list[dict[str, Any]]:
    """A line with points for each name, and one legend of shapes in their colours.

    Two layers, since the legend of lines that have points is empty. Lines that are ``nested`` are the thinner, and
    their points the smaller, the later the name: of two that coincide both are seen if values are ``in_order``.
    """
    dashes = {name: list(look.dash) for name, look in styles.items()}
    colour = category(field, _colours(styles), title=None, legend=legend(styles, width=width))
    strokes = category(field, dashes, title=None, legend=None)
    line = layer({"type": "line"}, **channels, color=colour, strokeDash=strokes)
    dot = points(field, styles, width=width, **channels)
    if nested:
        line["encoding"]["strokeWidth"] = _thinning(field, styles, *_WIDTHS)
        dot["encoding"]["size"] = _thinning(field, styles, *_SIZES)
    else:
        line["encoding"]["strokeWidth"] = {"value": _WIDTH}
    return [line, dot]


def _thinning(field: str, names: Iterable[str], first: float, last: float) -> dict[str, Any]:
    """Sizes for names, in equal steps: as conditions, since a scale would enter the legend and alter its symbols."""
    there = list(names)
    steps = max(1, len(there) - 1)
    sizes = [(first * (steps - place) + last * place) / steps for place in range(len(there))]
    tests = [{"field": field, "equal": name} for name in there]
    return {
        "condition": [{"test": test, "value": size} for test, size in zip(tests, sizes, strict=True)],
        "value": last,
    }


def in_order(values: Iterable[Mapping[str, Any]], field: str, names: Iterable[str]) -> list[dict[str, Any]]:
    """The values sorted by names of a field: later ones are drawn above earlier ones."""
    places = {name: place for place, name in enumerate(names)}
    return sorted((dict(value) for value in values), key=lambda value: places[value[field]])


def points(
    field: str,
    styles: Mapping[str, Look],
    *,
    width: int = PAGE,
    named: bool = False,
    filled: bool = True,
    **channels: Any,
) -> dict[str, Any]:
    """A point for each value, in the colour and the shape of its name; if an axis has it ``named``, without a legend.

    Where many points lie on each other, those that are not ``filled`` show what is below.
    """
    shown = None if named else legend(styles, width=width) | ({} if filled else {"symbolStrokeWidth": 1.5})
    shapes = {name: look.shape for name, look in styles.items()}
    return layer(
        dots(45, opacity=1) if filled else {"type": "point", "filled": False, "size": 45, "opacity": 1},
        **channels,
        color=category(field, _colours(styles), title=None, legend=shown),
        shape=category(field, shapes, title=None, legend=shown),
    )


def _colours(styles: Mapping[str, Look]) -> dict[str, str]:
    return {name: look.colour for name, look in styles.items()}


def rings(values: Iterable[Mapping[str, Any]] | None = None, **channels: Any) -> dict[str, Any]:
    """A ring around some points: the winners. Without values of its own it is around those whose ``best`` is true."""
    ring = layer(
        {"type": "point", "filled": False, "size": _RING, "color": INK, "strokeWidth": 1.3}, values, **channels
    )
    return ring if values is not None else {**ring, "transform": [{"filter": "datum.best"}]}


def least(
    values: Iterable[Mapping[str, Any]], number: str, *, within: Sequence[str], among: Iterable[str] | None = None
) -> list[dict[str, Any]]:
    """The values, each with whether it is the ``best``: the least number of those that agree in some fields.

    ``among`` are the methods that are compared; all are if it is not given.

    >>> rows = [{"k": 2, "method": "a", "sse": 3.0}, {"k": 2, "method": "b", "sse": 1.0}]
    >>> [row["best"] for row in least(rows, "sse", within=["k"])]
    [False, True]
    """
    there = [dict(value) for value in values]
    allowed = None if among is None else set(among)
    lowest: dict[tuple[Any, ...], float] = {}
    for value in there:
        if allowed is None or value["method"] in allowed:
            cell = tuple(value[name] for name in within)
            lowest[cell] = min(value[number], lowest.get(cell, math.inf))
    return [
        {
            **value,
            "best": (allowed is None or value["method"] in allowed)
            and value[number] == lowest[tuple(value[name] for name in within)],
        }
        for value in there
    ]


def in_lanes(
    values: Iterable[Mapping[str, Any]], field: str, names: Sequence[str], *, step: float
) -> list[dict[str, Any]]:
    """The values with a place, ``at``, for each: the number of a field, moved by some steps for each name.

    Methods with the same error would hide each other: here each has its own lane around the number. Lanes are in the
    order of the names and their middle is the number itself.

    >>> [row["at"] for row in in_lanes([{"e": 1.0, "method": m} for m in "abc"], "e", "abc", step=0.25)]
    [0.75, 1.0, 1.25]
    """
    lanes = {name: place - (len(names) - 1) / 2 for place, name in enumerate(names)}
    return [{**value, "at": value[field] + step * lanes[value["method"]]} for value in values]


def lanes(
    values: Iterable[Mapping[str, Any]], names: Sequence[str], *, ticks: Sequence[float], width: int, step: float
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The values in lanes around their ``epsilon``, so many pixels apart, and an axis of so many pixels with room."""
    room = step * len(names)  # pixels left and right of the first and the last ε
    pixel = (max(ticks) - min(ticks)) / (width - 2 * room) or 1 / width  # how much of ε it is
    axis = quantity("at", domain=(min(ticks) - pixel * room, max(ticks) + pixel * room))
    axis["axis"] = {"values": list(ticks), "grid": False, "format": "~g"}
    return in_lanes(values, "epsilon", names, step=pixel * step), axis


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
        "title": {"text": title, "anchor": "start", **({"subtitle": caption} if caption else {})},
        "data": {"values": [dict(value) for value in values]},
        **(marks if panels is None else {"facet": panels, **wrapped, "spec": marks}),
        "config": {"background": "white", "font": FONT, **({"axis": {"gridColor": _PALE}} if pale_grid else {})},
    }


def stacked(charts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Charts above each other, as one, each with its own legend."""
    whole, parts = ("$schema", "config"), list(charts)
    return {
        **{name: parts[0][name] for name in whole},
        "vconcat": [{name: part for name, part in chart.items() if name not in whole} for chart in parts],
        "spacing": 40,
        "resolve": {"scale": {"color": "independent", "shape": "independent", "strokeDash": "independent"}},
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
