"""Errors of cells of large sparse tables: by numerical integration, and against the truth of generated people."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.inference.bootstrap import bootstrapped
from crosstally.inference.cell_errors import _large_tables, expected_squares, normal_parts, posterior
from crosstally.inference.estimates import infer
from crosstally.inference.risk import COMPONENTS
from crosstally.releases import Release, Statement, publish
from simulated import measured, schema_of

LAPLACE, GAUSSIAN = NoiseKind.LAPLACE, NoiseKind.GAUSSIAN
STATEMENT = Statement(strategy="test", budget=Budget(epsilon=1), neighbours=Neighbours.ADD_REMOVE)
SIDE = 78


def integrated(
    y: float, guess: float, weights: NDArray[np.float64], scale: float, kind: NoiseKind
) -> tuple[float, float]:
    """The mean and deviation of the count on a fine grid, with the density of the noise and the prior of ``risk``."""
    grid = np.linspace(0, 600, 120_001)
    prior = np.zeros(len(grid))
    for weight, lift, width in zip(weights, *COMPONENTS, strict=True):
        mean = lift * guess
        variance = min(mean, (0.35 * mean) ** 2) + (width * mean) ** 2
        if weight:
            prior += weight * np.exp(-0.5 * (grid - mean) ** 2 / variance) / np.sqrt(variance)
    off = np.abs(y - grid) / scale
    density = prior * (np.exp(-off) if kind is LAPLACE else np.exp(-0.5 * off**2))
    density /= density.sum()
    mean = float(grid @ density)
    return mean, math.sqrt(float(grid**2 @ density) - mean**2)


@pytest.mark.parametrize(("kind", "close"), [(GAUSSIAN, 1e-3), (LAPLACE, 0.06)])
@pytest.mark.parametrize("y", [25.0, 45.0, 80.0, 130.0])
def test_the_posterior_is_that_of_numerical_integration(kind: NoiseKind, close: float, y: float) -> None:
    """Components at 40 and 160, each known to 35% and more. Six normal laws are within 6% of Laplace's."""
    weights = np.where(np.isin(COMPONENTS[0], [1.0, 4.0]) & (COMPONENTS[1] >= 0.25), 1.0, 0.0)
    weights /= weights.sum()
    scale = 8.0
    variance = scale**2 * (2 if kind is LAPLACE else 1)
    noise = normal_parts(variance, 1.0 if kind is LAPLACE else 0.0)
    mean, spread = posterior(np.array([y]), np.array([40.0]), noise, weights[None])
    assert (mean[0], np.sqrt(spread[0])) == pytest.approx(integrated(y, 40.0, weights, scale, kind), rel=close)


def test_laplace_noise_has_its_own_normal_parts() -> None:
    """They keep the variance, and the fourth moment of Laplace's law is 6 variance^2 instead of 3."""
    variances, probabilities = normal_parts(50.0, 1.0)
    assert probabilities @ variances == pytest.approx(50, rel=1e-3)
    assert 3 * probabilities @ variances**2 == pytest.approx(6 * 50**2, rel=1e-2)
    assert normal_parts(50.0, 0.0).tolist() == [[50.0], [1.0]]


def test_a_cell_that_stands_out_is_noise_where_no_other_does() -> None:
    """The same 60 beside a guess of 1: among 2,000 empty cells it may be noise, beside 200 like it it is people."""
    rng = np.random.default_rng(1)
    empty = np.concatenate([[60.0], rng.laplace(0, 10, 2_000)])
    full = np.concatenate([np.full(200, 60.0), rng.laplace(0, 10, 1_800)])
    lone, one_of_many = (
        expected_squares(noisy, np.ones(len(noisy)), np.full(len(noisy), 50.0), variance=200.0, laplace=1.0)[0]
        for noisy in (empty, full)
    )
    assert lone > 2 * one_of_many


def sparse_people(rng: np.random.Generator) -> NDArray[np.int64]:
    """30,000 people: four fifths by Zipf's law, independent; the others in 3% of the cells; and three kinds of them."""
    one = 1 / np.arange(1, SIDE + 1)
    independent = np.multiply.outer(one, one)
    strong = (rng.random((SIDE, SIDE)) < 0.03) * rng.pareto(1.2, (SIDE, SIDE))
    weights = 0.8 * independent / independent.sum() + 0.2 * strong / strong.sum()
    kinds = weights[..., None] * rng.dirichlet(np.ones(3), size=(SIDE, 1))
    return rng.multinomial(30_000, (kinds / kinds.sum()).ravel()).reshape(SIDE, SIDE, 3)


