"""Answers: the table asked for, never negative where the estimate was corrected, with its error where that is known."""

from __future__ import annotations

import math
import time
from itertools import combinations, permutations

import numpy as np
import pytest

from crosstally.answers.answer import answer, answer_all
from crosstally.answers.error_bars import ErrorBars
from crosstally.answers.marginal import ErrorKind, Marginal
from crosstally.budget import Noise, NoiseKind
from crosstally.errors import QueryError, TooManyCellsError
from crosstally.inference import estimate
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells, Contrast, Query
from crosstally.schema import Attribute, Schema

SCHEMA = Schema([Attribute(name, [str(v) for v in range(n)]) for name, n in zip("abcd", (2, 3, 2, 4), strict=True)])
LAPLACE = Noise(NoiseKind.LAPLACE, 2.0)


def measured(query: Query, values: object, noise: Noise | None = LAPLACE) -> Measurement:
    variance = 4.0 if noise is None else noise.variance
    return Measurement(query, np.array(values), variance=variance, noise=noise, origin="test")


def ask(measurements: list[Measurement], *names: str, rows: int | None = None, **options: object) -> Marginal:
    nonnegative = str(options.pop("nonnegative", "ripple"))
    combined = estimate(SCHEMA, measurements, rows=rows, nonnegative=nonnegative)
    return answer(combined, ErrorBars(SCHEMA, measurements, rows), names, **options)


VIEW = measured(Cells(("a", "c")), [[-4, 5], [3, 9]])


def test_a_corrected_answer_by_hand() -> None:
    got = ask([VIEW], "a", "c")
    assert np.allclose(got.values, [[0, 3], [1, 9]], atol=1e-12)
    assert got.attributes == ("a", "c")
    assert got.method == "least-squares"
    assert got.error_kind is ErrorKind.EXACT
    assert got.corrected
    assert np.allclose(got.std_error, math.sqrt(LAPLACE.variance))


def test_an_uncorrected_answer_is_the_linear_estimate() -> None:
    got = ask([VIEW], "a", "c", nonnegative="none")
    assert np.allclose(got.values, [[-4, 5], [3, 9]], atol=1e-12)
    assert not got.corrected
    low, high = got.interval(0.95)
    assert np.allclose(high - got.values, 6.0)  # P(|X| <= 5) = 0.939, P(|X| <= 6) = 0.963 at scale 2
    assert np.allclose(got.values - low, 6.0)


def test_small_negative_cells_are_removed_and_the_total_kept() -> None:
    """Ripple leaves cells down to minus one; the answer does not: a half is taken from both others."""
    got = ask([measured(Cells(("b",)), [-1, 3, 6])], "b")
    assert np.allclose(got.values, [0, 2.5, 5.5], rtol=0, atol=1e-12)
    assert got.values[0] == 0


def test_no_corrected_answer_is_negative() -> None:
    rng = np.random.default_rng(3)
    views = [measured(Cells(names), rng.integers(-9, 12, SCHEMA.sizes(names))) for names in combinations("abcd", 2)]
    combined, bars = estimate(SCHEMA, views, nonnegative="ripple"), ErrorBars(SCHEMA, views)
    tables = [names for k in range(5) for names in combinations("abcd", k)]
    assert min(combined.table(names).min() for names in tables) < -0.5
    for got in answer_all(combined, bars, tables):
        assert got.values.min() >= 0
        assert got.values.sum() == pytest.approx(combined.table(()), rel=1e-9)


def test_a_table_never_measured_has_no_error_bar() -> None:
    """b is known, a is not: the flattest table spreads each cell of b evenly."""
    got = ask([measured(Cells(("b",)), [2, 4, 8])], "a", "b")
    assert np.allclose(got.values, [[1, 2, 4], [1, 2, 4]])
    assert got.error_kind is ErrorKind.NONE
    assert got.uncertainty is None
    assert np.isnan(got.std_error).all()
    assert np.isnan(got.interval()[0]).all()


def test_what_is_not_covered_has_the_least_sum_of_squares() -> None:
    """Two one-way tables over six people: e_ij = a_i / 3 + b_j / 2 - 6 / 6."""
    views = [measured(Cells(("a",)), [2, 4]), measured(Cells(("b",)), [1, 2, 3])]
    got = ask(views, "a", "b", nonnegative="none", method="least-squares")
    assert np.allclose(got.values, [[1 / 6, 2 / 3, 7 / 6], [5 / 6, 4 / 3, 11 / 6]])


