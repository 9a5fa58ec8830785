"""The history experiments on small generated data: what they print, that the truth is the truth, and by hand."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from crosstally.errors import SourceError
from crosstally_lab.papers.edbt12 import census as census_module
from crosstally_lab.papers.edbt12 import past_answers as edbt12
from crosstally_lab.papers.edbt12 import past_claims, trials
from crosstally_lab.papers.edbt12.census import PAPER_SIZES, Census, census
from crosstally_lab.papers.outcomes import Settings


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.delenv("CROSSTALLY_DATA", raising=False)
    monkeypatch.setattr(census_module, "PAPER_SIZES", (6, 2, 5, 4))
    monkeypatch.setattr(edbt12, "_QUERIES", 60)
    monkeypatch.setattr(trials, "_STEP", 100.0)
    monkeypatch.setattr(edbt12, "_EFFORT_QUICK", trials.Effort(300, 4))
    monkeypatch.setattr(edbt12, "_alphas", lambda quick: [3e3, 3e4, 3e5])
    monkeypatch.setattr(edbt12, "census", lambda random, path: census(random, path=path, rows=5000))
    return Settings(quick=True, data=None, progress=lambda done, steps: None)


def test_generated_census_has_the_papers_numbers_of_values() -> None:
    data = census(np.random.default_rng(1), rows=2000)
    if data.label == "generated census":
        assert data.schema.shape == PAPER_SIZES
        assert data.rows == 2000
    assert data.pairs[0, 1].sum() == data.rows
    assert data.pairs[2, 5].sum(axis=1) == pytest.approx(data.counts(2))


def test_a_file_is_read_and_a_wrong_one_is_told(tmp_path: Path) -> None:
    path = tmp_path / "public.parquet"
    pa.parquet.write_table(pa.table({"a": ["x", "y", "x"], "b": [3, 1, 2]}), path)
    data = census(np.random.default_rng(1), path=path)
    assert isinstance(data, Census)
    assert data.schema.shape == (2, 3)
    assert data.codes.tolist() == [[0, 1, 0], [2, 0, 1]]
    with pytest.raises(SourceError, match="there is no file"):
        census(np.random.default_rng(1), path=tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("no")
    with pytest.raises(SourceError, match="as a Parquet file"):
        census(np.random.default_rng(1), path=tmp_path / "text.parquet")


@pytest.mark.parametrize("kind", ["2-D ranges", "arbitrary 2-D counts"])
def test_true_answers_are_counted_row_by_row(kind: str) -> None:
    data = Census(
        census(np.random.default_rng(1), rows=300).schema, census(np.random.default_rng(1), rows=300).codes, label="x"
    )
    asked = trials.ask(data, kind, 40, np.random.default_rng(2))
    for bundle in asked.batch.bundles:
        i, j = bundle.positions
        for row, table in zip(bundle.rows, bundle.tables, strict=True):
            assert asked.truth[row] == sum(table[a, b] for a, b in zip(data.codes[i], data.codes[j], strict=True))


def test_the_grid_is_refined_about_the_best_alpha_in_steps_of_at_most_a_tenth() -> None:
    trial = object.__new__(trials.KernelTrial)
    trial.at = lambda alpha, draws: (np.full(draws, abs(np.log(alpha / 1e4))), np.ones(draws))  # type: ignore[method-assign]
    curve = trial.curve([1e3, 2e3, 4e3, 8e3, 16e3], 2)
    best = curve.alphas[curve.best(curve.past)]
    assert 1e4 / 1.05 < best < 1e4 * 1.05
    near = [a for a in curve.alphas if 4e3 <= a <= 16e3]
    assert max(b / a for a, b in itertools.pairwise(near)) <= 1.1 + 1e-9


def test_figure_2_has_curves_of_both_methods_and_the_default(small: Settings) -> None:
    outcome = edbt12._figure_2(small)
    methods = {(row["method"], row["prior"], row["past"]) for row in outcome.rows}
    assert len(methods) == 10
    assert sum(row["method"] == "crosstally" for row in outcome.rows) == 16
    assert {claim.of for claim in outcome.claims} == {"paper", "crosstally"}
    grid = sorted({row["alpha"] for row in outcome.rows if row["method"] == "kernel PCA"})
    assert grid == [3e3, 3e4, 3e5]
    assert outcome.chart is not None
    panels = {value["panel"] for part in outcome.chart["vconcat"] for value in part["data"]["values"]}
    assert panels == {
        "past 2-D ranges",
        "past arbitrary 2-D counts",
        "new 2-D ranges, after 2-D ranges",
        "new 2-D ranges, after arbitrary 2-D counts",
    }


@pytest.mark.parametrize("figure", ["3", "4", "5"])
def test_the_other_figures_have_both_methods_and_a_chart(small: Settings, figure: str) -> None:
    outcome = getattr(edbt12, f"_figure_{figure}")(small)
    assert outcome.name == f"edbt12-figure-{figure}"
    assert outcome.claims
    assert outcome.chart is not None
    if figure == "5":
        assert max(row["gap"] for row in outcome.rows) < 1e-8
        assert all(row["maximum entropy"] > 0 for row in outcome.rows)
    else:
        assert {row["method"] for row in outcome.rows} == {"kernel PCA", "maximum entropy"}


def curve(past: list[list[float]]) -> trials.Curve:
    return trials.Curve((1.0, 2.0), np.array(past), np.array(past))


def test_claims_are_decided_by_whole_intervals() -> None:
    """Errors of eight draws that hardly differ decide, and those of draws that differ by a half leave claims open."""
    steady = 1 + 0.001 * np.arange(8)
    halved = {
        (method, prior): curve(np.outer(steady * level, [1.5, 1.0]).tolist())
        for method in ("kernel PCA", "maximum entropy")
        for prior, level in (("bought", 0.5), ("uniform", 1.0))
    }
    found = {claim.claim: claim.holds for claim in past_claims.alpha_claims("2-D ranges", halved)}
    assert found["the prior gives a significant boost (0.9 x) to kernel PCA, at its best alpha (past 2-D ranges)"]
    assert found["with too small an alpha the error grows again, for both methods and priors (past 2-D ranges)"]
    assert [held for claim, held in found.items() if "vanishes" in claim] == [False]
    loose = np.array([1, 2, 1, 2, 1, 2, 1, 2.0])
    halved["kernel PCA", "bought"] = curve(np.outer(loose, [1.5, 1.0]).tolist())
    found = {claim.claim: claim.holds for claim in past_claims.alpha_claims("2-D ranges", halved)}
    assert (
        found["the prior gives a significant boost (0.9 x) to kernel PCA, at its best alpha (past 2-D ranges)"] is None
    )
