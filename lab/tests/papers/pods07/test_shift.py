"""Non-negativity by a constant."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from conftest import schema_of
from crosstally.budget import Budget, Noise, NoiseKind
from crosstally.errors import QueryError
from crosstally.inference.integers.cell_columns import Target
from crosstally.inference.integers.programs import nearest_table
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells
from crosstally.strategies import Fourier
from crosstally.workload import Workload
from crosstally_lab.papers.pods07.shift import (
    gamma_shift,
    needed_shift,
    shift_for_scales,
    shifted_estimate,
    simulated_shift,
)


def test_the_gamma_quantile_by_hand() -> None:
    """One coefficient: exponential, -ln(0.05). Two: P(sum > x) = (1 + x) e^-x, which is 0.05 at 4.7439."""
    assert gamma_shift(1, 10.0, failure=0.05) == pytest.approx(10 * -math.log(0.05) + 0.5)
    assert gamma_shift(2, 10.0, failure=0.05) == pytest.approx(47.439 + 1, abs=0.001)


@pytest.mark.parametrize(("used", "fits"), [(20.0, True), (20.0 * 1.3, False)])
def test_the_quantile_is_exceeded_at_its_rate(used, fits) -> None:
    """Sums of 137 Laplace variables, 20,000 times; false-alarm rate of the binomial test 1e-6."""
    rng = np.random.default_rng(0)
    sums = np.abs(rng.laplace(0, used, (20_000, 137))).sum(axis=1)
    over = int((sums > gamma_shift(137, 20.0, failure=0.05) - 137 / 2).sum())
    assert bool(binom.ppf(5e-7, 20_000, 0.05) <= over <= binom.isf(5e-7, 20_000, 0.05)) is fits


def test_the_needed_shift_is_that_of_the_smallest_cell() -> None:
    """Against signs written out, for all coefficients of up to 2 of 5 attributes."""
    rng = np.random.default_rng(1)
    places = [place for place in range(32) if place.bit_count() <= 2]
    noise = np.zeros(32)
    noise[places] = rng.laplace(0, 10, len(places))
    cells = [sum(noise[place] * (-1) ** (place & cell).bit_count() for place in places) for cell in range(32)]
    assert needed_shift(noise) == pytest.approx(-min(cells))
    assert needed_shift(noise) <= np.abs(noise).sum()


@pytest.mark.parametrize(("used", "enough"), [(20.0, True), (26.0, False)])
def test_the_simulated_shift_fails_at_its_rate_at_most(used, enough) -> None:
    """6 attributes, 22 coefficients, other draws than those simulated; at 1.3 times the noise it is not enough.

    False-alarm rate below 2e-3: that the simulated quantile is too low, and the binomial test.
    """
    places = [place for place in range(64) if place.bit_count() <= 2]
    shift = simulated_shift(places, [20.0] * len(places), attributes=6, failure=0.05)
    rng, noise, needed = np.random.default_rng(2), np.zeros(64), []
    for _ in range(4_000):
        noise[places] = np.rint(rng.laplace(0, used, len(places)))
        needed.append(needed_shift(noise))
    assert bool((np.array(needed) > shift).sum() <= binom.isf(1e-3, 4_000, 0.05)) is enough
    assert shift < np.quantile(needed, 0.99), "not much more than needed"


def test_too_few_draws_simulate_nothing() -> None:
    assert simulated_shift([0, 1], [1.0, 1.0], attributes=1, failure=1e-6) is None


def test_different_scales_get_a_bound_that_is_safe_and_close() -> None:
    rng = np.random.default_rng(2)
    scales = np.array([40.0] * 10 + [15.0] * 45)
    sums = np.abs(rng.laplace(0, 1, (20_000, 55)) * scales).sum(axis=1)
    shift = shift_for_scales(scales, failure=0.05)
    assert (sums > shift).mean() < 0.05
    assert shift < 1.25 * np.quantile(sums, 0.95)
    assert shift_for_scales([7.0] * 5, failure=0.1) == gamma_shift(5, 7.0, failure=0.1)


def test_shifted_coefficients_belong_to_a_non_negative_table() -> None:
    """With failure 1e-9 a linear program finds such a table in every run; without the shift it often does not."""
    schema = schema_of(2, 2, 2, 2)
    workload = Workload.all_ways(schema, 2)
    plan = Fourier(budgets="uniform").plan(schema, workload, Budget(epsilon=1))
    rng = np.random.default_rng(3)
    counts = np.zeros(schema.shape, np.int64)
    counts[0, 1, 0, 1] = counts[1, 1, 1, 1] = 20
    missed = 0
    for _ in range(20):
        drawn = []
        for request in plan.requests:
            names = request.query.attributes
            table = counts.sum(axis=tuple(i for i, name in enumerate(schema.names) if name not in names))
            exact = np.asarray(request.query.answer(np.asarray(table)))
            noisy = exact + np.rint(rng.laplace(0, request.noise.scale, exact.shape)).astype(np.int64)
            noise = request.noise
            drawn.append(Measurement(request.query, noisy, variance=noise.variance, noise=noise, origin="test"))
        shifted = shifted_estimate(schema, drawn, failure=1e-9)
        for estimate, expected in ((shifted, True), (None, False)):
            values = [m.values.astype(float) for m in drawn]
            if expected:
                values[0] = estimate.table(())
            fitted = nearest_table(schema, [Target(m.query, v) for m, v in zip(drawn, values, strict=True)])
            if expected:
                assert fitted.distance < 1e-6
                assert all((estimate.table(names) > -1e-6).all() for names in workload.tables)
            else:
                missed += fitted.distance > 1
    assert missed > 10


def test_mistakes_about_the_constant() -> None:
    schema = schema_of(2, 2)
    noise = Noise(NoiseKind.LAPLACE, 2.0)
    total = Measurement(Cells(()), np.array(3), variance=noise.variance, noise=noise, origin="test")
    cells = Measurement(Cells(("a0",)), np.array([1, 2]), variance=noise.variance, noise=noise, origin="test")
    with pytest.raises(QueryError, match="failure must be a probability"):
        gamma_shift(3, 1.0, failure=0)
    with pytest.raises(QueryError, match="all attributes must have two values"):
        shifted_estimate(schema_of(2, 3), [total])
    with pytest.raises(QueryError, match="give contrasts with Laplace noise"):
        shifted_estimate(schema, [total, cells])
    with pytest.raises(QueryError, match="give the total, and each coefficient once"):
        shifted_estimate(schema, [total, total])
