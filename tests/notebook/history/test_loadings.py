"""How attributes go together: against covariances over the whole universe, by hand, and what it is good for."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from crosstally.notebook.history import likelihood, loadings
from crosstally.notebook.history.bundles import QueryBatch, projected
from crosstally.notebook.history.components import CovarianceModel, NoisyAnswers
from crosstally.notebook.history.likelihood import VariancePrior, fit
from crosstally.notebook.history.loadings import Mixture, evidence, moved, ordered_covariance
from crosstally.notebook.history.prior import Prior
from crosstally.query.linear import Linear, Term
from crosstally.schema import Attribute, Schema
from reference_history import log_likelihood, query_vector, shaped_products

SIZES = [3, 2, 4, 2]
NAMES = ["a", "b", "c", "d"]
SCHEMA = Schema([Attribute(name, [str(v) for v in range(n)]) for name, n in zip(NAMES, SIZES, strict=True)])


def random_queries(rng: np.random.Generator, number: int, most: int = 3) -> list[Linear]:
    out = []
    for _ in range(number):
        names = rng.permutation(NAMES)[: rng.integers(0, most + 1)].tolist()
        factors = tuple((name, tuple(rng.integers(0, 3, SCHEMA[name].size).tolist())) for name in names)
        out.append(Linear((Term(1, factors),)))
    return out


class Case:
    """Queries, a prior, variances and matrices, all at random, and the same over the universe."""

    def __init__(self, seed: int, number: int = 60) -> None:
        rng = np.random.default_rng(seed)
        self.past, self.new = random_queries(rng, number), random_queries(rng, 15)
        self.prior = Prior(SCHEMA, tuple(rng.dirichlet(np.full(n, 3.0)) for n in SIZES))
        self.matrices = {}
        for a, n in list(enumerate(SIZES))[:3]:  # the last one has none
            mixing = rng.normal(size=(n, n))
            self.matrices[a] = mixing @ mixing.T + 0.2 * np.eye(n)
        plain = CovarianceModel(QueryBatch.of(self.past, SCHEMA), self.prior)
        self.variances = {part: float(rng.uniform(1, 100)) for part in plain.parts}
        self.structure = plain.with_matrices({0: np.eye(3)}).with_matrices(self.matrices)
        self.answers, self.noise = rng.normal(0, 30, number), rng.uniform(1, 50, number)
        self.solution = self.structure.solve(NoisyAnswers(self.answers, noise=self.noise), self.variances)

    def products(self, first: list[Linear], second: list[Linear], matrices: dict[int, np.ndarray]) -> np.ndarray:
        rows, columns = (
            np.array([query_vector(q.to_dict(), NAMES, SIZES) for q in asked]) for asked in (first, second)
        )
        return shaped_products(rows, columns, list(self.prior.probabilities), self.variances, matrices)

    def likelihood(self, matrices: dict[int, np.ndarray]) -> float:
        return log_likelihood(self.products(self.past, self.past, matrices) + np.diag(self.noise), self.answers)


@pytest.mark.parametrize("seed", range(3))
def test_the_fast_path_with_matrices_is_the_dense_one(seed: int) -> None:
    case = Case(seed)
    assert {part for part in case.variances if len(part) == 3}
    covariance = case.products(case.past, case.past, case.matrices) + np.diag(case.noise)
    across = case.products(case.new, case.past, case.matrices)
    own = np.diag(case.products(case.new, case.new, case.matrices))
    batch = QueryBatch.of(case.new, SCHEMA)
    estimates = across @ np.linalg.solve(covariance, case.answers)
    assert case.solution.estimates(batch) == pytest.approx(estimates, rel=1e-8, abs=1e-8)
    errors = own - np.einsum("ij,ji->i", across, np.linalg.solve(covariance, across.T))
    assert case.solution.errors(batch, {}) == pytest.approx(errors, rel=1e-7, abs=1e-7)
    assert case.solution.log_likelihood == pytest.approx(case.likelihood(case.matrices), rel=1e-9)
    before = covariance - np.diag(case.noise)
    fitted = before @ np.linalg.solve(covariance, case.answers)
    assert case.solution.fitted == pytest.approx(fitted, rel=1e-8, abs=1e-8)
    left = np.diag(before - before @ np.linalg.solve(covariance, before))
    assert case.solution.fitted_errors == pytest.approx(np.sqrt(np.maximum(left, 0)), rel=1e-6, abs=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_evidence_is_the_gradient_of_the_likelihood(seed: int) -> None:
    """Along random directions, against differences of the likelihood over the universe.

    Seen from the root R of a matrix S the gradient in S is R'^-1 (shown - expected) R^-1 / 2.
    """
    case, rng = Case(seed), np.random.default_rng(seed + 100)
    found = evidence(case.solution)
    assert sorted(found) == [0, 1, 2]
    for a, each in found.items():
        inverse = np.linalg.inv(np.linalg.cholesky(case.matrices[a]))
        gradient = inverse.T @ (each.shown - each.expected) @ inverse / 2
        direction = rng.normal(size=gradient.shape)
        direction += direction.T
        step = 1e-5 * direction
        ends = [case.likelihood({**case.matrices, a: case.matrices[a] + sign * step}) for sign in (1, -1)]
        assert (gradient * direction).sum() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-6)


def test_how_much_answers_tell_of_each_variance() -> None:
    """The trace of (A^-1 K v)^2, over the universe."""
    case = Case(4)
    covariance = case.products(case.past, case.past, case.matrices) + np.diag(case.noise)
    vectors = np.array([query_vector(q.to_dict(), NAMES, SIZES) for q in case.past])
    for part, found in likelihood.information(case.solution).items():
        alone = {part: case.variances[part]}
        product = shaped_products(vectors, vectors, list(case.prior.probabilities), alone, case.matrices)
        share = np.linalg.solve(covariance, product)
        assert found == pytest.approx(np.trace(share @ share), rel=1e-6, abs=1e-12)


def test_neighbours_by_hand() -> None:
    """Two cells of a half each: their middles are a half apart. Of 1/4 and 3/4 as well, with roots 1/2 and 0.866."""
    alike = math.exp(-0.5 / 0.3)
    assert ordered_covariance(np.array([0.5, 0.5])) == pytest.approx(np.array([[1, alike], [alike, 1]]))
    uneven = 2 * math.sqrt(3) / 4 * alike
    assert ordered_covariance(np.array([0.25, 0.75])) == pytest.approx(np.array([[0.5, uneven], [uneven, 1.5]]))


def test_steps_raise_the_likelihood_and_keep_the_trace() -> None:
    case = Case(5)
    first = {a: np.eye(n) for a, n in enumerate(SIZES)}
    structure = case.structure.with_matrices(first)
    solution = structure.solve(case.solution.past, case.variances)
    found = moved(solution, first)
    assert [np.trace(found[a]) for a in range(4)] == pytest.approx(SIZES)
    assert case.likelihood(found) > case.likelihood(first)
    mixture = Mixture(structure)
    half = {
        a: (np.eye(n) + ordered_covariance(p)) / 2
        for a, (n, p) in enumerate(zip(SIZES, case.prior.probabilities, strict=True))
    }
    for a, matrix in mixture.matrices.items():
        assert matrix == pytest.approx(half[a])
    mixture.learn(structure.with_matrices(half).solve(case.solution.past, case.variances))
    assert case.likelihood(mixture.matrices) > case.likelihood(half)


def test_parts_whose_errors_are_known_keep_their_shape() -> None:
    """Those that tables cover, and single attributes whose noise is that of the prior."""
    queries = [Linear((Term(1, (("a", (1, 0, 1)), ("b", (0, 1)))),)), Linear((Term(1, (("c", (1, 0, 0, 1)),)),))]
    batch = QueryBatch.of(queries, SCHEMA)
    assert sorted(Mixture(CovarianceModel(batch, Prior.uniform(SCHEMA))).matrices) == [0, 1, 2]
    prior = Prior(SCHEMA, Prior.uniform(SCHEMA).probabilities, errors=(9.0, 0.0, 9.0, 0.0))
    structure = CovarianceModel(batch, prior, plain={(0, 1)})
    assert sorted(Mixture(structure).matrices) == [1]
    turned = structure.with_matrices({a: 2 * np.ones((n, n)) + np.eye(n) for a, n in enumerate(SIZES)})
    for part in ((), (0,), (0, 1)):
        assert turned.features(batch.bundles[0], part) == pytest.approx(projected(batch.bundles[0], part, prior))
    assert turned.features(batch.bundles[0], (1,)) != pytest.approx(projected(batch.bundles[0], (1,), prior))


def test_what_would_take_long_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attribute of 401 values beside one of 2, each asked about once: 403 numbers."""
    schema = Schema([Attribute("large", [str(v) for v in range(401)]), Attribute("small", ["x", "y"])])
    queries = [Linear((Term(1, ((name, (1, *[0] * (schema[name].size - 1))),)),)) for name in ("large", "small")]
    structure = CovarianceModel(QueryBatch.of(queries, schema), Prior.uniform(schema), known=[()])
    assert structure.numbers == 403
    assert sorted(Mixture(structure).matrices) == [1]
    monkeypatch.setattr(loadings, "_MOST_NUMBERS", 402)
    assert not Mixture(structure).matrices


