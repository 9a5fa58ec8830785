"""Logistic and log-linear models, and the population behind the rows, against SciPy and simulated releases."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

import crosstally as ct
from crosstally.answers.marginal import ErrorKind
from crosstally.budget import Noise, NoiseKind
from crosstally.errors import QueryError
from crosstally.releases import Release, Statement, publish
from simulated import measured, people, schema_of

STATEMENT = Statement(strategy="x", budget=ct.Budget(epsilon=1), neighbours=ct.Neighbours.ADD_REMOVE)
SHAPE, ROWS = (2, 3, 2), 20_000
TERMS = ["a0", "a1", "a2", ("a0", "a1"), ("a1", "a2")]


@cache
def shares() -> NDArray[np.float64]:
    found = people(np.random.default_rng(3), SHAPE, 200_000, 0.5)
    return found / found.sum()


def known(counts: NDArray[np.float64]) -> ct.Marginal:
    return ct.Marginal(schema_of(*SHAPE), counts, method="m", error_kind=ErrorKind.NONE, uncertainty=None)


def sampled(seed: int, *, nonnegative: str = "shrunk") -> tuple[NDArray[np.int64], Release]:
    rng = np.random.default_rng([seed, 5])
    full = rng.multinomial(ROWS, shares().ravel()).reshape(SHAPE)
    noisy = measured(rng, full, [(0, 1, 2)], Noise(NoiseKind.LAPLACE, 10.0))
    return full, publish(schema_of(*SHAPE), noisy, STATEMENT, nonnegative=nonnegative)


# Models


def test_a_logistic_model_has_the_greatest_likelihood() -> None:
    """The coefficients of a0 = 1, a1 = 1, a1 = 2 on the odds of a2 = 1, found by SciPy from the likelihood."""
    counts = np.array([[[30.0, 12], [25, 40], [10, 8]], [[22, 18], [15, 50], [9, 30]]])
    first, second = np.meshgrid([0, 1], [0, 1, 2], indexing="ij")

    def against(b: NDArray[np.float64]) -> float:
        odds = b[0] + b[1] * first + b[2] * (second == 1) + b[3] * (second == 2)
        return float((counts.sum(axis=2) * np.log1p(np.exp(odds)) - counts[..., 1] * odds).sum())

    found = ct.analysis.glm(known(counts), "a2")
    assert found.schema["term"].labels == ("(intercept)", "a0 = 1", "a1 = 1", "a1 = 2")
    np.testing.assert_allclose(found.values, minimize(against, np.zeros(4), tol=1e-10).x, atol=1e-4)
    turned = ct.analysis.glm(known(counts).transpose("a2", "a1", "a0"), "a2", success="0", terms=["a0", "a1"])
    np.testing.assert_allclose(turned.values, -found.values, atol=1e-6)


def test_a_log_linear_model_has_the_margins_of_its_terms() -> None:
    counts = np.array([[[30.0, 12], [25, 40], [10, 8]], [[22, 18], [15, 50], [9, 30]]])
    found = ct.analysis.glm(known(counts), terms=TERMS)
    # a0 and a2 are independent given a1
    fitted = counts.sum(axis=2, keepdims=True) * counts.sum(axis=0, keepdims=True) / counts.sum((0, 2), keepdims=True)
    assert found["(intercept)"].value == pytest.approx(np.log(fitted[0, 0, 0]))
    assert found["a1 = 2, a2 = 1"].value == pytest.approx(
        np.log(fitted[0, 2, 1] * fitted[0, 0, 0] / fitted[0, 0, 1] / fitted[0, 2, 0])
    )


def test_models_that_have_no_solution_are_refused() -> None:
    counts = np.ones(SHAPE)
    counts[1, :, 1] = 0  # with a0 = 1 nobody has a2 = 1
    with pytest.raises(QueryError, match="no finite solution"):
        ct.analysis.glm(known(counts), "a2")
    with pytest.raises(QueryError, match="a model needs counts, got share"):
        ct.analysis.glm(known(counts).shares(), "a2")
    with pytest.raises(QueryError, match="has no label '7'"):
        ct.analysis.glm(known(counts), "a2", success="7")


def test_the_sandwich_is_that_of_the_draws() -> None:
    """I^-1 X'SX I^-1 for the model of counts with an intercept alone: b = log mean, so var(b) = var(sum) / sum^2."""
    _, release = sampled(1)
    table = release.marginal("a0")
    found = ct.analysis.glm(table, terms=[])
    draws = table.draws().sum(axis=1)
    error = np.sqrt(((draws[1:] - draws[0]) ** 2).mean()) / table.values.sum()
    assert found["(intercept)"].std_error == pytest.approx(error)
    np.testing.assert_allclose(found.covariance(), error**2)


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(400), marks=pytest.mark.verify)])
def test_intervals_of_models_and_of_the_population_hold(seeds: range) -> None:
    """Of 40 releases of about ten dependent numbers each a standard deviation is below 1.5%, of 400 below 0.5%."""
    held: dict[str, list[np.floating]] = {}
    for seed in seeds:
        full, release = sampled(seed)
        counts = release.marginal("a0", "a1", "a2")
        people = counts.of_population()
        for name, found, truth in (
            ("logistic", ct.analysis.glm(counts, "a2"), ct.analysis.glm(known(full), "a2")),
            ("log-linear", ct.analysis.glm(counts, terms=TERMS), ct.analysis.glm(known(full), terms=TERMS)),
            ("counts", people, known(ROWS * shares())),
            ("shares", people.shares("a0"), known(shares()).shares("a0")),
            ("models", ct.analysis.glm(people, "a2"), ct.analysis.glm(known(ROWS * shares()), "a2")),
        ):
            low, high = found.interval()
            held.setdefault(name, []).append(np.mean((low <= truth.values) & (truth.values <= high)))
    least, most = (0.85, 1.0) if len(seeds) < 100 else (0.93, 0.98)
    for name, each in held.items():
        assert least <= np.mean(each) <= most, name


