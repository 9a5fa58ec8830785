"""mu^2 against the definitions: tails to 80 digits, trade-offs point by point, adaptive plans by all their outcomes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import erfc, exp, mp, mpf, sqrt  # type: ignore[import-untyped]
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtri_exp
from scipy.stats import norm

import crosstally as ct
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind, Sensitivity
from crosstally.errors import BudgetError
from crosstally.gaussian_curve import (
    chance_of_guessing,
    gaussian_cost,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_scale_squared,
    mu2_within,
    ratio_cost,
)
from crosstally.strategies.direct import Direct
from crosstally.strategies.residual import Residual

Floats = NDArray[np.float64]
mp.dps = 80


def law(scale: float, reach: int) -> Floats:
    """The discrete Gaussian from -reach to reach."""
    weights = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * scale**2))
    return np.asarray(weights / weights.sum())


def widest_step(scale: float) -> float:
    """The largest z(k) - z(k - 1), where z(k) = -Phi^-1(P[X >= k]), as far as logarithms of tails are doubles."""
    squares = np.arange(0, math.ceil(40 * scale) + 2.0) ** 2 / (2 * scale**2)
    tails = np.logaddexp.accumulate(-squares[::-1])[::-1]  # P[X >= k] for k = 0, 1, ..., but for a factor
    z = -ndtri_exp(tails - np.logaddexp(tails[0], tails[1]))[squares < 600]
    return float(max(-2 * z[0], np.diff(z).max(initial=0)))  # z(1) = -z(0)


@pytest.mark.parametrize("scale", [0.05, 0.2, 0.5, 0.5773, 0.5774, *np.geomspace(0.58, 60, 200).tolist()])
def test_a_move_by_one_costs_the_widest_step_and_hardly_more(scale: float) -> None:
    """The proved bound beside the steps themselves; close to them from scale 1 on."""
    step, bound = widest_step(scale), math.sqrt(gaussian_cost(scale))
    assert step <= bound * (1 + 1e-9)
    if scale >= 1:
        assert bound <= step * (1 + 0.0036 / scale**4 + 1e-9)


@pytest.mark.parametrize("scale", [0.6, 1.0, 3.7, 250.5, 2.0**51])
def test_what_a_move_costs_solves_its_equation_rounded_up(scale: float) -> None:
    y, wanted = gaussian_cost(scale), 1 / Fraction(scale) ** 2
    less = y * (1 - Fraction(1, 2**62))
    assert less - less**2 / 12 < wanted <= y - y**2 / 12
    assert y.denominator.bit_count() == 1
    assert y.numerator.bit_length() <= 65
    assert gaussian_scale_squared(y) <= Fraction(scale) ** 2


@pytest.mark.parametrize("amount", ["1e-9", "0.1", "1/3", "5.9", "6", "7", "11", "12", "200"])
@pytest.mark.parametrize("moved", [Sensitivity(1, 1), Sensitivity(6, 12)])
def test_the_least_noise_that_an_amount_of_mu2_buys(amount: str, moved: Sensitivity) -> None:
    noise = Noise.affordable(moved, Fraction(amount), currency="mu2")
    below = Noise(NoiseKind.GAUSSIAN, noise.scale * (1 - 2**-50))
    assert noise.unit_cost("mu2") * moved.l2_squared <= Fraction(amount) < below.unit_cost("mu2") * moved.l2_squared


def exact_delta(mu2: Fraction, epsilon: Fraction) -> mpf:
    """The curve of the normal to 80 digits."""
    mu, e = sqrt(mpf(mu2.numerator) / mu2.denominator), mpf(epsilon.numerator) / epsilon.denominator

    def tail(x: mpf) -> mpf:
        return erfc(x / sqrt(mpf(2))) / 2

    return tail(e / mu - mu / 2) - exp(e) * tail(e / mu + mu / 2)


def as_mpf(number: object) -> mpf:
    return mpf(str(number))


def test_the_curve_is_rounded_up_and_hardly_so() -> None:
    rng = np.random.default_rng(5)
    for _ in range(300):
        mu2 = Fraction(float(10 ** rng.uniform(-12, 3)))
        epsilon = Fraction(float(math.sqrt(mu2) * rng.uniform(0.01, 9) + float(mu2) / 2))
        found, truth = as_mpf(gaussian_delta(mu2, epsilon)), exact_delta(mu2, epsilon)
        assert truth <= found <= truth * (1 + mpf(10) ** -20), (mu2, epsilon)
    assert gaussian_delta(Fraction(400), Fraction(1, 10)) == 1  # so far left of the middle it is not computed


BUDGETS = [("1", "1e-9"), ("1", "1e-6"), ("0.3", "1e-6"), ("3", "1e-9")]


@pytest.mark.parametrize(("epsilon", "delta"), [*BUDGETS, ("1e-4", "1e-12"), ("20", "1e-5"), ("2", "0.9")])
def test_a_cap_is_within_epsilon_and_delta_and_hardly_less(epsilon: str, delta: str) -> None:
    found = mu2_within(Fraction(epsilon), Fraction(delta))
    assert found is not None
    assert exact_delta(found, Fraction(epsilon)) <= as_mpf(delta)
    assert exact_delta(found * (1 + Fraction(1, 2**34)), Fraction(epsilon)) > as_mpf(delta)
    assert gaussian_epsilon(found, Fraction(delta)) == pytest.approx(float(epsilon), rel=1e-8)
    assert exact_delta(found, Fraction(gaussian_epsilon(found, Fraction(delta)))) <= as_mpf(delta)


def test_what_is_too_small_to_be_spent_is_refused_and_the_large_is_safe() -> None:
    with pytest.raises(BudgetError, match="too small to be spent"):
        _ = Budget(epsilon="1e-40", delta="1e-40").amount
    for epsilon, delta in (("1e300", "1e-6"), ("1e20", "1e-300"), ("1", "0.999999")):
        found = mu2_within(Fraction(epsilon), Fraction(delta))
        assert found is not None
        assert exact_delta(found, Fraction(epsilon)) <= as_mpf(delta)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("strategy", [Direct(), Residual()])
def test_gaussian_noise_is_within_a_part_in_two_hundred_of_the_exact_curve(epsilon, delta, strategy) -> None:
    """Beside the standard deviation of normal noise that has exactly this epsilon and delta."""

    def excess(log_mu: float) -> float:
        mu, e = math.exp(log_mu), float(epsilon)
        first, second = log_ndtr(-e / mu + mu / 2), e + log_ndtr(-e / mu - mu / 2)
        return float(first + np.log1p(-np.exp(second - first)) - math.log(float(delta)))

    mu = math.exp(brentq(excess, math.log(1e-3), math.log(3.0), xtol=1e-14))
    schema = ct.Schema([ct.Attribute(name, ["x", "y", "z"]) for name in "abc"])
    budget = Budget(epsilon=epsilon, delta=delta)
    plan = strategy.plan(schema, None, budget)
    moved = [request.query.sensitivity(schema, Neighbours.ADD_REMOVE).l2_squared for request in plan.requests]
    scales = [request.noise.scale for request in plan.requests]
    assert min(scales) >= 3  # what the promise is about
    spent = sum(each / scale**2 for each, scale in zip(moved, scales, strict=True))
    assert mu**2 / 1.005**2 <= spent <= mu**2
    single = Noise.affordable(Sensitivity(1, 1), budget.amount, currency="mu2").scale
    assert 1 <= single * mu <= (1.005 if single >= 3 else 1.012)


# Likelihood ratios


def test_the_price_of_pure_epsilon_and_of_choices_is_above_that_of_their_trade_off() -> None:
    """A binary answer with likelihood ratios e^t and e^(t - r) is the worst of all whose ratio varies by r."""
    for spread in np.geomspace(1e-3, 20, 120):
        for top in np.linspace(0, spread, 41)[1:-1]:
            wrong = -np.expm1(top - spread) / (np.exp(top) - np.exp(top - spread))  # of one kind, at the corner
            other = 1 - np.exp(top) * wrong
            mu = -norm.ppf(wrong) - norm.ppf(other)
            assert mu**2 <= float(ratio_cost(Fraction(float(spread)))) * (1 + 1e-6), (spread, top)
    small = Fraction(1, 1000)
    assert float(ratio_cost(small)) == pytest.approx(math.pi / 8 * 1e-6, rel=5e-4)  # 11/7 for pi / 2


def test_a_price_in_mu2() -> None:
    assert Budget(epsilon="0.5").price_in("mu2") == Fraction(11, 28)
    assert Noise(NoiseKind.LAPLACE, 2.0).unit_cost("mu2") == Fraction(11, 28)
    assert Noise(NoiseKind.GUMBEL, 4.0).unit_cost("mu2") == Fraction(11, 28) / 4  # epsilon 1/2, half its range
    assert Budget(mu2="0.5").price_in("rho") == Fraction(1, 4)
    with pytest.raises(BudgetError, match="rho says nothing"):
        Budget(rho=1).price_in("mu2")


def test_how_often_a_guess_is_right() -> None:
    for mu in (0.01, 0.3, 1.0, 4.0):
        assert chance_of_guessing(Fraction(mu) ** 2) == pytest.approx(norm.cdf(mu / 2), rel=1e-12)
        assert chance_of_guessing(Fraction(mu) ** 2) >= norm.cdf(mu / 2) * (1 - 1e-15)


# Composition


def hockey_stick(first: Floats, second: Floats, epsilon: float) -> float:
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


def moved_by(probabilities: Floats, steps: int) -> Floats:
    """The same law, of a count that is larger by so many; what leaves the window is added to its last cell."""
    out = np.zeros_like(probabilities)
    out[steps:] = probabilities[: len(probabilities) - steps]
    out[-1] += probabilities[len(probabilities) - steps :].sum()
    return out


def random_step(rng: np.random.Generator, left: Fraction, *, last: bool) -> tuple[Floats, Floats, Fraction]:
    """An answer under two neighbours, and its price: a Gaussian number, a Laplace one or a choice of three."""
    kind = "gaussian" if last else str(rng.choice(["gaussian", "gaussian", "laplace", "choice"]))
    part = left if last else left * Fraction(str(round(float(rng.uniform(0.05, 0.9)), 3)))
    steps = int(rng.integers(1, 4))
    if kind == "choice":
        noise = Noise.affordable_choice(Sensitivity(1, 1), part, currency="mu2")
        scores = rng.integers(-5, 6, 3)
        powers = [(scores + shift) / noise.scale for shift in (np.zeros(3), rng.choice([-1, 1], 3))]
        first, second = (np.exp(power - power.max()) for power in powers)
        return first / first.sum(), second / second.sum(), part
    if kind == "laplace":
        scale = float(Fraction(steps) / Fraction(math.isqrt(int(part / Fraction(11, 7) * 10**18)), 10**9))
        reach = math.ceil(40 * scale) + steps
        weights = np.exp(-np.abs(np.arange(-reach, reach + 1.0)) / scale)
        probabilities = np.asarray(weights / weights.sum())
        return probabilities, moved_by(probabilities, steps), part
    low, high = 1e-3, 1e4  # by the price alone: the least scale that costs no more
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if steps**2 * gaussian_cost(middle) <= part else (middle, high)
    probabilities = law(high, max(30, math.ceil(9 * high)) + steps)
    return probabilities, moved_by(probabilities, steps), part


def adaptive_laws(rng: np.random.Generator, left: Fraction, answers: int) -> tuple[Floats, Floats]:
    """All outcomes of some answers under two neighbours: each is chosen by what came before, the last pays all."""
    first, second, price = random_step(rng, left, last=answers == 1)
    if answers == 1:
        return first, second
    kinds = rng.integers(0, 3, len(first))  # the outcomes fall into three kinds, each with its next answer
    parts = []
    for kind in range(3):
        after = adaptive_laws(rng, left - price, answers - 1)
        own = kinds == kind
        parts.append([np.outer(before[own], then).ravel() for before, then in zip((first, second), after, strict=True)])
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def check_adaptive_plans(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        mu2 = Fraction(str(round(float(10 ** rng.uniform(-1.3, 0.9)), 4)))
        laws = adaptive_laws(rng, mu2, 3 if mu2 > 2 else 2)
        for epsilon in (0.0, *rng.uniform(0, 3 * math.sqrt(mu2) + float(mu2), 3).tolist()):
            promised = float(gaussian_delta(mu2, Fraction(epsilon)))
            for one, other in (laws, laws[::-1]):
                assert hockey_stick(one, other, epsilon) <= promised + 1e-12


def test_adaptive_plans_keep_within_the_curve() -> None:
    check_adaptive_plans(60, 11)


@pytest.mark.verify
def test_thousands_of_adaptive_plans_keep_within_the_curve() -> None:
    check_adaptive_plans(4_000, 12)
