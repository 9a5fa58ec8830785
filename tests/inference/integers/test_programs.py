"""Linear programs over sparse tables: optimal, at a vertex, within the bounds of the paper."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binom

from conftest import schema_of
from crosstally.budget import Noise, NoiseKind, Sensitivity
from crosstally.errors import CrosstallyError, QueryError, TooManyCellsError
from crosstally.inference.integers import programs
from crosstally.inference.integers.cell_columns import CellColumns, Target
from crosstally.inference.integers.pricing import all_scores, best_listed, best_proved, local_search, scores_of
from crosstally.inference.integers.programs import nearest_table, round_with_total
from crosstally.privacy.noise import draw
from crosstally.query.linear import Linear, Term
from crosstally.query.queries import Cells, Contrast, Product
from crosstally.schema import Schema
from reference_fourier import coefficient, coefficient_matrix, marginal_matrix, nearest_by_cone_program


def sparse_counts(rng: np.random.Generator, shape: tuple[int, ...], rows: int) -> np.ndarray:
    return rng.multinomial(rows, rng.dirichlet(np.full(math.prod(shape), 0.1))).reshape(shape)


def coefficients(d: int, most: int) -> list[tuple[int, ...]]:
    return [axes for k in range(most + 1) for axes in combinations(range(d), k)]


def coefficient_targets(schema: Schema, counts: np.ndarray, sets, noise: np.ndarray) -> list[Target]:
    targets = []
    for axes, error in zip(sets, noise, strict=True):
        names = tuple(schema.names[axis] for axis in axes)
        query = Contrast(names) if names else Cells(())
        targets.append(Target(query, np.full(query.shape(schema), coefficient(counts, axes) + error)))
    return targets


def marginal(counts: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return counts.sum(axis=tuple(i for i in range(counts.ndim) if i not in axes))


def dense(fitted) -> np.ndarray:
    out = np.zeros(fitted.schema.shape)
    np.add.at(out, tuple(fitted.cells.T), fitted.weights)
    return out


# The program of section 3.2, and that of 4.1 with the total error


def check_coefficient_programs(runs: int) -> None:
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(3, 7))
        schema, sets = schema_of(*[2] * d), coefficients(d, 2)
        counts = sparse_counts(rng, schema.shape, int(rng.integers(1, 200)))
        noise = np.round(rng.laplace(0, rng.uniform(1, 60), len(sets)))
        targets = coefficient_targets(schema, counts, sets, noise)
        values = np.array([float(target.values.sum()) for target in targets])
        for objective, realised in (("largest", np.abs(noise).max()), ("total", np.abs(noise).sum())):
            fitted = nearest_table(schema, targets, objective=objective)
            assert fitted.distance <= realised + 1e-6, "the true table is no farther than its noise"
            other = nearest_by_cone_program(coefficient_matrix(d, sets), values, objective)
            assert fitted.distance == pytest.approx(other, abs=1e-6, rel=1e-6)
            assert len(fitted.weights) <= len(sets), "a vertex has at most |B| non-zero cells"
            assert (fitted.weights > 0).all()
            differences = np.abs(coefficient_matrix(d, sets) @ dense(fitted).ravel() - values)
            reached = differences.max() if objective == "largest" else differences.sum()
            assert reached == pytest.approx(fitted.distance, abs=1e-6)
            assert fitted.gap <= 1e-6 * max(1, fitted.distance)


def test_coefficients_are_fitted_as_well_as_another_solver_fits_them() -> None:
    check_coefficient_programs(12)


@pytest.mark.verify
def test_coefficients_are_fitted_as_well_as_another_solver_fits_them_300_times() -> None:
    check_coefficient_programs(300)


@pytest.mark.parametrize("objective", ["largest", "total"])
@pytest.mark.parametrize("total", [None, 120])
def test_columns_found_one_by_one_give_the_same_optimum(monkeypatch, objective, total) -> None:
    """Mixed attributes; with all columns at once, and with a few to begin with."""
    rng = np.random.default_rng(8)
    schema = schema_of(2, 3, 4, 2)
    counts = sparse_counts(rng, schema.shape, 100)
    tables = [(0, 1), (1, 2), (2, 3), (0,)]
    targets = [
        Target(
            Cells(tuple(schema.names[i] for i in axes)),
            marginal(counts, axes) + rng.laplace(0, 12, np.shape(marginal(counts, axes))),
        )
        for axes in tables
    ]
    at_once = nearest_table(schema, targets, objective=objective, total=total)
    monkeypatch.setattr(programs, "_LISTED_AT_ONCE", 1)
    one_by_one = nearest_table(schema, targets, objective=objective, total=total)
    assert one_by_one.distance == pytest.approx(at_once.distance, rel=1e-7)
    assert one_by_one.gap < 1e-5
    if total is None:
        values = np.concatenate([target.values.ravel() for target in targets])
        other = nearest_by_cone_program(marginal_matrix(schema.shape, tables), values, objective)
        assert at_once.distance == pytest.approx(other, rel=1e-6)
    else:
        assert one_by_one.weights.sum() == pytest.approx(120)


def test_marginals_that_some_table_has_are_met_exactly() -> None:
    rng = np.random.default_rng(2)
    schema = schema_of(3, 2, 5)
    counts = sparse_counts(rng, schema.shape, 70)
    targets = [
        Target(Cells(("a0", "a2")), marginal(counts, (0, 2))),
        Target(Cells(("a1", "a0")), marginal(counts, (0, 1)).T),
    ]
    fitted = nearest_table(schema, targets)
    assert fitted.distance == pytest.approx(0, abs=1e-7)
    np.testing.assert_allclose(dense(fitted).sum(axis=1), marginal(counts, (0, 2)), atol=1e-7)
    np.testing.assert_allclose(dense(fitted).sum(axis=2), marginal(counts, (0, 1)), atol=1e-7)


# What makes the theorems true, and the theorems


@pytest.mark.parametrize(("used", "fits"), [(144.0, True), (144.0 * 1.3, False)])
def test_the_largest_noise_stays_below_its_bound_at_its_rate(used, fits) -> None:
    """max |noise| > b ln(|B| / delta) with probability at most delta; 800 vectors of |B| = 137, delta = 1/4.

    The exact rate follows from the discrete distribution. False-alarm rate of the two-sided binomial test: 1e-6.
    """
    scale, number, delta, vectors = 144.0, 137, 0.25, 800
    bound = scale * math.log(number / delta)
    ratio = math.exp(-1 / scale)
    beyond = 2 * ratio ** (math.floor(bound) + 1) / (1 + ratio)
    rate = 1 - (1 - beyond) ** number
    assert rate <= delta
    noise = Noise(NoiseKind.LAPLACE, used)
    drawn = draw(np.zeros(vectors * number, np.int64), noise, Sensitivity(1, 1)).reshape(vectors, number)
    over = int((np.abs(drawn).max(axis=1) > bound).sum())
    low, high = binom.ppf(5e-7, vectors, rate), binom.isf(5e-7, vectors, rate)
    assert bool(low <= over <= high) is fits


def check_theorems(runs: int) -> None:
    """Theorem 7: coefficients; theorem 8: marginals. Each is said to fail with probability 1/20, and never does.

    The bounds are at least ten times the 95% quantile of the error, so a failure in any run is a mistake.
    """
    d, epsilon, delta = 5, 1.0, 0.05
    schema, sets, pairs = (
        schema_of(*[2] * d),
        coefficients(d, 2),
        [axes for axes in coefficients(d, 2) if len(axes) == 2],
    )
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        counts = sparse_counts(rng, schema.shape, 300)
        noise = np.round(rng.laplace(0, 2 * len(sets) / epsilon, len(sets)))
        fitted = nearest_table(schema, coefficient_targets(schema, counts, sets, noise))
        rounded = np.zeros(schema.shape)
        np.add.at(rounded, tuple(fitted.cells.T), np.rint(fitted.weights))
        assert np.abs(rounded - dense(fitted)).sum() <= len(sets)
        for axes in pairs:
            error = np.abs(marginal(rounded, axes) - marginal(counts, axes)).sum()
            assert error <= 4 * 8 * len(sets) * math.log(len(sets) / delta) / epsilon + len(sets)
        direct = [
            Target(
                Cells(tuple(schema.names[i] for i in axes)),
                marginal(counts, axes) + np.round(rng.laplace(0, 2 * len(pairs) / epsilon, (2, 2))),
            )
            for axes in pairs
        ]
        fitted, cells = nearest_table(schema, direct), 4 * len(pairs)
        assert len(fitted.weights) <= cells
        for axes in pairs:
            error = np.abs(marginal(np.rint(dense(fitted)), axes) - marginal(counts, axes)).sum()
            assert error <= 4 * 8 * len(pairs) * math.log(cells / delta) / epsilon + cells


def test_theorems_7_and_8_hold() -> None:
    check_theorems(8)


@pytest.mark.verify
def test_theorems_7_and_8_hold_500_times() -> None:
    check_theorems(500)


# Large domains


def test_a_program_over_a_domain_that_cannot_be_listed_is_solved_and_proved() -> None:
    """30 attributes of which 5 are asked about: the optimum is that of the 5 alone, by another solver."""
    rng = np.random.default_rng(5)
    small, sets = schema_of(*[2] * 5), coefficients(5, 2)
    counts = sparse_counts(rng, small.shape, 40)
    noise = np.round(rng.laplace(0, 30, len(sets)))
    values = np.array([coefficient(counts, axes) for axes in sets]) + noise
    schema = schema_of(*[2] * 30)
    chosen = (3, 9, 14, 20, 27)
    targets = []
    for axes, value in zip(sets, values, strict=True):
        names = tuple(schema.names[chosen[axis]] for axis in axes)
        query = Contrast(names) if names else Cells(())
        targets.append(Target(query, np.full(query.shape(schema), value)))
    fitted = nearest_table(schema, targets, time_limit=60)
    assert fitted.distance == pytest.approx(
        nearest_by_cone_program(coefficient_matrix(5, sets), values, "largest"), rel=1e-6
    )
    assert fitted.gap <= 1e-5


def test_when_time_is_over_the_gap_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second program finds no time, whatever the machine: what the first one found is given, with its gap."""
    solve, solved = programs._solve, []

    def once(*arguments: object, **options: object) -> object:
        if not solved:
            solved.append(solve(*arguments, **options))
            return solved[0]
        return None

    monkeypatch.setattr(programs, "_solve", once)
    rng = np.random.default_rng(6)
    schema, sets = schema_of(*[2] * 25), coefficients(25, 2)
    values = rng.laplace(0, 300, len(sets))
    values[0] = 1000
    targets = []
    for axes, value in zip(sets, values, strict=True):
        names = tuple(schema.names[axis] for axis in axes)
        targets.append(Target(Contrast(names) if names else Cells(()), np.full((1,) * len(names), value)))
    fitted = nearest_table(schema, targets)
    assert 0 < fitted.gap <= fitted.distance
    assert "gap" in repr(fitted)


