"""The linear program against clarabel, on consistent estimates and on raw views."""

from __future__ import annotations

import numpy as np
import pytest

import reference_entropy
from crosstally.answers.unmeasured.known import known_alike, least_difference, least_differences
from crosstally.errors import QueryError
from crosstally.inference import estimate
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells
from crosstally.schema import Attribute, Schema
from reference_entropy import random_table


def marginals_of(table: np.ndarray, views: list[tuple[int, ...]]) -> list[tuple[tuple[int, ...], np.ndarray]]:
    return [(view, table.sum(axis=tuple(i for i in range(table.ndim) if i not in view))) for view in views]


def test_marginals_that_fit_are_met() -> None:
    solved = least_difference((2, 2), [((0,), np.array([3.0, 7.0])), ((1,), np.array([4.0, 6.0]))])
    assert solved.relaxed == pytest.approx(0, abs=1e-9)
    assert np.allclose(solved.values.sum(axis=1), [3, 7])
    assert np.allclose(solved.values.sum(axis=0), [4, 6])


def test_views_that_disagree_share_the_difference() -> None:
    """One view says 3 and 7, another 5 and 7: each is missed by 1 in its first cell."""
    solved = least_difference((2,), [((0,), np.array([3.0, 7.0])), ((0,), np.array([5.0, 7.0]))])
    assert solved.relaxed == pytest.approx(1)
    assert solved.values[0] == pytest.approx(4)


def test_axes_may_be_in_any_order() -> None:
    table = np.arange(24.0).reshape(2, 3, 4)
    solved = least_difference((2, 3, 4), [((2, 0), table.sum(axis=1).T), ((1,), table.sum(axis=(0, 2)))])
    assert solved.relaxed == pytest.approx(0, abs=1e-6)
    assert np.allclose(solved.values.sum(axis=1), table.sum(axis=1))


def test_a_negative_cell_costs_what_it_lacks() -> None:
    assert least_difference((2,), [((0,), np.array([-2.0, 10.0]))]).relaxed == pytest.approx(2)


def test_without_constraints_there_is_no_program() -> None:
    with pytest.raises(QueryError, match="needs a covered marginal"):
        least_difference((2, 2), [])


@pytest.mark.parametrize("number", [30, pytest.param(200, marks=pytest.mark.verify)])
@pytest.mark.parametrize("kind", ["zeros", "noisy", "wild"])
def test_the_optimum_equals_an_independent_solver(kind: str, number: int) -> None:
    random = np.random.default_rng(91)
    for _ in range(number):
        table, views = random_table(random, kind, most_cells=64)
        raw = [(axes, values + random.laplace(0, 0.01, values.shape)) for axes, values in marginals_of(table, views)]
        for given in (raw, marginals_of(table, views)):
            solved = least_difference(table.shape, given)
            assert solved.relaxed == pytest.approx(reference_entropy.least_difference(given, table.shape), abs=1e-6)
            assert solved.values.min() >= 0


def test_an_estimate_gives_its_largest_covered_marginals() -> None:
    schema = Schema([Attribute(name, ["0", "1"]) for name in "abc"])
    views = {"ab": [[10, 20], [30, 40]], "bc": [[16, 24], [15, 45]], "a": [30, 70]}
    measurements = [
        Measurement(Cells(tuple(view)), np.asarray(values), variance=2.0, noise=None, origin="test")
        for view, values in views.items()
    ]
    ((_, known),) = known_alike(estimate(schema, measurements, nonnegative="joint"), [("a", "b", "c")])
    solved = least_differences(known)[0]
    assert np.allclose(solved.values.sum(axis=2), [[10, 20], [30, 40]])
    assert np.allclose(solved.values.sum(axis=0), [[16, 24], [15, 45]])
    assert solved.relaxed == pytest.approx(0, abs=1e-6)
