"""The estimate of risk: the least form by a slow search, and estimated against true risk on generated people."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from crosstally.budget import Noise, NoiseKind
from crosstally.inference.estimates import _view_groups, maximal_views
from crosstally.inference.risk import Blend, Sets, best_weights
from crosstally.inference.shrink import Shrinkage, _Model, _replicate_noise
from crosstally.residuals import combine
from crosstally.residuals.combining import Averages
from reference_shrinkage import best_weights as slow_best_weights
from simulated import measured, people, schema_of, true_coefficients

LAPLACE, GAUSSIAN = NoiseKind.LAPLACE, NoiseKind.GAUSSIAN
VIEWS = list(combinations(range(6), 3))
PAIRS = [(), *((i,) for i in range(6)), *combinations(range(6), 2)]

CASES = {
    "one Laplace table": ((12, 8, 6), [(0, 1, 2)], 2_000, Noise(LAPLACE, 4.0), False),
    "20 views": ((2, 3, 4, 3, 2, 5), VIEWS, 3_000, Noise(LAPLACE, 20.0), False),
    "a scale below 1": ((12, 8, 6), [(0, 1, 2)], 2_000, Noise(LAPLACE, 0.7), False),
    "Gaussian views": ((2, 3, 4, 3, 2, 5), VIEWS, 3_000, Noise(GAUSSIAN, 20.0), False),
    "Gaussian contrasts": ((2, 3, 4, 3, 2, 5), PAIRS, 3_000, Noise(GAUSSIAN, 60.0), True),
}


def estimated_and_true(case: str, draws: int, *, variance: float = 1.0) -> np.ndarray:
    """For each draw and each of the four candidates the estimated and the true risk, in units of that of least squares.

    ``variance`` scales the variance of the replicates' noise: a planted fault unless it is 1.
    """
    sizes, tables, rows, noise, contrasts = CASES[case]
    rng = np.random.default_rng(len(case))
    schema = schema_of(*sizes)
    out = []
    for _ in range(draws):
        full = people(rng, sizes, rows, 1.0)
        views = measured(rng, full, tables, noise, contrasts=contrasts)
        combined = combine(schema, views)
        model = _Model(combined, _view_groups(combined, maximal_views(combined, [v.query.attributes for v in views])))
        noises = _replicate_noise(model, combined, views, Averages.of(schema, views))
        blends = Shrinkage(model, [math.sqrt(variance) * each for each in noises]).blends
        truth, chosen = true_coefficients(combined, full, tables), model.sets.chosen
        line = []
        for blend, number in ((blends[0], 0), (blends[0], 1), (blends[1], 1), (blends[2], 1)):
            off = (blend.candidates[number] - truth)[chosen]
            line.append((blend.risks[number + 1].sum(), (off**2 / model.variances[chosen]).sum()))
        out.append(np.array(line) / len(chosen))
    return np.array(out)


def disagreement(found: np.ndarray) -> float:
    """By how many standard errors the worst candidate's mean estimate is further than 15% from its mean true risk."""
    estimated, true = found[:, :, 0].mean(axis=0), found[:, :, 1].mean(axis=0)
    error = (found[:, :, 0] - found[:, :, 1]).std(axis=0, ddof=1) / math.sqrt(len(found))
    return float(((np.abs(estimated - true) - 0.15 * true) / error).max())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("draws", [12, pytest.param(200, marks=pytest.mark.verify)])
def test_estimated_and_true_risk_agree_within_15_percent(case: str, draws: int) -> None:
    """At 4 standard errors beyond 15% a right estimate fails with probability below 1e-4 for each of 20 candidates."""
    assert disagreement(estimated_and_true(case, draws)) <= 4


@pytest.mark.parametrize("case", ["one Laplace table", "20 views", "Gaussian views"])
def test_half_the_variance_is_noticed(case: str) -> None:
    assert disagreement(estimated_and_true(case, 12, variance=0.5)) > 4


def test_the_best_weights_are_those_of_a_slow_search() -> None:
    rng = np.random.default_rng(7)
    columns = []
    for _ in range(60):
        d = rng.normal(size=(2, 5)) * 10.0 ** rng.uniform(-1, 1, (2, 1))
        columns.append([(d[0] ** 2).sum(), (d[0] * d[1]).sum(), (d[1] ** 2).sum(), *rng.normal(-2, 4, 2)])
    q, g = np.array(columns).T[:3], np.array(columns).T[3:]
    found = best_weights(q, g)
    assert (found >= 0).all()
    assert (found.sum(axis=0) <= 1 + 1e-12).all()
    for i, (a, b) in enumerate(found.T):
        value = q[0, i] * a * a + 2 * q[1, i] * a * b + q[2, i] * b * b + 2 * (g[0, i] * a + g[1, i] * b)
        assert value <= slow_best_weights(q[:, i], g[:, i], 100)[0] + 1e-9


def test_the_best_weights_by_hand() -> None:
    """Inside; on the first side; nothing helps; both agree and promise much: all of one of them; flat forms."""
    q = np.array([[4.0, 0, 4], [4, 0, 4], [4, 0, 4], [4, 4, 4], [0, 0, 0]]).T
    g = np.array([[-1.0, -2], [-1, 3], [1, 1], [-9, -9], [0, 0]]).T
    found = best_weights(q, g)
    assert np.allclose(found[:, :3], [[0.25, 0.25, 0], [0.5, 0, 0]])
    assert found[:, 3].sum() == pytest.approx(1)
    assert found[:, 4].tolist() == [0, 0]


def test_one_set_drawn_towards_zero_is_the_estimate_of_james_and_stein() -> None:
    """Ten numbers of variance 1, zero or as they are: (10 - 2) / 385 of the way to zero is gone; 385 is their square.

    Noise of one unit each, in both signs, moves the numbers as they are by itself and zero not at all.
    """
    linear = np.array([100.0, *range(1, 11)])
    none = np.where(np.arange(11) == 0, linear, 0.0)
    noise = np.where(np.arange(11) == 0, 0.0, 1.0)
    smooth = 0.5 * linear
    sets = Sets(np.array([0] + [10] * 10), np.array([0] + [1] * 10))
    blend = Blend(
        sets,
        linear,
        np.ones(11),
        (none, linear),
        noises=[noise, -noise],
        replicated=[(none, smooth + noise), (none, smooth - noise)],
        smooth=smooth,
    )
    assert blend.weights[:, 0] == pytest.approx([8 / 385, 0])
    assert blend.of(linear, (none, linear)) == pytest.approx(np.where(np.arange(11) == 0, 100, linear * (1 - 8 / 385)))


def test_means_of_orders_are_means_over_sets_of_their_means() -> None:
    """Two sets of order 1, of one and two coefficients, have means 6 and 3; one set of order 2 has the mean 5."""
    sets = Sets(np.array([0, 2, 2, 3]), np.array([1, 1, 1, 2]))
    sums = sets.sums(np.array([6.0, 2.0, 4.0, 5.0]))
    assert sums.tolist() == [6.0, 6.0, 5.0]
    assert sets.means_of_orders(sums).tolist() == [4.5, 4.5, 5.0]
