"""Values in groups beside values in full, against dense generalised least squares over the whole domain."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from conftest import schema_of
from crosstally.answers.answer import answer
from crosstally.answers.error_bars import ErrorBars
from crosstally.answers.marginal import ErrorKind
from crosstally.errors import PlanError, QueryError
from crosstally.inference.estimates import CORRECTED, estimate
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells, Contrast, Product, Query
from crosstally.query.ways import Groups
from crosstally.residuals import Estimate, Variances, combine
from crosstally.residuals.nested import extended_measurements, full_part_measured
from crosstally.schema import Schema
from reference_residuals import DenseLeastSquares, Matrix, contrast_matrix, marginal_matrix

SCHEMA = schema_of(5, 4, 3, names="abc")
UNEQUAL = {"a": (0, 0, 1, 1, 1), "b": (0, 1, 2, 1)}
EQUAL = {"b": (1, 0, 0, 1)}
VARIANCES = (9.0, 1.0, 4.0, 0.5, 2.0, 30.0, 7.0, 3.0)


def in_groups(names: str, groups: dict[str, tuple[int, ...]]) -> Product:
    return Cells(tuple(names), {name: groups[name] for name in names if name in groups})


def asked(groups: dict[str, tuple[int, ...]]) -> list[Query]:
    """Attribute a in full as cells, b as a contrast, pairs and the triple in groups."""
    tables = [in_groups(names, groups) for names in ("ab", "ca", "bc", "abc")]
    return [Cells(("a",)), Contrast(("b",)), Cells(()), in_groups("b", groups), *tables]


def matrix_of(query: Query) -> Matrix:
    """The query as rows over the cells of the whole domain, groups by adding up rows of values."""
    axes = [SCHEMA.positions[name] for name in query.attributes]
    if query.is_residual:
        return contrast_matrix(SCHEMA.shape, axes)
    sizes, maps = SCHEMA.sizes(query.attributes), dict(query.groups)
    cells = list(product(*map(range, sizes)))
    codes = [tuple(maps[n][v] if n in maps else v for n, v in zip(query.attributes, c, strict=True)) for c in cells]
    rows = sorted(set(codes))
    together = np.zeros((len(rows), len(cells)))
    for column, code in enumerate(codes):
        together[rows.index(code), column] = 1
    return together @ marginal_matrix(SCHEMA.shape, axes)


def measured(groups: dict[str, tuple[int, ...]], seed: int = 3) -> list[Measurement]:
    rng = np.random.default_rng(seed)
    truth = rng.uniform(0, 100, SCHEMA.cells)
    out = []
    for query, variance in zip(asked(groups), VARIANCES, strict=False):
        exact = (matrix_of(query) @ truth).reshape(query.shape(SCHEMA))
        noisy = exact + rng.normal(0, variance**0.5, exact.shape)
        out.append(Measurement(query, noisy, variance=variance, noise=None, origin="test"))
    return out


def linear(measurements: list[Measurement], rows: int | None = None) -> Estimate:
    return estimate(SCHEMA, measurements, rows=rows, nonnegative="none")


def fitted(found: Estimate, query: Query) -> np.ndarray:
    assert found.groups is not None
    plain = found.groups.query(query)
    return np.asarray(plain.answer(found.table(plain.attributes))).ravel()


def errors_of(found: Estimate, measurements: list[Measurement], rows: int | None = None) -> ErrorBars:
    groups = found.groups
    assert groups is not None
    return ErrorBars(groups.extended, extended_measurements(groups, measurements), rows, groups=groups)


def dense(measurements: list[Measurement], total: float | None) -> DenseLeastSquares:
    parts = [(matrix_of(m.query), np.asarray(m.values), m.variance) for m in measurements]
    return DenseLeastSquares(SCHEMA.cells, parts, total)


# Least squares


def test_groups_of_equal_sizes_are_least_squares_of_everything() -> None:
    found, reference = linear(measured(EQUAL)), dense(measured(EQUAL), None)
    for query in asked(EQUAL):
        assert fitted(found, query) == pytest.approx(reference.answer(matrix_of(query)), abs=1e-8)


@pytest.mark.parametrize("rows", [None, 2_900])
def test_given_the_total_it_is_least_squares_of_everything(rows: int | None) -> None:
    """The total itself is the average of what each table says of it, by one over its number of cells and variance."""
    measurements = measured(UNEQUAL)
    found = linear(measurements, rows)
    total = float(found.table(()))
    if rows is None:
        cells = [m for m in measurements if m.query.is_table]
        weights = [1 / (m.variance * m.values.size) for m in cells]
        assert total == pytest.approx(np.average([m.values.sum() for m in cells], weights=weights))
    else:
        assert total == rows
    reference = dense(measurements, total)
    for query in asked(UNEQUAL):
        assert fitted(found, query) == pytest.approx(reference.answer(matrix_of(query)), abs=1e-8)


def test_what_the_total_gains_by_unequal_groups_is_little() -> None:
    """What is left out: the variance of the total by least squares of everything together is 7% lower here."""
    plain = dense(measured(UNEQUAL), None).variances(np.ones((1, SCHEMA.cells)))[0]
    found = linear(measured(UNEQUAL))
    assert 1 < found.variances[found.places([()])[0].item()] / plain < 1.08


# Errors


def recovery(rows: int | None) -> np.ndarray:
    """What takes the measured numbers to the tables of a, b and c: a column for each, by asking for each in turn."""
    blank = [
        Measurement(m.query, m.values * 0.0, variance=m.variance, noise=None, origin="t") for m in measured(UNEQUAL)
    ]
    columns = []
    none = [answers_of(blank, rows)]
    for i, each in enumerate(blank):
        for cell in range(each.values.size):
            values = np.zeros(each.values.size)
            values[cell] = 1.0
            one = Measurement(
                each.query, values.reshape(each.values.shape), variance=each.variance, noise=None, origin="t"
            )
            columns.append(answers_of([*blank[:i], one, *blank[i + 1 :]], rows) - none[0])
    return np.stack(columns, axis=1)


def answers_of(measurements: list[Measurement], rows: int | None) -> np.ndarray:
    found = linear(measurements, rows)
    errors = errors_of(found, measurements, rows)
    return np.concatenate([answer(found, errors, (name,)).values for name in "abc"])


@pytest.mark.parametrize("rows", [None, 3_000])
def test_standard_errors_are_those_of_the_noise_that_goes_in(rows: int | None) -> None:
    measurements = measured(UNEQUAL)
    found = linear(measurements, rows)
    errors = errors_of(found, measurements, rows)
    noise = np.concatenate([np.full(m.values.size, m.variance) for m in measurements])
    weights = recovery(rows)
    expected = np.sqrt(weights**2 @ noise)
    got = [answer(found, errors, (name,)) for name in "abc"]
    assert np.concatenate([each.std_error for each in got]) == pytest.approx(expected)
    assert all(each.error_kind is ErrorKind.ESTIMATED for each in got)  # this noise is of no known kind
    assert got[0].half_width(0.95) == pytest.approx(1.959964 * expected[:5])
    chosen = np.array([True, False, True, True, False])
    together = errors.sums((), ("a",), chosen).std_error
    assert together == pytest.approx(np.sqrt((chosen @ weights[:5]) ** 2 @ noise))
    assert errors.sums(("a",), (), chosen[chosen]).std_error == pytest.approx(expected[:5].max())


def test_variances_of_coefficients_are_those_of_the_noise_that_goes_in() -> None:
    measurements = measured(UNEQUAL)
    found, weights = linear(measurements), recovery(None)[:9]
    noise = np.concatenate([np.full(m.values.size, m.variance) for m in measurements])
    assert found.groups is not None
    for rows, full in ((slice(0, 5), "a"), (slice(5, 9), "b")):
        names = (found.groups.full_names[full],)
        for cell, place in enumerate(found.places([names])[0][0][1:], start=1):
            vector = np.r_[np.ones(cell), -cell, np.zeros(SCHEMA[full].size - cell - 1)] / (cell * (cell + 1)) ** 0.5
            assert found.variances[place] == pytest.approx((vector @ weights[rows]) ** 2 @ noise)


# Answers


@pytest.mark.parametrize("nonnegative", CORRECTED)
def test_answers_agree_with_each_other_in_values_and_in_groups(nonnegative: str) -> None:
    measurements = measured(UNEQUAL)
    found = estimate(SCHEMA, measurements, nonnegative=nonnegative)
    errors = errors_of(found, measurements)
    tables = {names: answer(found, errors, tuple(names)) for names in ("", "a", "b", "c", "ab", "ca", "abc")}
    for table in tables.values():
        assert table.values.sum() == pytest.approx(float(tables[""].values))
    for pair, axis, single in (("ab", 1, "a"), ("ab", 0, "b"), ("ca", 0, "a"), ("ca", 1, "c")):
        assert tables[pair].values.sum(axis=axis) == pytest.approx(tables[single].values, rel=1e-6)
    assert tables["ca"].schema == SCHEMA.subset("c", "a")
    assert tables["ab"].error_kind is ErrorKind.NONE
    assert tables["ab"].method == "maximum-entropy"


def test_cells_of_groups_are_shared_as_the_values_share_their_group() -> None:
    measurements = measured(UNEQUAL)
    found = linear(measurements)
    errors = errors_of(found, measurements)
    a, pair = answer(found, errors, ("a",)).values, answer(found, errors, ("c", "a")).values
    of_groups = found.table(("c", "a"))
    for c in range(3):
        assert pair[c, :2] == pytest.approx(of_groups[c, 0] * a[:2] / a[:2].sum())
        assert pair[c, 2:] == pytest.approx(of_groups[c, 1] * a[2:] / a[2:].sum())


def test_values_never_measured_in_full_share_alike() -> None:
    measurements = [m for m in measured(UNEQUAL) if m.query != Cells(("a",))]
    found = linear(measurements)
    one = answer(found, errors_of(found, measurements), ("a",))
    assert one.values[:2].tolist() == [one.values[0]] * 2
    assert one.error_kind is ErrorKind.NONE


# What grouped tables say about tables in full


def test_a_plan_knows_the_errors_of_tables_without_groups() -> None:
    """Of c a table with three groups of b tells sums of three cells; one with two groups of a, sums of two."""
    pairs = [(in_groups("bc", UNEQUAL), 7.0), (in_groups("ca", UNEQUAL), 2.0)]
    found = Variances.of_queries(SCHEMA, pairs)
    assert found.of(("c",)) == pytest.approx(1 / (1 / 21 + 1 / 4))
    assert np.isnan(found.of(("b",)))
    values = np.arange(9.0).reshape(3, 3)
    part = full_part_measured(Measurement(pairs[0][0], values, variance=7.0, noise=None, origin="t"))
    assert (part.query, part.variance, part.values.tolist()) == (Cells(("c",)), 21.0, [9.0, 12.0, 15.0])


# What cannot be


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (
            [in_groups("ab", UNEQUAL), Cells(("b",), EQUAL)],
            "the values of 'b' must have the same groups in every table",
        ),
        (
            [in_groups("ab", UNEQUAL), Cells(("c", "b"))],
            "the table of c x b must count the groups of 'b', as others do",
        ),
        ([in_groups("ab", UNEQUAL), Contrast(("a", "c"))], "the table of a x c must count the groups of 'a'"),
    ],
)
def test_one_grouping_for_each_attribute(queries: list[Query], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Groups.of(SCHEMA, queries)


def test_groups_are_not_combined_as_if_they_were_values() -> None:
    with pytest.raises(QueryError, match="cells in groups are combined in the extended schema"):
        combine(SCHEMA, [measured(UNEQUAL)[4]])


def test_the_extended_schema() -> None:
    schema = Schema([*SCHEMA.attributes[:1], SCHEMA["b"].renamed("a in full")])
    groups = Groups.of(schema, [Cells(("a",), {"a": UNEQUAL["a"]})])
    assert groups is not None
    assert str(groups.extended) == "a:2 a in full:4 a in full_:5"
    assert groups.extended["a"].labels == ("0 ... 1", "2 ... 4")
