"""Attributes measured in more than one way: least squares and its covariance, against dense matrices."""

import numpy as np
import pytest

from crosstally.errors import PlanError, QueryError, TooManyCellsError
from crosstally.questions.kronecker import Kronecker, matrices_of, mixed_of
from crosstally.questions.queries import Cells, Contrast
from crosstally.releases.mixed_errors import MixedErrorBars
from crosstally.residuals import Variances, combine
from crosstally.residuals.mixed import MixedAxes
from crosstally.tables import Measurement
from reference_linear import least_squares, measured, numbered, rows_of

SCHEMA = numbered(4, 2, 3, 3)
FOUR = [[3, 1, 0, 0], [0, 2, 1, -1], [1, 0, 0, 4]]
OTHER = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]
TWICE = [[2, 0, 0, 0], [2, 2, 0, 0], [2, 2, 2, 0]]
WIDE = [[3, 1, 0, 0], [0, 2, 1, -1], [1, 0, 0, 4], [1, 1, 1, 1], [0, 1, 0, 0]]
THREE = [[2, 1, 0], [0, 1, -3]]
SQUARE = [[1, 0, 0], [1, 1, 0], [1, 1, 2]]
CASES: dict[str, list[tuple[Cells | Contrast | Kronecker, float]]] = {
    "a matrix beside cells": [
        (Cells(("a0",)), 3.0),
        (Kronecker(("a0",), {"a0": WIDE}), 7.0),
        (Cells(("a0", "a1")), 5.0),
        (Cells(("a1", "a2")), 4.0),
    ],
    "ranges after a stage of pairs": [
        (Cells(("a0", "a1")), 30.0),
        (Cells(("a0", "a2")), 20.0),
        (Cells(("a1", "a2")), 25.0),
        (Kronecker(("a0", "a1"), {"a0": WIDE}), 7.0),
        (Kronecker(("a2", "a0"), {"a0": WIDE}), 9.0),
        (Kronecker(("a0",), {"a0": WIDE}), 2.0),
    ],
    "two matrices without the total": [
        (Cells(()), 3.0),
        (Kronecker(("a0",), {"a0": FOUR}), 7.0),
        (Kronecker(("a0",), {"a0": OTHER}), 2.0),
        (Contrast(("a1",)), 2.0),
        (Kronecker(("a1", "a0"), {"a0": FOUR}), 11.0),
    ],
    "a matrix without the total beside contrasts": [
        (Cells(()), 3.0),
        (Contrast(("a0",)), 7.0),
        (Kronecker(("a0",), {"a0": OTHER}), 2.0),
        (Contrast(("a1",)), 2.0),
        (Contrast(("a0", "a1")), 13.0),
        (Contrast(("a2",)), 9.0),
        (Kronecker(("a2", "a0"), {"a0": FOUR}), 4.0),
    ],
    "three ways, beside an attribute with one matrix": [
        (Cells(()), 3.0),
        (Cells(("a0", "a1")), 8.0),
        (Kronecker(("a0",), {"a0": OTHER}), 2.0),
        (Kronecker(("a2",), {"a2": THREE}), 5.0),
        (Kronecker(("a2", "a0"), {"a0": FOUR, "a2": THREE}), 20.0),
        (Kronecker(("a2", "a1"), {"a2": THREE}), 6.0),
        (Contrast(("a1",)), 6.0),
    ],
    "two such attributes, never in one table": [
        (Cells(("a0", "a1")), 3.0),
        (Kronecker(("a0",), {"a0": WIDE}), 7.0),
        (Cells(("a2",)), 5.0),
        (Kronecker(("a1", "a2"), {"a2": SQUARE}), 4.0),
        (Kronecker(("a3", "a1"), {"a3": SQUARE}), 4.0),
    ],
}
TABLES = [(), ("a0",), ("a1",), ("a2",), ("a0", "a1"), ("a2", "a0"), ("a1", "a2"), ("a3", "a1")]


@pytest.mark.parametrize("asked", CASES.values(), ids=CASES)
@pytest.mark.parametrize("rows", [None, 1_700])
def test_combining_is_generalised_least_squares(asked, rows) -> None:
    """Every table, the variance of each of its cells and their mean, against a dense solution."""
    measurements = measured(asked, SCHEMA)
    found = combine(SCHEMA, measurements, rows=rows)
    bars = MixedErrorBars(SCHEMA, measurements, rows)
    if rows is not None:
        known = Measurement(Cells(()), np.array(rows), variance=1e-6, noise=None, origin="public")
        measurements = [*measurements, known]
    table, covariance = least_squares(measurements, SCHEMA)
    predicted = Variances.of_queries(SCHEMA, [(m.query, m.variance) for m in measurements])
    covered = [names for names in TABLES if found.covers(names)]
    assert len(covered) > 3
    for names in covered:
        cells = rows_of(Cells(names), SCHEMA)
        assert found.table(names).ravel() == pytest.approx(cells @ table, abs=1e-3)
        variances = np.diagonal(cells @ covariance @ cells.T)
        assert np.ravel(bars.covered_law(names).std_error) ** 2 == pytest.approx(variances, rel=1e-4, abs=1e-5)
        assert found.variance(names) == pytest.approx(variances.mean(), rel=1e-4, abs=1e-5)
        assert predicted.of(names) == pytest.approx(variances.mean(), rel=1e-4, abs=1e-5)
    with_cells = [names for names in TABLES if not found.covers(names)]
    assert all(np.isnan(predicted.of(names)) for names in with_cells)


