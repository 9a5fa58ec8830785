"""Kernels of shrinkage against their slow twins."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from crosstally.inference.joint_correction import view_factors
from crosstally.inference.risk import COMPONENTS, EDGES, mixture_weights
from crosstally.kernels.raking import independent_guesses, pair_guesses, rake_to_margins
from crosstally.kernels.shrinkage import (
    add_views,
    component_likelihoods,
    shrink_cells,
    view_tables,
)
from crosstally.residuals import decompose
from crosstally.residuals.axes import outer_product
from reference_shrinkage import expectation_maximisation, independent, posterior, raked

SHAPES = [(4,), (2, 3), (3, 2, 4), (2, 2, 2, 3)]


def placed(tables: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients of tables in a scrambled order, where those of each stand, factors and sizes."""
    ndim = tables.ndim - 1
    own = decompose(tables, ndim).reshape(len(tables), -1)
    order = np.random.default_rng(1).permutation(own.size)
    coefficients = np.empty(own.size)
    coefficients[order] = own.ravel()
    shape = tables.shape[1:]
    return coefficients, order.reshape(own.shape).astype(np.int64), view_factors(shape), np.array(shape, np.int64)


@pytest.mark.parametrize("shape", SHAPES)
def test_tables_to_coefficients_and_back(shape: tuple[int, ...]) -> None:
    tables = np.random.default_rng(2).normal(5, 3, (3, *shape))
    coefficients, places, factors, sizes = placed(tables)
    out = np.empty(places.shape)
    view_tables(coefficients, places, factors, sizes, out)
    assert np.allclose(out, tables.reshape(3, -1), atol=1e-12)
    sums, weights = np.zeros(len(coefficients)), np.zeros(len(coefficients))
    back = factors * outer_product([[n] + [1] * (n - 1) for n in shape])
    add_views(out, places, back, sizes, np.array([1.0, 2.0, 4.0]), sums, weights)
    assert np.allclose(sums / weights, coefficients, atol=1e-12)
    assert np.array_equal(weights[places], np.repeat([[1.0], [2.0], [4.0]], places.shape[1], axis=1))


