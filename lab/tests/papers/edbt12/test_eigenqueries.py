"""Inner products and kernel principal components, as the paper has them, against the universe and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from crosstally.errors import QueryError
from crosstally.notebook.history.bundles import QueryBatch
from crosstally.notebook.history.prior import Prior
from crosstally.query.question import count, query_of
from crosstally_lab.papers.edbt12.eigenqueries import Eigenqueries
from crosstally_lab.papers.edbt12.products import kernel, kernel_of_tables, kernel_of_terms
from random_queries import SCHEMA, random_prior, random_query, vectors
from reference_history import prior_vector


@pytest.mark.parametrize("seed", range(5))
def test_inner_products_in_both_forms(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = ([random_query(rng) for _ in range(n)] for n in (12, 9))
    prior = random_prior(rng)
    truth = vectors(first) @ np.diag(prior_vector(prior.probabilities)) @ vectors(second).T
    tables = kernel_of_tables(QueryBatch.of(first, SCHEMA), QueryBatch.of(second, SCHEMA), prior)
    for found in (kernel(first, second, prior), kernel_of_terms(first, second, prior), tables):
        assert found == pytest.approx(truth, rel=1e-12, abs=1e-12)


def test_two_parts_and_their_whole() -> None:
    """Three answers of equal variance, the third the sum of the others: least squares takes a third of each mismatch.

    100 + 210 is 20 short of 330: the parts gain 20/3 each, the whole loses 20/3, and each variance falls by a third.
    """
    queries = [query_of(text, SCHEMA) for text in ("a = 0", "a != 0")] + [count().query(SCHEMA)]
    answers = np.array([100.0, 210.0, 330.0])
    prior = Prior.uniform(SCHEMA)
    products = kernel(queries, queries, prior)
    eigen = Eigenqueries.of(products, answers, np.full(3, 9.0))
    values, errors = eigen.estimate(products, np.diag(products), math.inf)
    assert values == pytest.approx([100 + 20 / 3, 210 + 20 / 3, 330 - 20 / 3])
    assert errors == pytest.approx([6.0, 6.0, 6.0])
    assert len(eigen.precisions) == 2
    other = [query_of("b = 0", SCHEMA)]
    assert eigen.estimate(kernel(other, queries, prior), np.diag(kernel(other, other, prior)), math.inf)[1] == math.inf


def test_weights_of_eigenqueries() -> None:
    """One query of norm 1/2 and noise variance 2 has precision 1/4: at alpha 2 it is trusted by one half."""
    eigen = Eigenqueries.of(np.array([[0.5]]), np.array([10.0]), np.array([2.0]))
    assert eigen.precisions == pytest.approx([0.25])
    assert eigen.weights(2) == pytest.approx([0.5])
    assert eigen.estimate(np.array([[0.5]]), np.array([0.5]), 2)[0] == pytest.approx([5.0])
    with pytest.raises(QueryError, match="at least 0"):
        eigen.weights(-1)
    with pytest.raises(QueryError, match="must be positive"):
        Eigenqueries.of(np.eye(1), np.ones(1), np.zeros(1))
