"""Charts of tables: bars with error bars, as Vega-Lite, and pictures of them made without a network."""

from __future__ import annotations

import io
import math
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.checks import is_whole, optional
from crosstally.errors import QueryError
from crosstally.platform_files import write_bytes, writing
from crosstally.schema import Attribute, Schema

MOST_DRAWN = 3  # one along the axis, one in colours, one in panels: there is no place for a fourth
MAX_BARS = 1_000  # more bars than the picture's width has pixels cannot be distinguished
PALETTE = ("#3A86C2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C6D31", "#999999")
"""Colours that the colour-blind can tell apart, after Okabe and Ito; lines show on the blue."""

INK, FAINT, GRID = "#222222", "#666666", "#E6E6E6"
FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif"
_LETTER = 6.2  # the mean width of a letter at the size of labels, in pixels
_LABEL_SPACE = 260  # pixels of a label, longer ones are cut: about 40 letters
_WIDEST_BAR = 90  # pixels: charts of few bars are narrower than asked for
_SUFFIXES = (".svg", ".png", ".json")


@dataclass(frozen=True, slots=True)
class Roles:
    """Which attribute, by position, runs along the axis, which is told by colour, which by small charts of its own.

    ``across`` says whether bars lie; where it is None they do if their labels are too long to stand side by side.
    ``quantity`` is what their length means.
    """

    axis: int
    _: KW_ONLY
    colour: int | None = None
    facet: int | None = None
    across: bool | None = None
    quantity: str = "count"


def roles(schema: Schema) -> Roles:
    """The attribute with most values along the axis, the one with fewest in colours, the third in small charts.

    More values than there are colours make small charts instead.
    """
    order = sorted(range(len(schema.shape)), key=lambda i: (-schema.shape[i], i))
    axis, rest = order[0], order[1:]
    if not rest:
        return Roles(axis)
    fewest = rest[-1]
    if schema.shape[fewest] > len(PALETTE):
        if len(rest) > 1:
            raise QueryError(_too_much(f"one attribute must have at most {len(PALETTE)} values"))
        return Roles(axis, facet=fewest)
    return Roles(axis, colour=fewest, facet=rest[0] if len(rest) > 1 else None)


def bar_chart(
    schema: Schema,
    values: NDArray[np.float64],
    *,
    half_width: NDArray[np.float64] | float | None,
    interval: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
    caption: str = "",
    width: int = 480,
    across: bool | None = None,
    quantity: str = "count",
) -> Any:
    """A chart of a table over one to three attributes: bars in the schema's order, lines for intervals.

    Args:
        schema: The attributes of the table.
        values: Its counts.
        half_width: Half the length of the interval around each, or around all; None where it is not known.
        interval: The low and high end of the interval around each, where its sides differ, instead of a half width.
        caption: Where the table comes from.
        width: How wide the bars may spread, in pixels; small charts share it.
        across: Whether bars lie; None leaves that to their labels.
        quantity: What the numbers are, where they were computed from counts: a share, a difference.
    """
    _check(schema, width)
    altair = optional("altair", extra="charts")
    part = replace(roles(schema), across=across, quantity=quantity)
    if interval is None and half_width is not None:
        interval = np.maximum(values - half_width, np.minimum(values, 0.0)), values + half_width
    layers = _bars(altair, schema, part, interval is not None, width)
    data = altair.Data(values=_records(schema, values, interval))
    chart = altair.layer(*layers, data=data)
    if part.facet is None:
        chart = chart.properties(**_size(schema, part, width))
    else:
        chart = _faceted(altair, chart, schema, part, width)
    return _dressed(chart, _title(altair, schema, interval is not None, caption, quantity))


def _check(schema: Schema, width: int) -> None:
    number = len(schema.attributes)
    if not 1 <= number <= MOST_DRAWN:
        raise QueryError(_too_much(f"it must be over 1 to {MOST_DRAWN} attributes, got {number}"))
    if schema.cells > MAX_BARS:
        raise QueryError(_too_much(f"it must have at most {MAX_BARS:,} bars, got {schema.cells:,}"))
    if not is_whole(width, 100, 4000):
        raise QueryError(f"width must be a whole number from 100 to 4000, got {width!r}")


