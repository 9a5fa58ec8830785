"""Plans of linear strategies: the published numbers, what each kind of matrix gives, predictions by dense algebra."""

import numpy as np
import pytest

import crosstally as ct
from crosstally.query.along import asked_along
from crosstally.query.queries import Cells
from crosstally.strategies import Direct, LinearStrategies, Residual
from crosstally.strategies.matrices import best_gram
from reference_linear import numbered, rows_of

CPS = (50, 100, 7, 4, 2)
ADULT = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)
LOANS = (101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15)


@pytest.mark.parametrize(
    ("sizes", "numeric", "ways", "published"),
    [
        (CPS, (0, 1), 1, 3.081),
        (CPS, (0, 1), 2, 5.823),
        (CPS, (0, 1), 3, 7.302),
        (ADULT, (0, 2, 9, 10, 11), 1, 5.081),
        (LOANS, (0, 1, 2, 3), 1, 4.681),
        (LOANS, (0, 1, 2, 3), 2, 14.502),
    ],
)
def test_prefixes_are_at_most_as_wrong_as_published(sizes, numeric, ways, published) -> None:
    """ResidualPlanner+ at rho = 1/2; all nine of its numbers are in the benchmark."""
    schema = numbered(*sizes)
    workload = ct.Workload.all_ways(schema, ways).asking({f"a{i}": "prefixes" for i in numeric})
    plan = LinearStrategies().plan(schema, workload, ct.Budget(rho=0.5))
    assert published * 0.95 < plan.rms_error <= published  # its own lower bounds for one way are 2 to 3% below


@pytest.mark.parametrize(
    ("along", "budget", "low", "high"),
    [
        ("optimal", {"rho": 0.5}, 5.29, 5.31),  # the least possible is 5.30
        ("wavelet", {"rho": 0.5}, 6.95, 6.97),
        ("optimal", {"epsilon": 1}, 36, 37),
        ("cells", {"epsilon": 1}, 43.9, 44.1),  # 2 x 22, the mean length of a range
    ],
)
def test_ranges_of_64_cells(along, budget, low, high) -> None:
    schema = numbered(64)
    plan = LinearStrategies(along=along).plan(schema, ct.Workload.ranges(schema, "a0"), ct.Budget(**budget))
    assert low < plan.rms_error**2 < high


@pytest.mark.parametrize("budget", [ct.Budget(rho=0.5), ct.Budget(epsilon=1)], ids=["rho", "epsilon"])
def test_the_error_of_a_plan_is_that_of_dense_least_squares(budget) -> None:
    """Ranges along a0 and rows of a matrix along a1, over a pair of them and over one with cells."""
    schema = numbered(4, 3, 2)
    own = [[1, 1, 0], [0, 1, 1], [2, 0, -1], [1, 0, 0]]
    workload = ct.Workload([("a0", "a1"), ("a0", "a2"), ("a1",)], weights=[1, 2, 1]).asking(a0="ranges", a1=own)
    plan = LinearStrategies().plan(schema, workload, budget)
    matrix = np.vstack([rows_of(request.query, schema) for request in plan.requests])
    weights = np.concatenate([
        np.full(np.prod(request.query.shape(schema), dtype=int), 1 / request.noise.variance)
        for request in plan.requests
    ])  # fmt: skip
    covariance = np.linalg.pinv(matrix.T @ (weights[:, None] * matrix), hermitian=True)
    ranges = np.array([[float(a <= j < b) for j in range(4)] for a in range(4) for b in range(a + 1, 5)])
    asked = {"a0": ranges, "a1": np.array(own, float), "a2": np.eye(2)}
    total, number = 0.0, 0
    for table in workload.tables:
        product = np.ones((1, 1))
        for name in table:
            product = np.kron(product, asked[name])
        queries = product @ rows_of(Cells(table), schema)
        variances = np.einsum("ij,jk,ik->i", queries, covariance, queries)
        assert plan.errors[table] ** 2 == pytest.approx(variances.mean(), rel=1e-6)
        total, number = total + variances.sum(), number + len(variances)
    assert plan.rms_error**2 == pytest.approx(total / number, rel=1e-6)


def test_without_ranges_it_plans_as_others_do() -> None:
    schema = numbered(4, 3, 2)
    workload = ct.Workload.up_to(schema, 2)
    for budget, other in [(ct.Budget(rho=0.5), Residual()), (ct.Budget(epsilon=1), Direct())]:
        found = LinearStrategies().plan(schema, workload, budget)
        assert not any(request.query.matrices for request in found.requests)
        assert found.rms_error == pytest.approx(other.plan(schema, workload, budget).rms_error, rel=1e-6)


def test_a_workload_with_ranges_is_planned_by_linear_strategies() -> None:
    schema = numbered(12, 3)
    found = ct.plan(schema, workload=ct.Workload.up_to(schema, 2).asking(a0="ranges"), rho=0.5)
    assert (found.chosen.strategy, found.chosen.covers) == ("linear", True)
    other = ct.plan(schema, workload=ct.Workload.up_to(schema, 2).asking(a0="ranges"), rho=0.5, strategy="residual")
    assert found.chosen.rms_error < other.chosen.rms_error


@pytest.mark.parametrize("kind", ["ranges", "prefixes"])
def test_the_best_gram_matrix_is_at_the_optimum(kind) -> None:
    """No change of it has a smaller sum of variances: the dual value, computed from its multipliers, is as large."""
    asked = asked_along(kind, 9).gram
    gram = best_gram(asked)
    assert np.diagonal(gram).max() == pytest.approx(1)
    inverse = np.linalg.inv(gram)
    value = np.trace(asked @ inverse)
    multipliers = np.maximum(np.diagonal(inverse @ asked @ inverse), 0)  # stationary: X^-1 V X^-1 is diagonal
    assert multipliers.sum() == pytest.approx(value, rel=1e-3)
    rng = np.random.default_rng(0)
    for _ in range(200):
        change = rng.normal(size=(9, 9)) * 10 ** rng.uniform(-3, -1)
        other = gram + change @ change.T + (change + change.T) / 9
        other /= np.diagonal(other).max()
        if np.linalg.eigvalsh(other).min() > 0:
            assert np.trace(asked @ np.linalg.inv(other)) > value * (1 - 2e-5)