def test_pricing_against_all_cells() -> None:
    """Local search, the list of all scores and the mixed-integer program agree on random scores."""
    rng = np.random.default_rng(1)
    schema = schema_of(2, 3, 4, 2, 3)
    names = schema.names
    queries: list[Product] = [
        Contrast(("a1", "a0")),
        Cells(("a2", "a3")),
        Contrast(("a4",)),
        Cells(()),
        Cells(("a0", "a4")),
        Cells(("a2",)),
    ]
    columns = CellColumns(schema, [Target(query, np.zeros(query.shape(schema))) for query in queries])
    multipliers = rng.normal(size=len(columns.values))
    cells = np.stack(np.unravel_index(np.arange(schema.cells), schema.shape), axis=1)
    truth = columns.of(cells).T @ multipliers
    tables = columns.score_tables(multipliers)
    np.testing.assert_allclose(scores_of(tables, cells), truth, atol=1e-12)
    np.testing.assert_allclose(all_scores(tables, schema.shape).ravel(), truth, atol=1e-12)
    assert best_listed(tables, schema.shape, 5)[1] == pytest.approx(truth.max())
    found = local_search(tables, schema.shape, cells[::7])
    assert scores_of(tables, found).max() == pytest.approx(truth.max())
    best, bound = best_proved(tables, schema.shape, 30)
    assert bound == pytest.approx(truth.max(), abs=1e-6)
    assert scores_of(tables, best[None])[0] == pytest.approx(truth.max(), abs=1e-6)
    assert len(names) == 5