def _too_much(rule: str) -> str:
    return f"a chart cannot show this table: {rule}; ask for fewer attributes, or plot slices of to_xarray()"


def _records(
    schema: Schema, values: NDArray[np.float64], interval: tuple[NDArray[np.float64], NDArray[np.float64]] | None
) -> list[dict[str, Any]]:
    """A record for each bar; fields have plain names because Vega-Lite reads dots and brackets as paths.

    No true count is below zero, so neither is an interval, unless the bar itself is.
    """
    out = []
    for cell in np.ndindex(*schema.shape):
        record: dict[str, Any] = {f"a{i}": schema.attributes[i].labels[code] for i, code in enumerate(cell)}
        record["count"] = float(values[cell])
        if interval is not None:
            record["low"], record["high"] = (float(end[cell]) for end in interval)
        out.append(record)
    return out


# The bars


def _horizontal(attribute: Attribute, room: float) -> bool:
    """Whether labels are too long to stand side by side."""
    longest = max(map(len, attribute.labels))
    return longest * _LETTER + 8 > room / attribute.size


def _lying(schema: Schema, part: Roles, room: float) -> bool:
    return _horizontal(schema.attributes[part.axis], room) if part.across is None else part.across


def _bars(altair: Any, schema: Schema, part: Roles, known: bool, width: int) -> list[Any]:
    """Bars, and above them a line for each interval."""
    room = width if part.facet is None else _facet_width(schema, part, width)
    across = _lying(schema, part, room)
    labels, counts, offset = ("y", "x", "yOffset") if across else ("x", "y", "xOffset")
    number = altair.X if across else altair.Y
    shared = {labels: _label_axis(altair, schema.attributes[part.axis], part.axis, across)}
    if part.colour is not None:
        attribute = schema.attributes[part.colour]
        shared[offset] = getattr(altair, offset[0].upper() + offset[1:])(
            f"a{part.colour}:N", sort=list(attribute.labels), title=None
        )
    axis = altair.Axis(format="~s" if not across and room < 200 else ",~f", tickCount=5, title=part.quantity)
    tooltip = _tooltip(altair, schema, part, known)
    bar = altair.Chart().mark_bar(cornerRadiusEnd=1.5, color=PALETTE[0])
    bars = bar.encode(**shared, **{counts: number("count:Q", axis=axis, stack=None)}, **_colour(altair, schema, part))
    layers = [bars.encode(tooltip=tooltip)]
    if known:
        ends = {counts: number("low:Q", axis=axis), f"{counts}2": "high:Q"}
        rule = altair.Chart().mark_rule(color=INK, strokeWidth=1.3)
        layers.append(rule.encode(**shared, **ends, tooltip=tooltip))
    return layers


def _label_axis(altair: Any, attribute: Attribute, position: int, across: bool) -> Any:
    """Labels in the schema's order; beside horizontal bars their title stands above them."""
    above = {"titleAngle": 0, "titleAlign": "right", "titleAnchor": "end", "titleX": -8, "titleY": -10}
    place = above if across else {"labelAngle": 0}
    axis = altair.Axis(title=attribute.name, labelLimit=_LABEL_SPACE, ticks=False, labelPadding=8, **place)
    return (altair.Y if across else altair.X)(f"a{position}:N", sort=list(attribute.labels), axis=axis)


def _colour(altair: Any, schema: Schema, part: Roles) -> dict[str, Any]:
    """The colour of each value: shades in order for bins, colours that stay apart for the rest."""
    if part.colour is None:
        return {}
    attribute = schema.attributes[part.colour]
    labels = list(attribute.labels)
    if attribute.edges and len(labels) > 2:
        scale = altair.Scale(domain=labels, scheme="viridis", reverse=True)
    else:
        scale = altair.Scale(domain=labels, range=list(PALETTE[: len(labels)]))
    legend = altair.Legend(title=attribute.name, labelLimit=_LABEL_SPACE, symbolType="square")
    return {"color": altair.Color(f"a{part.colour}:N", sort=labels, scale=scale, legend=legend)}


