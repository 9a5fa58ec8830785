"""Releases are made of measurements alone; statements say in words what was promised."""

from __future__ import annotations

import math

import numpy as np
import pytest

from crosstally.answers.marginal import ErrorKind
from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.errors import CrosstallyError, QueryError, ReleaseError
from crosstally.measurements import Measurement
from crosstally.query.linear import Linear, Term
from crosstally.query.queries import Cells, Contrast, Query
from crosstally.releases import Release, Statement, publish
from crosstally.releases.publication import rows_in_doubt
from crosstally.releases.statement import installed_versions
from crosstally.releases.unit_counts import noisy_total
from crosstally.schema import Attribute, Schema, Unit

SCHEMA = Schema([Attribute("sex", ["Female", "Male"])])
LAPLACE = Noise(NoiseKind.LAPLACE, 10.0)


def people() -> Schema:
    return Schema([Attribute("sex", ["Female", "Male"]), Attribute("age", edges=[0, 18, 65, 120])])


def measured(query: Query, values: object, noise: Noise | None = LAPLACE) -> Measurement:
    variance = 4.0 if noise is None else noise.variance
    return Measurement(query, np.array(values), variance=variance, noise=noise, origin="test")


def statement(**fields: object) -> Statement:
    given = {"strategy": "test", "budget": Budget(epsilon=1), "neighbours": Neighbours.ADD_REMOVE, **fields}
    return Statement(**given)


def small_release(**fields: object) -> Release:
    table = measured(Cells(("sex", "age")), [[10, 20, 30], [40, 50, 60]])
    return publish(people(), [table], statement(**fields), nonnegative="joint")  # nothing is negative: nothing moves


def test_an_asserted_number_of_rows_is_compared_with_the_noisy_total_alone() -> None:
    # Six cells that sum to 210, each of variance 199.833...: five standard errors of the sum are 173.13.
    assert rows_in_doubt(small_release()) is None
    assert [rows_in_doubt(small_release(rows=rows)) is None for rows in (36, 37, 383, 384)] == [
        False,
        True,
        True,
        False,
    ]
    assert str(rows_in_doubt(small_release(rows=1_000))).startswith(
        "the release's own noisy total is 210 (standard error 35), far from the 1,000 rows you asserted as public: "
    )
    # A second total of 300 with a sixth of the variance: (210 / 6 + 300) / (7 / 6), and 199.833... / (7 / 6)
    both = [measured(Cells(("sex", "age")), [[10, 20, 30], [40, 50, 60]]), measured(Cells(()), 300)]
    total, error = noisy_total(publish(people(), both, statement(rows=210)).measurements)
    assert (total, error) == (pytest.approx(287.142857), pytest.approx(math.sqrt(171.2857857)))
    # What has no noise of its own, and what has no total, says nothing about it
    silent = [measured(Cells(("sex",)), [10, 20], noise=None), measured(Contrast(("age",)), [1, 2, -3])]
    assert noisy_total(publish(people(), silent, statement(rows=30)).measurements) is None


# The release


def test_a_measured_table_comes_back_in_the_order_asked() -> None:
    answer = small_release().marginal("age", "sex")
    assert answer.attributes == ("age", "sex")
    np.testing.assert_allclose(answer.values, [[10, 40], [20, 50], [30, 60]], atol=1e-9)
    assert answer.error_kind is ErrorKind.CORRECTED
    # the variance of discrete Laplace noise of scale 10, 2 a / (1 - a)^2 with a = e^(-1/10), is 199.8334...
    np.testing.assert_allclose(answer.noise_std_error, math.sqrt(199.83341664682), rtol=1e-10)
    assert answer.caption == "ε = 1, add-remove, test"


def test_a_part_of_a_measured_table_is_its_sum() -> None:
    answer = small_release().marginal("sex")
    np.testing.assert_allclose(answer.values, [60, 150], atol=1e-9)
    np.testing.assert_allclose(answer.noise_std_error, math.sqrt(3 * 199.83341664682), rtol=1e-10)


def test_the_number_of_rows_is_estimated_or_public() -> None:
    assert small_release().rows == pytest.approx(210)
    known = small_release(rows=300)
    assert known.rows == 300
    assert known.marginal("sex").values.sum() == pytest.approx(300)
    contrast = publish(people(), [measured(Contrast(("sex",)), [5])], statement(), nonnegative="none")
    assert math.isnan(contrast.rows)