def _few_kinds(seed: int) -> tuple[Schema, dict[tuple[int, int], np.ndarray], np.random.Generator]:
    """Pairs of six attributes of 12 values, in 100,000 rows of two kinds that differ in each attribute."""
    rng = np.random.default_rng(seed)
    schema = Schema([Attribute(f"x{i}", [str(v) for v in range(12)]) for i in range(6)])
    shares = rng.dirichlet(np.full(12, 0.7), (6, 2))
    pairs = {(i, j): 5e4 * shares[i].T @ shares[j] for i, j in combinations(range(6), 2)}
    return schema, pairs, rng


def _random_counts(pairs: dict[tuple[int, int], np.ndarray], number: int, rng: np.random.Generator):
    queries, truth = [], []
    for _ in range(number):
        i, j = list(pairs)[rng.integers(len(pairs))]
        chosen = rng.integers(0, 2, (12, 12))
        terms = [
            Term(1, ((f"x{i}", tuple(int(v == u) for v in range(12))), (f"x{j}", tuple(chosen[u].tolist()))))
            for u in range(12)
        ]
        queries.append(Linear(tuple(terms)))
        truth.append(float((chosen * pairs[i, j]).sum()))
    return queries, np.array(truth)


def test_what_is_learned_from_some_pairs_helps_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of two kinds: one contrast of each attribute is all there is. The error falls by a quarter or more."""
    schema, pairs, rng = _few_kinds(1)
    prior = Prior(schema, tuple(_share(pairs, a) for a in range(6)))
    queries, truth = _random_counts(pairs, 900, rng)
    new, truth_new = _random_counts(pairs, 300, rng)
    batch, asked = QueryBatch.of(queries, schema), QueryBatch.of(new, schema)
    known, known_new = (_expected(each, prior) for each in (batch, asked))
    past = NoisyAnswers(truth - known + rng.normal(0, 2000, 900), noise=np.full(900, 2000.0**2))
    structure = CovarianceModel(batch, prior, known=[()])

    def error() -> float:
        found = fit(structure, past, scales=np.zeros(900), fixed={}, belief=VariancePrior(1e8, 4.0))
        assert found.converged
        estimates = found.solution.estimates(asked, known=[()]) + known_new
        return float(np.sqrt(np.mean((estimates - truth_new) ** 2)))

    learned = error()
    monkeypatch.setattr(likelihood, "_shaped", lambda structure, learner, mixture: structure)
    assert learned < 0.75 * error()


def _share(pairs: dict[tuple[int, int], np.ndarray], a: int) -> np.ndarray:
    other = next(pair for pair in pairs if a in pair)
    counts = pairs[other].sum(axis=1 - other.index(a))
    return np.asarray(counts / counts.sum())


def _expected(batch: QueryBatch, prior: Prior) -> np.ndarray:
    out = np.zeros(batch.size)
    for bundle in batch.bundles:
        out[bundle.rows] = 1e5 * projected(bundle, (), prior)[:, 0]
    return out


def test_a_fit_that_is_cut_short_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(2)
    past = case.solution.past
    options = {"scales": np.zeros(60), "fixed": {}, "belief": VariancePrior(100.0)}
    assert fit(CovarianceModel(QueryBatch.of(case.past, SCHEMA), case.prior), past, **options).converged
    monkeypatch.setattr(likelihood, "_STEPS", 1)
    options["belief"] = VariancePrior(1e6)
    monkeypatch.setattr(likelihood, "_shaped", lambda structure, learner, mixture: structure)
    assert not fit(CovarianceModel(QueryBatch.of(case.past, SCHEMA), case.prior), past, **options).converged