def test_the_total() -> None:
    got = ask([VIEW])
    assert got.values.shape == ()
    assert float(got.values) == pytest.approx(13.0)
    assert float(got.std_error) == pytest.approx(2 * math.sqrt(LAPLACE.variance))
    known = ask([VIEW], rows=20)
    assert float(known.values) == 20.0
    assert float(known.std_error) == 0.0
    assert [float(end) for end in known.interval()] == [20.0, 20.0]


def test_the_number_of_rows_alone_answers_uniformly() -> None:
    got = ask([], "a", "b", rows=12)
    assert got.values.tolist() == [[2, 2, 2], [2, 2, 2]]
    assert got.error_kind is ErrorKind.NONE


def test_axes_are_in_the_order_asked() -> None:
    values = np.arange(24).reshape(2, 3, 4)
    views = [measured(Cells(("a", "b", "d")), values)]
    for order in permutations(range(3)):
        names = ["abd"[i] for i in order]
        assert np.allclose(ask(views, *names).values, values.transpose(order), atol=1e-11)


def test_noise_that_is_not_known_exactly_gives_an_estimated_error() -> None:
    assert ask([measured(Cells(("a",)), [3, 4], None)], "a").error_kind is ErrorKind.ESTIMATED


def test_contrasts_answer_too() -> None:
    """The total 10 and the difference 4: 7 and 3, each with half of both errors."""
    views = [measured(Cells(()), 10), measured(Contrast(("a",)), [4])]
    got = ask(views, "a")
    assert np.allclose(got.values, [7, 3])
    assert np.allclose(got.std_error, math.sqrt(LAPLACE.variance / 2))


def test_a_batch_is_the_same_as_one_by_one() -> None:
    rng = np.random.default_rng(5)
    views = [measured(Cells(names), rng.integers(-3, 20, SCHEMA.sizes(names))) for names in combinations("abcd", 2)]
    combined, bars = estimate(SCHEMA, views), ErrorBars(SCHEMA, views)
    tables = [("a",), ("d", "b"), (), ("b", "d"), ("a", "b", "c"), ("a",)]
    for names, got in zip(tables, answer_all(combined, bars, tables), strict=True):
        single = answer(combined, bars, names)
        assert got.attributes == names
        assert np.array_equal(got.values, single.values)
        assert np.array_equal(got.std_error, single.std_error, equal_nan=True)
        assert got.error_kind is single.error_kind
    assert answer_all(combined, bars, []) == []


@pytest.mark.parametrize(
    ("names", "message"),
    [(("a", "e"), "unknown attribute 'e'"), (("a", "a"), "attribute 'a' is named twice")],
)
def test_attributes_that_are_not_there(names: tuple[str, ...], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        ask([VIEW], *names)


def test_an_unknown_method_names_the_known_ones() -> None:
    with pytest.raises(QueryError, match="unknown method 'least squares'; did you mean 'least-squares'"):
        ask([VIEW], "a", method="least squares")
    with pytest.raises(QueryError, match="unknown method 'x'; there are maximum-entropy, bounds, least-squares"):
        ask([VIEW], "a", method="x")


def test_too_many_cells_are_refused_at_once() -> None:
    wide = Schema([Attribute(f"a{i}", [str(v) for v in range(10)]) for i in range(100)])
    combined, bars = estimate(wide, [], rows=5), ErrorBars(wide, [], 5)
    start = time.process_time()
    with pytest.raises(TooManyCellsError, match="would have 10,000,000 cells, .* fit: ask for fewer attributes"):
        answer(combined, bars, wide.names[:7])
    with pytest.raises(TooManyCellsError, match="and 26 more would have 1,000,000,000,000,"):
        answer(combined, bars, wide.names[:30])
    with pytest.raises(TooManyCellsError, match="together must have at most 5,000,000 cells, got 6,000,000; ask in"):
        answer_all(combined, bars, [wide.names[i : i + 6] for i in range(6)])
    assert time.process_time() - start < 0.5
