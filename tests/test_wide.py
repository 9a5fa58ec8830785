"""Schemas of 48 attributes and more: measured in groups, saved, opened, and read in the original values."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from conftest import schema_of
from crosstally.budget import Noise, NoiseKind
from crosstally.plans.plan import Plan
from crosstally.plans.request import Request
from crosstally.query.queries import MAX_CELLS, Cells, Product
from crosstally.schema import Schema
from crosstally.strategies.wide_schemas import groups_of_all
from wide_schema import wide_schema

ROWS = 2_000


def people(schema: Schema) -> pa.Table:
    draw = np.random.default_rng(1)
    return pa.table({a.name: draw.integers(0, a.size, ROWS) * draw.integers(0, 2, ROWS) for a in schema.attributes})


def plan_in_groups(schema: Schema, most_cells: int) -> Plan:
    """The total, every attribute in full, every pair in groups."""
    counts = {a.name: np.full(a.size, ROWS / a.size) for a in schema.attributes}
    groups = groups_of_all(schema, counts, rows_each=1, most_cells=most_cells)
    pairs = [Cells(pair, {n: groups[n] for n in pair if n in groups}) for pair in combinations(schema.names, 2)]
    queries = [Cells(()), *(Cells((name,)) for name in schema.names), *pairs]
    return Plan(
        schema,
        tuple(Request(query, Noise(NoiseKind.LAPLACE, 2.0)) for query in queries),
        strategy="by hand",
        workload=ct.Workload.small_tables(schema),
        budget=ct.Budget(epsilon=10_000),
        neighbours="add-remove",
    )


def test_a_release_of_many_attributes(tmp_path: Path) -> None:
    attributes, most_cells = 48, 8_000
    schema = wide_schema(attributes)
    assert sum(a * b for a, b in combinations(schema.shape, 2)) > MAX_CELLS
    plan = plan_in_groups(schema, most_cells)
    assert plan.cells < most_cells + 1 + sum(schema.shape)
    rows = people(schema)
    ct.release(rows, plan=plan).save(tmp_path / "r.parquet")
    release = ct.open_release(tmp_path / "r.parquet")
    assert len(release.measurements) == 1 + attributes + attributes * (attributes - 1) // 2
    first, second = (release.marginal(name) for name in schema.names[:2])
    pair = release.marginal(*schema.names[:2])
    assert pair.values.shape == schema.shape[:2]
    assert pair.values.sum(axis=1) == pytest.approx(first.values, abs=1e-3)
    assert pair.values.sum(axis=0) == pytest.approx(second.values, abs=1e-3)
    assert first.values.sum() == pytest.approx(ROWS, abs=20)
    largest = np.sum(rows[schema.names[0]].to_numpy() == 0)
    # Laplace noise of scale 2 is beyond 30 once in three million. The correction of a thousand small cells moves the
    # largest one by 14 (standard deviation of 20 releases): 100 is seven of these
    linear = release.refit(nonnegative="none").marginal(schema.names[0])
    assert linear.values[0] == pytest.approx(largest, abs=30)
    assert first.values[0] == pytest.approx(largest, abs=100)
    assert release.marginal(*schema.names[-3:]).values.shape == schema.shape[-3:]


# What cannot be had, and what to do


def test_pairs_that_nobody_can_hold_are_not_wanted() -> None:
    """Unless they are named."""
    schema = schema_of(3_000, 3_000, 3_000, 2)
    assert len(ct.Workload.small_tables(schema)) == 4 + 3
    with pytest.raises(ct.CrosstallyError, match="the table of a0 x a1 would have 9,000,000 cells, at most 5,000,000"):
        ct.Workload([("a0", "a1")]).for_schema(schema)


def test_limits_name_the_table_and_what_to_do() -> None:
    schema = schema_of(3_000, 3_000, 3_000)
    noise = Noise(NoiseKind.LAPLACE, 2.0)

    def plan(*queries: Product) -> Plan:
        requests = tuple(Request(query, noise) for query in queries)
        workload, budget = ct.Workload([("a0",)]), ct.Budget(epsilon=10)
        return Plan(schema, requests, strategy="t", workload=workload, budget=budget, neighbours="add-remove")

    too_large = "the table of a0 x a1 would have 9,000,000 cells, at most 5,000,000 fit: put values into groups"
    with pytest.raises(ct.CrosstallyError, match=too_large):
        plan(Cells(("a0", "a1")))
    halves = tuple(v // 2 for v in range(3_000))
    pairs = [Cells(pair, dict.fromkeys(pair, halves)) for pair in combinations(schema.names, 2)]
    together = "at most 5,000,000 cells can be measured at once, got 6,750,000, the largest table is a0 x a1"
    with pytest.raises(ct.CrosstallyError, match=together):
        plan(*pairs).check_countable()
    release = ct.release(pa.table({"a0": [1], "a1": [1], "a2": [1]}), plan=plan(Cells(("a0",)), Cells(("a1",))))
    with pytest.raises(ct.CrosstallyError, match="the table of a0 x a1 would have 9,000,000 cells.*fewer attributes"):
        release.marginal("a0", "a1")