def sparse_release(seed: int, kind: NoiseKind) -> tuple[Release, NDArray[np.int64]]:
    """All pairs with noise of a standard deviation of 28, and the true table of the large one."""
    rng = np.random.default_rng(seed)
    full = sparse_people(rng)
    views = measured(rng, full, [(0, 1), (0, 2), (1, 2)], Noise(kind, 20.0 if kind is LAPLACE else 28.0))
    return publish(schema_of(SIDE, SIDE, 3), views, STATEMENT), full.sum(axis=2)


@pytest.mark.parametrize("kind", [LAPLACE, GAUSSIAN])
def test_intervals_of_a_large_sparse_pair_hold_for_cells_that_people_quote(kind: NoiseKind) -> None:
    """Cells estimated at 20 or more. One scale for each order covered 79 and 92%, with z of 2.5 and 2.0.

    Six seeded releases: 97% each, standard deviation of a release 1%; z 1.0, standard deviation 0.1.
    """
    held, z = [], []
    for seed in range(6):
        release, truth = sparse_release(seed, kind)
        answer = release.marginal("a0", "a1")
        low, high = answer.interval()
        quoted = answer.values >= 20
        held.append(((low <= truth) & (truth <= high))[quoted])
        sure = quoted & (answer.values > 3 * answer.std_error)
        z.append(((answer.values - truth) / answer.std_error)[sure])
    assert 0.94 < np.concatenate(held).mean() < 0.99
    assert 0.85 < np.sqrt((np.concatenate(z) ** 2).mean()) < 1.2


def test_a_triple_nobody_measured_errs_at_least_like_its_large_pair() -> None:
    """Six seeded releases: 98.8% of cells estimated at 20 or more; 80% where replicates alone told the errors of it."""
    held = []
    for seed in range(6):
        release, _ = sparse_release(seed, LAPLACE)
        full = sparse_people(np.random.default_rng(seed))
        answer = release.marginal("a0", "a1", "a2")
        low, high = answer.interval()
        held.append(((low <= full) & (full <= high))[answer.values >= 20])
    assert np.concatenate(held).mean() > 0.94


def test_doors_of_a_large_pair_agree() -> None:
    """Axes swapped, a single cell and a sum of one cell have the same interval; a sum of two has one of its own."""
    release, _ = sparse_release(7, LAPLACE)
    low, high = release.marginal("a0", "a1").interval()
    swapped = release.marginal("a1", "a0").interval()
    assert np.array_equal(low.T, swapped[0])
    assert np.array_equal(high.T, swapped[1])
    alone = release.marginal("a0", where="a1 = 3")
    assert np.array_equal(alone.interval()[1], high[:, 3])
    two = release.marginal("a0", where="a1 in {3, 4}")
    pair = release.marginal("a0", "a1").std_error[:, 3:5]
    assert (two.std_error > 0).all()
    assert np.median(two.std_error / np.sqrt((pair**2).sum(axis=1))) == pytest.approx(1, abs=0.35)


@pytest.mark.parametrize("nonnegative", ["shrunk", "joint"])
def test_only_large_tables_of_the_default_learn_from_themselves(nonnegative: str) -> None:
    """A view of 30 x 30 x 3 and what it contains: the pairs of 90 cells are too small."""
    rng = np.random.default_rng(2)
    views = measured(rng, sparse_people(rng)[:30, :30], [(0, 1, 2)], Noise(LAPLACE, 5.0))
    found = bootstrapped(infer(schema_of(30, 30, 3), views, nonnegative=nonnegative), number=2).squares
    assert (found is None) == (nonnegative != "shrunk")
    sets = [("a0",), ("a0", "a1"), ("a0", "a2"), ("a1", "a2"), ("a0", "a1", "a2")]
    large = [names for names in sets if found is not None and found.of(names) is not None]
    assert large == ([("a0", "a1"), ("a0", "a1", "a2")] if nonnegative == "shrunk" else [])


def test_sums_of_laplace_noise_are_nearly_normal() -> None:
    """By hand: a pair alone, of variance v, is all Laplace's; as a sum over three values 3 v / sqrt(3) of 3 v is."""
    rng = np.random.default_rng(2)
    noise, full, pair = Noise(LAPLACE, 5.0), sparse_people(rng)[:30, :30], ("a0", "a1")
    for view, variance, share in (((0, 1), noise.variance, 1.0), ((0, 1, 2), 3 * noise.variance, 1 / math.sqrt(3))):
        found = _large_tables(infer(schema_of(30, 30, 3), measured(rng, full, [view], noise)))[pair]
        assert variance**2 * math.sqrt(found) == pytest.approx(share * variance)
