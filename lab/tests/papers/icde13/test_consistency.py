"""Consistency in L1, L2 and the largest difference."""

from __future__ import annotations

import math

import numpy as np
import pytest

from conftest import schema_of
from crosstally.errors import CrosstallyError, QueryError, TooManyCellsError
from crosstally.workload import Workload
from crosstally_lab.papers.icde13.consistency import consistent_answers, consistent_tables
from reference_fourier import marginal_matrix, nearest_by_cone_program


def distance(norm: str, difference: np.ndarray) -> float:
    if norm == "l1":
        return float(np.abs(difference).sum())
    return float(np.linalg.norm(difference)) if norm == "l2" else float(np.abs(difference).max())


AXES = {("a0", "a1"): (0, 1), ("a2", "a1"): (2, 1), ("a0",): (0,), (): ()}


@pytest.mark.parametrize("norm", ["l1", "l2", "largest"])
@pytest.mark.parametrize("seed", range(4))
def test_tables_agree_and_are_the_nearest(norm, seed) -> None:
    """Against another solver, or the pseudo-inverse, with a free variable for each cell of the full table."""
    rng = np.random.default_rng(seed)
    schema = schema_of(2, 3, 3)
    counts = rng.integers(0, 50, schema.shape)
    matrix = marginal_matrix(schema.shape, list(AXES.values()))
    truth = matrix @ counts.ravel()
    noisy = truth + rng.laplace(0, 8, len(truth))
    parts = np.split(noisy, np.cumsum([math.prod(schema.sizes(names)) for names in AXES])[:-1])
    given = {names: part.reshape(schema.sizes(names)) for names, part in zip(AXES, parts, strict=True)}
    found = consistent_tables(schema, given, norm=norm)
    flat = np.concatenate([found.tables[names].ravel() for names in AXES])
    assert np.allclose(matrix @ (np.linalg.pinv(matrix) @ flat), flat, atol=1e-6), "some table has them all"
    assert distance(norm, flat - noisy) == pytest.approx(found.distance, abs=1e-6)
    if norm == "l2":
        best = distance("l2", matrix @ (np.linalg.pinv(matrix) @ noisy) - noisy)
    else:
        best = nearest_by_cone_program(np.hstack([matrix, -matrix]), noisy, "total" if norm == "l1" else norm)
    assert found.distance == pytest.approx(best, rel=1e-6)
    assert distance(norm, flat - truth) <= 2 * distance(norm, noisy - truth) + 1e-9, "the error at most doubles"
    assert distance(norm, consistent_answers(matrix, noisy, norm=norm) - noisy) == pytest.approx(best, rel=1e-6)


def test_consistency_never_needs_the_full_table() -> None:
    """All pairs of 40 attributes: 2^40 cells, 821 coefficients."""
    schema = schema_of(*[2] * 40)
    rng = np.random.default_rng(0)
    tables = {names: rng.normal(100, 10, (2, 2)) for names in Workload.all_ways(schema, 2).tables[:120]}
    for norm in ("l2", "largest"):
        found = consistent_tables(schema, tables, norm=norm)
        sums = [table.sum() for table in found.tables.values()]
        assert np.ptp(sums) < 1e-6


def test_mistakes_about_consistency() -> None:
    schema = schema_of(2, 2)
    with pytest.raises(QueryError, match=r"the table of a0 must be finite numbers of shape \(2,\)"):
        consistent_tables(schema, {("a0",): [1.0, math.nan]})
    with pytest.raises(QueryError, match="norm must be l1, l2 or largest, got 'l3'"):
        consistent_tables(schema, {("a0",): [1.0, 2.0]}, norm="l3")
    with pytest.raises(QueryError, match="one number for each query"):
        consistent_answers(np.eye(2), [1.0])
    large = schema_of(60, 60)
    with pytest.raises(TooManyCellsError, match="12,960,000 entries"):
        consistent_tables(large, {("a0", "a1"): np.zeros((60, 60))}, norm="l1")
    rng = np.random.default_rng(0)
    wide = schema_of(*[5] * 30)
    tables = {names: rng.normal(size=(5, 5)) for names in Workload.all_ways(wide, 2).tables}
    with pytest.raises(CrosstallyError, match="did not finish; give it more time"):
        consistent_tables(wide, tables, norm="l1", time_limit=0.02)
