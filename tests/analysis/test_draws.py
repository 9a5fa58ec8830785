"""Rates by public numbers, draws of answers, and any function of tables."""

from __future__ import annotations

import io
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import crosstally as ct
from crosstally.answers.marginal import ErrorKind
from crosstally.budget import Noise, NoiseKind
from crosstally.errors import QueryError
from crosstally.releases import Release, Statement, publish
from simulated import measured, people, schema_of

SEX, HOME = ct.Attribute("sex", ["Female", "Male"]), ct.Attribute("home", ["Owner", "Tenant"])
STATEMENT = Statement(strategy="x", budget=ct.Budget(epsilon=1), neighbours=ct.Neighbours.ADD_REMOVE)


def table(*attributes: ct.Attribute, values: object) -> ct.Marginal:
    found = np.array(values, float)
    return ct.Marginal(ct.Schema(attributes), found, method="m", error_kind=ErrorKind.NONE, uncertainty=None)


def released(full: NDArray[np.int64], *, nonnegative: str, seed: int = 1) -> Release:
    noisy = measured(np.random.default_rng(seed), full, [(0, 1), (0, 2), (1, 2)], Noise(NoiseKind.LAPLACE, 5.0))
    return publish(schema_of(*full.shape), noisy, STATEMENT, nonnegative=nonnegative)


@cache
def population() -> NDArray[np.int64]:
    return people(np.random.default_rng(3), (2, 3, 2), 20_000, 0.5)


@pytest.fixture(scope="module")
def release() -> Release:
    return released(population(), nonnegative="shrunk")


# Rates


@pytest.mark.parametrize("nonnegative", ["shrunk", "none"])
def test_a_rate_is_as_sure_as_its_count(nonnegative: str) -> None:
    counts = released(population(), nonnegative=nonnegative).marginal("a0", "a1")
    rates = counts / pd.Series({"1": 4_000, "0": 1_000, "elsewhere": 5}, name="people").rename_axis("a0")
    people = np.array([[1_000.0], [4_000.0]])
    np.testing.assert_allclose(rates.values, counts.values / people)
    np.testing.assert_allclose(rates.std_error, counts.std_error / people)
    np.testing.assert_allclose(rates.half_width(), counts.half_width() / people)
    for own, count in zip(rates.interval(0.9), counts.interval(0.9), strict=True):
        np.testing.assert_allclose(own, count / people)
    assert rates.quantity == "rate"
    assert rates["1"]["2"].interval(0.9) == pytest.approx(tuple(each[1, 2] for each in rates.interval(0.9)))
    np.testing.assert_allclose((rates["0"] - rates["1"]).values, rates.values[0] - rates.values[1])
    assert np.isfinite((rates["0"] - rates["1"]).std_error).all()


def test_public_numbers_are_aligned_by_label() -> None:
    counts = table(SEX, HOME, values=[[6, 10], [20, 40]])
    assert (counts / {"Male": 2, "Female": 1}).values.tolist() == [[6, 10], [10, 20]]
    assert (counts / {"Tenant": 2, "Owner": 1}).values.tolist() == [[6, 5], [20, 20]]
    assert (counts / np.array([[1, 2], [4, 5]])).values.tolist() == [[6, 5], [5, 8]]
    index = pd.MultiIndex.from_tuples(
        [("Tenant", "Male"), ("Owner", "Male"), ("Tenant", "Female"), ("Owner", "Female")]
    )
    assert (counts / pd.Series([4, 2, 5, 1], index.set_names(["home", "sex"]))).values.tolist() == [[6, 2], [10, 10]]
    for wrong, words in (
        ({"Female": 1}, "no public number for sex = Male"),
        ({"Female": 0, "Male": 1}, "must be positive"),
        ({"Female": "many", "Male": 1}, "must be positive"),
        ({"a": 1}, "labelled as an attribute of the table: sex, home"),
        (pd.Series([1, 2, 3], ["Female", "Male", "Male"]), "once for each label"),
        (np.ones(3), r"shape of the table, \(2, 2\), got \(3,\)"),
        (pd.DataFrame({"Female": [1]}), "a Series, a mapping or an array, got DataFrame"),
    ):
        with pytest.raises(QueryError, match=words):
            counts / wrong  # type: ignore[operator]


