from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t as student

from crosstally.errors import CrosstallyError
from crosstally_lab.papers import metrics


def test_errors_of_a_table_worked_out_by_hand() -> None:
    estimate, truth = [[8, 5], [-1, 4]], [[10, 2], [0, 4]]
    assert metrics.sum_of_squared_errors(estimate, truth) == 4 + 9 + 1
    assert metrics.normalised_l2(estimate, truth, rows=16) == pytest.approx(math.sqrt(14) / 16, rel=1e-15)
    assert metrics.mean_relative_error(estimate, truth) == (2 + 3 + 1 + 0) / 4 / 4


def test_jensen_shannon_uses_natural_logarithms() -> None:
    # P = (1/2, 1/2), Q = (1, 0), M = (3/4, 1/4): (ln(2/3) + ln 2) / 4 + ln(4/3) / 2
    by_hand = (math.log(2 / 3) + math.log(2)) / 4 + math.log(4 / 3) / 2
    assert by_hand == pytest.approx(0.215761, abs=1e-6)
    assert metrics.jensen_shannon([3, 3], [7, 0]) == pytest.approx(by_hand, rel=1e-14)
    assert metrics.jensen_shannon([7, 0], [3, 3]) == pytest.approx(by_hand, rel=1e-14)


def test_jensen_shannon_clips_negative_cells_before_it_normalises() -> None:
    # (6, -2) becomes (6, 0), not (6, -2) / 4
    assert metrics.jensen_shannon([6, -2], [5, 0]) == 0
    assert metrics.jensen_shannon([-1, -2], [1, 1]) == 0  # nothing left: uniform
    assert metrics.jensen_shannon([1, 5e-324], [1, 0]) == 0  # half of it is no number any more


def test_a_candlestick_holds_four_percentiles_and_the_mean() -> None:
    # ranks 0..4: 25% is rank 1, 50% rank 2, 75% rank 3, 95% rank 3.8
    summary = metrics.candlestick([100, 1, 2, 3, 4])
    assert summary == {"p25": 2, "p50": 3, "p75": 4, "p95": pytest.approx(80.8), "mean": 22}


def test_the_interval_of_a_mean_worked_out_by_hand() -> None:
    # squared deviations from the mean 2 sum to 34; 2.306004 is the 97.5% point of Student's t with 8 degrees
    interval = metrics.mean_interval([0, 2, 4, 2, 0, 4, 5, -1, 2], level=0.95)
    error = math.sqrt(34 / 8) / 3
    assert interval.estimate == 2
    assert interval.low == pytest.approx(2 - 2.306004 * error, abs=1e-6)
    assert interval.high == pytest.approx(2 + 2.306004 * error, abs=1e-6)


def test_the_bootstrap_interval_of_a_mean_has_its_level() -> None:
    """Covers in 95% of 400 repetitions: fewer than 350 or more than 399 has a chance below 1e-6 (seeded anyway)."""
    random = np.random.default_rng(5)
    covered = wrong = 0
    for _ in range(400):
        interval = metrics.bootstrap_mean(random.normal(10, 1, size=50), random, draws=400)
        covered += 10.0 in interval
        wrong += 10.5 in interval  # 3.5 standard errors away
    assert 350 <= covered <= 399
    assert wrong < 100


def test_a_paired_ratio_cancels_what_pairs_share() -> None:
    random = np.random.default_rng(6)
    shared = random.lognormal(0, 1, size=100)
    paired = metrics.ratio_interval(0.5 * shared, shared)
    apart = metrics.ratio_interval(0.5 * shared, shared[::-1])
    assert paired.estimate == pytest.approx(0.5, rel=1e-12)
    assert paired.high - paired.low < 1e-12
    assert apart.high - apart.low > 0.1


