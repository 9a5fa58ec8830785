"""Answers with correlated noise against dense least squares, written from the paper's section 3.3."""

from __future__ import annotations

import numpy as np
import pytest

from crosstally.notebook.history.bundles import QueryBatch, parts_of
from crosstally.notebook.history.components import CovarianceModel, NoisyAnswers
from crosstally.notebook.history.correlated import SharedErrors, split_noise
from crosstally.notebook.history.prior import Prior
from crosstally.query.linear import Linear, Term
from crosstally.schema import Attribute, Schema
from crosstally_lab.papers.edbt12.products import kernel

SCHEMA = Schema([Attribute("a", ["0", "1", "2"]), Attribute("b", ["0", "1"])])
VARIANCE = 9.0


def questions(random: np.random.Generator, number: int) -> list[Linear]:
    """Random counts over one or both attributes."""
    found = []
    for i in range(number):
        names = [("a",), ("b",), ("a", "b")][i % 3]
        factors = ((name, tuple(random.integers(0, 2, SCHEMA[name].size).tolist())) for name in names)
        found.append(Linear((Term(1, tuple(factors)),)))
    return found


def covariance_of(random: np.random.Generator, number: int) -> np.ndarray:
    root = random.normal(size=(number, number))
    return root @ root.T + 0.3 * np.eye(number)


def test_noise_splits_into_independent_and_shared_errors() -> None:
    covariance = covariance_of(np.random.default_rng(1), 6)
    independent, shared = split_noise(covariance)
    assert independent.min() > 0
    assert np.diag(independent) + shared @ shared.T == pytest.approx(covariance)
    assert split_noise(np.diag([2.0, 3.0]))[1].shape == (2, 0)


@pytest.mark.parametrize("left_out", [False, True])
def test_estimates_and_errors_are_those_of_dense_ridge_regression(left_out: bool) -> None:
    """K_q (K + S)^-1 a, and k_qq - K_q (K + S)^-1 K_q': answers 3 to 7 of nine are correlated."""
    random = np.random.default_rng(2)
    past, new = questions(random, 9), questions(random, 6)
    answers = random.normal(0, 5, 9)
    noise = np.diag(random.uniform(0.5, 2, 9))
    rows = np.arange(3, 8)
    noise[np.ix_(rows, rows)] = covariance_of(random, 5)
    independent = np.diag(noise).copy()
    independent[rows], columns = split_noise(noise[np.ix_(rows, rows)])
    prior = Prior.of(SCHEMA, {"a": np.array([5.0, 3.0, 2.0]), "b": np.array([4.0, 6.0])})
    kept = np.ones(9, np.bool_)
    kept[4] = not left_out
    errors = SharedErrors(rows, columns).chosen(kept)
    batch = QueryBatch.of(past, SCHEMA).chosen(kept)
    structure = CovarianceModel(batch, prior, errors=[errors])
    variances = {part: 1.0 if part and part[0] < 0 else VARIANCE for part in structure.parts}
    solution = structure.solve(NoisyAnswers(answers[kept], noise=independent[kept]), variances)
    asked = QueryBatch.of(new, SCHEMA)
    unseen = {part: VARIANCE for bundle in asked.bundles for part in parts_of(bundle.positions)}

    whole = VARIANCE * kernel(past, past, prior) + noise
    inverse = np.linalg.inv(whole[np.ix_(kept, kept)])
    across = VARIANCE * kernel(new, past, prior)[:, kept]
    assert solution.estimates(asked) == pytest.approx(across @ inverse @ answers[kept])
    own = VARIANCE * np.diag(kernel(new, new, prior))
    assert solution.errors(asked, unseen) == pytest.approx(own - np.diag(across @ inverse @ across.T), abs=1e-9)
