"""Intervals of tables that nobody measured: what they hold, what they assume, and where they cannot hold."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from crosstally.answers.interactions import SIZES, Effects, Sizes, centred, learned, learned_sizes
from crosstally.answers.marginal import ErrorKind
from crosstally.answers.unmeasured.proportional_fitting import raked
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.inference.bootstrap import Normals
from crosstally.releases import Release, Statement, publish
from simulated import margin, measured, people, schema_of

LAPLACE = Noise(NoiseKind.LAPLACE, 5.0)
STATEMENT = Statement(strategy="test", budget=Budget(epsilon=1), neighbours=Neighbours.ADD_REMOVE)
SIX = (2, 3, 2, 4, 3, 2)


def released(
    rng: np.random.Generator, full: NDArray[np.int64], views: Sequence[Sequence[int]], **options: object
) -> Release:
    return publish(schema_of(*full.shape), measured(rng, full, views, LAPLACE), STATEMENT, **options)


def held(release: Release, full: NDArray[np.int64], axes: Sequence[int], scale: float = 1.0) -> NDArray[np.bool_]:
    answer, truth = release.marginal(*(f"a{i}" for i in axes)), margin(full, axes)
    low, high = (scale * (end - answer.values) for end in answer.interval(0.95))
    return (low <= truth - answer.values) & (truth - answer.values <= high)


def test_random_interactions_are_centred_and_of_size_one() -> None:
    drawn = centred(Normals(1), 4_000, (2, 3))
    for axis in (1, 2):
        assert np.abs(drawn.sum(axis=axis)).max() < 1e-12
    assert drawn.var(axis=0) == pytest.approx(np.ones((2, 3)), abs=5 * np.sqrt(2 / 4_000))


def test_raking_gives_the_margins_by_hand() -> None:
    """Odds of 4 kept, both margins a half: x / (1/2 - x) = 2, so x = 1/3."""
    got = raked(np.array([[4.0, 1.0], [1.0, 1.0]]), np.full((2, 2), 0.25), [1, 2], 2)
    assert got == pytest.approx(np.array([[1 / 3, 1 / 6], [1 / 6, 1 / 3]]), abs=1e-3)


def test_the_size_of_interactions_is_learned() -> None:
    """Independent attributes have smaller interactions than pairs with odds of e^2 have, which are of size 0.5."""
    rng = np.random.default_rng(1)
    views = list(combinations(range(5), 2))
    flat = rng.multinomial(100_000, np.full(32, 1 / 32)).reshape((2,) * 5)
    signs = np.indices((2,) * 5).reshape(5, -1) * 2 - 1
    weights = np.exp(0.5 * sum(signs[i] * signs[i + 1] for i in range(4)))
    strong = rng.multinomial(100_000, weights / weights.sum()).reshape((2,) * 5)
    found = []
    for full in (flat, strong):
        release = released(rng, full, views)
        sizes, weights_of_pair = learned_sizes(release.estimate, release._bootstrap()).of(("a0", "a1"))
        assert weights_of_pair.sum() == pytest.approx(1)
        found.append(float(np.sqrt(weights_of_pair @ sizes**2)))
    assert found[1] > 1.3 * found[0]


def peaked(sizes: Sequence[float]) -> NDArray[np.float64]:
    """Log-likelihoods of sets whose sizes are known to about 10%."""
    return -0.5 * ((np.log(SIZES) - np.log(sizes)[:, None]) / 0.1) ** 2


def test_sizes_follow_their_attributes() -> None:
    """Eight attributes in all pairs, the last one is in none. Pairs with a0 are three times as large as the others."""
    schema = schema_of(*[4] * 9)
    pairs = list(combinations(schema.names[:8], 2))
    logs = peaked([0.6 if "a0" in pair else 0.2 for pair in pairs])
    weights, effects = learned(pairs, logs, np.full(len(SIZES), 1 / len(SIZES)), Effects.before(schema, pairs))
    assert effects.of(("a0",))[0] - effects.of(("a1",))[0] == pytest.approx(np.log(3), abs=0.35)
    assert effects.of(("a8",))[0] == pytest.approx(0, abs=1e-6)
    assert effects.of(("a8",))[1] == pytest.approx(0.25, rel=0.05)  # nothing is known of it
    assert effects.of(("a1",))[1] < 0.1
    sizes = Sizes({2: weights}, {2: effects})
    strong, weak = (float(np.exp(law[1] @ np.log(law[0]))) for law in (sizes.of(("a0", "a8")), sizes.of(("a1", "a8"))))
    assert strong > 2 * weak


def test_large_tables_have_larger_interactions_where_measured_ones_do() -> None:
    """Sizes grow with the root of the number of cells: an attribute of 64 values that nobody measured follows."""
    values = [2, 2, 4, 4, 8, 8, 16, 16, 64]
    schema = schema_of(*values)
    pairs = list(combinations(schema.names[:8], 2))
    prior = np.full(len(SIZES), 1 / len(SIZES))
    found = []
    for power in (0.5, 0.0):
        logs = peaked([0.05 * np.prod(schema.sizes(pair)) ** power for pair in pairs])
        found.append(learned(pairs, logs, prior, Effects.before(schema, pairs))[1].of(("a8",))[0])
    assert found[0] > 0.5
    assert abs(found[1]) < 0.25


def test_what_a_modelled_answer_is() -> None:
    rng = np.random.default_rng(2)
    full = people(rng, SIX, 5_000, 1.0)
    release = released(rng, full, list(combinations(range(6), 2)))
    answer = release.marginal("a0", "a1", "a3")
    assert answer.error_kind is ErrorKind.MODELLED
    assert (answer.std_error > 0).all()
    assert np.isnan(answer.noise_std_error).all()
    low, high = answer.interval()
    assert ((low >= 0) & (low <= answer.values + 1e-3) & (answer.values <= high + 1e-3)).all()
    assert np.array_equal(high, np.rint(high))
    assert np.array_equal(answer.interval(), release.marginal("a0", "a1", "a3").interval())
    summed = release.marginal("a0", where="a1 = 0 and a3 in {0, 1}")
    assert summed.error_kind is ErrorKind.MODELLED
    low, high = summed.interval()
    assert ((low <= summed.values) & (summed.values <= high)).all()
    for method in ("least-squares", "linear-program"):
        assert release.marginal("a0", "a1", "a3", method=method).error_kind is ErrorKind.NONE
    assert release.refit(nonnegative="none").marginal("a0", "a1", "a3").error_kind is ErrorKind.NONE


def test_no_cell_is_larger_than_its_margins_may_be() -> None:
    rng = np.random.default_rng(3)
    full = people(rng, SIX, 5_000, 1.0)
    release = released(rng, full, list(combinations(range(6), 2)))
    high = release.marginal("a0", "a1", "a3").interval()[1]
    pair = release.marginal("a0", "a1")
    assert (high.max(axis=2) <= pair.values + 6 * pair.std_error + 1).all()


def test_a_cell_has_its_share_of_the_noise_of_a_margin_that_is_zero() -> None:
    """Nobody has a0 = 0 and a1 = 0, but under this noise 20 people might; then about half would have each a2.

    The upper ends of the two cells are from a quarter of that of the pair's cell to all of it.
    """
    full = np.full((4, 4, 2), 400)
    full[0, 0] = 0
    release = released(np.random.default_rng(8), full, list(combinations(range(3), 2)))
    pair = release.marginal("a0", "a1").interval()[1][0, 0]
    cells = release.marginal("a0", "a1", "a2").interval()[1][0, 0]
    assert pair > 4
    assert ((pair / 4 <= cells) & (cells <= pair + 1)).all()


def test_sums_are_at_most_what_margins_allow() -> None:
    rng = np.random.default_rng(9)
    full = people(rng, SIX, 5_000, 1.0)
    release = released(rng, full, list(combinations(range(6), 2)))
    whole = release.marginal("a0", "a1", "a3").interval()[1]
    one = release.marginal("a0", where="a1 = 0 and a3 = 0").interval()[1]
    assert np.abs(one - whole[:, 0, 0]).max() <= 1  # fewer cells share their noise, and ends are whole numbers
    pair = release.marginal("a0", "a1")
    summed = release.marginal("a0", where="a1 = 0 and a3 in {0, 1}").interval()[1]
    assert (summed <= 2 * (pair.values[:, 0] + 6 * pair.std_error[:, 0]) + 1).all()


def log_linear(rng: np.random.Generator, sizes: Sequence[int], rows: int) -> NDArray[np.int64]:
    """People of a random log-linear model: interactions of pairs of size 0.5, of triples 0.3, of quadruples 0.15."""
    logs = np.zeros(tuple(sizes))
    for order, size in ((1, 0.5), (2, 0.5), (3, 0.3), (4, 0.15)):
        for axes in combinations(range(len(sizes)), order):
            own = size * rng.standard_normal([sizes[axis] for axis in axes])
            logs += own.reshape([n if axis in axes else 1 for axis, n in enumerate(sizes)])
    weights = np.exp(logs)
    return rng.multinomial(rows, weights.ravel() / weights.sum()).reshape(tuple(sizes))


FIVE = (2, 3, 2, 4, 3)
TRIPLES = [(0, 1, 2), (0, 3, 4), (1, 2, 4)]
OTHERS = [(0, 1, 3), (2, 3, 4), (1, 3, 4), (0, 1, 2, 3), (0, 2, 3, 4)]


def coverage(seeds: range, scales: Sequence[float]) -> NDArray[np.float64]:
    """For each release, each with its own model, the share of cells of unmeasured tables held: (releases, scales)."""
    out = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        full = log_linear(rng, FIVE, 20_000)
        release = released(rng, full, [*combinations(range(5), 2), *TRIPLES])
        parts = [np.stack([held(release, full, axes, scale).ravel() for scale in scales]) for axes in OTHERS]
        out.append(np.concatenate(parts, axis=1).mean(axis=1))
    return np.array(out)


def test_intervals_of_tables_nobody_measured_hold_and_narrower_ones_do_not() -> None:
    """Random log-linear models, all pairs and three triples measured: other triples and quadruples hold 92%.

    Over 40 other models they held 98.7% with a standard error of 0.5% for ten: a false alarm is 14 of them away.
    That is too often: three triples say little, and the prior expects more of them. So it takes half the width to see
    them fail, 79% with a standard error of 3%.
    """
    usual, half = coverage(range(10), (1.0, 0.5)).mean(axis=0)
    assert usual >= 0.92
    assert half < 0.9


@pytest.mark.verify
def test_200_random_log_linear_models() -> None:
    """At least 92% over all of them, each with a standard deviation of 1.5 points; half the width misses."""
    found = coverage(range(1_000, 1_200), (1.0, 0.5)).mean(axis=0)
    assert found[0] >= 0.92
    assert found[1] < 0.92


def test_exclusive_or_with_pairs_measured_is_known_to_fail() -> None:
    """C = A xor B: all pairs look independent, nothing says otherwise, and the empty cells are missed."""
    full = np.zeros((2, 2, 2), np.int64)
    for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
        full[a, b, a ^ b] = 5_000
    release = released(np.random.default_rng(5), full, list(combinations(range(3), 2)))
    assert not held(release, full, (0, 1, 2)).all()
    assert "are assumed to be as strong as measured ones" in repr(release.marginal("a0", "a1", "a2"))


def correlated(rng: np.random.Generator, strengths: Sequence[float]) -> NDArray[np.int64]:
    """20,000 people with a hidden number each; the larger its strength, the more an attribute of four values says."""
    hidden = rng.standard_normal(20_000)
    values = [
        np.searchsorted([-0.7, 0.0, 0.7], strength * hidden + np.sqrt(1 - strength**2) * rng.standard_normal(20_000))
        for strength in strengths
    ]
    shape = (4,) * len(strengths)
    return np.bincount(np.ravel_multi_index(values, shape), minlength=4 ** len(strengths)).reshape(shape)


def test_pairs_that_were_left_out_are_modelled_and_far_narrower_than_their_bounds() -> None:
    """Eight attributes that depend on each other; 9 of 28 pairs are left out, at random: cells of 8 seeded releases."""
    held, widths = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        full = correlated(rng, rng.uniform(0.1, 0.8, 8))
        pairs = list(combinations(range(8), 2))
        out = {pairs[i] for i in rng.choice(len(pairs), 9, replace=False)}
        release = released(rng, full, [pair for pair in pairs if pair not in out])
        for pair in out:
            names, truth = [f"a{i}" for i in pair], margin(full, pair)
            answer, bounds = release.marginal(*names), release.marginal(*names, method="bounds")
            assert answer.error_kind is ErrorKind.MODELLED
            assert np.array_equal(answer.values, bounds.values)
            (low, high), (lowest, highest) = answer.interval(), bounds.interval()
            held.append((low <= truth) & (truth <= high))
            widths.append((high - low).mean() / (highest - lowest).mean())
    assert 0.9 < np.mean(held) < 0.99
    assert np.mean(widths) < 0.5


def test_attributes_of_weak_pairs_have_weaker_left_out_ones() -> None:
    """a0 to a2 depend on each other, a3 to a5 on nothing: a pair that was left out is taken to be like its own."""
    rng = np.random.default_rng(3)
    full = correlated(rng, [0.8, 0.8, 0.8, 0.0, 0.0, 0.0])
    views = [pair for pair in combinations(range(6), 2) if pair not in {(0, 1), (3, 4)}]
    sizes = released(rng, full, views)._sizes()
    laws = (sizes.of(names) for names in (("a0", "a1"), ("a3", "a4")))
    strong, weak = (float(np.sqrt(law[1] @ law[0] ** 2)) for law in laws)
    assert strong > 1.2 * weak
