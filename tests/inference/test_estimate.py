"""From measurements to an estimate: what is corrected, what stays."""

from __future__ import annotations

import numpy as np
import pytest

from crosstally.budget import Noise, NoiseKind
from crosstally.errors import QueryError
from crosstally.inference import estimate
from crosstally.inference.estimates import maximal_views
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells, Contrast, Query
from crosstally.residuals import combine
from crosstally.schema import Attribute, Schema

SCHEMA = Schema([Attribute(name, [str(v) for v in range(n)]) for name, n in zip("abcd", (2, 3, 2, 4), strict=True)])


def measured(query: Query, values: object, scale: float = 2.0) -> Measurement:
    noise = Noise(NoiseKind.LAPLACE, scale)
    return Measurement(query, np.array(values), variance=noise.variance, noise=noise, origin="test")


def random_views(*tables: str, mean: float = 6.0) -> list[Measurement]:
    rng = np.random.default_rng(11)
    queries = [Cells(tuple(table)) for table in tables]
    return [measured(q, np.round(rng.normal(mean, 9, q.shape(SCHEMA))).astype(np.int64)) for q in queries]


def test_without_correction_it_is_what_was_combined() -> None:
    views = random_views("ab", "bc", "cd")
    plain, combined = estimate(SCHEMA, views, nonnegative="none"), combine(SCHEMA, views)
    assert np.array_equal(plain.coefficients, combined.coefficients)
    assert plain.corrected == "none"


def test_without_correction_a_negative_total_stays() -> None:
    assert estimate(SCHEMA, [measured(Cells(()), -3)], nonnegative="none").table(()) == -3.0


@pytest.mark.parametrize("name", ["simple", "global", "ripple"])
def test_variances_and_total_stay_and_the_correction_is_named(name: str) -> None:
    views = random_views("abc", "bd", "cd")
    before, after = combine(SCHEMA, views), estimate(SCHEMA, views, nonnegative=name)
    assert after.corrected == name
    assert np.array_equal(after.variances, before.variances)
    assert after.table(()) == before.table(())
    assert not np.allclose(after.coefficients, before.coefficients)


@pytest.mark.parametrize("name", ["none", "simple", "global", "ripple"])
def test_a_public_total_stays(name: str) -> None:
    after = estimate(SCHEMA, random_views("abc", "bd"), rows=70, nonnegative=name)
    assert after.table(()) == 70.0
    assert after.table(tuple("abc")).sum() == pytest.approx(70, rel=1e-12)
    assert after.variance(()) == 0.0


def test_one_view_is_corrected_by_hand() -> None:
    view = measured(Cells(("a", "c")), [[-4, 5], [3, 9]])
    table = ("a", "c")
    assert np.allclose(estimate(SCHEMA, [view], nonnegative="ripple").table(table), [[0, 3], [1, 9]], atol=1e-12)
    assert np.allclose(estimate(SCHEMA, [view], nonnegative="global").table(table), [[0, 11 / 3], [5 / 3, 23 / 3]])
    assert np.allclose(estimate(SCHEMA, [view], nonnegative="simple", rounds=1).table(table), [[-1, 4], [2, 8]])


def test_corrected_views_are_averaged_by_their_precision() -> None:
    """By hand. a x c is (-4, 5 / 3, 9), a is (1, 12) as well, so nothing changes when they are combined first.

    Ripple makes a x c (0, 3 / 1, 9) with the marginal (3, 10) over a. b x a has no negative cell and keeps (1, 12). The
    precisions are 1 / (4 x 8) and 1 / (6 x 2): cells times the variance, Gaussian noise of scales sqrt(8) and sqrt(2).
    """
    views = [
        Measurement(Cells(tuple(names)), np.array(values), variance=v, noise=None, origin="test")
        for names, values, v in [("ac", [[-4, 5], [3, 9]], 8.0), ("ba", [[0, 4], [1, 4], [0, 4]], 2.0)]
    ]
    after = estimate(SCHEMA, views, nonnegative="ripple", rounds=1)
    share = (1 / 32) / (1 / 32 + 1 / 12)
    assert np.allclose(after.table(("a",)), [1 + 2 * share, 12 - 2 * share], rtol=0, atol=1e-12)
    assert np.allclose(after.table(("c",)), [1, 12], rtol=0, atol=1e-12)


