"""The benchmark of past answers: both methods see the same noise, and the best alpha is one alpha for all draws."""

from __future__ import annotations

import math

import pytest

from benchmarks.accuracy import past_answers
from crosstally_lab.papers.edbt12.census import generated_census
from crosstally_lab.papers.edbt12.trials import RANGES


def test_errors_of_all_draws_are_below_those_of_raw_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_answers, "census", lambda random: generated_census(20_000, random))
    found = past_answers.errors_of(RANGES, 2, 60)
    assert found["rows"] == "generated census"
    assert len(found["default"]) == len(found["best alpha"]) == 2
    # Raw answers have the standard deviation of their noise; a method that only repeats them would be within 40% of it
    assert max(*found["default"], *found["best alpha"]) < 0.6 * 5_000 * math.sqrt(2)


def test_a_line_has_the_paired_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"rows": "census", "default": [2.0, 6.0], "best alpha": [4.0, 12.0]}
    monkeypatch.setattr(past_answers, "in_processes", lambda _, jobs: [found for _ in jobs])
    ranges, counts = past_answers.run(2)
    assert ranges["ratio"] == pytest.approx(0.5)
    assert ranges["met"]
    assert ranges["work"].startswith("past answers, 5,000 2-D ranges")
    assert counts["work"].startswith("past answers, 5,000 arbitrary 2-D counts")
