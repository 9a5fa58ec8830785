"""Noise drawn again: its law, and that it is the same everywhere."""

from __future__ import annotations

import contextlib
import io
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from crosstally.budget import Noise, NoiseKind
from crosstally.inference.bootstrap import inverse_noise, noise_of_coefficients, seed_of
from crosstally.residuals.combining import Averages
from simulated import measured, people, schema_of

LAPLACE, GAUSSIAN = NoiseKind.LAPLACE, NoiseKind.GAUSSIAN


def probability(noise: Noise, value: int) -> float:
    """By the definition: proportional to e^(-|k|/b), or e^(-k^2 / 2 s^2)."""
    cells = range(-4000, 4001)
    if noise.kind is LAPLACE:
        return math.exp(-abs(value) / noise.scale) / sum(math.exp(-abs(k) / noise.scale) for k in cells)
    return math.exp(-(value**2) / (2 * noise.scale**2)) / sum(math.exp(-(k**2) / (2 * noise.scale**2)) for k in cells)


@pytest.mark.parametrize("noise", [Noise(kind, scale) for kind in (LAPLACE, GAUSSIAN) for scale in (0.3, 1.0, 7.0)])
def test_each_value_has_its_probability(noise: Noise) -> None:
    """On a grid of 200,000 equally likely numbers the counts are exact but for one at either end."""
    grid = (np.arange(200_000) + 0.5) / 200_000
    drawn = inverse_noise(noise, grid)
    assert (np.diff(drawn) >= 0).all()
    for value in range(-12, 13):
        assert abs((drawn == value).mean() - probability(noise, value)) <= 1e-5


def test_wide_and_unknown_noise_is_normal() -> None:
    """Quantiles of the normal distribution: 0.8413447 is one standard deviation."""
    at = np.array([0.15865525393145707, 0.5, 0.8413447460685429])
    assert np.allclose(inverse_noise(Noise(GAUSSIAN, 1000.0), at), [-1000, 0, 1000], atol=1e-6)
    assert np.allclose(inverse_noise(9.0, at), [-3, 0, 3], atol=1e-9)


def test_noise_of_coefficients_has_their_variances() -> None:
    """A chi-square of 40 x 18 numbers of kurtosis up to 6: beyond 5 standard deviations with probability below 1e-5."""
    rng = np.random.default_rng(1)
    full = people(rng, (2, 3, 4), 500, 1.0)
    views = measured(rng, full, [(0, 1), (1, 2), (0, 2)], Noise(LAPLACE, 3.0))
    schema = schema_of(2, 3, 4)
    averages = Averages.of(schema, views)
    drawn = np.stack(list(noise_of_coefficients(averages, views, seed=seed_of(schema, views), number=40)))
    ratio = (drawn**2 / averages.variances).mean()
    assert abs(ratio - 1) <= 5 * math.sqrt(5 / drawn.size)
    assert abs(drawn.mean() / drawn.std()) <= 5 / math.sqrt(drawn.size)


def test_the_seed_changes_with_every_part_and_with_nothing_else() -> None:
    rng = np.random.default_rng(2)
    schema = schema_of(2, 3)
    (view,) = measured(rng, people(rng, (2, 3), 100, 1.0), [(0, 1)], Noise(LAPLACE, 3.0))
    seed = seed_of(schema, [view])
    other = view.values.copy()
    other[0, 0] += 1
    changed = [
        seed_of(schema_of(2, 4), [view]),
        seed_of(schema, [replace(view, values=other)]),
        seed_of(schema, [replace(view, noise=Noise(LAPLACE, 4.0))]),
        seed_of(schema, [replace(view, values=view.values.astype(float))]),
        seed_of(schema, [view, view]),
    ]
    assert len({seed, *changed}) == 6
    assert seed_of(schema_of(2, 3), [replace(view, origin="elsewhere")]) == seed
    assert 0 <= seed < 2**128


def test_another_process_draws_the_same() -> None:
    code = """
import numpy as np
from crosstally.budget import Noise, NoiseKind
from crosstally.inference.bootstrap import noise_of_coefficients, seed_of
from crosstally.inference import estimate
from crosstally.query.queries import Cells
from crosstally.residuals.combining import Averages
from crosstally.measurements import Measurement
from simulated import schema_of
noise = Noise(NoiseKind.LAPLACE, 3.0)
schema = schema_of(3, 4)
view = Measurement(Cells(("a0", "a1")), np.array([[9, -2, 0, 31], [1, 0, -3, 2], [0, 0, 7, 1]]),
    variance=noise.variance, noise=noise, origin="test")
print(estimate(schema, [view]).coefficients.tobytes().hex())
(first,) = noise_of_coefficients(Averages.of(schema, [view]), [view], seed=seed_of(schema, [view]), number=1)
print([round(float(x), 9) for x in first[:4]])
"""
    run = [sys.executable, "-c", code]
    there = subprocess.run(run, capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)})
    with contextlib.redirect_stdout(io.StringIO()) as here:
        exec(code, {})
    assert there.stdout == here.getvalue()
