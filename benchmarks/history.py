"""Past answers integrated by the fast path against dense kernel principal components: the same estimates."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.timing import cpu_seconds, row
from crosstally.notebook.history.alpha import one_alpha
from crosstally.notebook.history.bundles import Batch
from crosstally.notebook.history.components import Past, Structure
from crosstally.notebook.history.prior import Prior
from crosstally.papers.edbt12.census import PAPER_SIZES
from crosstally.papers.edbt12.eigenqueries import Eigenqueries
from crosstally.papers.edbt12.products import kernel
from crosstally.questions.queries import Linear, Term
from crosstally.schema import Attribute, Schema

QUERIES, ALPHA = 5000, 3e4


def run() -> list[dict[str, Any]]:
    """One alpha, 5000 two-dimensional range queries on nine attributes."""
    random = np.random.default_rng(20_260_105)
    schema = Schema([Attribute(f"x{i}", [str(v) for v in range(n)]) for i, n in enumerate(PAPER_SIZES)])
    queries = [_range(schema, random) for _ in range(QUERIES)]
    prior = Prior.of(schema, {f"x{i}": 1000 * random.dirichlet(np.ones(n)) for i, n in enumerate(PAPER_SIZES)})
    answers, noise = random.normal(5e4, 2e4, QUERIES), np.full(QUERIES, 5e7)

    def fast() -> Any:
        batch = Batch.of(queries, schema)
        return one_alpha(Structure(batch, prior), Past(answers, noise=noise), ALPHA).estimates(batch)

    def dense() -> Any:
        products = kernel(queries, queries, prior)
        return Eigenqueries.of(products, answers, noise).estimate(products, np.diag(products), ALPHA)[0]

    peer = cpu_seconds(dense, repeats=1)
    return [row(f"history, {QUERIES:,} 2-D range queries, one alpha", cpu_seconds(fast), peer, 1 / 40)]


def _range(schema: Schema, random: np.random.Generator) -> Linear:
    factors = []
    for i in random.choice(len(schema.shape), 2, replace=False).tolist():
        low, high = np.sort(random.integers(0, schema.shape[i], 2))
        values = np.arange(schema.shape[i])
        factors.append((schema.names[i], tuple(((values >= low) & (values <= high)).astype(int).tolist())))
    return Linear((Term(1, tuple(factors)),))
