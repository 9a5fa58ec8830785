"""The comparison rule of the accuracy benchmarks: worked out by hand, and on draws whose ratio is known."""

import math

import numpy as np
import pytest

from benchmarks.accuracy.comparison import (
    Mean,
    geometric_mean,
    independent_ratio,
    paired_ratio,
    ratio_of_means,
    regret,
    worst,
)


def test_a_paired_ratio_by_hand() -> None:
    """Logs 0 and ln 4: mean ln 2, standard error ln 2; t with one degree: 12.7062 (97.5%), 318.3088 (99.9%)."""
    ratio = paired_ratio([3.0, 8.0], [3.0, 2.0])
    assert ratio.estimate == pytest.approx(2.0)
    assert ratio.low == pytest.approx(2.0 ** (1 - 12.7062), rel=1e-3)
    assert ratio.high == pytest.approx(2.0 ** (1 + 12.7062), rel=1e-3)
    assert math.log2(ratio.least) == pytest.approx(1 - 318.3088, rel=1e-4)
    assert ratio.draws == 2


def test_noise_that_both_saw_cancels_only_when_draws_are_paired() -> None:
    random = np.random.default_rng(1)
    common = np.exp(random.normal(0, 1, 20))
    theirs = 100 * common
    ours = 1.03 * theirs * np.exp(random.normal(0, 0.005, 20))
    assert paired_ratio(ours, theirs).exceeds(1.02)
    assert not independent_ratio(ours, theirs).exceeds(1.02)
    assert not paired_ratio(ours, theirs).exceeds(1.04)


def test_a_limit_is_exceeded_by_chance_once_in_a_thousand() -> None:
    """True ratio 1.02, limit 1.02, 20,000 settings of 20 draws: 20 expected; a 95% bound would give 1,000.

    A Poisson count of mean 20 is outside 4 to 45 with probability below 1e-5.
    """
    random = np.random.default_rng(2)
    logs = math.log(1.02) + random.normal(0, 0.05, (20_000, 20))
    exceeded = sum(paired_ratio(np.exp(line), np.ones(20)).exceeds(1.02) for line in logs)
    assert 4 <= exceeded <= 45


def test_intervals_hold_the_true_ratio_in_95_of_100() -> None:
    """4,000 settings of 5 draws: 3,800 expected, standard deviation 14; a normal interval would hold about 3,510."""
    random = np.random.default_rng(3)
    logs = random.normal(math.log(0.8), 0.1, (4_000, 5))
    ratios = [paired_ratio(np.exp(line), np.ones(5)) for line in logs]
    assert 3_730 <= sum(each.low <= 0.8 <= each.high for each in ratios) <= 3_870


def test_independent_draws_need_not_be_as_many() -> None:
    """Logs 0, 2 against 0, 0, 3: means 1 and 1; variances 2/2 and 3/3, so the standard error is sqrt 2."""
    e = math.e
    ratio = independent_ratio([1.0, e**2], [1.0, 1.0, e**3])
    assert ratio.estimate == pytest.approx(1.0)
    # Welch: (1 + 1)^2 / (1^2/1 + 1^2/2) = 8/3 degrees; t at 97.5%: 3.43 by interpolation of tables (3.18 and 4.30)
    assert math.log(ratio.high) / math.sqrt(2) == pytest.approx(3.43, abs=0.05)
    assert ratio.draws == 2


def test_a_ratio_of_means_by_hand() -> None:
    """Relative standard errors 0.03 and 0.04, so 0.05 of the logarithm; 11 draws each."""
    ratio = ratio_of_means(Mean(1.0, error=0.03, draws=11), Mean(2.0, error=0.08, draws=11))
    assert ratio.estimate == pytest.approx(0.5)
    # (9 + 16)^2 / (81 + 256) = 1.8546 times 10 degrees; t at 97.5% is 2.101 with 18 and 2.093 with 19
    assert math.log(ratio.high / 0.5) / 0.05 == pytest.approx(2.097, abs=0.005)
    assert ratio.draws == 11


def test_the_geometric_mean_over_settings_by_hand() -> None:
    ratios = [paired_ratio([a, a * 1.1, a / 1.1], [1.0, 1.0, 1.0]) for a in (0.5, 2.0, 0.125)]
    mean = geometric_mean(ratios)
    assert mean.estimate == pytest.approx(0.5)  # the cube root of 1/8; the arithmetic mean is .875
    # half widths are equal, so that of the mean of three is theirs over sqrt 3
    assert math.log(mean.high / 0.5) == pytest.approx(math.log(ratios[0].high / 0.5) / math.sqrt(3))


def test_references_are_averaged_before_the_least_is_taken() -> None:
    """In each draw one of the two has error 1; on average both have 3, the third 2.5."""
    best, ratio = regret([5.0, 5.0], {"a": [1.0, 5.0], "b": [5.0, 1.0], "c": [2.5, 2.5]})
    assert best == "c"
    assert ratio.estimate == pytest.approx(2.0)


def test_the_worst_setting_is_the_surest_and_not_the_noisiest() -> None:
    ratios = {
        "noisy": paired_ratio([0.5, 9.0, 1.0, 1.0], np.ones(4)),
        "sure": paired_ratio([1.31, 1.30, 1.32, 1.30], np.ones(4)),
    }
    assert ratios["noisy"].estimate > ratios["sure"].estimate
    assert worst(ratios)[0] == "sure"


@pytest.mark.parametrize("wrong", [[1.0], [1.0, 0.0], [1.0, math.inf], [[1.0, 2.0]]])
def test_errors_must_be_those_of_draws(wrong: list[float]) -> None:
    with pytest.raises(ValueError, match="errors must be"):
        paired_ratio(wrong, [1.0, 1.0])


def test_paired_draws_must_be_as_many() -> None:
    with pytest.raises(ValueError, match="got 3 and 2"):
        paired_ratio([1.0, 2.0, 3.0], [1.0, 2.0])
