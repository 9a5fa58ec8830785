"""How far weights are from the optimum, where a weight is at its bound and the penalty is soft."""

from __future__ import annotations

import math

import numpy as np
import pytest

from crosstally.notebook.history.ascent import Ascent, Fit
from crosstally.notebook.history.constraints import Constraints, Problem
from crosstally.notebook.history.prior import Prior
from crosstally.schema import Attribute, Schema

BOUND, NOISE, ROWS = 2.0, 0.01, 100_000
SOFTNESS = 4 * NOISE / BOUND  # 0.02: the gradient at the bound is zero where the difference is 4 scales of the noise


def fit_at(weight: float, difference: float) -> Fit:
    """One query, whose value is 1 for half of the rows of the prior; the target is off its mean by the difference."""
    schema = Schema([Attribute("a", ["0", "1"])])
    mean = 1 / (1 + math.exp(-weight))
    query = Constraints(
        (0,),
        np.array([mean + difference]),
        noise=np.array([NOISE]),
        bounds=np.array([BOUND]),
        tables=np.array([[0.0, 1.0]]),
    )
    posed = Problem(schema, (query,), prior=Prior(schema, (np.full(2, 0.5),)), size=1000.0)
    ascent = Ascent(posed, ROWS, 0.0, np.random.default_rng(3))
    ascent.weights = [np.array([weight])]
    for _ in ascent.walk(20):
        pass
    ascent.run(1)  # weights move with every second sweep: this one only judges them
    assert ascent.weights[0].tolist() == [weight]
    return ascent.fit


@pytest.mark.parametrize("sign", [1, -1])
def test_a_weight_at_its_bound_is_optimal_only_if_the_gradient_points_outwards(sign: int) -> None:
    """The gradient is difference - softness x weight: 0.02 - 0.04 points inwards, 0.06 - 0.04 outwards.

    The mean of 100,000 rows has a standard error of 0.001, the violation one of 0.09: five of them are allowed, which
    fail once in a million runs.
    """
    unit = NOISE + math.sqrt(0.8808 * 0.1192 / ROWS)
    assert fit_at(sign * BOUND, sign * 0.02).violation == pytest.approx(0.02 / unit, abs=0.45)
    assert fit_at(sign * BOUND, sign * 0.06).violation == 0


def test_the_optimum_inside_the_bounds_leaves_the_softness_times_the_weight() -> None:
    assert fit_at(1.0, SOFTNESS * 1.0).violation < 0.6  # five standard errors, 0.0014 each, over 0.011