def _tooltip(altair: Any, schema: Schema, part: Roles, known: bool) -> list[Any]:
    names = [altair.Tooltip(f"a{i}:N", title=attribute.name) for i, attribute in enumerate(schema.attributes)]
    numbers = [("count", part.quantity), ("low", "95% from"), ("high", "95% to")][: 3 if known else 1]
    return names + [altair.Tooltip(f"{field}:Q", title=title, format=",.0f") for field, title in numbers]


# The whole


def _size(schema: Schema, part: Roles, width: int) -> dict[str, Any]:
    """A width and a height; horizontal bars get as much height as they need."""
    attribute = schema.attributes[part.axis]
    bars = 1 if part.colour is None else schema.shape[part.colour]
    if _lying(schema, part, width):
        return {"width": width, "height": attribute.size * max(18, 8 * bars + 6)}
    needed = attribute.size * max(_WIDEST_BAR * bars, _LETTER * max(map(len, attribute.labels)) + 16)
    return {"width": min(width, round(needed)), "height": max(160, round(width * 0.55))}


def _columns(schema: Schema, part: Roles) -> int:
    assert part.facet is not None
    number = schema.shape[part.facet]
    return number if number <= 3 else min(4, math.ceil(math.sqrt(number)))


def _facet_width(schema: Schema, part: Roles, width: int) -> int:
    return max(120, round(1.25 * width / _columns(schema, part)) - 20)


def _faceted(altair: Any, chart: Any, schema: Schema, part: Roles, width: int) -> Any:
    assert part.facet is not None
    attribute = schema.attributes[part.facet]
    header = altair.Header(title=attribute.name, labelLimit=_LABEL_SPACE)
    facet = altair.Facet(f"a{part.facet}:N", sort=list(attribute.labels), header=header)
    size = _size(schema, part, _facet_width(schema, part, width))
    return chart.properties(**size).facet(facet, columns=_columns(schema, part), spacing=16)


def _title(altair: Any, schema: Schema, known: bool, caption: str, quantity: str) -> Any:
    names = [attribute.name for attribute in schema.attributes]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    lines = "lines are 95% intervals" if known else "the error is not known"
    subtitle = [caption, lines] if caption else [lines]
    return altair.TitleParams(f"{quantity.capitalize()} by {listed}", subtitle=subtitle)


def _dressed(chart: Any, title: Any) -> Any:
    """The chart with its title, fonts and colours."""
    text = {
        "labelColor": INK,
        "titleColor": FAINT,
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
    }
    dressed = chart.properties(title=title, background="white", padding=14)
    dressed = dressed.configure(font=FONT).configure_view(stroke=None)
    dressed = dressed.configure_title(
        anchor="start", color=INK, fontSize=15, fontWeight="bold", subtitleColor=FAINT, subtitleFontSize=11, offset=14
    )
    dressed = dressed.configure_axis(gridColor=GRID, tickColor=GRID, domain=False, **text)
    return dressed.configure_legend(**text).configure_header(**{**text, "labelFontWeight": "bold"})


def save(chart: Any, path: str | Path) -> None:
    """Write a chart as a picture, .svg or .png, or as its Vega-Lite specification, .json. No network is needed."""
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in _SUFFIXES:
        raise QueryError(f"a chart must be saved as {', '.join(_SUFFIXES)}, got {target.name!r}")
    if suffix != ".json":
        optional("vl_convert", extra="charts", package="vl-convert-python")
    picture = io.BytesIO() if suffix == ".png" else io.StringIO()
    options: dict[str, Any] = {"scale_factor": 2} if suffix == ".png" else {}
    chart.save(picture, format=suffix[1:], **options)
    content = picture.getvalue()
    with writing(path):
        write_bytes(path, content if isinstance(content, bytes) else content.encode("utf-8"))
