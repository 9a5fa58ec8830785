"""What PriView is compared with: its noise has the scale that section 3 says."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from crosstally.papers import baselines

ROWS = np.array([[250_000, 250_000], [250_000, 250_000]])


@cache
def mean_square(simulate, epsilon: float = 1.0) -> float:
    """The squared error of a 2-way table of 16 attributes, averaged; so many rows that no cell is negative."""
    random = np.random.default_rng(1)
    drawn = [simulate(ROWS, attributes=16, epsilon=epsilon, random=random) for _ in range(20_000)]
    return float(np.mean([np.sum((table - ROWS) ** 2) for table in drawn]))


@pytest.mark.parametrize(("factor", "fits"), [(1.0, True), (0.9, False), (1.1, False)])
def test_direct_has_the_noise_of_all_tables_together(factor: float, fits: bool) -> None:
    """120 pairs share epsilon: 2 x 120^2 for each of the three directions that leave the total.

    60,000 squared Laplace numbers: their mean has a standard error of 0.9%, so 6% is never passed (1e-10).
    """
    assert (mean_square(baselines.direct) == pytest.approx(3 * 2 * (factor * 120) ** 2, rel=0.06)) is fits


@pytest.mark.parametrize(("factor", "fits"), [(1.0, True), (0.9, False), (1.1, False)])
def test_fourier_has_the_noise_of_all_coefficients_together(factor: float, fits: bool) -> None:
    """137 coefficients share epsilon; three of four are not the total, and a table has a fourth of their squares."""
    assert (mean_square(baselines.fourier) == pytest.approx(3 / 4 * 2 * (factor * 137) ** 2, rel=0.06)) is fits


def test_a_tenth_of_epsilon_is_ten_times_the_noise() -> None:
    """Standard errors as above."""
    assert mean_square(baselines.direct, epsilon=0.1) == pytest.approx(3 * 2 * 1200**2, rel=0.06)


def test_coefficients() -> None:
    assert baselines.fourier_coefficients(16, 2) == 1 + 16 + 120
    assert baselines.fourier_coefficients(32, 4) == 1 + 32 + 496 + 4_960 + 35_960


def test_uniform_spreads_the_rows() -> None:
    assert baselines.uniform(np.array([[6, 1], [1, 0]])).tolist() == [[2, 2], [2, 2]]


def test_flat_is_expected_and_capped() -> None:
    assert baselines.flat_distance(32, rows=912_627, epsilon=1.0) == pytest.approx(92_681.9 / 912_627, rel=1e-6)
    assert baselines.flat_distance(32, rows=912_627, epsilon=0.1) == 1.0


@pytest.mark.parametrize(
    ("table", "rows", "expected"),
    [
        ([9.0, 2.0, -5.0, 0.0], 6, [6, 0, 0, 0]),
        ([5.0, 1.0, 0.0, 0.0], 10, [6, 2, 1, 1]),
        ([10.0, 8.0, -2.0, 0.0], 12, [7, 5, 0, 0]),
        ([-3.0, -3.0, -3.0, -3.0], 8, [2, 2, 2, 2]),
    ],
)
def test_correction_by_hand(table: list[float], rows: int, expected: list[float]) -> None:
    assert baselines.corrected(np.array(table), rows).tolist() == pytest.approx(expected)
