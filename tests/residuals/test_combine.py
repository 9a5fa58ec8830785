"""Combining measurements, against dense generalised least squares over the whole domain."""

from __future__ import annotations

import time
from itertools import combinations, permutations

import numpy as np
import pytest

from conftest import schema_of
from crosstally.budget import Noise, NoiseKind
from crosstally.errors import QueryError
from crosstally.measurements import Measurement
from crosstally.query.linear import Linear, Term
from crosstally.query.queries import Cells, Contrast, Query
from crosstally.residuals import Estimate, Variances, combine
from crosstally.schema import Schema
from reference_residuals import DenseLeastSquares, contrast_matrix, marginal_matrix

DOMAINS = [(2, 2, 2, 2), (3, 2, 4), (5, 2, 3, 2), (2, 3, 3, 2, 2), (7, 6)]


def measured(query: Query, values: np.ndarray, variance: float) -> Measurement:
    return Measurement(query, values, variance=variance, noise=None, origin="test")


def all_tables(schema: Schema) -> list[tuple[str, ...]]:
    return [table for k in range(len(schema.names) + 1) for table in combinations(schema.names, k)]


def random_measurements(schema: Schema, rng: np.random.Generator) -> list[Measurement]:
    """Two to six views and contrasts of random attributes in random order, with variances far apart."""
    out = []
    for _ in range(rng.integers(2, 7)):
        number = int(rng.integers(0, len(schema.names) + 1))
        names = tuple(rng.permutation(schema.names)[:number].tolist())
        query = Contrast(names) if names and rng.random() < 0.4 else Cells(names)
        values = rng.normal(0, 1000, query.shape(schema))
        out.append(measured(query, values, float(10 ** rng.uniform(-1, 3))))
    return out


def dense(schema: Schema, measurements: list[Measurement], total: float | None = None) -> DenseLeastSquares:
    parts = []
    for m in measurements:
        axes = [schema.positions[name] for name in m.query.attributes]
        matrix = marginal_matrix if m.query.is_table else contrast_matrix
        parts.append((matrix(schema.shape, axes), np.asarray(m.values, float), m.variance))
    return DenseLeastSquares(schema.cells, parts, total)


def assert_same(estimate: Estimate, reference: DenseLeastSquares) -> None:
    schema, scale = estimate.schema, reference.covariance.trace()
    for names in all_tables(schema):
        matrix = marginal_matrix(schema.shape, [schema.positions[name] for name in names])
        expected = reference.answer(matrix)
        assert np.allclose(estimate.table(names).ravel(), expected, rtol=0, atol=1e-10 * max(1000, abs(expected).max()))
        assert estimate.covers(names) == reference.covers(matrix)
        if estimate.covers(names):
            assert np.allclose(estimate.variance(names), reference.variances(matrix), rtol=1e-10, atol=1e-11 * scale)
        else:
            assert np.isnan(estimate.variance(names))


@pytest.mark.parametrize("sizes", DOMAINS)
@pytest.mark.parametrize("seed", range(6))
def test_combining_is_dense_generalised_least_squares(sizes: tuple[int, ...], seed: int) -> None:
    schema = schema_of(*sizes)
    measurements = random_measurements(schema, np.random.default_rng([seed, *sizes]))
    assert_same(combine(schema, measurements), dense(schema, measurements))


@pytest.mark.verify
@pytest.mark.parametrize("seed", range(100, 400))
def test_combining_is_dense_generalised_least_squares_many_times(seed: int) -> None:
    schema = schema_of(*DOMAINS[seed % len(DOMAINS)])
    measurements = random_measurements(schema, np.random.default_rng(seed))
    assert_same(combine(schema, measurements), dense(schema, measurements))


@pytest.mark.parametrize("sizes", DOMAINS)
@pytest.mark.parametrize("seed", range(3))
def test_a_known_total_is_least_squares_with_that_constraint(sizes: tuple[int, ...], seed: int) -> None:
    schema = schema_of(*sizes)
    measurements = random_measurements(schema, np.random.default_rng([seed, *sizes]))
    assert_same(combine(schema, measurements).with_total(4321), dense(schema, measurements, 4321.0))


