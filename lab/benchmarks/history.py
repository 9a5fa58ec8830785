"""Past answers: the fast path against dense kernel principal components, and the error of both methods together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.shapes import sized
from benchmarks.timing import cpu_seconds, row, timed
from crosstally.budget import Noise, NoiseKind
from crosstally.measurements import Measurement
from crosstally.notebook.history.better import BetterOfBoth
from crosstally.notebook.history.bundles import QueryBatch
from crosstally.notebook.history.components import CovarianceModel, NoisyAnswers
from crosstally.notebook.history.held_out import one_alpha
from crosstally.notebook.history.prior import Prior
from crosstally.notebook.history.synthetic_rows import synthesize
from crosstally.query.linear import Linear, Term
from crosstally.schema import Schema
from crosstally_lab.papers.edbt12.census import PAPER_SIZES, Census, census, generated_census
from crosstally_lab.papers.edbt12.eigenqueries import Eigenqueries
from crosstally_lab.papers.edbt12.products import kernel
from crosstally_lab.papers.edbt12.trials import rms

QUERIES, ALPHA = 5000, 3e4
PAST, NEW, SCALE = (200, 600), 400, 638
"""Past and new two-dimensional ranges, and the scale of past answers' Laplace noise: 0.2% of the census."""
DRAWS, GENERATED = 3, 500_000
"""Draws of questions and noise for each table, and the rows of the generated one, as many as in the paper."""

MANY, ASKED, LIMIT = 10_000, 20, 30.0
"""A long history, questions estimated from it, and the CPU seconds that all of it may take, the fit included."""


def run() -> list[dict[str, Any]]:
    """One alpha, 5000 two-dimensional range queries on nine attributes."""
    random = np.random.default_rng(20_260_105)
    schema = sized(PAPER_SIZES, "x")
    queries = [_range(schema, random) for _ in range(QUERIES)]
    prior = Prior.of(schema, {f"x{i}": 1000 * random.dirichlet(np.ones(n)) for i, n in enumerate(PAPER_SIZES)})
    answers, noise = random.normal(5e4, 2e4, QUERIES), np.full(QUERIES, 5e7)

    def fast() -> Any:
        batch = QueryBatch.of(queries, schema)
        return one_alpha(CovarianceModel(batch, prior), NoisyAnswers(answers, noise=noise), ALPHA).estimates(batch)

    def dense() -> Any:
        products = kernel(queries, queries, prior)
        return Eigenqueries.of(products, answers, noise).estimate(products, np.diag(products), ALPHA)[0]

    peer = cpu_seconds(dense, repeats=1)
    return [
        row(f"history, {QUERIES:,} 2-D range queries, one alpha", cpu_seconds(fast), peer, 1 / 40),
        long_history(),
        *(line for past in PAST for generated in (False, True) for line in errors(past, generated=generated)),
    ]


def long_history() -> dict[str, Any]:
    """A first estimate from many past answers: measured once, without a run before it, beside the limit."""
    random = np.random.default_rng((20_261_117, MANY))
    data = census(random)
    queries, truth, measured = _asked(data, MANY, ASKED, random)
    seconds, found = timed(lambda: BetterOfBoth(data.schema, measured, total=data.rows).estimates(queries[MANY:]))
    error = rms(found.values - truth[MANY:]) / data.rows
    work = f"history, {MANY:,} past 2-D ranges, {data.label}, {ASKED} estimates"
    return {**row(work, seconds, LIMIT, 1.0), "note": f"RMSE of the estimates {error:.2%} of all rows"}


def errors(past: int, *, generated: bool) -> Iterator[dict[str, Any]]:
    """Errors of synthetic data and estimates: past questions beside raw answers, new ones beside the better method.

    A line for the draw with the largest ratio; those of the others are in its note. The rows of the file are the same
    in all draws, generated ones are not.
    """
    kinds = {
        "past questions, synthetic data over raw": 1.0,
        "past questions, estimates over raw": 1.0,
        "new questions, estimates over the better method": 1.05,
    }
    label, found = "", list[tuple[tuple[float, float], ...]]()
    for draw in range(DRAWS):
        random = np.random.default_rng((20_261_116, past, draw) if draw else (20_261_116, past))
        data = generated_census(GENERATED, random) if generated else census(random)
        label = data.label
        found.append(_errors(data, past, random))
    for (words, limit), draws in zip(kinds.items(), zip(*found, strict=True), strict=True):
        ratios = [ours / other for ours, other in draws]
        ours, other = draws[int(np.argmax(ratios))]
        line = row(f"history, {past} 2-D ranges, {label}, RMSE of {words}", ours, other, limit)
        yield {**line, "unit": "rows", "note": "draws: " + ", ".join(f"{ratio:.3f} x" for ratio in ratios)}


def _errors(data: Census, past: int, random: np.random.Generator) -> tuple[tuple[float, float], ...]:
    """Of past questions synthetic data and raw answers, estimates and raw answers; of new ones both methods' best."""
    queries, truth, measured = _asked(data, past, NEW, random)
    raw = rms(np.array([float(each.values) for each in measured]) - truth[:past])
    both = BetterOfBoth(data.schema, measured, total=data.rows)
    rows = synthesize(data.schema, measured, total=data.rows, random=random).codes.T
    found = {
        "both": both.estimates(queries).values,
        "kernel": both.kernel.estimates(queries).values,
        "rows": np.array([_share(query, data.schema, rows) * data.rows for query in queries]),
    }
    before = {name: rms(values[:past] - truth[:past]) for name, values in found.items()}
    after = {name: rms(values[past:] - truth[past:]) for name, values in found.items()}
    return (before["rows"], raw), (before["both"], raw), (after["both"], min(after["kernel"], after["rows"]))


def _asked(
    data: Census, past: int, new: int, random: np.random.Generator
) -> tuple[list[Linear], NDArray[np.float64], list[Measurement]]:
    """Past and new ranges, their true counts, and noisy answers to the past ones."""
    noise = Noise(NoiseKind.LAPLACE, SCALE)
    queries = [_range(data.schema, random) for _ in range(past + new)]
    truth = np.array([_share(query, data.schema, data.codes) * data.rows for query in queries])
    raw = truth[:past] + np.round(random.laplace(0, SCALE, past))
    measured = [
        Measurement(query, np.array(value), variance=noise.variance, noise=noise, origin="benchmark")
        for query, value in zip(queries[:past], raw, strict=True)
    ]
    return queries, truth, measured


def _share(query: Linear, schema: Schema, codes: NDArray[Any]) -> float:
    inside = np.ones(codes.shape[1], np.bool_)
    for name, weights in query.terms[0].factors:
        inside &= np.array(weights, np.bool_)[codes[schema.positions[name]]]
    return float(inside.mean())


def _range(schema: Schema, random: np.random.Generator) -> Linear:
    factors = []
    for i in random.choice(len(schema.shape), 2, replace=False).tolist():
        low, high = np.sort(random.integers(0, schema.shape[i], 2))
        values = np.arange(schema.shape[i])
        factors.append((schema.names[i], tuple(((values >= low) & (values <= high)).astype(int).tolist())))
    return Linear((Term(1, tuple(factors)),))
