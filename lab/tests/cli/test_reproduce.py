from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cli_runs import ran_well, run
from crosstally_lab.papers import experiments
from crosstally_lab.papers.outcomes import Claim, Experiment, Outcome, Settings


def _outcome(*, holds: bool | None) -> Outcome:
    claims = (
        Claim("Flat wins.", of="paper", holds=False, figure="1.2 x"),
        Claim("Direct wins.", of="crosstally", holds=holds, figure="0.8 x"),
    )
    return Outcome("small", ({"strategy": "flat", "error": 1.25}, {"strategy": "direct", "error": 2.5}), claims=claims)


@pytest.fixture(params=[True, False, None])
def experiment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool | None:
    """A small experiment beside the real ones, and whether its claim of crosstally's holds; None is open."""

    def small(settings: Settings) -> Outcome:
        assert settings.quick
        settings.progress(1, 1)
        return _outcome(holds=request.param)

    monkeypatch.setattr(experiments, "EXPERIMENTS", (*experiments.EXPERIMENTS, Experiment("small", "A test", small)))
    return request.param


def test_reproduce_lists_experiments(experiment: bool | None) -> None:
    names = [each["name"] for each in json.loads(ran_well("reproduce", "--list", "--json").out)]
    assert {"priview-crossover", "small"} <= set(names)
    assert "A test" in ran_well("reproduce", "--list").out


def test_reproduce_prints_rows_and_verdicts_and_fails_on_claims_of_ours(
    experiment: bool | None, tmp_path: Path
) -> None:
    ran = run("reproduce", "small", "--quick", "--json", "-o", tmp_path / "results", "--quiet")
    assert json.loads(ran.out) == {
        "name": "small",
        "rows": [{"strategy": "flat", "error": 1.25}, {"strategy": "direct", "error": 2.5}],
        "claims": [
            {"claim": "Flat wins.", "of": "paper", "holds": False, "figure": "1.2 x"},
            {"claim": "Direct wins.", "of": "crosstally", "holds": experiment, "figure": "0.8 x"},
        ],
    }
    assert (tmp_path / "results" / "outcome.json").is_file()
    told = "crosstally: 1 claim of crosstally does not hold; the first: Direct wins.\n"
    assert (ran.code, ran.err) == ((1, told) if experiment is False else (0, ""))
    shown = run("reproduce", "small", "--quick").out
    assert "flat        1.25\ndirect       2.5\n" in shown
    word = {True: "holds", False: "does not hold", None: "open"}[experiment]
    assert re.search(rf"^{word} +Direct wins. \(crosstally\)$", shown, re.MULTILINE)


def test_reproduce_all_writes_one_page_of_all_verdicts(
    experiment: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only = tuple(each for each in experiments.EXPERIMENTS if each.name == "small")
    monkeypatch.setattr(experiments, "EXPERIMENTS", only)
    ran = run("reproduce", "--all", "--quick", "--json", "-o", tmp_path / "all", "--quiet")
    assert ran.code == (1 if experiment is False else 0)
    assert [each["name"] for each in json.loads(ran.out)] == ["small"]
    page = (tmp_path / "all" / "index.html").read_text(encoding="utf-8")
    word = {True: "holds", False: "does not hold", None: "open"}[experiment]
    assert f"<tr><th>{word}</th><td>Direct wins.</td><td>crosstally</td><td>0.8 x</td></tr>" in page
    assert "1 experiments, 2 claims, quick runs." in page
    assert (tmp_path / "all" / "small" / "rows.csv").is_file()
    assert "Direct wins." in run("reproduce", "--all", "--quick", "-o", tmp_path / "all").out


def test_reproduce_all_takes_no_name() -> None:
    ran = run("reproduce", "small", "--all")
    assert (ran.code, "leave out the name and --data" in ran.err) == (2, True)