def test_the_example_of_priview_section_4_4() -> None:
    schema = schema_of(2, 2, 2)
    views = [
        measured(Cells(("a0", "a1")), np.array([[0.3, 0.3], [0.3, 0.1]]), 1.0),
        measured(Cells(("a0", "a2")), np.array([[0.2, 0.3], [0.1, 0.4]]), 1.0),
    ]
    first, second = combine(schema, views).tables([("a0", "a1"), ("a0", "a2")])
    assert np.allclose(first, [[0.275, 0.275], [0.325, 0.125]], atol=1e-15)
    assert np.allclose(second, [[0.225, 0.325], [0.075, 0.375]], atol=1e-15)


def test_marginals_a_and_ab_of_the_strategy_recovery_paper() -> None:
    """Laplace noise of scales 9/4 and 9/5 taken as continuous: 5.684 for cells of A, 4.661 for cells of AB."""
    schema = schema_of(2, 2, 2)
    queries = [(Cells(("a0",)), 2 * (9 / 4) ** 2), (Cells(("a0", "a1")), 2 * (9 / 5) ** 2)]
    estimate = combine(schema, [measured(query, np.zeros(query.shape(schema)), v) for query, v in queries])
    assert estimate.variance(("a0",)) == pytest.approx(5.684, abs=5e-4)
    assert estimate.variance(("a0", "a1")) == pytest.approx(4.661, abs=5e-4)
    assert 2 * estimate.variance(("a0",)) + 4 * estimate.variance(("a0", "a1")) == pytest.approx(30.0126, abs=5e-5)


