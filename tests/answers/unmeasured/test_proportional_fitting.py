"""Tables raked instead of solved for: the same tables of greatest entropy, nearly."""

from __future__ import annotations

import numpy as np
import pytest

from crosstally.answers.unmeasured.known import Known
from crosstally.answers.unmeasured.maximum_entropy import greatest_entropy
from crosstally.answers.unmeasured.proportional_fitting import greatest_entropy_again, raked
from crosstally.residuals import decompose

SHAPE = (3, 4, 2)


def with_pairs(tables: np.ndarray) -> Known:
    """All pairs of some tables, and not what they do not say."""
    coefficients = decompose(tables, 3).reshape(len(tables), -1)
    covered = (np.indices(SHAPE) > 0).sum(axis=0).ravel() < 3
    return Known(SHAPE, covered, np.ascontiguousarray(np.where(covered, coefficients, 0.0)))


def test_replicates_are_those_of_the_solver() -> None:
    """Within 0.2 people of about 40: margins are within 0.1% of themselves and one row, shared by two to four cells."""
    rng = np.random.default_rng(1)
    truth = rng.uniform(20, 60, SHAPE)
    known = with_pairs(np.stack([truth, *(truth + rng.normal(0, 3, (4, *SHAPE)))]))
    solved = np.stack([each.values for each in greatest_entropy(known)])
    found = greatest_entropy_again(known)
    assert np.abs(found - solved).max() < 0.2
    assert np.abs(found[0] - solved[0]).max() < 0.02
    assert np.abs(solved[1:] - solved[0]).max() > 3


def test_cells_that_are_zero_in_the_truth_come_back_in_a_replicate() -> None:
    truth = np.full(SHAPE, 30.0)
    truth[0, 0] = 0.0
    again = truth.copy()
    again[0, 0] = 8.0
    found = greatest_entropy_again(with_pairs(np.stack([truth, again])))
    assert found[0, 0, 0] == pytest.approx(np.zeros(2), abs=1e-3)
    assert found[1, 0, 0] == pytest.approx(np.full(2, 8.0), abs=0.1)


def test_a_truth_without_replicates_is_solved_for_alone() -> None:
    truth = np.random.default_rng(3).uniform(20, 60, (1, *SHAPE))
    found = greatest_entropy_again(with_pairs(truth))
    both = greatest_entropy_again(with_pairs(np.concatenate([truth, truth])))
    assert found.shape == (1, *SHAPE)
    assert np.array_equal(found[0], both[0])
    assert found[0].sum(axis=2) == pytest.approx(truth[0].sum(axis=2), abs=0.02)


def test_contrasts_without_their_margins_are_solved_for() -> None:
    """A pair's own coefficients and the total, and nothing about single attributes: no margin is known."""
    tables = np.random.default_rng(2).uniform(20, 60, (2, 2, 2))
    coefficients = decompose(tables, 2).reshape(2, -1)
    covered = np.array([True, False, False, True])
    known = Known((2, 2), covered, np.ascontiguousarray(np.where(covered, coefficients, 0.0)))
    solved = np.stack([each.values for each in greatest_entropy(known)])
    assert np.array_equal(greatest_entropy_again(known), solved)


def test_one_table_serves_several() -> None:
    """Two margins of a half each: a table of odds 4 and one of odds 1, for each of two totals."""
    tables = np.array([[[4.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]])
    like = np.array([[[0.25, 0.25], [0.25, 0.25]], [[25.0, 25.0], [25.0, 25.0]]]).reshape(2, 1, 2, 2)
    got = raked(np.stack([tables, tables]), like, [1, 2], 2)
    odds_4, odds_1 = np.array([[1 / 3, 1 / 6], [1 / 6, 1 / 3]]), np.full((2, 2), 0.25)
    assert got[0] == pytest.approx(np.stack([odds_4, odds_1]), abs=1e-3)
    assert got[1] == pytest.approx(100 * np.stack([odds_4, odds_1]), abs=0.1)