def test_a_batch_gives_what_a_loop_gives() -> None:
    release = small_release()
    tables = [("sex",), (), ("age", "sex"), ["age"]]
    for names, answer in zip(tables, release.marginals(tables), strict=True):
        alone = release.marginal(*names)
        assert answer.attributes == alone.attributes
        np.testing.assert_allclose(answer.values, alone.values, atol=1e-9)
        np.testing.assert_array_equal(answer.std_error, alone.std_error)
        assert answer.caption == alone.caption == str(release.statement)
    assert release.marginals([("age",)], where={"sex": "Female"})[0].caption == str(release.statement)


def test_a_refit_uses_the_same_measurements() -> None:
    table = measured(Cells(("sex", "age")), [[-9, 20, 30], [40, 50, 60]])
    release = publish(people(), [table], statement())
    assert release.marginal("sex", "age").values.min() >= 0
    assert release.marginal("sex", "age").corrected
    again = release.refit(nonnegative="none")
    assert again.measurements == release.measurements
    assert (again.nonnegative, again.rounds) == ("none", 3)
    np.testing.assert_allclose(again.marginal("sex", "age").values, table.values, atol=1e-9)
    assert not again.marginal("sex", "age").corrected
    assert release.refit(rounds=2).rounds == 2


def test_a_release_prints_short_and_without_its_numbers() -> None:
    assert repr(small_release()) == "Release(2 attributes, 6 numbers measured; ε = 1, add-remove, test)"


def test_unknown_attributes_methods_and_corrections_are_named() -> None:
    release = small_release()
    with pytest.raises(QueryError, match="unknown attribute 'sx'; did you mean 'sex'"):
        release.marginal("sx")
    with pytest.raises(QueryError, match="unknown method 'magic'"):
        release.marginal("sex", method="magic")
    with pytest.raises(QueryError, match="'ripples'; did you mean 'ripple'"):
        release.refit(nonnegative="ripples")


def test_local_measurements_make_the_same_release() -> None:
    table = measured(Cells(("sex",)), [10.5, 20.25], noise=None)
    release = publish(people(), [table], statement(model="local"))
    np.testing.assert_allclose(release.marginal("sex").values, [10.5, 20.25])
    assert release.marginal("sex").error_kind is ErrorKind.ESTIMATED
    np.testing.assert_allclose(release.marginal("sex").std_error, 2.0)


@pytest.mark.parametrize(
    ("measurement", "message"),
    [
        (measured(Cells(("sex",)), [1, 2, 3]), "measurement 0 must have values of shape"),
        (measured(Cells(("sx",)), [1, 2]), "measurement 0: unknown attribute 'sx'"),
        (
            measured(Linear((Term(1, ()),)), 3),
            "measurement 0: a release holds cells, contrasts and Kronecker queries, got Linear",
        ),
        (
            Measurement(Cells(("sex",)), np.array([1, 2]), variance=1.0, noise=LAPLACE, origin="test"),
            "measurement 0: the variance must be that of its noise",
        ),
    ],
)
def test_measurements_that_do_not_fit_are_refused(measurement: Measurement, message: str) -> None:
    with pytest.raises(ReleaseError, match=message):
        publish(people(), [measurement], statement())


def test_a_statement_about_another_unit_is_refused() -> None:
    with pytest.raises(ReleaseError, match="unit of the statement"):
        small_release(unit=Unit("person", 3))


def test_more_cells_than_the_limit_are_refused_before_memory_is_touched() -> None:
    wide = Schema([Attribute("a", ["0", "1", "2"]), *(Attribute(f"a{i}", ["0", "1"]) for i in range(21))])  # 6 million
    query = Contrast(wide.names)
    values = np.zeros((3, *(1,) * 21), np.int64)
    one = Measurement(query, values, variance=LAPLACE.variance, noise=LAPLACE, origin="test")
    with pytest.raises(ReleaseError, match="at most 5,000,000 cells"):
        publish(wide, [one], statement())


# The statement


