"""Attributes measured in more than one way: least squares and its covariance, against dense matrices."""

from dataclasses import replace

import numpy as np
import pytest

from crosstally.answers.changes import in_a_row
from crosstally.answers.error_bars import ErrorBars
from crosstally.answers.linear_form import LinearForm, normal_draws
from crosstally.answers.marginal import ErrorKind
from crosstally.answers.matrix_errors import MatrixError
from crosstally.budget import Noise, NoiseKind
from crosstally.errors import PlanError, QueryError, TooManyCellsError
from crosstally.inference import bootstrap
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells, Contrast, Kronecker, Product
from crosstally.query.ways import matrices_of, mixed_of
from crosstally.residuals import Variances, combine, mixed
from crosstally.residuals.mixed import MixedAxes
from reference_linear import least_squares, measured, numbered, rows_of

SCHEMA = numbered(4, 2, 3, 3)
FOUR = [[3, 1, 0, 0], [0, 2, 1, -1], [1, 0, 0, 4]]
OTHER = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]
TWICE = [[2, 0, 0, 0], [2, 2, 0, 0], [2, 2, 2, 0]]
WIDE = [[3, 1, 0, 0], [0, 2, 1, -1], [1, 0, 0, 4], [1, 1, 1, 1], [0, 1, 0, 0]]
THREE = [[2, 1, 0], [0, 1, -3]]
SQUARE = [[1, 0, 0], [1, 1, 0], [1, 1, 2]]
CASES: dict[str, list[tuple[Product, float]]] = {
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
    bars = ErrorBars(SCHEMA, measurements, rows)
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


@pytest.mark.parametrize("asked", CASES.values(), ids=CASES)
@pytest.mark.parametrize("rows", [None, 1_700])
def test_differences_of_cells_have_their_exact_error(asked, rows, monkeypatch) -> None:
    """The first cell of each table less the last of each other one, and draws of all tables, against dense matrices.

    20,000 draws: five standard errors of each covariance, and the draws are the same each time.
    """
    measurements = measured(asked, SCHEMA)
    found, bars = combine(SCHEMA, measurements, rows=rows), ErrorBars(SCHEMA, measurements, rows)
    known = Measurement(Cells(()), np.array(1_700), variance=1e-6, noise=None, origin="public")
    covariance = least_squares([*measurements, *([] if rows is None else [known])], SCHEMA)[1]
    covered = [names for names in TABLES if found.covers(names)]
    dense = {names: rows_of(Cells(names), SCHEMA) for names in covered}

    def cell(names: tuple[str, ...], place: int) -> LinearForm:
        table = LinearForm.table(bars, names, SCHEMA.sizes(names))
        return in_a_row(np.array([place])).form(table)

    for first in covered:
        for second in covered:
            gap = cell(first, 0).plus(cell(second, len(dense[second]) - 1).scaled(-1.0))
            weights = dense[first][0] - dense[second][-1]
            assert gap.variance[0] == pytest.approx(weights @ covariance @ weights, rel=1e-4, abs=1e-4)

    monkeypatch.setattr(bootstrap, "DRAWS", 20_000)
    stacks = [normal_draws(bars, names, found.table(names))[1:].reshape(20_000, -1) for names in covered]
    drawn, all_rows = np.cov(np.concatenate(stacks, axis=1).T), np.concatenate(list(dense.values()))
    expected = all_rows @ covariance @ all_rows.T
    variances = np.diagonal(expected)
    allowed = 5 * np.sqrt((np.multiply.outer(variances, variances) + expected**2) / 20_000)
    assert (np.abs(drawn - expected) <= allowed + 1e-4).all()


@pytest.mark.parametrize("asked", [CASES["ranges after a stage of pairs"]])
@pytest.mark.parametrize("rows", [None, 1_700])
def test_sums_of_cells_have_their_exact_error(asked, rows) -> None:
    """A range, a range within each value of another attribute, and boxes that are no product, kept values too."""
    measurements = measured(asked, SCHEMA)
    bars = ErrorBars(SCHEMA, measurements, rows)
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


@pytest.mark.parametrize("asked", CASES.values(), ids=CASES)
@pytest.mark.parametrize("rows", [None, 1_700])
def test_the_noise_of_a_cell_has_the_weights_of_least_squares(asked, rows) -> None:
    """Each noisy number's weight, without its sign, and how many have it, against a dense solution."""
    noises = [Noise(NoiseKind.LAPLACE, 1.0 + i) for i in range(len(asked))]  # small, so that nothing counts as normal
    measurements = [
        replace(m, noise=noise, variance=noise.variance)
        for m, noise in zip(measured(asked, SCHEMA), noises, strict=True)
    ]
    bars = ErrorBars(SCHEMA, measurements, rows)
    known = Measurement(Cells(()), np.array(1_700), variance=1e-7, noise=None, origin="public")
    all_measured = [*measurements, *([] if rows is None else [known])]
    matrix = np.vstack([rows_of(m.query, SCHEMA) for m in measurements])
    covariance = least_squares(all_measured, SCHEMA)[1]
    found = combine(SCHEMA, measurements)
    for names in [names for names in TABLES if names and found.covers(names)]:
        law = bars.covered_law(names)
        cell = tuple(n - 1 for n in SCHEMA.sizes(names))  # the last one
        assert isinstance(law, MatrixError)
        terms = list(law.terms(cell))
        assert sum(term.share for term in terms) == pytest.approx(law.std_error[cell] ** 2, rel=1e-6)
        weights = np.abs(rows_of(Cells(names), SCHEMA)[-1] @ covariance @ matrix.T)
        ends = np.cumsum([m.values.size for m in measurements])
        for m, own in zip(measurements, np.split(weights, ends[:-1]), strict=True):
            mine = [np.full(int(term.count), term.weight) for term in terms if term.noise == m.noise]
            expected = np.sort(own / m.variance)
            told = np.sort(np.concatenate([*mine, np.zeros(own.size - sum(map(len, mine)))]))
            assert told == pytest.approx(expected, abs=1e-5)


def test_intervals_under_laplace_noise_are_those_of_its_law() -> None:
    """Counts measured twice: 95% of the sum of two discrete Laplace variables, by adding probabilities up."""
    schema = numbered(2)
    noise = Noise(NoiseKind.LAPLACE, 3.0)
    queries = [Cells(("a0",)), Kronecker(("a0",), {"a0": [[0, 1], [1, 0]]})]
    both = [Measurement(q, np.array([5, 9]), variance=noise.variance, noise=noise, origin="test") for q in queries]
    ratio, reach = np.exp(-1 / 3), np.arange(-200, 201)
    one = (1 - ratio) / (1 + ratio) * ratio ** np.abs(reach)
    two = np.convolve(one, one)  # of the sum, from -400 to 400; the estimate has half of it
    inside = [two[400 - k : 401 + k].sum() for k in range(100)]
    law = ErrorBars(schema, both).covered_law(("a0",))
    assert (law.kind, law.std_error) == (ErrorKind.EXACT, pytest.approx([(noise.variance / 2) ** 0.5] * 2))
    exact = np.searchsorted(inside, 0.95) / 2
    above = np.asarray(law.half_width(0.95)) - exact  # never below, and above by 1% of the standard error at most
    assert ((above >= 0) & (above <= 0.01 * law.std_error)).all()


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
    asked: list[tuple[Product, float]] = [
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


def test_too_many_covariances_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The total, a1 and a2, each with the four values of a0: 3 x 16 numbers."""
    asked = [(Kronecker(("a0",), {"a0": WIDE}), 1.0), (Cells(("a0", "a1")), 1.0), (Cells(("a0", "a2")), 1.0)]
    monkeypatch.setattr(mixed, "_MOST_NUMBERS", 48)
    MixedAxes(SCHEMA, asked)
    monkeypatch.setattr(mixed, "_MOST_NUMBERS", 47)
    with pytest.raises(TooManyCellsError, match="a0: measured in more than one way, so that 48 covariances are needed"):
        MixedAxes(SCHEMA, asked)
