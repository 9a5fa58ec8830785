"""Settings of CALM's grid are kept one by one."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from benchmarks.accuracy import calm_grid

from crosstally.papers.calm.experiment import Case, Counts
from crosstally.schema import Attribute, Schema

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
    assert len(lines) == 2
    assert all(line["note"].endswith("1 of 1 settings of the grid") for line in lines)
