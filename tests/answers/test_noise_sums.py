"""Quantiles of sums of noise, against plain convolution."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

import reference_noise
from crosstally.answers.noise_sums import NoiseTerm, half_width
from crosstally.budget import Noise, NoiseKind

LEVELS = (0.5, 0.9, 0.95, 0.99, 0.999)


def term(kind: str, scale: float, weight: float, count: float = 1) -> NoiseTerm:
    noise = Noise(NoiseKind(kind), scale)
    return NoiseTerm(noise, weight, count=count, variance=noise.variance)


def normal(variance: float, weight: float, count: float = 1) -> NoiseTerm:
    return NoiseTerm(None, weight, count=count, variance=variance)


def std_error(terms: list[NoiseTerm]) -> float:
    return math.sqrt(sum(t.count * t.variance * t.weight**2 for t in terms))


def test_one_discrete_laplace_by_hand() -> None:
    """a = 1/2: P(0) = 1/3, P(|X| <= 1) = 2/3, P(|X| <= 2) = 5/6, P(|X| <= 3) = 11/12."""
    half = [term("laplace", 1 / math.log(2), 1.0)]
    levels = (0.3, 0.34, 0.66, 0.67, 0.83, 0.84, 0.91, 0.92)
    assert [half_width(half, level) for level in levels] == [0, 1, 1, 2, 2, 3, 3, 4]


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.05, 0.2, 0.35, 0.45, 1.0, 2.5, 5.0, 40.0])
@pytest.mark.parametrize("count", [1, 2, 3, 16])
def test_equal_draws_are_exact(kind: str, scale: float, count: int) -> None:
    grid = reference_noise.sum_on_grid([(kind, scale, 1, count)])
    for level in LEVELS:
        assert half_width([term(kind, scale, 0.25, count)], level) == 0.25 * reference_noise.half_width_of(grid, level)


MIXED = [
    [("laplace", 5.0, 4, 1), ("laplace", 5.0, 1, 1)],
    [("laplace", 1.0, 4, 1), ("laplace", 1.0, 3, 5)],
    [("laplace", 0.2, 4, 2), ("laplace", 0.2, 1, 3)],
    [("laplace", 0.2, 4, 30), ("laplace", 0.2, 1, 60)],
    [("laplace", 20.0, 7, 3), ("gaussian", 9.0, 2, 12), ("laplace", 3.0, 1, 100)],
    [("gaussian", 5.0, 4, 1), ("gaussian", 5.0, 1, 7)],
    [("gaussian", 0.3, 4, 1), ("gaussian", 0.3, 3, 2)],
    [("gaussian", 0.7, 4, 3), ("laplace", 0.1, 1, 2)],
]


@pytest.mark.parametrize("parts", MIXED)
def test_mixed_weights_are_never_less_and_hardly_more(parts: list[tuple[str, float, int, int]]) -> None:
    terms = [term(kind, scale, weight, count) for kind, scale, weight, count in parts]
    grid, slack = reference_noise.sum_on_grid(parts), max(0.011 * std_error(terms), 0.02 * 4)
    for level in LEVELS:
        exact = reference_noise.half_width_of(grid, level)
        assert exact <= half_width(terms, level) <= exact + slack


def test_weights_without_a_common_grid() -> None:
    """Two discrete Laplace of weights 1 and 0.37: all pairs written out."""
    single = reference_noise.probabilities("laplace", 2.0)
    pairs = sorted((abs(k + 0.37 * m), p * q) for k, p in single.items() for m, q in single.items())
    distances, inside = np.array([d for d, _ in pairs]), np.cumsum([p for _, p in pairs])
    terms = [term("laplace", 2.0, 1.0), term("laplace", 2.0, -0.37)]
    for level in LEVELS:
        exact = distances[np.searchsorted(inside, level)]
        assert exact <= half_width(terms, level) <= exact + 0.012 * std_error(terms)


def test_normal_noise() -> None:
    """The 95% point of a normal is 1.959964, the 99% point 2.575829."""
    terms = [normal(4.0, 0.5, 3), normal(1.0, 1.0)]
    assert half_width(terms, 0.95) == pytest.approx(1.959964 * 2, rel=4e-3)
    assert half_width(terms, 0.99) == pytest.approx(2.575829 * 2, rel=4e-3)
    assert half_width([normal(9.0, 2.0)], 0.95) == pytest.approx(1.959964 * 6, rel=4e-3)
    assert half_width(terms, 0.95) >= 1.959964 * 2


def test_no_noise_has_no_width() -> None:
    """As in the number of reports of a local collection, which is known."""
    assert half_width([NoiseTerm(None, 1.0, count=1.0, variance=0.0)], 0.95) == 0.0


def test_noise_too_wide_for_a_table_of_probabilities() -> None:
    """Continuous quantiles: Laplace of scale 1e6 -b ln(0.05); the sum of two has P(|X| > x) = (1 + x/2b) e^(-x/b)."""
    assert half_width([term("laplace", 1e6, 1.0)], 0.95) == pytest.approx(2.995732e6, rel=1e-6)
    two = half_width([term("laplace", 1e6, 1.0, 2)], 0.95) / 1e6
    assert (1 + two / 2) * math.exp(-two) == pytest.approx(0.05, rel=0.02)
    assert (1 + two / 2) * math.exp(-two) <= 0.05
    assert half_width([term("gaussian", 1e6, 1.0)], 0.95) == pytest.approx(1.959964e6, rel=4e-3)


def test_noise_that_is_almost_never_there() -> None:
    """P(0) = tanh(1 / 2b) for each of 12 draws: all zero with a probability of 0.9989."""
    terms = [term("laplace", 0.1, 1.0, 4), term("laplace", 0.1, 0.3, 8)]
    assert half_width(terms, 0.99) == 0.0
    assert 0.3 <= half_width(terms, 0.9995) <= 0.32
    assert half_width([], 0.95) == 0.0


def test_levels_close_to_one_stay_finite_and_grow() -> None:
    terms = [term("laplace", 5.0, 1.0), term("laplace", 5.0, 0.4, 3)]
    widths = [half_width(terms, level) for level in (0.99, 0.9999, 1 - 1e-6, 1 - 1e-9, 1 - 1e-13)]
    assert widths == sorted(widths)
    assert math.isfinite(widths[-1])
    assert half_width(terms, 1e-6) >= 0


@pytest.mark.parametrize("number", [4, 60, 3000])
def test_thousands_of_terms_take_milliseconds(number: int) -> None:
    rng = np.random.default_rng(0)
    kinds = ["laplace", "gaussian"]
    terms = [term(kinds[i % 2], 3.0, w, 5) for i, w in enumerate(rng.uniform(0.01, 1, number))]
    seconds = []
    for _ in range(3):
        start = time.process_time()
        half_width(terms, 0.95)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.1
