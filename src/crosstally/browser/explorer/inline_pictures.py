"""Charts as SVG within a page: they follow the page's colours, and a reader of the screen has the table beside them."""

from __future__ import annotations

import re
from typing import Any

from crosstally.charts import FAINT, GRID, INK, PALETTE
from crosstally.extras import optional

__all__ = ["inline_svg"]

# Colours of a chart become properties of the page, which differ in light and dark. Only whole attributes are replaced:
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
