"""The inference repeated: the same decisions, the same numbers everywhere, and errors of the size that was seen."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from crosstally.budget import Noise, NoiseKind
from crosstally.inference.bootstrap import bootstrapped
from crosstally.inference.estimates import CORRECTED, infer
from crosstally.inference.shrink import smoothed
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells
from crosstally.residuals import combine
from simulated import measured, people, schema_of, true_coefficients

LAPLACE, GAUSSIAN = NoiseKind.LAPLACE, NoiseKind.GAUSSIAN
SIZES = (2, 3, 4, 3)
VIEWS = [(0, 1, 2), (1, 2, 3), (0, 3)]


def some_views(seed: int, scale: float = 6.0, kind: NoiseKind = LAPLACE) -> list[Measurement]:
    rng = np.random.default_rng(seed)
    return measured(rng, people(rng, SIZES, 900, 1.0), VIEWS, Noise(kind, scale))


@pytest.mark.parametrize("nonnegative", CORRECTED)
@pytest.mark.parametrize("rows", [None, 900])
def test_the_same_coefficients_give_the_same_estimate(nonnegative: str, rows: int | None) -> None:
    """Decisions are kept: from the release's own coefficients the repeated inference is the release's own."""
    inference = infer(schema_of(*SIZES), some_views(1), rows=rows, nonnegative=nonnegative, rounds=2)
    assert np.array_equal(inference.again(inference.linear.coefficients), inference.estimate.coefficients)
    other = inference.linear.coefficients + 5.0
    assert nonnegative == "none" or not np.array_equal(inference.again(other), inference.estimate.coefficients)


def test_the_same_measurements_give_the_same_replicates() -> None:
    first, second = (bootstrapped(infer(schema_of(*SIZES), some_views(2)), number=3) for _ in range(2))
    other = bootstrapped(infer(schema_of(*SIZES), some_views(3)), number=3)
    assert np.array_equal(first.replicates.at(), second.replicates.at())
    assert not np.array_equal(first.replicates.at(), other.replicates.at())
    assert len({row.tobytes() for row in first.replicates.at()}) == 3


@pytest.mark.parametrize("kind", [LAPLACE, GAUSSIAN])
def test_nothing_to_correct_leaves_the_noise_that_was_measured(kind: NoiseKind) -> None:
    """Large cells: the deviations of 2,000 replicates have the exact variances of least squares, within 5 sigma."""
    noise = Noise(kind, 3.0)
    counts = np.array([[5000, 4000], [3000, 9000]])
    views = [Measurement(Cells(("a0", "a1")), counts, variance=noise.variance, noise=noise, origin="test")]
    inference = infer(schema_of(2, 2), views, nonnegative="joint")
    found = bootstrapped(inference, number=2_000)
    ratios = (found.replicates.at().astype(float) ** 2).mean(axis=0) / combine(schema_of(2, 2), views).variances
    assert ratios == pytest.approx(np.ones(4), abs=5 * np.sqrt(5 / 2_000))  # the kurtosis of Laplace is 6 at most
    assert found.replicates.stretches == pytest.approx(np.ones(3), abs=0.1)


def test_deviations_are_stretched_to_the_risk_that_the_covariance_penalty_estimates() -> None:
    """A correction that takes a tenth of every number but the total, by the formula of Efron, written out.

    With X = 0.9 l the risk in units of the variance is sum (X - l)^2 / v + 2 sum cov(X - l, e) / v + n. What it has
    beyond the replicates is a normal number that is known to be positive: its mean, from the law cut off at zero.
    """
    inference = infer(schema_of(4, 4), some_pair(), nonnegative="joint")
    linear, size = inference.linear.coefficients, 16
    total = int(inference.linear.places([()])[0].item())
    kept = np.where(np.arange(size) == total, 1.0, 0.9)
    starts: list[np.ndarray] = []

    def tenth_less(start: np.ndarray) -> np.ndarray:
        starts.append(start.copy())
        return kept * start

    estimate = replace(inference.estimate, coefficients=kept * linear)
    found = bootstrapped(replace(inference, estimate=estimate, correct=tenth_less), number=8)
    places = inference.linear.places([("a0", "a1")])[0][0].reshape(4, 4)
    noises = [start - found.truth for start in starts]
    for order, own in ((1, np.concatenate([places[0, 1:], places[1:, 0]])), (2, places[1:, 1:].ravel())):
        v, n = inference.linear.variances[own], len(own)
        moved = [0.9 * start[own] - start[own] for start in starts]
        penalties = np.mean([e[own] * m / v for e, m in zip(noises, moved, strict=True)], axis=0)
        risks = (0.1 * linear[own]) ** 2 / v + 2 * penalties + 1
        seen = np.mean([((0.9 * start[own] - found.truth[own]) ** 2 / v).sum() for start in starts])
        law = NormalDist(risks.sum() - seen, risks.std() * np.sqrt(n))
        grid = np.linspace(0, max(law.mean, 0) + 12 * law.stdev, 400_001)
        density = np.exp(-0.5 * ((grid - law.mean) / law.stdev) ** 2)
        beyond = (grid * density).sum() / density.sum()
        assert found.replicates.stretches[order] == pytest.approx(np.sqrt(1 + beyond / seen), rel=1e-4)
    assert found.replicates.stretches[2] > 1.01


def some_pair() -> list[Measurement]:
    rng = np.random.default_rng(3)
    return measured(rng, people(rng, (4, 4), 900, 1.0), [(0, 1)], Noise(LAPLACE, 6.0))


def test_a_public_number_of_rows_has_no_noise() -> None:
    inference = infer(schema_of(*SIZES), some_views(4), rows=900)
    total = inference.linear.places([()])[0]
    assert not bootstrapped(inference, number=4).replicates.at()[:, total].any()
    free = infer(schema_of(*SIZES), some_views(4))
    assert (bootstrapped(free, number=4).replicates.at()[:, total] != 0).all()


def test_the_smooth_truth_keeps_one_way_tables() -> None:
    inference = infer(schema_of(*SIZES), some_views(5))
    truth = bootstrapped(inference, number=1).truth
    for i in range(len(SIZES)):
        places = inference.linear.places([(f"a{i}",)])[0][0]
        assert truth[places] == pytest.approx(inference.estimate.coefficients[places])


def test_interactions_that_are_only_noise_vanish_from_the_truth() -> None:
    """Independent attributes under noise of half a cell: the truth of the replicates is nearly independent."""
    rng = np.random.default_rng(6)
    table = rng.multinomial(8_000, np.full(400, 1 / 400)).reshape(20, 20)
    inference = infer(schema_of(20, 20), measured(rng, table, [(0, 1)], Noise(LAPLACE, 10.0)))
    places = inference.linear.places([("a0", "a1")])[0][0]
    truth, linear = bootstrapped(inference, number=1).truth[places], inference.linear.coefficients[places]
    order_2 = np.ones((20, 20), bool)
    order_2[0], order_2[:, 0] = False, False
    assert (truth[order_2.ravel()] ** 2).sum() < 0.1 * (linear[order_2.ravel()] ** 2).sum()
    # also where no correction came before, which shrinks them as well
    alone = smoothed(inference.linear, inference.views, inference.linear.coefficients)[places]
    assert (alone[order_2.ravel()] ** 2).sum() < 0.1 * (linear[order_2.ravel()] ** 2).sum()


def test_deviations_are_of_the_size_of_true_errors() -> None:
    """Over 30 releases the mean square of deviations, in units of variances, is 0.7 to 1.5 of that of true errors."""
    own, true = 0.0, 0.0
    rng = np.random.default_rng(7)
    exact = people(rng, SIZES, 900, 1.0)
    for _ in range(30):
        inference = infer(schema_of(*SIZES), measured(rng, exact, VIEWS, Noise(LAPLACE, 6.0)))
        deviations = bootstrapped(inference, number=6).replicates.at().astype(float)
        errors = inference.estimate.coefficients - true_coefficients(inference.linear, exact, VIEWS)
        true += float((errors**2 / inference.linear.variances).sum())
        own += float((deviations**2 / inference.linear.variances).sum() / len(deviations))
    assert 0.7 < own / true < 1.5
