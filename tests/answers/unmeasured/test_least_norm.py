"""Non-negative least squares against clarabel, and the linear table of an estimate that was not corrected."""

from __future__ import annotations

import numpy as np
import pytest

from crosstally.answers.answer import answer
from crosstally.answers.error_bars import ErrorBars
from crosstally.answers.marginal import Marginal
from crosstally.answers.unmeasured import known as least_squares
from crosstally.answers.unmeasured.known import Known
from crosstally.inference import estimate
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells
from crosstally.schema import Attribute, Schema
from reference_entropy import basis, covered_cells, least_norm, nearest, random_table

KINDS = ("inside", "zeros", "one-sided", "noisy", "wild")


def ask(views: dict[str, object], *, nonnegative: str = "ripple") -> Marginal:
    schema = Schema([Attribute(name, ["0", "1"]) for name in "ab"])
    measurements = [
        Measurement(Cells((view,)), np.asarray(values), variance=2.0, noise=None, origin="test")
        for view, values in views.items()
    ]
    combined = estimate(schema, measurements, nonnegative=nonnegative)
    return answer(combined, ErrorBars(schema, measurements), ("a", "b"), method="least-squares")


def test_the_flattest_table_where_no_cell_is_negative() -> None:
    """e_ij = a_i / 2 + b_j / 2 - total / 4."""
    got = ask({"a": [30, 70], "b": [60, 40]})
    assert np.allclose(got.values, [[20, 10], [40, 30]])
    assert got.relaxed == 0
    assert got.method == "least-squares"


def test_negative_cells_become_zero_and_the_margins_stay() -> None:
    """The flattest table is [[-20, 30], [30, 60]]; without negative cells, only one with a zero there is nearest."""
    got = ask({"a": [10, 90], "b": [10, 90]})
    assert np.allclose(got.values, [[0, 10], [10, 80]], atol=1e-5)
    assert got.relaxed < 1e-5


def test_an_uncorrected_estimate_gives_the_linear_table() -> None:
    got = ask({"a": [10, 90], "b": [10, 90]}, nonnegative="none")
    assert np.allclose(got.values, [[-15, 25], [25, 65]])
    assert not got.corrected
    assert got.relaxed == 0


def test_a_total_that_is_not_positive_gives_zeros() -> None:
    assert ask({"a": [-4, 1], "b": [-2, -1]}).values.tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [6, pytest.param(200, marks=pytest.mark.verify)])
def test_agrees_with_an_independent_solver(kind: str, number: int) -> None:
    random = np.random.default_rng([81, KINDS.index(kind)])
    for _ in range(number):
        table, views = random_table(random, kind, most_cells=64)
        covered = covered_cells(table.shape, views)
        matrix = basis(table.shape)[covered]
        near = nearest(matrix[1:], matrix[1:] @ table.ravel()) if len(matrix) > 1 else table.ravel()
        expected = least_norm(matrix, matrix @ near)
        known = Known(table.shape, covered, np.where(covered, basis(table.shape) @ table.ravel(), 0.0)[None])
        solved = least_squares.least_norm(known)[0]
        assert np.abs(solved.values.ravel() - expected).max() < 1e-5
        assert solved.values.min() >= 0
        assert solved.values.sum() == pytest.approx(1, abs=1e-9)