# The population


def test_sampling_adds_its_variance() -> None:
    """noise + d N p (1 - p) (1 - f); 400 draws know a variance to 7%."""
    _, release = sampled(1)
    counts = release.marginal("a0", "a1")
    p, noise = counts.values / ROWS, counts.std_error**2
    for effect, fraction in ((1.0, 0.0), (2.0, 0.25)):
        found = counts.of_population(design_effect=effect, fraction=fraction)
        expected = noise + effect * ROWS * p * (1 - p) * (1 - fraction)
        np.testing.assert_allclose(found.std_error**2, expected, rtol=0.35)
    total = counts.of_population().sum().std_error  # all rows are a sample of a fixed size
    assert total == pytest.approx(release.marginal().std_error, rel=0.5)
    part = release.marginal("a0", where="a1 = 0").of_population()
    np.testing.assert_allclose(part.std_error, counts.sel(a1="0").of_population().std_error, rtol=0.2)
    assert repr(counts.interval(0.9, of="population")) == repr(counts.of_population().interval(0.9))


def test_a_population_says_so() -> None:
    _, release = sampled(1)
    counts = release.marginal("a0", "a1")
    assert "95% intervals for the rows counted" in str(counts)
    found = counts.of_population(design_effect=1.5)
    assert "errors are of the population behind the rows, design effect 1.5" in str(found.shares())
    assert "95% intervals for the population behind the rows" in str(found.shares())
    assert found.to_arrow().column_names[-3:] == [
        "population_std_error",
        "population_count_low",
        "population_count_high",
    ]
    for wrong, words in (
        (lambda: counts.shares().of_population(), "only counts"),
        (found.of_population, "only counts"),
        (lambda: counts.with_totals().of_population(), "cells overlap"),
        (lambda: counts.of_population(fraction=2), "fraction must be from 0 to 1"),
        (lambda: counts.of_population(design_effect=-1), "design_effect must be a positive number"),
        (lambda: counts.interval(of="sample"), "of must be table or population"),
        (lambda: found - counts, "must not be mixed"),
        (lambda: found.sum("a1") - release.marginal("a0").of_population(), "must not be mixed"),
    ):
        with pytest.raises(QueryError, match=words):
            wrong()
    several = replace(counts, schema=replace(counts.schema, unit=ct.Unit("person", 3)))
    with pytest.raises(QueryError, match="say the design effect"):
        several.of_population()