@pytest.mark.parametrize("asked", [CASES["ranges after a stage of pairs"]])
@pytest.mark.parametrize("rows", [None, 1_700])
def test_sums_of_cells_have_their_exact_error(asked, rows) -> None:
    """A range, a range within each value of another attribute, and boxes that are no product, kept values too."""
    measurements = measured(asked, SCHEMA)
    bars = MixedErrorBars(SCHEMA, measurements, rows)
    known = Measurement(Cells(()), np.array(1_700), variance=1e-6, noise=None, origin="public")
    covariance = least_squares([*measurements, *([] if rows is None else [known])], SCHEMA)[1]

    def std_error(weights) -> float:
        flat = np.broadcast_to(weights, SCHEMA.shape).ravel().astype(float)
        return float(np.sqrt(flat @ covariance @ flat))

    middle = np.array([False, True, True, False])
    found = bars.sums((), ("a0",), middle)
    assert found.std_error == pytest.approx(std_error(middle[:, None, None, None]), rel=1e-4)
    found = bars.sums(("a1",), ("a0",), np.array([middle, ~middle]))
    expected = [
        std_error(m[:, None, None, None] * np.eye(2)[i][:, None, None]) for i, m in enumerate((middle, ~middle))
    ]
    assert found.std_error == pytest.approx(expected, rel=1e-4)
    bent = np.array([[True, False, True], [True, True, False], [False, False, True], [False, True, True]])
    found = bars.sums((), ("a0", "a2"), bent)
    assert found.std_error == pytest.approx(std_error(bent[:, None, :, None]), rel=1e-4)
    one = np.array([[True, False, True]])
    found = bars.sums(("a0",), ("a2",), one, [np.array([1, 3])])
    expected = [std_error(np.eye(4)[i][:, None, None, None] * one[0][:, None]) for i in (1, 3)]
    assert found.std_error == pytest.approx(expected, rel=1e-4)


def test_what_is_measured_in_more_than_one_way() -> None:
    asked = [query for query, _ in CASES["three ways, beside an attribute with one matrix"]]
    four, other, three = (tuple(map(tuple, each)) for each in (FOUR, OTHER, THREE))
    assert mixed_of(asked) == {"a0": (other, four)}
    assert matrices_of(asked) == (("a2", three),)
    assert mixed_of([query for query in asked if "a0" not in query.attributes]) == {}


def test_two_of_them_in_one_table_are_refused() -> None:
    both = [Kronecker(("a0", "a2"), {"a0": WIDE, "a2": SQUARE}), Cells(("a0",)), Cells(("a2",))]
    with pytest.raises(PlanError, match="'a0' and 'a2' are each measured in more than one way, so no table may hold"):
        mixed_of(both)


@pytest.mark.parametrize("left_out", [0, 2, 3])
def test_a_table_whose_parts_are_not_measured_is_refused(left_out) -> None:
    asked: list[tuple[Cells | Contrast | Kronecker, float]] = [
        (Cells(()), 3.0),
        (Kronecker(("a0",), {"a0": TWICE}), 7.0),  # of two matrices that are not proportional the total would follow
        (Contrast(("a1",)), 2.0),
        (Kronecker(("a0",), {"a0": OTHER}), 3.0),
        (Kronecker(("a0", "a1"), {"a0": OTHER}), 11.0),
    ]
    if left_out == 3:  # the one-way table, both times
        asked = [each for each in asked if each[0].attributes != ("a0",)] + [(Contrast(("a1", "a0")), 3.0)]
    else:
        asked.pop(left_out)
    with pytest.raises(QueryError, match="all tables inside it and the total must be too"):
        combine(SCHEMA, measured(asked, SCHEMA))


def test_too_many_covariances_are_refused() -> None:
    schema = numbered(500, *([2] * 80))
    matrix = np.tril(np.ones((500, 500), int)) + 9 * np.eye(500, dtype=int)
    asked = [(Kronecker(("a0",), {"a0": matrix}), 1.0), *((Cells(("a0", f"a{i}")), 1.0) for i in range(1, 81))]
    with pytest.raises(TooManyCellsError, match="a0: measured in more than one way, so that 20,250,000 covariances"):
        MixedAxes.of(schema, asked)