def test_a_statement_survives_json() -> None:
    full = statement(model="local", unit=Unit("person", 3), rows=7, versions={"crosstally": "1"}, entry="abc")
    assert full.to_dict() == {
        "model": "local",
        "strategy": "test",
        "budget": {"epsilon": "1"},
        "neighbours": "add-remove",
        "unit": {"id": "person", "max_rows": 3},
        "rows": 7,
        "versions": {"crosstally": "1"},
        "entry": "abc",
        "rows_are_units": False,
        "plan": None,
        "joins": {},
    }
    assert Statement.from_dict(full.to_dict()) == full
    plain = statement()
    assert Statement.from_dict(plain.to_dict()) == plain
    assert set(installed_versions()) == {"crosstally", "numpy", "opendp"} == set(plain.versions or {})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "distributed"}, "statement: model must be central or local, got 'distributed'"),
        ({"neighbours": "both"}, "statement: neighbours must be add-remove or replace, got 'both'"),
        ({"strategy": 3}, "statement: strategy must be a text, got int"),
        ({"rows": -1}, "statement: rows must be a whole number of at least 0, got -1"),
        ({"rows": True}, "statement: rows must be a whole number"),
        ({"rows": 2.0}, "statement: rows must be a whole number"),
        ({"rows": 2**63}, "statement: rows must be below"),
        ({"entry": 5}, "statement: entry must be a text, got int"),
        ({"versions": {"numpy": 2}}, "statement: versions must be an object of texts"),
        ({"versions": []}, "statement: versions must be an object of texts"),
        ({"budget": {"epsilon": "-1"}}, "statement: epsilon must be positive"),
        ({"budget": {"epsilon": "1e999999999"}}, "statement: epsilon must be between 1e-300 and 1e300"),
        ({"unit": {"id": "person"}}, "statement: unit must be an object with id and max_rows"),
        ({"unit": {"id": "person", "max_rows": 0}}, "statement: unit: max_rows must be"),
        ({"budgets": {}}, "statement: unknown field 'budgets'; did you mean 'budget'"),
    ],
)
def test_a_statement_that_is_wrong_names_the_field(change: dict[str, object], message: str) -> None:
    with pytest.raises(ReleaseError, match=message):
        Statement.from_dict({**statement().to_dict(), **change})


@pytest.mark.parametrize("field", ["model", "strategy", "budget", "neighbours", "versions"])
def test_a_statement_without_a_field_names_it(field: str) -> None:
    given = statement().to_dict()
    del given[field]
    with pytest.raises(ReleaseError, match=f"statement: the field '{field}' is missing"):
        Statement.from_dict(given)
    with pytest.raises(ReleaseError, match="statement must be an object, got list"):
        Statement.from_dict([])


def test_wrong_types_given_in_code_are_refused_too() -> None:
    with pytest.raises(ReleaseError, match="budget must be a Budget, got float"):
        statement(budget=1.0)
    with pytest.raises(ReleaseError, match="unit must be a Unit, got str"):
        statement(unit="person")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "Adding or removing any one person's row changes the probability of any output by a factor of at most "),
        ({}, "by a factor of at most e^1 = 2.72."),
        ({"budget": Budget(epsilon="0.1")}, "by a factor of at most e^0.1 = 1.11."),
        ({"budget": Budget(epsilon=30)}, "by a factor of at most e^30."),
        ({"neighbours": Neighbours.REPLACE}, "Replacing any one person's row by any other changes"),
        ({"unit": Unit("person", 3)}, "Adding or removing all rows of any one person changes"),
        (
            {"unit": Unit("person", 3)},
            "one person, found by person. Counts are of rows, at most 3 of each person, not of all rows.",
        ),
        ({}, "someone with several rows is protected for each of them alone."),
        ({"budget": Budget(epsilon=1, delta="1e-6")}, "apart from an extra chance of at most 1e-06"),
        ({"rows": 48_842}, "The number of rows, 48,842, was declared public and is not protected."),
        ({}, "The number of rows is protected too"),
        ({"neighbours": Neighbours.REPLACE}, "Nothing is promised about the number of rows"),
        ({"model": "local"}, "Every person perturbed their own row before sending it; nobody ever held the rows."),
        ({}, "come from a public schema and are not protected."),
    ],
)
def test_a_statement_says_what_is_promised(fields: dict[str, object], sentence: str) -> None:
    sentences = statement(**fields).plain(Schema(SCHEMA.attributes, fields.get("unit")))
    assert any(sentence in each for each in sentences), sentences
    assert all(each.endswith(".") for each in sentences)


@pytest.mark.parametrize(
    ("rho", "factor"), [("0.5", "e^5.23 = 187"), ("3", "e^14.95 = 3,109,586"), ("1e5", "e^102345.34")]
)
def test_rho_is_told_as_a_factor_that_holds_but_for_one_in_a_million(rho: str, factor: str) -> None:
    """The epsilons 5.2215, 14.9479 and 102345.3384 of test_budget, rounded up to hundredths."""
    (promise, *_) = statement(budget=Budget(rho=rho)).plain(SCHEMA)
    assert f"zero-concentrated differential privacy with {Budget(rho=rho)}" in promise
    assert promise.endswith(f"at most {factor}, apart from an extra chance of at most one in a million.")


def test_a_release_of_nothing_needs_a_public_number_of_rows() -> None:
    with pytest.raises(CrosstallyError):
        publish(people(), [], statement())
    empty = publish(people(), [], statement(rows=60))
    np.testing.assert_allclose(empty.marginal("sex", "age").values, 10.0)
    assert empty.marginal("sex", "age").error_kind is ErrorKind.BOUNDS