def test_more_rounds_leave_less_below_zero() -> None:
    views = random_views("abc", "bcd", "acd", "abd", mean=2.0)
    least = []
    for rounds in (1, 2, 8):
        after = estimate(SCHEMA, views, nonnegative="ripple", rounds=rounds)
        least.append(min(after.table(view.query.attributes).min() for view in views))
    assert combine(SCHEMA, views).table(tuple("abc")).min() < least[0] < least[1] < least[2]


def test_a_negative_total_becomes_zero() -> None:
    after = estimate(SCHEMA, [measured(Cells(("a",)), [-9, 4])])
    assert after.table(()) == 0.0
    assert after.table(("a",)).tolist() == [0, 0]


def test_maximal_views_are_covered_and_lie_in_no_other() -> None:
    views = random_views("ab", "ba", "a", "bcd", "cd")
    contrasts = [measured(Contrast(("a", "d")), np.zeros((1, 4))), measured(Contrast(("a", "c")), [[2]])]
    tables = [m.query.attributes for m in [*views, *contrasts, measured(Cells(()), 5)]]
    combined = combine(SCHEMA, [*views, *contrasts])
    assert maximal_views(combined, tables) == [("a", "b"), ("b", "c", "d"), ("a", "d"), ("a", "c")]
    assert maximal_views(combine(SCHEMA, contrasts), tables) == []


def test_contrasts_are_corrected_where_they_cover_a_table() -> None:
    """The total 10 and the differences 14 and -2 say: a = (12, -2), c = (4, 6)."""
    views = [measured(Cells(()), 10), measured(Contrast(("a",)), [14]), measured(Contrast(("c",)), [-2])]
    after = estimate(SCHEMA, views, nonnegative="ripple")
    assert np.allclose(after.table(("a",)), [10, 0], atol=1e-12)
    assert np.allclose(after.table(("c",)), [4, 6], atol=1e-12)


def test_contrasts_without_a_total_are_left_alone() -> None:
    after = estimate(SCHEMA, [measured(Contrast(("a",)), [14])])
    assert after.corrected == "none"
    assert np.allclose(after.table(("a",)), [7, -7])
    known = estimate(SCHEMA, [measured(Contrast(("a",)), [14])], rows=10, nonnegative="ripple")
    assert known.corrected == "ripple"
    assert np.allclose(known.table(("a",)), [10, 0], atol=1e-12)


def test_what_no_view_holds_stays() -> None:
    contrast = measured(Contrast(("a", "d")), np.arange(4).reshape(1, 4))
    views = [measured(Cells(("a", "c")), [[-4, 5], [3, 9]]), contrast]
    after, before = estimate(SCHEMA, views), combine(SCHEMA, views)
    kept = [after.table(("a", "d")) - after.table(("a",))[:, None] / 4, before.table(("a", "d"))]
    assert np.allclose(kept[0], kept[1] - before.table(("a",))[:, None] / 4, atol=1e-12)


def test_the_number_of_rows_alone_is_an_estimate() -> None:
    alone = estimate(SCHEMA, [], rows=24)
    assert alone.table(("a", "b")).tolist() == [[4, 4, 4], [4, 4, 4]]
    assert alone.covers(())
    assert not alone.covers(("a",))
    assert estimate(SCHEMA, [], rows=0).table(()) == 0.0


def test_nothing_at_all_is_refused() -> None:
    with pytest.raises(QueryError, match="nothing to estimate from: measure something, or give the public number of"):
        estimate(SCHEMA, [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nonnegative": "glbal"}, "unknown correction of negative cells 'glbal'; did you mean 'global'"),
        ({"rounds": 0}, "rounds must be a whole number of at least 1, got 0"),
        ({"rounds": True}, "rounds must be a whole number of at least 1, got True"),
        ({"rows": -1}, "rows must be a whole number of at least 0, got -1"),
        ({"rows": 2.5}, "rows must be a whole number of at least 0, got 2.5"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        estimate(SCHEMA, random_views("ab"), **options)
