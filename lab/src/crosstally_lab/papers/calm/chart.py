"""CALM's chart: errors of narrow tables by ε, and below them those of wider tables and of categorical attributes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from crosstally_lab.papers import charts
from crosstally_lab.papers.charts import Look
from crosstally_lab.papers.outcomes import Value

Rows = Sequence[Mapping[str, Value]]

_PANEL = 330  # pixels of a panel of lines; two stand side by side
_LANE = 4  # pixels between the lanes of two methods: nine lanes fit between two ε of the full grid
_WORDS = {
    "data": "{}, ",
    "people": "{:,} people|",
    "k": "tables over {} of ",
    "d": "{} attributes",
    "epsilon": ", ε = {:g}",
}


def calm_chart(
    rows: Rows, *, order: Sequence[str], compared: Collection[str], ways: int, categorical: str
) -> dict[str, Any]:
    """Binary tables over so many attributes by ε; below them wider tables and categorical ones, a panel each.

    Args:
        rows: The rows of the experiment.
        order: The methods, in the order of lanes and legend.
        compared: The methods of which the best is ringed.
        ways: How many attributes the narrow tables have.
        categorical: The data whose attributes have more than two values.
    """
    there = {row["method"] for row in rows}
    styles = {name: look for name, look in charts.looks(order).items() if name in there}
    narrow = [row for row in rows if row["k"] == ways and row["data"] != categorical]
    others = [row for row in rows if row not in narrow]
    parts = [_by_epsilon(_named(narrow, ("data", "people", "d"), compared), styles, ways)] if narrow else []
    parts += [_by_method(_named(others, tuple(_WORDS), compared), styles)] if others else []
    return charts.stacked(parts)


def _named(rows: Rows, fields: Sequence[str], compared: Collection[str]) -> list[dict[str, Any]]:
    """The rows with the panel of each, in words of two lines, and whether it is the best of its setting."""
    named = [{**row, "panel": "".join(_WORDS[field].format(row[field]) for field in fields)} for row in rows]
    return charts.least(named, "sse", within=("panel", "epsilon"), among=compared)


def _by_epsilon(values: Sequence[Mapping[str, Any]], styles: Mapping[str, Look], ways: int) -> dict[str, Any]:
    """Lines, as in the paper. Points of one ε stand beside each other, so that none hides another."""
    epsilons = sorted({float(value["epsilon"]) for value in values})
    placed, axis = charts.lanes(values, list(styles), ticks=epsilons, width=_PANEL, step=_LANE)
    place: dict[str, Any] = {"x": {**axis, "title": "privacy budget ε of each person"}, "y": _errors_along(values)}
    return _panelled(
        placed,
        [*charts.curves("method", styles, **place), charts.rings(**place)],
        title=f"Local model: error of tables over {ways} attributes (CALM, section 5)",
        caption=[
            "points of one ε stand side by side; ring: the least error, apart from what knows the truth or asks nobody"
        ],
        across=2,
        width=_PANEL,
        height=240,
    )


def _by_method(values: Sequence[Mapping[str, Any]], styles: Mapping[str, Look]) -> dict[str, Any]:
    there = {value["method"] for value in values}
    shown = {name: look for name, look in styles.items() if name in there}
    place: dict[str, Any] = {"x": _errors_along(values), "y": charts.category("method", sort=list(shown), title=None)}
    return _panelled(
        values,
        [charts.points("method", shown, named=True, **place), charts.rings(**place)],
        title="Wider tables, and categorical attributes",
        caption="ring: the least error, as above",
        across=3,
        width=190,
        height=170,
    )


def _errors_along(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return charts.logarithmic("sse", [float(value["sse"]) for value in values], title="squared error of shares (SSE)")


def _panelled(
    values: Sequence[Mapping[str, Any]], marks: Sequence[Mapping[str, Any]], *, across: int, **options: Any
) -> dict[str, Any]:
    """A chart with a panel for each name, in the order of the values."""
    names = list(dict.fromkeys(value["panel"] for value in values))
    facets = charts.category("panel", sort=names, title=None, header={"labelExpr": "split(datum.label, '|')"})
    return charts.chart(values, *marks, panels=facets, across=across, pale_grid=True, **options)
