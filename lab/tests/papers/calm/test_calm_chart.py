"""CALM's chart: no method hides another, the legend is above the plot, and the best of each setting has a ring."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from crosstally_lab.papers.calm.chart import calm_chart
from crosstally_lab.papers.outcomes import drawn

ORDER = ("default", "CALM", "best on the truth", "Uniform")


def row(method: str, sse: float, *, epsilon: float = 1.0, k: int = 3, data: str = "clicks") -> dict[str, Any]:
    return {"data": data, "d": 8, "people": 1000, "k": k, "epsilon": epsilon, "method": method, "sse": sse}


@pytest.fixture
def spec() -> Mapping[str, Any]:
    """CALM chose the best views in both settings; the default is better at one of them."""
    errors = {0.5: (0.3, 0.2, 0.2), 1.0: (0.1, 0.2, 0.2)}
    rows = [
        row(name, sse, epsilon=epsilon)
        for epsilon, found in errors.items()
        for name, sse in zip(ORDER[:3], found, strict=True)
    ]
    rows += [row(name, sse, k=6) for name, sse in (("default", 0.4), ("CALM", 0.5))]
    rows += [row("CALM", 0.5, data="people"), row("default", 0.6, data="people")]
    return calm_chart(rows, order=ORDER, compared=ORDER[:2], ways=3, categorical="people")


def test_methods_with_the_same_error_stand_side_by_side(spec: Mapping[str, Any]) -> None:
    """Three lanes of 4 pixels: 12 are left free at both ends of 330, so that ε = 0.5 to 1 takes 306."""
    upper = spec["vconcat"][0]
    at = {(value["method"], value["epsilon"]): value["at"] for value in upper["data"]["values"]}
    lane = 4 * 0.5 / 306
    assert at["CALM", 0.5] == pytest.approx(0.5)
    assert at["best on the truth", 0.5] - at["CALM", 0.5] == pytest.approx(lane)
    assert at["CALM", 1.0] - at["default", 1.0] == pytest.approx(lane)
    axis = upper["spec"]["layer"][0]["encoding"]["x"]["axis"]
    assert axis["values"] == [0.5, 1.0]  # the settings themselves


def test_the_best_has_a_ring_unless_it_knows_the_truth(spec: Mapping[str, Any]) -> None:
    upper, lower = (part["data"]["values"] for part in spec["vconcat"])
    assert [(value["epsilon"], value["method"]) for value in upper if value["best"]] == [
        (0.5, "CALM"),
        (1.0, "default"),
    ]
    assert [(value["data"], value["method"]) for value in lower if value["best"]] == [
        ("clicks", "default"),
        ("people", "CALM"),
    ]


def test_the_legend_is_above_the_lines_and_names_methods_that_are_there(spec: Mapping[str, Any]) -> None:
    colour = spec["vconcat"][0]["spec"]["layer"][0]["encoding"]["color"]
    assert colour["legend"]["orient"] == "top"
    assert colour["scale"]["domain"] == list(ORDER[:3])
    found = drawn(spec)
    assert {"clicks, 1,000 people", "8 attributes", "tables over 6 of 8 attributes, ε = 1"} <= set(
        re.findall(r"<t(?:ext|span)[^>]*>([^<]+)", found)
    )
    assert "undefined" not in found
