from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crosstally.answers.marginal import ErrorKind, Marginal
from crosstally.budget import Budget
from crosstally.errors import CrosstallyError
from crosstally.schema import Attribute, Schema
from crosstally_lab.papers.calibration import Calibration, Coverage, calibrated

SCHEMA = Schema([Attribute("a", range(3)), Attribute("b", range(4)), Attribute("c", edges=[0, 1, 2, 5])])


def coverage(*releases: tuple[float, float, float, float], kind: ErrorKind = ErrorKind.CORRECTED) -> Coverage:
    return Coverage(2, kind, "all", sums=np.array(releases))


def test_share_and_width_by_hand() -> None:
    """Of 30 cells 27 held; widths add to 600, squared errors to 750: 20 over 3.92 x 5."""
    found = coverage((10, 8, 250, 250), (20, 19, 350, 500))
    assert (found.cells, found.held) == (30, 0.9)
    assert found.width == pytest.approx(20 / (3.92 * 5))
    # beyond its due: 8 - 9 and 19 - 18, so sqrt(2 / 1 x 2) / 30
    assert found.std_error == pytest.approx(2 / 30)
    assert coverage((10, 10, 5, 0)).width is None
    assert math.isnan(coverage((10, 10, 5, 0)).std_error)


@pytest.mark.parametrize(
    ("held", "kind", "verdict"),
    [
        ((95, 96, 95, 94, 95), ErrorKind.CORRECTED, "as they should"),
        ((80, 81, 80, 79, 80), ErrorKind.CORRECTED, "too seldom"),
        ((60, 95, 99, 70, 98), ErrorKind.CORRECTED, "too few releases to tell whether they hold as they should"),
        ((80,), ErrorKind.CORRECTED, "too few releases to tell whether they hold as they should"),
        ((100,) * 5, ErrorKind.CORRECTED, "too few releases to tell whether they hold as they should"),
        ((100,) * 8, ErrorKind.CORRECTED, "more often than they need to: they are too wide"),
        ((100,) * 5, ErrorKind.BOUNDS, "as they should"),
    ],
)
def test_a_verdict_rules_chance_out(held: tuple[float, ...], kind: ErrorKind, verdict: str) -> None:
    """All of n cells held is beyond 98.5% for sure if 0.015 > 3.29 sqrt(0.985 x 0.015 / n): above 710."""
    assert coverage(*((100, each, 1, 1) for each in held), kind=kind).verdict == verdict


def generated(**options: Any) -> Calibration:
    return calibrated(SCHEMA, Budget(epsilon=1), rows=3_000, releases=4, **options)


def test_intervals_of_a_small_schema_hold_and_a_fifth_of_their_width_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over 25 runs the share held was 0.97 with a standard deviation of 0.015, at a fifth of the width 0.43 and 0.04.

    Each bound is six deviations away.
    """
    told: list[tuple[int, int]] = []
    found = generated(progress=lambda done, steps: told.append((done, steps)))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert {each.order for each in found.coverage} == {1, 2, 3}
    by_class = {each.size: each.cells for each in found.coverage if each.order == 3}
    assert by_class.pop("all") == sum(by_class.values()) == 4 * 36
    whole = found.of_kind(ErrorKind.CORRECTED)
    assert whole is not None
    assert whole.held > 0.85
    interval = Marginal.interval

    def narrow(self: Marginal, level: float) -> tuple[Any, Any]:
        low, high = interval(self, level)
        return self.values - (self.values - low) / 5, self.values + (high - self.values) / 5

    monkeypatch.setattr(Marginal, "interval", narrow)
    failed = generated().of_kind(ErrorKind.CORRECTED)
    assert failed is not None
    assert failed.held < 0.7


def test_public_rows_are_compared_with_their_own_counts(tmp_path: Path) -> None:
    """With so large a budget every answer is the truth: all is held, and nothing errs."""
    path = tmp_path / "rows.csv"
    path.write_text("a,b,c\n" + "0,1,0\n" * 30 + "2,3,4\n" * 50 + "1,0,1\n" * 5)
    found = calibrated(SCHEMA, Budget(epsilon=100), public=path, releases=2)
    assert {each.held for each in found.coverage} == {1.0}
    sizes = {each.size: each.cells for each in found.coverage if each.order == 1}
    assert sizes == {"all": 2 * 10, "0": 2, "1-20": 2 * 3, ">20": 2 * 6}
    assert [each.name for each in tmp_path.iterdir()] == ["rows.csv"]


def test_at_least_one_release_is_made() -> None:
    with pytest.raises(CrosstallyError, match="releases must be at least 1, got 0"):
        calibrated(SCHEMA, Budget(epsilon=1), public=[], releases=0)
