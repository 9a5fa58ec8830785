"""Figure 1 of PriView: its verdicts from made-up numbers, and the experiment on a small file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from priview_scores import scored

from crosstally_lab.papers import experiments
from crosstally_lab.papers.data import visits
from crosstally_lab.papers.priview import all_methods, trials
from crosstally_lab.papers.priview.all_methods import all_methods_claims
from crosstally_lab.papers.priview.trials import DISTANCE, Scores

CELLS = [(epsilon, k) for epsilon in (1.0, 0.1) for k in (2, 4, 6)]
TRUE = {
    "PriView": 1.0,
    "Flat": 1.0,
    "Data cubes": 1.0,
    "Matrix, eigen": 2.0,
    "Matrix, low rank": 1.5,
    "Fourier": 3.0,
    "Fourier + LP": 3.0,
    "Direct": 3.5,
    "MWEM": 4.0,
    "Learning 1/2": 90.0,
    "Learning 1/4": 70.0,
    "Learning 1/8": 80.0,
    "Uniform": 100.0,
}
WITHOUT_NOISE = {"Learning 1/2": 60.0, "Learning 1/4": 40.0, "Learning 1/8": 20.0}
FLAT = {k: [tuple(range(9))] for k in (2, 4, 6)}


def all_scores(errors: dict[str, float]) -> list[Scores]:
    return [scored(name, error, epsilon=epsilon, k=k) for epsilon, k in CELLS for name, error in errors.items()]


def spread(scores: list[Scores]) -> list[Scores]:
    """MWEM's errors differ by table for k = 2: a 95th percentile of 5.8, a 25th of 2.5."""
    for each in scores:
        if each.method == "MWEM" and each.k == 2:
            each.errors[DISTANCE][:] = np.tile([1.0, 4.0, 6.0], (5, 1))
    return scores


def failing(scores: list[Scores], chosen: dict[int, list[tuple[int, ...]]] = FLAT) -> list[int]:
    claims = list(all_methods_claims(scores, all_scores(WITHOUT_NOISE), chosen))
    assert {claim.of for claim in claims} == {"paper"}
    assert len(claims) == 13
    return [i for i, claim in enumerate(claims) if claim.holds is False]


def test_numbers_of_which_all_sentences_are_true_contradict_none() -> None:
    claims = list(all_methods_claims(spread(all_scores(TRUE)), all_scores(WITHOUT_NOISE), FLAT))
    assert [claim.holds for claim in claims] == [True] * 9 + [None, True, None, True]  # MWEM differs by table
    assert claims[0].figure.startswith("ε = 1, k = 2: 1 x (1 to 1); ε = 1, k = 4: 1 x")


@pytest.mark.parametrize(
    ("method", "error", "wrong"),
    [
        ("PriView", 2.2, [0, 6, 8]),
        ("Flat", 3.6, [1, 6, 8]),
        ("Fourier + LP", 1.0, [2]),
        ("Fourier", 2.0, [3]),
        ("Matrix, eigen", 3.6, [5]),
        ("Matrix, low rank", 0.9, [8]),
        ("MWEM", 25.0, [9]),
        ("Learning 1/8", 21.0, [10]),
        ("Direct", 4.1, [11]),
    ],
)
def test_a_number_that_contradicts_figure_1_is_seen(method: str, error: float, wrong: list[int]) -> None:
    """The last claim fails in all of them: without spread MWEM is as narrow for k = 2 as for k = 4."""
    assert failing(all_scores({**TRUE, method: error})) == [*wrong, 12]


def test_cuboids_that_are_not_flat_are_seen() -> None:
    assert 4 in failing(all_scores(TRUE), {**FLAT, 2: [(0, 1, 2), (3, 4, 5)]})


def small_file(path: Path) -> Path:
    random = np.random.default_rng(0)
    columns = {f"p{i}": (random.random(500) < (i + 1) / 20).astype(np.int8) for i in range(11)}
    pyarrow.parquet.write_table(pa.table(columns), path)
    return path


def test_the_most_visited_pages_are_taken_in_their_order(tmp_path: Path) -> None:
    found = visits(9, np.random.default_rng(0), path=small_file(tmp_path / "small.parquet"))
    assert found.schema.names == tuple(f"p{i}" for i in range(2, 11))
    assert (found.table.num_rows, found.label) == (500, "small.parquet")


def test_rows_are_generated_where_there_is_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CROSSTALLY_DATA", raising=False)
    found = visits(9, np.random.default_rng(0))
    assert (len(found.schema.names), found.table.num_rows) == (9, 989_818)
    assert found.label == "generated, in place of MSNBC"


def test_figure_1_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One budget, two runs, tables of two and four attributes: every method has its rows and its chart is drawn."""
    monkeypatch.setattr(all_methods, "_EPSILONS", (1.0,))
    monkeypatch.setattr(all_methods, "_WAYS", (2, 4))
    monkeypatch.setattr(all_methods, "_MANY_RUNS", 3)
    monkeypatch.setattr(trials, "RUNS", 2)
    outcome = experiments.run("priview-figure-1", quick=True, data=small_file(tmp_path / "small.parquet"))
    methods = [row["method"] for row in outcome.rows if row["metric"] == DISTANCE and row["k"] == 2]
    assert set(methods) == {*TRUE, "crosstally"}
    assert len(methods) == 14  # thirteen, and the default release
    stars = {row["method"] for row in outcome.rows if row["without_noise"] is not None}
    assert stars == set(WITHOUT_NOISE)
    assert "chart.svg" in {path.name for path in outcome.save(tmp_path / "out")}
