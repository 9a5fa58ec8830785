"""Maximum entropy for many answers against the dual, solved over all cells of a small table."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from crosstally.notebook.history.bundles import QueryBatch, QueryGroup
from crosstally.notebook.history.constraints import Problem
from crosstally.notebook.history.prior import Prior
from crosstally.schema import Attribute, Schema
from crosstally_lab.papers.edbt12.many_answers import ManyAnswers, constraints_of

SCHEMA = Schema([Attribute("a", ["0", "1", "2"]), Attribute("b", ["0", "1"]), Attribute("c", ["0", "1", "2"])])
ROWS, SCALE = 1000.0, 20.0


def batch_of(random: np.random.Generator) -> tuple[QueryBatch, np.ndarray]:
    """Four counts about a and b, four about b and c; and what a row in each of the 18 cells adds to each."""
    tables = [random.integers(0, 2, (4, *sizes)).astype(np.float64) for sizes in ((3, 2), (2, 3))]
    bundles = (
        QueryGroup((0, 1), np.array([0, 2, 4, 6]), tables[0]),
        QueryGroup((1, 2), np.array([1, 3, 5, 7]), tables[1]),
    )
    cells = np.zeros((8, 3, 2, 3))
    cells[::2] = tables[0][:, :, :, None]
    cells[1::2] = tables[1][:, None, :, :]
    return QueryBatch(SCHEMA, bundles, 8), cells.reshape(8, 18)


@pytest.mark.parametrize("bound", [0.3, 3.0])
def test_the_law_is_that_of_the_dual_over_all_cells(bound: float) -> None:
    """The largest w pi - ln Z - k w^2 / 2 within the bounds, k = 4 b / n over the bound: found by L-BFGS-B."""
    random = np.random.default_rng(3)
    batch, cells = batch_of(random)
    prior = Prior.of(SCHEMA, {"a": np.array([5.0, 3.0, 2.0]), "b": np.array([4.0, 6.0])})
    targets = cells @ random.dirichlet(np.ones(18))
    posed = Problem(SCHEMA, constraints_of(batch, ROWS * targets, rows=ROWS, scale=SCALE), prior=prior, size=ROWS)
    law = ManyAnswers(posed, batch, rows=20_000, random=np.random.default_rng(4))
    law.climb(bound * SCALE / ROWS, 400)

    start = np.einsum("i,j,k->ijk", *prior.probabilities).ravel()
    softness = 4 * (SCALE / ROWS) / bound

    def dual(weights: np.ndarray) -> tuple[float, np.ndarray]:
        masses = start * np.exp(weights @ cells)
        found = cells @ masses / masses.sum()
        value = np.log(masses.sum()) - weights @ targets + softness * weights @ weights / 2
        return float(value), found - targets + softness * weights

    best = minimize(dual, np.zeros(8), jac=True, method="L-BFGS-B", bounds=[(-bound, bound)] * 8)
    masses = start * np.exp(best.x @ cells)
    # a share of 20,000 rows over eight sweeps has a standard error below 0.0035
    assert law.means(posed.constraints, 8) == pytest.approx(cells @ masses / masses.sum(), abs=0.012)
    assert law.means(posed.constraints, 8) != pytest.approx(cells @ start, abs=0.012)