# Draws


def test_draws_have_the_error_that_answers_have(release: Release) -> None:
    sex, pair = release.marginal("a0"), release.marginal("a0", "a1")
    assert pair.draws().shape == (101, 2, 3)
    np.testing.assert_allclose(pair.draws().sum(axis=2), sex.draws(), atol=1e-6 * sex.values.max())
    ratio = pair.draws()[:, 0, 0] / sex.draws()[:, 1]
    error = np.sqrt(((ratio[1:] - ratio[0]) ** 2).mean())
    assert (pair["0"]["0"] / sex["1"]).std_error == pytest.approx(error)
    pair.draws()[:] = 0  # a copy
    assert pair.draws().any()
    with pytest.raises(QueryError, match="it has no draws"):
        table(SEX, values=[1, 2]).draws()


def test_draws_are_columns_of_files(release: Release) -> None:
    pair = release.marginal("a0", "a1")
    columns = pair.to_arrow(draws=True).to_pandas().filter(like="draw_").to_numpy().T
    np.testing.assert_allclose(columns, pair.draws().reshape(101, -1))
    read = pd.read_csv(io.StringIO(pair.to_csv(draws=True)))
    np.testing.assert_allclose(read.filter(like="draw_").to_numpy().T, columns)
    assert "draw_0" not in pair.to_csv()
    with pytest.raises(QueryError, match="it has no draws"):
        table(SEX, values=[1, 2]).to_csv(draws=True)


def test_any_function_of_tables_has_its_error(release: Release) -> None:
    shares = release.marginal("a0", "a1").shares("a0")
    found = release.compute(lambda pair: (pair / pair.sum(axis=1, keepdims=True))[0], [("a0", "a1")])
    np.testing.assert_allclose(found.values, shares.values[0])
    np.testing.assert_allclose(np.sqrt(np.diag(found.covariance())), shares.std_error[0])
    np.testing.assert_allclose(found.covariance().sum(), 0, atol=1e-9)  # shares add up to one
    assert found.schema["result"].labels == ("0", "1", "2")
    assert found.error_kind is ErrorKind.CORRECTED
    named = release.compute(lambda a, b: {"rows": a.sum(), "part": b[0] / a.sum()}, ["a0", "a2"], quantity="figure")
    assert named["part"].value == pytest.approx(release.marginal("a2").shares().values[0])
    assert named.quantity == "figure"
    number = release.compute(lambda a: a[0] / a[1], ["a0"], where="a2 = 0")
    whole = release.marginal("a0", where="a2 = 0")
    assert number.interval() == (whole["0"] / whole["1"]).interval()


def test_what_a_function_does_wrong_is_said_in_one_line(release: Release) -> None:
    with pytest.raises(QueryError, match="^the function failed: IndexError: index 9 is out of bounds[^\n]*$"):
        release.compute(lambda a: a[9], ["a0"])
    for wrong in (lambda a: "much", lambda a: np.ones((2, 2)), lambda a: [], lambda a: list(range(int(a[0]) % 7))):
        with pytest.raises(QueryError, match="always as many"):
            release.compute(wrong, ["a0"])
    with pytest.raises(QueryError, match="at least one table"):
        release.compute(len, [])
    other = released(population(), nonnegative="shrunk", seed=2).marginal("a0")
    with pytest.raises(QueryError, match="different releases must not be mixed"):
        ct.analysis.compute(np.dot, [release.marginal("a0"), other])
    assert np.isnan(ct.analysis.compute(np.sum, [table(SEX, values=[1, 2])]).std_error)
