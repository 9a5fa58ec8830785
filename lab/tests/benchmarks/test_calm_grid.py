"""Settings of CALM's grid are kept one by one."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from benchmarks.accuracy import calm_grid
from crosstally.schema import Attribute, Schema
from crosstally_lab.papers.calm.experiment import Case, Counts, Score

COUNTS = Counts((2_000,), (4,), (Fraction(1),), 3, 1, 1, 10, False)


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setenv("CROSSTALLY_BENCH_KEPT", str(tmp_path))
    codes = np.random.default_rng(1).integers(0, 2, (4, 2_000)).astype(np.uint8)
    schema = Schema([Attribute(name, ["0", "1"]) for name in "abcd"])
    return Case("coins", codes, schema=schema, tables=((0, 1, 2),))


def test_a_setting_is_worked_out_once(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calm_grid, "cases", lambda path, counts: [case])
    monkeypatch.setattr(calm_grid, "FULL", COUNTS)
    assert list(calm_grid.run(only_kept=True)) == []
    first = calm_grid.setting(case, Fraction(1), COUNTS)
    methods = {score.method: score for score in first}
    assert methods["Uniform"].sse < 0.01  # coins are nearly even
    assert methods["crosstally"].runs == 3
    monkeypatch.setattr(calm_grid, "scores_of", None)  # to be called again would be an error
    assert calm_grid.setting(case, Fraction(1), COUNTS) == first
    with pytest.raises(TypeError):
        calm_grid.setting(case, Fraction(2), COUNTS)
    lines = list(calm_grid.run(only_kept=True))
    assert len(lines) == 1  # four attributes are too few for the target of the mean
    assert lines[0]["note"].endswith("1 of 1 settings of the grid were run")
    ours, best = methods[calm_grid.OURS].sse, methods[calm_grid.BEST].sse
    assert lines[0]["ratio"] == pytest.approx(ours / best)


def test_the_mean_is_of_small_budgets_and_many_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    """SSE 1 over 2 at 16 attributes and epsilon 1, 3 over 2 at epsilon 2: the latter is above 1.05 beyond doubt."""
    scores = {"1": [(calm_grid.OURS, 1.0), (calm_grid.BEST, 2.0)], "2": [(calm_grid.OURS, 3.0), (calm_grid.BEST, 2.0)]}

    def setting(_: object, epsilon: Fraction, *__: object, **___: object) -> list[Score]:
        given = {"data": "coins", "d": 16, "people": 100, "epsilon": float(epsilon), "std_error": 0.01, "runs": 20}
        return [Score(method=method, sse=sse, **given) for method, sse in scores[str(epsilon)]]

    both = (Fraction(1), Fraction(2))
    case = Case("coins", np.zeros((4, 2), np.uint8), schema=Schema([Attribute("a", ["0", "1"])]), tables=((0,),))
    monkeypatch.setattr(calm_grid, "cases", lambda path, counts: [case])
    monkeypatch.setattr(calm_grid, "FULL", replace(COUNTS, epsilons=both, seldom=both))
    monkeypatch.setattr(calm_grid, "setting", setting)
    mean, each, everywhere = calm_grid.run()
    assert (mean["ratio"], mean["met"]) == (pytest.approx(0.5), True)
    assert (each["ratio"], each["met"]) == (pytest.approx(0.5), True)
    assert (everywhere["ratio"], everywhere["met"]) == (pytest.approx(1.5), False)
    assert "epsilon 2" in everywhere["note"]
