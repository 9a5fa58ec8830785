"""Charts of ICDE 2013: errors by ε as in the paper, recoveries beside each other, the best with a ring."""

from __future__ import annotations

from typing import Any

import pytest

from crosstally_lab.papers.icde13.charts import error_chart, times_chart
from crosstally_lab.papers.outcomes import drawn


def row(method: str, recovery: str, error: float) -> dict[str, Any]:
    return {"workload": "Q1", "method": method, "recovery": recovery, "epsilon": 1.0, "relative_error": error}


ROWS = [
    row("Q", "own", 0.5),
    row("Q", "least squares", 0.4),
    row("Q+", "own", 0.3),
    row("Q+", "least squares", 0.3),
    row("crosstally", "default release", 0.35),
]


def test_errors_are_inversely_proportional_to_epsilon_except_the_default_s() -> None:
    """Half of ε doubles an error; the default was run once, and tables by themselves are in the lower chart alone."""
    spec = error_chart(ROWS, "Errors", epsilons=(0.5, 1.0), default="crosstally")
    upper, lower = (part["data"]["values"] for part in spec["vconcat"])
    assert {(each["method"], each["epsilon"]): each["relative_error"] for each in upper} == pytest.approx(
        {("Q", 0.5): 0.8, ("Q", 1.0): 0.4, ("Q+", 0.5): 0.6, ("Q+", 1.0): 0.3, ("crosstally", 1.0): 0.35}
    )
    assert [(each["method"], each["epsilon"]) for each in upper if each["best"]] == [("Q+", 0.5), ("Q+", 1.0)]
    assert [each["side"] for each in lower] == ["own", "least squares", "own", "least squares", "middle"]
    assert "undefined" not in drawn(spec)


def test_seconds_of_a_workload_stand_side_by_side() -> None:
    rows = [
        {"workload": "Q1", "method": name, "seconds": seconds} for name, seconds in (("Q", 0.2), ("I", 0.2), ("C", 0.1))
    ]
    spec = times_chart(rows, "here")
    assert spec["layer"][0]["encoding"]["xOffset"]["sort"] == ["I", "Q", "C"]
    assert [value["method"] for value in spec["data"]["values"] if value["best"]] == ["C"]
    assert "undefined" not in drawn(spec)