def test_the_bootstrap_follows_its_generator() -> None:
    values = np.arange(20.0)
    first, second, other = (metrics.bootstrap_mean(values, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first == second
    assert first != other


def test_the_bootstrap_of_many_values_works_in_blocks() -> None:
    values = np.full(3_000_000, 7.0)
    assert metrics.bootstrap_mean(values, np.random.default_rng(1), draws=3) == metrics.Interval(
        estimate=7, low=7, high=7, level=0.95
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.sum_of_squared_errors([1, 2], [1]), r"one shape and a cell, got \(2,\) and \(1,\)"),
        (lambda: metrics.sum_of_squared_errors([], []), "one shape and a cell"),
        (lambda: metrics.normalised_l2([1], [1], rows=0), "rows must be positive, got 0"),
        (lambda: metrics.mean_relative_error([1], [0]), "mean is positive"),
        (lambda: metrics.candlestick([]), "at least 1, all finite, got 0"),
        (lambda: metrics.mean_interval([1], level=0.9), "at least 2, all finite, got 1"),
        (lambda: metrics.mean_interval([1, math.nan], level=0.9), "all finite"),
        (lambda: metrics.mean_interval([1, 2], level=1), "level must be between 0 and 1, got 1"),
        (lambda: metrics.ratio_interval([1, 2], [1, 2, 3]), "got 2 and 3"),
        (lambda: metrics.ratio_interval([1, 2], [1, 0]), "positive"),
        (lambda: metrics.share_interval(3, 2, level=0.9), "got 3 of 2"),
    ],
)
def test_what_cannot_be_summarised_is_refused(call, message) -> None:
    with pytest.raises(CrosstallyError, match=message):
        call()


def test_a_grid_ratio_adds_the_variances_of_repetitions_and_items() -> None:
    """By hand: columns of 1 and 9 over ones are -0.8 and 0.8 off, with variance 1.28 / 2 = 0.8^2 and one degree."""
    found = metrics.grid_ratio_interval([[1.0, 9.0], [1.0, 9.0]], np.ones((2, 2)), level=0.5)
    assert found.estimate == 5.0
    assert found.high == pytest.approx(5 * math.exp(0.8))  # the quartile of Student's t with one degree is 1
    assert found.low == pytest.approx(5 / math.exp(0.8))
    same = metrics.grid_ratio_interval([[2.0, 8.0], [4.0, 6.0]], [[1.0, 4.0], [2.0, 3.0]])
    assert (same.low, same.high) == (2.0, 2.0)  # what a repetition or an item does to both cancels
    one = metrics.grid_ratio_interval([[1.0, 9.0]], np.ones((1, 2)), level=0.5)
    assert one.high == pytest.approx(5 * math.exp(0.8))  # a single repetition: items alone vary
    both = metrics.grid_ratio_interval([[1.0, 2.0], [3.0, 4.0]], np.ones((2, 2)), level=0.5)
    # rows 1.5 and 3.5 over 2.5: +-0.4; columns 2 and 3: +-0.2; 0.2^2 / (0.16^2 + 0.04^2) = 1.47 degrees
    assert both.high == pytest.approx(2.5 * math.exp(math.sqrt(0.2) * student.ppf(0.75, 0.04 / 0.0272)))


def test_the_interval_of_a_ratio_has_its_level() -> None:
    """Covers in 95% of 1,000 repetitions: outside 915 to 980 has a chance below 1e-6; half the ratio is not covered."""
    random = np.random.default_rng(7)
    covered = wrong = 0
    for _ in range(1_000):
        found = metrics.ratio_interval(random.gamma(4, 1, 40), random.gamma(4, 0.5, 40), level=0.95)
        covered += 2.0 in found
        wrong += 1.0 in found
    assert 915 <= covered <= 980
    assert wrong == 0


def test_the_level_of_verdicts_is_bonferroni_s() -> None:
    assert metrics.VERDICT_LEVEL == 1 - 1e-3 / 2_000


@pytest.mark.parametrize(
    ("values", "baseline", "message"),
    [
        ([1.0, 2.0], [1.0, 2.0], "grids of one shape"),
        ([[1.0, 2.0]], [[1.0], [2.0]], "grids of one shape"),
        ([[1.0, 2.0]], [[1.0, 0.0]], "positive values"),
    ],
)
def test_a_grid_ratio_needs_paired_grids(values: object, baseline: object, message: str) -> None:
    with pytest.raises(CrosstallyError, match=message):
        metrics.grid_ratio_interval(values, baseline)


def test_unpaired_ratios_have_the_interval_of_both_errors() -> None:
    """By hand: relative errors 3% and 4% are 5% together; equal numbers n have 2 (n - 1) degrees when alike.

    Satterthwaite: 0.0025^2 / (0.0009^2 / 9 + 0.0016^2 / 9) = 16.69 degrees; Student's 97.5% quantile is 2.113.
    """
    found = metrics.unpaired_ratio_interval((2.0, 0.06, 10), (1.0, 0.04, 10), level=0.95)
    assert (found.estimate, found.low) == (2.0, pytest.approx(2 * math.exp(-2.113 * 0.05), rel=1e-4))
    assert found.low * found.high == pytest.approx(4)
    with pytest.raises(CrosstallyError, match="a ratio needs positive values"):
        metrics.unpaired_ratio_interval((0.0, 0.1, 5), (1.0, 0.1, 5))
