from __future__ import annotations

import csv
import json
import math
import sys
from pathlib import Path

import pytest

from crosstally.errors import CrosstallyError, MissingExtraError
from crosstally_lab.papers import experiments
from crosstally_lab.papers.outcomes import Claim, Outcome

CHART = {
    "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
    "data": {"values": [{"d": 1, "error": 2}, {"d": 2, "error": 4}]},
    "mark": "line",
    "encoding": {"x": {"field": "d", "type": "quantitative"}, "y": {"field": "error", "type": "quantitative"}},
}


def outcome(chart: dict[str, object] | None = None) -> Outcome:
    return Outcome(
        "an-experiment",
        ({"d": 1, "error": 2.5}, {"d": 2, "error": math.nan, "note": "ε, not measured"}),
        claims=(Claim("it is so", of="paper", holds=True, figure="1 = 1"),),
        chart=chart,
    )


def test_an_outcome_is_json_of_the_agreed_shape() -> None:
    assert outcome(CHART).to_dict() == {
        "name": "an-experiment",
        "rows": [{"d": 1, "error": 2.5}, {"d": 2, "error": None, "note": "ε, not measured"}],
        "claims": [{"claim": "it is so", "of": "paper", "holds": True, "figure": "1 = 1"}],
    }


def test_an_outcome_is_saved_as_csv_and_json(tmp_path: Path) -> None:
    written = outcome().save(tmp_path / "new" / "folder")
    assert [path.name for path in written] == ["rows.csv", "outcome.json"]
    with written[0].open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [["d", "error", "note"], ["1", "2.5", ""], ["2", "nan", "ε, not measured"]]
    assert json.loads(written[1].read_text(encoding="utf-8")) == outcome().to_dict()


def test_a_chart_is_saved_as_a_drawing_and_a_picture(tmp_path: Path) -> None:
    written = outcome(CHART).save(tmp_path)
    assert [path.name for path in written] == ["rows.csv", "outcome.json", "chart.svg", "chart.png"]
    assert written[2].read_text(encoding="utf-8").startswith("<svg")
    assert written[3].read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_without_the_charts_extra_rows_are_saved_and_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'crosstally\[charts\]'"):
        outcome(CHART).save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"rows.csv", "outcome.json"}


def test_a_folder_that_cannot_be_made_is_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CrosstallyError, match="cannot write to the folder"):
        outcome().save(tmp_path / "file" / "folder")


def test_rows_are_flat() -> None:
    with pytest.raises(CrosstallyError, match="got list in 'a'"):
        Outcome("x", ({"a": [1]},), claims=())


def test_a_claim_is_somebody_s() -> None:
    with pytest.raises(CrosstallyError, match="of paper or crosstally, got 'me'"):
        Claim("so", of="me", holds=True, figure="")


def test_experiments_have_different_names_and_titles() -> None:
    names = [each.name for each in experiments.EXPERIMENTS]
    assert "priview-crossover" in names
    assert len(set(names)) == len(names)
    assert all(each.title for each in experiments.EXPERIMENTS)


def test_an_unknown_experiment_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(
        CrosstallyError, match="unknown experiment 'priview-crosover'; did you mean 'priview-crossover'"
    ):
        experiments.run("priview-crosover", quick=True)
