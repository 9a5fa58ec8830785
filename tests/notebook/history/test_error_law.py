"""The law of errors of new questions: unexplained variances by hand, its factor from noisy answers, its intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from crosstally.budget import Noise, NoiseKind
from crosstally.measurements import Measurement
from crosstally.notebook.history.chain import CellsOf
from crosstally.notebook.history.constraints import Constraints
from crosstally.notebook.history.error_law import DEVIATION, Unexplained, factor
from crosstally.notebook.results import Answer
from crosstally.query.linear import Linear, Term

ROWS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.int32)
PAST = Constraints((0,), np.array([0.5]), noise=np.ones(1), bounds=np.ones(1), tables=np.array([[1.0, 0.0]]))
PAIR = CellsOf((0, 1), (np.arange(2), np.arange(2)))
BOTH_ZERO = np.array([[1.0, 0, 0, 0]])
QUERY = Linear((Term(1, (("a", (1, 0)),)),))


def test_what_past_questions_leave_unexplained() -> None:
    """Four rows, a = 0 was asked, and a = b = 0 is new. A ridge of 0.02, and one of four rows counts on top.

    Variances 1/4 and 3/16, covariance 1/4 - 1/8. If the number of rows is not known: squares 1/2 and 1/4, product 1/4.
    """
    known, unknown = (Unexplained(ROWS, [PAST], (2, 2), centred=centred) for centred in (True, False))
    assert known.of(PAIR, BOTH_ZERO) == pytest.approx([3 / 16 - (1 / 8) ** 2 / (1 / 4 + 0.02) + 1 / 4], rel=1e-5)
    assert unknown.of(PAIR, BOTH_ZERO) == pytest.approx([1 / 4 - (1 / 4) ** 2 / (1 / 2 + 0.02) + 1 / 4], rel=1e-5)
    assert known.of(PAIR, 3 * BOTH_ZERO) == pytest.approx(3 * known.of(PAIR, BOTH_ZERO))  # three times the error
    assert Unexplained(ROWS, [], (2, 2), centred=True).of(PAIR, BOTH_ZERO) == pytest.approx([3 / 16 + 1 / 4])
    assert known.of(PAIR, np.zeros((1, 4))).tolist() == [0.0]


def test_the_cells_of_a_table_explain_as_questions_do() -> None:
    """The table of a has a = 0 and a = 1: two columns, each minus the other, of variance 1/4."""
    table = Constraints((0,), np.array([0.5, 0.5]), noise=np.ones(2), bounds=np.ones(2))
    found = Unexplained(ROWS, [table], (2, 2), centred=True).of(PAIR, BOTH_ZERO)
    assert found == pytest.approx([3 / 16 - 2 * (1 / 8) ** 2 / (1 / 2 + 0.02) + 1 / 4], rel=1e-5)


def drawn(number: int, kind: NoiseKind, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, list[Measurement]]:
    """Errors of the law with c = 0.3, spreads that are 1 to 100 times the noise, and answers with their noise."""
    noise = Noise(kind, 20.0)
    spreads = math.sqrt(noise.variance) * np.exp(rng.uniform(0, math.log(100), number))
    errors = 0.3 * spreads * rng.standard_t(3, number)
    own = rng.laplace(0, 20, number) if kind is NoiseKind.LAPLACE else rng.normal(0, 20, number)
    answers = [Measurement(QUERY, np.array(value), variance=noise.variance, noise=noise, origin="x") for value in own]
    return errors, spreads, answers


@pytest.mark.parametrize(("claimed", "fits"), [(1.0, True), (0.8, False), (1.25, False)])
@pytest.mark.parametrize("kind", [NoiseKind.LAPLACE, NoiseKind.GAUSSIAN])
def test_the_factor_of_answers_left_out(kind: NoiseKind, claimed: float, fits: bool) -> None:
    """4,000 answers: ln c has a standard error of about 0.02, since without noise each tells 2 x 3 / (3 + 3) = 1 of it.

    A true factor is missed by 0.12 with probability below 1e-6. Were the noise taken for error, c would be 1.2 times as
    large.
    """
    errors, spreads, answers = drawn(4000, kind, np.random.default_rng(1))
    gaps = errors - np.array([float(each.values) for each in answers])
    assert (abs(math.log(factor(gaps, spreads, answers) / (claimed * 0.3))) < 0.12) is fits


@pytest.mark.parametrize(("width", "fits"), [(1.0, True), (0.7, False), (1.6, False)])
def test_intervals_of_the_law_hold_as_often_as_they_say(width: float, fits: bool) -> None:
    """2,000 further errors, with c from 4,000 noisy answers: 95% within 2.5% with probability above 1 - 1e-6.

    Five standard errors of a share are 2.4%. With 0.7 times the width 89% hold, with 1.6 times 98.5%.
    """
    rng = np.random.default_rng(2)
    errors, spreads, answers = drawn(4000, NoiseKind.LAPLACE, rng)
    found = factor(errors - np.array([float(each.values) for each in answers]), spreads, answers)
    errors, spreads, _ = drawn(2000, NoiseKind.LAPLACE, rng)
    ends = [
        Answer("x", 0.0, std_error=width * DEVIATION * found * each, student=1.0).interval(0.95) for each in spreads
    ]
    held = np.mean([low <= error <= high for (low, high), error in zip(ends, errors, strict=True)])
    assert bool(abs(held - 0.95) < 0.025) is fits


def test_few_answers_are_drawn_to_log_odds_that_are_wrong_by_one() -> None:
    """One exact answer that is off by 1000: the belief, ln c about 0 with a deviation of 1, and the law by hand.

    The slope of -x^2 / 2 - x - 2 ln(1 + 1000^2 exp(-2 x) / 3), spread 1, is zero where
    x = -1 + 4 q / (1 + q), q = 1000^2 exp(-2 x) / 3: at x = 2.9952.
    """
    answer = Measurement(QUERY, np.array(0), variance=1e-12, noise=None, origin="x")
    assert math.log(factor(np.array([1000.0]), np.ones(1), [answer])) == pytest.approx(2.99521, abs=1e-4)
