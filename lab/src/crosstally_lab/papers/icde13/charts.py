"""Charts of ICDE 2013: relative errors by ε and by recovery, and seconds, with a panel or a place for each workload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from crosstally_lab.papers import charts
from crosstally_lab.papers.charts import Look
from crosstally_lab.papers.icde13.methods import LEAST_SQUARES, ONE_TABLE, OWN
from crosstally_lab.papers.outcomes import Value

Rows = Sequence[Mapping[str, Value]]

# A colour for each letter of the paper; the plus, which says that budgets are optimal, is a line without gaps.
_WHOLE, _GAPS = (1, 0), (5, 3)
_LOOKS = {
    "crosstally": Look("#009E73", "circle", _WHOLE),
    "I": Look("#000000", charts.STAR, (1, 3)),
    "Q": Look("#0072B2", "square", _GAPS),
    "Q+": Look("#0072B2", "diamond", _WHOLE),
    "F": Look("#D55E00", "triangle-up", _GAPS),
    "F+": Look("#D55E00", "triangle-down", _WHOLE),
    "F native": Look("#E69F00", "triangle-right", _GAPS),
    "F+ native": Look("#E69F00", "triangle-left", _WHOLE),
    "C": Look("#CC79A7", "cross", _GAPS),
    "C+": Look("#CC79A7", "M-1,-1L1,-1L1,-0.4L-1,-0.4ZM-1,0.4L1,0.4L1,1L-1,1Z", _WHOLE),
}
_PANEL, _HEIGHT = 210, 190  # pixels; three panels stand side by side
_LANE = 2.2  # pixels between two methods: ten lanes fit between the two nearest ε of the paper


def error_chart(rows: Rows, title: str, *, epsilons: Sequence[float], default: str) -> dict[str, Any]:
    """Errors by ε, as in the paper, after least squares; below them, at the largest ε, both recoveries.

    Errors of all methods but the default are inversely proportional to ε, so that rows of one ε give all ``epsilons``.
    """
    largest = max(float(row["epsilon"] or 0) for row in rows)
    there = [row for row in rows if row["epsilon"] == largest]
    return charts.stacked([_by_epsilon(there, title, largest, epsilons, default), _by_recovery(there, largest)])


def _by_epsilon(rows: Rows, title: str, largest: float, epsilons: Sequence[float], default: str) -> dict[str, Any]:
    fitted = [row for row in rows if row["recovery"] != OWN]
    values: list[dict[str, Any]] = [
        {
            "workload": row["workload"],
            "method": row["method"],
            "epsilon": epsilon,
            "relative_error": float(row["relative_error"] or 0) * largest / epsilon,
        }
        for row in fitted
        for epsilon in epsilons
        if row["method"] != default or epsilon == largest
    ]
    styles = _shown(values)
    best = charts.least(values, "relative_error", within=["workload", "epsilon"])
    placed, axis = charts.lanes(best, list(styles), ticks=epsilons, width=_PANEL, step=_LANE)
    axis["axis"]["labelOverlap"] = True
    place: dict[str, Any] = {"x": {**axis, "title": "privacy budget ε"}, "y": _along(values)}
    return charts.chart(
        placed,
        *charts.curves("method", styles, **place),
        charts.rings(**place),
        title=title,
        caption=[
            f"after least squares; {default} was run at ε = {largest:g} only; ring: the least error",
            "points of one ε stand side by side; I, Q, F, C: uniform budgets, with a plus: optimal ones",
        ],
        **_panels(),
    )


def _by_recovery(rows: Rows, largest: float) -> dict[str, Any]:
    names = ("workload", "method", "recovery", "relative_error")
    sides = (OWN, LEAST_SQUARES)  # what has no pair stands in the middle
    values: list[dict[str, Any]] = [
        {**{name: row[name] for name in names}, "side": row["recovery"] if row["recovery"] in sides else "middle"}
        for row in rows
    ]
    recoveries = [OWN, LEAST_SQUARES, ONE_TABLE]
    others = dict.fromkeys(str(each["recovery"]) for each in values if each["recovery"] not in recoveries)
    styles = charts.looks([*others, *recoveries])
    place: dict[str, Any] = {
        "x": charts.category("method", sort=list(_shown(values)), title=None, axis={"labelAngle": -60}),
        "xOffset": charts.category("side", sort=[OWN, "middle", LEAST_SQUARES], scale={"paddingOuter": 1.5}),
        "y": _along(values),
    }
    return charts.chart(
        charts.least(values, "relative_error", within=["workload"]),
        charts.points("recovery", styles, **place),
        charts.rings(**place),
        title=f"Each recovery at ε = {largest:g}",
        caption=(
            "own: each table from its own measurement; least squares: from all; either: both are the same; "
            "ring: the least error"
        ),
        **_panels(),
    )


def _shown(values: Iterable[Mapping[str, Any]]) -> dict[str, Look]:
    there = {value["method"] for value in values}
    return {name: look for name, look in _LOOKS.items() if name in there}


def _along(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return charts.logarithmic(
        "relative_error", [float(each["relative_error"]) for each in values], title="relative error"
    )


def _panels() -> dict[str, Any]:
    panels = charts.category("workload", sort=None, title=None)
    return {"panels": panels, "across": 3, "pale_grid": True, "width": _PANEL, "height": _HEIGHT}


def times_chart(rows: Rows, caption: str) -> dict[str, Any]:
    """A point for each method in its own lane, at the workload's place."""
    values = charts.least(rows, "seconds", within=["workload"])
    styles = _shown(values)
    place: dict[str, Any] = {
        "x": charts.category("workload", sort=None, title="workload", axis={"labelAngle": 0}),
        "xOffset": charts.category("method", sort=list(styles)),
        "y": charts.logarithmic("seconds", [float(row["seconds"] or 1e-9) for row in rows], title="CPU seconds"),
    }
    return charts.chart(
        values,
        charts.points("method", styles, **place),
        charts.rings(**place),
        title="Seconds from rows to consistent tables (ICDE 2013, figure 6)",
        caption=[caption, "ring: the shortest time"],
        pale_grid=True,
        width=680,
        height=260,
    )
