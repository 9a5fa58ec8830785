"""Errors of what is linear: exactly those of the algebra, against measurements moved one by one."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import crosstally as ct
from crosstally.answers.marginal import ErrorKind, Marginal
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.errors import QueryError
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells, Contrast, Product
from crosstally.releases import Release, Statement, publish
from simulated import schema_of

SCHEMA = schema_of(2, 3, 2)
LAPLACE, GAUSSIAN = Noise(NoiseKind.LAPLACE, 3.0), Noise(NoiseKind.GAUSSIAN, 4.0)
QUERIES: list[tuple[Product, Noise]] = [
    (Cells(("a0", "a1")), LAPLACE),
    (Cells(("a1", "a2")), GAUSSIAN),
    (Contrast(("a0", "a2")), GAUSSIAN),
]


def measurements(seed: int = 1) -> list[Measurement]:
    rng = np.random.default_rng(seed)
    shapes = [(query, noise, query.shape(SCHEMA)) for query, noise in QUERIES]
    return [
        Measurement(query, rng.integers(50, 200, shape), variance=noise.variance, noise=noise, origin="x")
        for query, noise, shape in shapes
    ]


def released(measured: list[Measurement], *, rows: int | None = None, nonnegative: str = "none") -> Release:
    statement = Statement(strategy="x", budget=Budget(epsilon=1), neighbours=Neighbours.ADD_REMOVE, rows=rows)
    return publish(SCHEMA, measured, statement, nonnegative=nonnegative)


def variance_by_hand(figure: Callable[[Release], Marginal], rows: int | None) -> np.ndarray:
    """Each measured number is moved by one: how far the figure moves, squared, times its variance, is added up."""
    measured = measurements()
    start, total = figure(released(measured, rows=rows)).values, np.zeros(())
    for i, each in enumerate(measured):
        for place in np.ndindex(each.values.shape):
            values = each.values.copy()
            values[place] += 1
            moved = [*measured[:i], replace(each, values=values), *measured[i + 1 :]]
            total = total + (figure(released(moved, rows=rows)).values - start) ** 2 * each.variance
    return total


FIGURES: dict[str, Callable[[Release], Marginal]] = {
    "a cell": lambda r: r.marginal("a0", "a1")["1", "2"],
    "summed out": lambda r: r.marginal("a0", "a1").sum("a0"),
    "the total": lambda r: r.marginal("a1", "a2").sum(),
    "grouped": lambda r: r.marginal("a1", "a0").group("a1", {"x": ["0", "2"]}),
    "totals": lambda r: r.marginal("a0", "a1").with_totals(),
    "moved axes": lambda r: r.marginal("a0", "a1").transpose() - r.marginal("a0"),
    "sorted": lambda r: r.marginal("a0", "a1").sort(),
    "some of a row": lambda r: r.marginal("a0", "a1").top(3),
    "a difference of cells": lambda r: r.marginal("a0", "a1")["0"] - r.marginal("a0", "a1")["1"],
    "a difference of tables": lambda r: r.marginal("a0") - r.marginal("a0", "a2").sel(a2="1") * 2 + 5,
    "a cell less its row": lambda r: r.marginal("a0", "a1") - r.marginal("a0") / 3,
    "weights": lambda r: r.marginal("a1", "a2").weighted_sum("a1", [1, -2, 0.5]),
    "a condition": lambda r: r.marginal("a1", where="a0 = 1 and a1 != 0").sum(),
    "a condition of boxes": lambda r: r.count("a0 = 1 and a1 = 0 or a0 = 0 and a1 in {1, 2}") * 1,
    "two conditions": lambda r: r.count("a0 = 1 and a1 != 0") - r.count("a1 = 0 and a2 = 1"),
}


@pytest.mark.parametrize("rows", [None, 1000])
@pytest.mark.parametrize("name", FIGURES)
def test_linear_figures_have_exactly_the_error_of_the_algebra(name: str, rows: int | None) -> None:
    found = FIGURES[name](released(measurements(), rows=rows))
    assert found.error_kind is ErrorKind.EXACT
    by_hand = np.sqrt(variance_by_hand(FIGURES[name], rows))
    np.testing.assert_allclose(found.std_error, by_hand, rtol=1e-9, atol=1e-9)


def test_picked_cells_keep_their_errors_and_intervals() -> None:
    for way in ("none", "shrunk"):
        whole = released(measurements(), nonnegative=way).marginal("a0", "a1")
        low, high = whole.interval(0.9)
        cell = whole["1", "2"]
        assert cell.interval(0.9) == (low[1, 2], high[1, 2])
        assert cell.std_error == whole.std_error[1, 2]
        np.testing.assert_array_equal(whole.sel(a1=["2", "0"]).interval(0.9)[0], low[:, [2, 0]])


def test_a_sum_has_the_error_of_the_table_that_it_is() -> None:
    release = released(measurements(), nonnegative="shrunk")
    summed, asked = release.marginal("a0", "a1").sum("a0"), release.marginal("a1")
    np.testing.assert_allclose(summed.noise_std_error, asked.noise_std_error)
    np.testing.assert_allclose(summed.std_error, asked.std_error, rtol=0.1)
    np.testing.assert_allclose(summed.interval(), asked.interval(), rtol=0.1, atol=3)
    assert summed.error_kind is ErrorKind.CORRECTED


# Releases that are not to be mixed


def test_answers_of_different_releases_are_not_mixed_unless_they_are_independent() -> None:
    one, other = released(measurements(1)), released(measurements(2))
    a, b = one.marginal("a1"), other.marginal("a1")
    with pytest.raises(QueryError, match=r"must not be mixed.*ct\.analysis\.independent"):
        a - b
    a, b = ct.analysis.independent(a, b)
    np.testing.assert_allclose((a - b).std_error ** 2, a.std_error**2 + b.std_error**2)
    difference = (a.shares() - b.shares()).std_error
    apart = np.hypot(a.shares().std_error, b.shares().std_error)
    np.testing.assert_allclose(difference, apart, rtol=0.15)
    np.testing.assert_allclose((a - one.marginal("a1")).std_error, 0, atol=1e-6)


def test_the_same_measurements_are_never_independent() -> None:
    one = released(measurements())
    again, refit = released(measurements()), one.refit(nonnegative="shrunk")
    assert np.allclose((one.marginal("a1") - again.marginal("a1")).std_error, 0)
    with pytest.raises(QueryError, match="must not be mixed"):
        one.marginal("a1") - refit.marginal("a1")
    with pytest.raises(QueryError, match="rest on the same measurements"):
        ct.analysis.independent(one.marginal("a1"), refit.marginal("a1"))
    with pytest.raises(QueryError, match="whose error is not known"):
        ct.analysis.independent(one.marginal("a1"), refit.integers().marginal("a1"))


@pytest.mark.parametrize("way", ["none", "shrunk"])
def test_computed_answers_can_be_pickled(way: str) -> None:
    release = released(measurements(), nonnegative=way)
    for figure in (
        release.marginal("a0", "a1").shares("a0"),
        release.count("a1 = 0 and a2 = 1"),
        release.crosstab("a0"),
    ):
        again = pickle.loads(pickle.dumps(figure))
        np.testing.assert_array_equal(again.interval(), figure.interval())
        np.testing.assert_array_equal((again - figure).values, np.zeros(figure.values.shape))
