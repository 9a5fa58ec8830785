"""How far weights are from the optimum, where a weight is at its bound and the penalty is soft."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from crosstally.notebook.history.constraints import Constraints, Problem
from crosstally.notebook.history.newton import Ascent, AscentFit
from crosstally.notebook.history.prior import Prior
from crosstally.schema import Attribute, Schema

BOUND, NOISE, ROWS = 2.0, 0.01, 100_000
SOFTNESS = 4 * NOISE / BOUND  # 0.02: the gradient at the bound is zero where the difference is 4 scales of the noise


def one_query(weight: float, difference: float) -> Ascent:
    """One query, whose value is 1 for half of the rows of the prior; the target is off its mean by the difference."""
    schema = Schema([Attribute("a", ["0", "1"])])
    mean = 1 / (1 + math.exp(-weight))
    query = Constraints(
        (0,),
        np.array([mean + difference]),
        noise=np.array([NOISE]),
        bounds=np.array([BOUND]),
        tables=np.array([[0.0, 1.0]]),
        rows=np.array([0]),
    )
    posed = Problem(schema, (query,), prior=Prior(schema, (np.full(2, 0.5),)), size=1000.0)
    ascent = Ascent(posed, ROWS, 0.0, np.random.default_rng(3))
    ascent.weights = [np.array([weight])]
    for _ in ascent.walk(20):
        pass
    return ascent


def fit_at(weight: float, difference: float) -> AscentFit:
    """How the weight is judged after one sweep."""
    ascent = one_query(weight, difference)
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


def test_the_error_of_past_questions_is_not_that_of_a_small_sample() -> None:
    """At the optimum with weight 1/4 the mean is 0.005 off its target, half a scale of the noise, b = 0.01.

    Stein: 0.005^2 / (2 b^2) - 1 + 2 C / (C + k) = 0.125 - 1 + 2 x 0.246 / 0.266 = 0.975. A sample whose mean is 0.05
    off says nothing about the distribution; counted, it would add 12.5. At a bound the mean is all that is known.
    """
    ascent = one_query(0.25, SOFTNESS * 0.25)
    ascent.run(4)
    ascent.fit = replace(ascent.fit, means=(ascent.constraints[0].targets - 0.05,))
    assert ascent.past_error() == pytest.approx(0.975, abs=0.03)
    ascent.weights = [np.array([BOUND])]
    assert ascent.past_error() == pytest.approx(0.05**2 / (2 * NOISE**2) - 1)