@pytest.mark.parametrize(("of_the_total", "found", "largest"), [(-3.0, 0, -1.0), (-1.0, 3, math.inf)])
def test_cells_improve_by_their_score_and_the_multiplier_of_the_total(
    of_the_total: float, found: int, largest: float
) -> None:
    """Scores are 1 and 2 by the first attribute. With -3 for the total none is left above zero, the best at -1.

    With -1 the three cells of score 2 improve; the search that found them does not know the largest of all.
    """
    schema = schema_of(2, 3)
    columns = CellColumns(schema, [Target(Cells(("a0",)), np.zeros(2))])
    tables = columns.score_tables(np.array([1.0, 2.0]))
    solved = programs._Solved(
        np.zeros((1, 2), np.intp), np.ones(1), distance=0.0, multipliers=np.ones(2), total_multiplier=of_the_total
    )
    cells, most = programs._improving(
        tables, solved, shape=schema.shape, random=np.random.default_rng(0), deadline=math.inf
    )
    assert len(np.unique(cells, axis=0)) == found
    assert (cells[:, 0] == 1).all()
    assert most == largest


def test_columns_are_the_answers_of_single_rows() -> None:
    schema = schema_of(2, 3, 4)
    queries: list[Product] = [Contrast(("a2", "a0")), Cells(("a1", "a2")), Cells(()), Contrast(("a1",))]
    columns = CellColumns(schema, [Target(query, np.zeros(query.shape(schema))) for query in queries])
    for cell in ((0, 0, 0), (1, 2, 3), (0, 1, 2)):
        row = np.zeros(schema.shape, np.int64)
        row[cell] = 1
        expected = []
        for query in queries:
            axes = [schema.positions[name] for name in query.attributes]
            table = np.zeros(schema.sizes(query.attributes), np.int64)
            table[tuple(cell[axis] for axis in axes)] = 1
            expected.append(np.ravel(query.answer(table)))
        assert np.array_equal(columns.of(np.array([cell]))[:, 0], np.concatenate(expected))


