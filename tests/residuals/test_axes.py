"""Attributes measured by a matrix: averages in its own basis are generalised least squares, with exact variances."""

import numpy as np
import pytest

from crosstally.errors import QueryError
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells, Contrast, Kronecker
from crosstally.residuals import Variances, combine
from crosstally.residuals.axes import LinearAxis
from reference_linear import least_squares, measured, numbered, rows_of

SCHEMA = numbered(4, 2, 3)
TABLES = [(), ("a0",), ("a1",), ("a2",), ("a0", "a1"), ("a0", "a2")]
FOUR = [[3, 1, 0, 0], [0, 2, 1, -1], [1, 0, 0, 4]]
THREE = [[2, 1, 0], [0, 1, -3]]
WIDE = [[3, 1, 0, 0], [0, 2, 1, -1], [1, 0, 0, 4], [1, 1, 1, 1], [0, 1, 0, 0]]
RESIDUALS = [
    (Cells(()), 3.0),
    (Kronecker(("a0",), {"a0": FOUR}), 7.0),
    (Contrast(("a1",)), 2.0),
    (Kronecker(("a0", "a1"), {"a0": FOUR}), 11.0),
    (Kronecker(("a2",), {"a2": THREE}), 5.0),
    (Kronecker(("a2", "a0"), {"a0": FOUR, "a2": THREE}), 20.0),
    (Kronecker(("a1", "a0"), {"a0": FOUR}), 9.0),  # the same set again, from another stage
]
VIEWS = [
    (Kronecker(("a0", "a1"), {"a0": WIDE}), 3.0),
    (Cells(("a1", "a2")), 7.0),
    (Kronecker(("a0", "a2"), {"a0": WIDE}), 2.0),
    (Cells(()), 4.0),
]


@pytest.mark.parametrize("asked", [RESIDUALS, VIEWS], ids=["residuals", "views"])
@pytest.mark.parametrize("rows", [None, 600])
def test_combining_is_generalised_least_squares(asked, rows) -> None:
    """Every table and the mean variance of its cells, against a dense solution; with a public total too."""
    measurements = measured(asked, SCHEMA)
    found = combine(SCHEMA, measurements, rows=rows)
    if rows is not None:
        known = Measurement(Cells(()), np.array(rows), variance=1e-6, noise=None, origin="public")
        measurements = [*measurements, known]
    table, covariance = least_squares(measurements, SCHEMA)
    predicted = Variances.of_queries(SCHEMA, [(m.query, m.variance) for m in measurements])
    for names in TABLES:
        cells = rows_of(Cells(names), SCHEMA)
        assert found.table(names).ravel() == pytest.approx(cells @ table, abs=1e-3)
        variances = np.diagonal(cells @ covariance @ cells.T)
        assert found.variance(names) == pytest.approx(variances.mean(), rel=1e-4, abs=1e-5)
        assert predicted.of(names) == pytest.approx(variances.mean(), rel=1e-4, abs=1e-5)


def test_a_table_whose_parts_are_not_measured_is_refused() -> None:
    with pytest.raises(QueryError, match="all tables inside it and the total must be too"):
        combine(SCHEMA, measured([RESIDUALS[0], RESIDUALS[3]], SCHEMA))


@pytest.mark.parametrize("matrix", [FOUR, WIDE])
def test_the_basis_is_what_the_docstring_says(matrix) -> None:
    axis = LinearAxis.of(tuple(map(tuple, matrix)))
    s, u, k = np.array(matrix, float), axis.basis[:, 0], axis.basis[:, 1:]
    assert (u.sum(), k.sum(axis=0)) == (pytest.approx(1), pytest.approx(np.zeros(3), abs=1e-12))
    assert (s @ k).T @ (s @ k) == pytest.approx(np.eye(3), abs=1e-12)
    assert (s @ u) @ (s @ k) == pytest.approx(np.zeros(3), abs=1e-12)
    assert (s @ u) @ (s @ u) == pytest.approx(axis.of_total, abs=1e-12)