@pytest.mark.parametrize("shape", SHAPES)
def test_independent_guesses(shape: tuple[int, ...]) -> None:
    tables = np.random.default_rng(3).normal(3, 4, (4, *shape))
    coefficients, places, factors, sizes = placed(tables)
    out = np.empty(places.shape)
    independent_guesses(coefficients, places, factors, sizes, out)
    for table, guess in zip(tables, out, strict=True):
        if table.sum() > 0:
            assert np.allclose(guess, independent(table).ravel(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES[2:])
@pytest.mark.parametrize("sweeps", [1, 3])
def test_pair_guesses(shape: tuple[int, ...], sweeps: int) -> None:
    tables = np.random.default_rng(4).poisson(4, (3, *shape)).astype(float)
    tables[0].flat[0] = -20.0  # a two-way cell below zero
    coefficients, places, factors, sizes = placed(tables)
    out = np.empty(places.shape)
    independent_guesses(coefficients, places, factors, sizes, out)
    pair_guesses(coefficients, places, factors, sizes, 1e-6, sweeps, out)
    for table, guess in zip(tables, out, strict=True):
        assert np.allclose(guess, raked(table, independent(table), sweeps, 1e-6).ravel(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("shape", SHAPES[2:])
def test_raking_to_margins_is_that_of_its_slow_twin(shape: tuple[int, ...]) -> None:
    """All pairs as margins, two tables for each row of wanted ones; then a table that has its margins is left alone."""
    rng, pairs = np.random.default_rng(7), list(combinations(range(len(shape)), 2))
    wanted, starts = rng.uniform(1, 9, (2, *shape)), rng.uniform(1, 9, (4, *shape))
    cells = np.indices(shape)
    begins = np.cumsum([0, *(shape[i] * shape[j] for i, j in pairs)]).astype(np.int64)
    places = [begins[k] + cells[i] * shape[j] + cells[j] for k, (i, j) in enumerate(pairs)]
    flat = np.array([place.ravel() for place in places], np.int32)
    margins = np.stack([np.concatenate([_pair(table, pair).ravel() for pair in pairs]) for table in wanted])
    out = starts.reshape(4, -1).copy()
    rake_to_margins(out, margins, flat, begins, 2, 0.0)
    for start, own, found in zip(starts, np.repeat(wanted, 2, axis=0), out, strict=True):
        assert np.allclose(found, raked(own, start, 2, 0.0).ravel(), rtol=1e-10)
    done = np.repeat(wanted, 2, axis=0).reshape(4, -1)
    left = done.copy()
    rake_to_margins(left, margins, flat, begins, 50, 1e-3)
    assert np.allclose(left, done, rtol=1e-12)


def test_raking_leaves_nobody_where_a_margin_has_nobody() -> None:
    table, places = np.array([[0.0, 0.0, 3.0, 5.0]]), np.array([[0, 0, 1, 1]], np.int32)
    rake_to_margins(table, np.array([[7.0, 16.0]]), places, np.array([0, 2], np.int64), 3, 1e-3)
    assert table.tolist() == [[0.0, 0.0, 6.0, 10.0]]


def _pair(table: np.ndarray, pair: tuple[int, int]) -> np.ndarray:
    return table.sum(axis=tuple(axis for axis in range(table.ndim) if axis not in pair))


def test_raking_ends_at_the_pairs_of_a_table_without_higher_interactions() -> None:
    """By hand: 8 cells with three-way odds ratio 1 are known from their pairs."""
    table = np.array([[[8.0, 4.0], [4.0, 2.0]], [[4.0, 4.0], [2.0, 2.0]]])
    coefficients, places, factors, sizes = placed(table[None])
    out = np.empty(places.shape)
    independent_guesses(coefficients, places, factors, sizes, out)
    pair_guesses(coefficients, places, factors, sizes, 1e-6, 50, out)
    assert np.allclose(out.reshape(table.shape), table, atol=0.01)


def test_posterior_means() -> None:
    rng = np.random.default_rng(5)
    guess = 10.0 ** rng.uniform(-3, 4, (2, 30))
    noise = np.array([0.3, 40.0])
    noisy = guess + rng.normal(0, noise[:, None] ** 0.5)
    weights = rng.dirichlet(np.ones(COMPONENTS.shape[1]), len(EDGES) + 1)
    out, spread = noisy.copy(), np.empty(2)
    shrink_cells(out, guess, noise, COMPONENTS, EDGES, weights, spread)
    for v in range(2):
        strata = [sum(q > edge for edge in EDGES) for q in guess[v]]
        slow = [
            posterior(y, q, noise[v], COMPONENTS, weights[s])
            for y, q, s in zip(noisy[v], guess[v], strata, strict=True)
        ]
        assert np.allclose(out[v], [mean for mean, _ in slow], rtol=1e-9, atol=1e-12)
        assert spread[v] == pytest.approx(sum(variance for _, variance in slow), rel=1e-6)


def test_a_cell_far_from_everything_stays_as_measured() -> None:
    """Guess zero, noise tiny: no component has any likelihood but the empty cell, whose weight is zero."""
    weights = np.zeros((len(EDGES) + 1, COMPONENTS.shape[1]))
    cells, spread = np.array([[5.0, -5.0]]), np.empty(1)
    shrink_cells(cells, np.zeros((1, 2)), np.array([1.0]), COMPONENTS, EDGES, weights, spread)
    assert cells.tolist() == [[5.0, 0.0]]


def test_mixture_weights() -> None:
    rng = np.random.default_rng(6)
    guess = 10.0 ** rng.uniform(-1, 2, 25)
    noise = rng.uniform(0.5, 9, 25)
    noisy = guess * rng.choice([0, 1, 4], 25) + rng.normal(0, noise**0.5)
    likelihoods = np.empty((25, COMPONENTS.shape[1]))
    component_likelihoods(noisy, guess, noise, COMPONENTS, likelihoods)
    start = np.full(COMPONENTS.shape[1], 1 / COMPONENTS.shape[1])
    prior = 3 * start
    weights = mixture_weights(likelihoods.T, prior, 1.0, 4, start)
    cells = list(zip(noisy.tolist(), guess.tolist(), noise.tolist(), strict=True))
    assert np.allclose(weights, expectation_maximisation(cells, COMPONENTS, start, prior, 4), rtol=1e-9)
