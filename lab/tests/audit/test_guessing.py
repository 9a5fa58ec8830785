"""The guessing game: its bound by hand, and that it finds noise which is too small, reused, or not there."""

import math

import numpy as np
import pytest

from crosstally_lab.audit.guessing import Law, accuracy_bound, best_accuracy, epsilon_bound, likelihood_rules
from crosstally_lab.audit.sampled import Game, games, play


def test_bounds_by_hand() -> None:
    """Ten of ten right: the chance is at least a^(1/10); silence counts for nothing."""
    coins, right = np.ones(12, np.bool_), np.array([1] * 10 + [0, 0], np.int8)
    assert accuracy_bound(coins, right, 0.05) == pytest.approx(0.05 ** (1 / 10))
    assert accuracy_bound(coins, -right, 0.05) == 0
    assert epsilon_bound(0.75) == pytest.approx(math.log(3))
    assert (epsilon_bound(0.4), epsilon_bound(0.0), epsilon_bound(1.0)) == (0, 0, math.inf)


def test_the_best_guess_against_gaussian_noise_by_hand() -> None:
    """One number moves by one: the guess is wrong where noise reaches beyond, P(right) = (1 + P(0)) / 2."""
    law = Law("gaussian", 2.0, np.array([5, 1]), np.array([4, 1]))
    weights = [math.exp(-(k * k) / 8) for k in range(-60, 61)]
    assert best_accuracy([law]) == pytest.approx((1 + 1 / sum(weights)) / 2, rel=1e-12)
    shifts = [Law("gaussian", 2.0, np.array([1]), np.array([0])) for _ in range(3)]
    assert best_accuracy(shifts) == pytest.approx(0.5 + 0.5 * 0.3321, abs=0.01)  # 2 Phi(sqrt(3) / 4) - 1


LAWS = [
    Law("laplace", 2.0, np.array([3, 7]), np.array([2, 7])),
    Law("laplace", 2.0, np.array([9, 4]), np.array([9, 3])),
]


def laplace(scale, size):
    random = np.random.default_rng(5)
    ratio = 1 - math.exp(-1 / scale)
    return random.geometric(ratio, size) - random.geometric(ratio, size)


def drawn(coins, *, scale=2.0, reused=False, missing=False, positive=False):
    noise = laplace(scale, (2, len(coins), 2))
    if reused:
        noise[1] = noise[0]
    if missing:
        noise[1] = 0
    if positive:
        noise = abs(noise)
    return [np.where(coins[:, None], law.first, law.second) + own for law, own in zip(LAWS, noise, strict=True)]


@pytest.mark.parametrize(
    ("wrong", "holds"),
    [
        ({}, True),
        ({"scale": 2.2}, True),
        ({"scale": 1.8}, False),
        ({"reused": True}, False),
        ({"missing": True}, False),
        ({"positive": True}, False),
    ],
)
def test_the_game_finds_what_is_wrong(wrong, holds) -> None:
    """Two tables with noise of scale 2 claim epsilon 1; the false-alarm rate of each rule is 1e-5."""
    game = Game("toy", lambda coins: drawn(coins, **wrong), likelihood_rules(LAWS), claimed=1.0, exact=1.0)
    found = play(game, 100_000, 1e-5, np.random.default_rng(0), sharp=False)
    assert found.holds is holds, found
    assert found.bound > 0.8


def test_every_game_is_played_and_holds() -> None:
    """Few draws: no bound is sharp, none may be above what is claimed (rate of false alarms 1e-3 / 93 a rule)."""
    random = np.random.default_rng(1)
    every = list(games())
    assert len(every) >= 35
    found = [play(game, 800, 1e-5, random, sharp=False) for game in every]
    assert all(each.holds for each in found), [each for each in found if not each.holds]
