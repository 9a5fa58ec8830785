"""Publishing experiments on small generated data, and randomised response: its guarantee, and that it is inverted."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from crosstally_lab.papers.edbt12 import census as census_module
from crosstally_lab.papers.edbt12 import publishing
from crosstally_lab.papers.edbt12.census import Census, census
from crosstally_lab.papers.edbt12.randomised_response import flip, nearest_distribution, retain
from crosstally_lab.papers.outcomes import Settings


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> Census:
    monkeypatch.delenv("CROSSTALLY_DATA", raising=False)
    monkeypatch.setattr(census_module, "PAPER_SIZES", (6, 2, 5, 4))
    return census(np.random.default_rng(1), rows=20_000)


@pytest.fixture
def small(data: Census, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(publishing, "census", lambda random, path: data)
    monkeypatch.setattr(publishing, "_DRAWS", 2)
    monkeypatch.setattr(publishing, "_SWEEPS", 20)
    monkeypatch.setattr(publishing, "_RANGES", 5)
    return Settings(quick=False, data=None, progress=lambda done, steps: None)


def test_the_papers_pairs_have_29570_cells() -> None:
    assert sum(a * b for a, b in combinations(census_module.PAPER_SIZES, 2)) == 29_570


def test_retention_has_the_amplification_it_claims(data: Census) -> None:
    sent = retain(data, 1.0, np.random.default_rng(2))
    for n, kept in zip(data.schema.shape, sent.kept, strict=True):
        assert (kept + (1 - kept) / n) / ((1 - kept) / n) == pytest.approx(math.e)
    assert flip(data, 1.0, np.random.default_rng(2)).flipped == pytest.approx(1 / (1 + math.exp(0.5)))


@pytest.mark.parametrize("method", [retain, flip])
@pytest.mark.parametrize("positions", [(1,), (1, 3), (0, 2), (1, 2, 3)])
def test_the_perturbation_is_inverted(data: Census, method: object, positions: tuple[int, ...]) -> None:
    """Without bias: the mean of 30 draws is within five of its standard errors, cell by cell.

    A false alarm has a probability of 1e-6 for one cell; what was sent itself is further off than that.
    """
    truth = publishing._shares(data.codes, positions, data.schema.shape)
    random = np.random.default_rng(3)
    draws = np.array([method(data, 1.5, random).joint(positions) for _ in range(30)])  # type: ignore[operator]
    errors = (draws.mean(axis=0) - truth) / (draws.std(axis=0, ddof=1) / math.sqrt(30))
    assert draws[0].shape == truth.shape
    assert np.abs(errors).max() < 7  # Student's t with 29 degrees of freedom, 40 cells


@pytest.mark.parametrize("method", [retain, flip])
def test_shares_of_ranges_are_sums_of_the_joint_distribution(data: Census, method: object) -> None:
    sent = method(data, 1.0, np.random.default_rng(4))  # type: ignore[operator]
    share = sent.share(((0, 1, 3), (2, 0, 2), (3, 2, 2)))
    assert share == pytest.approx(sent.joint((0, 2, 3))[1:4, 0:3, 2].sum(), abs=1e-4)


def test_flipped_bits_are_counted_together(data: Census) -> None:
    sent = flip(data, 1.0, np.random.default_rng(5))
    f = sent.flipped
    x, y = sent.bits[1][0].astype(float), sent.bits[3][2].astype(float)
    assert sent.joint((1, 3))[0, 2] == pytest.approx(float(np.mean((x - f) * (y - f))) / (1 - 2 * f) ** 2)


def test_the_nearest_distribution_by_hand() -> None:
    assert nearest_distribution(np.array([[2.0, 0.0], [-1.0, 0.0]])).tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert nearest_distribution(np.array([0.25, 0.75])).tolist() == [0.25, 0.75]
    assert nearest_distribution(np.array([0.0, 0.0])).tolist() == [0.5, 0.5]


def test_true_shares_of_ranges_are_counted_row_by_row(data: Census) -> None:
    asked = publishing._asked(data, 3, 4, np.random.default_rng(6))
    for query, truth in zip(asked.queries, asked.truth, strict=True):
        assert len(query) == 3
        inside = sum(all(first <= row[p] <= last for p, first, last in query) for row in data.codes.T)
        assert truth == pytest.approx(inside / data.rows)


def test_figure_6_has_every_table_and_method(small: Settings) -> None:
    outcome = publishing._figure_6(small)
    assert len({row["method"] for row in outcome.rows}) == 6
    assert len(outcome.rows) == 6 * (6 + 4)
    assert {row["ways"] for row in outcome.rows} == {2, 3}
    assert len(outcome.claims) == 4  # no attribute has 50 values
    assert all(0 <= float(row["truncated"]) <= 1 for row in outcome.rows)
    assert all(float(row["error"]) < 0.2 for row in outcome.rows if row["method"] == "crosstally, synthetic data")


def test_figure_7_has_every_number_of_attributes(small: Settings) -> None:
    outcome = publishing._figure_7(small)
    assert {(row["k"], row["method"]) for row in outcome.rows} == {
        (k, row["method"]) for k in (1, 2, 3, 4) for row in outcome.rows
    }
    assert len(outcome.rows) == 4 * 5
    assert len(outcome.claims) == 2
    assert outcome.claims[0].figure.count("k=") == 4