@pytest.mark.parametrize("wide", [(10,) * 100, (2,) * 512, (1000,) * 40, (3,) * 33])
def test_long_keys_give_the_same_as_a_few_attributes(wide: tuple[int, ...]) -> None:
    """Four attributes spread over a wide schema, against the same four alone."""
    far = [0, 1, len(wide) // 2, len(wide) - 1]
    sizes = (3, 2, 4, 2)
    large = schema_of(*[sizes[far.index(i)] if i in far else n for i, n in enumerate(wide)])
    small, rename = schema_of(*sizes), {f"a{i}": f"a{position}" for i, position in enumerate(far)}
    measurements = random_measurements(small, np.random.default_rng(5))
    moved = [
        measured(m.query.over(tuple(rename[name] for name in m.query.attributes)), m.values, m.variance)
        for m in measurements
    ]
    here, there = combine(small, measurements).with_total(50), combine(large, moved).with_total(50)
    for names in all_tables(small):
        names_there = [rename[name] for name in names]
        assert np.array_equal(here.table(names), there.table(names_there))
        assert here.covers(names) == there.covers(names_there)
        assert here.variance(names) == there.variance(names_there) or not here.covers(names)
    assert len(here.keys) == len(there.keys)


def test_views_over_a_hundred_attributes_by_hand() -> None:
    """Each total counts alike; a33 lies in two views."""
    schema = schema_of(*(10,) * 100)
    rng = np.random.default_rng(3)
    views = [measured(Cells((f"a{i}", f"a{i + 33}")), rng.normal(0, 100, (10, 10)), 4.0) for i in range(66)]
    estimate = combine(schema, views)
    totals = [view.values.sum() for view in views]
    assert estimate.table(()) == pytest.approx(np.mean(totals), rel=1e-12)
    assert estimate.variance(()) == pytest.approx(400 / 66, rel=1e-12)
    one, two = views[0].values.sum(axis=0), views[33].values.sum(axis=1)  # both over a33
    expected = (one - one.mean() + two - two.mean()) / 2 + np.mean(totals) / 10
    assert np.allclose(estimate.table(("a33",)), expected, rtol=0, atol=1e-10)
    assert estimate.variance(("a33",)) == pytest.approx(400 / 66 / 100 + 0.9 * 40 / 2, rel=1e-12)


def test_the_order_asked_only_moves_axes() -> None:
    schema = schema_of(3, 2, 4)
    estimate = combine(schema, random_measurements(schema, np.random.default_rng(2)))
    plain = estimate.table(schema.names)
    for order in permutations(range(3)):
        names = [schema.names[i] for i in order]
        assert np.allclose(estimate.table(names), plain.transpose(order), rtol=0, atol=1e-10)
        assert estimate.covers(names) == estimate.covers(schema.names)


def test_the_order_measured_does_not_matter() -> None:
    schema = schema_of(3, 2, 4)
    values = np.random.default_rng(4).normal(0, 10, (3, 4))
    there = combine(schema, [measured(Cells(("a0", "a2")), values, 2.0)])
    back = combine(schema, [measured(Cells(("a2", "a0")), values.T, 2.0)])
    assert np.allclose(there.table(("a0", "a2")), back.table(("a0", "a2")), rtol=0, atol=1e-12)
    contrast = combine(schema, [measured(Contrast(("a0", "a2")), values, 2.0)])
    turned = combine(schema, [measured(Contrast(("a2", "a0")), values.T, 2.0)])
    assert np.allclose(contrast.table(("a0", "a2")), turned.table(("a0", "a2")), rtol=0, atol=1e-12)


def test_whole_counts_come_back_from_their_contrasts() -> None:
    """Contrasts of all subsets, without noise, give the counts again."""
    schema = schema_of(3, 2, 4)
    counts = np.random.default_rng(9).integers(0, 50, (3, 2, 4))
    measurements = []
    for names in all_tables(schema):
        axes = tuple(i for i, name in enumerate(schema.names) if name not in names)
        query = Contrast(names) if names else Cells(())
        measurements.append(measured(query, query.answer(counts.sum(axis=axes)), 1.0))
    assert np.allclose(combine(schema, measurements).table(schema.names), counts, rtol=0, atol=1e-11)


def test_nothing_measured() -> None:
    schema = schema_of(3, 2)
    estimate = combine(schema, [])
    assert not estimate.covers(())
    assert estimate.table(("a0",)).tolist() == [0, 0, 0]
    assert np.isnan(estimate.variance(("a0",)))
    known = estimate.with_total(12)
    assert known.covers(())
    assert known.variance(()) == 0.0
    assert known.table(("a0", "a1")).tolist() == [[2, 2], [2, 2], [2, 2]]
    assert np.isnan(known.variance(("a0",)))


def test_covered_tells_of_each_table_what_covers_tells_of_one() -> None:
    schema = schema_of(3, 2, 4, 2)
    estimate = combine(schema, random_measurements(schema, np.random.default_rng(8)))
    tables = all_tables(schema)
    assert estimate.covered(tables).tolist() == [estimate.covers(names) for names in tables]
    assert estimate.covered(tables).tolist() == [bool(estimate.places([names])[1].all()) for names in tables]
    assert estimate.covered([]).tolist() == []
    for names, table in zip(tables, estimate.tables(tables), strict=True):
        assert np.array_equal(table, estimate.table(names))


def test_a_table_with_its_last_coefficient_alone_is_not_covered() -> None:
    schema = schema_of(2, 2)
    last = Measurement(Contrast(("a0", "a1")), np.array([[3.0]]), variance=1.0, noise=None, origin="test")
    estimate = combine(schema, [last])
    assert estimate.covered([("a0", "a1"), ("a0",), ()]).tolist() == [False, False, False]


@pytest.mark.parametrize("seed", range(4))
def test_variances_are_known_before_anything_is_measured(seed: int) -> None:
    schema = schema_of(5, 2, 3, 2)
    measurements = random_measurements(schema, np.random.default_rng([seed, 77]))
    predicted = Variances.of_queries(schema, [(m.query, m.variance) for m in measurements])
    reference = dense(schema, measurements)
    for names in all_tables(schema):
        matrix = marginal_matrix(schema.shape, [schema.positions[name] for name in names])
        if reference.covers(matrix):
            assert np.allclose(predicted.of(names), reference.variances(matrix), rtol=1e-10)
        else:
            assert np.isnan(predicted.of(names))


def test_linear_queries_and_unknown_attributes_are_refused() -> None:
    schema = schema_of(2, 2)
    query = Linear((Term(1, (("a0", (1, 0)),)),))
    with pytest.raises(QueryError, match="only cells, contrasts and Kronecker queries combine, got Linear"):
        combine(schema, [measured(query, np.array(3), 1.0)])
    with pytest.raises(QueryError, match="only cells, contrasts and Kronecker queries combine, got Linear"):
        Variances.of_queries(schema, [(query, 1.0)])
    with pytest.raises(QueryError, match="unknown attribute 'b'"):
        combine(schema, [measured(Cells(("b",)), np.array([1, 2]), 1.0)])


def test_108_views_of_256_cells_take_milliseconds() -> None:
    schema = schema_of(*(2,) * 32)
    rng = np.random.default_rng(0)
    noise = Noise(NoiseKind.LAPLACE, 108.0)
    names = [tuple(f"a{i}" for i in sorted(rng.choice(32, 8, replace=False))) for _ in range(108)]
    views = [measured(Cells(each), rng.normal(0, 100, (2,) * 8), noise.variance) for each in names]
    seconds = []
    for _ in range(5):
        start = time.process_time()
        combine(schema, views)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.1
