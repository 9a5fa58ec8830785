"""Maximum entropy against clarabel on the primal, by hand, and on inputs that no table fits."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import nnls

from conftest import schema_of
from crosstally.answers.answer import answer, answer_all
from crosstally.answers.error_bars import ErrorBars
from crosstally.answers.marginal import ErrorKind, Marginal
from crosstally.answers.unmeasured import maximum_entropy as margins
from crosstally.answers.unmeasured.known import Known, solve
from crosstally.answers.unmeasured.maximum_entropy import fitted, greatest_entropy
from crosstally.errors import QueryError
from crosstally.inference import estimate
from crosstally.kernels.entropy import GREATEST_ENTROPY
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells, Contrast
from reference_entropy import basis, covered_cells, nearest_of_most_entropy, random_table

KINDS = ("inside", "zeros", "one-sided", "noisy", "wild")


def measured(names: str, values: object) -> Measurement:
    return Measurement(Cells(tuple(names)), np.asarray(values), variance=2.0, noise=None, origin="test")


def ask(
    sizes: tuple[int, ...],
    views: dict[str, object],
    names: str,
    *,
    method: str | None = None,
    nonnegative: str = "joint",
) -> Marginal:
    schema = schema_of(*sizes, names="abcdefgh")
    measurements = [measured(view, values) for view, values in views.items()]
    combined = estimate(schema, measurements, nonnegative=nonnegative)
    return answer(combined, ErrorBars(schema, measurements), tuple(names), method=method)


def known_of(table: np.ndarray, views: list[tuple[int, ...]]) -> Known:
    covered = covered_cells(table.shape, views)
    return Known(table.shape, covered, np.where(covered, basis(table.shape) @ table.ravel(), 0.0)[None])


# By hand


def test_two_margins_give_their_product() -> None:
    got = ask((2, 3), {"a": [30, 70], "b": [50, 30, 20]}, "ab")
    assert np.allclose(got.values, [[15, 9, 6], [35, 21, 14]], atol=1e-9)
    assert got.method == "maximum-entropy"
    assert got.error_kind is ErrorKind.NONE
    assert got.relaxed < 1e-9


def test_a_chain_gives_conditional_independence() -> None:
    """p(a, b, c) = p(a, b) p(b, c) / p(b)."""
    got = ask((2, 2, 2), {"ab": [[10, 20], [30, 40]], "bc": [[16, 24], [15, 45]]}, "abc").values
    expected = [[[4, 6], [5, 15]], [[12, 18], [10, 30]]]
    assert np.allclose(got, expected, atol=1e-6)


def test_an_attribute_never_measured_is_uniform() -> None:
    assert np.allclose(ask((2, 4), {"a": [10, 30]}, "ab").values, [[2.5] * 4, [7.5] * 4])


def test_three_pairs_agree_with_iterative_fitting() -> None:
    """No closed form: the margins of a x b, b x c, a x c are fitted in turn until they stay."""
    truth = np.array([[[5, 3], [2, 9], [4, 4]], [[1, 6], [7, 2], [3, 8]]], float)
    views = {"ab": truth.sum(2), "bc": truth.sum(0), "ac": truth.sum(1)}
    fitted = np.ones(truth.shape)
    for _ in range(500):
        for axis, view in ((2, "ab"), (0, "bc"), (1, "ac")):
            fitted *= np.expand_dims(views[view] / fitted.sum(axis), axis)
    got = ask((2, 3, 2), {view: values.astype(int) for view, values in views.items()}, "abc")
    assert np.allclose(got.values, fitted, atol=1e-6)
    assert got.relaxed < 1e-6


def test_a_part_that_is_covered_is_answered_as_if_asked_alone() -> None:
    views = {"ab": [[-5, 40], [30, 35]], "c": [25, 75]}
    alone = ask((2, 2, 2), views, "ab").values
    assert np.allclose(ask((2, 2, 2), views, "abc").values, np.multiply.outer(alone, [0.25, 0.75]), atol=1e-9)


def test_a_total_that_is_not_positive_gives_zeros() -> None:
    views = {"a": [-3, 1], "b": [-1, -1]}
    got = ask((2, 2), views, "ab")
    assert got.values.tolist() == [[0, 0], [0, 0]]
    assert got.relaxed == 0, "the correction has set all cells to zero before"
    as_measured = ask((2, 2), views, "ab", nonnegative="none")
    assert as_measured.values.tolist() == [[0, 0], [0, 0]]
    assert as_measured.relaxed == pytest.approx(3), "the first value of a is -3"


def test_relaxed_is_the_largest_difference_of_a_covered_cell() -> None:
    """a = b, b = c and a = 1 - c cannot all hold. In six of the eight cells two of the three do, in the other two none.

    By symmetry the nearest table holds 8/6 people in each of the six, so each pair has 8/3 where it should have 4.
    """
    same, other = [[4, 0], [0, 4]], [[0, 4], [4, 0]]
    got = ask((2, 2, 2), {"ab": same, "bc": same, "ac": other}, "abc")
    assert np.allclose(got.values.sum(2), [[8 / 3, 4 / 3], [4 / 3, 8 / 3]], atol=1e-6)
    assert got.relaxed == pytest.approx(4 / 3, abs=1e-6)
    assert got.values.sum() == pytest.approx(8)
    assert (got.values >= 0).all()


def test_without_a_total_there_is_nothing_to_spread() -> None:
    schema = schema_of(2, 2, names="abcdefgh")
    contrasts = [Measurement(Contrast(("a",)), np.array([4]), variance=2.0, noise=None, origin="test")]
    with pytest.raises(QueryError, match="maximum entropy needs the number of rows"):
        answer(estimate(schema, contrasts), ErrorBars(schema, contrasts), ("a", "b"))


# Against clarabel


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [6, pytest.param(200, marks=pytest.mark.verify)])
def test_agrees_with_an_independent_solver(kind: str, number: int) -> None:
    random = np.random.default_rng([71, KINDS.index(kind)])
    for _ in range(number):
        table, views = random_table(random, kind, most_cells=64)
        solved = greatest_entropy(known_of(table, views))[0]
        assert np.abs(solved.values - nearest_of_most_entropy(table.shape, views, table)).max() < 1e-6


# What must hold on every input


@pytest.mark.parametrize("number", [300, pytest.param(10_000, marks=pytest.mark.verify)])
def test_never_ends_unconverged(number: int) -> None:
    """Noise up to a million times the total: a table of that total, as near as any to what is known, says how near.

    To rounding with a matrix, which tables of up to 150 known coefficients have, and to 1% of the distance without.
    """
    random = np.random.default_rng(72)
    for _ in range(number):
        table, views = random_table(random, "zeros", most_cells=200)
        table += random.laplace(0, random.choice([1e-8, 1e-5, 1e-3, 0.1, 1, 1e3, 1e6]), table.shape)
        table += (1 - table.sum()) / table.size
        known = known_of(table, views)
        if len(known.components) > 1 or known.covered.all():
            continue
        solved = greatest_entropy(known)[0]
        matrix = basis(table.shape)[known.covered]
        wanted, got = matrix @ table.ravel(), matrix @ solved.values.ravel()
        best, _ = nnls(np.vstack([matrix, np.full(table.size, 1e6)]), np.append(wanted, 1e6), maxiter=100 * table.size)
        least, unit = np.linalg.norm(matrix @ best - wanted), max(1.0, np.abs(wanted).max())
        assert np.linalg.norm(got - wanted) <= (1.0 if len(matrix) <= 151 else 1.01) * least + 1e-6 * unit
        assert solved.values.min() >= 0
        assert solved.values.sum() == pytest.approx(known.coefficients[0, 0], abs=1e-12)
        assert solved.relaxed == pytest.approx(largest_difference(solved.values - table, views), abs=1e-9 * unit)


def largest_difference(difference: np.ndarray, views: list[tuple[int, ...]]) -> float:
    """The largest cell of the marginals over the views that lie in no other view."""
    return max(
        np.abs(difference.sum(axis=tuple(axis for axis in range(difference.ndim) if axis not in view))).max()
        for view in views
        if not any(set(view) < set(other) for other in views)
    )


def test_the_order_of_attributes_only_permutes_axes() -> None:
    random = np.random.default_rng(73)
    views = {"abc": random.integers(0, 50, (2, 3, 2)), "bd": random.integers(0, 50, (3, 4)), "ad": [[9] * 4, [30] * 4]}
    first = ask((2, 3, 2, 4), views, "abcd")
    for order in permutations(range(4)):
        other = ask((2, 3, 2, 4), views, "".join("abcd"[i] for i in order))
        assert np.allclose(other.values, first.values.transpose(order), atol=1e-7 * first.values.sum())
        assert other.relaxed == pytest.approx(first.relaxed, abs=1e-6)


def test_a_batch_equals_the_loop() -> None:
    random = np.random.default_rng(74)
    schema = schema_of(2, 3, 2, 2, 3, names="abcdefgh")
    names = ["abc", "cde", "ae", "bd"]
    measurements = [measured(view, random.integers(-20, 90, schema.sizes(tuple(view)))) for view in names]
    combined, bars = estimate(schema, measurements, nonnegative="joint"), ErrorBars(schema, measurements)
    wanted = [tuple(table) for table in ("abcd", "ab", "bcde", "dcba", "abcde", "ad", "edcba", "aceb", "abcd")]
    for together, names_of in zip(answer_all(combined, bars, wanted), wanted, strict=True):
        alone = answer(combined, bars, names_of)
        assert np.abs(together.values - alone.values).max() <= 1e-9 * alone.values.sum()
        assert together.relaxed == pytest.approx(alone.relaxed, abs=1e-9)
        assert together.method == alone.method


def test_a_covered_table_is_the_estimate_with_each_method() -> None:
    views = {"ab": [[10, 20], [30, 40]], "c": [25, 75]}
    for method in ("maximum-entropy", "least-squares", "linear-program"):
        got = ask((2, 2, 2), views, "ab", method=method)
        assert np.allclose(got.values, [[10, 20], [30, 40]])
        assert got.error_kind is ErrorKind.ESTIMATED
        assert got.relaxed == 0


@pytest.mark.parametrize("seed", range(3))
def test_many_constraints_are_solved_without_a_matrix(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    random = np.random.default_rng(seed)
    table = random.dirichlet(np.ones(72)).reshape(2, 3, 3, 4)
    known = known_of(table, [(0, 1), (1, 2), (2, 3), (0, 3)])
    direct = greatest_entropy(known)[0]
    monkeypatch.setattr("crosstally.answers.unmeasured.known._DIRECT_CONSTRAINTS", 0)
    searched = greatest_entropy(known)[0]
    assert np.abs(direct.values - searched.values).max() < 1e-8


# From margins, without a matrix


def joint_of_margins(table: np.ndarray, views: list[tuple[int, ...]]) -> Known | None:
    """What the views know, where that takes a solver."""
    known = known_of(table, views)
    return None if len(known.components) > 1 or known.covered.all() else known


@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize("number", [8, pytest.param(200, marks=pytest.mark.verify)])
def test_margins_that_fit_agree_with_an_independent_solver(kind: str, number: int) -> None:
    random = np.random.default_rng([75, KINDS.index(kind)])
    for _ in range(number):
        table, views = random_table(random, kind, most_cells=64)
        known = joint_of_margins(table, views)
        if known is not None:
            expected = nearest_of_most_entropy(table.shape, views, table)
            # the solver stops at 1e-10 in its own measure: where entropy is flat its cells are off by up to 5e-6
            assert np.abs(fitted(known)[0] - expected.ravel()).max() < 1e-5


@pytest.mark.parametrize("number", [60, pytest.param(3_000, marks=pytest.mark.verify)])
def test_margins_that_no_table_has_are_met_as_nearly_as_any_table_meets_them(number: int) -> None:
    random = np.random.default_rng(76)
    for _ in range(number):
        table, views = random_table(random, "zeros", most_cells=200)
        table += random.laplace(0, random.choice([1e-8, 1e-5, 1e-3, 0.1, 1, 1e3, 1e6]), table.shape)
        table += (1 - table.sum()) / table.size
        known = joint_of_margins(table, views)
        if known is None:
            continue
        matrix, solved = basis(table.shape)[known.covered], fitted(known)[0]
        wanted = matrix @ table.ravel()
        best, _ = nnls(np.vstack([matrix, np.full(table.size, 1e6)]), np.append(wanted, 1e6), maxiter=100 * table.size)
        least, unit = np.linalg.norm(matrix @ best - wanted), max(1.0, np.abs(wanted).max())
        assert np.linalg.norm(matrix @ solved - wanted) <= 1.01 * least + 1e-6 * unit
        assert solved.min() >= 0
        assert solved.sum() == pytest.approx(1, abs=1e-12)


def test_the_last_ridge_does_not_show_where_nothing_fits() -> None:
    """With a matrix the optimum is exact; without one the table is within 2% of it and as near to what is known."""
    random = np.random.default_rng(77)
    table = random.dirichlet(np.full(600, 0.1)).reshape(4, 5, 5, 6)
    table += random.laplace(0, 2e-3, table.shape)
    known = known_of(table / table.sum(), [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
    places = np.flatnonzero(known.covered)[1:]
    exact, solved = solve(known, GREATEST_ENTROPY, places, known.weights[places])[0], fitted(known)[0]
    assert np.abs(exact - solved).sum() < 0.02
    assert known.differences(exact[None])[0] > 1e-4  # nothing fits
    assert known.differences(solved[None])[0] == pytest.approx(known.differences(exact[None])[0], rel=0.05)


@pytest.mark.parametrize("first", range(5))
def test_margins_do_not_depend_on_the_rows_of_the_table(monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    random = np.random.default_rng(78)
    table = random.dirichlet(np.ones(144)).reshape(3, 2, 2, 4, 3)
    known = known_of(table, [(0, 1, 2), (0, 3), (1, 3), (2, 4), (3, 4)])
    expected = fitted(known)[0]
    monkeypatch.setattr(margins, "_cost", lambda shape, sets, chosen: abs(chosen - first))
    margins._layout.cache_clear()
    got = fitted(known)[0]
    margins._layout.cache_clear()
    assert np.abs(got - expected).max() < 1e-9


def test_a_margin_of_zero_stays_zero() -> None:
    """Two values of a never meet the last of b: these cells are empty, and the others have their margins."""
    table = np.random.default_rng(79).dirichlet(np.ones(96)).reshape(4, 6, 4)
    table[:2, 5] = 0.0
    table /= table.sum()
    got = fitted(known_of(table, [(0, 1), (1, 2), (0, 2)]))[0].reshape(table.shape)
    assert got[:2, 5].sum() < 1e-8
    for axis in range(3):
        assert np.abs(got.sum(axis) - table.sum(axis)).max() < 1e-8


def test_what_is_not_finite_is_refused_without_a_matrix() -> None:
    known = known_of(np.full((2, 3, 4), 1 / 24), [(0, 1), (1, 2)])
    known.coefficients[0, 1] = np.nan
    with pytest.raises(QueryError, match="not made of finite numbers"):
        fitted(known)