# Whole numbers and mistakes


def test_rounding_keeps_the_total_and_moves_no_weight_by_more_than_one() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        weights = rng.exponential(2, rng.integers(1, 30))
        total = round(weights.sum())
        rounded = round_with_total(weights, total)
        assert rounded.sum() == total
        assert (rounded >= 0).all()
        assert (np.abs(rounded - weights) <= 1 + 1e-6).all()
    assert round_with_total(np.array([3.0, 2.0]), 4).tolist() in ([2, 2], [3, 1])
    with pytest.raises(QueryError, match="too far from 9 to be rounded"):
        round_with_total(np.array([1.0, 2.0]), 9)


def test_impossible_programs_are_refused(monkeypatch) -> None:
    schema = schema_of(2, 2)
    target = Target(Cells(("a0",)), [1.0, 2.0])
    with pytest.raises(QueryError, match="objective must be largest or total"):
        nearest_table(schema, [target], objective="smallest")
    with pytest.raises(QueryError, match="total must be a number of at least 0, got -1"):
        nearest_table(schema, [target], total=-1)
    with pytest.raises(QueryError, match="time_limit must be a positive number"):
        nearest_table(schema, [target], time_limit=0)
    with pytest.raises(QueryError, match=r"finite values of shape \(2,\), got \(3,\)"):
        nearest_table(schema, [Target(Cells(("a0",)), [1.0, 2.0, 3.0])])
    with pytest.raises(QueryError, match="cells and contrasts, got Linear"):
        nearest_table(schema, [Target(Linear((Term(1, ()),)), 1.0)])
    large = schema_of(150, 150)
    with pytest.raises(TooManyCellsError, match="at most 20,000 numbers, got 22,500"):
        nearest_table(large, [Target(Cells(("a0", "a1")), np.zeros((150, 150)))])
    for status, reason in ((2, "has no solution"), (4, "could not be solved")):
        with pytest.raises(CrosstallyError, match=reason):
            programs._check_status(status)
    monkeypatch.setattr(programs, "_solve", lambda *_, **__: None)
    with pytest.raises(CrosstallyError, match="did not finish in time; give it more time, or name fewer tables"):
        nearest_table(schema, [target])
