"""Pictures of what a page shows: bars with intervals, or a heat map, drawn on the server; charts within a page.

Reliability is told by sign (E, F, ?) and by pattern: bars that need care are pale with an outline, those too unreliable
are hollow with a broken one. Fields have plain names, since Vega-Lite reads dots and brackets as paths.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np

from crosstally.browser.common.site import texts_of
from crosstally.browser.explorer.grid import Grid, joined, number_text, percent_text
from crosstally.browser.explorer.view import Chart
from crosstally.charts import FAINT, FONT, GRID, INK, PALETTE
from crosstally.checks import optional
from crosstally.exports.formats import known
from crosstally.reliability import PUBLISHED, SIGNS

text = texts_of("explorer")

MAX_BARS = 400  # with more, bars are thinner than a pixel or two on a page
MAX_TILES = 2_500  # fifty by fifty: with more, tiles are too small for a pointer
_MOST_SERIES = len(PALETTE)
_NUMBERS_ON_TILES = 300  # more do not fit legibly
_LETTER = 6.4  # the mean width of a letter at the size of labels, in pixels


@dataclass(frozen=True, slots=True)
class Theme:
    """The looks of a picture: its colours on paper or on a dark page, and whether it must fit a phone."""

    name: str
    background: str
    ink: str
    faint: str
    line: str
    tiles: tuple[str, str]
    narrow: bool = False


LIGHT = Theme("light", "#ffffff", "#1f2328", "#59636e", "#e4e8ec", ("#eef4fa", "#1c5d96"))
DARK = Theme("dark", "#171b21", "#e8ecf1", "#a3adb8", "#303841", ("#1d2f40", "#8cc8f5"))


def chart_of(grid: Grid, wanted: Chart) -> Chart:
    """Which chart shows a table: bars where its columns can be told apart by colour, else a heat map."""
    if wanted is Chart.NONE or grid.size <= 1:
        return Chart.NONE
    if wanted is Chart.AUTO:
        wanted = Chart.BARS if len(grid.column_labels) <= _MOST_SERIES and grid.size <= MAX_BARS else Chart.HEAT
    if wanted is Chart.BARS and len(grid.column_labels) > _MOST_SERIES:
        wanted = Chart.HEAT
    return wanted


def too_large(grid: Grid, kind: Chart) -> int | None:
    """The most numbers that such a chart shows, if the table has more."""
    most = MAX_BARS if kind is Chart.BARS else MAX_TILES
    return most if grid.size > most else None


def picture(spec: dict[str, Any], ending: str) -> bytes:
    """The picture of a specification, as svg or png."""
    converter = optional("vl_convert", extra="web", package="vl-convert-python")
    if ending == "png":
        return bytes(converter.vegalite_to_png(spec, scale=2))
    return str(converter.vegalite_to_svg(spec)).encode()


def specification(
    grid: Grid,
    kind: Chart,
    *,
    title: str,
    source: str,
    quantity: str,
    level: float,
    theme: Theme = LIGHT,
) -> dict[str, Any]:
    """The Vega-Lite specification of a chart."""
    rows, columns = _names(list(map(joined, grid.row_labels))), _names(list(map(joined, grid.column_labels)))
    records = [
        {
            "row": rows[i],
            "column": columns[j],
            "value": known(value),
            "low": known(low),
            "high": known(high),
            "sign": SIGNS[reliability],
            "class": reliability.key,
            "text": number_text(value, shares=grid.shares) + f" {SIGNS[reliability]}".rstrip(),
        }
        for i in range(len(rows))
        for j, (value, low, high, reliability) in enumerate(grid.cells(i))
    ]
    lines = text("chart.interval", percent=percent_text(level)) if kind is Chart.BARS else ""
    note = lines if grid.intervals else text("chart.no_interval")
    letters = 38 if theme.narrow else 76
    subtitle = [line for each in (source, note + text("chart.signs")) for line in wrap(each, letters)]
    longest = min(40, max(map(len, rows), default=0))  # a pixel a letter, for browsers with wider ones
    body = _bars if kind is Chart.BARS else _tiles
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "data": {"values": records},
        "title": {"text": wrap(title, letters * 3 // 4)[:4], "subtitle": subtitle},
        "background": theme.background,
        "padding": {"left": 12 + longest, "right": 12, "top": 12, "bottom": 12},
        "config": _config(theme),
        **body(grid, rows, columns, quantity, theme),
    }


def _names(labels: Sequence[str]) -> list[str]:
    """The labels, those that look alike told apart."""
    seen: Counter[str] = Counter()
    out = []
    for label in labels:
        seen[label] += 1
        out.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return out


def _axis_format(grid: Grid) -> str:
    return ".0%" if grid.shares else ",~f"


def _down(grid: Grid, rows: list[str], narrow: bool) -> dict[str, Any]:
    """Labels of rows in their order; their title stands above them, where no label can run into it."""
    above = {"titleAngle": 0, "titleAlign": "right", "titleAnchor": "end", "titleX": -8, "titleY": -8}
    limit = 110 if narrow else 240
    return {
        "field": "row",
        "type": "nominal",
        "sort": rows,
        "title": joined(grid.row_names) or None,
        "axis": {"labelLimit": limit, "ticks": False, "labelPadding": 6, **above},
    }


def _bars(grid: Grid, rows: list[str], columns: list[str], quantity: str, theme: Theme) -> dict[str, Any]:
    series = len(columns)
    number = {
        "type": "quantitative",
        "axis": {"format": _axis_format(grid), "tickCount": 3 if theme.narrow else 5},
        "title": quantity.lower(),
    }
    place: dict[str, Any] = {"y": _down(grid, rows, theme.narrow)}
    colour: dict[str, Any] = {"value": PALETTE[0]}
    if series > 1:
        place["yOffset"] = {"field": "column", "type": "nominal", "sort": columns}
        scale = {"domain": columns, "range": list(PALETTE[:series])}
        legend = {"title": joined(grid.column_names), "labelLimit": 240, "symbolType": "square"}
        legend |= {"orient": "top", "columns": 2} if theme.narrow else {}
        colour = {"field": "column", "type": "nominal", "sort": columns, "scale": scale, "legend": legend}
    classes = [each.key for each in PUBLISHED]
    filled = {"type": "ordinal", "domain": classes, "range": [1, 0.4, 0, 0.15]}
    dashed = {"type": "ordinal", "domain": classes, "range": [[1, 0], [1, 0], [3, 2], [1, 2]]}
    bar = {
        "mark": {"type": "bar", "strokeWidth": 1.2, "cornerRadiusEnd": 1},
        "encoding": {
            **place,
            "x": {"field": "value", "stack": None, **number},
            "fill": colour,
            "stroke": {**colour, "legend": None} if series > 1 else colour,
            "fillOpacity": {"field": "class", "type": "nominal", "scale": filled, "legend": None},
            "strokeDash": {"field": "class", "type": "nominal", "scale": dashed, "legend": None},
        },
    }
    line = {
        "mark": {"type": "rule", "strokeWidth": 1.4, "color": theme.ink},
        "encoding": {**place, "x": {"field": "low", **number}, "x2": {"field": "high"}},
    }
    sign = {
        "transform": [{"calculate": "max(datum.high, datum.value)", "as": "end"}, {"filter": "datum.sign != ''"}],
        "mark": {"type": "text", "align": "left", "dx": 4, "fontSize": 10, "fontWeight": "bold", "color": theme.ink},
        "encoding": {**place, "x": {"field": "end", **number}, "text": {"field": "sign"}},
    }
    layers = [bar, line, sign] if grid.intervals else [bar, sign]
    height = len(rows) * max(20, 12 * series + 7)  # signs are letters of 10 pixels: lower bars let them overlap
    return {"layer": layers, "width": 200 if theme.narrow else 420, "height": height}


def _tiles(grid: Grid, rows: list[str], columns: list[str], quantity: str, theme: Theme) -> dict[str, Any]:
    down = _down(grid, rows, theme.narrow)
    values = grid.values[np.isfinite(grid.values)]
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    longest = max(map(len, columns), default=1)
    wide = max(34, min(72, round((240 if theme.narrow else 560) / len(columns))))
    steep = longest * _LETTER > wide
    across = {
        "field": "column",
        "type": "nominal",
        "sort": columns,
        "title": joined(grid.column_names) or None,
        "axis": {"labelLimit": 200, "ticks": False, "labelAngle": -50 if steep else 0, "orient": "bottom"},
    }
    legend: dict[str, Any] = {"title": quantity.lower(), "format": _axis_format(grid), "tickCount": 3}
    legend["gradientLength"] = max(70, min(140, 24 * len(rows)))
    legend |= {"orient": "top", "gradientLength": 140} if theme.narrow else {}
    shade = {
        "field": "value",
        "type": "quantitative",
        "scale": {"domain": [min(0.0, low), high], "range": list(theme.tiles)},
        "legend": legend,
    }
    tile = {
        "mark": {"type": "rect", "stroke": theme.background, "strokeWidth": 1},
        "encoding": {"x": across, "y": down, "color": shade},
    }
    middle = (min(0.0, low) + high) / 2
    light, dark = ("#ffffff", "#10243a")
    strong, weak = (light, dark) if theme.name == "light" else (dark, light)
    label = {
        "mark": {"type": "text", "fontSize": 10},
        "encoding": {
            "x": across,
            "y": down,
            "text": {"field": "text" if grid.size <= _NUMBERS_ON_TILES else "sign"},
            "color": {"condition": {"test": f"datum.value > {middle!r}", "value": strong}, "value": weak},
        },
    }
    return {"layer": [tile, label], "width": {"step": wide}, "height": {"step": 24}}


def _config(theme: Theme) -> dict[str, Any]:
    words = {"labelColor": theme.ink, "titleColor": theme.faint, "labelFontSize": 11, "titleFontSize": 11,
             "titleFontWeight": "normal"}  # fmt: skip
    return {
        "font": FONT,
        "view": {"stroke": None},
        "title": {"anchor": "start", "color": theme.ink, "fontSize": 15, "subtitleColor": theme.faint,
                  "subtitleFontSize": 11, "offset": 14, "frame": "group"},
        "axis": {"gridColor": theme.line, "domain": False, "tickColor": theme.line, **words},
        "legend": words,
    }  # fmt: skip


# Within a page: they follow its colours, and a reader of the screen has the table beside them

# Colours become properties of the page, which differ in light and dark. Only whole attributes are replaced:
# within a label a quotation mark would stand as &quot;.
_COLOURS = {
    f'="{INK}"': '="var(--ink)"',
    f'="{FAINT}"': '="var(--faint)"',
    f'="{GRID}"': '="var(--grid)"',
    f'="{PALETTE[0]}"': '="var(--bar)"',
}
_FONT = re.compile(r' font-family="[^"]*"')
_ARIA = re.compile(r' (?:role|aria-[a-z]+)="[^"]*"')
_EMPTY = re.compile(r'<path class="(?:fore|back)ground"[^>]*/>')


def inline_svg(chart: Any, *, left: int) -> str:
    """The picture of an Altair chart, without titles and background, to stand within a page.

    Args:
        chart: The chart.
        left: Pixels to spare on the left: the reader's letters may be wider than those that were measured here.
    """
    converter = optional("vl_convert", extra="pages", package="vl-convert-python")
    spec = chart.to_dict()
    spec.pop("title", None)
    _calm_axes(spec)
    spec |= {"background": None, "padding": {"left": left, "right": 16, "top": 2, "bottom": 2}}
    svg = str(converter.vegalite_to_svg(spec))
    for colour, own in _COLOURS.items():
        svg = svg.replace(colour, own)
    for unneeded in (_FONT, _ARIA, _EMPTY):
        svg = unneeded.sub("", svg)
    return svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)


def _calm_axes(spec: dict[str, Any]) -> None:
    """No titles, since the heading above names the attribute and the page says that bars are counts; short numbers."""
    for layer in spec.get("layer", []):
        for channel in ("x", "y"):
            axis = layer["encoding"].get(channel, {}).get("axis")
            if axis is not None:
                axis["title"] = None
                if "format" in axis:
                    axis |= {"labelExpr": "datum.value ? format(datum.value, '~s') : '0'", "tickCount": 4}
