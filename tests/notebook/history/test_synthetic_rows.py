"""Maximum entropy by sampling: against the exact optimum over a small universe, the exact law, and by hand."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from scipy.stats import chi2

from crosstally.budget import Noise, NoiseKind
from crosstally.errors import QueryError
from crosstally.measurements import Measurement
from crosstally.notebook.history.chain import Chain
from crosstally.notebook.history.constraints import Constraints, Problem, problem
from crosstally.notebook.history.prior import Prior
from crosstally.notebook.history.synthetic_rows import maximum_entropy, synthesize
from crosstally.query.queries import Cells, Contrast
from crosstally.query.question import count, query_of
from crosstally.schema import Attribute, Schema
from reference_maximum_entropy import optimum

SIZES = (3, 2, 4)
SCHEMA = Schema([Attribute(name, [str(v) for v in range(n)]) for name, n in zip("abc", SIZES, strict=True)])
CELLS = np.indices(SIZES).reshape(3, -1)


def cell_of(positions: tuple[int, ...]) -> np.ndarray:
    """For every cell of the universe its cell in a table."""
    return np.ravel_multi_index([CELLS[p] for p in positions], [SIZES[p] for p in positions])


def random_problem(rng: np.random.Generator) -> tuple[Problem, np.ndarray, np.ndarray, np.ndarray]:
    """Three tables of pairs and four linear queries, and the same as functions over the universe."""
    prior = Prior(SCHEMA, tuple(rng.dirichlet(np.full(n, 5.0)) for n in SIZES))
    truth = rng.dirichlet(np.full(24, 0.7))
    constraints, functions = [], []
    for positions in ((0, 1), (1, 2), (0, 2)):
        marks = np.eye(math.prod(SIZES[p] for p in positions))[:, cell_of(positions)]
        targets = marks @ truth + rng.laplace(0, 0.02, len(marks))
        noise = np.full(len(marks), 0.02)
        constraints.append(Constraints(positions, targets, noise=noise, bounds=np.full(len(marks), 0.15)))
        functions.append(marks)
    tables = rng.integers(0, 3, (4, 12)).astype(np.float64)
    functions.append(tables[:, cell_of((0, 2))])
    targets = functions[-1] @ truth + rng.laplace(0, 0.05, 4)
    noise, bounds = np.full(4, 0.05), np.full(4, 0.1)
    constraints.append(Constraints((0, 2), targets, noise=noise, bounds=bounds, tables=tables))
    return (
        Problem(SCHEMA, tuple(constraints), prior=prior, size=1000),
        np.vstack(functions),
        truth,
        prior.joint((0, 1, 2)),
    )


@pytest.mark.parametrize("seed", range(3))
def test_means_are_those_of_the_exact_optimum(seed: int) -> None:
    """Over ten sweeps of 100,000 rows a mean has a standard error below 0.001 for queries up to 2.

    Values follow each other with correlation, hence the margin; the targets are 0.05 and more away from the optimum.
    """
    rng = np.random.default_rng(seed)
    posed, functions, _, prior = random_problem(rng)
    targets, bounds, noise = (
        np.concatenate([getattr(each, name) for each in posed.constraints]) for name in ("targets", "bounds", "noise")
    )
    exact = functions @ optimum(prior.ravel(), functions, targets, bounds, 4 * noise / bounds)
    found = maximum_entropy(posed, rows=10, sweeps=150, tolerance=0.0, random=rng)
    assert np.abs(np.concatenate(found.means) - exact).max() < 0.006
    assert np.abs(targets - exact).max() > 0.05
    assert found.gap < 0.01
    for each, weights in zip(posed.constraints, found.weights, strict=True):
        assert (np.abs(weights) <= each.bounds).all()
    assert sum(int((np.abs(w) == e.bounds).sum()) for e, w in zip(posed.constraints, found.weights, strict=True)) > 2


@pytest.mark.parametrize(("wrong", "fits"), [(0.0, True), (0.1, False)])
def test_rows_follow_the_exact_law(wrong: float, fits: bool) -> None:
    """Rows walk independently: a chi-square test of 200,000 of them, which is wrong once in a million."""
    rng = np.random.default_rng(4)
    posed, _, _, prior = random_problem(rng)
    chain = Chain(posed, 200_000, rng)
    weights = [rng.normal(0, 0.7, math.prod(SIZES[p] for p in each.positions)) for each in posed.constraints]
    for _ in range(50):
        taken = chain.sweep(weights)
    assert 0.1 < taken < 0.9
    weights[1][3] += wrong
    energy = sum(w[cell_of(each.positions)] for w, each in zip(weights, posed.constraints, strict=True))
    law = prior.ravel() * np.exp(energy)
    expected = 200_000 * law / law.sum()
    seen = np.bincount(np.ravel_multi_index(chain.codes.T, SIZES), minlength=24)
    statistic = float(((seen - expected) ** 2 / expected).sum())
    assert (float(chi2.sf(statistic, 23)) > 1e-6) is fits


def test_counts_stay_those_of_the_rows() -> None:
    rng = np.random.default_rng(5)
    posed, *_ = random_problem(rng)
    chain = Chain(posed, 500, rng)
    for _ in range(3):
        chain.sweep([rng.normal(0, 1, math.prod(SIZES[p] for p in each.positions)) for each in posed.constraints])
    for each, shares in zip(posed.constraints, chain.shares(), strict=True):
        counted = np.zeros([SIZES[p] for p in each.positions])
        for row in chain.codes:
            counted[tuple(row[list(each.positions)])] += 1
        assert shares.reshape(counted.shape) * 500 == pytest.approx(counted)
    chain.grow(1234)
    assert len(chain.codes) == 1234
    assert chain.shares()[0].sum() == pytest.approx(1.0)


def cells(names: tuple[str, ...], values: list[float] | np.ndarray, scale: float = 5.0) -> Measurement:
    noise = Noise(NoiseKind.LAPLACE, scale)
    return Measurement(Cells(names), np.asarray(values), variance=noise.variance, noise=noise, origin="x")


def test_bounds_are_alpha_n_over_b_and_targets_shares() -> None:
    noise = Noise(NoiseKind.LAPLACE, 8.0)
    query = query_of(count(a="1"), SCHEMA)
    asked = Measurement(query, np.array(250), variance=noise.variance, noise=noise, origin="x")
    posed = problem(SCHEMA, [cells(("b",), [600.0, 400.0]), asked], total=1000, alpha=0.002)
    table, answer = posed.constraints
    assert table.positions == (1,)
    assert table.targets == pytest.approx([0.6, 0.4])
    # With the total known to be 1000, half of the variance of the two cells is left.
    assert table.bounds == pytest.approx(0.002 * 1000 / math.sqrt(Noise(NoiseKind.LAPLACE, 5.0).variance / 4))
    assert answer.targets == pytest.approx([0.25])
    assert answer.bounds == pytest.approx([0.002 * 1000 / 8])
    assert answer.tables is not None
    # The first and the last value are not told apart: they are one class
    assert answer.tables.tolist() == [[0, 1]]
    assert [each.tolist() for each in answer.classes] == [[0, 1, 0]]
    assert answer.prior_shares(posed.prior) == pytest.approx([2 / 3, 1 / 3])
    assert posed.prior.probabilities[1] == pytest.approx([0.6, 0.4])


def test_contrasts_and_transposed_tables_enter() -> None:
    exact = np.arange(1.0, 7.0).reshape(3, 2) * 50
    contrast = Measurement(Contrast(("b", "a")), [[0, 0, 0]], variance=1.0, noise=None, origin="x")
    singles = [cells(("a",), exact.sum(axis=1)), cells(("b",), exact.sum(axis=0))]
    posed = problem(SCHEMA, [*singles, contrast], total=1050, alpha=1.0)
    (pair,) = posed.constraints
    assert pair.positions == (0, 1)
    assert pair.targets.sum() == pytest.approx(1.0)
    turned = problem(SCHEMA, [cells(("b", "a"), exact.T)], total=1050, alpha=1.0).constraints[0]
    assert turned.targets.reshape(3, 2) == pytest.approx(exact / 1050)


def test_a_sample_fits_consistent_tables() -> None:
    rng = np.random.default_rng(6)
    truth = rng.dirichlet(np.full(24, 2.0)).reshape(SIZES) * 10_000
    measured = [cells(("a", "b"), truth.sum(axis=2)), cells(("b", "c"), truth.sum(axis=0))]
    found = synthesize(SCHEMA, measured, total=10_000, alpha=1.0, sweeps=400, random=np.random.default_rng(7))
    assert found.converged
    assert found.violation <= 1
    assert "converged after" in repr(found)
    assert "not converged" not in repr(found)
    assert len(found.codes) == 10_000
    assert found.means[0] == pytest.approx(truth.sum(axis=2).ravel() / 10_000, abs=5e-3)
    # Given b, a and c are independent: what has the largest entropy.
    sums = truth.sum(axis=2)[:, :, None] * truth.sum(axis=0)[None] / truth.sum(axis=(0, 2))[None, :, None]
    drawn = np.bincount(np.ravel_multi_index(found.codes.T, SIZES), minlength=24)
    assert np.abs(drawn - sums.ravel()).max() < 6 * math.sqrt(sums.max())


def test_the_same_seed_gives_the_same_rows_and_more_rows_are_moved_apart() -> None:
    measured = [cells(("a", "b"), np.full((3, 2), 20_000.0))]
    first, again, other = (
        synthesize(SCHEMA, measured, sweeps=10, rows=120_000, random=np.random.default_rng(seed)) for seed in (8, 8, 9)
    )
    assert (first.codes == again.codes).all()
    assert not (first.codes == other.codes).all()
    assert len(first.codes) == 120_000
    assert (first.codes[:20_000] != first.codes[100_000:]).any(axis=1).mean() > 0.5


def test_what_is_not_converged_is_said() -> None:
    measured = [cells(("a",), [900.0, 50.0, 50.0]), cells(("a", "b"), [[0.0, 1000.0], [0.0, 0.0], [0.0, 0.0]])]
    found = synthesize(SCHEMA, measured, total=1000, rows=50, sweeps=1, random=np.random.default_rng(1))
    assert not found.converged
    assert found.violation > 1
    assert found.sweeps == 1
    assert "not converged after 1 sweeps" in repr(found)


def test_rows_have_labels() -> None:
    found = synthesize(SCHEMA, [], total=100, rows=5, sweeps=1, random=np.random.default_rng(1))
    assert found.converged  # nothing was asked
    table = found.to_arrow()
    assert table.column_names == ["a", "b", "c"]
    assert table.num_rows == 5
    assert set(table["b"].to_pylist()) <= {"0", "1"}
    with pytest.raises(ValueError, match="read-only"):
        found.codes[0, 0] = 1


def test_a_universe_of_ten_to_the_sixty_cells() -> None:
    schema = Schema([Attribute(f"x{i}", ["n", "y"]) for i in range(200)])
    assert schema.cells > 10**60
    measured = [cells((f"x{i}", f"x{i + 1}"), [[400.0, 100.0], [100.0, 400.0]]) for i in range(0, 40, 2)]
    start = time.process_time()
    found = synthesize(schema, measured, total=1000, rows=1000, alpha=1.0, sweeps=20, random=np.random.default_rng(2))
    assert time.process_time() - start < 60
    assert found.means[0] == pytest.approx([0.4, 0.1, 0.1, 0.4], abs=0.02)
    assert found.codes.shape == (1000, 200)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": 0}, "alpha must be a positive number, got 0"),
        ({"rows": 0}, "rows must be a whole number from 1 to"),
        ({"rows": 2.5}, "rows must be a whole number"),
        ({"sweeps": True}, "sweeps must be a whole number"),
    ],
)
def test_wrong_options_are_told(options: dict[str, object], words: str) -> None:
    with pytest.raises(QueryError, match=words):
        synthesize(SCHEMA, [cells(("b",), [1.0, 2.0])], **options)


def test_nothing_measured_is_told() -> None:
    with pytest.raises(QueryError, match="nothing was answered yet"):
        synthesize(SCHEMA, [])
